"""Metrics measured: how far they agree over many runs, and how far they hang on their settings."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.parallel import thread_map
from unweave.metrics.inputs import Floats, check_choice
from unweave.metrics.score import Score, aligned
from unweave.metrics.validation import counted

Correlation = Literal["pearson", "spearman", "kendall"]


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """Correlations of metrics over runs, (M, M) each, with 1 on the diagonal; printed, a table.

    `p_values` are those of the hypothesis that two metrics do not go together, by correlation.
    `left_out` says why a metric of the runs is not among the names. What is printed is the
    correlation of ranks; `table` gives the others as well.
    """

    names: tuple[str, ...]
    runs: int
    pearson: Floats
    spearman: Floats
    kendall: Floats
    p_values: dict[str, Floats]
    left_out: dict[str, str]

    def matrix(self, correlation: Correlation) -> Floats:
        """One of the three."""
        check_choice("correlation", correlation, get_args(Correlation))
        found: Floats = getattr(self, correlation)
        return found

    def table(self, correlation: Correlation = "spearman") -> str:
        """One of the three as a table, whose columns have the numbers of the rows."""
        rows = zip(self.names, self.matrix(correlation), strict=True)
        numbers = [str(n) for n in range(1, len(self.names) + 1)]
        lines = [
            [f"{n} {name}", *(f"{value:.2f}" for value in row)]
            for n, (name, row) in zip(numbers, rows, strict=True)
        ]
        head = [f"{correlation}, {self.runs} runs", *numbers]
        why = [f"left out: {name}, {reason}" for name, reason in self.left_out.items()]
        return "\n".join([aligned([head, *lines]), *why])

    def __repr__(self) -> str:
        return self.table()

    def pair(self, one: str, two: str) -> dict[str, float]:
        """The three correlations of two metrics, as in [Kim2018] sec. 6."""
        for name in (one, two):
            if name not in self.names:
                why = self.left_out.get(name, "no run has it")
                raise ValueError(
                    f"expected metrics among {', '.join(self.names)}, got {name!r}: {why}"
                )
        i, j = self.names.index(one), self.names.index(two)
        return {name: float(self.matrix(name)[i, j]) for name in get_args(Correlation)}


def agreement(scores: Sequence[Mapping[str, Score | float]]) -> Agreement:
    """Whether metrics put runs in the same order.  [Kim2018] sec. 6.

    Over runs, the correlation of the values of two metrics (Pearson), of their ranks (Spearman)
    and of their orders: the share of pairs of runs in the same order less that in the other
    (Kendall; ties as in its tau-b). [Kim2018] finds 0.404, 0.444 and 0.310 between its own metric
    and that of [Higgins2017].

    A metric that not all runs have, that has the same value for all, or an infinite one, has no
    correlation and is left out.

    Args:
        scores: of each of at least three runs, by metric, as `unweave.evaluate` gives them.

    >>> runs = [{"mig": 0.1, "dci": 0.3}, {"mig": 0.2, "dci": 0.4}, {"mig": 0.4, "dci": 0.35}]
    >>> {name: round(value, 3) for name, value in agreement(runs).pair("mig", "dci").items()}
    {'pearson': 0.327, 'spearman': 0.5, 'kendall': 0.333}
    >>> agreement(runs)
    spearman, 3 runs  1     2
    1 mig             1.00  0.50
    2 dci             0.50  1.00
    """
    if len(scores) < 3:
        raise ValueError(
            f"expected the scores of at least three runs, got {len(scores)}: two are always in line"
        )
    from scipy import stats

    tests: dict[str, Callable[[Floats, Floats], Any]] = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    values, left_out = _comparable(scores)
    names = tuple(values)
    shape = len(names), len(names)
    found = {name: (np.eye(*shape), np.zeros(shape)) for name in tests}
    for (i, one), (j, two) in itertools.combinations(enumerate(values.values()), 2):
        for name, test in tests.items():
            result = test(one, two)
            # Rounding can leave a perfect correlation a hair above 1.
            statistic = min(1.0, max(-1.0, float(result.statistic)))
            for matrix, value in zip(found[name], (statistic, float(result.pvalue)), strict=True):
                matrix[i, j] = matrix[j, i] = value
    return Agreement(
        names,
        len(scores),
        **{name: matrix for name, (matrix, _) in found.items()},
        p_values={name: p for name, (_, p) in found.items()},
        left_out=left_out,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """A metric over a grid of its own settings, several times at each; printed, a table.

    `values` has an axis for each setting, in their order, and the last for the seeds.
    """

    name: str
    settings: dict[str, tuple[Any, ...]]
    rngs: tuple[int, ...]
    values: Floats

    @property
    def mean(self) -> Floats:
        """Over the seeds, with an axis for each setting."""
        found: Floats = self.values.mean(-1)
        return found

    @property
    def spread(self) -> Floats:
        """Standard deviation over the seeds (n - 1), with an axis for each setting."""
        found: Floats = self.values.std(-1, ddof=1)
        return found

    def __repr__(self) -> str:
        cells = itertools.product(*self.settings.values())
        numbers = zip(self.mean.ravel(), self.spread.ravel(), strict=True)
        lines = [
            [*map(str, cell), f"{mean:.4f}", f"{spread:.4f}"]
            for cell, (mean, spread) in zip(cells, numbers, strict=True)
        ]
        head = [*self.settings, "mean", "spread"]
        return f"{self.name}, {len(self.rngs)} seeds\n{aligned([head, *lines])}"


@counted
def sensitivity(
    metric: Callable[..., Score],
    codes: ArrayLike,
    factors: ArrayLike,
    settings: Mapping[str, Sequence[Any]],
    *,
    rngs: Sequence[int] = tuple(range(10)),
) -> Sensitivity:
    """A metric over all combinations of its settings, with its spread over seeds.

    As [Kim2018] fig. 17 does for its metric by the batch L and the number of votes, and fig. 16
    for that of [Higgins2017] by L and the number of iterations, on the codes of one model and 10
    seeds. Whatever else the metric takes is bound by `functools.partial`.

    Args:
        metric: a metric of this package, or any function of codes, factors and `rng`.
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        settings: the values of each parameter of the metric that is varied.
        rngs: at least two seeds.

    Both figures, of codes and factors:

        sensitivity(beta_vae_score, codes, factors,
                    {"pairs": (50, 100, 200), "steps": (1_000, 5_000, 10_000)})
        sensitivity(factor_vae_score, codes, factors,
                    {"batch": (50, 100, 200), "votes": (200, 400, 800)})

    >>> from unweave.metrics import factor_vae_score
    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> grid = {"batch": (2, 50), "votes": (20, 100)}
    >>> found = sensitivity(factor_vae_score, factors * 1.0, factors, grid, rngs=(0, 1, 2))
    >>> found.mean.shape, found.mean[1].tolist(), found.spread[1].tolist()
    ((2, 2), [1.0, 1.0], [0.0, 0.0])
    """
    grid = {name: tuple(values) for name, values in settings.items()}
    if not callable(metric):
        raise TypeError(f"expected a metric as a function, such as mig, got {metric!r}")
    known = inspect.signature(metric).parameters
    unknown = [name for name in grid if name not in known]
    if not grid or unknown or not all(grid.values()):
        raise ValueError(
            f"expected values of settings among {', '.join(known)}, got "
            f"{', '.join(f'{name}={values}' for name, values in grid.items()) or 'none'}"
        )
    if len(rngs) < 2:
        raise ValueError(f"expected at least two seeds, to see a spread, got {len(rngs)}")
    cells = [dict(zip(grid, cell, strict=True)) for cell in itertools.product(*grid.values())]

    def measured(task: tuple[dict[str, Any], int]) -> Score:
        cell, rng = task
        return metric(codes, factors, rng=rng, **cell)

    scores = list(thread_map(measured, itertools.product(cells, rngs)))
    shape = *(len(values) for values in grid.values()), len(rngs)
    values = np.array([float(score) for score in scores]).reshape(shape)
    protocols = dict.fromkeys(score.protocol for score in scores)
    return Sensitivity(f"{scores[0].name}/{'|'.join(protocols)}", grid, tuple(rngs), values)


def _comparable(
    scores: Sequence[Mapping[str, Score | float]],
) -> tuple[dict[str, Floats], dict[str, str]]:
    """The values (runs,) of each metric that can be compared, and why the others cannot."""
    names = dict.fromkeys(name for run in scores for name in run)
    values: dict[str, Floats] = {}
    left_out: dict[str, str] = {}
    for name in names:
        found = np.array([float(run[name]) for run in scores if name in run])
        if len(found) < len(scores):
            left_out[name] = f"{len(scores) - len(found)} of {len(scores)} runs do not have it"
        elif not all(map(math.isfinite, found)):
            left_out[name] = "it is not finite for every run"
        elif (found == found[0]).all():
            left_out[name] = "it is the same for all runs"
        else:
            values[name] = found
    if len(values) < 2:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(
            f"expected two metrics to compare, got {len(values)}" + f" ({why})" * bool(why)
        )
    return values, left_out
