"""Read a run folder without torch: status, settings, log and scores. Lock it."""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from unweave.core import files
from unweave.core.files import delete, delete_unfinished, make_folder, write_atomically
from unweave.core.outputs import RUN, refuse_run_folder
from unweave.training.final_terms import end_of
from unweave.training.leases import own_leases
from unweave.training.records import (
    Failure,
    LogRow,
    MeasuredRow,
    Row,
    RunRecord,
    RunSummary,
    ScoreValues,
    Sealed,
    StoredScores,
    parse_rows,
    read_lines,
    read_record,
    read_sealed,
    reading,
    settings_in,
    write_record,
    write_rows,
)

T = TypeVar("T")
Status = Literal["finished", "failed", "running", "stopped", "not started"]

LOG, MEASURES, FAILED = "log.jsonl", "measures.jsonl", "failed.json"
WEIGHTS, DATA = "weights.safetensors", "data.json"

_state = re.compile(r"state-(\d{1,18})\.safetensors").fullmatch
_PAGES = ("report.html", "explorer.html")
_SCORES = re.compile(r"scores.*\.json")


@dataclass(frozen=True)
class RunFiles:
    """The folder of one run, and those of its files that are text."""

    path: Path

    @property
    def weights(self) -> Path:
        """The trained weights."""
        return self.path / WEIGHTS

    @cached_property
    def record(self) -> Sealed:
        """The content of run.json, and the digest that the run was stored under."""
        try:
            return read_sealed(self.path / RUN, RunRecord)
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"{files.disk.name(self.path)} is not a run: it has no {RUN}; `unweave runs` lists "
                "the runs"
            ) from None

    @property
    def digest(self) -> str:
        """The digest of the run, whatever the name of the folder."""
        return self.record.run

    @property
    def settings(self) -> dict[str, Any]:
        """The run as plain JSON."""
        return settings_in(self.record.content)

    @property
    def summary(self) -> RunSummary:
        """The run in words."""
        summary: RunSummary = self.record.content["summary"]
        return summary

    @property
    def failure(self) -> Row | None:
        """Where and why the run stopped, if it did."""
        path = self.path / FAILED
        return {**read_record(path, Failure, self.digest)} if self.failed else None

    def reached(self, steps: int) -> int:
        """The step that is stored of a run of this many steps."""
        return steps if self.weights.exists() else max(self.states, default=0)

    @property
    def ended(self) -> bool:
        """Whether the run is finished or has failed, as others see its folder now.

        The folder is listed again, because network file systems remember for up to a minute that a
        file does not exist.
        """
        return not {WEIGHTS, FAILED}.isdisjoint(files.disk.names(self.path))

    @property
    def failed(self) -> bool:
        """Whether the run stopped because a term was not finite."""
        return (self.path / FAILED).exists()

    def forget_failure(self) -> None:
        """Let the run continue from its last checkpoint."""
        delete(self.path / FAILED)

    def write_failure(self, failure: Row) -> None:
        """Record where and why the run stopped."""
        write_record(self.path / FAILED, self.digest, failure)

    @property
    def scores(self) -> dict[str, StoredScores]:
        """The content of each scores file, by split; the split it was trained on comes first."""
        records = (self.read_scores(path) for path in self._score_files)
        return {scores["split"]: scores for scores in records}

    @property
    def score_values(self) -> dict[str, ScoreValues]:
        """The scores by split as in `scores`, but of each score only its number is parsed."""
        records = (read_record(path, ScoreValues, self.digest) for path in self._score_files)
        return {each["split"]: each for each in records}

    def read_scores(self, path: Path) -> StoredScores:
        """Read a file of scores."""
        return read_record(path, StoredScores, self.digest)

    @property
    def _score_files(self) -> list[Path]:
        names = [name for name in names_in(self.path) if _SCORES.fullmatch(name)]
        return [self.path / name for name in sorted(names, key=len)]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the run was scored with, on any split."""
        return tuple(dict.fromkeys(key for each in self.scores.values() for key in each["scores"]))

    @property
    def states(self) -> dict[int, Path]:
        """Checkpoints by step, the oldest first."""
        names = names_in(self.path)
        steps = {int(found[1]): self.path / name for name in names if (found := _state(name))}
        return dict(sorted(steps.items()))

    @property
    def status(self) -> Status:
        """Whether the run is finished, failed, running, stopped (resumable) or not started.

        A run that was killed before its first checkpoint is stopped, at step 0.
        """
        if self.weights.exists():
            return "finished"
        if self.failure:
            return "failed"
        if self.locked:
            return "running"
        return "stopped" if self.states or (self.path / DATA).exists() else "not started"

    @property
    def locked(self) -> bool:
        """Whether a process is writing in the folder now; only training does so for long."""
        return own_leases().is_held(self.path)

    @contextmanager
    def lock(self, wait: float | None = None) -> Iterator[None]:
        """Keep other processes from writing in the folder; whoever writes there holds this lock.

        Raise `FolderInUse` if another process does, after `wait` seconds, by default one.
        """
        make_folder(self.path)
        with own_leases().hold(self.path, wait):
            files.disk.pull(self.path)
            delete_unfinished(self.path)
            yield

    def read_log(self, until: int | None = None, most: int | None = None) -> list[Row]:
        """The log's rows, up to and including a step; only `most`, evenly spaced, if given."""
        return self._read_rows(LOG, LogRow, until, most)

    def read_log_to_checkpoint(self, step: int) -> list[Row]:
        """The log's rows up to a checkpoint, of whose step the last one must be.

        Warn if there is no log.
        """
        rows = self.read_log(until=step)
        if not self.warn_if_missing(LOG, step) and (not rows or rows[-1]["step"] != step):
            with reading(self.path / LOG):
                last = f"step {rows[-1]['step']:,}" if rows else "no step"
                raise ValueError(f"its last row is of {last}, and the checkpoint of step {step:,}")
        return rows

    def warn_if_missing(self, name: str, step: int) -> bool:
        """Warn if a file of rows does not exist where training continues from a step."""
        path = self.path / name
        if missing := not path.exists():
            warnings.warn(
                f"{files.disk.name(path)} is missing: training continues from step {step:,} "
                "without its rows",
                stacklevel=3,
            )
        return missing

    def read_log_end(self) -> list[Row]:
        """The rows at the end of the log; the others are not parsed."""
        return parse_rows(self.path / LOG, LogRow, end_of(self._lines(LOG)))

    def write_log(self, rows: Sequence[Row]) -> None:
        """Replace the log."""
        write_rows(self.path / LOG, self.digest, rows)

    def read_measures(self, until: int | None = None, most: int | None = None) -> list[Row]:
        """The measurements made during training, as `read_log` reads rows."""
        return self._read_rows(MEASURES, MeasuredRow, until, most)

    def write_measures(self, rows: Sequence[Row]) -> None:
        """Replace the measurements; a run that has none has no file."""
        if rows or (self.path / MEASURES).exists():
            write_rows(self.path / MEASURES, self.digest, rows)

    def _lines(self, name: str) -> list[bytes]:
        with suppress(FileNotFoundError):
            return read_lines(self.path / name, self.digest)
        return []

    def _read_rows(self, name: str, form: Any, until: int | None, most: int | None) -> list[Row]:
        rows = parse_rows(self.path / name, form, evenly_spaced(self._lines(name), most))
        return [row for row in rows if until is None or row["step"] <= until]


def why_unused(scores: Mapping[str, Any], log: Sequence[Row]) -> str:
    """Return why the stored scores of a run are not shown beside those of others, or "".

    `log` is the log of the run, or its end.
    """
    if log and scores["step"] < log[-1]["step"]:
        return f"they are from step {scores['step']:,}, and training has continued since"
    if scores["codes"] != "mean":
        return f"they were computed from codes {scores['codes']}, not from means"
    return "factors were declared continuous for them" if scores["continuous"] is not None else ""


def evenly_spaced(rows: Sequence[T], most: int | None) -> Sequence[T]:
    """Return at most `most` rows, with the first and the last.

    >>> evenly_spaced(range(10), 4)
    [0, 3, 6, 9]
    """
    if most is None or len(rows) <= most:
        return rows
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def names_in(root: Path) -> list[str]:
    """Return the names of all entries of a folder; none if it does not exist."""
    try:
        return os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []


def run_paths(root: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Return the folders of a store that hold a run, the newest last; only these, if given.

    Unreadable folders are included, as the oldest; reading one raises the error.
    """
    listed = names_in(root) if names is None else names
    found = [(time, name) for name in listed if (time := created_at(root, name)) is not None]
    return [root / name for _, name in sorted(found)]


def created_at(root: Path, name: str) -> float | None:
    """Return when the run in a folder of a store was created; None if the folder has no run.

    That is the time of run.json, which nothing changes later; evaluating a run changes its folder.
    The time is 0 if the folder cannot be read.
    """
    try:
        return os.stat(os.path.join(root, name, RUN)).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0.0


def check_page(path: Path) -> None:
    """Refuse to write a page into the folder of a run, unless it is one that runs have."""
    if path.name not in _PAGES:
        refuse_run_folder(path)


def write_page(path: Path, content: bytes) -> None:
    """Write a page, holding the lock of the run folder that it is in, if it is in one."""
    folder = path.absolute().parent
    with RunFiles(folder).lock() if (folder / RUN).exists() else nullcontext():
        write_atomically(path, content)
