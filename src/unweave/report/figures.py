"""The charts of a report, each from the numbers it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from unweave.core.schedules import Schedule
from unweave.data import Factor
from unweave.evaluation.evaluate import AggregateName
from unweave.metrics import Table
from unweave.report.charts import Frame, Panel, Span, padded, ticks
from unweave.report.content import Array, Content, Told, Variable
from unweave.report.text import number, short, symbol, words

Floats = NDArray[np.float64]

_EARLY = 0.05  # share of the log that may leave the frame, where training starts far off
_BINS = 48
_GRID = 241  # points at which the density of a prior is drawn
_MOST_OF = (0.0005, 0.9995)  # quantiles of the samples that are drawn
_FAINT = 0.03  # normalised information below which a second variable is not drawn


def curves(content: Content) -> list[Panel]:
    """Every term of the log over the steps, unweighted, and then the weights that change."""
    log, run = content.model.log, content.model.run
    names = [name for name in (log[0] if log else {}) if name != "step"]
    panels = [
        _curve(name, log, "" if name in run.objective.not_in_nats else "nats") for name in names
    ]
    return panels + [_weight(n, weight, run.steps) for n, weight in scheduled(content).items()]


def measured(content: Content) -> list[Panel]:
    """Every term and metric that was measured during training, over the steps."""
    not_in_nats = content.model.run.objective.not_in_nats
    aggregates = get_args(AggregateName)
    panels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in content.model.measures:
        for kind in ("terms", "metrics"):
            for name, value in row.get(kind, {}).items():
                if value is not None:
                    panels.setdefault((kind, name), []).append({"step": row["step"], name: value})
    return [
        _curve(name, rows, "nats" if _in_nats(kind, name, not_in_nats, aggregates) else "")
        for (kind, name), rows in panels.items()
    ]


def _in_nats(kind: str, name: str, not_in_nats: Sequence[str], aggregates: Sequence[str]) -> bool:
    return name not in not_in_nats if kind == "terms" else name in aggregates


def scheduled(content: Content) -> dict[str, Schedule]:
    """The weights that change during training."""
    weights = content.model.run.weights
    return {name: w for name, w in weights.items() if isinstance(w, Schedule)}


def _curve(name: str, log: Sequence[dict[str, Any]], unit: str) -> Panel:
    rows = [row for row in log if name in row]
    steps, values = [row["step"] for row in rows], [row[name] for row in rows]
    frame = Frame((0, steps[-1] * 1.02), _settled_span(values))
    marks = [frame.line(steps, values, "a"), frame.dots(steps[-1:], values[-1:], "a")]
    remark = Markup("{} <small>{}</small>").format(number(values[-1]), unit)
    return Panel(words(name), remark, _draw_over_steps(frame, marks, name))


def _weight(name: str, weight: Schedule, steps: int) -> Panel:
    grid = np.linspace(0, steps, 400).round().astype(int).tolist()
    values = [weight(step) for step in grid]
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


def marginals(content: Content) -> list[Panel]:
    """q(z_j) against p(z_j), a panel a variable: a histogram, or bars for the classes."""
    spans = _spans(content)
    prior = _densities(content, spans)
    return [
        _classes(v, *content.masses(v))
        if v.discrete
        else _histogram(v, content.samples[:, v.columns], spans[v.number], prior[:, v.number])
        for v in content.shown
    ]


def _spans(content: Content) -> dict[int, Span]:
    """The range drawn of each continuous variable, by number: nearly all samples, and the prior.

    Variables with the same prior are drawn over the same range.
    """
    groups: dict[Span, list[Variable]] = {}
    for v in content.shown:
        if not v.discrete:
            walk = content.walks[v.number]
            groups.setdefault((float(walk[0, 0]), float(walk[-1, 0])), []).append(v)
    spans: dict[int, Span] = {}
    for (low, high), members in groups.items():
        found = [np.quantile(content.samples[:, v.columns], _MOST_OF) for v in members]
        tail = (high - low) / 4
        ends = np.concatenate([*found, [low - tail, high + tail]])
        span = float(ends.min()), float(ends.max())
        spans |= {v.number: span for v in members}
    return spans


def _densities(content: Content, spans: dict[int, Span]) -> Array:
    """The prior's density of every variable over its span, (_GRID, V)."""
    grid = np.zeros((_GRID, content.samples.shape[1]), np.float32)
    for n, span in spans.items():
        grid[:, content.model.run.latent.columns[n]] = np.linspace(*span, _GRID)[:, None]
    points = torch.as_tensor(grid, device=content.prior.mean.device)
    found: Array = content.prior.log_marginals(points).exp().cpu().numpy()
    return found


def _histogram(v: Variable, samples: Array, span: Span, prior: Array) -> Panel:
    edges, grid = np.linspace(*span, _BINS + 1), np.linspace(*span, _GRID)
    density = np.histogram(samples, edges)[0] / len(samples) / (edges[1] - edges[0])
    # The peak of a narrow prior may leave the frame: else the histogram would be flat.
    top = max(float(density.max()), min(float(prior.max()), 2 * float(density.max()))) * 1.06
    frame = _small(span, top)
    marks = [
        frame.bars(edges.tolist(), density.tolist(), "a"),
        frame.line(grid.tolist(), prior.tolist(), "ink"),
        frame.level(0),
    ]
    label = f"histogram of q(z) and prior density of variable {v.name}"
    mean, std = float(samples.mean()), float(samples.std())
    remark = Markup("<small>{} ± {}</small>").format(number(mean), number(std))
    return Panel(symbol(v.name), remark, frame.draw(marks, label, ticks(span), {}))


def _classes(v: Variable, q: Array, p: Array) -> Panel:
    """Bars of the masses q(c), with a line at p(c) over each."""
    places = range(len(q))
    frame = _small((-0.6, len(q) - 0.4), max(float(q.max()), float(p.max())) * 1.06)
    bars = [frame.bars((c - 0.36, c + 0.36), (float(q[c]),), "a") for c in places]
    lines = [frame.line((c - 0.46, c + 0.46), (float(p[c]),) * 2, "ink") for c in places]
    label = f"masses of the classes of variable {v.name} and of its prior"
    remark = Markup("<small>{} classes</small>").format(len(q))
    drawing = frame.draw([*bars, *lines, frame.level(0)], label, _class_ticks(len(q)), {})
    return Panel(symbol(v.name), remark, drawing)


def _small(span: Span, top: float) -> Frame:
    return Frame(span, (0, top), width=150, height=64, left=4, right=4, top=4, bottom=18)


def _class_ticks(count: int) -> dict[float, str]:
    """Numbers for some classes, spread evenly."""
    return {float(c): str(c) for c in range(0, count, -(-count // 10))}


class Trace(NamedTuple):
    """Mean and standard deviation of a code at every value of a factor."""

    variable: Variable
    share: float
    means: Floats
    spread: Floats


def responses(content: Content) -> list[Panel]:
    """The code against the value of a factor, for the variables that tell most.

    Means of continuous codes, all over one range: a flat line is a variable that does not react.
    Of a discrete variable, how often each class is the likeliest.
    """
    traces = [_traces(told, content.table) for told in content.told]
    every = [trace for panel in traces for trace in panel]
    low = min((float((t.means - t.spread).min()) for t in every), default=-1.0)
    high = max((float((t.means + t.spread).max()) for t in every), default=1.0)
    span = padded(min(low, -1.0), max(high, 1.0), 0.05)
    return [
        _response(told, found, content.table, span) if found else _class_response(told, content)
        for told, found in zip(content.told, traces, strict=True)
    ]


def _traces(told: Told, table: Table) -> list[Trace]:
    """The best variable and the second if it tells something; none if the best is discrete."""
    if told.by_class:
        return []
    classes = table.factors[:, told.column]
    groups = [table.codes[classes == value].astype(np.float64) for value in np.unique(classes)]
    means, spread = (np.stack([f(group, axis=0) for group in groups]) for f in (np.mean, np.std))
    first, *second = told.best
    drawn = [first, *((v, share) for v, share in second if share >= _FAINT and not v.discrete)]
    return [Trace(v, share, means[:, v.number], spread[:, v.number]) for v, share in drawn]


def _response(told: Told, traces: list[Trace], table: Table, span: Span) -> Panel:
    factor = told.factor
    xs = _quantities(told, table)
    frame = Frame(padded(min(xs), max(xs), 0.05), span, left=26)
    styled = list(zip(traces, "ab", strict=False))
    marks = [
        mark
        for trace, style in reversed(styled)
        for mark in _trace(frame, xs, trace, style, factor.kind == "categorical")
    ]
    remark = Markup(" ").join(_key(style, trace.variable, trace.share) for trace, style in styled)
    label = f"mean code against {factor.name}"
    return Panel(
        factor.name, remark, frame.draw(marks, label, _factor_ticks(factor, xs), ticks(span))
    )


def _class_response(told: Told, content: Content) -> Panel:
    """A dot for each value of the factor and each class, as large as its share of the rows."""
    (variable, share), *_ = told.best
    table, count = content.table, len(content.walks[variable.number])
    classes, values = table.codes[:, variable.number].astype(int), table.factors[:, told.column]
    xs = _quantities(told, table)
    frame = Frame(padded(min(xs), max(xs), 0.12), (-0.6, count - 0.4), left=26)
    room = 0.48 * min(frame.width / (len(xs) + 1), frame.height / count)
    marks = []
    for x, value in zip(xs, np.unique(values), strict=True):
        shares = np.bincount(classes[values == value], minlength=count) / (values == value).sum()
        radii = (room * np.sqrt(shares)).tolist()
        marks.append(frame.dots([x] * count, range(count), "a", radii))
    label = f"classes of {variable.name} against {told.factor.name}"
    x_ticks = _factor_ticks(told.factor, xs)
    drawing = frame.draw(marks, label, x_ticks, _class_ticks(count))
    return Panel(told.factor.name, _key("a", variable, share), drawing)


def _key(style: str, variable: Variable, share: float) -> Markup:
    name = symbol(variable.name)
    return Markup('<span class="key {}">{} {:.2f}</span>').format(style, name, share)


def _quantities(told: Told, table: Table) -> list[float]:
    """What the classes of a factor that occur stand for."""
    return [_quantity(told.factor, int(v)) for v in np.unique(table.factors[:, told.column])]


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


def walks(content: Content, row: int) -> list[Panel]:
    """Traversals of vectors: a panel a variable, a line a value from low to high."""
    decoded = [content.walk(row, v) for v in content.shown]
    if not decoded:
        return []
    span = padded(min(float(y.min()) for y in decoded), max(float(y.max()) for y in decoded))
    return [_walk(content, v, lines, span) for v, lines in zip(content.shown, decoded, strict=True)]


def _walk(content: Content, v: Variable, lines: Array, span: Span) -> Panel:
    count, ends = len(lines), content.walks[v.number][[0, -1], 0]
    styles = [f"walk w{round(10 * n / (count - 1))}" for n in range(count)]
    over = f"{count} classes" if v.discrete else " to ".join(short(float(end)) for end in ends)
    remark = Markup("<small>{}, KL {:.2f} nats</small>").format(over, v.kl)
    return _profile(list(zip(lines.tolist(), styles, strict=True)), span, symbol(v.name), remark)


def overlay(samples: Array) -> Panel:
    """Vectors drawn over one another."""
    span = padded(float(samples.min()), float(samples.max()))
    return _profile([(line, "thin a") for line in samples.tolist()], span, "draws of the prior")


def _profile(
    lines: list[tuple[list[float], str]], span: Span, title: Markup | str, remark: Markup | str = ""
) -> Panel:
    count = len(lines[0][0])
    frame = Frame(padded(0, count - 1, 0.03), span, left=34)
    xs = [float(i) for i in range(count)]
    marks = [frame.line(xs, values, style) for values, style in lines]
    if count <= 24:
        marks += [frame.dots(xs, values, style) for values, style in lines]
    x_ticks = {x: text for x, text in ticks(frame.x).items() if x == int(x)}
    label = "values of an observation by their number"
    return Panel(title, remark, frame.draw(marks, label, x_ticks, ticks(span)))
