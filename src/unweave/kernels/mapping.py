"""How our functions are mapped: the dimension that is mapped over joins their first one."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function


def moved(info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
    """Arguments with the dimension that is mapped over in front of every tensor."""
    return [
        _first(arg, dim, info.batch_size) if isinstance(arg, Tensor) else arg
        for arg, dim in zip(args, in_dims, strict=True)
    ]


def folded(function: type[Function], info: Any, args: list[Any]) -> tuple[Tensor, int]:
    """The function of arguments whose first two dimensions are taken as one, and back."""
    flat = [arg.flatten(0, 1) if isinstance(arg, Tensor) else arg for arg in args]
    out: Tensor = function.apply(*flat)  # type: ignore[no-untyped-call]
    return out.unflatten(0, (info.batch_size, -1)), 0


def _first(x: Tensor, dim: int | None, count: int) -> Tensor:
    return x.expand(count, *x.shape) if dim is None else x.movedim(dim, 0)
