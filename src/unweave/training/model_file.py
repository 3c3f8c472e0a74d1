"""A trained model as one file: an uncompressed zip archive of the files of a run folder."""

import io
import zipfile
from pathlib import Path
from typing import Any, cast

from unweave.core.files import read_bytes, write_atomically
from unweave.core.memory import main_memory
from unweave.core.outputs import RUN, refuse_run_folder
from unweave.data.files.rows import UNREADABLE
from unweave.training.outcome import Outcome
from unweave.training.records import (
    LogRow,
    MeasuredRow,
    Row,
    RunRecord,
    StoredData,
    lines_from_bytes,
    reading,
    record_from_bytes,
    record_to_bytes,
    rows_from_lines,
    rows_to_bytes,
)
from unweave.training.run_files import DATA, LOG, MEASURES, WEIGHTS
from unweave.training.store import DataRecord, run_from, run_to_record
from unweave.training.tensor_files import tensors_from_bytes, tensors_to_bytes

_DATE = (1980, 1, 1, 0, 0, 0)  # the same model has the same bytes every time
_NAMES = (RUN, DATA, LOG, MEASURES, WEIGHTS)


def write_model(path: Path, outcome: Outcome, record: DataRecord) -> None:
    """Write a run with its weights, log and the description of its data; replace an older file."""
    if path.is_dir():
        raise ValueError(f"expected the path of a file to write, got the folder {path}")
    refuse_run_folder(path)
    assert outcome.weights is not None
    run, step = outcome.run.digest, outcome.log[-1]["step"] if outcome.log else 0
    parts = {
        RUN: record_to_bytes(RUN, run, run_to_record(outcome.run)),
        DATA: record_to_bytes(DATA, run, record.to_json()),
        LOG: rows_to_bytes(LOG, run, outcome.log),
        MEASURES: rows_to_bytes(MEASURES, run, outcome.measures),
        WEIGHTS: tensors_to_bytes(WEIGHTS, outcome.weights, run, {"step": step}),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), part)
    write_atomically(path, content.getvalue())


def read_model(path: Path) -> tuple[Outcome, DataRecord]:
    """Read what `write_model` wrote; raise a ValueError for a damaged file or any other."""
    with reading(path):
        content = io.BytesIO(read_bytes(path, main_memory()))
    try:
        with zipfile.ZipFile(content) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ValueError("it is compressed")  # our own files are not
            names = archive.namelist()
            if sorted(names) != sorted(_NAMES):
                raise ValueError(f"it has no {RUN} and {WEIGHTS}, or other files too")
            parts = {name: archive.read(name) for name in _NAMES}
    except UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read ({error}): expected a model as "
            "`model.save` writes it; the file is another one, or damaged"
        ) from None
    with reading(path):
        return _read_parts(parts)


def _read_parts(parts: dict[str, bytes]) -> tuple[Outcome, DataRecord]:
    sealed = record_from_bytes(RunRecord, RUN, parts[RUN])
    stored = record_from_bytes(StoredData, DATA, parts[DATA], sealed.run)
    weights, _ = tensors_from_bytes(WEIGHTS, parts[WEIGHTS], sealed.run)
    outcome = Outcome(
        run_from(sealed),
        weights,
        _rows(parts, LOG, LogRow, sealed.run),
        None,
        _rows(parts, MEASURES, MeasuredRow, sealed.run),
    )
    return outcome, DataRecord.from_json(cast(StoredData, stored.content))


def _rows(parts: dict[str, bytes], name: str, form: Any, run: str) -> list[Row]:
    return rows_from_lines(form, lines_from_bytes(name, parts[name], run))
