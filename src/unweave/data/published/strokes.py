"""Measure handwritten digits in their images: the thickness of the stroke and the width.

>>> ring = np.hypot(*(np.mgrid[:28, :28] - 13.5))
>>> strokes((np.abs(ring - 8) < 1.5)[None]).round().tolist()
[[3.0, 16.0]]
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unweave.data.features import in_classes

STROKES = ("thickness", "width")
_TINY = 1e-6


def strokes(images: ArrayLike) -> NDArray[np.float32]:
    """Measure the thickness of the stroke and the width of the digit in pixels.

    thickness = 2 A / P with the area A = sum x and the perimeter P = sum |grad x|: a stroke of
    length l and thickness t has A = l t and P = 2 (l + t).
    width = sqrt(8 (V_uu - V_uv^2 / V_vv)) with V the covariance of the positions (u, v) of the ink,
    u to the right and v down: the horizontal axis of an ellipse drawn with a thin stroke. A slant
    does not change it. Both are 0 for empty images.

    Args:
        images: (N, H, W) in [0, 1].

    Returns:
        Thickness and width, (N, 2).
    """
    ink = np.asarray(images, np.float32)
    v, u = np.mgrid[: ink.shape[1], : ink.shape[2]].reshape(2, -1)
    powers = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], 1).astype(np.float32)
    area, *sums = (ink.reshape(len(ink), -1) @ powers).astype(np.float64).T
    mean_u, mean_v, uu, uv, vv = (each / np.maximum(area, _TINY) for each in sums)
    slanted = (uv - mean_u * mean_v) ** 2 / np.maximum(vv - mean_v**2, _TINY)
    width = np.sqrt(8 * np.maximum(uu - mean_u**2 - slanted, 0.0))
    thickness = 2 * area / np.maximum(_perimeters(ink), _TINY)
    return np.stack([thickness, width], 1).astype(np.float32)


def in_fifths(images: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Bin thickness and width into five classes each, by quantiles among digits of one label."""
    label, measured = np.asarray(labels), strokes(images)
    classes = np.zeros(measured.shape, np.int64)
    for digit in np.unique(label):
        classes[label == digit] = in_classes(measured[label == digit], 5)
    return classes


def _perimeters(ink: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute sum |grad x| of images, with differences at the corners between four pixels."""
    padded = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
    falling = padded[:, 1:, 1:] - padded[:, :-1, :-1]  # along both diagonals
    rising = padded[:, 1:, :-1] - padded[:, :-1, 1:]
    lengths: NDArray[np.float32] = np.hypot(falling, rising).sum((1, 2)) / np.float32(np.sqrt(2))
    return lengths
