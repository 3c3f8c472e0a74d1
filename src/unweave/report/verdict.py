"""The verdict at the top of a report: in plain words, what the model has learned."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from unweave.core.hints import count_noun
from unweave.data.splits import split_of
from unweave.evaluation.collapse import advice
from unweave.evaluation.overfitting import overfit
from unweave.evaluation.shared_latents import LEAST_INFORMATION
from unweave.evaluation.unfinished import unfinished
from unweave.metrics import Score
from unweave.metrics.evidence import AT_NULL
from unweave.report.analysis import Analysis, Variable
from unweave.report.text import number, symbol, words
from unweave.training.store import RunFolder

Level = Literal["good", "weak", "bad"]

_WELL_EXPLAINED, _BARELY_EXPLAINED = 0.5, 0.1  # R^2
_NAMED = 6  # variables or scores that a sentence names
_FEW_ROWS = 100
_WIDESPREAD = 0.5  # share of the columns or channels in which extreme values rule the headline
_COMPARED = 1_000  # rows that are compared in the units of the data
_UNUSED_BY_DECODER = ", but the decoder hardly uses it, so reconstructions improve little"


class Verdict(NamedTuple):
    """A headline, how good that is, and sentences with the evidence."""

    level: Level
    headline: str
    sentences: list[Markup]


def verdict(analysis: Analysis) -> Verdict:
    """Judge a model by how much it explains, which variables it uses, and which scores mean it."""
    level, text = headline(analysis)
    extremes = analysis.model.schema.extremes
    dominated = bool(extremes or (analysis.explained and analysis.explained.dominant))
    failed = level == "bad" and not (dominated and analysis.active)
    sentences = [
        *_limits(analysis),
        *_explained(analysis),
        _variables(analysis.active, analysis.unused, failed),
        *_coverage(analysis),
        *_scores(analysis),
    ]
    if extremes:
        first = f"{extremes.advice[0].upper()}{extremes.advice[1:]}."
        sentences.insert(0, escape(first.replace("R^2", "R²")))
    elif over := overfit(analysis.model.log, analysis.model.measures):
        sentences.insert(0, escape(f"The {over}."))
    if progress := analysis.model.progress:
        stopped = progress.startswith("stopped") and analysis.model.folder is not None
        resumes = "; the same <code>unweave train</code> command resumes it" if stopped else ""
        shown = Markup("This page shows a run that {}{}.")
        sentences.insert(0, shown.format(progress, Markup(resumes)))
    elif not extremes and (early := unfinished(analysis.model.measures)):
        model = analysis.model
        stored = RunFolder(model.folder) if model.folder else None
        why = early.describe_stored(model.run, stored, model.dataset) if stored else str(early)
        sentences.insert(0, escape(f"The {why}."))
    if failed:
        model = analysis.model
        sentences.append(escape(advice(model.run, model.dataset, model.measures)))
    return Verdict(level, text, sentences)


def headline(analysis: Analysis) -> tuple[Level, str]:
    """Say in one sentence what the model has learned, and how good that is."""
    share, used = analysis.explained, len(analysis.active)
    if not used:
        return "bad", "The model has learned nothing: no latent variable carries information"
    if share is None:
        verb = "carries" if used == 1 else "carry"
        return "good", f"{count_noun(used, 'latent variable')} {verb} information about the data"
    extremes = analysis.model.schema.extremes
    if extremes and extremes.share >= _WIDESPREAD:
        return "bad", "Extreme values dominate the data: correct them before anything else"
    if dominant := share.dominant:
        one = len(dominant.names) == 1
        few = "One observation accounts" if one else "A few observations account"
        what = "R² says little about the others"
        return "bad", f"{few} for {dominant.percent} of the variance: {what}"
    most = explainable(analysis)
    reached = share.r2 / most if most else share.r2
    if reached < _BARELY_EXPLAINED:
        return "bad", "The model explains almost nothing of the data"
    level: Level = "good" if reached >= _WELL_EXPLAINED else "weak"
    what = "held-out observations" if share.held_out else "data that the model was trained on"
    scaling = analysis.model.schema.scaling.method
    if scaling == "standardise":
        what = f"the standardised columns of {what}"
    little = level == "weak" and (most or scaling != "counts")
    verb = ("explains" if used == 1 else "explain") + (" only" if little else "")
    text = f"{count_noun(used, 'latent variable')} {verb} {share.r2:.0%} of the variance of {what}"
    return level, f"{text}, of about {most:.0%} that can be explained" if most else text


def _limits(analysis: Analysis) -> list[Markup]:
    """Say what limits the evidence of the whole page: few observations, or none held out."""
    share, rows, limits = analysis.explained, len(analysis.table), []
    if rows < _FEW_ROWS:
        limits.append(f"these are only {count_noun(rows, 'observation')}")
    if share is not None and not share.held_out:
        none = "none" if limits else "no observation"
        limits.append(f"{none} was held out, so nothing here shows how the model does on new data")
    text = ", and ".join(limits)
    return [escape(f"The evidence is limited: {text}.")] if limits else []


def _coverage(analysis: Analysis) -> list[Markup]:
    """Say which variables have codes far beyond their traversals."""
    found = analysis.uncovered()
    if not found:
        return []
    named = Markup(", ").join(
        Markup("{}&nbsp;({:.0%})").format(symbol(v.name), beyond) for v, beyond in found[:_NAMED]
    )
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [
        Markup(
            "The traversals do not cover the data: many codes of {}{} lie beyond their ends."
        ).format(named, more)
    ]


def _explained(analysis: Analysis) -> list[Markup]:
    share = analysis.explained
    if share is None:
        return []
    split = "all data" if share.split == "all" else f"the {share.split} split"
    how = f"{share.rows:,} observations of {split}, "
    if share.held_out:
        how += "which the model was not trained on"
    elif share.split == split_of(analysis.model.run.data):
        how = f"{share.rows:,} of the observations that the model was trained on"
    else:
        how += "some or all of which it was trained on"
    sentence = Markup("R<sup>2</sup> of the reconstructions is {} on {}.").format(
        number(share.r2), how
    )
    if share.dominant:
        dominant = share.dominant.describe()
        sentence += Markup(" But {}.").format(dominant.replace("R^2", "R²"))
    scaling = analysis.model.schema.scaling.method
    if share.r2_in_units is not None:
        sentence += Markup(
            " This weights all columns equally; in the units of the data, where columns of large "
            "variance count most, R<sup>2</sup> of the same observations is {}."
        ).format(number(share.r2_in_units))
    elif scaling == "counts":
        most = explainable(analysis)
        sentence += Markup(" Counts have noise that no model explains{}.").format(
            f": Poisson noise alone is {1 - most:.0%} of their variance" if most else ""
        )
    return [sentence]


def explainable(analysis: Analysis) -> float | None:
    """Return the largest R^2 that counts allow: 1 - E[Var(x|z)] / Var(x).

    Var(x|z) is at least that of Poisson counts, E[x|z], so the limit is 1 - sum of the means / sum
    of the variances of the columns, for every model. None if the data are not counts, or if their
    variance is not larger than that of Poisson counts.
    """
    if analysis.model.schema.scaling.method != "counts":
        return None
    rows = analysis.some_rows(_COMPARED, "units")
    x = analysis.model.observations(analysis.index[rows]).astype(np.float64)
    noise, total = x.mean(0).sum(), x.var(0).sum()
    return float(1 - noise / total) if total > noise else None


def _variables(active: Sequence[Variable], unused: Sequence[Variable], failed: bool) -> Markup:
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
        "<var>z<sub>j</sub></var>) in nats: {}{}{}."
    ).format(len(active), total, named, more, _UNUSED_BY_DECODER if failed else "")


def _scores(analysis: Analysis) -> list[Markup]:
    """Say how many scores are evidence, and which exceed their null by most."""
    scores = list(analysis.scores.values())
    if not scores:
        return []
    sound = [score for score in scores if not analysis.unjudged(score)]
    if not sound:
        reason = analysis.unjudged(scores[0])
        reason = f"{AT_NULL} score about the same" if AT_NULL in reason else reason
        return [Markup("No score is evidence of disentanglement: {}.").format(reason)]
    margins = [(s.value - s.null, s.null, s) for s in sound if s.null is not None]
    best: dict[str, tuple[Score, float]] = {}  # one score of each metric
    for _, null, score in sorted(margins, key=lambda margin: -margin[0]):
        best.setdefault(score.name, (score, null))
    named = Markup(", ").join(
        Markup("{} {} (chance {})").format(words(s.name), number(s.value), number(null))
        for s, null in list(best.values())[:_NAMED]
    )
    total, are = count_noun(len(scores), "score"), "is" if len(sound) == 1 else "are"
    if not best:
        return [Markup("{} of {} {} evidence of disentanglement.").format(len(sound), total, are)]
    above = "clearly above chance, the score of shuffled factors; furthest above it"
    return [Markup("{} of {} {} {}: {}.").format(len(sound), total, are, above, named)]
