"""Scatter plots of vector data: points with axes, coloured by the classes of a factor."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from unweave.catalogue.palette import (
    INK,
    LINE,
    MISSING_LABEL,
    MUTED,
    Rgb,
    class_colour,
    scale_colour,
)
from unweave.data import MISSING, Dataset
from unweave.report.charts import Span, padded, ticks

_SIDE = 420  # pixels across the plot
_LEFT, _TOP, _BOTTOM = 62, 12, 44
_LINE = 14  # pixels between lines of text
_LEGEND = 20  # classes in the legend
_UNEQUAL = 4.0  # ratio of ranges above which the axes have different scales
Legend = list[tuple[int | None, str]]


def scatter(dataset: Dataset, index: torch.Tensor) -> tuple[Image.Image, tuple[str, ...]]:
    """Plot observations of a dataset of vectors as points; also note what is not shown.

    The axes are the values in the user's units if there are at most two, otherwise principal
    components of the values after scaling.
    """
    vectors = dataset.images(index).flatten(1).double().cpu()
    if vectors.shape[1] <= 2:
        values = dataset.schema.scaling.invert(vectors.float().numpy())
        vectors = torch.from_numpy(values).double()
    points = planar(vectors)
    classes = dataset.factors(index)[:, 0].tolist() if dataset.factor_names else [0] * len(points)
    colours = [*_class_colours(dataset), MISSING_LABEL]  # MISSING is -1, the last
    legend = _legend(dataset, classes)
    notes = _notes(dataset, len(index))
    canvas = Image.new("RGB", _size(legend, notes), "white")
    x, y = _spans(points.numpy(), vectors.shape[1] > 2)
    _axes(canvas, (x, y), _axis_names(dataset, vectors, points))
    draw = ImageDraw.Draw(canvas)
    for (a, b), label in zip(points.tolist(), classes, strict=True):
        across, down = _place(a, b, x, y)
        draw.ellipse((across - 2, down - 2, across + 2, down + 2), fill=colours[label])
    for line, (number, text) in enumerate(legend):
        at = (_LEFT + _SIDE + 12, _TOP + (line + 0.5) * _LINE)
        if number is not None:
            dot = (at[0], at[1] - 3, at[0] + 6, at[1] + 3)
            draw.ellipse(dot, fill=colours[number])
        draw.text((at[0] + (12 if number is not None else 0), at[1]), text, INK, anchor="lm")
    for line, note in enumerate(notes):
        place = (8, _TOP + _SIDE + _BOTTOM + (line + 0.5) * _LINE)
        draw.text(place, note, MUTED, anchor="lm")
    return canvas, notes


def _class_colours(dataset: Dataset) -> list[Rgb]:
    """Return the colours of the classes of the first factor, on a scale if they have an order."""
    if not dataset.factor_names:
        return [class_colour(0)]
    size = dataset.factor_sizes[0]
    if dataset.schema.factor(0).kind == "categorical":
        return [class_colour(number) for number in range(size)]
    return [scale_colour(number / max(size - 1, 1)) for number in range(size)]


def planar(vectors: torch.Tensor) -> torch.Tensor:
    """Project vectors (N, D) to points (N, 2): to two principal components if D > 2."""
    if vectors.shape[1] > 2:
        centred = vectors - vectors.mean(0)
        vectors = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T
    return torch.nn.functional.pad(vectors, (0, 2 - vectors.shape[1]))


def _axis_names(dataset: Dataset, vectors: torch.Tensor, points: torch.Tensor) -> tuple[str, str]:
    count = vectors.shape[1]
    if count <= 2:
        names = dataset.schema.value_names or tuple(f"value {n}" for n in range(count))
        return (names[0], names[1]) if count == 2 else (names[0], "")
    total = float(vectors.var(0, correction=0).sum()) or 1.0
    first, second = (float(each) / total for each in points.var(0, correction=0))
    name = f"principal component {{}} of {count} values, {{:.0%}} of the variance"
    return name.format(1, first), name.format(2, second)


def _notes(dataset: Dataset, shown: int) -> tuple[str, ...]:
    notes = (
        [f"{shown:,} of {dataset.size:,} observations, at random"] if shown < dataset.size else []
    )
    if not dataset.factor_names:
        notes.append("the factors are unknown: all points have the same colour")
    elif others := dataset.factor_names[1:]:
        notes.append(
            f"colours are classes of {dataset.factor_names[0]}; not shown: {', '.join(others)}"
        )
    return tuple(notes)


def _legend(dataset: Dataset, classes: Sequence[int]) -> Legend:
    """List the classes that the colours stand for, below the name of their factor."""
    if not dataset.factor_names:
        return []
    names, present = dataset.schema.class_names(0), sorted({*classes} - {MISSING})
    places = sorted({round(each) for each in np.linspace(0, len(present) - 1, _LEGEND).tolist()})
    legend: Legend = [(None, dataset.factor_names[0])]
    legend += [(present[place], names[present[place]]) for place in places]
    if len(places) < len(present):
        legend.append((None, f"{len(places)} of {len(present)} classes"))
    return [*legend, (MISSING, "no label")] if MISSING in classes else legend


def _size(legend: Legend, notes: Sequence[str]) -> tuple[int, int]:
    """Return the size of the image, with space for the legend and the notes."""
    probe = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    widest = max((int(probe.textlength(text)) + 40 for _, text in legend), default=16)
    longest = max((int(probe.textlength(text)) + 16 for text in notes), default=0)
    return max(_LEFT + _SIDE + widest, longest), _TOP + _SIDE + _BOTTOM + _LINE * len(notes)


def _spans(points: NDArray[Any], same_scale: bool) -> tuple[Span, Span]:
    """Return the ranges of the axes: equally long, unless the values differ much in scale."""
    spans = [padded(float(each.min()), float(each.max()), 0.04) for each in points.T]
    lengths = [high - low for low, high in spans]
    if not same_scale and max(lengths) > _UNEQUAL * min(lengths):
        return spans[0], spans[1]
    half = max(lengths) / 2
    x, y = (((low + high) / 2 - half, (low + high) / 2 + half) for low, high in spans)
    return x, y


def _place(a: float, b: float, x: Span, y: Span) -> tuple[float, float]:
    across = _LEFT + _SIDE * (a - x[0]) / (x[1] - x[0])
    return across, _TOP + _SIDE * (y[1] - b) / (y[1] - y[0])


def _axes(canvas: Image.Image, spans: tuple[Span, Span], names: tuple[str, str]) -> None:
    draw, (x, y) = ImageDraw.Draw(canvas), spans
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    for value, text in ticks(x).items():
        across, _ = _place(value, y[0], x, y)
        draw.line((across, _TOP, across, bottom + 4), LINE)
        draw.text((across, bottom + 6), _plain(text), INK, anchor="mt")
    for value, text in (ticks(y) if names[1] else {}).items():
        _, down = _place(x[0], value, x, y)
        draw.line((_LEFT - 4, down, right, down), LINE)
        draw.text((_LEFT - 7, down), _plain(text), INK, anchor="rm")
    draw.rectangle((_LEFT, _TOP, right, bottom), outline=MUTED)
    draw.text(((_LEFT + right) / 2, bottom + 24), names[0], MUTED, anchor="mt")
    vertical = Image.new("RGB", (_SIDE, _LINE), "white")
    ImageDraw.Draw(vertical).text((_SIDE / 2, _LINE / 2), names[1], MUTED, anchor="mm")
    canvas.paste(vertical.rotate(90, expand=True), (4, _TOP))


def _plain(text: str) -> str:
    return text.replace("−", "-")  # the font has no minus sign
