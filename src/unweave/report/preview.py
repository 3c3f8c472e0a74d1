"""A dataset at a glance: observations at random, and a walk along every factor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from unweave.core.noise import Noise
from unweave.data import Dataset, Lattice
from unweave.data.sampling import Pairs
from unweave.report.pictures import Array, display_span, is_image, tiled
from unweave.report.scatter import class_names, scatter

Ints = NDArray[np.int64]

_COLUMNS = 12
_ROWS = 4  # of observations at random
_MARGIN = 8
_LINE = 13  # pixels from one line of text to the next
_POINTS = 5000
_LOOKED_THROUGH = 2**20  # observations that a walk is looked for in
_FAINT = (120, 120, 120)


class Preview(NamedTuple):
    """A picture of a dataset, and what it does not show, or not as one would think."""

    picture: Image.Image
    notes: tuple[str, ...]


class Walk(NamedTuple):
    """Observations along a factor, by their numbers, and whether all other factors stay."""

    name: str
    ends: str  # what the first and the last class are called
    rows: torch.Tensor
    alone: bool


def preview_sheet(dataset: Dataset) -> Preview:
    """A picture of a dataset: observations at random above, and below a row for every factor.

    A row walks through the classes of its factor, at most 12 of them, while the others stay. Where
    the observations are not all combinations of factors, they stay as far as there are observations
    that differ in this factor alone; a star marks rows in which others change too. Vectors are
    plotted as points, by their two principal components if they have more than two numbers, each in
    the colour of its class of the first factor.
    """
    if not is_image(dataset.shape):
        index = _random_rows(dataset, min(dataset.size, _POINTS))
        return Preview(*scatter(dataset, index))
    count = min(dataset.size, _ROWS * _COLUMNS)
    some = _observations(dataset, _random_rows(dataset, count))
    rows = [some[first : first + _COLUMNS] for first in range(0, count, _COLUMNS)]
    names = [("at random", ""), *[("", "")] * (len(rows) - 1)]
    found = walks(dataset)
    for walk in found:
        names.append((walk.name + ("" if walk.alone else " *"), walk.ends))
        rows.append(_observations(dataset, walk.rows))
    span = display_span(some, dataset.bounded)
    widest = max(len(row) for row in rows)
    blanks = [np.full((widest - len(row), *row.shape[1:]), span[1]) for row in rows]
    filled = [np.concatenate(pair) for pair in zip(rows, blanks, strict=True)]
    picture, _, gap = tiled(filled, span)
    notes = _notes(dataset, found)
    return Preview(_labelled(picture.convert("RGBA"), names, gap, notes), notes)


def walks(dataset: Dataset) -> list[Walk]:
    """A walk along every factor that has several classes; none along factors of pairs."""
    if isinstance(dataset, Pairs) or not dataset.factor_names:
        return []
    if dataset.lattice is not None:
        return _on_lattice(dataset, dataset.lattice)
    index = _random_rows(dataset, min(dataset.size, _LOOKED_THROUGH)).sort().values
    codes = dataset.factors(index).cpu().numpy()
    # A number for each combination of factors, from which a factor can be taken out again.
    weights: Ints = np.random.default_rng(0).integers(-(2**62), 2**62, (codes.shape[1],))
    marks = codes @ weights
    found = []
    for column in range(codes.shape[1]):
        classes = np.flatnonzero(np.bincount(codes[:, column]))
        if len(classes) > 1:
            others = marks - weights[column] * codes[:, column]
            rows, alone = _among(codes, others, column, classes[_spaced(len(classes))])
            ends = _ends(dataset, column, classes)
            place = torch.from_numpy(rows).to(index.device)
            found.append(Walk(dataset.factor_names[column], ends, index[place], alone))
    return found


def _among(codes: Ints, others: Ints, column: int, shown: Ints) -> tuple[Ints, bool]:
    """Rows of observations (N, K) along classes of a factor, and whether they differ in it alone.

    `others` (N,) has a number for each combination of the other factors. Of the combinations that
    occur with the most classes the one past the middle stays; a class that does not occur with it
    is shown by the observation that differs from it in the fewest factors.
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


def _on_lattice(dataset: Dataset, lattice: Lattice) -> list[Walk]:
    # Past the middle, and hues apart from each other.
    middle = torch.tensor(
        [
            (2 * factor.size // 3 + 3 * column * (factor.kind == "cyclic")) % factor.size
            for column, factor in enumerate(lattice.members)
        ]
    )
    found = []
    for column, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
        if size > 1:
            classes = _spaced(size)
            factors = middle.repeat(len(classes), 1)
            factors[:, column] = torch.from_numpy(classes)
            ends = _ends(dataset, column, classes)
            found.append(Walk(name, ends, lattice.index(factors), True))
    return found


def _spaced(count: int) -> Ints:
    """Places of some of a number of classes, evenly spaced, both ends among them."""
    places: Ints = torch.linspace(0, count - 1, min(count, _COLUMNS)).round().long().numpy()
    return places


def _ends(dataset: Dataset, column: int, classes: Ints) -> str:
    names = class_names(dataset, column)
    return f"{names[int(classes[0])]} .. {names[int(classes[-1])]}"


def _notes(dataset: Dataset, found: list[Walk]) -> tuple[str, ...]:
    if isinstance(dataset, Pairs):
        return ("pairs, the second picture below the first: there are no walks along factors",)
    if not dataset.factor_names:
        return ("no factors are known: there are no walks along them",)
    if others := [walk.name for walk in found if not walk.alone]:
        gaps = f"no observations show all their classes with all else equal: {', '.join(others)}"
        return (f"* {gaps}; along these rows other factors change too",)
    return ()


def _random_rows(dataset: Dataset, count: int) -> torch.Tensor:
    """Different observations, the same ones every time."""
    if dataset.size > 2**24:  # a permutation would be large, and none is likely to come twice
        return Noise(0, 0, "preview", dataset.device).integers(dataset.size, (count,), "rows")
    return Noise(0, 0, "preview", dataset.device).permutation(dataset.size, "rows")[:count]


def _observations(dataset: Dataset, index: torch.Tensor) -> Array:
    images: Array = dataset.images(index).cpu().numpy()
    if isinstance(dataset, Pairs):  # one picture above the other
        return np.concatenate(np.split(images, 2, 1), 2)
    return images


def _labelled(
    picture: Image.Image, names: list[tuple[str, str]], gap: int, notes: tuple[str, ...]
) -> Image.Image:
    """The picture on white, with a name to the left of each row, and what is under it smaller."""
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
        draw.text((_MARGIN, middle - up), name, fill="black", anchor="lm")
        draw.text((_MARGIN, middle + up), ends, fill=_FAINT, anchor="lm")
    for line, note in enumerate(notes):
        place = (_MARGIN, picture.height + 1.5 * _MARGIN + (line + 0.5) * _LINE)
        draw.text(place, note, fill=_FAINT, anchor="lm")
    return canvas
