"""Scale values from a user's units to those that networks see, and back."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ScalingMethod = Literal["none", "bytes", "percentile", "standardise", "common", "counts"]

_FAR = 100  # widths from 0 beyond which float32 is too coarse


@dataclass(frozen=True)
class Scaling:
    """Map values v of observations to (v - offset) * unit, the values that networks see.

    `offset` and `unit` have one entry for all values, one for each channel of an image, or one for
    each value of a vector. A channel or value that is constant has unit 0: it becomes 0, and is
    inverted to its offset. Methods:

    - "none": values are unchanged.
    - "bytes": integers 0..255 become [0, 1]; floats already are in [0, 1] and stay unchanged, so
      there is nothing to invert.
    - "percentile": two percentiles of the data become 0 and 1, and values beyond them are clipped.
    - "standardise": every value has mean 0 and standard deviation 1 over the data.
    - "common": every value has mean 0, and all are divided by the same number, so that they keep
      their relative scales; their mean variance is 1.
    - "counts": values are unchanged; they are non-negative integers.

    >>> Scaling("standardise", (10.0,), (0.5,)).apply(np.array([[12.0, 8.0]]))
    tensor([[ 1., -1.]])
    """

    method: ScalingMethod = "none"
    offset: tuple[float, ...] = (0.0,)
    unit: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (*self.offset, *self.unit))) or min(self.unit, default=0) < 0:
            raise ValueError(
                "expected finite offsets and units of at least 0, got "
                f"{[*map(float, self.offset)]} and {[*map(float, self.unit)]}"
            )

    @property
    def bounded(self) -> bool:
        """Whether scaled values lie in [0, 1], whatever the values were."""
        return self.method in ("bytes", "percentile")

    @property
    def measured(self) -> bool:
        """Whether offset and unit were measured from the data."""
        return self.method in ("percentile", "standardise", "common")

    def apply(self, values: NDArray[np.generic]) -> Tensor:
        """Scale values (N, *shape) in the user's units: a copy in float32."""
        with np.errstate(over="ignore"):  # an overflow becomes infinity, which readers reject
            if self.method in ("none", "counts", "bytes"):
                unscaled = torch.from_numpy(np.array(values, dtype=np.float32, order="C"))
                pixels = self.method == "bytes" and values.dtype.kind in "iu"
                return unscaled * self.unit[0] if pixels else unscaled
            # In double precision: the offset of large numbers would cancel their last digits.
            scaled = values.astype(np.float64, order="C")
            scaled -= self._along(self.offset, scaled)
            scaled *= self._along(self.unit, scaled)
            if self.method == "percentile":
                scaled.clip(0, 1, out=scaled)
            return torch.from_numpy(scaled.astype(np.float32))

    def invert(self, scaled: NDArray[np.float32]) -> NDArray[np.floating]:
        """Return scaled values (N, *shape) to the user's units.

        They are float32, or float64 if they lie so far from 0, compared with their width, that
        float32 would lose their digits, as times in seconds since 1970 do.
        """
        if not self.measured:
            return scaled
        values = scaled * self._along(self.width, scaled) + self._along(self.offset, scaled)
        distance = max(abs(o * u) for o, u in zip(self.offset, self.unit, strict=True))
        return values if distance > _FAR else values.astype(np.float32)

    @property
    def width(self) -> tuple[float, ...]:
        """The difference in the user's units that becomes 1; 0 for what is constant."""
        return tuple(1 / unit if unit else 0.0 for unit in self.unit)

    def close_to(self, other: Self) -> bool:
        """Return whether a scaling is the same up to rounding errors of sums over the data."""
        return (
            self.method == other.method
            and len(self.offset) == len(other.offset)
            and np.allclose(self.unit, other.unit, rtol=1e-9, atol=0)
            and all(
                abs(a - b) <= 1e-9 * (abs(a) + width)
                for a, b, width in zip(self.offset, other.offset, self.width, strict=True)
            )
        )

    @staticmethod
    def _along(numbers: tuple[float, ...], values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return one number for each channel or value, to combine with values (N, *shape)."""
        return np.array(numbers).reshape(-1, *[1] * (values.ndim - 2))


UNSCALED = Scaling()
BYTES = Scaling("bytes", unit=(1 / 255,))
