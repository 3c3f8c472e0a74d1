"""The facts of a report in words and numbers: headline, tiles, scores, codes against factors."""

from __future__ import annotations

import inspect
import math
from typing import NamedTuple

import torch
from markupsafe import Markup

from unweave.core.schedules import Schedule
from unweave.metrics import Score
from unweave.report.content import DEAD, Content, Variable
from unweave.report.text import number, typeset, words

_SATURATED = 0.9  # share of log N from which the information is all there can be
_EQUAL = 1e-3  # nats within which two log-densities are the same
_LONGEST = 12  # items of a list that are spelt out
_TILES = ("factor_vae_score", "mig")  # metrics with a tile; all are in the table of scores


class Tile(NamedTuple):
    """A key number with its name and a remark."""

    label: Markup | str
    value: str
    unit: str
    remark: str


class ScoreRow(NamedTuple):
    """A metric under a protocol: its value, a cell a factor, and what one needs to judge it."""

    name: str
    score: Score
    cells: list[float | None]
    remark: str


def equation(content: Content) -> Markup:
    """The objective as its documentation writes it, set as mathematics."""
    text = inspect.getdoc(type(content.model.run.objective)) or ""
    return typeset(" ".join(text.split("\n\n")[0].split()).removesuffix("."))


def weights(content: Content) -> str:
    """The weights of the objective in a line."""
    found = content.model.run.weights.items()
    return ", ".join(
        f"{words(name)} {weight if isinstance(weight, Schedule) else f'= {weight:g}'}"
        for name, weight in found
    )


def tiles(content: Content) -> list[Tile]:
    """Distortion and rate, the rate taken apart, the variables in use, and some scores."""
    summary, everything = content.summary, len(content.table) == content.model.dataset.size
    told = Markup("I(<var>x</var>; <var>z</var>)")
    correlation = "exact" if everything else "over the rows read"
    return [
        *_distortion(content),
        Tile("rate", number(content.rate), "nats", "KL(q(z|x) ‖ p(z))"),
        Tile(told, number(summary.mutual_information), "nats", "told about x"),
        Tile("total correlation", number(summary.total_correlation), "nats", correlation),
        Tile("dimension-wise KL", number(summary.dimension_kl), "nats", "q(zⱼ) from p(zⱼ)"),
        Tile(
            "active variables",
            str(len(content.active)),
            f"of {len(content.variables)}",
            f"KL ≥ {DEAD:g} nats",
        ),
        *(_score_tile(score) for score in content.scores.values() if score.name in _TILES),
    ]


def _distortion(content: Content) -> list[Tile]:
    """The distortion at the end of the log, of an objective that reports one."""
    log = content.model.log
    if not log or "distortion" not in log[-1]:
        return []
    return [Tile("distortion", number(log[-1]["distortion"]), "nats", "−log p(x|z)")]


def _score_tile(score: Score) -> Tile:
    return Tile(words(score.name), number(score.value, 3), "", f"protocol {score.protocol}")


def tile_columns(count: int) -> int:
    """Tiles side by side so that rows are nearly full, at most six.

    >>> [tile_columns(count) for count in (6, 8, 10)]
    [6, 4, 5]
    """
    return math.ceil(count / math.ceil(count / 6))


def bound(content: Content) -> Markup:
    """How far the information can be trusted: N observations cannot tell more than log N."""
    count, size = len(content.table), content.model.dataset.size
    most = math.log(count)
    sentences = [
        f"q(z) is the mixture over {count:,} of {size:,} observations, so I(x; z) is at most "
        f"log {count:,} = {most:.2f} nats. The parts are means over samples, with a little noise."
    ]
    if content.summary.mutual_information > _SATURATED * most:
        sentences.append(
            "The information is nearly that: the code tells almost every observation from every "
            "other, and a mixture of separate points has a large total correlation wherever they "
            "lie."
        )
    if count < size:
        sentences.append(
            "Over all observations the information would be larger, and the total correlation "
            f"smaller, by up to {math.log(size / count):.2f} nats."
        )
    return typeset(" ".join(sentences))


def correlations(content: Content) -> list[tuple[str, float]]:
    """The total correlation by group of a tree; none where all variables are one group.

    A group's is that between its parts, which are variables or groups themselves.
    """
    found = content.summary.correlations
    if len(found) < 2:
        return []
    return [(f"within {name}" if name else "between groups", nats) for name, nats in found.items()]


def dependent_prior(content: Content) -> bool:
    """Whether variables depend on each other under the prior."""
    z = torch.as_tensor(content.samples, device=content.prior.mean.device)
    gap = content.prior.log_prob(z) - content.prior.log_marginals(z).sum(-1)
    return bool(gap.abs().mean() > _EQUAL)


def score_rows(content: Content) -> list[ScoreRow]:
    """A row a metric and protocol."""
    names = [factor.name for _, factor in content.factors]
    return [
        ScoreRow(
            words(score.name),
            score,
            [score.parts.get(name) for name in names],
            _remark(score, names),
        )
        for score in content.scores.values()
    ]


def _remark(score: Score, names: list[str]) -> str:
    """The details of a score, and the parts of it that are no factor's."""
    others = {name: round(part, 3) for name, part in score.parts.items() if name not in names}
    told = {**others, **score.details}
    return "; ".join(f"{name} {_detail(value)}" for name, value in told.items() if value != [])


def _detail(value: object) -> str:
    if isinstance(value, list):
        shown = ", ".join(_detail(item) for item in value[:_LONGEST])
        return shown + (f" and {len(value) - _LONGEST} more" if len(value) > _LONGEST else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def constant_factors(content: Content) -> list[str]:
    """The names of the factors that take one value only."""
    varied = {column for column, _ in content.factors}
    return [name for k, name in enumerate(content.table.factor_names) if k not in varied]


def heat(content: Content) -> list[tuple[Variable, list[float]]]:
    """The rows of the map of codes against factors."""
    return [(variable, content.matrix[variable.number].tolist()) for variable in content.shown]
