"""What the functions on samples ask of them."""

from __future__ import annotations

from torch import Tensor


def check_points(x: Tensor, y: Tensor) -> None:
    """Refuse anything but two non-empty sets of points of one size, (B, D) and (M, D)."""
    matrices = x.dim() == y.dim() == 2
    if not matrices or x.shape[1] != y.shape[1] or not (x.numel() and y.numel()):
        raise ValueError(
            f"expected points (B, D) and (M, D) with a common D and at least one of each, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}; flatten samples to one row a point"
        )
