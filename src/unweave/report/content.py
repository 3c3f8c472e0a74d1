"""The numbers of a report, computed once: what the trained model does with its data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.aggregate import Summary, summarise
from unweave.data import Factor
from unweave.fitted import Fitted
from unweave.latents import Distribution
from unweave.metrics import Score, Table, evaluate, left_out, mutual_information_matrix
from unweave.noise import Noise

Array = NDArray[np.floating[Any]]

DEAD = 0.01  # nats of KL(q(z_j|x) || p(z_j)) below which a variable carries nothing
MOST = 24  # variables drawn; the rest of a very wide latent space is only named


class Variable(NamedTuple):
    """One latent variable, and the factor it tells most about where factors are known."""

    column: int
    name: str
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


class Start(NamedTuple):
    """A row of the table to traverse from, and where it lies."""

    row: int
    where: str


@dataclass(frozen=True, eq=False)
class Content:
    """All that a report says, of the rows of the data that it read."""

    model: Fitted
    posterior: Distribution  # q(z|x) of every row
    prior: Distribution  # p(z)
    index: NDArray[np.int64]  # (N,) numbers of the observations read
    table: Table
    summary: Summary
    scores: dict[str, Score]
    left_out: dict[str, str]
    matrix: Array  # (D, K): I(z_j; v_k) / H(v_k), columns of `factors`
    factors: list[tuple[int, Factor]]  # those that take two values, with their column

    @cached_property
    def variables(self) -> list[Variable]:
        """Every variable, the one with the largest KL first."""
        found = [self._variable(column) for column in range(self.table.codes.shape[1])]
        return sorted(found, key=lambda variable: -variable.kl)

    def _variable(self, column: int) -> Variable:
        assert self.table.kl is not None
        name = self.model.run.latent.names[column]
        known = (float(self.table.kl[column]), self.summary.information[column])
        if not self.factors:
            return Variable(column, name, *known)
        best = int(self.matrix[column].argmax())
        return Variable(
            column, name, *known, self.factors[best][1].name, float(self.matrix[column, best])
        )

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

    @property
    def rate(self) -> float:
        """Mean of KL(q(z|x) || p(z)) over the rows, in nats."""
        return sum(variable.kl for variable in self.variables)

    @property
    def told(self) -> list[Told]:
        """For each factor the two variables that tell most about it."""
        by_column = {variable.column: variable for variable in self.variables}
        found = []
        for k, (column, factor) in enumerate(self.factors):
            order = np.argsort(-self.matrix[:, k], kind="stable")[:2].tolist()
            best = [(by_column[j], float(self.matrix[j, k])) for j in order]
            found.append(Told(factor, column, best))
        return found

    def samples(self) -> Array:
        """One sample of q(z|x) for every row, (N, D): samples of q(z)."""
        device = self.posterior.mean.device
        drawn: Array = self.posterior.rsample(Noise(0, 0, "report", device)).cpu().numpy()
        return drawn

    def starts(self) -> list[Start]:
        """Rows to traverse from: one in the middle, and one as far from the prior's mean as most.

        The middle is that of the factors' ranges where factors are known: a code near the prior's
        mean can lie between all that the model has seen.
        """
        columns = [variable.column for variable in self.active]
        distance = np.square(self.table.codes[:, columns], dtype=np.float64).sum(1)
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
        return self.model.decode(self.table.codes[rows])


def gather(model: Fitted, rows: int, scores: dict[str, Score] | None = None) -> Content:
    """Encode `rows` observations of the data, and measure them in every way that a report shows.

    Scores of the same rows that are there already need not be computed again.
    """
    index = model.rows(rows)
    posterior, prior = model.posteriors(index), model.prior()
    table = model.tabulate(index, posterior)
    factors = _factors(model, table)
    matrix = np.zeros((table.codes.shape[1], 0))
    if factors:
        columns = table.factors[:, [column for column, _ in factors]]
        matrix = mutual_information_matrix(table.codes, columns, discrete=table.discrete)
    return Content(
        model=model,
        posterior=posterior,
        prior=prior,
        index=index.cpu().numpy(),
        table=table,
        summary=summarise(model.run.latent, posterior, prior, Noise(0, 0, "report", index.device)),
        scores=evaluate(table) if scores is None else scores,
        left_out=left_out(table),
        matrix=matrix,
        factors=factors,
    )


def _factors(model: Fitted, table: Table) -> list[tuple[int, Factor]]:
    """The factors that take at least two values in the table, with their column."""
    lattice = model.world.lattice
    members = (
        lattice.members if lattice else tuple(map(Factor, table.factor_names, table.factor_sizes))
    )
    return [(k, f) for k, f in enumerate(members) if len(np.unique(table.factors[:, k])) > 1]
