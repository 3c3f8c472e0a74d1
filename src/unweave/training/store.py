"""The store: a folder for each run, files that are complete or absent, and no pickles.

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

import functools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from torch import Tensor

from unweave.core import files, spec
from unweave.core.files import delete, make_folder, write_atomically
from unweave.core.groups import grouped
from unweave.core.outputs import RUN
from unweave.core.parts import code_hashes, own_parts, reading_again
from unweave.data import Data, Dataset, Schema
from unweave.data.splits import split_of
from unweave.training.leases import FolderInUse, read_leases
from unweave.training.records import (
    RECORDS,
    Row,
    Sealed,
    StoredData,
    TensorFacts,
    read_record,
    reading,
    run_content,
    settings_in,
    write_record,
)
from unweave.training.run import Run
from unweave.training.run_files import DATA, MEASURES, RunFiles, names_in, run_paths
from unweave.training.run_text import summary_of
from unweave.training.tensor_files import read_facts, read_tensors, write_tensors


class DataRecord(NamedTuple):
    """The description and checksums of its data that a run keeps, without the data."""

    schema: Schema
    fingerprint: str
    labels_fingerprint: str

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """Describe a dataset."""
        return cls(dataset.schema, dataset.fingerprint, dataset.labels_fingerprint)

    def to_json(self) -> StoredData:
        """Return what `from_json` reads."""
        return {
            "schema": self.schema.to_json(),
            "fingerprint": self.fingerprint,
            "labels_fingerprint": self.labels_fingerprint,
        }

    @classmethod
    def from_json(cls, content: StoredData) -> Self:
        """Read what `to_json` returned; raise a ValueError for another schema."""
        prints = content["fingerprint"], content["labels_fingerprint"]
        return cls(Schema.from_json(content["schema"]), *prints)


class ScoreFacts(NamedTuple):
    """What scores are computed on; scores with different facts are never stored together."""

    split: str
    rows: int
    codes: str
    seed: int = 0  # of the metrics
    labels: str = ""  # fingerprint of the labels
    continuous: str | None = None  # factors that were declared continuous
    step: int = 0  # that the weights are of

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Read the facts of stored scores."""
        return cls(**{name: stored[name] for name in cls._fields})


@dataclass(frozen=True)
class RunFolder(RunFiles):
    """The folder of one run, with its tensors and the description of its data."""

    def write_table(self, split: str, content: Callable[[str], bytes]) -> None:
        """Store the codes and factors of a split; `content` is called with the run and the name."""
        path = self.table_path(split)
        write_atomically(path, content(f"{self.digest}/{path.name}"))

    def table_path(self, split: str) -> Path:
        """The file for the codes and factors of a split."""
        return self.path / f"table{self._suffix(split)}.npz"

    def write_scores(self, facts: ScoreFacts, scores: Mapping[str, Any]) -> None:
        """Store the scores of a split beside those of other splits.

        Stored scores of other metrics stay if they are of the same rows, codes, labels and seed. A
        damaged file is replaced, with a warning.
        """
        path = self.path / f"scores{self._suffix(facts.split)}.json"
        kept: Mapping[str, Any] = {}
        if path.exists():
            try:
                stored = self.read_scores(path)
                kept = stored["scores"] if ScoreFacts.of(stored) == facts else {}
            except ValueError:
                warnings.warn(f"{files.disk.name(path)} was damaged, and is replaced", stacklevel=2)
        write_record(path, self.digest, facts._asdict() | {"scores": {**kept, **scores}})

    def _suffix(self, split: str) -> str:
        with reading_again():
            return "" if split == split_of(self.read_run().data) else f"-{split}"

    def read_run(self) -> Run:
        """The run that the folder belongs to."""
        record = self.record
        with reading(self.path / RUN):
            return run_from(record)

    def read_weights(self) -> dict[str, Tensor]:
        """The trained weights."""
        return read_tensors(self.weights, self.digest)[0]

    def write_weights(self, weights: Mapping[str, Tensor], step: int) -> None:
        """Write the trained weights, which makes the run finished."""
        write_tensors(self.weights, weights, self.digest, {"step": step})

    def read_state(self, step: int) -> dict[str, Tensor]:
        """The tensors of the checkpoint of a step."""
        return read_tensors(self.states[step], self.digest)[0]

    def read_state_facts(self, step: int) -> TensorFacts:
        """The facts of the checkpoint of a step."""
        return read_facts(self.states[step], self.digest)

    def read_measures_to_checkpoint(self, step: int) -> list[Row]:
        """The measurements up to a checkpoint, which says how many there were."""
        rows = self.read_measures(until=step)
        count = self.read_state_facts(step).get("measured", len(rows))  # older ones do not say it
        if len(rows) < count and self.warn_if_missing(MEASURES, step):
            return []
        if len(rows) != count:
            with reading(self.path / MEASURES):
                raise ValueError(f"it has {len(rows):,} rows, and the checkpoint {count:,}")
        return rows

    def write_state(
        self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
    ) -> None:
        """Write the checkpoint of a step."""
        path = self.path / f"state-{step}.safetensors"
        write_tensors(path, tensors, self.digest, {"step": step, **facts})

    def drop_states(self, before: int) -> None:
        """Delete the checkpoints of earlier steps."""
        for step, path in self.states.items():
            if step < before:
                delete(path)

    def drop_older_states(self) -> None:
        """Delete the older checkpoints of a finished run; a power failure may bring them back."""
        if self.weights.exists():
            self.drop_states(before=max(self.states, default=0))

    def clean_up(self, wait: float | None = None) -> bool:
        """Delete what a process left that was killed after the run had ended, such as its lease.

        Return False if another process uses the folder, after `wait` as in `lock`.
        """
        try:
            if read_leases(self.path) or len(self.states) > 1:
                with self.lock(wait):
                    self.drop_older_states()
        except FolderInUse:
            return False
        return True

    def read_data(self) -> DataRecord:
        """The description of the data that the run was begun on."""
        path = self.path / DATA
        if not path.exists():
            why = RECORDS[DATA] if self._begun else "its training never started"
            raise ValueError(f"{files.disk.name(self.path)} has no {DATA}: {why}")
        content = read_record(path, StoredData, self.digest)
        with reading(path):
            return DataRecord.from_json(content)

    @property
    def _begun(self) -> bool:
        """Whether steps of the run are stored; they were taken on the data of data.json."""
        return bool(self.states) or self.weights.exists()

    def create(self, run: Run) -> None:
        """Write run.json if it is not there; refuse the folder of another run."""
        make_folder(self.path)
        if not (self.path / RUN).exists():
            write_record(self.path / RUN, run.digest, run_to_record(run))
        elif self.read_run() != run:
            raise ValueError(
                f"{files.disk.name(self.path)} contains a different run from the one its name "
                "gives: the folder was renamed, or written by another version of unweave; use "
                "another store"
            )

    def check_data(self, dataset: Dataset, labels: bool = False) -> None:
        """Refuse observations other than those that the run began with.

        `labels` says whether the run also learns from labels, so that they must not change either.
        """
        path = self.path / DATA
        if not path.exists() and not self._begun:
            write_record(path, self.digest, DataRecord.of(dataset).to_json())
            return
        record = self.read_data()
        changed = changed_data(self.read_run().data) * (record.fingerprint != dataset.fingerprint)
        if not changed and labels and record.labels_fingerprint != dataset.labels_fingerprint:
            changed = "the labels, from which it learns,"
        if changed:
            raise ValueError(
                f"{changed} have changed since training in {files.disk.name(self.path)} began; "
                "restore them, or train on the new ones in another store"
            )


def changed_data(data: Data) -> str:
    """Say what may have changed if data have another checksum than before, and in which file."""
    path = getattr(getattr(data, "source", data), "path", "")
    what = f"the data in {path}" if path else "the data"
    return what if split_of(data) == "all" else f"{what}, or how they are split,"


def run_to_record(run: Run) -> dict[str, Any]:
    """Return the content of the run.json of a run."""
    return run_content(spec.to_json(run), summary_of(run))


def run_from(record: Sealed) -> Run:
    """Return the run of a run.json; raise a ValueError if it is not the one that it is named after.

    A user's own part may have changed since; reading it then warns.
    """
    run = spec.from_json(Run, settings_in(record.content))
    if run.digest != record.run and not own_parts(run):
        raise ValueError(
            f"its settings are those of run {run.digest}, and it was stored as {record.run}"
        )
    return run


class _Comparable(NamedTuple):
    """Checksums of the settings of a run, for runs that differ only in some of them."""

    but_steps: bytes  # of all settings but the steps
    steps: int
    but_code: bytes  # of all but the hashes of users' own code; empty if there is none

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """Return the checksums of the JSON form of a run."""
        others = {name: value for name, value in content.items() if name != "steps"}
        hashes, text = code_hashes(content), json.dumps(content, sort_keys=True)
        for code in hashes.values():
            text = text.replace(code, "")
        return cls(
            sha256(json.dumps(others, sort_keys=True).encode()).digest(),
            int(content["steps"]),
            sha256(text.encode()).digest() if hashes else b"",
        )


@dataclass(frozen=True)
class Store:
    """All runs under one folder."""

    root: Path

    def folder(self, run: Run) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self.root / run.digest)

    def folders(self) -> list[RunFolder]:
        """The folders that hold a run, the newest last."""
        return [RunFolder(path) for path in run_paths(self.root)]

    def shorter_runs(self, runs: Iterable[Run]) -> dict[str, list[RunFolder]]:
        """The folders of runs that differ from each run only in having fewer steps, longest first.

        Settings are compared as plain JSON, so that a store of many runs is searched quickly.
        Folders that cannot be read are left out.
        """
        others = grouped((stored.but_steps, (stored.steps, f)) for stored, f in self._comparable())
        by_run = {}
        for run in runs:
            own = _Comparable.of(spec.to_json(run))
            shorter = [each for each in others.get(own.but_steps, []) if each[0] < own.steps]
            by_run[run.digest] = [folder for _, folder in sorted(shorter, key=lambda e: -e[0])]
        return by_run

    def runs_of_other_code(self, runs: Iterable[Run]) -> dict[str, RunFolder]:
        """The newest stored run that differs from each new run only in the code of own parts."""
        own = ((_Comparable.of(spec.to_json(run)).but_code, run) for run in runs)
        unstored = ((k, run) for k, run in own if k and not (self.folder(run).path / RUN).exists())
        new = grouped((key, run.digest) for key, run in unstored)
        found: dict[str, RunFolder] = {}
        for stored, folder in self._comparable() if new else ():
            found |= dict.fromkeys(new.get(stored.but_code, ()), folder)
        return found

    def _comparable(self) -> Iterator[tuple[_Comparable, RunFolder]]:
        """Yield the settings of the stored runs that can be read, the newest last."""
        for folder in self.folders():
            try:
                changed = (folder.path / RUN).stat().st_mtime_ns
                comparable = _stored_settings(folder.path, changed)
            except (OSError, ValueError, RecursionError):
                continue
            yield comparable, folder

    def find_all(self, names: Iterable[str]) -> list[Path]:
        """The folders of runs by their names, as `find` takes them, each once."""
        listed = functools.cache(partial(names_in, self.root))  # once for all names
        return list(dict.fromkeys(self._find(name, listed).path for name in names))

    def find(self, name: str) -> RunFolder:
        """Find a run by path, digest or start of a digest; an existing path comes first."""
        return self._find(name, partial(names_in, self.root))

    def _find(self, name: str, listed: Callable[[], list[str]]) -> RunFolder:
        refuse_model_file(name)
        return RunFolder(Path(name)) if (Path(name) / RUN).exists() else self.named(name, listed)

    def named(self, name: str, listed: Callable[[], list[str]] | None = None) -> RunFolder:
        """Find a run of this store by its digest, or by the start of a digest if only one fits.

        `listed` returns the names in the store, if they were listed before.
        """
        if (self.root / name / RUN).exists():
            return RunFolder(self.root / name)
        known = listed() if listed else names_in(self.root)
        hits = run_paths(self.root, [each for each in known if each.startswith(name)])
        if len(hits) == 1:
            return RunFolder(hits[0])
        known = [path.name for path in hits or run_paths(self.root)]
        problem = "is the start of several runs" if hits else "is not a run"
        newest = f"the newest of {len(known)} are" if len(known) > 8 else "there are"
        listing = f"{newest} {', '.join(known[-8:])}" if known else "there are none yet"
        place = files.disk.name(self.root)
        raise ValueError(f"{name!r} {problem} in {place}: {listing}; see `unweave runs`")


def refuse_model_file(name: str) -> None:
    """Raise a ValueError if the name is that of a file from `FittedModel.save`."""
    if name.endswith(".uw") and Path(name).is_file():
        raise ValueError(
            f"expected the folder of a run, where results are stored, got {name}, the file of a "
            f'model: give the folder, or use uw.load("{name}") in Python'
        )


@functools.lru_cache(maxsize=100_000)
def _stored_settings(path: Path, _changed: int) -> _Comparable:
    """Return the settings of a stored run, whose run.json is read once."""
    return _Comparable.of(RunFolder(path).settings)
