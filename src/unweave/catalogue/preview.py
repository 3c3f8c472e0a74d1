"""Preview a dataset: random observations, and a traversal of every factor."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from unweave.catalogue.palette import INK, MUTED
from unweave.catalogue.scatter import scatter
from unweave.core.noise import Noise
from unweave.data import MISSING, Dataset, Lattice, Schema
from unweave.data.pairs import PairedDataset
from unweave.report.pictures import (
    Array,
    ColourMap,
    are_pixels,
    colour_legend,
    colour_map,
    is_image,
    tiled,
)

Ints = NDArray[np.int64]

_COLUMNS = 12
_ROWS = 4  # of random observations
_LEAST = 64  # pixels below which images are enlarged
_MARGIN = 8
_LINE = 13  # pixels between lines of text
_POINTS = 5000
_SEARCHED = 2**20  # observations that are searched for a traversal


class Preview(NamedTuple):
    """An image of a dataset, and notes on what it does not show."""

    picture: Image.Image
    notes: tuple[str, ...]


class FactorTraversal(NamedTuple):
    """Indices of observations along a factor, and whether all other factors stay fixed."""

    name: str
    ends: str  # labels of the first and the last class
    rows: torch.Tensor
    others_fixed: bool


def preview_sheet(dataset: Dataset) -> Preview:
    """Draw random observations of a dataset, and below them a traversal of every factor.

    A traversal shows at most 12 classes of its factor while the other factors stay fixed. If some
    combinations of factors are missing, the others stay fixed as far as possible; a star marks rows
    in which they change too. Vectors are plotted as points, in two principal components if they
    have more than two values, coloured by the class of the first factor.
    """
    if not is_image(dataset.shape):
        index = _random_rows(dataset, min(dataset.size, _POINTS))
        return Preview(*scatter(dataset, index))
    count = min(dataset.size, _ROWS * _COLUMNS)
    sample = _observations(dataset, _random_rows(dataset, count))
    rows = [sample[first : first + _COLUMNS] for first in range(0, count, _COLUMNS)]
    names = [("at random", ""), *[("", "")] * (len(rows) - 1)]
    traversals = factor_traversals(dataset)
    for traversal in traversals:
        star = "" if traversal.others_fixed else " *"
        names.append((traversal.name + star, traversal.ends))
        rows.append(_observations(dataset, traversal.rows))
    colours = colour_map(sample, are_pixels(dataset.schema))
    picture, _, gap = tiled(rows, colours, _LEAST)
    notes = (*_colour_notes(colours, dataset.schema), *_notes(dataset, traversals))
    return Preview(_add_labels(picture.convert("RGBA"), names, gap, notes), notes)


def factor_traversals(dataset: Dataset) -> list[FactorTraversal]:
    """Find a traversal of every factor that has several classes; none for pairs."""
    if isinstance(dataset, PairedDataset) or not dataset.factor_names:
        return []
    if dataset.lattice is not None:
        return _on_lattice(dataset, dataset.lattice)
    index = _random_rows(dataset, min(dataset.size, _SEARCHED)).sort().values
    every = dataset.factors(index).cpu().numpy()
    # A number for each combination of factors, from which each factor can be subtracted again.
    weights: Ints = np.random.default_rng(0).integers(-(2**62), 2**62, (every.shape[1],))
    traversals = []
    for column in range(every.shape[1]):
        known = np.flatnonzero(every[:, column] != MISSING)
        codes = every[known]
        marks = codes @ weights
        classes = np.flatnonzero(np.bincount(codes[:, column]))
        if len(classes) > 1:
            others = marks - weights[column] * codes[:, column]
            rows, fixed = _search(codes, others, column, classes[_spaced(len(classes))])
            ends = _ends(dataset, column, classes)
            place = torch.from_numpy(known[rows]).to(index.device)
            name = dataset.factor_names[column]
            traversals.append(FactorTraversal(name, ends, index[place], fixed))
    return traversals


def _search(codes: Ints, others: Ints, column: int, shown: Ints) -> tuple[Ints, bool]:
    """Find rows of codes (N, K) along classes of a factor; also whether the others stay fixed.

    `others` (N,) numbers the combinations of the other factors. The traversal fixes one of the
    combinations that occur with the most classes. A class that does not occur with it is shown by
    the observation that differs in the fewest factors.
    """
    _, group = np.unique(others, return_inverse=True)
    count = int(codes[:, column].max()) + 1
    pairs = np.sort(group * count + codes[:, column])
    counts = np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // count)
    most = np.flatnonzero(counts == counts.max())
    first = np.flatnonzero(group == most[2 * len(most) // 3])[0]
    beside = np.delete(codes, column, 1)
    changed = (beside != beside[first]).sum(1)
    rows = np.array(
        [(here := np.flatnonzero(codes[:, column] == one))[changed[here].argmin()] for one in shown]
    )
    return rows, not changed[rows].any()


def _on_lattice(dataset: Dataset, lattice: Lattice) -> list[FactorTraversal]:
    # Fix classes past the middle; cyclic factors, such as hues, at different classes.
    middle = torch.tensor(
        [
            (2 * factor.size // 3 + 3 * column * (factor.kind == "cyclic")) % factor.size
            for column, factor in enumerate(lattice.members)
        ]
    )
    traversals = []
    for column, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
        if size > 1:
            classes = _spaced(size)
            factors = middle.repeat(len(classes), 1)
            factors[:, column] = torch.from_numpy(classes)
            ends = _ends(dataset, column, classes)
            traversals.append(FactorTraversal(name, ends, lattice.index(factors), True))
    return traversals


def _spaced(count: int) -> Ints:
    """Return some of the classes 0..count-1, evenly spaced, with both ends."""
    return torch.linspace(0, count - 1, min(count, _COLUMNS)).round().long().numpy()


def _ends(dataset: Dataset, column: int, classes: Ints) -> str:
    names = dataset.schema.class_names(column)
    return f"{names[int(classes[0])]} .. {names[int(classes[-1])]}"


def _colour_notes(colours: ColourMap, schema: Schema) -> tuple[str, ...]:
    legend = colour_legend(colours, schema)
    if len(colours.low) == 1 or not legend:
        return ()
    names = "; ".join(f"{entry.name} is {entry.text}" for entry in legend)
    return (f"false colours: {names}",)


def _notes(dataset: Dataset, traversals: list[FactorTraversal]) -> tuple[str, ...]:
    if isinstance(dataset, PairedDataset):
        return ("pairs have no traversals; the second image is below the first",)
    if not dataset.factor_names:
        return ("the factors are unknown, so there are no traversals",)
    if others := [each.name for each in traversals if not each.others_fixed]:
        gaps = f"no observations show all classes with the other factors fixed: {', '.join(others)}"
        return (f"* {gaps}; other factors change in these rows too",)
    return ()


def _random_rows(dataset: Dataset, count: int) -> torch.Tensor:
    """Draw different observations, always the same ones."""
    if dataset.size > 2**24:  # a permutation would be large, and repeats are unlikely
        return Noise(0, 0, "preview", dataset.device).integers(dataset.size, (count,), "rows")
    return Noise(0, 0, "preview", dataset.device).permutation(dataset.size, "rows")[:count]


def _observations(dataset: Dataset, index: torch.Tensor) -> Array:
    images: Array = dataset.images(index).cpu().numpy()
    if isinstance(dataset, PairedDataset):  # one image above the other
        return np.concatenate(np.split(images, 2, 1), 2)
    return images


def _add_labels(
    picture: Image.Image, names: list[tuple[str, str]], gap: int, notes: tuple[str, ...]
) -> Image.Image:
    """Put the picture on white, with a name and the ends to the left of each row."""
    probe = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left = int(max(probe.textlength(text) for name in names for text in name)) + 2 * _MARGIN
    width = max(left + picture.width, *(int(probe.textlength(n)) + _MARGIN for n in (*notes, "")))
    size = (width + _MARGIN, picture.height + 2 * _MARGIN + _LINE * len(notes))
    canvas = Image.new("RGB", size, "white")
    canvas.paste(picture, (left, _MARGIN), picture)
    draw = ImageDraw.Draw(canvas)
    height = (picture.height + gap) / len(names)
    for row, (name, ends) in enumerate(names):
        middle = _MARGIN + (row + 0.5) * height - gap / 2
        up = _LINE / 2 if ends else 0
        draw.text((_MARGIN, middle - up), name, fill=INK, anchor="lm")
        draw.text((_MARGIN, middle + up), ends, fill=MUTED, anchor="lm")
    for line, note in enumerate(notes):
        place = (_MARGIN, picture.height + 1.5 * _MARGIN + (line + 0.5) * _LINE)
        draw.text(place, note, fill=MUTED, anchor="lm")
    return canvas
