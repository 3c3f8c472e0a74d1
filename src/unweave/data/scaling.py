"""Scale values from a user's units to those that networks see, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ScalingMethod = Literal["none", "bytes", "percentile", "standardise", "counts"]


@dataclass(frozen=True)
class Scaling:
    """Map values v of observations to (v - offset) * unit, where networks see them.

    `offset` and `unit` have one entry for all values, one for each channel of an image, or one for
    each value of a vector. Methods:

    - "none": values are unchanged.
    - "bytes": integers 0..255 become [0, 1]; floats already are in [0, 1] and stay unchanged, so
      there is nothing to invert.
    - "percentile": two percentiles of the data become 0 and 1, and values beyond them are clipped.
    - "standardise": every value has mean 0 and standard deviation 1 over the data.
    - "counts": values are unchanged; they are non-negative integers.

    >>> Scaling("standardise", (10.0,), (0.5,)).apply(np.array([[12.0, 8.0]]))
    tensor([[ 1., -1.]])
    """

    method: ScalingMethod = "none"
    offset: tuple[float, ...] = (0.0,)
    unit: tuple[float, ...] = (1.0,)

    @property
    def bounded(self) -> bool:
        """Whether scaled values lie in [0, 1], whatever the values were."""
        return self.method in ("bytes", "percentile")

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

    def invert(self, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return scaled values (N, *shape) to the user's units."""
        if self.method not in ("percentile", "standardise"):
            return scaled
        values = scaled / self._along(self.unit, scaled) + self._along(self.offset, scaled)
        return values.astype(np.float32)

    @staticmethod
    def _along(numbers: tuple[float, ...], values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return one number for each channel or value, to combine with values (N, *shape)."""
        return np.array(numbers).reshape(-1, *[1] * (values.ndim - 2))


UNSCALED = Scaling()
BYTES = Scaling("bytes", unit=(1 / 255,))
