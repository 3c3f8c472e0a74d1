"""Compute everything a report shows: what a trained model does with its data."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unweave.aggregate import Summary, summarise
from unweave.core.noise import Noise
from unweave.data import Data, Dataset, Factor
from unweave.data.selection import HeldOutSplit
from unweave.data.splits import available_splits, on_split, split_of, with_split
from unweave.evaluation.model import FittedModel
from unweave.evaluation.shared_latents import LEAST_INFORMATION, NO_INFORMATION, most_information
from unweave.evaluation.validation import Dominant, Validation
from unweave.latents import Distribution
from unweave.metrics import (
    METRICS,
    Score,
    Table,
    describe,
    evaluate,
    left_out,
)
from unweave.metrics.evidence import unjudged
from unweave.metrics.shares import FactorShares, factor_shares

Array = NDArray[np.floating[Any]]

SHUFFLES = 3  # of the factors, for the score that uninformative codes get
STEPS = 11  # values of a continuous variable in a traversal
_AT_ONCE = 256  # observations that are reconstructed
_MOST_BEYOND = 0.2  # share of the codes of a variable that may lie beyond its traversal
_HIDDEN = 0.2  # share of a factor that a variable could explain without rising above chance
MOST_SHOWN = 24  # variables drawn; of a wider latent space the rest is only counted


class Explained(NamedTuple):
    """The share of the variance of observations that their reconstructions explain."""

    r2: float
    rows: int
    split: str
    held_out: bool  # whether the model was trained without these observations
    r2_in_units: float | None  # in the user's units, of columns that were standardised
    dominant: Dominant | None  # observations that have nearly all of the variance


def explained(model: FittedModel) -> Explained:
    """Measure R^2 as `Validation` does, on observations that the model has not seen if there are.

    A model on the training split is measured on the validation split, any other on its own data.
    """
    data, split = model.data, split_of(model.run.data)
    if split_of(data) == split and "train" in split.split(" of "):
        data = with_split(data, "validation") if "validation" in available_splits(data) else data
    validation = Validation(_load(model, data), _load(model, on_split(data, split)))
    (loss,) = validation.measure(model.trained)
    held_out = _disjoint(split_of(data), split)
    standard = model.schema.scaling.method == "standardise"
    in_units = _r2_in_units(model, validation) if standard else None
    rows, dominant = len(validation.index), validation.dominant
    return Explained(loss.r2, rows, split_of(data), held_out, in_units, dominant)


def _r2_in_units(model: FittedModel, validation: Validation) -> float:
    """Compute R^2 of the same observations, against the same mean, in the user's units."""
    scaling = model.schema.scaling
    error, total = 0.0, 0.0
    mean = scaling.invert(validation.mean[None].float().cpu().numpy())
    for part in validation.index.split(_AT_ONCE):
        x = scaling.invert(validation.dataset.images(part).cpu().numpy()).astype(np.float64)
        error += float(np.square(x - model.reconstruct(x)).sum())
        total += float(np.square(x - mean).sum())
    return 1 - error / total if total else 0.0


def _load(model: FittedModel, data: Data) -> Dataset:
    return model.dataset if data == model.data else data.load(model.device)


def _disjoint(one: str, two: str) -> bool:
    """Return whether two splits have no observation in common.

    >>> _disjoint("test", "train"), _disjoint("all", "train"), _disjoint("held-out", "rest")
    (True, False, True)
    """
    names = [set(split.split(" of ")) - {"all"} for split in (one, two)]
    selections = [each & set(get_args(HeldOutSplit)) for each in names]
    files = [each - set(get_args(HeldOutSplit)) for each in names]
    return any(a and b and a != b for a, b in (selections, files))


class Variable(NamedTuple):
    """One latent variable, and the factor that it explains best."""

    number: int  # index among the variables, and column of the table's codes
    name: str
    columns: slice  # of z
    discrete: bool
    kl: float  # mean of KL(q(z_j|x) || p(z_j)), in nats
    information: float  # I(x; z_j), in nats
    factor: str | None = None  # None if no factor is known
    share: float = 0.0  # of that factor; see `FactorShares`
    above_chance: bool = False

    @property
    def mismatch(self) -> float:
        """KL(q(z_j) || p(z_j)) = KL(q(z_j|x) || p(z_j)) - I(x; z_j), in nats."""
        # The information is estimated from samples, so near 0 it can exceed the exact rate.
        return max(0.0, self.kl - self.information)


class BestVariables(NamedTuple):
    """A factor and the two variables that explain most of it, best first."""

    factor: Factor
    column: int  # of the factors of the labelled rows
    best: list[tuple[Variable, float]]  # with the shares that they explain
    at_chance: str  # "" if the best is above chance; otherwise what the rows show

    @property
    def discrete(self) -> bool:
        """Whether the best variable is discrete."""
        return self.best[0][0].discrete


class Start(NamedTuple):
    """A row of the table to start traversals from, and a description of where it lies."""

    row: int
    where: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything a report shows, computed from some observations of the data."""

    model: FittedModel
    posterior: Distribution  # q(z|x) of every row
    prior: Distribution  # p(z)
    index: NDArray[np.int64]  # (N,) indices of the observations
    table: Table
    samples: Array  # (N, D): one sample of q(z|x) per row, so samples of q(z)
    traversal_values: list[Array]  # of every variable, (n, its columns)
    rate: float  # mean of KL(q(z|x) || p(z)) over the rows, in nats
    summary: Summary
    explained: Explained | None  # None if the objective trains no autoencoder
    scores: dict[str, Score]  # that compare codes with factors
    unsupervised: dict[str, Score]  # that need no factors
    left_out: dict[str, str]
    shares: FactorShares  # of every variable, for the factors in `factors`
    factors: list[tuple[int, Factor]]  # with at least two values, and columns of `labelled`

    @property
    def labelled(self) -> Table:
        """The rows of the table without missing labels; see `Table.labelled`."""
        return self.table.labelled

    @cached_property
    def variables(self) -> list[Variable]:
        """All variables, sorted by decreasing KL."""
        variables = [self._variable(number) for number in range(self.table.codes.shape[1])]
        return sorted(variables, key=lambda variable: -variable.kl)

    def _variable(self, number: int) -> Variable:
        assert self.table.kl is not None
        latent = self.model.run.latent
        variable = Variable(
            number,
            latent.names[number],
            latent.columns[number],
            latent.discrete[number],
            float(self.table.kl[number]),
            self._information(number),
        )
        if not self.factors:
            return variable
        best = int(self.shares.values[number].argmax())
        return variable._replace(
            factor=self.factors[best][1].name,
            share=float(self.shares.values[number, best]),
            above_chance=bool(self.shares.above_chance[number, best]),
        )

    def _information(self, number: int) -> float:
        """I(x; z_v): exact for a discrete variable, otherwise estimated from samples."""
        latent = self.model.run.latent
        if not latent.discrete[number]:
            return self.summary.information[number]
        each = _class_masses(self.means[:, latent.columns[number]].astype(np.float64))
        ratio = np.divide(each, each.mean(0), out=np.ones_like(each), where=each > 0)
        return float((each * np.log(ratio)).sum(1).mean())

    @property
    def active(self) -> list[Variable]:
        """The variables that carry information about the data, as `compare` counts them.

        A rate is no evidence of that: KL(q(z_j|x) || p(z_j)) is also large if all posteriors are
        equal and differ from the prior.
        """
        return [each for each in self.variables if self._is_active(each)]

    def _is_active(self, variable: Variable) -> bool:
        """Whether a variable carries at least 0.02 nats.

        For a normal posterior this is judged by the bound `most_information`, which has no noise of
        samples.
        """
        scales, normal = self.table.scales, self.table.normal
        by_bound = (
            not variable.discrete
            and scales is not None
            and (normal is None or bool(normal[variable.number]))
        )
        amount = self._bounds[variable.number] if by_bound else variable.information
        return bool(amount >= LEAST_INFORMATION)

    @cached_property
    def _bounds(self) -> NDArray[np.float64]:
        return most_information(self.table)

    @property
    def shown(self) -> list[Variable]:
        """The active variables that are drawn."""
        return self.active[:MOST_SHOWN]

    @property
    def unused(self) -> list[Variable]:
        """The variables whose posterior is nearly the same for every observation."""
        return [each for each in self.variables if not self._is_active(each)]

    @cached_property
    def means(self) -> Array:
        """Means of q(z|x) of every row, (N, D): the input of the decoder."""
        return self.posterior.mean.cpu().numpy()

    def masses(self, variable: Variable) -> tuple[Array, Array]:
        """q(c) and p(c) of the classes of a discrete variable, (classes,) each."""
        q, p = self.means.mean(0, dtype=np.float64), self.prior.mean.double().cpu().numpy()
        return _class_masses(q[variable.columns]), _class_masses(p[variable.columns])

    @property
    def best_variables(self) -> list[BestVariables]:
        """For each factor, the two active variables that explain most of it; [] if none is active.

        The mean code of an unused variable may follow a factor too, far below its noise.
        """
        active, found = self.active, []
        for k, (column, factor) in enumerate(self.factors if active else ()):
            shares = [(v, float(self.shares.values[v.number, k])) for v in active]
            best = sorted(shares, key=lambda pair: -pair[1])[:2]
            at_chance = "" if self.shares.above_chance[best[0][0].number, k] else self._at_chance(k)
            found.append(BestVariables(factor, column, best, at_chance))
        return found

    def _at_chance(self, k: int) -> str:
        """Say what the rows show of a factor of which no share is above chance."""
        if self.shares.chance[k] > _HIDDEN:
            return f"cannot tell with {len(self.labelled):,} rows"
        return "no variable above chance"

    def unjudged(self, score: Score) -> str:
        """Return why a score is no evidence that codes follow factors, or ""."""
        return unjudged(score, self.table) if self.active else NO_INFORMATION

    def uncovered(self) -> list[tuple[Variable, float]]:
        """Return variables of which many mean codes lie beyond the traversals, with their shares.

        Normal codes like the prior have 5 % of them there.
        """
        found = []
        for variable in self.active:
            if not variable.discrete:
                low, high = self.traversal_values[variable.number][[0, -1], 0]
                codes = self.means[:, variable.columns]
                beyond = float(((codes < low) | (codes > high)).any(1).mean())
                found += [(variable, beyond)] if beyond > _MOST_BEYOND else []
        return sorted(found, key=lambda pair: -pair[1])

    def starts(self) -> list[Start]:
        """Choose rows to start traversals from: a central one, and one at a typical distance.

        If factors are known, the first is in the middle of their ranges, since a code near the
        prior's mean can lie between all observations that the model has seen.
        """
        distance = self._distance()
        ordered = [factor for _, factor in self.factors if factor.kind == "ordinal"]
        off_centre = sum((self._off_centre(each) for each in ordered), np.zeros(len(distance)))
        middle = np.lexsort([distance, off_centre])[0]
        typical = np.argsort(distance, kind="stable")[len(distance) // 2]
        first = "the middle of the factors' ranges" if ordered else "the middle of the prior"
        found = {
            int(typical): "a typical distance from the middle of the prior",
            int(middle): first,
        }
        return [Start(row, where) for row, where in reversed(found.items())]

    def _distance(self) -> Array:
        """Squared distance of every code from the prior's mean, (N,), in active continuous columns.

        Each column is measured in units of its range in a traversal.
        """
        low, high = (end.cpu().numpy() for end in self.model.run.latent.traversal_range(self.prior))
        off = (self.means - self.prior.mean.cpu().numpy()) / (high - low)
        active = [v.columns for v in self.active if not v.discrete]
        squares = [np.square(off[:, columns], dtype=np.float64).sum(1) for columns in active]
        return sum(squares, np.zeros(len(off)))

    def _off_centre(self, factor: Factor) -> Array:
        """Distance of the class of every row from the middle class, from 0 to 1."""
        column, half = self.table.factor_names.index(factor.name), (factor.size - 1) / 2
        values = self.table.factors[:, column]
        if self.table.continuous_mask[column]:
            values = np.where(
                np.isnan(values), np.nan, np.searchsorted(factor.values or (), values)
            )
        return np.nan_to_num(np.abs(values - half).round() / half, nan=1.0)

    def some_rows(self, count: int, stream: str) -> list[int]:
        """Draw rows at random without repeats, the same in every call."""
        order = Noise(0, 0, "report").permutation(len(self.table), stream)
        return [int(row) for row in order[:count]]

    def observations(self, rows: list[int]) -> Array:
        """Return the observations of rows of the table, (n, *shape)."""
        return self.displayed(self.model.observations(self.index[rows]))

    def reconstructions(self, rows: list[int]) -> Array:
        """Return the reconstructions of rows of the table, (n, *shape)."""
        return self.displayed(self.model.decode(self.means[rows]))

    def traverse(self, row: int, variable: Variable) -> Array:
        """Decode the code of a row as one variable takes its traversal values, (n, *shape)."""
        values = self.traversal_values[variable.number]
        moved = self.model.traverse_variable(self.means[row], variable.number, values)
        return self.displayed(moved)

    def displayed(self, values: Array) -> Array:
        """Return vectors in the user's units, and images as the networks see them.

        So what percentiles have scaled to 0 and 1 is black and white.
        """
        schema = self.model.schema
        return schema.scaling.apply(values).numpy() if len(schema.shape) == 3 else values


def _reads_factors(key: str) -> bool:
    """Whether a metric compares codes with factors: a user's own function does, by its name."""
    return key in METRICS or "/" not in key


def analyse(
    model: FittedModel, rows: int, scores: dict[str, Score] | None = None, seed: int = 0
) -> Analysis:
    """Encode `rows` observations of the data and compute everything a report shows.

    Pass the scores of the same rows if they are known, to save computing them again. `seed` is of
    the choice of the rows.
    """
    index, latent = model.rows(rows, seed), model.run.latent
    noise = Noise(0, 0, "report", index.device)
    posterior, prior = model.posteriors(index), model.prior()
    samples = posterior.rsample(noise)
    table = model.tabulate(index, posterior)
    labelled = table.labelled
    factors = _varying_factors(model, labelled)
    shares = FactorShares(np.zeros((table.codes.shape[1], 0)), np.zeros(0))
    if factors:
        columns = [column for column, _ in factors]
        shares = factor_shares(
            labelled.codes,
            labelled.merged_factors[:, columns],
            discrete=table.discrete,
            continuous=np.flatnonzero(labelled.continuous_mask[columns]).tolist(),
        )
    known = evaluate(table, null=True, shuffles=SHUFFLES) if scores is None else scores
    return Analysis(
        model=model,
        posterior=posterior,
        prior=prior,
        index=index.cpu().numpy(),
        table=table,
        samples=samples.cpu().numpy(),
        traversal_values=model.traversal_values(STEPS),
        rate=latent.rate(posterior, prior, samples).double().mean().item(),
        summary=summarise(latent, posterior, prior, noise),
        explained=explained(model) if model.run.objective.autoencodes else None,
        scores={key: score for key, score in known.items() if _reads_factors(key)},
        unsupervised=describe(table)
        | {key: score for key, score in known.items() if not _reads_factors(key)},
        left_out=left_out(table),
        shares=shares,
        factors=factors,
    )


def _varying_factors(model: FittedModel, table: Table) -> list[tuple[int, Factor]]:
    """Return the factors that take at least two values in the table, with their columns."""
    varying = [k for k, column in enumerate(table.merged_factors.T) if len(np.unique(column)) > 1]
    schema = model.dataset.schema
    return [(k, schema.factor(schema.column(table.factor_names[k]))) for k in varying]


def _class_masses(mean: Array) -> Array:
    """Return the masses of classes (..., classes) from the means of one-hot columns or one bit."""
    return mean if mean.shape[-1] > 1 else np.concatenate([1 - mean, mean], -1)
