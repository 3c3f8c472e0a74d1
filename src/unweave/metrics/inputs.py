"""Inputs of metrics: codes and factors, checked once, and which factors are numbers or cyclic."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unweave.metrics.arrays import (
    Bools,
    Floats,
    Ints,
    Seed,
    as_codes,
    as_factors,
    as_mask,
    as_names,
    check_magnitude,
    real_factors,
)
from unweave.metrics.score import Detail, Score

Periods = Mapping[str, float | Mapping[str, Sequence[float]]]

_ROWS_EACH = 10  # for each code and each value: ten observations per coefficient [Peduzzi1996]
_BINS = 20  # that continuous factors are cut into
MOST_CLASSES = 1_000  # that a classifier learns: ten rows each, of the 10,000 that it is trained on
TREE_CLASSES = 500  # with this many, trees take a minute of one core: boosting has 100 for each
DOWNSTREAM_CLASSES = 200  # the same, for four numbers of labels and 51 regressions with each


class FewRowsWarning(UserWarning):
    """A table has too few rows for reliable scores; see `few_rows`."""


class MissingLabelsWarning(UserWarning):
    """Some rows or factors of a table are not scored, because labels are missing."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The codes and factors that a metric reads, and its random generator.

    Discrete codes and all factors are relabelled 0, 1, ... in the order of their values. Factors
    that are left out keep their column, so that column k is always factor k.
    """

    codes: Floats  # (N, D)
    factors: Ints  # (N, K)
    values: Floats  # (N, K) original factor values
    continuous: Bools  # (K,) factors that are continuous; the others are classes
    sizes: Ints  # (K,) number of values that each factor takes
    discrete: Bools  # (D,) codes that are categories
    names: tuple[str, ...]  # (K,)
    scored: Ints  # indices of the factors to score
    rng: np.random.Generator
    metric: str = ""  # name and protocol of the metric that reads them
    protocol: str = ""

    @property
    def rows(self) -> int:
        """N, the number of rows."""
        return len(self.codes)

    @property
    def dims(self) -> int:
        """D, the number of codes."""
        return int(self.codes.shape[1])

    @property
    def left_out(self) -> list[str]:
        """Names of the factors that are not scored."""
        return [name for k, name in enumerate(self.names) if k not in self.scored]

    @property
    def continuous_names(self) -> list[str]:
        """Names of the scored factors that are continuous."""
        return [self.names[k] for k in self.scored if self.continuous[k]]

    def active(self, std_threshold: float) -> Bools:
        """Return a mask (D,) of the codes that vary, continuous ones by at least this deviation."""
        deviation = self.codes.std(0)
        active: Bools = (deviation > 0) & (self.discrete | (deviation >= std_threshold))
        return active

    def require_classes(self) -> None:
        """Raise if a scored factor is continuous."""
        if names := ", ".join(self.continuous_names):
            raise ValueError(
                f"expected factors that are classes, got real numbers that differ in {names}: "
                "this definition needs values that repeat; cut them into bins, for instance by "
                "numpy.digitize(column, numpy.quantile(column, [0.2, 0.4, 0.6, 0.8])), or leave "
                "these factors out"
            )

    def require_learnable_classes(
        self, most: int = MOST_CLASSES, regressed: Collection[int] = ()
    ) -> None:
        """Raise if a scored factor that is not regressed has too many classes for a classifier."""
        many = [
            f"{self.sizes[k]:,} in {self.names[k]}"
            for k in self.scored
            if self.sizes[k] > most and not self.continuous[k] and k not in regressed
        ]
        if many:
            raise ValueError(
                f"expected factors of at most {most:,} classes, got {', '.join(many)}: classifiers "
                "of more take minutes, or have too few rows for each; merge classes, declare "
                "numbers as `continuous`, or leave these factors out"
            )

    def require_two_factors(self) -> None:
        """Raise if only one factor is scored."""
        if len(self.scored) < 2:
            raise ValueError(
                f"expected at least 2 factors that vary, got {self.names[self.scored[0]]} alone: "
                "one factor cannot show whether codes mix factors"
            )

    def by_factor(self, values: Floats) -> dict[str, float]:
        """Return values (K,) of the scored factors by name."""
        return {self.names[k]: float(values[k]) for k in self.scored}

    def score(
        self,
        value: float,
        *,
        parts: dict[str, float] | None = None,
        components: dict[str, float] | None = None,
        matrix: NDArray[Any] | None = None,
        details: Mapping[str, Detail] | None = None,
        rows_read: int | None = None,
    ) -> Score:
        """Return a score of the metric, with the details that all metrics have in common.

        `components` are parts that are quantities of their own, shown below the value; `rows_read`
        is the number of rows that the value was estimated from; default: all.
        """
        common: dict[str, Detail] = {"rows": self.rows, **(details or {})}
        common.setdefault("factors left out", self.left_out)
        own = components or {}
        return Score(
            self.metric, self.protocol, float(value), {**(parts or {}), **own}, matrix, common,
            rows_read=rows_read, components=own,
        )  # fmt: skip


def read(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    continuous: Sequence[int | str] | None = None,
    seed: Seed = 0,
    metric: str = "",
    protocol: str = "",
) -> Inputs:
    """Check the arguments that metrics share and return them as `Inputs`.

    A factor with a single value has no entropy and cannot be held fixed while others vary, so it is
    not scored; neither are the factors in `leave_out`.
    """
    z = as_codes(codes).astype(np.float64)
    check_magnitude(z)
    values = as_factors(factors, rows=len(z))
    mask = as_mask("discrete", discrete, z.shape[1])
    names = as_names(factor_names, values.shape[1])
    for j in np.flatnonzero(mask):
        z[:, j] = np.unique(z[:, j], return_inverse=True)[1]
    v = np.stack([_relabel(column) for column in values.T], 1)
    sizes = v.max(0) + 1
    unwanted = factor_indices(leave_out, names)
    scored = [k for k in range(len(names)) if sizes[k] > 1 and k not in unwanted]
    if not scored:
        raise ValueError(
            "expected a factor that takes at least two values and is not left out, got none "
            f"among {', '.join(names)}: give rows that differ in a factor"
        )
    return Inputs(
        codes=z,
        factors=v,
        values=values.astype(np.float64),
        continuous=continuous_factors(values, continuous, names),
        sizes=sizes,
        discrete=mask,
        names=names,
        scored=np.array(scored),
        rng=np.random.default_rng(seed),
        metric=metric,
        protocol=protocol,
    )


def _relabel(column: NDArray[Any]) -> Ints:
    """Relabel numbers (N,) as 0, 1, ... in their order."""
    if column.dtype.kind != "i" or np.ptp(column) > 4 * len(column):
        return np.unique(column, return_inverse=True)[1]
    # Integers in a narrow range: look their ranks up in a table instead of sorting.
    offset = column - column.min()
    labels: Ints = (np.cumsum(np.bincount(offset) > 0) - 1)[offset]
    return labels


def continuous_factors(
    factors: NDArray[Any], chosen: Sequence[int | str] | None = None, names: tuple[str, ...] = ()
) -> Bools:
    """Return a mask (K,) of the continuous factors: those chosen by name or index.

    By default, factors are continuous if they hold real numbers that do not repeat. Real numbers
    that come twice or more on average, such as 40 angles in 1000 rows, are classes.

    >>> factors = np.array([[0.5, 0.1], [0.5, 0.2], [1.5, 0.3], [1.5, 0.4]])
    >>> continuous_factors(factors), continuous_factors(factors, [0])
    (array([False,  True]), array([ True, False]))
    """
    if chosen is not None:
        if isinstance(chosen, str) or not isinstance(chosen, Iterable):
            raise ValueError(
                f"expected continuous as a list of factors, got {chosen!r}: give a list"
            )
        mask = np.zeros(factors.shape[1], dtype=np.bool_)
        names = as_names(names, factors.shape[1])
        mask[list(factor_indices(chosen, names, "continuous"))] = True
        return mask
    mask = real_factors(factors)
    for k in np.flatnonzero(mask):
        known = factors[~np.isnan(factors[:, k]), k]
        mask[k] = 2 * len(np.unique(known)) > len(known)
    return mask


def describe_real_factors(
    factors: NDArray[Any], chosen: Sequence[int | str] | None, names: tuple[str, ...]
) -> list[str]:
    """Say how each real-valued factor (N, K) is treated, unless the caller chose."""
    if chosen is not None:
        return []
    continuous, lines = continuous_factors(factors), []
    for k in np.flatnonzero(real_factors(factors)):
        if continuous[k]:
            treatment = "real numbers that do not repeat, taken as continuous"
            change = "leave its name out of `continuous` to read them as classes"
        else:
            count = len(np.unique(factors[:, k]))
            often = f"each {len(factors) / count:.3g} times on average"
            treatment = f"{count} real numbers, {often}, taken as classes"
            change = "name it in `continuous` to read them as numbers"
        lines.append(f"{names[k]} has {treatment}; {change}")
    return lines


def few_rows(
    rows: int, dims: int, sizes: Sequence[int], continuous: Bools, names: Sequence[str]
) -> str | None:
    """Return why there are too few rows for reliable scores, or None.

    There should be ten rows for each of `dims` codes and for each value of a factor, of which there
    are `sizes`; a continuous factor counts as the 20 bins that it is cut into. A predictor from D
    codes fits D coefficients, and a metric learns about a value only from the rows with it: with
    fewer, uninformative codes score high.
    """
    groups = {f"{dims} codes": dims}
    for name, size, cut in zip(names, sizes, continuous, strict=True):
        groups |= {f"{name} in {_BINS} bins": _BINS} if cut else {f"{size} values of {name}": size}
    largest, size = max(groups.items(), key=lambda group: group[1])
    if rows >= _ROWS_EACH * size:
        return None
    return (
        f"{rows} rows are too few: for {largest} there should be at least {_ROWS_EACH * size}, "
        f"{_ROWS_EACH} for each; with fewer, uninformative codes can score high; give more rows, "
        "or compare with the null"
    )


def merge(
    factors: ArrayLike, periods: Periods, factor_names: Sequence[str] | None = None
) -> NDArray[Any]:
    """Make equal the values of cyclic factors (N, K) that stand for the same observation.

    A cyclic factor is taken modulo its period: with `periods={"orientation": 39}` the values 0 and
    39 become one, as they should for the 40 orientations of dSprites. If the period depends on
    another factor, give it for each value 0, 1, ... of that factor: with
    `{"orientation": {"shape": [9, 18, 36]}}` shape 0 looks the same after 9 steps, shape 1 after
    18. A factor without a name is called by its index, "factor 3". A factor merged this way depends
    on the other factor, so even perfect codes do not reach 1 in all metrics; see `ceiling=True`.

    >>> factors = np.array([[0, 3], [0, 13], [1, 13], [1, 40]])
    >>> merge(factors, {"turn": {"shape": [10, 40]}}, ("shape", "turn"))[:, 1]
    array([ 3,  3, 13,  0])
    """
    v = np.array(as_factors(factors, rows=len(np.asarray(factors)), missing=True))
    names = as_names(factor_names, v.shape[1])
    given = v.copy()
    if not isinstance(periods, Mapping):
        raise ValueError(
            f"expected periods by the name of a factor, got {periods!r}: give "
            f"{{{names[0]!r}: 39}}, for example"
        )
    for name, period in periods.items():
        k = factor_index(name, names, "periods")
        if not isinstance(period, Mapping):
            steps = np.full(len(v), period)
        elif len(period) == 1:
            ((other, each),) = period.items()
            steps = _look_up(given[:, factor_index(other, names, "periods")], other, each)
        else:
            raise ValueError(f"expected one factor that the period of {name} depends on")
        numbers = steps.dtype.kind in "iuf"
        if not numbers or not (np.isfinite(steps) & (steps > 0)).all():
            raise ValueError(f"expected positive periods of {name}, got {period}")
        if v.dtype.kind == "i" and (steps != np.rint(steps)).any():
            raise ValueError(
                f"expected whole periods of {name}, whose values are integers, got {period}: give "
                "the number of steps after which it repeats"
            )
        v[:, k] = np.mod(given[:, k], steps.astype(v.dtype))
    return v


def _look_up(values: NDArray[Any], name: str, periods: Sequence[float]) -> NDArray[Any]:
    """Return the entry of `periods` for each value (N,) of a factor."""
    if not isinstance(periods, Sequence) or isinstance(periods, str) or not len(values):
        raise ValueError(f"expected a list of periods for the values of {name}, got {periods!r}")
    if (values != np.rint(values)).any() or values.min() < 0 or values.max() >= len(periods):
        raise ValueError(
            f"expected values of {name} from 0 to {len(periods) - 1}, one for each period given, "
            f"got {values.min()} to {values.max()}: give a period for each value"
        )
    return np.asarray(periods)[values.astype(np.int64)]


def factor_indices(
    factors: Iterable[int | str], names: tuple[str, ...], argument: str = "leave_out"
) -> set[int]:
    """Return the indices of the factors that an argument gives by name or index."""
    return {factor_index(factor, names, argument) for factor in factors}


def factor_index(factor: int | str, names: tuple[str, ...], argument: str) -> int:
    """Return the index of a factor that an argument gives by name or index."""
    if factor in names:
        return names.index(str(factor))
    index = int(factor) if isinstance(factor, str) and factor.isdecimal() else factor
    if isinstance(index, int | np.integer) and 0 <= index < len(names):
        return int(index)
    raise ValueError(
        f"expected {argument} to name factors among {', '.join(names)} or to number them from 0, "
        f"got {factor!r}"
    )
