"""Numbers as arguments of public functions, and columns of tensors."""

from __future__ import annotations

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
    """Convert numbers to a floating-point tensor; integers become torch's default type.

    >>> floating([1, 2]).dtype
    torch.float32
    """
    try:
        tensor = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"expected numbers, as a tensor, an array or a list, got {x!r}") from None
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())
