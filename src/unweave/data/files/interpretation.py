"""Interpret the values of an array as observations: their axes, range and unit."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unweave.data.files.rows import Array, Rows, blocks
from unweave.data.scaling import BYTES, UNSCALED, Scaling

_LARGE = 20  # absolute values above which networks hardly learn
COLOURS = {1: "grey", 3: "colour", 4: "colour and transparency"}  # by number of channels


class Scan(NamedTuple):
    """The range and checksum of all values of an array."""

    low: float
    high: float
    broken: int | None  # first observation with NaN or infinity
    checksum: int


@dataclass(frozen=True)
class Interpretation:
    """How rows of an array become observations: images(i) = unit * row i, channels first.

    `unit` is the value of a stored 1; `scaling` is that of the original values.
    """

    shape: tuple[int, ...]
    channels_last: bool
    dtype: type[np.generic]
    unit: float
    bounded: bool
    notes: tuple[str, ...]
    scaling: Scaling = UNSCALED
    divisor: float = 1.0

    def __call__(self, block: Array) -> Tensor:
        """Convert rows to observations as they are stored: a copy (n, *shape) in C order."""
        if self.divisor != 1:
            block = block / self.divisor
        if self.channels_last:
            block = np.moveaxis(block, -1, 1)
        with np.errstate(over="ignore"):  # an overflow becomes inf, which is rejected
            stored = np.array(block, dtype=self.dtype, order="C", copy=True)
        return torch.from_numpy(stored.reshape(len(block), *self.shape))


def scan(rows: Rows) -> Scan:
    """Compute the range and checksum of all values, and find the first that is not finite."""
    low, high, broken, checksum = np.inf, -np.inf, None, 0
    for start, block in blocks(rows):
        checksum = zlib.crc32(np.ascontiguousarray(block).data, checksum)
        if block.dtype.kind not in "biuf" or not block.size:
            continue
        with np.errstate(over="ignore"):
            block = block.astype(np.float32, copy=False) if block.dtype.kind == "f" else block
        least, most = block.min(), block.max()
        low, high = min(low, float(least)), max(high, float(most))
        if broken is None and not np.isfinite([least, most]).all():
            wrong = ~np.isfinite(block.reshape(len(block), -1)).all(1)
            broken = start + int(wrong.argmax())
    return Scan(low, high, broken, checksum)


def interpret(rows: Rows, values: Scan) -> Interpretation:
    """Decide how to read an array; reject arrays that are no observations."""
    shape, last, layout = interpret_shape(rows.shape)
    basis = _interpret_values(rows.dtype.newbyteorder("="), values)
    notes = (*layout, *basis.notes)
    return dataclasses.replace(basis, shape=shape, channels_last=last, notes=notes)


def interpret_shape(shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool, list[str]]:
    """Return the shape of an observation, whether its channels come last, and notes."""
    if len(shape) not in (2, 3, 4):
        raise ValueError(
            "expected observations of shape (N, H, W), (N, H, W, C), (N, C, H, W) or (N, D), got "
            f"{shape}: reshape them"
        )
    if 0 in shape:
        raise ValueError(
            f"expected at least one observation of at least one value, got shape {shape}: "
            "check what was saved"
        )
    if len(shape) == 2:
        return shape[1:], False, [f"{shape[0]:,} vectors of {shape[1]} numbers"]
    if len(shape) == 3:
        return (1, *shape[1:]), False, [_describe_images(shape[0], 1, *shape[1:], "")]
    last, how = _channels_last(shape)
    height, width, channels = shape[1:] if last else (*shape[2:], shape[1])
    notes = [_describe_images(shape[0], channels, height, width, how)]
    return (channels, height, width), last, notes


def _describe_images(count: int, channels: int, height: int, width: int, how: str) -> str:
    return f"{count:,} images of {height} x {width}, {COLOURS[channels]}{how}"


def _channels_last(shape: tuple[int, ...]) -> tuple[bool, str]:
    """Return whether the channels, the axis of length 1, 3 or 4, come last.

    If both axes could be the channels, choose the one that makes the images squarer, and the last
    one if there is no difference: images are rarely 3 pixels high.
    """
    _, a, b, c = shape
    first, last = a in COLOURS, c in COLOURS
    if not first and not last:
        raise ValueError(
            f"expected 1, 3 or 4 channels on axis 1 or on the last axis, got shape {shape}: "
            "move the channels there, or flatten each observation to a vector"
        )
    if first and last:
        last = max(a, b) * min(b, c) <= max(b, c) * min(a, b)
        order = "channels last" if last else "channels first"
        return last, f" (the shape {shape} is ambiguous: read as {order})"
    return last, ", channels last" if last else ", channels first"


def _interpret_values(dtype: np.dtype[Any], values: Scan) -> Interpretation:
    """Choose the type and unit in which observations are stored."""
    if dtype.kind == "b":
        return _interpretation(np.bool_, 1.0, "true and false read as 1 and 0")
    if dtype.kind == "f":
        return _interpret_floats(values)
    if dtype.kind in "iu":
        return _interpret_integers(dtype, int(values.low), int(values.high))
    raise ValueError(
        f"expected observations as bytes, booleans or floats, got {dtype}: convert them with astype"
    )


def _interpretation(
    dtype: type[np.generic], unit: float, note: str, bounded: bool = True, **more: Any
) -> Interpretation:
    return Interpretation((), False, dtype, unit, bounded, (note,), **more)


def _interpret_floats(values: Scan) -> Interpretation:
    if values.broken is not None:
        raise ValueError(
            "expected finite float32 values, got NaN or infinity, first in observation "
            f"{values.broken}: remove or replace it"
        )
    low, high = values.low, values.high
    if low >= 0 and high <= 1:
        return _interpretation(np.float32, 1.0, f"floats from {low:g} to {high:g}, unchanged")
    note = f"values in [{low:g}, {high:g}], unchanged: a Bernoulli likelihood cannot be used"
    if max(-low, high) > _LARGE:
        note += "; networks learn better from values near [-1, 1]: rescale them first"
    return _interpretation(np.float32, 1.0, note, bounded=False)


def _interpret_integers(dtype: np.dtype[Any], low: int, high: int) -> Interpretation:
    """Interpret integers by their range: 0 and 1 as binary, 0..255 as bytes, uint16 in full."""
    if low >= 0 and high <= 1:
        return _interpretation(np.uint8, 1.0, "integers 0 and 1 read as binary")
    if low >= 0 and high <= 255 and dtype != np.uint16:
        note = f"{dtype} from {low} to {high} divided by 255"
        return _interpretation(np.uint8, 1 / 255, note, scaling=BYTES)
    if dtype == np.uint16:
        note = f"uint16 from {low} to {high} divided by 65535"
        scaling = Scaling("percentile", unit=(1 / 65535,))
        return _interpretation(np.float32, 1.0, note, scaling=scaling, divisor=65535.0)
    raise ValueError(
        f"expected integers in 0..255 or of type uint16, got {dtype} from {low} to {high}: "
        "convert them to floats in the range you want"
    )
