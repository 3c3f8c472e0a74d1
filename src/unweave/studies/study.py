"""Large studies: many networks, trained in slices, whose results are kept apart from their weights.

The results of a study are one file, <paper>/<study>.jsonl beside the page, with a line for each
network: its settings, its curves during training, what was found of it at the end, and what it
cost. Figures, claims and pages are drawn from these files alone. The file of another machine is
merged into it by `merge`, so a study can be trained anywhere, a few networks at a time.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from unweave.bench.throughput import machine
from unweave.core import spec
from unweave.core.files import write_atomically
from unweave.core.parallel import thread_map, usable_cores
from unweave.data import Dataset
from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure, monitor_of
from unweave.studies.workspace import Numbers, Workspace
from unweave.training import Outcome, Precision, Row, train
from unweave.training.progress import failure_text
from unweave.training.run import Run
from unweave.training.workers import torch_threads

_LANES = 64  # networks that train at once on a GPU
_FEW = 100  # networks whose checkpoint is quickly written
PICTURES = "pictures"
_CURVE_DIGITS, _FACT_DIGITS = 6, 7  # figures take small differences of facts


@dataclass(frozen=True, eq=False)
class Study:
    """The networks of a study, and what is measured of each.

    The runs are in order of importance: what there is no time for is at the end. They must state
    everything that names a run, so that results are found without loading the data.
    """

    paper: str  # the key in the bibliography, in lower case
    name: str
    runs: Sequence[Run]
    describe: Callable[[FittedModel], Numbers]  # at the end; images under "pictures"
    measures: tuple[Measure, ...] = ()  # during training
    # Whose pictures are kept; by default those of all networks.
    pictured: Callable[[Sequence[Network]], Sequence[Network]] = lambda networks: networks
    # Seconds that a network takes in lanes on an H200, by objective, where that is known.
    seconds: Mapping[str, float] = field(default_factory=dict)
    precision: Precision = "bf16"  # on a GPU
    lanes: int | None = None  # networks that train at once; by default as many as cores, or 64

    @cached_property
    def keys(self) -> dict[str, Run]:
        """The runs by the keys of their networks."""
        return {run.digest: run for run in self.runs}

    def path(self, out: Path) -> Path:
        """The file of the results, under the folder of the pages."""
        return out / self.paper / f"{self.name}.jsonl"


@dataclass(frozen=True)
class Network:
    """The results of one trained network: all that figures need, and no weights."""

    run: Run
    curves: Mapping[str, Sequence[float | None]]  # by name, at the steps curves["step"]
    facts: Numbers  # what `describe` found at the end; {} if training broke
    cost: Numbers  # seconds of its share, lanes, machine, precision
    failure: Row | None = None

    @cached_property
    def key(self) -> str:
        """Names the network: the digest of its run."""
        return self.run.digest

    def curve(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and values of a curve, such as "terms/distortion", where it was measured."""
        found = self.curves.get(name, [None] * len(self.curves["step"]))
        pairs = [(s, v) for s, v in zip(self.curves["step"], found, strict=True) if v is not None]
        steps, values = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return steps, values

    def last(self, name: str) -> float:
        """The value of a curve at the end of training; NaN where it was not measured."""
        values = self.curve(name)[1]
        return float(values[-1]) if len(values) else float("nan")


@dataclass(frozen=True)
class Results:
    """The networks of a study that are trained, in its order, and the runs that are missing."""

    networks: list[Network]
    missing: list[Run]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def of(self, objective: str) -> dict[float, list[Network]]:
        """The networks of an objective by its first weight, such as beta, in ascending order."""
        found: dict[float, list[Network]] = {}
        for network in self.networks:
            if network.run.objective.kind == objective and network.failure is None:
                found.setdefault(float(next(iter(network.run.weights.values()))), []).append(
                    network
                )
        return dict(sorted(found.items()))

    @property
    def whole(self) -> list[Network]:
        """All networks in the study's order; raises if one is missing or broke."""
        if self.missing:
            raise Incomplete(
                f"{len(self.missing)} of {len(self.networks) + len(self.missing)} networks are not "
                "trained yet, and this figure needs all of them: run the same command again"
            )
        for network in self.networks:
            if network.failure:
                raise FloatingPointError(failure_text(network.run, network.failure))
        return self.networks

    @property
    def facts(self) -> list[Numbers]:
        """The facts of all networks in the study's order; raises if one is missing or broke."""
        return [network.facts for network in self.whole]


class Incomplete(ValueError):
    """A figure cannot be drawn yet, because networks of its study are not trained."""


def results_of(workspace: Workspace, study: Study) -> Results:
    """The results of a study, after training what is missing, as far as time allows.

    Networks train in lanes. Results are written after each group of lanes, so whatever ends the
    process, the next call goes on: from the results, and from the checkpoints of this store.
    """
    assert workspace.place is not None
    path = study.path(workspace.place.parent.parent)
    found = read_networks(path)
    missing = _missing(study, found)
    if missing and time.monotonic() < workspace.deadline:
        todo = missing[: workspace.networks]
        if workspace.networks is not None:
            workspace.networks -= len(todo)
        if todo:
            workspace.say(
                f"{len(missing)} of {len(study.runs)} networks of {study.name} are missing"
            )
            _train_missing(workspace, study, todo, path)
            found = read_networks(path)
    networks = [found[key] for key in study.keys if key in found]
    workspace.costs |= {network.key: network.cost for network in networks}
    return Results(networks, _missing(study, found))


def _missing(study: Study, found: Mapping[str, Network]) -> list[Run]:
    return [run for key, run in study.keys.items() if key not in found]


def _train_missing(workspace: Workspace, study: Study, runs: Sequence[Run], path: Path) -> None:
    """Train runs group by group until all are done or time is up, and say what is left."""
    lanes = study.lanes or (_LANES if workspace.device.type == "cuda" else usable_cores())
    datasets: dict[str, Dataset] = {}
    seconds = float("nan")  # of a step of one network
    for group in _groups(runs, lanes):
        if time.monotonic() >= workspace.deadline:
            break
        data = group[0].data
        if (key := spec.digest(data)) not in datasets:
            datasets[key] = data.load(workspace.device)
        outcomes, seconds = _train(workspace, study, group, datasets[key])
        cost = {
            "seconds": None if seconds != seconds else seconds * group[0].steps,
            "lanes": len(group),
            "device": workspace.device.type,
            "machine": machine(workspace.device),
            "precision": study.precision if workspace.device.type == "cuda" else "fp32",
        }
        networks = _described(workspace, study, group, outcomes, datasets[key], cost)
        add_networks(study, path, networks)
    _say_what_is_missing(workspace, study, read_networks(path), seconds)


def _groups(runs: Sequence[Run], most: int) -> Iterator[list[Run]]:
    """Runs that can train together, at most so many at once, by the place of their first run."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(run.lane_key, []).append(run)
    groups = [
        group[at : at + most] for group in alike.values() for at in range(0, len(group), most)
    ]
    yield from sorted(groups, key=lambda group: runs.index(group[0]))


def _train(
    workspace: Workspace, study: Study, group: list[Run], dataset: Dataset
) -> tuple[list[Outcome], float]:
    """Train one group of lanes; also the seconds that a step of one network took."""
    resolved = [run.resolve(dataset) for run in group]
    steps = [_steps(workspace, run) for run in resolved]
    begun = time.monotonic()
    outcomes = train(
        resolved,
        dataset,
        workspace.store,
        workspace.progress,
        workspace.checkpoint_seconds * max(1.0, len(group) / _FEW),
        study.precision,
        monitor_of(study.measures, resolved, dataset),
        workspace.deadline,
    )
    seconds = time.monotonic() - begun
    done = sum(_steps(workspace, run) for run in resolved) - sum(steps)
    workspace.trained += sum(outcome.weights is not None for outcome in outcomes)
    return outcomes, seconds / done if done else float("nan")


def _steps(workspace: Workspace, run: Run) -> int:
    """The step that a run has reached in the store."""
    folder = workspace.store.folder(run)
    return run.steps if folder.weights.exists() else max(folder.states, default=0)


def _described(
    workspace: Workspace,
    study: Study,
    group: Sequence[Run],
    outcomes: Sequence[Outcome],
    dataset: Dataset,
    cost: Numbers,
) -> list[Network]:
    """Return the results of the networks of a group that are trained, or broke.

    On a CPU each core describes one network at a time.
    """
    ended = [
        (run, outcome)
        for run, outcome in zip(group, outcomes, strict=True)
        if outcome.weights is not None or outcome.failure
    ]

    def network(pair: tuple[Run, Outcome]) -> Network:
        run, outcome = pair
        facts = {} if outcome.failure else study.describe(FittedModel(outcome, dataset))
        return Network(run, _columns(outcome.measures), facts, cost, outcome.failure)

    each = workspace.each("networks described", ended)
    if dataset.device.type != "cpu":
        return [network(pair) for pair in each]
    with torch_threads(1):
        return list(thread_map(network, each))


def _columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Measurements by name, "terms/rate" say, with None at steps where there is none."""
    flat = [
        {"step": row["step"]}
        | {f"{kind}/{name}": v for kind in row if kind != "step" for name, v in row[kind].items()}
        for row in rows
    ]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in ("step", *names)}


def _say_what_is_missing(
    workspace: Workspace, study: Study, found: Mapping[str, Network], seconds: float
) -> None:
    """Say how many networks are missing, how far they are, and what they would take."""
    missing = _missing(study, found)
    if not missing:
        return
    steps = sum(run.steps for run in missing)
    done = sum(_steps(workspace, run) for run in missing)
    text = f"{len(missing)} of {len(study.runs)} networks of {study.name} are still missing"
    if done:
        text += f", {done / steps:.0%} of their steps are done"
    there = [study.seconds.get(run.objective.kind, float("nan")) for run in missing]
    if seconds == seconds:
        text += f"; at this speed they would take {_duration(seconds * (steps - done))}"
    if workspace.device.type != "cuda" and sum(there) == sum(there):
        text += f", on an H200 GPU {_duration(sum(there))}"
    workspace.say(f"{text}. The same command goes on from here.")


def _duration(seconds: float) -> str:
    """A time in words.

    >>> _duration(50), _duration(4000), _duration(400_000)
    ('50 seconds', '67 minutes', '111 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


def read_networks(path: Path) -> dict[str, Network]:
    """The networks of a file of results by their keys; none where there is no file."""
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            content = json.loads(line)
            network = Network(spec.from_json(Run, content.pop("run")), **content)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(
                f"{path}, line {number}, is not a network's result ({error}): bring back the file "
                "from version control, or delete the line to train that network again"
            ) from None
        found[network.key] = network
    return found


def add_networks(study: Study, path: Path, networks: Sequence[Network]) -> int:
    """Add networks to a file of results; those that are there already stay. Returns how many.

    The networks of the study come first, in its order. Others that are in the file, of a study
    that has changed since, are kept. Of the pictures only those that figures show are kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _writing(path):
        here = read_networks(path)
        new = {each.key: each for each in networks if each.key not in here}
        found = here | new
        ordered = [found[key] for key in study.keys if key in found]
        pictured = {network.key for network in study.pictured(ordered)}
        others = [network for key, network in found.items() if key not in study.keys]
        lines = [_line(network, network.key in pictured) for network in ordered]
        lines += [_line(network, pictured=True) for network in others]
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    return len(new)


def merge(study: Study, path: Path, other: Path) -> int:
    """Add the networks of a study that another file of results has; returns how many are new."""
    there = read_networks(other)
    if not there.keys() & study.keys.keys():
        raise ValueError(
            f"{other} has {len(there)} networks and none of the study {study.name}: give the file "
            f"of the same study, {study.name}.jsonl"
        )
    return add_networks(study, path, [there[key] for key in study.keys if key in there])


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing a file at the same time."""
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"unweave-{name}.lock"):
        yield


def _line(network: Network, pictured: bool) -> str:
    facts = network.facts if pictured else {k: v for k, v in network.facts.items() if k != PICTURES}
    content = {
        "run": spec.to_json(network.run),  # not rounded: its digest is the network's key
        "curves": _rounded(network.curves, _CURVE_DIGITS),
        "facts": _rounded(facts, _FACT_DIGITS),
        "cost": _rounded(network.cost, _CURVE_DIGITS),
        "failure": network.failure,
    }
    return json.dumps(content, separators=(",", ":"))


def _rounded(value: Any, digits: int) -> Any:
    """Numbers with so many digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(item, digits) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    return value
