"""Held-out loss: distortion, rate and R^2 of models on observations they are not trained on."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data import Dataset
from unweave.evaluation.model import chosen_rows
from unweave.evaluation.stacked import StackedModels
from unweave.objectives import Nets
from unweave.training import Outcome, Row, log_interval
from unweave.training.run import Run

T = TypeVar("T")

_MOST_ROWS = 1_000
_MEAN_ROWS = 10_000  # observations that the mean of the training data is estimated from
_AT_ONCE = 256  # observations loaded at once
_MOST_TIMES = 20
_SHARE = 0.04  # share of the training time that validation may take
_DOMINANT = 0.9  # if 1 % of the observations have this share of the variance, they dominate it
_NAMED = 3  # dominant observations that are named
_LEAST = 10  # with fewer observations, 1 % of them is not a small part


class HeldOutLoss(NamedTuple):
    """Distortion and rate in nats, and the share of the variance that reconstructions explain."""

    distortion: float
    rate: float
    r2: float

    @property
    def total(self) -> float:
        """Distortion plus rate, whatever the weights of the objective are."""
        return self.distortion + self.rate


class Dominant(NamedTuple):
    """A few observations with nearly all of the variance, those with the most of it first."""

    names: Sequence[str]
    among: int  # number of observations that they are among
    share: float
    otherwise: str  # what to do if they are right

    def describe(self) -> str:
        """Say which observations these are, and what R^2 is worth.

        >>> Dominant(["S9"], 320, 0.9951, "").describe().partition(",")[0]
        'one of 320 observations (S9) accounts for 99.5% of the variance'
        """
        one = len(self.names) == 1
        which = "one" if one else f"{len(self.names):,}"
        more = ", ..." if len(self.names) > _NAMED else ""
        return (
            f"{which} of {self.among:,} observations ({', '.join(self.names[:_NAMED])}{more}) "
            f"{'accounts' if one else 'account'} for {self.percent} of the variance, so R^2 says "
            f"little about the others: if {'it is' if one else 'they are'} wrong, correct or "
            f"remove {'it' if one else 'them'}; otherwise {self.otherwise}"
        )

    @property
    def percent(self) -> str:
        """The share, rounded down: it is not all of the variance."""
        return f"{min(99.9, math.floor(1000 * self.share) / 10):g}%"


def final_loss(measures: Sequence[Row]) -> HeldOutLoss | None:
    """Return the last held-out loss of a run; None if none was measured, or if it is not finite."""
    measured = [row for row in measures if "validation" in row]
    return next((loss for _, loss in held_out_losses(measured[-1:])), None)


def held_out_losses(measures: Sequence[Row]) -> list[tuple[int, HeldOutLoss]]:
    """Return the held-out losses of a run that are finite, with their steps."""
    rows = [row for row in measures if None not in row.get("validation", {"": None}).values()]
    return [(row["step"], HeldOutLoss(**row["validation"])) for row in rows]


def note_on_runs(
    outcomes: Sequence[Outcome],
    find: Callable[[Outcome], T | None],
    what: str,
    describe: Callable[[Outcome, T], str] | None = None,
) -> str:
    """Describe what `find` finds in the first run for which it is not None, and in how many.

    "" if there is no such run; failed runs are not looked at.
    """
    trained = [outcome for outcome in outcomes if not outcome.failure]
    every = [(each, find(each)) for each in trained]
    found = [(each, value) for each, value in every if value is not None]
    if not found:
        return ""
    first, value = found[0]
    which = f"seed {first.run.seed}: " if len(trained) > 1 else ""
    if len(found) > 1:
        which = f"{len(found)} of {len(trained)} runs {what}, such as {which}"
    return f"{which}{describe(first, value) if describe else value}"


class Validation:
    """Observations to measure a loss on, held out if any are, and those that runs are trained on.

    R^2 = 1 - sum (x - E[x|z])^2 / sum (x - m)^2, where z is the mean of q(z|x) and m the mean of
    the training data. It is 0 for a model that ignores its codes, and below 0 for one that does
    worse. Values are compared as the networks see them, after scaling.
    """

    def __init__(self, held_out: Dataset, trained_on: Dataset) -> None:
        self.dataset, self.trained_on = held_out, trained_on
        self.index = chosen_rows(held_out, _MOST_ROWS)

    def interval(self, run: Run) -> int:
        """Return the steps between validations: 20 of a run, or fewer if these take too long.

        A step passes a batch forward and backward, about three times the cost of a forward pass;
        a validation passes every observation forward twice.
        """
        affordable = _SHARE * 3 * run.steps * run.batch_size / (2 * len(self.index))
        times = max(1, min(_MOST_TIMES, int(affordable)))
        logged = log_interval(run.steps)
        return max(1, round(run.steps / times / logged)) * logged

    @cached_property
    def mean(self) -> Tensor:
        """The mean of the observations that the runs are trained on."""
        index = chosen_rows(self.trained_on, _MEAN_ROWS)
        sums = [self.trained_on.images(part).double().sum(0) for part in index.split(_AT_ONCE)]
        return torch.stack(sums).sum(0) / len(index)

    @cached_property
    def dominant(self) -> Dominant | None:
        """The few observations (at most 1 %) with nearly all of the variance, if there are any.

        R^2 then describes these alone: if they are held out, by definition; if they are among the
        training data, because they move the mean that others are compared with.
        """
        trained_on = chosen_rows(self.trained_on, _MEAN_ROWS)
        pairs = (self.trained_on, trained_on, "training"), (self.dataset, self.index, "held-out")
        dominant = [each for pair in pairs if (each := self._dominant(*pair))]
        return max(dominant, key=lambda each: each.share, default=None)

    def _dominant(self, dataset: Dataset, index: Tensor, kind: str) -> Dominant | None:
        """Return the observations that dominate the variance, or None."""
        parts = [
            (dataset.images(part) - self.mean).double().square().flatten(1).sum(1)
            for part in index.split(_AT_ONCE)
        ]
        variation = torch.cat(parts).cpu()
        most, places = variation.topk(max(1, len(index) // 100))
        share = float(most.sum() / variation.sum())
        if len(index) < _LEAST or not share >= _DOMINANT:
            return None
        enough = int((most.cumsum(0) < _DOMINANT * variation.sum()).sum()) + 1
        rows, names = index[places[:enough].to(index.device)].tolist(), dataset.row_names
        listed = [names[row] if names else f"{kind} observation {row}" for row in rows]
        share = float(most[:enough].sum() / variation.sum())
        return Dominant(listed, len(index), share, _less_dominance(dataset))

    def measure(self, trained: StackedModels) -> list[HeldOutLoss]:
        """Return the held-out loss of every lane, with the same noise each time."""
        sums = torch.zeros(len(trained), 3, dtype=torch.float64, device=trained.device)
        variation = 0.0
        for part in self.index.split(trained.chunk(self.dataset.shape)):
            x = self.dataset.images(part)
            losses = trained.together(_losses(Noise(0, int(part[0]), "validation", x.device)), x)
            sums += losses.double().sum(1)
            variation += float((x - self.mean).double().square().sum())
        distortion, rate, error = (sums / len(self.index)).unbind(1)
        unexplained = error * (len(self.index) / variation if variation else torch.nan)
        columns = (distortion.tolist(), rate.tolist(), (1 - unexplained).tolist())
        return [HeldOutLoss(*lane) for lane in zip(*columns, strict=True)]


def _less_dominance(dataset: Dataset) -> str:
    """Say how correct observations can be kept from dominating the variance."""
    if len(dataset.shape) == 3 and not dataset.bounded:
        return "scale them by percentiles, with data.scale=percentile"
    return "transform the values, for example by taking logarithms"


def _losses(noise: Noise) -> Callable[[Nets, Tensor], Tensor]:
    """Return a function that computes distortion, rate and squared error, (B, 3)."""

    def compute(nets: Nets, x: Tensor) -> Tensor:
        forward = nets.model(x, noise)
        error = (x - _reconstruct(nets, x)).square().flatten(1).sum(1)
        return torch.stack([forward.distortion, forward.rate, error], 1)

    return compute


def _reconstruct(nets: Nets, x: Tensor) -> Tensor:
    """Decode the mean codes of observations, without noise."""
    z = nets.model.encode(x).mean
    noise = torch.zeros(len(z), nets.model.noise, device=z.device)
    return nets.model.decode(torch.cat([z, noise], 1)).mean
