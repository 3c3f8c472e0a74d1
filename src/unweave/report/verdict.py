"""The verdict at the top of a report: in plain words, what the model has learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from markupsafe import Markup

from unweave.metrics import Score
from unweave.metrics.evidence import AT_NULL, unjudged
from unweave.report.analysis import LEAST_INFORMATION, Analysis, Variable
from unweave.report.text import number, symbol, words

Level = Literal["good", "weak", "bad"]

_WELL_EXPLAINED, _BARELY_EXPLAINED = 0.5, 0.1  # R^2
_NAMED = 6  # variables or scores that a sentence names


class Verdict(NamedTuple):
    """A headline, how good that is, and sentences with the evidence."""

    level: Level
    headline: str
    sentences: list[Markup]


def verdict(analysis: Analysis) -> Verdict:
    """Judge a model by how much it explains, which variables it uses, and which scores mean it."""
    level, headline = _headline(analysis)
    sentences = [
        *_explained(analysis),
        _variables(analysis.active, analysis.unused),
        *_scores(analysis),
        *([_ADVICE] if level == "bad" else []),
    ]
    return Verdict(level, headline, sentences)


_ADVICE = Markup(
    "Try a smaller weight of the rate (<code>objective.beta</code>), a weight that grows from 0 "
    "(<code>objective.beta=linear objective.beta.steps=5000</code>), a learned scale "
    "(<code>likelihood=gaussian likelihood.learn=shared</code>), scaled data "
    "(<code>data.scale=standardise</code>), a larger learning rate or more steps."
)


def _headline(analysis: Analysis) -> tuple[Level, str]:
    share, used = analysis.explained, len(analysis.active)
    if not used:
        return "bad", "The model has learned nothing: no latent variable carries information"
    if share is None:
        return "good", f"{_count(used, 'latent variable')} carry information about the data"
    if share.r2 < _BARELY_EXPLAINED:
        return "bad", "The model explains almost nothing of the data"
    level: Level = "good" if share.r2 >= _WELL_EXPLAINED else "weak"
    what = "held-out observations" if share.held_out else "the data"
    verb = ("explains" if used == 1 else "explain") + (" only" if level == "weak" else "")
    subject = _count(used, "latent variable")
    return level, f"{subject} {verb} {share.r2:.0%} of the variance of {what}"


def _explained(analysis: Analysis) -> list[Markup]:
    share = analysis.explained
    if share is None:
        return []
    how = (
        f"{share.rows:,} observations of the {share.split} split, which it was not trained on"
        if share.held_out
        else f"{share.rows:,} of the observations that it was trained on; nothing was held out"
    )
    sentence = "R<sup>2</sup> of the reconstructions is {} on {}."
    noise = " Counts scatter around their mean, so that no model reaches 1."
    counts = analysis.model.schema.scaling.method == "counts"
    return [Markup(sentence + noise * counts).format(number(share.r2), how)]


def _variables(active: Sequence[Variable], unused: Sequence[Variable]) -> Markup:
    total = len(active) + len(unused)
    if not active:
        return Markup("All {} variables carry less than {:g} nats about the data.").format(
            total, LEAST_INFORMATION
        )
    ranked = sorted(active, key=lambda v: -v.information)
    named = Markup(", ").join(
        Markup("{}&nbsp;({})").format(symbol(v.name), number(v.information))
        for v in ranked[:_NAMED]
    )
    more = f" and {len(ranked) - _NAMED} more" if len(ranked) > _NAMED else ""
    return Markup(
        "{} of {} variables carry information about the data, I(<var>x</var>;&nbsp;"
        "<var>z<sub>j</sub></var>) in nats: {}{}."
    ).format(len(active), total, named, more)


def _scores(analysis: Analysis) -> list[Markup]:
    """Say how many scores are evidence, and which exceed their null by most."""
    scores = list(analysis.scores.values())
    if not scores:
        return []
    sound = [score for score in scores if not unjudged(score, analysis.table)]
    if not sound:
        reason = unjudged(scores[0], analysis.table)
        reason = f"{AT_NULL} about the same" if reason.startswith(AT_NULL) else reason
        return [Markup("No score is evidence of disentanglement: {}.").format(reason)]
    margins = [(s.value - s.null, s.null, s) for s in sound if s.null is not None]
    best: dict[str, tuple[Score, float]] = {}  # one score of each metric
    for _, null, score in sorted(margins, key=lambda margin: -margin[0]):
        best.setdefault(score.name, (score, null))
    named = Markup(", ").join(
        Markup("{} {} ({})").format(words(s.name), number(s.value), number(null))
        for s, null in list(best.values())[:_NAMED]
    )
    text = Markup("{} of {} scores are evidence that codes follow factors").format(
        len(sound), len(scores)
    )
    if not best:
        return [text + "."]
    most = Markup(". Most above the score of shuffled factors, in parentheses: {}.").format(named)
    return [text + most]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
