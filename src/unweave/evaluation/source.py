"""The data of a trained model: where they are, loaded at first use, and whether they are the same.

A model needs its data only to be evaluated on them; what encoding and decoding need is in its run.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any, cast

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.core.spec import digest, members
from unweave.data import (
    Arrays,
    Data,
    Dataset,
    DataSpec,
    Folder,
    InMemory,
    Paired,
    Schema,
    Selected,
    SourceData,
    as_numpy,
    from_array,
    read_like,
)
from unweave.data.files.array_file import TableFile, open_array_file
from unweave.data.files.detect import from_path
from unweave.data.files.tables import join_columns
from unweave.data.splits import AnySplit, available_splits, split_of, with_split
from unweave.training.store import DataRecord

_ADVICE = 'if they are elsewhere, say where: load(path, data="new/place"), or --data new/place'


class DataSource:
    """Data that a model is on: a spec, and the dataset, which is loaded at first use.

    Args:
        data: the spec of the data.
        trained_on: the spec of the data that the model was trained on.
        record: the description of the data that the model was trained on; None if `dataset` is it.
        device: the device to load the data to.
        dataset: the data, if they are loaded by now.
    """

    def __init__(
        self,
        data: Data,
        trained_on: Data,
        record: DataRecord | None,
        device: torch.device,
        dataset: Dataset | None = None,
    ) -> None:
        self.data, self.trained_on, self.device = data, trained_on, device
        self._record, self._dataset = record, dataset

    @property
    def record(self) -> DataRecord:
        """The description of the data that the model was trained on."""
        if self._record is None:
            self._record = DataRecord.of(self.dataset)
        return self._record

    @property
    def schema(self) -> Schema:
        """The schema of the data that the model was trained on."""
        return self.dataset.schema if self._record is None else self._record.schema

    @property
    def dataset(self) -> Dataset:
        """The data; they are loaded, and compared with those of the training, at first use."""
        if self._dataset is None:
            dataset = self._load()
            if split_of(self.data) == split_of(self.trained_on):
                self._check(dataset)
            self._dataset = dataset
        return self._dataset

    @property
    def loaded(self) -> bool:
        """Whether the data are loaded."""
        return self._dataset is not None

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the data."""
        return {**self.__dict__, "_record": self.record, "_dataset": None}

    def __deepcopy__(self, _: object) -> DataSource:
        return self

    def to(self, device: torch.device) -> DataSource:
        """Return the source of the same data on another device."""
        return DataSource(self.data, self.trained_on, self.record, device)

    def _load(self) -> Dataset:
        try:
            return self.data.load(self.device)
        except (ValueError, OSError) as error:
            if isinstance(self.data, InMemory):
                raise ValueError(
                    "this needs the data that the model was trained on, which were an array in "
                    "memory; give it again: load(path, data=images)"
                ) from None
            raise ValueError(
                f"this needs the data of the model, which cannot be loaded: "
                f"{str(error).rstrip('.')}; {_ADVICE}"
            ) from None

    def _check(self, dataset: Dataset) -> None:
        """Refuse observations other than those of the training; note other labels."""
        expected, found = self.record, dataset.schema
        same = dataset.fingerprint == expected.fingerprint and found.shape == expected.schema.shape
        if not same or not (expected.fingerprint or self.data == self.trained_on):
            if self.data == self.trained_on:
                raise ValueError(f"the data have changed since the model was trained; {_ADVICE}")
            raise ValueError(
                f"the model was trained on other data: expected {_describe(expected.schema)}, with "
                f"fingerprint {expected.fingerprint or digest(self.trained_on)}, got "
                f"{_describe(found)}, with {dataset.fingerprint or digest(self.data)}"
            )
        if found.scaling != expected.schema.scaling:
            raise ValueError(
                "these are the data that the model was trained on, but they were scaled in another "
                f"way: expected {expected.schema.scaling}, got {found.scaling}; give the spec that "
                "was used, data=..."
            )
        if dataset.labels_fingerprint != expected.labels_fingerprint:
            warnings.warn(
                "labels have changed since training; scores use the new ones", stacklevel=2
            )


def _describe(schema: Schema) -> str:
    return f"{schema.size:,} observations of shape {schema.shape}"


class SourceFinder:
    """Finds the sources of several models, so that those on the same data share one.

    `data` is where the data are now (a path, a spec or the array itself), by default where they
    were; `split` is the split to use, by default the one that the model was trained on.
    """

    def __init__(self, data: Any, split: AnySplit | None, device: torch.device) -> None:
        self.data, self.split, self.device = data, split, device
        self._sources: dict[tuple[str, str, str], DataSource] = {}
        self._arrays: dict[str, InMemory] = {}  # the array that was given, by how it is read

    def find(self, trained_on: Data, record: DataRecord) -> DataSource:
        """Return the source for a model; data that were given are loaded and compared at once."""
        data = self._place(trained_on)
        if self.data is not None:
            _ = self._source(data, trained_on, record).dataset
        if self.split is not None:
            data = with_split(data, self.split)
        return self._source(data, trained_on, record)

    def _source(self, data: Data, trained_on: Data, record: DataRecord) -> DataSource:
        key = digest(data), record.fingerprint, record.labels_fingerprint
        if key not in self._sources:
            self._sources[key] = DataSource(data, trained_on, record, self.device)
        return self._sources[key]

    def _array(self, settings: dict[str, Any]) -> Data:
        """Return a spec of the array that was given."""
        key = repr(settings)
        if key not in self._arrays:
            self._arrays[key], _ = from_array(self.data, **settings, device=self.device)
        return self._arrays[key]

    def _place(self, trained_on: Data) -> Data:
        """Return the spec of the data at their place, on the split of the training."""
        if self.data is None:
            return trained_on
        data: Data
        if isinstance(self.data, (str, Path)):
            check_not_a_name(self.data)
            data = moved(trained_on, Path(self.data))
        elif isinstance(self.data, DataSpec):
            data = cast(Data, self.data)
        else:
            data = self._array(_settings(trained_on) if isinstance(trained_on, InMemory) else {})
        split = split_of(trained_on)
        if split_of(data) != split and split in available_splits(data):
            data = with_split(data, cast(AnySplit, split))
        return data


def check_not_a_name(path: str | Path) -> None:
    """Refuse the name of a dataset where a path is expected."""
    if (named := members(Data).get(str(path))) and not Path(path).exists():
        raise ValueError(f"{str(path)!r} is the name of a data set: give {named.__name__}(...)")


def moved(data: Data, place: Path) -> Data:
    """Return the spec of the same data at another place, read in the same way."""
    if isinstance(data, (Selected, Paired)):
        return dataclasses.replace(data, source=cast(SourceData, moved(data.source, place)))
    if isinstance(data, Folder) and place.is_dir():
        factors = None if data.factors is None else Path(data.factors)
        if factors is not None and factors.is_relative_to(data.path):
            factors = place / factors.relative_to(data.path)
        return dataclasses.replace(
            data, path=str(place), factors=str(factors) if factors and factors.exists() else None
        )
    if isinstance(data, Arrays) and place.is_file():
        return dataclasses.replace(data, path=str(place))
    return from_path(place)


def open_like(path: str | Path, schema: Schema, data: Data) -> Dataset:
    """Open new observations at a path, to be read as those of a model were.

    Images get the size and channels of the model's, and columns of a table are found by name.
    """
    check_not_a_name(path)
    place = Path(path)
    trained_on = data.source if isinstance(data, (Selected, Paired)) else data
    spec: Data
    if place.is_dir():
        if len(schema.shape) != 3:
            raise ValueError(
                f"expected a file with {schema.shape[0]} values per observation, got the folder "
                f"{path}: the model was trained on vectors"
            )
        folder = trained_on if isinstance(trained_on, Folder) else Folder(str(place))
        channels, height, width = schema.shape
        spec = dataclasses.replace(
            folder,
            path=str(place),
            size=(height, width),
            channels=cast(Any, channels),
            factors=None,
            split="all",
        )
    else:
        spec = from_path(place)
        if isinstance(spec, Arrays):
            spec = dataclasses.replace(spec, key=_key(place, schema, trained_on))
    return unscaled(spec, schema).load(torch.device("cpu"))


def _settings(spec: Data) -> dict[str, Any]:
    """Return how a spec says that values are read, whatever they are."""
    names = {field.name for field in dataclasses.fields(cast(Any, spec))}
    return {name: getattr(spec, name) for name in ("scale", "axes") if name in names}


def unscaled(spec: Data, schema: Schema) -> Data:
    """Return the spec of the same data in their own units.

    Images of bytes, and data in [0, 1], are in [0, 1] by default.
    """
    if "scale" not in _settings(spec):
        return spec
    unit = schema.scaling.method == "bytes" or (schema.scaling.method == "none" and schema.bounded)
    return cast(Data, dataclasses.replace(cast(Any, spec), scale=None if unit else "none"))


def _key(path: Path, schema: Schema, trained_on: Data) -> str | None:
    """Return which array or columns of a file are the observations; None for the usual one."""
    file = open_array_file(path)
    if isinstance(file, TableFile) and schema.value_names:
        if missing := [name for name in schema.value_names if name not in file.names]:
            raise ValueError(
                f"expected the {len(schema.value_names)} columns that the model was trained on, "
                f"{path} has no column {', '.join(map(repr, missing[:3]))}"
                + (f" and {len(missing) - 3} others" if len(missing) > 3 else "")
            )
        return join_columns(schema.value_names)
    key = trained_on.key if isinstance(trained_on, Arrays) else None
    return key if key in file.names else None


def rescale(dataset: Dataset, index: Tensor, schema: Schema, device: torch.device) -> Tensor:
    """Return observations of a dataset by their numbers, scaled as those of a model."""
    images = dataset.images(index)
    own, wanted = dataset.schema.scaling, schema.scaling
    if own == wanted and dataset.shape == schema.shape:
        return images.to(device)
    if own.method == "bytes" and wanted.method in ("percentile", "standardise"):
        raise ValueError(
            f"expected values like those that the model was trained on, scaled by {wanted.method}, "
            "got images of 8 bits: convert them to the type of the others"
        )
    return scale_like(schema, own.invert(images.cpu().numpy()), device)


def scale_like(schema: Schema, x: ArrayLike | Tensor, device: torch.device) -> Tensor:
    """Scale an array as the observations of a model; warn if percentiles clip most of it."""
    values, scaling = read_like(schema, x, device), schema.scaling
    if scaling.method == "percentile":
        ends = zip(scaling.offset, scaling.unit, strict=True)
        low, high = min(scaling.offset), max(offset + 1 / unit for offset, unit in ends)
        slack, raw = 0.01 * (high - low), as_numpy(x)
        if ((raw < low - slack) | (raw > high + slack)).mean() > 0.5:
            warnings.warn(
                "more than half of the values lie beyond the percentiles of the training and are "
                "clipped: check that these data are of the same kind and type",
                stacklevel=2,
            )
    return values
