"""A comparison of runs as text, and as a table for notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from unweave.core.console import table_text
from unweave.core.hints import count_noun
from unweave.core.html import html_table
from unweave.core.intervals import EQUAL, Estimate
from unweave.core.text import visible
from unweave.evaluation.shared_latents import SAME
from unweave.metrics.score import Score
from unweave.training.flat_settings import value_text

if TYPE_CHECKING:
    from unweave.evaluation.comparison import Comparison, Contrast, RunGroup, Section

_EQUAL = "(equal)"  # in place of an interval, if all seeds have the same value


def comparison_text(comparison: Comparison, width: int = 80, pairwise: bool = False) -> str:
    """Return all sections and notes as text of a width, also with the differences of all pairs."""
    parts = []
    for section in comparison.sections:
        parts.append(_section_text(section, comparison.level, width))
        if pairwise:
            parts.append(_pairwise_text(section, comparison.level, width))
    notes = [
        textwrap.fill(f"note: {note}", width, subsequent_indent="  ") for note in comparison.notes
    ]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _section_text(section: Section, level: float, width: int) -> str:
    runs = sum(len(group.runs) for group in section.groups)
    title = textwrap.fill(f"{section.data}: {count_noun(runs, 'run')}", width)
    blocks = [title, _settings_text(section, width), _quantities_text(section, level, width)]
    if lines := [contrast_text(each) for each in section.contrasts if not each.no_evidence]:
        title = f"Is the best group better than the second best? ({level:.0%} intervals)"
        blocks.append(textwrap.fill(title, width))
        blocks[-1] += "".join(f"\n{_fill(line, width)}" for line in lines)
    shared = [_latents_text(group, width) for group in section.groups if group.udr]
    if shared:
        blocks.append(
            textwrap.fill(
                f"Latents matched across seeds (|correlation| of at least {SAME:g}), and UDR "
                "(0.9 at most):",
                width,
            )
        )
        blocks += shared
    return "\n\n".join(filter(None, blocks))


def _fill(line: str, width: int) -> str:
    return textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ")


def _settings_text(section: Section, width: int) -> str:
    rows = [
        [group.name, *map(value_text, group.settings.values()), seeds_text(group)]
        for group in section.groups
    ]
    return table_text(["group", *section.settings, "seeds"], rows, width)


def seeds_text(group: RunGroup) -> str:
    """Write the seeds of a group, consecutive ones as a range."""
    return _ranges_text(run.run.seed for run in group.runs)


def _ranges_text(seeds: Iterable[int]) -> str:
    """Write numbers, consecutive ones as a range.

    >>> _ranges_text([0, 1, 2, 5])
    '0..2, 5'
    """
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in spans)


def _quantities_text(section: Section, level: float, width: int) -> str:
    """Return the table of means by group, and one of the scores that prove nothing."""

    def table(names: Sequence[str]) -> str:
        cells = ([estimate_text(group, name, level) for group in section.groups] for name in names)
        rows = [[name, *own] for name, own in zip(names, cells, strict=True)]
        return table_text(["", *(group.name for group in section.groups)], rows, width)

    blocks = [table(section.proven)] if section.proven else []
    if source := measured_on(section):
        blocks[-1] += f"\n{textwrap.fill(source, width)}"
    for reason, names in section.no_evidence.items():
        blocks.append(f"{textwrap.fill(f'No evidence: {reason}:', width)}\n{table(names)}")
    if blocks and any(_EQUAL in each for each in blocks):
        blocks[-1] += f"\n{_EQUAL}: equal in all seeds"
    return "\n\n".join(blocks)


def measured_on(section: Section) -> str:
    """Say which observations the terms and the held-out losses were measured on.

    >>> from unweave.evaluation.comparison import Section
    >>> measured_on(Section("data", (), (), ("terms/rate", "mig/chen2018"), ()))
    'terms: means over training batches at the end of training'
    """
    kinds = {name.partition("/")[0] for name in section.quantities}
    texts = {
        "terms": "means over training batches at the end of training",
        "validation": "the last measurement on held-out observations",
    }
    return "; ".join(f"{kind}: {text}" for kind, text in texts.items() if kind in kinds)


def estimate_text(group: RunGroup, name: str, level: float) -> str:
    """Write a mean with half its interval, and how many runs have it if not all do.

    Equal values have no interval: it would be ± 0, as if they were exact.
    """
    estimate, values = group.estimate(name, level), group.values(name)
    if estimate is None:
        return "-"
    few = f" ({len(values)})" if len(values) < len(group.runs) else ""
    if len(values) > 1 and max(values) - min(values) < EQUAL:
        return f"{mean_text(estimate._replace(low=None, high=None))} {_EQUAL}{few}"
    return mean_text(estimate) + few


def mean_text(estimate: Estimate) -> str:
    """Write a mean with half the width of its interval.

    >>> mean_text(Estimate(0.25, 0.2, 0.3)), mean_text(Estimate(1234.5, None, None))
    ('0.250 ± 0.050', '1234')
    """
    digits = 3 if abs(estimate.value) < 10 else 2 if abs(estimate.value) < 1000 else 0
    text = f"{estimate.value:.{digits}f}"
    if estimate.high is None:
        return text
    return f"{text} ± {estimate.high - estimate.value:.{digits}f}"


def contrast_text(contrast: Contrast) -> str:
    """Say whether the best group by a quantity is better than the second best, and by how much."""
    best, second, difference = contrast.best.name, contrast.second.name, contrast.difference
    if contrast.tied:
        return f"{contrast.quantity}: {best} and {second} are equal"
    amount = _signed(difference.value)
    if difference.low is None or difference.high is None:
        amount += ", and one seed gives no interval"
    else:
        amount += f" [{_signed(difference.low)}, {_signed(difference.high)}]"
    head = f"{best} is" if contrast.distinguishable else f"no evidence that {best} is"
    return f"{contrast.quantity}: {head} better than {second} ({amount})"


def _pairwise_text(section: Section, level: float, width: int) -> str:
    """Return the table of the differences of all pairs of groups."""
    rows = []
    for each in section.pairwise(level):
        value, *ends = each.difference
        interval = " to ".join(_signed(end) for end in ends if end is not None)
        p_values = ("" if p is None else f"{p:.3g}" for p in (each.p, each.p_holm))
        pair = f"{each.group.name} - {each.other.name}"
        rows.append([each.quantity, pair, _signed(value), interval, *p_values])
    title = (
        f"Differences of all pairs of groups ({level:.0%} intervals, and p-values of Welch's test, "
        "or by seed of Student's for groups that differ only in steps; p Holm is corrected for the "
        "pairs of a quantity):"
    )
    columns = ["quantity", "groups", "difference", "interval", "p", "p Holm"]
    return f"{textwrap.fill(title, width)}\n{table_text(columns, rows, width)}"


def _signed(value: float) -> str:
    return f"{value:+.{3 if abs(value) < 10 else 2}f}"


def _latents_text(group: RunGroup, width: int) -> str:
    """Return the table of the latents of a group, and its UDR."""
    head = f"{group.name}: {group.title}; {agreement_text(group)}; UDR {udr_text(group.udr)}"
    count = len(group.encoded)
    rows = []
    for each in group.latents:
        strengths = [abs(m.correlation) for m in each.matches.values() if m.same]
        ends = dict.fromkeys(f"{end(strengths):.2f}" for end in (min, max) if strengths)
        span = " to ".join(ends) or "-"
        seeds = _ranges_text(group.encoded[m].run.seed for m in each.found_by)
        latent = f"z{each.latent}" if each.latent.isdecimal() else each.latent
        name = f"{latent} of seed {group.encoded[each.model].run.seed}"
        rows.append([name, f"{len(each.found_by)} of {count}", span, seeds])
    table = table_text(["latent", "found by", "|correlation|", "seeds that found it"], rows, width)
    none = " no latent carries information"
    return textwrap.fill(head, width) + "\n" + (table if rows else none)


def agreement_text(group: RunGroup) -> str:
    """Say on how many latents the seeds of a group agree."""
    count, every = len(group.encoded), [len(each.found_by) for each in group.latents]
    if not every:
        return "no latent carries information about the data"
    shared, alone = every.count(count), every.count(1)
    text = f"the {count} seeds agree on {shared} of {count_noun(len(every), 'latent')}"
    several = len(every) - shared - alone
    parts = [f"{several} more in several seeds"] * bool(several)
    parts += [f"{alone} in one seed only"] * bool(alone)
    return f"{text} ({', '.join(parts)})" if parts else text


def udr_text(scores: Sequence[Score]) -> str:
    """Write the mean UDR of the runs of a group, and the range.

    >>> udr_text([Score("udr", "duan2020-lasso", value) for value in (0.5, 0.7)])
    '0.600 (0.500 to 0.700 over 2 seeds)'
    """
    values = [score.value for score in scores]
    mean = sum(values) / len(values)
    return f"{mean:.3f} ({min(values):.3f} to {max(values):.3f} over {len(values)} seeds)"


def comparison_html(comparison: Comparison) -> str:
    """Return the settings and means of every section as HTML tables, for notebooks."""
    parts: list[Markup] = []
    for section in comparison.sections:
        head = ["", *(group.name for group in section.groups)]
        rows = [
            *([name, *(value_text(g.settings[name]) for g in section.groups)]
              for name in section.settings),
            ["seeds", *(seeds_text(group) for group in section.groups)],
            *([name, *(estimate_text(g, name, comparison.level) for g in section.groups)]
              for name in section.proven),
            *([f"{name} (no evidence)",
               *(estimate_text(g, name, comparison.level) for g in section.groups)]
              for names in section.no_evidence.values() for name in names),
        ]  # fmt: skip
        parts.append(html_table(head, rows, section.data))
        contrasts = [each for each in section.contrasts if not each.no_evidence]
        lines = (Markup("<li>{}</li>").format(contrast_text(each)) for each in contrasts)
        parts.append(Markup("<ul>{}</ul>").format(Markup("").join(lines)))
    parts += [Markup("<p>{}</p>").format(note) for note in comparison.notes]
    return visible(Markup("<div>{}</div>").format(Markup("").join(parts)))
