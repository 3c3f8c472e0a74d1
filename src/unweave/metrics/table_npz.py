"""The .npz file of a table: its arrays, a checksum of them, and the run that it was stored for."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import nearest
from unweave.core.outputs import npz_bytes, run_beside
from unweave.metrics.arrays import as_texts

if TYPE_CHECKING:
    from unweave.metrics.table import Table

_CHECKSUM, _PLACE = "checksum", "stored_as"  # arrays of a file that are no fields of a table
_NEAR = 0.75  # similarity from which the name of an array counts as misspelt, from 0 to 1


def table_bytes(table: Table, place: str = "") -> bytes:
    """Return the content of the file of a table; `place` is the run and the name, if it is stored.

    A table in the folder of a run is read only if it was stored there under its name.
    """
    present = {each.name: getattr(table, each.name) for each in fields(table)}
    arrays: dict[str, Any] = {name: np.asarray(v) for name, v in present.items() if v is not None}
    arrays["factor_names"] = np.array(table.factor_names, dtype=np.str_)
    arrays["factor_sizes"] = np.array(table.factor_sizes, dtype=np.int64)
    if table.continuous is not None:
        arrays["continuous"] = np.array(table.continuous, dtype=np.str_)
    arrays["row_names"] = np.array(table.row_names, dtype=np.str_)
    arrays["periods"] = np.array(json.dumps(table.periods))
    arrays[_PLACE] = np.array(place)
    arrays[_CHECKSUM] = np.array(_checksum(arrays))
    return npz_bytes(arrays)


def read_npz(
    path: str | os.PathLike[str], codes_key: str, factors_key: str, names: Sequence[str]
) -> dict[str, Any]:
    """Read the fields of a table, of these names, from a file of `table_bytes` or a user's own."""
    from unweave.metrics.table_files import FACTORS, label_columns, labels_as_factors

    arrays = _arrays(path, codes_key, factors_key, [*names, _PLACE, _CHECKSUM])
    expected = _checksum(arrays)
    if str(arrays.pop(_CHECKSUM, expected)) != expected and not (codes_key or factors_key):
        raise ValueError(
            f"{path} is damaged, its checksum does not match: measure again, `unweave "
            "evaluate`, or leave the array `checksum` out of a table that you have changed"
        )
    _check_place(Path(path), str(arrays.pop(_PLACE, "")))
    arrays.setdefault(FACTORS, np.zeros((*arrays["codes"].shape[:1], 0), np.int64))
    factor_names = as_texts(arrays.pop("factor_names", None))
    sizes = _as_integers("factor_sizes", arrays.pop("factor_sizes", None))
    row_names = as_texts(arrays.pop("row_names", None))
    periods = _as_periods(str(arrays.pop("periods", "{}")))
    columns: dict[str, Any] = arrays | {"factor_names": factor_names}
    given = arrays[FACTORS]
    if given.dtype.kind in "US" or given.ndim == 1:
        single = (factors_key or "label",) if given.ndim == 1 else ()
        columns |= labels_as_factors(label_columns(given, factor_names or single), len(given))
    if columns.get("continuous") is not None:
        columns["continuous"] = np.atleast_1d(columns["continuous"]).tolist()
    return columns | {"factor_sizes": sizes, "periods": periods, "row_names": row_names}


def _check_place(path: Path, place: str) -> None:
    """Refuse a file in the folder of a run that was not stored for that run under that name."""
    run = run_beside(path)
    if run is not None and place != f"{run}/{path.name}":
        raise ValueError(
            f"{path} was not stored for run {run}, to which run.json beside it belongs"
            + (f", but as {place}" if place else "")
            + ": measure again, `unweave evaluate`"
        )


def _as_periods(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(
            f"expected periods as JSON text, got {text[:80]!r}: save "
            """numpy.array('{"orientation": 39}'), for example"""
        ) from None


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of the names, types, shapes and values of arrays."""
    value = 0
    for name in sorted(arrays.keys() - {_CHECKSUM}):
        array = np.ascontiguousarray(arrays[name])
        value = zlib.crc32(f"{name} {array.dtype.str} {arrays[name].shape}".encode(), value)
        value = zlib.crc32(array.tobytes(), value)
    return f"{value:08x}"


def _as_integers(what: str, given: NDArray[Any] | None) -> tuple[int, ...]:
    """Return an array of integers of a file; () if there is none."""
    if given is None:
        return ()
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise ValueError(
            f"expected {what} as a list of integers, got {given.dtype} of shape {given.shape}"
        )
    return tuple(given.tolist())


def _known(names: Sequence[str], fields: list[str], path: str | os.PathLike[str]) -> list[str]:
    """Return the arrays of a table; warn of others, or raise if their names look misspelt."""
    open_names = [name for name in fields if name not in names]
    others = [name for name in names if name not in fields]
    near = {name: get_close_matches(name, open_names, 1, _NEAR) for name in others}
    if misspelt := {name: match[0] for name, match in near.items() if match}:
        hints = "; ".join(f"{name!r}: did you mean {match!r}?" for name, match in misspelt.items())
        raise ValueError(
            f"expected arrays of a table in {path}, which are {', '.join(fields)}, got {hints} "
            "Rename it, or leave it out of the file"
        )
    if "codes" not in names:
        raise ValueError(
            f"expected codes, mostly with factors, in {path}, got {', '.join(names) or 'none'}: "
            "name them with --codes-key and --factors-key (codes_key and factors_key in Python), "
            f"or rename them; arrays that are read are {', '.join(fields)}"
        )
    if others:
        warnings.warn(
            f"{path} also holds {', '.join(others)}, which a table does not read; "
            f"arrays that are read are {', '.join(fields)}",
            stacklevel=5,
        )
    return [name for name in names if name in fields]


def is_npz(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an .npz file, or is called so and should be one."""
    return Path(path).suffix.lower() == ".npz" or zipfile.is_zipfile(path)


def _arrays(
    path: str | os.PathLike[str], codes_key: str, factors_key: str, fields: list[str]
) -> dict[str, NDArray[Any]]:
    """Read the arrays of a table from an .npz file; keys name the codes and factors."""
    from unweave.data.files.array_file import read_array
    from unweave.data.files.npy import NpzFile
    from unweave.metrics.table_files import CODES, FACTORS

    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"expected an .npz file, got {path}, which is damaged or something else: write it by "
            "numpy.savez(path, codes=codes, factors=factors)"
        )
    file = NpzFile(Path(path))
    keys = {name: key for name, key in ((CODES, codes_key), (FACTORS, factors_key)) if key}
    for key in keys.values():
        if key not in file.names:
            raise ValueError(f"{path} has no array {key!r}: {nearest(key, file.names)}")
    # With keys, other arrays are not meant for a table.
    names = [name for name in file.names if name in fields] if keys else file.names
    return {
        name: read_array(file, keys.get(name, name))
        for name in _known(list(dict.fromkeys([*keys, *names])), fields, path)
    }
