"""Codes with names of rows and columns, as `unweave encode` writes and `unweave decode` reads."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unweave.data import Dataset
from unweave.evaluation.model import Array, FittedModel
from unweave.latents import Latent

_AT_ONCE = 4096  # observations whose reconstructions are compared at once
_NAME, _ERROR, _SCALE = "name", "rmse", ".sd"


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
        header, columns = [_NAME, *self.code_names], [self.codes]
        if self.scales is not None:
            header += [name + _SCALE for name in self.code_names]
            columns.append(self.scales)
        if self.error is not None:
            header.append(_ERROR)
            columns.append(self.error[:, None].astype(np.float32))
        values = np.concatenate(columns, 1)
        return header, [[n, *row] for n, row in zip(self.row_names, values.tolist(), strict=True)]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of an .npz file."""
        found = {
            "codes": self.codes,
            "row_names": np.array(self.row_names),
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
    expected = code_names(model.run.latent)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, expected)
    try:
        file = np.load(path, allow_pickle=False)
        arrays = {"codes": file} if isinstance(file, np.ndarray) else dict(file)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"expected codes in a .csv, .npz or .npy file, got {path}: {error}"
        ) from None
    if "codes" not in arrays:
        raise ValueError(f"expected an array named codes in {path}, got {', '.join(arrays)}")
    codes = np.asarray(arrays["codes"], np.float32)
    names = arrays.get("row_names", np.arange(len(codes)))
    return codes, [str(name) for name in names]


def _read_csv(path: Path, expected: Sequence[str]) -> tuple[Array, list[str]]:
    if not path.is_file():
        raise ValueError(f"expected codes in a .csv, .npz or .npy file, got nothing at {path}")
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    if missing := [name for name in expected if name not in header]:
        raise ValueError(
            f"expected the columns {', '.join(expected)} in {path}, got none named {missing[0]}"
        )
    places = [header.index(name) for name in expected]
    names = [row[header.index(_NAME)] if _NAME in header else str(n) for n, row in enumerate(rows)]
    try:
        codes = np.array([[float(row[place]) for place in places] for row in rows], np.float32)
    except (ValueError, IndexError) as error:
        raise ValueError(f"expected numbers in the columns of {path}: {error}") from None
    return codes.reshape(len(rows), len(expected)), names
