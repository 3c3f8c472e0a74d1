"""The charts of a report."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from unweave.core.schedules import Schedule
from unweave.data import Factor
from unweave.metrics import Table
from unweave.report.analysis import Analysis, Array, BestVariables, Variable
from unweave.report.charts import (
    Panel,
    Plot,
    Span,
    drawable,
    not_finite,
    padded,
    padded_range,
    ticks,
)
from unweave.report.text import cut, is_aggregate, measured_title, number, short, symbol, words
from unweave.training.final_terms import final_terms
from unweave.training.step import LOSS

Floats = NDArray[np.float64]

_EARLY = 0.05  # share of the log that may lie outside the plot, at the start of training
_BINS = 48
_VALUES = 15  # bins of a continuous factor against which codes are drawn
_GRID = 241  # points at which a prior density is evaluated
_DRAWN_QUANTILES = (0.01, 0.99)  # of the samples; a few outliers would flatten the rest
_NAMED_CLASSES = 10  # categories with labels at the axis
_LABEL_CHARACTERS = 40  # of all labels at an axis together
_LEAST_SHARE = 0.03  # of a factor, below which a second variable is not drawn


def log_curves(analysis: Analysis) -> list[Panel]:
    """Plot the loss, every logged term, unweighted, and every scheduled weight over the steps.

    The number of a term is its mean over the end of training. The held-out loss is drawn beside the
    terms, as far as it was measured.
    """
    log, run = analysis.model.log, analysis.model.run
    end = final_terms(log)
    names = [name for name in (log[0] if log else {}) if name != "step"]
    without_unit = (LOSS, *run.objective.not_in_nats)
    held_out = [
        {"step": row["step"], **row["validation"]}
        for row in analysis.model.measures
        if "validation" in row and None not in row["validation"].values()
    ]
    panels = [
        _curve(name, log, "" if name in without_unit else "nats", held_out, end=end.get(name))
        for name in sorted(names, key=lambda name: name != LOSS)
    ]
    panels += [_curve("r2", held_out, "held-out")] if held_out else []
    return panels + [
        _weight(n, weight, run.steps) for n, weight in scheduled_weights(analysis).items()
    ]


def measured_curves(analysis: Analysis) -> list[Panel]:
    """Plot every term and metric that was measured during training over the steps."""
    not_in_nats = analysis.model.run.objective.not_in_nats
    panels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in analysis.model.measures:
        for kind in ("terms", "metrics"):
            for name, value in row.get(kind, {}).items():
                if value is not None:
                    panels.setdefault((kind, name), []).append({"step": row["step"], name: value})
    return [
        _curve(name, rows, "nats" if in_nats else "", title=measured_title(f"{kind}/{name}"))
        for (kind, name), rows in panels.items()
        for in_nats in [name not in not_in_nats if kind == "terms" else is_aggregate(name)]
    ]


def scheduled_weights(analysis: Analysis) -> dict[str, Schedule]:
    """Return the weights that change during training."""
    weights = analysis.model.run.weights
    return {name: w for name, w in weights.items() if isinstance(w, Schedule)}


def _curve(
    name: str,
    log: Sequence[dict[str, Any]],
    unit: str,
    held_out: Sequence[dict[str, Any]] = (),
    title: str = "",
    end: float | None = None,
) -> Panel:
    """Plot a term with a number, `end` or its last value."""
    title = title or words(name)
    rows = [row for row in log if name in row]
    steps, values = [row["step"] for row in rows], [row[name] for row in rows]
    others = [row for row in held_out if name in row]
    late = drawable(row[name] for row in others if row["step"] >= _EARLY * steps[-1])
    span = *settled_span(values), *late
    plot = Plot((0, max(steps[-1], 1) * 1.02), (min(span), max(span)))
    marks = [plot.line(steps, values, "a"), plot.dots(steps[-1:], values[-1:], "a")]
    last = values[-1] if end is None else end
    remark = Markup("{} <small>{}</small>").format(number(last), unit)
    if others:
        there = [row["step"] for row in others], [row[name] for row in others]
        marks += [plot.line(*there, "b"), plot.dots(there[0][-1:], there[1][-1:], "b")]
        remark += Markup(" <small>held-out</small> {}").format(number(others[-1][name]))
    if bad := not_finite([*values, *(row[name] for row in others)]):
        remark += Markup(" <small>{}</small>").format(bad)
    return Panel(title, remark, _draw_over_steps(plot, marks, title))


def _weight(name: str, weight: Schedule, steps: int) -> Panel:
    grid = np.linspace(0, steps, 400).round().astype(int).tolist()
    values = [weight(step) for step in grid]
    plot = Plot((0, steps * 1.02), padded(min(0.0, *values), max(values)))
    remark = Markup("{} <small>weight</small>").format(short(values[-1]))
    drawing = _draw_over_steps(plot, [plot.line(grid, values, "b")], f"weight {words(name)}")
    return Panel(words(name), remark, drawing)


def _draw_over_steps(plot: Plot, marks: Sequence[Markup], title: str) -> Markup:
    label = f"{title} over training steps"
    return plot.draw(marks, label, ticks(plot.x), ticks(plot.y))


def settled_span(values: Sequence[float]) -> Span:
    """Return the range of a curve, without its start if that would flatten the rest."""
    late, whole = drawable(values[int(len(values) * _EARLY) :]), padded_range(values)
    if not late:
        return whole
    low, high = padded_range(late)
    flattened = whole[1] - whole[0] > 1.5 * (high - low) and max(late) > min(late)
    return (low, high) if flattened else whole


def marginals(analysis: Analysis) -> list[Panel]:
    """Plot q(z_j) and p(z_j) of each variable: a histogram, or bars for classes."""
    spans = _spans(analysis)
    prior = _densities(analysis, spans)
    return [
        _classes(v, *analysis.masses(v))
        if v.discrete
        else _histogram(v, analysis.samples[:, v.columns], spans[v.number], prior[:, v.number])
        for v in analysis.shown
    ]


def _spans(analysis: Analysis) -> dict[int, Span]:
    """Return the range to draw for each continuous variable, by index.

    It covers nearly all samples and the prior; variables with the same prior share it.
    """
    groups: dict[Span, list[Variable]] = {}
    for v in analysis.shown:
        if not v.discrete:
            values = analysis.traversal_values[v.number]
            groups.setdefault((float(values[0, 0]), float(values[-1, 0])), []).append(v)
    spans: dict[int, Span] = {}
    for (low, high), members in groups.items():
        quantiles = [np.quantile(analysis.samples[:, v.columns], _DRAWN_QUANTILES) for v in members]
        tail = (high - low) / 4
        ends = np.concatenate([*quantiles, [low - tail, high + tail]])
        span = float(ends.min()), float(ends.max())
        spans |= {v.number: span for v in members}
    return spans


def _densities(analysis: Analysis, spans: dict[int, Span]) -> Array:
    """Return the prior density of every variable on a grid over its range, (_GRID, V)."""
    grid = np.zeros((_GRID, analysis.samples.shape[1]), np.float32)
    for n, span in spans.items():
        grid[:, analysis.model.run.latent.columns[n]] = np.linspace(*span, _GRID)[:, None]
    points = torch.as_tensor(grid, device=analysis.prior.mean.device)
    return analysis.prior.log_marginals(points).exp().cpu().numpy()


def _histogram(v: Variable, samples: Array, span: Span, prior: Array) -> Panel:
    edges, grid = np.linspace(*span, _BINS + 1), np.linspace(*span, _GRID)
    density = np.histogram(samples, edges)[0] / len(samples) / (edges[1] - edges[0])
    # The peak of a narrow prior may lie outside the plot; otherwise the histogram would be flat.
    top = max(float(density.max()), min(float(prior.max()), 2 * float(density.max()))) * 1.06
    plot = _small(span, top)
    marks = [
        plot.bars(edges.tolist(), density.tolist(), "a"),
        plot.line(grid.tolist(), prior.tolist(), "ink"),
        plot.level(0),
    ]
    label = f"histogram of q(z) and prior density of variable {v.name}"
    mean, std = float(samples.mean()), float(samples.std())
    remark = Markup("<small>{} ± {}</small>").format(number(mean), number(std))
    return Panel(symbol(v.name), remark, plot.draw(marks, label, ticks(span), {}))


def _classes(v: Variable, q: Array, p: Array) -> Panel:
    """Plot bars of the masses q(c), each with a line at p(c)."""
    places = range(len(q))
    plot = _small((-0.6, len(q) - 0.4), max(float(q.max()), float(p.max())) * 1.06)
    bars = [plot.bars((c - 0.36, c + 0.36), (float(q[c]),), "a") for c in places]
    lines = [plot.line((c - 0.46, c + 0.46), (float(p[c]),) * 2, "ink") for c in places]
    label = f"masses of the classes of variable {v.name} and of its prior"
    remark = Markup("<small>{} classes</small>").format(len(q))
    drawing = plot.draw([*bars, *lines, plot.level(0)], label, _class_ticks(len(q)), {})
    return Panel(symbol(v.name), remark, drawing)


def _small(span: Span, top: float) -> Plot:
    return Plot(span, (0, top), width=150, height=64, left=4, right=4, top=4, bottom=18)


def _class_ticks(count: int) -> dict[float, str]:
    return {float(c): str(c) for c in range(0, count, -(-count // 10))}


class Trace(NamedTuple):
    """Mean and standard deviation of a code at each value of a factor."""

    variable: Variable
    share: float
    means: Floats
    stddev: Floats


def responses(analysis: Analysis) -> list[Panel]:
    """Plot the code against the value of each factor, for its most informative variables.

    All mean codes share one range, so a flat line is a variable that does not respond. A discrete
    variable is shown by how often each of its classes is the most likely.
    """
    every = [_traces(best, analysis.labelled) for best in analysis.best_variables]
    drawn = [trace for traces in every for trace in traces]
    low = min((float((t.means - t.stddev).min()) for t in drawn), default=-1.0)
    high = max((float((t.means + t.stddev).max()) for t in drawn), default=1.0)
    span = padded(min(low, -1.0), max(high, 1.0), 0.05)
    return [
        _response(best, traces, analysis.labelled, span)
        if traces
        else _class_response(best, analysis)
        for best, traces in zip(analysis.best_variables, every, strict=True)
    ]


def _traces(best: BestVariables, table: Table) -> list[Trace]:
    """Return the best variable and an informative second; nothing if the best is discrete."""
    if best.discrete:
        return []
    groups = [table.codes[rows].astype(np.float64) for _, rows in _groups(best, table)]
    means, stddev = (np.stack([f(group, axis=0) for group in groups]) for f in (np.mean, np.std))
    first, *second = best.best
    drawn = [
        first,
        *((v, share) for v, share in second if share >= _LEAST_SHARE and not v.discrete),
    ]
    return [Trace(v, share, means[:, v.number], stddev[:, v.number]) for v, share in drawn]


def _response(best: BestVariables, traces: list[Trace], table: Table, span: Span) -> Panel:
    factor = best.factor
    xs = [x for x, _ in _groups(best, table)]
    plot = Plot(padded(min(xs), max(xs), 0.05), span, left=26)
    styled = list(zip(traces, "ab", strict=False))
    marks = [
        mark
        for trace, style in reversed(styled)
        for mark in _trace(plot, xs, trace, style, factor.kind == "categorical")
    ]
    remark = Markup(" ").join(_key(style, trace.variable, trace.share) for trace, style in styled)
    remark = _at_chance(best) or remark
    label = f"mean code against {factor.name}"
    return Panel(
        factor.name, remark, plot.draw(marks, label, _factor_ticks(factor, xs), ticks(span))
    )


def _class_response(best: BestVariables, analysis: Analysis) -> Panel:
    """Draw a dot for each factor value and class, with an area proportional to its frequency."""
    (variable, share), *_ = best.best
    table, count = analysis.labelled, len(analysis.traversal_values[variable.number])
    classes, groups = table.codes[:, variable.number].astype(int), _groups(best, table)
    xs = [x for x, _ in groups]
    plot = Plot(padded(min(xs), max(xs), 0.12), (-0.6, count - 0.4), left=26)
    room = 0.48 * min(plot.width / (len(xs) + 1), plot.height / count)
    marks = []
    for x, rows in groups:
        shares = np.bincount(classes[rows], minlength=count) / rows.sum()
        radii = (room * np.sqrt(shares)).tolist()
        marks.append(plot.dots([x] * count, range(count), "a", radii))
    label = f"classes of {variable.name} against {best.factor.name}"
    x_ticks = _factor_ticks(best.factor, xs)
    drawing = plot.draw(marks, label, x_ticks, _class_ticks(count))
    remark = _at_chance(best) or _key("a", variable, share)
    return Panel(best.factor.name, remark, drawing)


def _at_chance(best: BestVariables) -> Markup:
    return Markup("<small>{}</small>").format(best.at_chance) if best.at_chance else Markup("")


def _key(style: str, variable: Variable, share: float) -> Markup:
    name = symbol(variable.name)
    return Markup('<span class="key {}">{} {:.2f}</span>').format(style, name, share)


def _groups(best: BestVariables, table: Table) -> list[tuple[float, NDArray[np.bool_]]]:
    """Return the values of a factor that occur, and the rows of each, (N,).

    A continuous factor is cut into equally frequent bins, each with its mean value.
    """
    values = table.factors[:, best.column]
    if not table.continuous_mask[best.column]:
        known = None if best.factor.kind == "categorical" else best.factor.values
        # A category has only a position on the axis.
        return [(known[int(v)] if known else float(v), values == v) for v in np.unique(values)]
    edges = np.unique(np.quantile(values, np.arange(1, _VALUES) / _VALUES))
    bins = np.searchsorted(edges, values, "right")
    return [(float(values[bins == n].mean()), bins == n) for n in np.unique(bins)]


def _trace(plot: Plot, xs: list[float], trace: Trace, style: str, apart: bool) -> list[Markup]:
    """Draw means with one standard deviation: a band, or a bar at each category."""
    means = trace.means.tolist()
    low, high = (trace.means - trace.stddev).tolist(), (trace.means + trace.stddev).tolist()
    if apart:
        bars = [plot.line((x, x), ends, style) for x, *ends in zip(xs, low, high, strict=True)]
        return [*bars, plot.dots(xs, means, style)]
    dots = [plot.dots(xs, means, style)] if len(xs) <= 20 else []
    return [plot.area(xs, low, high, f"{style} band"), plot.line(xs, means, style), *dots]


def _factor_ticks(factor: Factor, xs: list[float]) -> dict[float, str]:
    if factor.kind == "categorical" and len(xs) <= _NAMED_CLASSES:
        labels = factor.labels or tuple(map(str, range(factor.size)))
        room = _LABEL_CHARACTERS // len(xs)
        return {x: cut(labels[int(x)], room) for x in xs}
    if factor.kind == "cyclic" and math.isclose(xs[-1], 2 * math.pi):
        return {0.0: "0", math.pi: "π", 2 * math.pi: "2π"}
    return ticks((min(xs), max(xs)))
