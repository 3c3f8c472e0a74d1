"""The store: a folder a run, written atomically, never half there, and no pickle anywhere.

runs/<digest>/run.json             the run
              data.json            schema and fingerprints of the data it was begun on
              log.jsonl            one line per stretch of steps: the mean of every term
              measures.jsonl       what was measured at chosen steps of training
              state-<step>.safetensors   the newest checkpoint, from which training continues
              weights.safetensors  the trained weights; their presence means "finished"
              failed.json          where and why a run stopped
              table.npz scores.json             codes and scores of the split it was trained on
              table-<split>.npz scores-<split>.json       of another split
              report.html explorer.html
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from filelock import FileLock, Timeout
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from unweave.core import spec
from unweave.core.files import UNFINISHED, write_atomically, write_json
from unweave.data import Dataset, Schema
from unweave.data.splits import split_of
from unweave.training.run import Run

T = TypeVar("T")
Status = Literal["finished", "failed", "running", "stopped", "not started"]

_STATE = re.compile(r"state-(\d+)\.safetensors")
_LOCK_SECONDS = 0.2  # to wait for a lock: longer than `RunFolder.locked` holds it


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors atomically as safetensors, with facts and a checksum in the header."""
    write_atomically(path, tensors_to_bytes(tensors, facts))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a file written by `write_tensors`, checked."""
    try:
        return tensors_from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(_damaged(path, str(error))) from None


def tensors_to_bytes(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> bytes:
    """Return the content of a safetensors file, with facts and a checksum in its header."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(ready, metadata={"unweave": json.dumps({**facts, "crc32": _checksum(ready)})})


def tensors_from_bytes(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and facts that `tensors_to_bytes` was given; raise a ValueError if bad."""
    try:
        tensors = {name: value.clone() for name, value in load(content).items()}
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        facts = json.loads(header["__metadata__"]["unweave"])
        expected = facts["crc32"]
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(str(error)) from None
    if _checksum(tensors) != expected:
        raise ValueError("its checksum does not match")
    return tensors, facts


def read_facts(path: Path) -> dict[str, Any]:
    """Facts of a file written by `write_tensors`, without its tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {})["unweave"])
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(_damaged(path, str(error))) from None
    return facts


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    value = 0
    for name in sorted(tensors):
        flat = tensors[name].reshape(-1).view(torch.uint8) if tensors[name].numel() else None
        value = zlib.crc32(name.encode(), value)
        if flat is not None:
            value = zlib.crc32(flat.numpy().data, value)
    return value


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path} cannot be read ({reason}): the file is damaged. Restore it from a copy, move it "
        "elsewhere to go on from the other files in the folder, or train in another store"
    )


class DataRecord(NamedTuple):
    """The description and checksums of its data that a run keeps, without the data."""

    schema: Schema
    fingerprint: str
    labels_fingerprint: str

    @classmethod
    def of(cls, dataset: Dataset) -> DataRecord:
        """Describe a dataset."""
        return cls(dataset.schema, dataset.fingerprint, dataset.labels_fingerprint)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {**self._asdict(), "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, content: Any) -> DataRecord:
        """Read what `to_json` returned; raise a ValueError for anything else."""
        try:
            prints = content["fingerprint"], content["labels_fingerprint"]
            return cls(Schema.from_json(content["schema"]), *prints)
        except (KeyError, TypeError, ValidationError) as error:
            raise ValueError(f"it does not describe data as this version does: {error}") from None


class ScoreFacts(NamedTuple):
    """What scores are computed on; those of different facts are never stored together."""

    split: str
    rows: int
    codes: str
    seed: int = 0  # of the metrics
    labels: str = ""  # fingerprint of the labels
    continuous: str | None = None  # factors that were declared continuous

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> ScoreFacts:
        """Read the facts of stored scores."""
        return cls(**{name: stored[name] for name in cls._fields if name in stored})


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def weights(self) -> Path:
        """The trained weights."""
        return self.path / "weights.safetensors"

    @property
    def failure(self) -> dict[str, Any] | None:
        """Where and why the run stopped, if it did."""
        path = self.path / "failed.json"
        return _read_json(path) if path.exists() else None

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """The content of each scores file, by split; the split it was trained on comes first."""
        content = {}
        for path in sorted(self.path.glob("scores*.json"), key=lambda path: len(path.name)):
            scores = _read_json(path)
            if "scores" not in scores:
                raise ValueError(
                    f"{path} is of an earlier version: measure again, `unweave evaluate`"
                )
            content[scores["split"]] = scores
        return content

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the run was scored with, on any split."""
        return tuple(dict.fromkeys(key for each in self.scores.values() for key in each["scores"]))

    def table_path(self, split: str) -> Path:
        """The file for the codes and factors of a split."""
        return self.path / f"table{self._suffix(split)}.npz"

    def write_scores(self, facts: ScoreFacts, scores: Mapping[str, Any]) -> None:
        """Store the scores of a split beside those of other splits.

        Stored scores of other metrics stay if they are of the same rows, codes, labels and seed.
        """
        path = self.path / f"scores{self._suffix(facts.split)}.json"
        stored = _read_json(path) if path.exists() else {}
        same = facts._asdict().items() <= stored.items() and "scores" in stored
        kept = stored["scores"] if same else {}
        write_json(path, facts._asdict() | {"scores": kept | dict(scores)})

    def _suffix(self, split: str) -> str:
        return "" if split == split_of(self.read_run().data) else f"-{split}"

    @property
    def states(self) -> dict[int, Path]:
        """Checkpoints by step, the oldest first."""
        found = ((_STATE.fullmatch(entry.name), entry) for entry in self.path.glob("state-*"))
        return dict(sorted((int(match[1]), entry) for match, entry in found if match))

    @property
    def status(self) -> Status:
        """Whether the run is finished, failed, running, stopped (resumable) or not started."""
        if self.weights.exists():
            return "finished"
        if self.failure:
            return "failed"
        if self.locked:
            return "running"
        return "stopped" if self.states else "not started"

    @property
    def locked(self) -> bool:
        """Whether a process is training the run now."""
        path = self.path / "lock"
        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0):
                return False
        except Timeout:
            return True
        except OSError:  # no process can train in a folder that is not writable
            return False

    def read_run(self) -> Run:
        """The run that the folder belongs to."""
        path = self.path / "run.json"
        if not path.exists():
            raise ValueError(
                f"{self.path} is not a run: it has no run.json; `unweave runs` lists the runs"
            )
        return spec.from_json(Run, _read_json(path))

    def read_log(self, until: int | None = None, most: int | None = None) -> list[dict[str, Any]]:
        """The log's rows, up to and including a step; only `most`, evenly spaced, if given."""
        return self._read_rows("log.jsonl", until, most)

    def write_log(self, rows: list[dict[str, Any]]) -> None:
        """Replace the log."""
        self._write_rows("log.jsonl", rows)

    def read_measures(
        self, until: int | None = None, most: int | None = None
    ) -> list[dict[str, Any]]:
        """The measurements made during training, as `read_log` reads rows."""
        return self._read_rows("measures.jsonl", until, most)

    def write_measures(self, rows: list[dict[str, Any]]) -> None:
        """Replace the measurements; a run that has none has no file."""
        if rows or (self.path / "measures.jsonl").exists():
            self._write_rows("measures.jsonl", rows)

    def _read_rows(
        self, name: str, until: int | None, most: int | None = None
    ) -> list[dict[str, Any]]:
        path = self.path / name
        if not path.exists():
            return []
        rows = _read(
            path, lambda text: [json.loads(line) for line in evenly_spaced(text.splitlines(), most)]
        )
        return [row for row in rows if until is None or row["step"] <= until]

    def _write_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_atomically(self.path / name, text.encode())

    def read_data(self) -> DataRecord:
        """The description of the data that the run was begun on."""
        path = self.path / "data.json"
        if not path.exists():
            raise ValueError(f"{self.path} has no data.json: its training never started")
        record: DataRecord = _read(path, lambda text: DataRecord.from_json(json.loads(text)))
        return record

    def create(self, run: Run) -> None:
        """Make the folder, with its run.json, if it is not there; refuse that of another run."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / "run.json").exists():
            write_json(self.path / "run.json", spec.to_json(run))
        elif self.read_run() != run:
            raise ValueError(
                f"{self.path} holds another run than the one of that name: its run.json was "
                "changed, or is of another version of unweave; use another store"
            )

    def check_data(self, dataset: Dataset, labels: bool = False) -> None:
        """Refuse observations other than those that the run began with.

        `labels` says whether the run also learns from labels, so that they must not change either.
        """
        path = self.path / "data.json"
        if not path.exists():
            write_json(path, DataRecord.of(dataset).to_json())
            return
        record = self.read_data()
        changed = "data" if record.fingerprint != dataset.fingerprint else ""
        if not changed and labels and record.labels_fingerprint != dataset.labels_fingerprint:
            changed = "labels, from which it learns,"
        if changed:
            raise ValueError(
                f"the {changed} have changed since {self.path} was begun; bring them back, or "
                "train on the new ones in another store"
            )

    def drop_states(self, before: int) -> None:
        """Delete the checkpoints of earlier steps."""
        for step, path in self.states.items():
            if step < before:
                path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training the same run at the same time."""
        try:
            with FileLock(self.path / "lock", timeout=_LOCK_SECONDS):
                os.utime(self.path)  # who watches the folder looks at its time
                for litter in self.path.glob(f"{UNFINISHED}*"):  # of a process that was killed
                    litter.unlink()
                yield
        except Timeout:
            raise ValueError(
                f"{self.path} is being trained by another process; wait for it or stop it"
            ) from None


@dataclass(frozen=True)
class Store:
    """All runs under one folder."""

    root: Path

    def folder(self, run: Run) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self.root / run.digest)

    def folders(self) -> list[RunFolder]:
        """The folders that hold a run, the newest last."""
        if not self.root.is_dir():
            return []
        found = [entry.parent for entry in self.root.glob("*/run.json")]
        return [RunFolder(path) for path in sorted(found, key=lambda p: p.stat().st_mtime)]

    def shorter_runs(self, runs: Iterable[Run]) -> dict[str, list[RunFolder]]:
        """The folders of runs that differ from each run only in having fewer steps, longest first.

        Files are compared as plain JSON, so that a store of many runs is searched quickly.
        """
        others: dict[str, list[tuple[int, RunFolder]]] = {}
        for path in self.root.glob("*/run.json"):
            with suppress(ValueError, KeyError, AttributeError):  # not a readable run
                key, steps = _all_but_steps(json.loads(path.read_text()))
                others.setdefault(key, []).append((steps, RunFolder(path.parent)))
        found = {}
        for run in runs:
            key, steps = _all_but_steps(spec.to_json(run))
            shorter = [each for each in others.get(key, []) if each[0] < steps]
            found[run.digest] = [folder for _, folder in sorted(shorter, key=lambda e: -e[0])]
        return found

    def find_all(self, names: Iterable[str]) -> list[Path]:
        """The folders of runs by their names, as `find` takes them, each once."""
        return list(dict.fromkeys(self.find(name).path for name in names))

    def find(self, name: str) -> RunFolder:
        """Find a run by path, digest or start of a digest; an existing path comes first."""
        refuse_model_file(name)
        if (Path(name) / "run.json").exists():
            return RunFolder(Path(name))
        return self.named(name)

    def named(self, name: str) -> RunFolder:
        """Find a run of this store by its digest, or by the start of a digest if only one fits."""
        if (self.root / name / "run.json").exists():
            return RunFolder(self.root / name)
        hits = [f for f in self.folders() if f.path.name.startswith(name)]
        if len(hits) == 1:
            return hits[0]
        known = [f.path.name for f in hits or self.folders()]
        problem = "is the start of several runs" if hits else "is not a run"
        newest = f"the newest of {len(known)} are" if len(known) > 8 else "there are"
        listing = f"{newest} {', '.join(known[-8:])}" if known else "there are none yet"
        raise ValueError(f"{name!r} {problem} in {self.root}: {listing}; see `unweave runs`")


def evenly_spaced(rows: Sequence[T], most: int | None) -> Sequence[T]:
    """Return at most `most` rows, with the first and the last.

    >>> evenly_spaced(range(10), 4)
    [0, 3, 6, 9]
    """
    if most is None or len(rows) <= most:
        return rows
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def refuse_model_file(name: str) -> None:
    """Raise a ValueError if the name is that of a file from `FittedModel.save`."""
    if name.endswith(".uw") and Path(name).is_file():
        raise ValueError(
            f"expected the folder of a run, where results are stored, got {name}, the file of a "
            f'model: give the folder, or use uw.load("{name}") in Python'
        )


def _all_but_steps(content: dict[str, Any]) -> tuple[str, int]:
    """Return the JSON of a run without its steps, as text, and its steps."""
    others = {name: value for name, value in content.items() if name != "steps"}
    return json.dumps(others, sort_keys=True), int(content["steps"])


def _read_json(path: Path) -> Any:
    return _read(path, json.loads)


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(path.read_text())
    except ValueError as error:
        raise ValueError(_damaged(path, str(error))) from None
