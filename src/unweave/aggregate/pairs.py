"""The MMD of single columns, in memory that grows with the number of points, not of pairs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from unweave import kernels
from unweave.kernels import vmap_rules

_ROWS = 32  # of a block
_CACHED, _LARGEST = 2**17, 2**24  # numbers of a table that stays in a CPU's cache; on a GPU


def column_discrepancies(
    x: Tensor, y: Tensor, constants: Sequence[float], unbiased: bool
) -> Tensor:
    """Compute the MMD with kernel sum_C C / (C + (x - y)^2) in each column of (B, D) and (M, D).

    Returns (D,). It can be differentiated once.
    """
    b, m = len(x), len(y)
    points = torch.cat([x, y]).mT
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    weights = 1 / (b * (b - unbiased)), 1 / (m * (m - unbiased)), -1 / (b * m)
    value, _ = _PairSums.apply(points, b, weights, tuple(constants))  # type: ignore[no-untyped-call]
    own = len(constants) * (weights[0] * b + weights[1] * m)  # of pairs of a point with itself
    discrepancies: Tensor = value - own if unbiased else value
    return discrepancies


@custom_op("unweave::pair_sums", mutates_args=())
def pair_sums(
    points: Tensor, first: int, weights: Sequence[float], constants: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Compute sum_ij w_ij k(z_i - z_j) in each row z of points (C, N), and its gradient (C, N).

    k(d) = sum_C C / (C + d^2). The weights w_ij are for two of the `first` points, two of the
    others, and one of each.
    """
    if kernels.supports(points):
        from unweave.kernels import imq

        return imq.pair_sums(points, first, weights, constants)
    return _blockwise(points.contiguous(), first, weights, constants)


@pair_sums.register_fake
def _(
    points: Tensor, first: int, weights: Sequence[float], constants: Sequence[float]
) -> tuple[Tensor, Tensor]:
    return points.new_empty(len(points)), points.new_empty(points.shape)


def _blockwise(
    points: Tensor, first: int, weights: Sequence[float], constants: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Sum over pairs i <= j, a block of rows i and some columns at a time."""
    size, limit = points.shape[1], _CACHED if points.device.type == "cpu" else _LARGEST
    value, slope = points.new_zeros(len(points)), torch.zeros_like(points)
    for start in range(0, size, _ROWS):
        rows = slice(start, start + _ROWS)
        table = _weights(points, first, weights, start)
        chunk = max(1, limit // table.numel())
        for z, v, s in zip(*(t.split(chunk) for t in (points, value, slope)), strict=True):
            kernel, falling = _tables(z[:, rows, None] - z[:, None, start:], table, constants)
            v += 2 * kernel.sum(-1).sum(-1)
            s[:, rows] -= 4 * falling.sum(-1)
            s[:, start:] += 4 * falling.sum(-2)
    return value, slope


def _weights(points: Tensor, first: int, weights: Sequence[float], start: int) -> Tensor:
    """Return the weights of the pairs of a block; one half if the other half is there too."""
    xx, yy, xy = weights
    index = torch.arange(start, points.shape[1], device=points.device)
    own = torch.where(index < first, points.new_full((), xx), yy)[:_ROWS, None]
    rows = index[:_ROWS, None]
    table = torch.where((rows < first) == (index < first), own, xy)
    return torch.where(index < start + _ROWS, table / 2, table)


def _tables(gap: Tensor, weights: Tensor, constants: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return w sum_C C / (C + d^2) and w d sum_C C / (C + d^2)^2 for distances d."""
    square = gap.square()
    kernel, falling, inverse = (torch.zeros_like(gap) for _ in range(3))
    for c in constants:
        torch.add(square, c, out=inverse).reciprocal_()
        kernel.add_(inverse, alpha=c)
        falling.addcmul_(inverse, inverse, value=c)
    return kernel.mul_(weights), falling.mul_(gap).mul_(weights)


class _PairSums(Function):
    """`pair_sums` with its gradient, which the forward pass computes."""

    @staticmethod
    def forward(
        points: Tensor, first: int, weights: Sequence[float], constants: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        sums: tuple[Tensor, Tensor] = pair_sums(points, first, weights, constants)
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        by_value, by_slope = gradients
        if by_slope is not None:
            raise NotImplementedError(
                "expected to differentiate mmd with kernel 'imq-dimensionwise' once, got a second "
                "derivative, which it does not have; use another kernel"
            )
        (slope,) = ctx.saved_tensors
        by_points = None if by_value is None else by_value[:, None] * slope
        return by_points, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        points, *rest = vmap_rules.lanes_first(info, in_dims, args)
        sums = _PairSums.apply(points.flatten(0, 1), *rest)  # type: ignore[no-untyped-call]
        return tuple(each.unflatten(0, (info.batch_size, -1)) for each in sums), (0, 0)
