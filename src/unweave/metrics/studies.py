"""Studies of metrics: their agreement over many runs, and their sensitivity to settings."""

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.hints import check_choice
from unweave.core.parallel import thread_map
from unweave.metrics.arrays import Floats
from unweave.metrics.score import Score, aligned
from unweave.metrics.validation import check_arguments

Correlation = Literal["pearson", "spearman", "kendall"]


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """Correlations of metrics over runs, (M, M) each; they print as a table.

    `p_values` are for the hypothesis that two metrics are unrelated, by kind of correlation.
    `left_out` gives the reason for each metric that is not among the names. The printed table shows
    Spearman's correlations; `table` shows the others.
    """

    names: tuple[str, ...]
    runs: int
    pearson: Floats
    spearman: Floats
    kendall: Floats
    p_values: dict[str, Floats]
    left_out: dict[str, str]

    def matrix(self, correlation: Correlation) -> Floats:
        """Return one of the three matrices."""
        check_choice("correlation", correlation, get_args(Correlation))
        matrix: Floats = getattr(self, correlation)
        return matrix

    def table(self, correlation: Correlation = "spearman") -> str:
        """Return one of the three as a table; columns are numbered like the rows."""
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
        """Return the three correlations of two metrics, as in [Kim2018] sec. 6."""
        for name in (one, two):
            if name not in self.names:
                why = self.left_out.get(name, "no run has it")
                raise ValueError(
                    f"expected metrics among {', '.join(self.names)}, got {name!r}: {why}"
                )
        i, j = self.names.index(one), self.names.index(two)
        return {name: float(self.matrix(name)[i, j]) for name in get_args(Correlation)}


def agreement(scores: Sequence[Mapping[str, Score | float]]) -> Agreement:
    """Compute whether metrics rank runs in the same order.  [Kim2018] sec. 6.

    Over runs, the correlation of the values of two metrics (Pearson), of their ranks (Spearman),
    and the share of pairs of runs in the same order minus that in opposite order (Kendall's tau-b).
    [Kim2018] finds 0.404, 0.444 and 0.310 between its own metric and that of [Higgins2017].

    A metric is left out if not all runs have it, if it has the same value for all, or if it is
    infinite for one.

    Args:
        scores: scores of at least three runs by metric, as `unweave.evaluate` returns them.

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
            f"expected scores of at least three runs, got {len(scores)}: two always correlate"
        )
    from scipy import stats

    tests: dict[Correlation, Callable[[Floats, Floats], Any]] = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    values, left_out = _comparable(scores)
    names = tuple(values)
    shape = len(names), len(names)
    matrices = {name: (np.eye(*shape), np.zeros(shape)) for name in tests}
    for (i, one), (j, two) in itertools.combinations(enumerate(values.values()), 2):
        for name, test in tests.items():
            result = test(one, two)
            # Rounding can make a perfect correlation slightly larger than 1.
            statistic = min(1.0, max(-1.0, float(result.statistic)))
            for matrix, value in zip(
                matrices[name], (statistic, float(result.pvalue)), strict=True
            ):
                matrix[i, j] = matrix[j, i] = value
    return Agreement(
        names,
        len(scores),
        **{name: matrix for name, (matrix, _) in matrices.items()},
        p_values={name: p for name, (_, p) in matrices.items()},
        left_out=left_out,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """Values of a metric over a grid of its settings, with several seeds; they print as a table.

    `values` has an axis for each setting, in their order, and a last one for the seeds.
    """

    name: str
    settings: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    values: Floats

    @property
    def mean(self) -> Floats:
        """Mean over the seeds, with an axis for each setting."""
        mean: Floats = self.values.mean(-1)
        return mean

    @property
    def stddev(self) -> Floats:
        """Standard deviation over the seeds (n - 1), with an axis for each setting."""
        deviation: Floats = self.values.std(-1, ddof=1)
        return deviation

    def __repr__(self) -> str:
        cells = itertools.product(*self.settings.values())
        numbers = zip(self.mean.ravel(), self.stddev.ravel(), strict=True)
        lines = [
            [*map(str, cell), f"{mean:.4f}", f"{stddev:.4f}"]
            for cell, (mean, stddev) in zip(cells, numbers, strict=True)
        ]
        head = [*self.settings, "mean", "std"]
        return f"{self.name}, {len(self.seeds)} seeds\n{aligned([head, *lines])}"


@check_arguments
def sensitivity(
    metric: Callable[..., Score],
    codes: ArrayLike,
    factors: ArrayLike,
    settings: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int] = tuple(range(10)),
) -> Sensitivity:
    """Compute a metric for all combinations of settings, with several seeds each.

    [Kim2018] reports this for the codes of one model with 10 seeds: for its own metric in fig. 17,
    over the batch L and the number of votes, and for that of [Higgins2017] in fig. 16, over L and
    the number of iterations. Bind other arguments of the metric with `functools.partial`.

    Args:
        metric: a metric of this package, or any function of codes, factors and `seed`.
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        settings: values of each parameter of the metric to vary.
        seeds: at least two seeds.

    To reproduce both figures from codes and factors:

        sensitivity(beta_vae_score, codes, factors,
                    {"pairs": (50, 100, 200), "steps": (1_000, 5_000, 10_000)})
        sensitivity(factor_vae_score, codes, factors,
                    {"batch": (50, 100, 200), "votes": (200, 400, 800)})

    >>> from unweave.metrics import factor_vae_score
    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> grid = {"batch": (2, 50), "votes": (20, 100)}
    >>> found = sensitivity(factor_vae_score, factors * 1.0, factors, grid, seeds=(0, 1, 2))
    >>> found.mean.shape, found.mean[1].tolist(), found.stddev[1].tolist()
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
    if len(seeds) < 2:
        raise ValueError(
            f"expected at least two seeds, got {len(seeds)}: one has no standard deviation"
        )
    cells = [dict(zip(grid, cell, strict=True)) for cell in itertools.product(*grid.values())]

    def compute(task: tuple[dict[str, Any], int]) -> Score:
        cell, seed = task
        return metric(codes, factors, seed=seed, **cell)

    scores = list(thread_map(compute, itertools.product(cells, seeds)))
    shape = *(len(values) for values in grid.values()), len(seeds)
    values = np.array([float(score) for score in scores]).reshape(shape)
    protocols = dict.fromkeys(score.protocol for score in scores)
    return Sensitivity(f"{scores[0].name}/{'|'.join(protocols)}", grid, tuple(seeds), values)


def _comparable(
    scores: Sequence[Mapping[str, Score | float]],
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Return the values (runs,) of each metric that can be compared, and why others cannot."""
    names = dict.fromkeys(name for run in scores for name in run)
    values: dict[str, Floats] = {}
    left_out: dict[str, str] = {}
    for name in names:
        numbers = np.array([float(run[name]) for run in scores if name in run])
        if len(numbers) < len(scores):
            left_out[name] = f"{len(scores) - len(numbers)} of {len(scores)} runs do not have it"
        elif not all(map(math.isfinite, numbers)):
            left_out[name] = "it is not finite for every run"
        elif (numbers == numbers[0]).all():
            left_out[name] = "it is the same for all runs"
        else:
            values[name] = numbers
    if len(values) < 2:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(
            f"expected two metrics to compare, got {len(values)}" + f" ({why})" * bool(why)
        )
    return values, left_out
