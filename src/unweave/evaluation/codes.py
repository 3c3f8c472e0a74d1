"""Codes with names of rows and columns, as `unweave encode` writes and `unweave decode` reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unweave.data import Dataset
from unweave.data.files.array_file import (
    ArrayFile,
    TableFile,
    open_array_file,
    read_array,
    read_rows,
)
from unweave.data.files.columns import list_some
from unweave.data.files.tables import CsvFile
from unweave.evaluation.model import Array, FittedModel
from unweave.latents import Latent
from unweave.metrics.table_files import ERROR, NAME, SCALE

_AT_ONCE = 4096  # observations whose reconstructions are compared at once
_CODES, _ROW_NAMES = "codes", "row_names"


@dataclass(frozen=True, eq=False)
class CodeTable:
    """Codes of observations.

    Attributes:
        codes: (N, D) means of q(z|x).
        row_names: names of the observations, such as file names.
        code_names: names of the dimensions of z.
        scales: (N, D) standard deviations of q(z|x), if they were asked for.
        error: (N,) root mean squared errors of the reconstructions, if they were asked for.
    """

    codes: Array
    row_names: Sequence[str]
    code_names: Sequence[str]
    scales: Array | None = None
    error: NDArray[np.float64] | None = None

    def csv(self) -> tuple[list[str], list[list[object]]]:
        """Return the header and the rows of a CSV file."""
        header, columns = [NAME, *self.code_names], [self.codes]
        if self.scales is not None:
            header += [name + SCALE for name in self.code_names]
            columns.append(self.scales)
        if self.error is not None:
            header.append(ERROR)
            columns.append(self.error[:, None].astype(np.float32))
        values = np.concatenate(columns, 1)
        return header, [[n, *row] for n, row in zip(self.row_names, values.tolist(), strict=True)]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of an .npz file."""
        found = {
            _CODES: self.codes,
            _ROW_NAMES: np.array(self.row_names),
            "code_names": np.array(self.code_names),
        }
        if self.scales is not None:
            found["scales"] = self.scales
        return found if self.error is None else found | {"error": self.error}


def variable_names(latent: Latent) -> list[str]:
    """Return the names of latent variables; those that have only a number are called z0, z1, ..."""
    return [f"z{name}" if name[0].isdigit() else name for name in latent.names]


def code_names(latent: Latent) -> list[str]:
    """Return the names of the dimensions of z: those of variables, numbered if they have several.

    >>> from unweave import Categorical, Gaussian, Product
    >>> code_names(Gaussian(2)), code_names(Product(size=Gaussian(1), digit=Categorical(2)))
    (['z0', 'z1'], ['size', 'digit[0]', 'digit[1]'])
    """
    names = []
    for name, width in zip(variable_names(latent), latent.variables, strict=True):
        names += [name] if width == 1 else [f"{name}[{number}]" for number in range(width)]
    return names


def encode_table(
    model: FittedModel, dataset: Dataset, scales: bool = False, error: bool = False
) -> CodeTable:
    """Encode all observations of a dataset."""
    means, deviations = model.posterior(dataset)
    names = list(dataset.row_names) or [str(row) for row in range(dataset.size)]
    return CodeTable(
        means,
        names,
        code_names(model.run.latent),
        deviations if scales else None,
        _errors(model, dataset, means) if error else None,
    )


def _errors(model: FittedModel, dataset: Dataset, means: Array) -> NDArray[np.float64]:
    """Return the root mean squared error of each reconstruction, in the units of the data."""
    errors = []
    for rows in torch.arange(dataset.size).split(_AT_ONCE):
        x = dataset.schema.scaling.invert(dataset.images(rows).cpu().numpy())
        squares = np.square(x - model.decode(means[rows.numpy()]), dtype=np.float64)
        errors.append(np.sqrt(squares.reshape(len(squares), -1).mean(1)))
    return np.concatenate(errors)


def read_codes(path: Path, model: FittedModel) -> tuple[Array, list[str]]:
    """Read codes (N, D) for a model, and names of the rows, from a CSV, .npz or .npy file."""
    expected, file = code_names(model.run.latent), open_array_file(path)
    if isinstance(file, TableFile):
        codes, names = _read_columns(file, expected)
    else:
        codes, names = _read_arrays(file)
    shape, numeric = (*codes.shape[:1], len(expected)), codes.dtype.kind in "biuf"
    with np.errstate(over="ignore"):  # what overflows is not finite
        single = codes.astype(np.float32) if numeric else codes
    if not numeric or codes.shape != shape or not np.isfinite(single).all():
        raise ValueError(
            f"expected finite numbers (N, {len(expected)}) that fit in float32 in {path}, got "
            f"{codes.dtype} of shape {codes.shape}"
        )
    if names and len(names) != len(codes):
        raise ValueError(
            f"expected a name for each of the {len(codes):,} rows of {path}, got {len(names):,}: "
            f"correct the array {_ROW_NAMES}, or leave it out"
        )
    return single, names or [str(number) for number in range(len(codes))]


def _read_arrays(file: ArrayFile) -> tuple[Array, list[str]]:
    """Read the only array of a file, or the one named codes, and names of its rows if it has."""
    names = file.names
    if names != [""] and _CODES not in names:
        raise ValueError(f"expected an array named {_CODES} in {file.path}, got {list_some(names)}")
    rows = [_ROW_NAMES] if _ROW_NAMES in names else []
    row_names = [str(name) for each in rows for name in np.atleast_1d(read_array(file, each))]
    return read_array(file, "" if names == [""] else _CODES), row_names


def _read_columns(file: TableFile, expected: Sequence[str]) -> tuple[Array, list[str]]:
    """Read the columns of codes of a table, and the column that names its rows if it has."""
    if missing := [name for name in expected if name not in file.names]:
        raise ValueError(
            f"expected the columns {', '.join(expected)} in {file.path}, got none named "
            f"{missing[0]}"
        )
    codes = read_rows(file.rows(expected), str(file.path))
    if NAME not in file.names:
        return codes, []
    names = file.cells(NAME) if isinstance(file, CsvFile) else file.labels(NAME).row_names
    return codes, list(names)
