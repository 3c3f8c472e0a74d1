"""The data of a trained model: found, loaded at first use, and checked to be the same.

A model needs its data only to be evaluated on them; what encoding and decoding need is in its run.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from unweave.core.files import error_text
from unweave.core.hints import naming
from unweave.core.spec import digest, members
from unweave.data import (
    Arrays,
    Data,
    Dataset,
    DataSpec,
    Folder,
    InMemory,
    NewObservations,
    Paired,
    Schema,
    Selected,
    SourceData,
    from_array,
)
from unweave.data.files.array_file import TableFile, open_array_file
from unweave.data.files.new_observations import arrange_like, columns_like
from unweave.data.scaling import BYTES
from unweave.data.sources import from_path
from unweave.data.splits import AnySplit, available_splits, split_of, with_split
from unweave.training.store import DataRecord, changed_data

_ADVICE = "if they are elsewhere, give their path: --data PATH, or data=PATH in Python"


class DataSource:
    """The data of a model: a spec, and the dataset, which is loaded at first use.

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
        """The data; they are loaded, and compared with the training data, at first use."""
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
                    "memory; give it again: load(path, data=images), where path is the folder of "
                    "the run or a file from model.save"
                ) from None
            raise ValueError(
                f"this needs the data of the model, which cannot be loaded: "
                f"{error_text(error).rstrip('.')}; {_ADVICE}"
            ) from None

    def _check(self, dataset: Dataset) -> None:
        """Refuse observations that differ from the training data; warn if labels differ."""
        expected, schema = self.record, dataset.schema
        same = dataset.fingerprint == expected.fingerprint and schema.shape == expected.schema.shape
        if not same or not (expected.fingerprint or self.data == self.trained_on):
            if self.data == self.trained_on:
                changed = changed_data(self.data)
                raise ValueError(f"{changed} have changed since the model was trained; {_ADVICE}")
            raise ValueError(
                f"the model was trained on other data: expected {_describe(expected.schema)}, with "
                f"fingerprint {expected.fingerprint or digest(self.trained_on)}, got "
                f"{_describe(schema)}, with {dataset.fingerprint or digest(self.data)}"
            )
        if not schema.scaling.close_to(expected.schema.scaling):
            raise ValueError(
                "these are the data that the model was trained on, but they were scaled in another "
                f"way: expected {expected.schema.scaling}, got {schema.scaling}; give the spec "
                "that was used, data=..."
            )
        if expected.schema.factor_names and not schema.factor_names:
            warnings.warn(
                "these data have no labels, unlike the training data; for scores with factors, "
                "give them too: data=from_array(images, factors)",
                stacklevel=2,
            )
        elif dataset.labels_fingerprint != expected.labels_fingerprint:
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
        if is_bound_array(data):
            self.data = data[0]
        self._sources: dict[tuple[str, str, str], DataSource] = {}
        self._arrays: dict[str, InMemory] = {}  # the array that was given, by how it is read

    def find(self, trained_on: Data, record: DataRecord) -> DataSource:
        """Return the source for a model; data that were given are loaded and compared at once."""
        data = self._place(trained_on, record.schema)
        if self.data is not None:
            with naming(self.data if isinstance(self.data, (str, Path)) else None):
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

    def _place(self, trained_on: Data, schema: Schema) -> Data:
        """Return the spec of the data where they are now, on the split that was trained on."""
        if self.data is None:
            return trained_on
        data: Data
        if isinstance(self.data, (str, Path)):
            check_not_a_name(self.data)
            moved = _moved(_source_of(trained_on), Path(self.data), schema)
            data = _with_source(trained_on, moved)
        elif isinstance(self.data, DataSpec):
            data = cast(Data, self.data)
        else:
            array = self._array(_array_settings(_source_of(trained_on), schema))
            data = _with_source(trained_on, array)
        split = split_of(trained_on)
        if split_of(data) != split and split in available_splits(data):
            data = with_split(data, cast(AnySplit, split))
        return data


def is_bound_array(data: object) -> bool:
    """Return whether a value is what `from_array` returns: a spec, and its dataset."""
    return isinstance(data, tuple) and [*map(type, data[:1])] == [InMemory]


def check_not_a_name(path: str | Path) -> None:
    """Refuse the name of a dataset where a path is expected."""
    if (named := members(Data).get(str(path))) and not Path(path).exists():
        raise ValueError(f"{str(path)!r} is the name of a dataset: give {named.__name__}(...)")


def _moved(source: Data, place: Path, schema: Schema) -> Arrays | Folder:
    """Return the spec of the data of a source at another place, read in the same way."""
    spec = from_path(place)
    if isinstance(spec, Folder) and isinstance(source, Folder):
        factors = None if source.factors is None else Path(source.factors)
        if factors is not None and factors.is_relative_to(source.path):
            factors = place / factors.relative_to(source.path)
        kept = str(factors) if factors and factors.exists() else None
        return dataclasses.replace(source, path=str(place), factors=kept)
    if isinstance(spec, Arrays) and isinstance(source, Arrays):
        return dataclasses.replace(source, path=str(place))
    if isinstance(spec, Arrays):
        return dataclasses.replace(spec, **_array_settings(source, schema))
    return dataclasses.replace(spec, scale=schema.scaling.method)


def _array_settings(source: Data, schema: Schema) -> dict[str, Any]:
    """Return how to read an array like the data of a source."""
    if isinstance(source, (Arrays, InMemory)):
        return {"scale": source.scale, "axes": source.axes}
    return {"scale": schema.scaling.method}


def _source_of(data: Data) -> Data:
    return _source_of(data.source) if isinstance(data, (Selected, Paired)) else data


def _with_source(data: Data, source: Data) -> Data:
    if isinstance(data, (Selected, Paired)):
        inner = cast(SourceData, _with_source(data.source, source))
        return cast(Data, dataclasses.replace(data, source=inner))
    return source


def open_like(path: str | Path, schema: Schema, data: Data) -> NewObservations:
    """Open new observations at a path, read and scaled like the training data of a model.

    Images get the size and channels of the model's, and columns of a table are found by name.
    Labels are not read. Images of 8 bits are in [0, 1] if those of the model are.
    """
    check_not_a_name(path)
    place = Path(path)
    spec = _moved(_source_of(data), place, schema)
    unit = 1.0
    if isinstance(spec, Folder):
        if len(schema.shape) != 3:
            raise ValueError(
                f"expected a file with {schema.shape[0]} values per observation, got the images "
                f"{path}: the model was trained on vectors"
            )
        size, channels = schema.shape[1:], schema.shape[0]
        spec = dataclasses.replace(spec, size=cast(Any, size), channels=channels)
        rows, names, notes = spec.raw()
        if rows.dtype == np.uint8 and schema.bounded and schema.scaling.method == "none":
            unit = BYTES.unit[0]
    else:
        file = open_array_file(place)
        columns = None
        if isinstance(file, TableFile) and schema.value_names:
            columns = columns_like(schema, file)
        key = spec.key if spec.key in file.names else None
        rows, names, notes = dataclasses.replace(spec, key=key, ignore="").raw(columns)
        with naming(path):
            arrange_like(schema, np.broadcast_to(np.uint8(0), rows.shape))  # refuse other shapes
        notes = [f"{rows.shape[0]:,} observations of shape {schema.shape}", *notes]
    described = dataclasses.replace(
        schema,
        size=rows.shape[0],
        factor_names=(),
        factor_sizes=(),
        factor_labels=(),
        continuous=(),
        periods={},
        lattice=None,
        notes=tuple(notes),
    )
    return NewObservations(described, rows, str(path), unit, row_names=names)
