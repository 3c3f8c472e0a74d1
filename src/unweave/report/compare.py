"""The page about a comparison of runs: one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import unweave
from unweave.core.files import make_folder, write_atomically
from unweave.core.groups import grouped
from unweave.core.outputs import refuse_run_folder
from unweave.evaluation.comparison import Comparison, Contrast, RunGroup, Section
from unweave.evaluation.comparison_text import (
    agreement_text,
    contrast_text,
    estimate_text,
    measured_on,
    seeds_text,
    udr_text,
)
from unweave.evaluation.shared_latents import SAME
from unweave.report.charts import Panel, Plot, not_finite, padded, padded_range, ticks
from unweave.report.figures import settled_span
from unweave.report.studies import series_style
from unweave.report.templates import render_page
from unweave.report.text import measured_title, metric_title, words
from unweave.report.verdict import Level
from unweave.training.flat_settings import value_text

_MOST_LINES = 12  # runs of which every one has a line of its own; of more, groups have bands alone

Curve = tuple[list[float], list[float]]  # steps and values


class _QuantityRow(NamedTuple):
    """A quantity by group, with the best group if it has one."""

    name: str
    cells: list[str]
    contrast: Contrast | None


class _LatentRow(NamedTuple):
    """A latent of one run, and what every run of its group has of it."""

    latent: str
    seed: int
    found: int
    cells: list[tuple[str, float] | None]  # the latent of each run, and |correlation|


def write_comparison(comparison: Comparison, path: str | Path) -> Path:
    """Write a self-contained page about a comparison."""
    place = Path(path)
    refuse_run_folder(place)
    if not isinstance(comparison, Comparison):
        kind = type(comparison).__name__
        raise TypeError(f"expected a comparison, got a {kind}: pass uw.compare(models)")
    make_folder(place.parent)
    write_atomically(place, render_comparison(comparison).encode())
    return place


def render_comparison(comparison: Comparison) -> str:
    """Return the page about a comparison as HTML."""
    runs = sum(len(group.runs) for s in comparison.sections for group in s.groups)
    return render_page(
        "compare.html.j2",
        runs=runs,
        notes=comparison.notes,
        level=f"{comparison.level:.0%}",
        same=f"{SAME:g}",
        version=unweave.__version__,
        sections=[_section(section, comparison.level) for section in comparison.sections],
    )


def _section(section: Section, level: float) -> dict[str, Any]:
    contrasts = {each.quantity: each for each in section.contrasts}
    styles = [series_style(n, len(section.groups)) for n in range(len(section.groups))]
    return {
        "data": section.data,
        "verdict": _verdict(section),
        "measured_on": measured_on(section),
        "settings": section.settings,
        "groups": [
            (group, style, list(map(value_text, group.settings.values())), seeds_text(group))
            for group, style in zip(section.groups, styles, strict=True)
        ],
        "quantities": {
            reason: [
                _QuantityRow(
                    name,
                    [estimate_text(group, name, level) for group in section.groups],
                    contrasts.get(name),
                )
                for name in names
            ]
            for reason, names in {"": section.proven, **section.no_evidence}.items()
        },
        "differences": [contrast_text(each) for each in section.contrasts if not each.no_evidence],
        "dots": [_quantity_chart(name, section, styles, level) for name in section.proven]
        if len(section.groups) > 1
        else [],
        "curves": _curves(section, styles),
        "latents": [
            (
                group,
                udr_text(group.udr),
                [run.run.seed for run in group.encoded],
                _latent_rows(group),
            )
            for group in section.groups
            if group.udr
        ],
    }


def _verdict(section: Section) -> tuple[Level, list[str]]:
    """Say on which latents seeds agree, and which groups are best beyond doubt."""
    several = len(section.groups) > 1
    lines: list[str] = []
    levels: set[Level] = set()
    for group in section.groups:
        if group.udr:
            text, udr = agreement_text(group), f"UDR {udr_text(group.udr)}; equal codes reach 0.9"
            lines += [f"{group.name}: {text}; {udr}"] if several else [text.capitalize(), udr]
            levels.add(_agreement(group))
    if several:
        told_apart = [each for each in section.contrasts if each.distinguishable]
        sure = [each for each in told_apart if not each.no_evidence]
        lines += [contrast_text(each) for each in sure]
        hollow = grouped((c.no_evidence, c.best.name) for c in told_apart if c.no_evidence)
        lines += [
            f"Scores by which {' or '.join(dict.fromkeys(names))} is best are no evidence: {reason}"
            for reason, names in hollow.items()
        ]
        if not told_apart:
            lines.append(_why_none_is_better(section))
        levels = levels or {"good" if sure else "weak"}
    return levels.pop() if len(levels) == 1 else "weak", lines


def _agreement(group: RunGroup) -> Level:
    """Judge how many of the latents of a run are found by all seeds: half of them, some or none."""
    seeds, found = len(group.encoded), [len(each.found_by) for each in group.latents]
    shared, of_a_run = found.count(seeds), sum(found) / seeds
    if not shared:
        return "bad"
    return "good" if shared >= of_a_run / 2 else "weak"


def _why_none_is_better(section: Section) -> str:
    if not section.contrasts:
        return "The groups have no score in common by which one could be better"
    if any(each.distinguishable is not None for each in section.contrasts):
        return "No group is distinguishably better than the second best by any score"
    if all(len(group.runs) == 1 for group in section.groups):
        return "One seed per group: nothing can be told apart"
    return "Each comparison involves a group of one seed: nothing can be told apart"


def _latent_rows(group: RunGroup) -> list[_LatentRow]:
    rows = []
    for each in group.latents:
        cells: list[tuple[str, float] | None] = [None] * len(group.encoded)
        cells[each.model] = each.latent, 1.0
        for model, match in each.matches.items():
            cells[model] = match.latent, abs(match.correlation)
        seed = group.encoded[each.model].run.seed
        rows.append(_LatentRow(each.latent, seed, len(each.found_by), cells))
    return rows


def _quantity_chart(name: str, section: Section, styles: Sequence[str], level: float) -> Panel:
    """Plot a quantity: a dot for each seed, beside it the mean of each group and its interval."""
    groups = section.groups
    every = [value for group in groups for value in group.values(name)]
    estimates = [group.estimate(name, level) for group in groups]
    ends = [end for e in estimates if e for end in (e.low, e.high) if end is not None]
    # An interval of two seeds may be very wide; the dots decide what is drawn.
    low, high = padded_range(every, 0.6)
    span = padded(max(low, min([*every, *ends])), min(high, max([*every, *ends])))
    plot = Plot(padded(0, len(groups) - 1, 0.12) if len(groups) > 1 else (-1.0, 1.0), span)
    marks = []
    for x, (group, style, estimate) in enumerate(zip(groups, styles, estimates, strict=True)):
        values = group.values(name)
        marks.append(plot.dots([x - 0.1] * len(values), values, f"{style} faint"))
        if estimate:
            marks.append(plot.dots([x + 0.1], [estimate.value], style, [3.6]))
            if estimate.low is not None and estimate.high is not None:
                marks.append(plot.line([x + 0.1] * 2, [estimate.low, estimate.high], style))
    x_ticks = {float(x): group.name for x, group in enumerate(groups)}
    drawing = plot.draw(marks, f"{name} by group", x_ticks, ticks(span))
    return Panel(metric_title(name), "", drawing)


def _curves(section: Section, styles: Sequence[str]) -> list[Panel]:
    """Plot every term and every quantity measured during training over the steps, by group."""
    runs = [run for group in section.groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in _curves_of(run.log, run.measures))
    thin = len(runs) <= _MOST_LINES
    return [_curve_chart(name, section, styles, thin) for name in names]


def _curves_of(
    log: Sequence[Mapping[str, Any]], measures: Sequence[Mapping[str, Any]]
) -> dict[str, Curve]:
    """Return steps and values by name: the terms of the log, then what was measured."""
    curves: dict[str, Curve] = {}

    def add(step: float, name: str, value: object) -> None:
        if isinstance(value, (int, float)):
            steps, values = curves.setdefault(name, ([], []))
            steps.append(step)
            values.append(float(value))

    for row in log:
        for name, value in row.items():
            if name != "step":
                add(row["step"], name, value)
    for row in measures:
        for kind in ("terms", "metrics", "validation"):
            for name, value in row.get(kind, {}).items():
                add(row["step"], f"{kind}/{name}", value)
    return curves


def _curve_chart(name: str, section: Section, styles: Sequence[str], thin: bool) -> Panel:
    """Plot the curves of all runs: bands are one standard deviation over the seeds of a group."""
    curves = [
        [curve for run in group.runs if (curve := _curves_of(run.log, run.measures).get(name))]
        for group in section.groups
    ]
    every = [curve for own in curves for curve in own]
    spans = [settled_span(values) for _, values in every]
    longest = max(steps[-1] for steps, _ in every)
    plot = Plot((0, longest * 1.02), (min(s[0] for s in spans), max(s[1] for s in spans)))
    marks: list[Markup] = []
    for own, style in zip(curves, styles, strict=True):
        if len(own) > 1 and thin:
            marks += [plot.line(steps, values, f"{style} thin") for steps, values in own]
        if own:
            steps, every_run = _on_common_steps(own)
            with np.errstate(over="ignore", invalid="ignore"):  # which leave gaps
                mean, deviation = every_run.mean(0), every_run.std(0)
            if len(own) > 1:
                band = (mean - deviation).tolist(), (mean + deviation).tolist()
                marks.append(plot.area(steps, *band, f"{style} band"))
            marks.append(plot.line(steps, mean.tolist(), style))
    title = measured_title(name) if "/" in name else words(name)
    drawing = plot.draw(marks, f"{title} over training steps", ticks(plot.x), ticks(plot.y))
    return Panel(title, not_finite([value for _, values in every for value in values]), drawing)


def _on_common_steps(curves: Sequence[Curve]) -> tuple[list[float], NDArray[np.float64]]:
    """Return the steps that all curves cover, and the values of each at these, interpolated.

    >>> _on_common_steps([([0, 10, 20], [0.0, 1.0, 2.0]), ([0, 5, 15], [1.0, 1.0, 3.0])])
    ([0, 5, 10, 15], array([[0. , 0.5, 1. , 1.5],
           [1. , 1. , 2. , 3. ]]))
    """
    first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
    every = sorted({step for steps, _ in curves for step in steps})
    common = [step for step in every if first <= step <= last]
    return common, np.array([np.interp(common, steps, values) for steps, values in curves])
