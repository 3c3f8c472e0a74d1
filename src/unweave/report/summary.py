"""The words, key numbers and tables of a report."""

import inspect
import math
from typing import NamedTuple

import torch
from markupsafe import Markup

from unweave.core.groups import grouped
from unweave.core.schedules import Schedule
from unweave.core.text import number_text
from unweave.evaluation.shared_latents import LEAST_INFORMATION
from unweave.metrics import Score
from unweave.metrics.score import NO_EVIDENCE
from unweave.metrics.shares import SHUFFLES
from unweave.report.analysis import Analysis, Variable
from unweave.report.text import number, typeset, words
from unweave.training.final_terms import final_terms

_SATURATED = 0.9  # share of log N above which the mutual information is limited by N
_EQUAL = 1e-3  # nats within which two log-densities count as equal
_MOST_ITEMS = 12  # items of a list that are written out
_TILES = ("factor_vae_score", "mig")  # metrics with a tile; the table of scores has all of them


class Tile(NamedTuple):
    """A key number with its name and a remark."""

    label: Markup | str
    value: str
    unit: str
    remark: str


class ScoreRow(NamedTuple):
    """A metric under one protocol: its score, one cell per factor, and the details."""

    name: str
    score: Score
    cells: list[float | None]
    unjudged: str  # why the score is no evidence, or ""
    remark: str


def equation(analysis: Analysis) -> Markup:
    """Return the objective's equation, the first paragraph of its documentation."""
    text = inspect.getdoc(type(analysis.model.run.objective)) or ""
    return typeset(" ".join(text.split("\n\n")[0].split()).removesuffix("."))


def weights(analysis: Analysis) -> str:
    """Return the weights of the objective in one line."""
    return ", ".join(
        f"{words(name)} {weight if isinstance(weight, Schedule) else f'= {weight:g}'}"
        for name, weight in analysis.model.run.weights.items()
    )


def tiles(analysis: Analysis) -> list[Tile]:
    """Return distortion, rate and its decomposition, the active variables, and some scores."""
    summary, log = analysis.summary, analysis.model.log
    tiles = []
    if "distortion" in (end := final_terms(log)):
        tiles.append(
            Tile("distortion", number(end["distortion"]), "nats", "−log p(x|z), end of training")
        )
    information = Markup("I(<var>x</var>; <var>z</var>)")
    exact = len(analysis.table) == analysis.model.dataset.size
    return [
        *tiles,
        Tile("rate", number(analysis.rate), "nats", "KL(q(z|x) ‖ p(z))"),
        Tile(information, number(summary.mutual_information), "nats", "mutual information"),
        Tile(
            "total correlation",
            number(summary.total_correlation),
            "nats",
            "with the exact q(z)" if exact else "of the observations read",
        ),
        Tile("dimension-wise KL", number(summary.dimension_kl), "nats", "q(zⱼ) from p(zⱼ)"),
        Tile(
            "active variables",
            f"{len(analysis.active)} of {len(analysis.variables)}",
            "",
            f"I(x; zⱼ) ≥ {LEAST_INFORMATION:g} nats",
        ),
        *_score_tiles(analysis),
    ]


def _score_tiles(analysis: Analysis) -> list[Tile]:
    """Return one tile for each of a few metrics, under the first protocol that is evidence."""
    tiles: dict[str, Tile] = {}
    for score in analysis.scores.values():
        if score.name in _TILES and not analysis.unjudged(score):
            remark = f"protocol {score.protocol}"
            tiles.setdefault(
                score.name, Tile(words(score.name), number(score.value, 3), "", remark)
            )
    return list(tiles.values())


def tile_columns(count: int) -> int:
    """Return the number of tiles per row, at most six, that fills the rows best.

    >>> [tile_columns(count) for count in (6, 8, 10)]
    [6, 4, 5]
    """
    return math.ceil(count / math.ceil(count / 6))


def information_bound(analysis: Analysis) -> Markup:
    """Explain the limit of the mutual information: at most log N for N observations."""
    count, size = len(analysis.table), analysis.model.dataset.size
    limit = math.log(count)
    sentences = [
        f"q(z) is the mixture over {count:,} of {size:,} observations, so I(x; z) is at most "
        f"log {count:,} = {limit:.2f} nats. The terms are estimated from samples."
    ]
    if analysis.summary.mutual_information > _SATURATED * limit:
        sentences.append(
            "The mutual information is close to this limit: the codes distinguish almost every "
            "pair of observations, and a mixture of separate points has a large total correlation "
            "wherever they lie."
        )
    if count < size:
        sentences.append(
            "With all observations the mutual information could be larger, and the total "
            f"correlation smaller, by up to {math.log(size / count):.2f} nats."
        )
    return typeset(" ".join(sentences))


def correlations(analysis: Analysis) -> list[tuple[str, float]]:
    """Return the total correlation between the members of each group of the latent tree.

    A tree with a single group has no such table.
    """
    groups = analysis.summary.correlations
    if len(groups) < 2:
        return []
    return [(f"within {name}" if name else "between groups", nats) for name, nats in groups.items()]


def dependent_prior(analysis: Analysis) -> bool:
    """Whether the variables are dependent under the prior."""
    z = torch.as_tensor(analysis.samples, device=analysis.prior.mean.device)
    gap = analysis.prior.log_prob(z) - analysis.prior.log_marginals(z).sum(-1)
    return bool(gap.abs().mean() > _EQUAL)


def score_rows(analysis: Analysis) -> list[ScoreRow]:
    """Return one row per metric and protocol."""
    names = [factor.name for _, factor in analysis.factors]
    return [
        ScoreRow(
            words(score.name),
            score,
            [score.parts.get(name) for name in names],
            analysis.unjudged(score),
            _score_remark(score, names),
        )
        for score in analysis.scores.values()
    ]


def unsupervised_rows(analysis: Analysis) -> list[ScoreRow]:
    """Return one row per metric that needs no factors."""
    return [
        ScoreRow(words(score.name), score, [], "", _score_remark(score, []))
        for score in analysis.unsupervised.values()
    ]


def _score_remark(score: Score, factors: list[str]) -> str:
    """Return the details of a score, and its parts that do not belong to a factor."""
    parts = {name: round(part, 3) for name, part in score.parts.items() if name not in factors}
    details = {**parts, **score.details}
    details.pop(NO_EVIDENCE, None)  # it has a line of its own
    return "; ".join(f"{name} {_detail(value)}" for name, value in details.items() if value != [])


def _detail(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(_detail(item) for item in value[:_MOST_ITEMS])
        return shown + (f" and {len(value) - _MOST_ITEMS} more" if len(value) > _MOST_ITEMS else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number_text(value, ".3g")
    return str(value)


def common_reason(analysis: Analysis) -> str:
    """Return why no score is evidence, if all scores have the same reason, otherwise ""."""
    reasons = {analysis.unjudged(score) for score in analysis.scores.values()}
    return reasons.pop() if len(reasons) == 1 and len(analysis.scores) > 1 else ""


def left_out_metrics(analysis: Analysis) -> dict[str, list[str]]:
    """Return the metrics that were left out, by reason."""
    return grouped((reason, key) for key, reason in analysis.left_out.items())


def chance_text(analysis: Analysis) -> str:
    """Say which shares of factors are chance."""
    if not analysis.factors:
        return ""
    chance = analysis.shares.chance
    ends = sorted({number(float(end)) for end in (chance.min(), chance.max())})
    return (
        f"A share is above chance if it is larger than that of every variable in {SHUFFLES} "
        f"shuffles of the factor (here {' to '.join(ends)}), so 1 in {SHUFFLES + 1} independent "
        "factors seems to be explained. Shares that are not above chance are grey on this page"
    )


def share_text(analysis: Analysis) -> Markup:
    """Say what the share of a factor is, for the kinds of factors that there are."""
    continuous = {bool(analysis.labelled.continuous_mask[column]) for column, _ in analysis.factors}
    kinds = {False: "of the entropy of a discrete factor, I(z; v) / H(v)"}
    kinds[True] = "of the variance of the ranks of a continuous factor"
    return typeset(", or ".join(kinds[each] for each in sorted(continuous)))


def counts_text(analysis: Analysis) -> Markup:
    """Say what each count of active variables counts, if the page has several."""
    if not any(score.name == "active_units" for score in analysis.unsupervised.values()):
        return Markup("")
    return typeset(
        f"The summary counts {len(analysis.active)} active variables, those with I(x; z_j) of at "
        f"least {LEAST_INFORMATION:g} nats, as do the explorer and compare. The active units of "
        "the table are other counts: burda2016 counts variables whose mean code has a variance "
        "above 0.01, and kl those with a KL above 0.01 nats; such a variable may still carry "
        "almost no information about the data."
    )


def constant_factors(analysis: Analysis) -> list[str]:
    """Return the names of the factors that take a single value."""
    varying = {column for column, _ in analysis.factors}
    return [name for k, name in enumerate(analysis.labelled.factor_names) if k not in varying]


def information_rows(analysis: Analysis) -> list[tuple[Variable, list[tuple[float, bool]]]]:
    """Return each shown variable with its share of each factor, and whether it is above chance."""
    shares = analysis.shares
    values, above = shares.values.tolist(), shares.above_chance.tolist()
    return [(v, list(zip(values[v.number], above[v.number], strict=True))) for v in analysis.shown]
