"""Maximum mean discrepancy between samples of q(z) and samples of p(z)."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unweave.aggregate.divergences import checked_points
from unweave.aggregate.pairs import column_discrepancies
from unweave.core.hints import nearest
from unweave.core.tensors import Numbers, columns

Kernel = Literal["imq", "imq-dimensionwise", "imq-unsquared", "rbf"]
Group = Sequence[int] | slice


class _Family(NamedTuple):
    """A kernel as a function of the distance and the constant C, and its default scales."""

    value: Callable[[Tensor, float], Tensor]
    scales: tuple[float, ...] | None = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # [Tolstikhin2018] code
    dimensionwise: bool = False
    given: tuple[float, ...] | None = None  # constants that replace those of the scales

    def constants(self, size: int) -> tuple[float, ...]:
        """Return the constants C for distances between points of `size` columns."""
        if self.given is None and self.scales is None:
            return (float(size**2),)
        return self.given or tuple(2.0 * size * scale for scale in self.scales or ())


def _imq(distance: Tensor, c: float) -> Tensor:
    return c / (c + distance.square())


_KERNELS: dict[str, _Family] = {
    "imq": _Family(_imq),
    "imq-dimensionwise": _Family(_imq, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0), dimensionwise=True),
    "imq-unsquared": _Family(lambda distance, c: c / (c + distance)),
    "rbf": _Family(lambda distance, c: torch.exp(-distance.square() / c), scales=None),
}


def mmd(
    x: Numbers,
    y: Numbers,
    kernel: Kernel = "imq",
    scales: Sequence[float] | float | None = None,
    unbiased: bool = True,
    groups: Sequence[Group] | None = None,
    constants: Sequence[float] | float | None = None,
) -> Tensor:
    """Compute E k(x, x') + E k(y, y') - 2 E k(x, y) for samples x (B, D) and y (M, D).

    If `unbiased`, the means over xx and yy exclude pairs of a point with itself (U-statistic,
    [Gretton2012] lemma 6), and the value may be negative; otherwise they include them (V-statistic,
    eq. 5, squared). Each kernel is summed over constants C:

    - imq: C / (C + |x - y|^2).  [Tolstikhin2018] sec. 4, with the scales of its code.
    - imq-dimensionwise: sum_d C / (C + (x_d - y_d)^2), as in the code of [Mathieu2019]. It is about
      30 times larger at D = 50, so weights do not carry over to the others. It stores no table of
      pairs, and can be differentiated only once.
    - imq-unsquared: C / (C + |x - y|), as printed in [Mathieu2019] app. B.
    - rbf: exp(-|x - y|^2 / C), by default C = D^2 as in the code of [Zhao2019].

    Pass `constants` C, or `scales` s with C = 2 D s (C = 2 s for imq-dimensionwise); see
    `kernel_constants` for the defaults. With groups of columns the result is the sum over the
    groups, where D is the width of each group.
    """
    x, y = checked_points(x, y)
    family = _family(kernel, scales, constants)
    if unbiased and min(len(x), len(y)) < 2:
        raise ValueError(
            f"the unbiased estimate needs at least two points of each, got {len(x)} and {len(y)}; "
            "raise the number of samples or set unbiased=False"
        )
    if groups is None:
        return _discrepancy(x, y, family, unbiased)
    if not groups:
        raise ValueError("expected one or more groups of columns, got none; omit it for all")
    parts = [_columns(group, x.shape[1]) for group in groups]
    return torch.stack(
        [_discrepancy(columns(x, g), columns(y, g), family, unbiased) for g in parts]
    ).sum()


def kernel_constants(
    kernel: Kernel, size: int, scales: Sequence[float] | float | None = None
) -> tuple[float, ...]:
    """Return the constants C over which `mmd` sums a kernel, for points of `size` columns.

    >>> kernel_constants("imq", 10)
    (2.0, 4.0, 10.0, 20.0, 40.0, 100.0, 200.0)
    >>> kernel_constants("rbf", 10), kernel_constants("rbf", 10, scales=(1, 2))
    ((100.0,), (20.0, 40.0))
    """
    family = _family(kernel, scales, None)
    return family.constants(1 if family.dimensionwise else size)


def _family(
    kernel: str, scales: Sequence[float] | float | None, constants: Sequence[float] | float | None
) -> _Family:
    """Return a kernel with the scales or constants that the caller gave."""
    if kernel not in _KERNELS:
        raise ValueError(f"expected a kernel, got {kernel!r}; {nearest(kernel, _KERNELS)}")
    family = _KERNELS[kernel]
    if scales is not None and constants is not None:
        raise ValueError("expected scales or constants of the kernel, got both; use one")
    if scales is not None:
        return family._replace(scales=_positive(scales, "scales"))
    if constants is not None:
        return family._replace(given=_positive(constants, "constants"))
    return family


def _discrepancy(x: Tensor, y: Tensor, family: _Family, unbiased: bool) -> Tensor:
    if family.dimensionwise:
        return column_discrepancies(x, y, family.constants(1), unbiased).sum()
    within = _mean_of_others if unbiased else _mean
    xx, yy, xy = _table(x, x, family), _table(y, y, family), _table(x, y, family)
    return within(xx) + within(yy) - 2 * _mean(xy)


def _table(x: Tensor, y: Tensor, family: _Family) -> Tensor:
    # Not by a matrix product: |x|^2 + |y|^2 - 2 x y loses digits. The gradient at 0 is 0.
    distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    constants = family.constants(x.shape[-1])
    return sum((family.value(distance, c) for c in constants), torch.zeros_like(distance))


def _mean(table: Tensor) -> Tensor:
    return table.mean((-2, -1))


def _mean_of_others(table: Tensor) -> Tensor:
    count = table.shape[-1]
    own = table.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (table.sum((-2, -1)) - own) / (count * (count - 1))


def _positive(given: Sequence[float] | float, name: str) -> tuple[float, ...]:
    values = torch.as_tensor(given, dtype=torch.float64).flatten().tolist()
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError(
            f"expected one or more positive {name}, got {values}; omit {name} for the default"
        )
    return tuple(values)


def _columns(group: Group, size: int) -> list[int]:
    named = list(range(size)[group]) if isinstance(group, slice) else list(group)
    if not named or not all(0 <= column < size for column in named):
        raise ValueError(
            f"expected every group to name one or more of the {size} columns, from 0 to "
            f"{size - 1}, got {group}"
        )
    return named
