"""The files of a run folder that are text: their form, their seal, and how they are read.

Every file says what it is. Its seal names the file and the digest of its run, and has a checksum of
these and of the content, so a file that was changed, renamed or copied from another run is noticed.
A JSON object has its seal in its last field, "seal", and a file of rows in its last line. What is
read must also have the form that is stated here.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Required, TypeVar, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from unweave.core import files
from unweave.core.adapters import adapter
from unweave.core.files import OddFile, error_text, read_bytes, write_atomically
from unweave.core.parts import MissingPart

T = TypeVar("T")
Row = dict[str, Any]

_SEAL, _SUMMARY = "seal", "summary"  # fields of files besides their content
_END = "\n}\n"  # of a JSON file, after its seal
LARGEST = 2**30  # bytes of a file; those of the longest runs have some millions
_SHOWN = 160  # characters of a reason


# ---- forms


def _with_step(row: Row) -> Row:
    if type(step := row.get("step")) is not int or step < 0:
        raise ValueError("a row has no step")
    return row


def _rectangular(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("its rows have different lengths")
    return rows


Matrix = Annotated[list[list[float]], AfterValidator(_rectangular)]
Number = Annotated[int, Field(gt=-(2**63), lt=2**63)] | float
LogRow = Annotated[dict[str, Number], AfterValidator(_with_step)]
MeasuredRow = Annotated[
    dict[str, Number | dict[str, Number | None]], AfterValidator(_with_step)
]  # numbers by kind and name


class RunSummary(TypedDict):
    """A run in words, as `unweave runs` lists it."""

    objective: str
    latent: str
    data: str


@with_config(ConfigDict(extra="allow"))
class RunRecord(TypedDict):
    """The content of run.json: the fields that every run has, those of its parts, and words."""

    data: dict[str, Any]
    latent: dict[str, Any]
    objective: dict[str, Any]
    steps: NonNegativeInt
    seed: NonNegativeInt
    summary: RunSummary


class StoredData(TypedDict):
    """The content of data.json: the schema of the data of a run, and checksums of them."""

    schema: dict[str, Any]
    fingerprint: str
    labels_fingerprint: str


class Failure(TypedDict):
    """The content of failed.json: the term that was not finite, and the step."""

    step: NonNegativeInt
    term: str


class StoredScore(TypedDict):
    """A score in a file of scores, as `Score.to_json` returns it."""

    name: str
    protocol: str
    value: float
    parts: dict[str, float]
    matrix: list[float] | Matrix | None
    details: dict[str, bool | Number | str | list[Number | str]]
    interval: Annotated[list[float], Field(min_length=2, max_length=2)] | None
    null: float | None
    components: dict[str, float]


class StoredScores(TypedDict):
    """The content of a file of scores: the data and codes they describe, and scores by key."""

    split: str
    rows: NonNegativeInt
    codes: str
    seed: int
    labels: str
    continuous: str | None
    step: NonNegativeInt
    scores: dict[str, StoredScore]


class ScoreValue(TypedDict):
    """The number in a stored score."""

    value: float


class ScoreValues(TypedDict):
    """The numbers in a file of scores, and the codes they describe."""

    split: str
    codes: str
    continuous: str | None
    step: NonNegativeInt
    scores: dict[str, ScoreValue]


@with_config(ConfigDict(extra="allow"))
class TensorFacts(TypedDict, total=False):
    """The facts of a file of tensors: its step, and for a checkpoint what its bits depend on."""

    step: Required[NonNegativeInt]
    crc32: Required[str]  # of the tensors
    lanes: list[str]
    device: str
    precision: str
    compiled: bool
    measured: NonNegativeInt  # rows of measures.jsonl


def check_form(form: type[T], content: object) -> T:
    """Return content of a form; raise a ValueError of one line that says where it differs."""
    with _explaining():
        checked: T = adapter(form).validate_python(content, strict=True)
    return checked


def parse_form(form: type[T], content: bytes) -> T:
    """Parse JSON of a form; raise a ValueError of one line that says where it differs."""
    with _explaining():
        parsed: T = adapter(form).validate_json(content, strict=True)
    return parsed


@contextmanager
def _explaining() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ValueError(f"{where or 'its content'}: {first['msg']}") from None


# ---- seals


class Sealed(NamedTuple):
    """The content of a file, and the digest of the run that it belongs to."""

    content: dict[str, Any]
    run: str


def seal(file: str, run: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Add to a JSON value within a file what it is: its kind, its run and a checksum."""
    return {**content, _SEAL: _new_seal(file, run, _canonical(content))}


def unseal(file: str, content: object, run: str | None = None) -> Sealed:
    """Return what `seal` was given; raise a ValueError unless it is of this kind and this run."""
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got {type(content).__name__}")
    rest = {name: value for name, value in content.items() if name != _SEAL}
    return Sealed(rest, _check_seal(content.get(_SEAL), file, run, _canonical(rest)))


def record_to_bytes(file: str, run: str, content: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file: an object whose last field is its seal."""
    start = json.dumps({**content, _SEAL: None}, indent=2).removesuffix("null\n}").encode()
    return start + json.dumps(_new_seal(file, run, start)).encode() + _END.encode()


def record_from_bytes(form: Any, file: str, content: bytes, run: str | None = None) -> Sealed:
    """Parse what `record_to_bytes` returned; raise a ValueError if it changed or has another form.

    The checksum is of the bytes, so reading a file costs little more than parsing it.
    """
    start, mark, end = content.rpartition(f'"{_SEAL}": '.encode())
    last = json.loads(end.decode().removesuffix(_END)) if mark else None
    owner = _check_seal(last, file, run, start + mark)
    parsed = parse_form(form, content)
    parsed.pop(_SEAL, None)
    return Sealed(parsed, owner)


def rows_to_bytes(file: str, run: str, rows: Sequence[Row]) -> bytes:
    """Return the content of a file of rows: a JSON object a line, and the seal."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return lines + json.dumps({_SEAL: _new_seal(file, run, lines)}).encode() + b"\n"


def lines_from_bytes(file: str, content: bytes, run: str) -> list[bytes]:
    """Return the lines that `rows_to_bytes` wrote for rows; raise a ValueError if they changed."""
    lines, _, last = content.removesuffix(b"\n").rpartition(b"\n")
    lines = lines + b"\n" if lines else b""
    sealed = json.loads(last.decode()) if last else None
    if not isinstance(sealed, dict) or list(sealed) != [_SEAL]:
        raise ValueError("it does not end with a checksum: it was cut off, or changed")
    _check_seal(sealed[_SEAL], file, run, lines)
    return lines.splitlines()


def rows_from_lines(form: Any, lines: Sequence[bytes]) -> list[Row]:
    """Parse lines that have rows of a form."""
    rows: list[Row] = parse_form(list[form], b"[%b]" % b",".join(lines))
    if len(rows) != len(lines):
        raise ValueError("a line has more than one row")
    return rows


def _new_seal(file: str, run: str, content: bytes) -> dict[str, str]:
    crc32 = zlib.crc32(content, zlib.crc32(f"{file} {run} ".encode()))
    return {"file": file, "run": run, "crc32": f"{crc32:08x}"}


def _check_seal(found: object, file: str, run: str | None, content: bytes) -> str:
    """Return the run of a seal, which must be that of this file, this run and this content."""
    if not isinstance(found, dict) or found.keys() != {"file", "run", "crc32"}:
        raise ValueError("it has no checksum: it was changed, or written by an earlier version")
    owner = found["run"]
    if found["file"] != file:
        raise ValueError(f"it was written as {found['file']}")
    if not isinstance(owner, str) or (run is not None and owner != run):
        raise ValueError(f"it belongs to run {owner}, and run.json beside it to {run}")
    if found != _new_seal(file, owner, content):
        raise ValueError("its checksum does not match: the file was changed")
    return owner


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


# ---- files


_AGAIN = "delete it and measure again, `unweave evaluate`"
_ELSEWHERE = "restore it from a copy, or train the run again in another store"
_ROWS = "restore it from a copy, or delete it to continue without its rows"
RECORDS = {  # text files of a run folder, and what to do if one is damaged
    "run.json": _ELSEWHERE,
    "data.json": _ELSEWHERE,
    "log.jsonl": _ROWS,
    "measures.jsonl": _ROWS,
    "failed.json": "delete it, and `unweave train` continues from the last checkpoint",
    "scores*.json": _AGAIN,
}
_ADVICE = RECORDS | {
    "table*.npz": _AGAIN,
    "state-*.safetensors": "restore it from a copy, or move it elsewhere to continue without it",
    "weights.safetensors": (
        "restore it from a copy, or move it elsewhere and let `unweave train` write it again"
    ),
}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise errors in what a file contains as a ValueError that names it and says what to do."""
    try:
        yield
    except MissingPart:
        raise
    except (ValueError, RecursionError, OddFile) as error:
        text = str(error.strerror) if isinstance(error, OddFile) else error_text(error)
        reason = " ".join(text.split())
        known = (each for name, each in _ADVICE.items() if fnmatchcase(path.name, name))
        advice = next(known, "restore it from a copy")
        short = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}..."
        shown = files.disk.name(path)
        raise ValueError(f"{shown} cannot be read ({short}): it is damaged; {advice}") from None
    except OSError as error:
        error.filename = files.disk.name(path)
        raise


def write_record(path: Path, run: str, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its seal."""
    write_atomically(path, record_to_bytes(path.name, run, content))


def read_sealed(path: Path, form: Any = dict[str, Any], run: str | None = None) -> Sealed:
    """Read a JSON object of a form that `write_record` wrote, for this run if it is given."""
    with reading(path):
        files.disk.fetch(path)
        return record_from_bytes(form, path.name, read_bytes(path, LARGEST), run)


def read_record(path: Path, form: type[T], run: str) -> T:
    """Read a JSON object of a form that `write_record` wrote for a run."""
    return cast(T, read_sealed(path, form, run).content)


def write_rows(path: Path, run: str, rows: Sequence[Row]) -> None:
    """Write a file of rows with its seal."""
    write_atomically(path, rows_to_bytes(path.name, run, rows))


def read_lines(path: Path, run: str) -> list[bytes]:
    """Read the lines of a file of rows; `parse_rows` parses those that are needed."""
    with reading(path):
        files.disk.fetch(path)
        return lines_from_bytes(path.name, read_bytes(path, LARGEST), run)


def parse_rows(path: Path, form: Any, lines: Sequence[bytes]) -> list[Row]:
    """Parse lines of a file of rows."""
    with reading(path):
        return rows_from_lines(form, lines)


def settings_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run in the content of a run.json, with or without its seal."""
    return {name: value for name, value in content.items() if name not in (_SEAL, _SUMMARY)}


def run_content(settings: Mapping[str, Any], summary: RunSummary) -> dict[str, Any]:
    """Return the content of a run.json: the fields of a run, and the run in words."""
    return {**settings, _SUMMARY: summary}
