"""A trained model as one file: an uncompressed zip archive of the files of a run folder."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

from unweave.core import spec
from unweave.core.files import write_atomically
from unweave.training.engine import Row
from unweave.training.lane_group import Outcome
from unweave.training.run import Run
from unweave.training.store import DataRecord, tensors_from_bytes, tensors_to_bytes

_DATE = (1980, 1, 1, 0, 0, 0)  # the same model has the same bytes every time


def write_model(path: Path, outcome: Outcome, record: DataRecord) -> None:
    """Write a run with its weights, log and the description of its data; replace an older file."""
    if path.is_dir():
        raise ValueError(f"expected the path of a file to write, got the folder {path}")
    assert outcome.weights is not None
    step = outcome.log[-1]["step"] if outcome.log else 0
    parts = {
        "run.json": json.dumps(spec.to_json(outcome.run), indent=2).encode(),
        "data.json": json.dumps(record.to_json(), indent=2).encode(),
        "log.jsonl": _lines(outcome.log),
        "measures.jsonl": _lines(outcome.measures),
        "weights.safetensors": tensors_to_bytes(outcome.weights, {"step": step}),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), part)
    write_atomically(path, content.getvalue())


def read_model(path: Path) -> tuple[Outcome, DataRecord]:
    """Read what `write_model` wrote; raise a ValueError for a damaged file or any other."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise KeyError("it is compressed")  # our own files are not
            parts = {name: archive.read(name) for name in _NAMES}
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"{path} cannot be read ({str(error).strip(chr(39))}): expected a model as "
            "`model.save` writes it; the file is another one, or damaged"
        ) from None
    try:
        content, record = json.loads(parts["run.json"]), json.loads(parts["data.json"])
        weights, _ = tensors_from_bytes(parts["weights.safetensors"])
        described = DataRecord.from_json(record)
        rows = [_rows(parts[name]) for name in ("log.jsonl", "measures.jsonl")]
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}; the file is damaged") from None
    run = spec.from_json(Run, content)
    return Outcome(run, weights, rows[0], None, rows[1]), described


_NAMES = ("run.json", "data.json", "log.jsonl", "measures.jsonl", "weights.safetensors")


def _lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _rows(content: bytes) -> list[Row]:
    return [json.loads(line) for line in content.splitlines()]
