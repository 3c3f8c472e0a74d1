"""How numbers in a file or array are understood: axes, range, unit; and what was decided."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.data.files.rows import Rows, blocks

Array = NDArray[Any]

_LARGE = 20  # values above which a network hardly learns
COLOURS = {1: "grey", 3: "colour", 4: "colour and transparency"}  # by number of channels


class Scan(NamedTuple):
    """What one pass over all numbers finds."""

    low: float
    high: float
    broken: int | None  # the first observation with NaN or infinity
    checksum: int


@dataclass(frozen=True)
class Reading:
    """Observations (N, *shape) out of rows of an array: images(i) = unit * row i, channels first.

    `unit` is what a stored 1 stands for, `integer_unit` what an integer 1 did as it came.
    """

    shape: tuple[int, ...]
    last: bool  # whether the channels come last
    dtype: type[np.generic]
    unit: float
    bounded: bool
    notes: tuple[str, ...]
    integer_unit: float = 1.0
    divisor: float = 1.0

    def __call__(self, block: Array) -> Tensor:
        """Rows as they are stored: (n, *shape), a copy in native byte order and C order."""
        if self.divisor != 1:
            block = block / self.divisor
        if self.last:
            block = np.moveaxis(block, -1, 1)
        with np.errstate(over="ignore"):  # an overflow becomes inf, and is refused
            stored = np.array(block, dtype=self.dtype, order="C", copy=True)
        return torch.from_numpy(stored.reshape(len(block), *self.shape))


def scan(rows: Rows) -> Scan:
    """The range of all numbers, where they are not finite, and a checksum."""
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


def understood(rows: Rows, found: Scan) -> Reading:
    """How rows are to be read, after every check that can be made on them."""
    shape, last, layout = arranged(rows.shape)
    values = _values(rows.dtype.newbyteorder("="), found)
    return dataclasses.replace(values, shape=shape, last=last, notes=(*layout, *values.notes))


def arranged(shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool, list[str]]:
    """Shape of an observation, whether its channels come last, and what was decided."""
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
        return (1, *shape[1:]), False, [_pictures(shape[0], 1, *shape[1:], "")]
    last, how = _channels_last(shape)
    height, width, channels = shape[1:] if last else (*shape[2:], shape[1])
    notes = [_pictures(shape[0], channels, height, width, how)]
    return (channels, height, width), last, notes


def _pictures(count: int, channels: int, height: int, width: int, how: str) -> str:
    return f"{count:,} images of {height} x {width}, {COLOURS[channels]}{how}"


def _channels_last(shape: tuple[int, ...]) -> tuple[bool, str]:
    """Whether channels come last: they are the axis of length 1, 3 or 4.

    If both could be, the reading with the squarer picture is taken, channels last if they are
    equal: pictures are rarely 3 pixels high.
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
        return last, f" (the shape {shape} could be read in two ways: taken as {order})"
    return last, ", channels last" if last else ", channels first"


def _values(dtype: np.dtype[Any], found: Scan) -> Reading:
    """The type and unit that observations are stored in."""
    if dtype.kind == "b":
        return _reading(np.bool_, 1.0, "true and false read as 1 and 0")
    if dtype.kind == "f":
        return _floats(found)
    if dtype.kind in "iu":
        return _integers(dtype, int(found.low), int(found.high))
    raise ValueError(
        f"expected observations as bytes, booleans or floats, got {dtype}: convert them with astype"
    )


def _reading(
    dtype: type[np.generic], unit: float, note: str, bounded: bool = True, **more: float
) -> Reading:
    return Reading((), False, dtype, unit, bounded, (note,), **more)


def _floats(found: Scan) -> Reading:
    if found.broken is not None:
        raise ValueError(
            "expected finite float32 values, got NaN or infinity, first in observation "
            f"{found.broken}: remove or replace it"
        )
    low, high = found.low, found.high
    if low >= 0 and high <= 1:
        return _reading(np.float32, 1.0, f"floats from {low:g} to {high:g}, kept")
    span = f"values lie in [{low:g}, {high:g}], kept as they are: no Bernoulli likelihood"
    if max(-low, high) > _LARGE:
        span += "; networks learn better from values near [-1, 1]: scale them before"
    return _reading(np.float32, 1.0, span, bounded=False)


def _integers(dtype: np.dtype[Any], low: int, high: int) -> Reading:
    """Integers by their range: 0 and 1 are binary, up to 255 bytes, uint16 its full range."""
    if low >= 0 and high <= 1:
        return _reading(np.uint8, 1.0, "integers 0 and 1 read as binary")
    if low >= 0 and high <= 255 and dtype != np.uint16:
        what = f"{dtype} from {low} to {high} divided by 255"
        return _reading(np.uint8, 1 / 255, what, integer_unit=1 / 255)
    if dtype == np.uint16:
        what = f"uint16 from {low} to {high} divided by 65535"
        return _reading(np.float32, 1.0, what, integer_unit=1 / 65535, divisor=65535.0)
    raise ValueError(
        f"expected integers in 0..255 or of type uint16, got {dtype} from {low} to {high}: "
        "convert them to floats in the range you want"
    )
