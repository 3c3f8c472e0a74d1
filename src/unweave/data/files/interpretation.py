"""Interpret the values of an array as observations: their axes, and what the numbers mean."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unweave.core.hints import count_noun
from unweave.data.files.rows import Array, Rows
from unweave.data.files.statistics import Scan, moments, neighbours, percentiles
from unweave.data.scaling import BYTES, Scaling, ScalingMethod

ArrayAxes = Literal["nhwc", "nchw"]

COLOURS = {1: "grey", 3: "colour", 4: "colour and transparency"}  # by number of channels
TAIL = 0.001  # share of the values that may be clipped at either end

_LARGE = 20  # absolute values above which networks hardly learn
_LISTED = 6  # channels or columns whose scaling is listed; of more, only the first two are
_SPECTRUM = 8  # columns named by numbers from which a table counts as spectra
_MISSING = (-9, -99, -999, -9999, -99999, -32768)  # usual codes for missing values
_ROWS = 10  # from which columns are compared
_MEANINGS: dict[ScalingMethod, str] = {
    "counts": "counts of something",
    "percentile": "intensities",
    "standardise": "measurements",
    "bytes": "pixels 0..255",
}


class Layout(NamedTuple):
    """How the axes of rows become observations."""

    shape: tuple[int, ...]  # of an observation, channels first
    channels_last: bool
    notes: tuple[str, ...]

    @property
    def is_image(self) -> bool:
        """Whether observations are images (C, H, W)."""
        return len(self.shape) == 3

    def arrange(self, block: Array) -> Array:
        """Return rows as observations (n, *shape)."""
        if self.channels_last:
            block = np.moveaxis(block, -1, 1)
        return block.reshape(len(block), *self.shape)

    def by_channel(self, block: Array) -> Array:
        """Return rows as values of each channel, or of each column: (n, shape[0], values)."""
        return self.arrange(block).reshape(len(block), self.shape[0], -1)


@dataclass(frozen=True)
class Interpretation:
    """How rows of an array become observations: images(i) = unit * row i, as stored.

    Bytes and binary values stay bytes and booleans in memory; others are scaled when they are read.
    """

    layout: Layout
    dtype: type[np.generic]  # as stored: uint8, bool or float32
    scaling: Scaling
    bounded: bool
    notes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an observation."""
        return self.layout.shape

    @property
    def unit(self) -> float:
        """The value of a stored 1."""
        return self.scaling.unit[0] if self.scaling.method == "bytes" else 1.0

    def __call__(self, block: Array) -> Tensor:
        """Convert rows to observations as they are stored: a copy (n, *shape) in C order."""
        block = self.layout.arrange(block)
        if self.dtype is np.float32:
            return self.scaling.apply(block)
        return torch.from_numpy(np.array(block, dtype=self.dtype, order="C"))


def interpret_shape(shape: tuple[int, ...], axes: ArrayAxes | None = None) -> Layout:
    """Decide which axes are observations, channels, height and width; reject other shapes."""
    if len(shape) not in (2, 3, 4):
        volumes = ": volumes are not supported; take slices" if len(shape) == 5 else ": reshape it"
        raise ValueError(
            "expected observations of shape (N, H, W), (N, H, W, C), (N, C, H, W) or (N, D), got "
            f"{shape}{volumes}"
        )
    if 0 in shape:
        raise ValueError(
            f"expected at least one observation of at least one value, got shape {shape}: "
            "check what was saved"
        )
    if axes is not None and len(shape) != 4:
        raise ValueError(
            f"expected an array of four axes for axes={axes}, got shape {shape}: leave out axes"
        )
    if len(shape) == 2:
        vectors = count_noun(shape[0], "vector")
        return Layout(shape[1:], False, (f"{vectors} of {count_noun(shape[1], 'number')}",))
    if len(shape) == 3:
        grey = (1, *shape[1:])
        return Layout(grey, False, (describe_images(shape[0], grey),))
    last = _channels_last(shape, axes)
    observation = (shape[3], *shape[1:3]) if last else shape[1:]
    order = "channels last" if last else "channels first"
    return Layout(observation, last, (f"{describe_images(shape[0], observation)}, {order}",))


def describe_images(count: int, shape: tuple[int, ...], coloured: bool = True) -> str:
    """Describe a number of images (C, H, W), whose channels are colours or something else.

    >>> describe_images(1200, (5, 48, 64))
    '1,200 images of 48 x 64, 5 channels'
    """
    channels, height, width = shape
    known = channels == 1 or (coloured and channels in COLOURS)
    colours = COLOURS[channels] if known else f"{channels} channels"
    return f"{count:,} image{'s' * (count != 1)} of {height} x {width}, {colours}"


def _channels_last(shape: tuple[int, ...], axes: ArrayAxes | None) -> bool:
    """Return whether the channels come last: they are fewer than the rows and columns of pixels.

    That has to be clear: at most half as many, or fewer than the side of square images.
    """
    if axes is not None:
        return axes == "nhwc"
    _, a, b, c = shape

    def clear(channels: int, height: int, width: int) -> bool:
        return 2 * channels <= min(height, width) or channels < height == width

    if clear(a, b, c) == clear(c, a, b):
        raise ValueError(
            f"expected channels first or last, got the shape {shape}, which could be either: say "
            f"data.axes=nchw ({a} channels of {b} x {c}) or data.axes=nhwc ({c} channels of "
            f'{a} x {b}); in Python, axes="nchw" or axes="nhwc"'
        )
    return clear(c, a, b)


def choose_method(
    dtype: np.dtype[Any],
    values: Scan,
    layout: Layout,
    wanted: ScalingMethod | None,
    value_names: Sequence[str] = (),
) -> ScalingMethod:
    """Return how to scale values; reject values that do not fit, or whose meaning is unclear."""
    if dtype.kind not in "biuf":
        raise ValueError(f"expected observations as real numbers, got {_not_real(dtype)}")
    integers = values.whole and values.low >= 0
    if wanted == "counts" and not integers:
        raise ValueError(_unfit("scale=counts", "non-negative integers", dtype, values))
    if wanted == "bytes" and not (dtype.kind in "iu" and integers and values.high <= 255):
        raise ValueError(_unfit("scale=bytes", "integers in 0..255", dtype, values))
    if wanted is not None:
        return wanted
    if integers and values.high <= 1:  # binary, whatever the type
        return "none"
    if dtype.kind == "f" and not layout.is_image:
        return "common" if are_spectra(value_names) else "standardise"
    if dtype.kind == "f":
        return "none" if values.low >= 0 and values.high <= 1 else "percentile"
    if layout.is_image and dtype == np.uint8:
        return "bytes"
    if layout.is_image and dtype.itemsize == 2:
        return "percentile"
    raise ValueError(_ask(dtype, values, layout))


def _not_real(dtype: np.dtype[Any]) -> str:
    """Say what an array has instead of real numbers, and how to make numbers of it."""
    if dtype.kind in "SU":
        return f"text ({dtype}): leave text columns out, or give them as labels"
    if dtype.kind == "c":
        return (
            f"complex numbers ({dtype}): give their magnitude, numpy.abs(x), or x.real and x.imag "
            "as separate columns or channels"
        )
    if dtype.kind in "mM":
        return f"times ({dtype}): give seconds, (x - x.min()) / numpy.timedelta64(1, 's')"
    return f"{dtype}: if all values are numbers, x.astype(float) converts them"


def rising_numbers(names: Sequence[str]) -> list[float] | None:
    """Return names that are rising numbers as numbers; None if they are anything else."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return None
    rising = all(a < b for a, b in pairwise(numbers))
    return numbers if rising and all(map(math.isfinite, numbers)) else None


def are_spectra(names: Sequence[str]) -> bool:
    """Return whether names of columns are those of a spectrum: numbers that rise or fall.

    Columns that are only numbered, from 0 or 1, may be anything.

    >>> wavelengths = [f"{400 + 2.5 * n:g}" for n in range(9)]
    >>> are_spectra(wavelengths), are_spectra(wavelengths[::-1]), are_spectra("123456789")
    (True, True, False)
    """
    numbers = rising_numbers(names) or rising_numbers(names[::-1]) or []
    counted = [n - numbers[0] for n in numbers] == list(range(len(numbers)))
    return len(numbers) >= _SPECTRUM and not (counted and numbers[0] in (0, 1))


def curves_notes(values: Array) -> list[str]:
    """Suggest one scale for all columns of standardised vectors (N, D) that look like curves."""
    if len(values) < _ROWS or values.shape[1] < _SPECTRUM:
        return []
    found = neighbours(values)
    if not found.are_curves:
        return []
    return [
        f"neighbouring columns are alike (mean correlation {found.correlation:.2f}, distant ones "
        f"{found.distant:.2f}), as in spectra, time series and other curves: if these share one "
        "unit, use scale=common; in standardised columns, noise counts as much as signal"
    ]


def _unfit(setting: str, expected: str, dtype: np.dtype[Any], values: Scan) -> str:
    fractions = "" if values.whole else " with fractions"
    return (
        f"{setting} expects {expected}, got {dtype} from {values.low:g} to {values.high:g}"
        f"{fractions}: choose another scale, or leave it out to have one chosen"
    )


def _ask(dtype: np.dtype[Any], values: Scan, layout: Layout) -> str:
    """Ask what integers mean, with the answers that their range and shape allow."""
    likely: list[ScalingMethod] = ["counts", "standardise", "bytes"]
    if layout.is_image:
        likely = ["bytes", "percentile", "counts"]
    if values.low < 0:
        likely.remove("counts")
    if values.low < 0 or values.high > 255:
        likely.remove("bytes")
    missing = f"; {values.low:.0f} seems to stand for missing values: fill them in first"
    answers = [f"data.scale={method} ({_MEANINGS[method]})" for method in likely]
    return (
        "expected floats, 0 and 1, or images of 8 or 16 bits, got "
        f"{'images' if layout.is_image else 'vectors'} of {dtype} from {values.low:.0f} to "
        f"{values.high:.0f}: say what they are with {' or '.join(answers)}; in Python, "
        f'unweave.data.from_array(x, scale="{likely[0]}"){missing * (values.low in _MISSING)}'
    )


def measure(rows: Rows, layout: Layout, method: ScalingMethod) -> Scaling:
    """Return the scaling by a method, after measuring each channel or column of all rows."""
    if method in ("standardise", "common"):
        offset, width = moments(rows, layout.by_channel)
        if method == "common":
            common = math.sqrt(sum(each * each for each in width) / len(width))
            width = [common if each else 0.0 for each in width]
    elif method == "percentile":
        offset, high = percentiles(rows, layout.by_channel, TAIL)
        width = [most - least for least, most in zip(offset, high, strict=True)]
    else:
        return BYTES if method == "bytes" else Scaling(method)
    unit = (1 / each if each > sys.float_info.min else 0.0 for each in width)  # finite
    return Scaling(method, tuple(offset), tuple(unit))


def interpret(
    dtype: np.dtype[Any],
    values: Scan,
    layout: Layout,
    scaling: Scaling,
    value_names: Sequence[str] = (),
) -> Interpretation:
    """Combine the axes and the scaling of values, and describe both to the user."""
    method = scaling.method
    unit_interval = values.low >= 0 and values.high <= 1
    stored: type[np.generic] = np.float32
    if method == "bytes":
        stored = np.uint8
    elif method == "none" and unit_interval and dtype.kind != "f":
        stored = np.bool_ if dtype.kind == "b" else np.uint8
    bounded = scaling.bounded or (method == "none" and unit_interval)
    if scaling.measured:
        notes = _scaling_notes(dtype, values, scaling, group_names(layout.shape, value_names))
    else:
        notes = [_unscaled_note(dtype, values, method)]
    return Interpretation(layout, stored, scaling, bounded, (*layout.notes, *notes))


def group_names(shape: tuple[int, ...], value_names: Sequence[str] = ()) -> Sequence[str]:
    """Return names of the channels of an image (C, H, W), or of the values of a vector (D,)."""
    group = "channel" if len(shape) == 3 else "value"
    return value_names or [f"{group} {number}" for number in range(shape[0])]


def _unscaled_note(dtype: np.dtype[Any], values: Scan, method: ScalingMethod) -> str:
    low, high = values.low, values.high
    span = f"{dtype} from {low:g} to {high:g}"
    if method == "bytes":
        return f"{span} divided by 255"
    if method == "counts":
        return f"counts from {low:g} to {high:g}, unchanged"
    if low >= 0 and high <= 1:
        if dtype.kind == "b":
            return "true and false read as 1 and 0"
        return "0 and 1 read as binary" if values.whole else f"{span}, unchanged"
    note = f"{span}, unchanged: a Bernoulli likelihood cannot be used"
    if max(-low, high) > _LARGE:
        note += "; networks learn better from small values, as with scale=standardise"
    return note


def _scaling_notes(
    dtype: np.dtype[Any], values: Scan, scaling: Scaling, names: Sequence[str]
) -> list[str]:
    """Say in the user's units how values are scaled."""
    method, pairs = scaling.method, list(zip(scaling.offset, scaling.width, strict=True))
    if method == "percentile":
        how = (
            f"scaled by percentiles {100 * TAIL:g} and {100 * (1 - TAIL):g}: {{}} become 0 and 1, "
            "and values beyond are clipped"
        )
        texts = [f"{low:.6g} and {low + width:.6g}" for low, width in pairs]
    elif method == "standardise":
        how = "standardised; mean and standard deviation were {}"
        texts = [f"{mean:.4g} and {width:.4g}" for mean, width in pairs]
    else:
        how = f"centred, and all divided by {max(scaling.width):.4g}; means were {{}}"
        texts = [f"{mean:.4g}" for mean, _ in pairs]
    if len(pairs) > 1:
        texts = [f"{text} in {name}" for text, name in zip(texts, names, strict=True)]
    listed = ", ".join(texts)
    if len(pairs) > _LISTED:
        listed = ", ".join([*texts[:2], f"... ({len(pairs)} in all)"])
    span = f"{dtype} from {values.low:g} to {values.high:g}"
    notes = [f"{span}, {how.format(listed)} (scale={method})"]
    if method == "common" and are_spectra(names):
        notes.append(
            "columns named by numbers are read as spectra, which share one scale; "
            "scale=standardise scales each column on its own"
        )
    if (
        method in ("standardise", "common")
        and dtype.kind == "f"
        and values.whole
        and values.low >= 0
    ):
        notes.append("all values are whole numbers: if they are counts, use scale=counts")
    if constant := [name for name, width in zip(names, scaling.width, strict=True) if not width]:
        some = ", ".join(constant[:_LISTED]) + (", ..." if len(constant) > _LISTED else "")
        notes.append(f"{len(constant)} constant, and therefore 0 after scaling: {some}")
    return notes
