"""The charts of a report, each from the numbers it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from unweave.data import Factor
from unweave.metrics import Table
from unweave.report.charts import Frame, Panel, Span, padded, ticks
from unweave.report.content import Array, Content, Told, Variable
from unweave.report.text import number, short, symbol, words
from unweave.schedules import Cyclic, Linear, at

Floats = NDArray[np.float64]

_EARLY = 0.05  # share of the log that may leave the frame, where training starts far off
_BINS = 48
_FAINT = 0.03  # normalised information below which a second variable is not drawn


def curves(content: Content) -> list[Panel]:
    """Every term of the log over the steps, unweighted, and then the weights that change."""
    log, run = content.model.log, content.model.run
    names = [name for name in (log[0] if log else {}) if name != "step"]
    panels = [_curve(name, log) for name in names]
    return panels + [_weight(n, weight, run.steps) for n, weight in scheduled(content).items()]


def scheduled(content: Content) -> dict[str, Linear | Cyclic]:
    """The weights that change during training."""
    weights = content.model.run.weights
    return {name: w for name, w in weights.items() if isinstance(w, (Linear, Cyclic))}


def _curve(name: str, log: Sequence[dict[str, Any]]) -> Panel:
    rows = [row for row in log if name in row]
    steps, values = [row["step"] for row in rows], [row[name] for row in rows]
    frame = Frame((0, steps[-1] * 1.02), _settled_span(values))
    marks = [frame.line(steps, values, "a"), frame.dots(steps[-1:], values[-1:], "a")]
    remark = Markup("{} <small>nats</small>").format(number(values[-1]))
    return Panel(words(name), remark, _draw_over_steps(frame, marks, name))


def _weight(name: str, weight: Linear | Cyclic, steps: int) -> Panel:
    grid = np.linspace(0, steps, 400).round().astype(int).tolist()
    values = [at(weight, step) for step in grid]
    frame = Frame((0, steps * 1.02), padded(min(0.0, *values), max(values)))
    remark = Markup("{} <small>weight</small>").format(short(values[-1]))
    drawing = _draw_over_steps(frame, [frame.line(grid, values, "b")], f"weight {name}")
    return Panel(words(name), remark, drawing)


def _draw_over_steps(frame: Frame, marks: Sequence[Markup], name: str) -> Markup:
    label = f"{words(name)} over training steps"
    return frame.draw(marks, label, ticks(frame.x), ticks(frame.y))


def _settled_span(values: Sequence[float]) -> Span:
    """The range of a curve, without its first moments where these would flatten all the rest."""
    late = values[int(len(values) * _EARLY) :]
    low, high = min(late), max(late)
    if max(values) - min(values) > 1.5 * (high - low) > 0:
        return padded(low, high)
    return padded(min(values), max(values))


def histograms(content: Content) -> list[Panel]:
    """Samples of q(z_j) and the density p(z_j), a panel a variable, all over the same range."""
    samples = content.samples()
    columns = [variable.column for variable in content.shown]
    far = float(np.quantile(np.abs(samples[:, columns]), 0.999)) if columns else 3.0
    reach = min(8.0, max(3.0, math.ceil(far)))
    edges = np.linspace(-reach, reach, _BINS + 1)
    grid = np.linspace(-reach, reach, 121, dtype=np.float32)
    wide = torch.as_tensor(grid, device=content.prior.mean.device)[:, None]
    prior = content.prior.log_marginals(wide.expand(-1, samples.shape[1])).exp().cpu().numpy()
    return [
        _histogram(v, samples[:, v.column], edges, grid, prior[:, v.column]) for v in content.shown
    ]


def _histogram(v: Variable, samples: Array, edges: Array, grid: Array, prior: Array) -> Panel:
    width = edges[1] - edges[0]
    density = np.histogram(samples, edges)[0] / len(samples) / width
    top = max(float(density.max()), float(prior.max())) * 1.06
    span = (float(edges[0]), float(edges[-1]))
    frame = Frame(span, (0, top), width=150, height=64, left=4, right=4, top=4, bottom=18)
    marks = [
        frame.bars(edges.tolist(), density.tolist(), "a"),
        frame.line(grid.tolist(), prior.tolist(), "ink"),
        frame.level(0),
    ]
    label = f"histogram of q(z) and prior density of variable {v.name}"
    x_ticks = {value: short(value) for value in (span[0] + 1, 0.0, span[1] - 1)}
    mean, std = float(samples.mean()), float(samples.std())
    remark = Markup("<small>{} ± {}</small>").format(number(mean), number(std))
    return Panel(symbol(v.name), remark, frame.draw(marks, label, x_ticks, {}))


class Trace(NamedTuple):
    """Mean and standard deviation of a code at every value of a factor."""

    variable: Variable
    share: float
    means: Floats
    spread: Floats


def responses(content: Content) -> list[Panel]:
    """The mean of the code against the value of a factor, for the variables that tell most.

    All over one range: a flat line is a variable that does not react.
    """
    traces = [_traces(told, content.table) for told in content.told]
    every = [trace for panel in traces for trace in panel]
    low = min((float((t.means - t.spread).min()) for t in every), default=-1.0)
    high = max((float((t.means + t.spread).max()) for t in every), default=1.0)
    span = padded(min(low, -1.0), max(high, 1.0), 0.05)
    return [
        _response(told, found, content.table, span)
        for told, found in zip(content.told, traces, strict=True)
    ]


def _traces(told: Told, table: Table) -> list[Trace]:
    """The best variable, and the second if it tells something."""
    classes = table.factors[:, told.column]
    groups = [table.codes[classes == value].astype(np.float64) for value in np.unique(classes)]
    means, spread = (np.stack([f(group, axis=0) for group in groups]) for f in (np.mean, np.std))
    first, *second = told.best
    return [
        Trace(v, share, means[:, v.column], spread[:, v.column])
        for v, share in (first, *(pair for pair in second if pair[1] >= _FAINT))
    ]


def _response(told: Told, traces: list[Trace], table: Table, span: Span) -> Panel:
    factor = told.factor
    xs = [_quantity(factor, int(v)) for v in np.unique(table.factors[:, told.column])]
    frame = Frame(padded(min(xs), max(xs), 0.05), span, left=26)
    styled = list(zip(traces, "ab", strict=False))
    marks = [
        mark
        for trace, style in reversed(styled)
        for mark in _trace(frame, xs, trace, style, factor.kind == "categorical")
    ]
    remark = Markup(" ").join(
        Markup('<span class="key {}">{} {:.2f}</span>').format(
            style, symbol(trace.variable.name), trace.share
        )
        for trace, style in styled
    )
    label = f"mean code against {factor.name}"
    return Panel(
        factor.name, remark, frame.draw(marks, label, _factor_ticks(factor, xs), ticks(span))
    )


def _trace(frame: Frame, xs: list[float], trace: Trace, style: str, apart: bool) -> list[Markup]:
    """Means with one standard deviation about them: a band, or a bar at each separate value."""
    means = trace.means.tolist()
    low, high = (trace.means - trace.spread).tolist(), (trace.means + trace.spread).tolist()
    if apart:
        bars = [frame.line((x, x), ends, style) for x, *ends in zip(xs, low, high, strict=True)]
        return [*bars, frame.dots(xs, means, style)]
    dots = [frame.dots(xs, means, style)] if len(xs) <= 20 else []
    return [frame.area(xs, low, high, f"{style} band"), frame.line(xs, means, style), *dots]


def _quantity(factor: Factor, value: int) -> float:
    """What a class of a factor stands for; a category is only a place on the axis."""
    if factor.values is None or factor.kind == "categorical":
        return float(value)
    return factor.values[value]


def _factor_ticks(factor: Factor, xs: list[float]) -> dict[float, str]:
    if factor.kind == "categorical" and len(xs) <= 6:
        labels = factor.labels or tuple(map(str, range(factor.size)))
        return {x: labels[int(x)] for x in xs}
    if factor.kind == "cyclic" and math.isclose(xs[-1], 2 * math.pi):
        return {0.0: "0", math.pi: "π", 2 * math.pi: "2π"}
    return ticks((min(xs), max(xs)))


def profiles(originals: Array, reconstructions: Array) -> list[Panel]:
    """Observations that are vectors (n, D), each with its reconstruction as a line over it."""
    span = padded(float(originals.min()), float(originals.max()))
    pairs = zip(originals.tolist(), reconstructions.tolist(), strict=True)
    return [
        _profile([(x, "ink"), (y, "a")], span, f"example {n + 1}") for n, (x, y) in enumerate(pairs)
    ]


def walks(content: Content, decoded: Array) -> list[Panel]:
    """Traversals of vectors (V, n, D): a panel a variable, a line a value from low to high."""
    if not content.shown:
        return []
    span = padded(float(decoded.min()), float(decoded.max()))
    styles = [f"walk w{round(10 * n / (decoded.shape[1] - 1))}" for n in range(decoded.shape[1])]
    return [
        _profile(list(zip(lines.tolist(), styles, strict=True)), span, symbol(v.name), v)
        for v, lines in zip(content.shown, decoded, strict=True)
    ]


def overlay(samples: Array) -> Panel:
    """Vectors drawn over one another."""
    span = padded(float(samples.min()), float(samples.max()))
    return _profile([(line, "thin a") for line in samples.tolist()], span, "draws of the prior")


def _profile(
    lines: list[tuple[list[float], str]], span: Span, title: Markup | str, v: Variable | None = None
) -> Panel:
    count = len(lines[0][0])
    frame = Frame(padded(0, count - 1, 0.03), span, left=34)
    xs = [float(i) for i in range(count)]
    marks = [frame.line(xs, values, style) for values, style in lines]
    if count <= 24:
        marks += [frame.dots(xs, values, style) for values, style in lines]
    remark = Markup("<small>KL {:.2f} nats</small>").format(v.kl) if v else ""
    x_ticks = {x: text for x, text in ticks(frame.x).items() if x == int(x)}
    label = "values of an observation by their number"
    return Panel(title, remark, frame.draw(marks, label, x_ticks, ticks(span)))
