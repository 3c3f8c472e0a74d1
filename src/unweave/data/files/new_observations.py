"""Read new observations like those of a dataset: with the same axes and the same scaling."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.core.hints import naming
from unweave.data.dataset import CPU, Dataset, Schema
from unweave.data.files.array_file import TableFile
from unweave.data.files.build import as_numpy
from unweave.data.files.columns import choose_columns, list_some
from unweave.data.files.csv_text import is_number
from unweave.data.files.frames import Frame, is_frame
from unweave.data.files.interpretation import group_names
from unweave.data.files.rows import Array, IndexedRows, Rows
from unweave.data.lattice import check_indices

_FAR = 20  # standard deviations from the mean that are hardly of the same kind
_WIDE = 50  # range of integers that is hardly that of values in [0, 1]


@final
@dataclass(frozen=True, eq=False)
class NewObservations(Dataset):
    """Observations in a file, read on request and scaled like those of a dataset.

    Its schema is that of the dataset, with a size and notes of its own, and without factors.
    """

    schema: Schema
    rows: Rows = field(repr=False)
    place: str  # for errors
    unit: float = 1.0  # of a stored value, in the user's units
    device: torch.device = CPU
    row_names: Sequence[str] = field(default=(), repr=False)

    def images(self, index: Tensor) -> Tensor:
        index = check_indices(index.cpu(), self.size, "indices of the data")
        numbers, places = np.unique(index.numpy().reshape(-1), return_inverse=True)
        stored = IndexedRows(self.rows, numbers).read(0, len(numbers))
        values = stored if self.unit == 1 else stored * np.float32(self.unit)
        with naming(self.place):
            scaled = read_like(self.schema, values, self.device)
        return scaled[torch.from_numpy(places.reshape(-1))].reshape(*index.shape, *self.shape)


def read_like(
    schema: Schema, observations: ArrayLike | Tensor, device: torch.device | str = "cpu"
) -> Tensor:
    """Convert observations in the user's units to float32 (N, *shape), like those of a dataset.

    Values are scaled like those of the dataset, so their meaning does not depend on the other
    observations; with percentiles, values beyond these are clipped. Images may have their channels
    last, or no axis of channels; if the shape is ambiguous, channels are where the source of the
    dataset has them. Columns of a table are found by name. Warn about values that look different in
    kind.
    """
    array = arrange_like(schema, as_array_like(schema, observations))
    scaling = schema.scaling
    if array.dtype.kind not in "biuf":
        raise ValueError(f"expected observations as numbers, got {array.dtype}")
    if (
        scaling.measured
        and len(schema.shape) == 3
        and array.dtype == np.uint8 != np.dtype(schema.dtype or np.uint8)
    ):
        raise ValueError(
            f"expected images of {schema.dtype}, as in the data, which are scaled by "
            f"{scaling.method}, got images of 8 bits: convert them to the type of the others"
        )
    values = scaling.apply(array).to(device)
    if not np.isfinite(array).all():
        raise ValueError("expected finite observations, got NaN or infinity: remove or replace it")
    if not values.isfinite().all():
        raise ValueError(
            f"expected observations in the units of the data, got {array.dtype} from "
            f"{array.min():g} to {array.max():g}, which become infinite when they are scaled like "
            f"the data ({scaling.method}): check their units, or choose another model"
        )
    if schema.bounded and not 0 <= values.min() <= values.max() <= 1:
        bytes_too = " or integers in 0..255" if scaling.method == "bytes" else ""
        raise ValueError(
            f"expected values in [0, 1]{bytes_too} as in the data, got {array.dtype} from "
            f"{array.min():g} to {array.max():g}"
        )
    if scaling.method == "counts" and (array.min() < 0 or (array != np.rint(array)).any()):
        raise ValueError("expected counts as in the data, got negative numbers or fractions")
    if scaling.measured:
        _warn_of_other_kinds(schema, array)
    return values


def as_array_like(schema: Schema, observations: ArrayLike | Tensor) -> Array:
    """Convert observations to an array; columns of a table are found by name."""
    if not is_frame(observations):
        return as_numpy(observations)
    frame = Frame(observations)
    return frame.rows(columns_like(schema, frame)).array


def columns_like(schema: Schema, file: TableFile) -> list[str]:
    """Return which columns of a table are the observations, by name.

    Names that are numbers are the same if their values are: 400 and 400.0. Spaces around a name do
    not matter. If the dataset has no names, the columns are those that are observations by default.
    """
    if not schema.value_names:
        return choose_columns(file, None, None, "").observed
    by_name = {name.strip(): name for name in file.names} | {name: name for name in file.names}
    by_number = {float(name): name for name in reversed(file.names) if is_number(name)}
    found, missing = list[str](), list[str]()
    for name in schema.value_names:
        other = by_number.get(float(name)) if is_number(name) else None
        match = by_name.get(name, by_name.get(name.strip(), other))
        (missing if match is None else found).append(match or name)
    if missing:
        others = f" and {len(missing) - 3} others" if len(missing) > 3 else ""
        raise ValueError(
            f"expected the {len(schema.value_names)} columns that the model was trained on, but "
            f"{file.path} has no column {', '.join(map(repr, missing[:3]))}{others}"
        )
    return found


def arrange_like(schema: Schema, array: Array) -> Array:
    """Return observations as (N, *shape), with channels first; refuse those of another shape."""
    shape = schema.shape
    if len(shape) == 3 and shape[0] == 1 and array.shape[1:] == shape[1:]:
        array = array[:, None]
    elif len(shape) == 3 and array.shape[1:] == (*shape[1:], shape[0]):
        cube = array.shape[1:] == shape
        array = np.moveaxis(array, -1, 1) if schema.channels_last or not cube else array
    if array.ndim == 0 or array.shape[1:] != shape or not len(array):
        raise ValueError(
            f"expected observations of shape (N, {', '.join(map(str, shape))}), as in the data, "
            f"got {array.shape}"
        )
    return array


def _warn_of_other_kinds(schema: Schema, array: Array) -> None:
    """Warn of channels or columns that lie mostly beyond the data, or were constant in them."""
    scaling, names = schema.scaling, group_names(schema.shape, schema.value_names)
    values = array.reshape(len(array), len(names), -1).astype(np.float64)
    offset, width = (np.array(each)[:, None] for each in (scaling.offset, scaling.width))
    distance = values - offset
    if scaling.method == "percentile":
        what = "the percentiles of the training data and are clipped"
        beyond = np.abs(distance - width / 2) > 0.51 * width
    else:
        what = f"{_FAR} standard deviations of the training data"
        beyond = np.abs(distance) > _FAR * width
    constant = width[:, 0] == 0
    mostly = (beyond.mean((0, 2)) > 0.5) & ~constant
    if mostly.any():
        warnings.warn(
            f"more than half of the values lie beyond {what}: {_listed(names, mostly)}; check that "
            "these data are of the same kind and type",
            stacklevel=3,
        )
    if np.dtype(schema.dtype or float).kind in "iu" and width.max() > _WIDE and _are_shares(array):
        warnings.warn(
            f"the values are floats in [0, 1], but the training data were {schema.dtype}, up to "
            f"{(offset + width).max():.0f}: give these in the same units",
            stacklevel=3,
        )
    changed = constant & (np.abs(distance) > 1e-6 * np.abs(offset)).any((0, 2))
    if changed.any():
        warnings.warn(
            f"{_listed(names, changed)} had the same value in all training data: other values are "
            "ignored",
            stacklevel=3,
        )


def _are_shares(array: Array) -> bool:
    """Return whether values are floats in [0, 1], and not only 0 and 1."""
    unit = array.dtype.kind == "f" and array.min() >= 0 and array.max() <= 1
    return bool(unit and (array != np.rint(array)).any())


def _listed(names: Sequence[str], chosen: Array) -> str:
    return list_some([name for name, flag in zip(names, chosen, strict=True) if flag])
