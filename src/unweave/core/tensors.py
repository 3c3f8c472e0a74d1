"""Numbers as arguments of public functions, and columns of tensors."""

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

Numbers = Tensor | ArrayLike


def columns(x: Tensor, indices: Sequence[int]) -> Tensor:
    """Select from the last axis; neighbours as a slice, which copies no list to the device.

    >>> columns(torch.arange(5), [1, 2]), columns(torch.arange(5), [4, 0])
    (tensor([1, 2]), tensor([4, 0]))
    """
    if list(indices) == list(range(indices[0], indices[-1] + 1)):
        return x[..., indices[0] : indices[-1] + 1]
    return torch.stack([x[..., index] for index in indices], -1)


def floating(x: Numbers) -> Tensor:
    """Convert numbers to a floating-point tensor.

    Tensors and arrays keep their type, Python's floats are of 64 bits, and integers become torch's
    default type.

    >>> floating([1, 2]).dtype, floating([0.1, 0.2]).dtype
    (torch.float32, torch.float64)
    """
    try:
        tensor = torch.as_tensor(x)
        if tensor.is_floating_point() and _of_python(x):
            tensor = torch.as_tensor(x, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"expected numbers, as a tensor, an array or a list, got {x!r}") from None
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())


def _of_python(x: Numbers) -> bool:
    """Whether numbers are Python's own, in lists to any depth."""
    if isinstance(x, (list, tuple)):
        return all(map(_of_python, x))
    return isinstance(x, (int, float)) and not hasattr(x, "dtype")
