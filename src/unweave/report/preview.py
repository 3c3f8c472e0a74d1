"""A world at a glance: observations at random, and a walk along every factor."""

from __future__ import annotations

import colorsys

import numpy as np
import torch
from PIL import Image, ImageDraw

from unweave.data import Lattice, World
from unweave.noise import Noise
from unweave.report.pictures import Array, display_span, is_image, tiled

_COLUMNS = 12
_ROWS = 4  # of observations at random
_MARGIN = 8
_POINTS = 5000
_PLOT = 480  # pixels across a plot of points


def preview_sheet(world: World) -> Image.Image:
    """A picture of a world: observations at random above, and below a row for every factor.

    A row walks through the classes of its factor, at most 12 of them, while the others stay; it is
    there where the observations are all combinations of factors. Vectors are plotted as points, by
    their two principal components if they have more than two numbers, each in the colour of its
    class of the first factor.
    """
    if not is_image(world.shape):
        return _plot(world)
    count = min(world.size, _ROWS * _COLUMNS)
    some = _observations(world, _random_rows(world, count))
    rows = [some[first : first + _COLUMNS] for first in range(0, count, _COLUMNS)]
    names = ["at random", *[""] * (len(rows) - 1)]
    if world.lattice is not None:
        for name, walk in _walks(world.lattice):
            names.append(name)
            rows.append(_observations(world, walk))
    span = display_span(some, world.bounded)
    widest = max(len(row) for row in rows)
    blanks = [np.full((widest - len(row), *row.shape[1:]), span[1]) for row in rows]
    filled = [np.concatenate(pair) for pair in zip(rows, blanks, strict=True)]
    picture, _, gap = tiled(filled, span)
    return _labelled(picture.convert("RGBA"), names, gap)


def _random_rows(world: World, count: int) -> torch.Tensor:
    """Different observations, the same ones every time."""
    if world.size > 2**24:  # a permutation would be large, and none is likely to come twice
        return Noise(0, 0, "preview", world.device).integers(world.size, (count,), "rows")
    return Noise(0, 0, "preview", world.device).permutation(world.size, "rows")[:count]


def _observations(world: World, index: torch.Tensor) -> Array:
    images: Array = world.images(index).cpu().numpy()
    if images.shape[1] in (2, 6):  # pairs: one picture above the other
        return np.concatenate(np.split(images, 2, 1), 2)
    return images


def _walks(lattice: Lattice) -> list[tuple[str, torch.Tensor]]:
    """Numbers of observations along every factor that has several classes."""
    # Past the middle, and hues apart from each other.
    middle = torch.tensor(
        [
            (2 * factor.size // 3 + 3 * column * (factor.kind == "cyclic")) % factor.size
            for column, factor in enumerate(lattice.members)
        ]
    )
    walks = []
    for column, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
        if size > 1:
            classes = torch.linspace(0, size - 1, min(size, _COLUMNS)).round().long()
            factors = middle.repeat(len(classes), 1)
            factors[:, column] = classes
            walks.append((name, lattice.index(factors)))
    return walks


def _labelled(picture: Image.Image, names: list[str], gap: int) -> Image.Image:
    """The picture on white, with a name to the left of each row."""
    probe = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left = int(max(probe.textlength(name) for name in names)) + 2 * _MARGIN
    size = (left + picture.width + _MARGIN, picture.height + 2 * _MARGIN)
    canvas = Image.new("RGB", size, "white")
    canvas.paste(picture, (left, _MARGIN), picture)
    draw = ImageDraw.Draw(canvas)
    height = (picture.height + gap) / len(names)
    for row, name in enumerate(names):
        place = (_MARGIN, _MARGIN + (row + 0.5) * height - gap / 2)
        draw.text(place, name, fill="black", anchor="lm")
    return canvas


def planar(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors (N, D) as points (N, 2): their two principal components where D > 2."""
    if vectors.shape[1] > 2:
        centred = vectors - vectors.mean(0)
        vectors = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T
    return torch.nn.functional.pad(vectors, (0, 2 - vectors.shape[1]))


def _plot(world: World) -> Image.Image:
    """Vectors as points of the plane, all to one scale."""
    index = _random_rows(world, min(world.size, _POINTS))
    points = planar(world.images(index).flatten(1).double().cpu()).numpy()
    low, high = points.min(0), points.max(0)
    span = max(float((high - low).max()), 1e-9)
    places = _MARGIN + (_PLOT - 2 * _MARGIN) * (0.5 + (points - (low + high) / 2) / span)
    classes = world.factors(index)[:, 0].tolist() if world.factor_names else [0] * len(points)
    count = world.factor_sizes[0] if world.factor_names else 1
    canvas = Image.new("RGB", (_PLOT, _PLOT), "white")
    draw = ImageDraw.Draw(canvas)
    for (x, y), label in zip(places, classes, strict=True):
        colour = tuple(round(255 * c) for c in colorsys.hsv_to_rgb(label / count, 1, 0.8))
        draw.ellipse((x - 2, _PLOT - y - 2, x + 2, _PLOT - y + 2), fill=colour)
    return canvas
