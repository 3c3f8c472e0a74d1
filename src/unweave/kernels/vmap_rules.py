"""How our autograd functions are vmapped: the mapped dimension joins their first one."""

from typing import Any

from torch import Tensor
from torch.autograd import Function


def lanes_first(info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments with the mapped dimension in front of every tensor."""
    count = info.batch_size
    return [
        (arg.expand(count, *arg.shape) if dim is None else arg.movedim(dim, 0))
        if isinstance(arg, Tensor)
        else arg
        for arg, dim in zip(args, in_dims, strict=True)
    ]


def apply_flattened(function: type[Function], info: Any, args: list[Any]) -> tuple[Tensor, int]:
    """Apply a function to arguments whose first two dimensions are flattened into one."""
    flat = [arg.flatten(0, 1) if isinstance(arg, Tensor) else arg for arg in args]
    out: Tensor = function.apply(*flat)  # type: ignore[no-untyped-call]
    return out.unflatten(0, (info.batch_size, -1)), 0
