"""Checks of sample arguments."""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.core.tensors import Numbers, floating


def checked_points(x: Numbers, y: Numbers) -> tuple[Tensor, Tensor]:
    """Return two sets of points (B, D) and (M, D) in one dtype, or raise a ValueError."""
    x, y = floating(x), floating(y)
    matrices = x.dim() == y.dim() == 2
    if not matrices or x.shape[1] != y.shape[1] or not (x.numel() and y.numel()):
        raise ValueError(
            f"expected points (B, D) and (M, D) with a common D and at least one of each, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}; flatten samples to one row per point"
        )
    common = torch.promote_types(x.dtype, y.dtype)
    return x.to(common), y.to(common)
