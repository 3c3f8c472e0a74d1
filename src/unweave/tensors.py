"""What public functions take for numbers: tensors, arrays or lists."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

Numbers = Tensor | ArrayLike


def floating(x: Numbers) -> Tensor:
    """A tensor of floating-point numbers; integers become torch's default type.

    >>> floating([1, 2]).dtype
    torch.float32
    """
    try:
        found = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"expected numbers, as a tensor, an array or a list, got {x!r}") from None
    return found if found.is_floating_point() else found.to(torch.get_default_dtype())
