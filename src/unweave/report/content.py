"""The numbers of a report, computed once: what the trained model does with its data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.aggregate import Summary, summarise
from unweave.core.noise import Noise
from unweave.data import Factor
from unweave.evaluation.model import FittedModel
from unweave.latents import Distribution
from unweave.metrics import Score, Table, evaluate, left_out, mutual_information_matrix

Array = NDArray[np.floating[Any]]

DEAD = 0.01  # nats of KL(q(z_j|x) || p(z_j)) below which a variable carries nothing
STEPS = 11  # values of a continuous variable in a traversal
MOST = 24  # variables drawn; the rest of a very wide latent space is only named


class Variable(NamedTuple):
    """One latent variable, and the factor it tells most about where factors are known."""

    number: int  # among the variables: its column of the table's codes
    name: str
    columns: slice  # of z
    discrete: bool
    kl: float  # mean of KL(q(z_j|x) || p(z_j)), in nats
    information: float  # I(x; z_j), in nats
    factor: str | None = None
    share: float = 0.0  # I(z_j; v_k) / H(v_k) for that factor

    @property
    def mismatch(self) -> float:
        """KL(q(z_j) || p(z_j)) = KL(q(z_j|x) || p(z_j)) - I(x; z_j), in nats."""
        # The information is sampled: near 0 its noise can exceed the exact rate.
        return max(0.0, self.kl - self.information)


class Told(NamedTuple):
    """A factor and the variables that tell most about it, the best first."""

    factor: Factor
    column: int  # of the table's factors
    best: list[tuple[Variable, float]]

    @property
    def by_class(self) -> bool:
        """Whether the variable that tells most is discrete."""
        return self.best[0][0].discrete


class Start(NamedTuple):
    """A row of the table to traverse from, and where it lies."""

    row: int
    where: str


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says, of the rows of the data that it read."""

    model: FittedModel
    posterior: Distribution  # q(z|x) of every row
    prior: Distribution  # p(z)
    index: NDArray[np.int64]  # (N,) numbers of the observations read
    table: Table
    samples: Array  # (N, D): one of q(z|x) for every row, so samples of q(z)
    walks: list[Array]  # values of every variable in a traversal, (n, its columns)
    rate: float  # mean of KL(q(z|x) || p(z)) over the rows, in nats
    summary: Summary
    scores: dict[str, Score]
    left_out: dict[str, str]
    matrix: Array  # (V, K): I(z_j; v_k) / H(v_k), columns of `factors`
    factors: list[tuple[int, Factor]]  # those that take two values, with their column

    @cached_property
    def variables(self) -> list[Variable]:
        """Every variable, the one with the largest KL first."""
        found = [self._variable(number) for number in range(self.table.codes.shape[1])]
        return sorted(found, key=lambda variable: -variable.kl)

    def _variable(self, number: int) -> Variable:
        assert self.table.kl is not None
        latent = self.model.run.latent
        plain = Variable(
            number,
            latent.names[number],
            latent.columns[number],
            latent.discrete[number],
            float(self.table.kl[number]),
            self._information(number),
        )
        if not self.factors:
            return plain
        best = int(self.matrix[number].argmax())
        share = float(self.matrix[number, best])
        return plain._replace(factor=self.factors[best][1].name, share=share)

    def _information(self, number: int) -> float:
        """I(x; z_v), from samples; that of a discrete variable is known."""
        latent = self.model.run.latent
        if not latent.discrete[number]:
            return self.summary.information[number]
        each = _classes(self.means[:, latent.columns[number]].astype(np.float64))
        ratio = np.divide(each, each.mean(0), out=np.ones_like(each), where=each > 0)
        return float((each * np.log(ratio)).sum(1).mean())

    @property
    def active(self) -> list[Variable]:
        """The variables that carry something."""
        return [variable for variable in self.variables if variable.kl >= DEAD]

    @property
    def shown(self) -> list[Variable]:
        """The active variables that are drawn."""
        return self.active[:MOST]

    @property
    def dead(self) -> list[Variable]:
        """The variables that equal the prior whatever the observation."""
        return [variable for variable in self.variables if variable.kl < DEAD]

    @cached_property
    def means(self) -> Array:
        """Means of q(z|x) of every row, (N, D): what the decoder takes."""
        found: Array = self.posterior.mean.cpu().numpy()
        return found

    def masses(self, variable: Variable) -> tuple[Array, Array]:
        """q(c) and p(c) of the classes of a discrete variable, (classes,) each."""
        q, p = self.means.mean(0, dtype=np.float64), self.prior.mean.double().cpu().numpy()
        return _classes(q[variable.columns]), _classes(p[variable.columns])

    @property
    def told(self) -> list[Told]:
        """For each factor the two variables in use that tell most about it.

        The mean code of an unused variable follows the factors too, far below its noise.
        """
        used = self.active or self.variables
        found = []
        for k, (column, factor) in enumerate(self.factors):
            shares = [(variable, float(self.matrix[variable.number, k])) for variable in used]
            best = sorted(shares, key=lambda pair: -pair[1])[:2]
            found.append(Told(factor, column, best))
        return found

    def starts(self) -> list[Start]:
        """Rows to traverse from: one in the middle, and one as far from the prior's mean as most.

        The middle is that of the factors' ranges where factors are known: a code near the prior's
        mean can lie between all that the model has seen.
        """
        distance = self._distance()
        ordered = [(column, f) for column, f in self.factors if f.kind == "ordinal"]
        off_centre = sum((self._off_centre(*each) for each in ordered), np.zeros(len(distance)))
        middle = np.lexsort([distance, off_centre])[0]
        typical = np.argsort(distance, kind="stable")[len(distance) // 2]
        first = "the middle of the factors' ranges" if ordered else "the middle of the prior"
        found = {
            int(typical): "a typical distance from the middle of the prior",
            int(middle): first,
        }
        return [Start(row, where) for row, where in reversed(found.items())]

    def _distance(self) -> Array:
        """How far every code is from the prior's mean, (N,), in the active continuous columns."""
        low, high = (end.cpu().numpy() for end in self.model.run.latent.reach(self.prior))
        off = (self.means - self.prior.mean.cpu().numpy()) / (high - low)
        active = [v.columns for v in self.active if not v.discrete]
        squares = [np.square(off[:, columns], dtype=np.float64).sum(1) for columns in active]
        return sum(squares, np.zeros(len(off)))

    def _off_centre(self, column: int, factor: Factor) -> Array:
        """How far the class of every row is from the middle class, 0 to 1."""
        half = (factor.size - 1) / 2
        away: Array = np.abs(self.table.factors[:, column] - half).round() / half
        return away

    def some_rows(self, count: int, stream: str) -> list[int]:
        """Rows drawn at random without repeats, the same every time."""
        order = Noise(0, 0, "report").permutation(len(self.table), stream)
        return [int(row) for row in order[:count]]

    def observations(self, rows: list[int]) -> Array:
        """Observations of rows of the table, (n, *shape)."""
        return self.model.observations(self.index[rows])

    def reconstructions(self, rows: list[int]) -> Array:
        """Their reconstructions, (n, *shape)."""
        return self.model.decode(self.means[rows])

    def walk(self, row: int, variable: Variable) -> Array:
        """Decoded steps along a variable from the code of a row, (n, *shape)."""
        return self.model.walk(self.means[row], variable.number, self.walks[variable.number])


def gather(model: FittedModel, rows: int, scores: dict[str, Score] | None = None) -> Content:
    """Encode `rows` observations of the data, and measure them in every way that a report shows.

    Scores of the same rows that are there already need not be computed again.
    """
    index, latent = model.rows(rows), model.run.latent
    noise = Noise(0, 0, "report", index.device)
    posterior, prior = model.posteriors(index), model.prior()
    samples = posterior.rsample(noise)
    table = model.tabulate(index, posterior)
    factors = _factors(model, table)
    matrix = np.zeros((table.codes.shape[1], 0))
    if factors:
        columns = table.merged_factors[:, [column for column, _ in factors]]
        matrix = mutual_information_matrix(table.codes, columns, discrete=table.discrete)
    return Content(
        model=model,
        posterior=posterior,
        prior=prior,
        index=index.cpu().numpy(),
        table=table,
        samples=samples.cpu().numpy(),
        walks=model.walks(STEPS),
        rate=latent.rate(posterior, prior, samples).double().mean().item(),
        summary=summarise(latent, posterior, prior, noise),
        scores=evaluate(table) if scores is None else scores,
        left_out=left_out(table),
        matrix=matrix,
        factors=factors,
    )


def _factors(model: FittedModel, table: Table) -> list[tuple[int, Factor]]:
    """The factors that take at least two values in the table, with their column."""
    lattice = model.dataset.lattice
    members = (
        lattice.members if lattice else tuple(map(Factor, table.factor_names, table.factor_sizes))
    )
    return [(k, f) for k, f in enumerate(members) if len(np.unique(table.merged_factors[:, k])) > 1]


def _classes(mean: Array) -> Array:
    """Masses of the classes (..., classes) from the mean of the columns: one-hot, or one bit."""
    return mean if mean.shape[-1] > 1 else np.concatenate([1 - mean, mean], -1)
