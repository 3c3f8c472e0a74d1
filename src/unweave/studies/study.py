"""Studies: many networks, trained in slices, whose results are kept apart from their weights.

The results of a study are one file, <paper>/<study>.jsonl beside the page, with a line for each
network: its run, its curves during training, facts about it at the end, and its cost. Figures,
claims and pages are made from these files alone. Results of another machine are added by `merge`,
so a study can be trained anywhere, a few networks at a time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unweave.core import files, spec
from unweave.core.devices import machine
from unweave.core.files import delete_unfinished, make_folder, write_atomically
from unweave.core.parallel import thread_map, usable_cores
from unweave.data import Dataset
from unweave.data.dataset import DataNotFound
from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.evaluation.tasks import Job, Task, Trained, forget_failures
from unweave.studies.intervals import bootstrap_difference, bootstrap_interval
from unweave.studies.workspace import Measured, Numbers, Workspace, today
from unweave.training import Outcome, Precision, Row
from unweave.training.leases import own_leases
from unweave.training.own_data import Datasets
from unweave.training.progress import failure_text
from unweave.training.records import StoredNetwork, check_form, seal, unseal
from unweave.training.run import Run
from unweave.training.status import duration
from unweave.training.workers import torch_threads

_FEW = 100  # networks whose checkpoint is quickly written
PICTURES = "pictures"
_KIND = "network"  # what a line of results is sealed as
_CURVE_DIGITS, _FACT_DIGITS = 6, 7  # figures take small differences of facts

Setting = TypeVar("Setting", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Study:
    """The runs of a study, and how each trained network is measured.

    The runs are in order of importance: those at the end are trained last. They must state
    everything that enters their digest, so that results are found without loading the data.
    """

    paper: str  # the key in the bibliography, in lower case
    name: str
    runs: Sequence[Run]
    describe: Callable[[FittedModel], Numbers]  # facts at the end; images under "pictures"
    measures: tuple[Measure, ...] = ()  # during training
    pictured: Callable[[Results], Sequence[Network]] | None = None  # who keeps pictures; None: all
    seconds: Mapping[str, float] = field(default_factory=dict)  # per network on an H200, if known
    precision: Precision = "bf16"  # on a GPU
    lanes: int | None = None  # networks that train at once; by default one per core, or:
    gpu_lanes: int = 64  # on a GPU

    @cached_property
    def keys(self) -> dict[str, Run]:
        """The runs by the keys of their networks."""
        return {run.digest: run for run in self.runs}

    def path(self, out: Path) -> Path:
        """Return the file of the results, under the folder of the pages."""
        return out / self.paper / f"{self.name}.jsonl"


@dataclass(frozen=True)
class Network:
    """The results of one trained network: everything that figures need, without its weights."""

    run: Run
    curves: Mapping[str, Sequence[float | None]]  # by name, at the steps curves["step"]
    facts: Numbers  # of `describe`, at the end of training; {} if training failed
    cost: Numbers  # its share of the seconds, lanes, machine, precision, date
    failure: Row | None = None

    @cached_property
    def key(self) -> str:
        """The digest of the run, which names the network."""
        return self.run.digest

    def curve(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return steps and values of a curve, such as "terms/distortion", where it was measured."""
        values = self.curves.get(name, [None] * len(self.curves["step"]))
        pairs = [(s, v) for s, v in zip(self.curves["step"], values, strict=True) if v is not None]
        steps, measured = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return steps, measured

    def last(self, name: str) -> float:
        """Return the value of a curve at the end of training; NaN if it was not measured."""
        values = self.curve(name)[1]
        return float(values[-1]) if len(values) else float("nan")


Reader = str | Callable[[Network], float]  # the name of a curve, for its last value, or a function


@dataclass(frozen=True)
class Group:
    """The networks of one setting, which differ only in their seed."""

    networks: tuple[Network, ...]  # without those whose training failed
    total: int  # how many the study has
    failed: int = 0

    @classmethod
    def of(cls, networks: Sequence[Network | None]) -> Group:
        """Return the group of some networks, None for those that are missing."""
        there = [each for each in networks if each is not None]
        trained = tuple(each for each in there if each.failure is None)
        return cls(trained, len(networks), len(there) - len(trained))

    @property
    def done(self) -> int:
        """How many are trained, or failed."""
        return len(self.networks) + self.failed

    @property
    def complete(self) -> bool:
        """Whether none is missing."""
        return self.done >= self.total and bool(self.networks)

    def values(self, read: Reader) -> NDArray[np.float64]:
        """Return one number of each network; a single NaN if there are none."""
        if isinstance(read, str):
            return self.values(lambda network: network.last(read))
        return np.array([read(network) for network in self.networks] or [np.nan], np.float64)

    def mean(self, read: Reader) -> Measured:
        """Return the mean over networks with its 95% bootstrap interval."""
        return bootstrap_interval(self.values(read))

    def difference(self, other: Group, read: Reader) -> Measured:
        """Return the mean less that of another group, with its 95% bootstrap interval."""
        return bootstrap_difference(self.values(read), other.values(read))

    def ranked(self, read: Reader) -> list[Network]:
        """Return the networks by decreasing values."""
        order = np.argsort(-self.values(read), kind="stable")
        return [self.networks[place] for place in order] if self.networks else []

    def best_and_median(self, read: Reader) -> dict[str, Network]:
        """Return the networks with the best and the median value, among those with pictures.

        If the median network has none, take the one nearest to it in rank.
        """
        ranked = self.ranked(read)
        shown = [place for place, network in enumerate(ranked) if PICTURES in network.facts]
        if not shown:
            return {}
        median = min(shown, key=lambda place: abs(place - len(ranked) // 2))
        return {"best": ranked[shown[0]], "median": ranked[median]}

    def keep(self, read: Reader, *which: str) -> list[Network]:
        """Return the networks whose pictures are kept: the best and the median, or `which` of them.

        While networks are missing these are not known, and all are kept.
        """
        if not self.complete:
            return list(self.networks)
        return [n for name, n in self.best_and_median(read).items() if name in (which or (name,))]


@dataclass(frozen=True)
class Results:
    """The networks of a study that are trained, in the study's order."""

    study: Study
    networks: list[Network]

    @cached_property
    def missing(self) -> list[Run]:
        """The runs that are not trained yet."""
        there = {network.key for network in self.networks}
        return [run for key, run in self.study.keys.items() if key not in there]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def groups(self, setting: Callable[[Run], Setting]) -> dict[Setting, Group]:
        """Group the networks by a setting of their runs; settings without networks count too."""
        there = {network.key: network for network in self.networks}
        groups: dict[Setting, list[Network | None]] = {}
        for key, run in self.study.keys.items():
            groups.setdefault(setting(run), []).append(there.get(key))
        return {name: Group.of(networks) for name, networks in groups.items()}

    @property
    def all_networks(self) -> list[Network]:
        """All networks in the study's order; raises if one is missing or failed."""
        if self.missing:
            raise NotTrained(
                f"{len(self.missing)} of {len(self.study.runs)} networks are not trained yet, and "
                "this figure needs all of them: run the same command again"
            )
        return self.healthy_networks

    @property
    def healthy_networks(self) -> list[Network]:
        """The networks that are trained, in the study's order; raises if one failed."""
        for network in self.networks:
            if network.failure:
                raise FloatingPointError(failure_text(network.run, network.failure))
        return self.networks

    @property
    def facts(self) -> list[Numbers]:
        """The facts of all networks in the study's order; raises if one is missing or failed."""
        return [network.facts for network in self.all_networks]

    @property
    def seeds(self) -> str:
        """The seeds of the networks: "0 to 9"."""
        seeds = [network.run.seed for network in self.networks]
        return f"{min(seeds)} to {max(seeds)}" if seeds else "none yet"


def best_of_settings(
    setting: Callable[[Run], Setting], read: Reader, *which: str, among: Sequence[Setting] = ()
) -> Callable[[Results], list[Network]]:
    """Return a function for `Study.pictured`: keep pictures of the best networks of each setting.

    See `Group.keep` for `which`; `among` names the settings, by default all.
    """

    def pictured(results: Results) -> list[Network]:
        groups = results.groups(setting)
        shown = [group for name, group in groups.items() if name in (among or groups)]
        return [network for group in shown for network in group.keep(read, *which)]

    return pictured


class NotTrained(ValueError):
    """A figure cannot be drawn yet, because networks of its study are not trained."""


def stored_results(study: Study, out: Path) -> Results:
    """Read the results of a study, without training."""
    there = read_networks(study.path(out))
    return Results(study, [there[key] for key in study.keys if key in there])


def train_or_load(workspace: Workspace, study: Study) -> Results:
    """Return the results of a study, after training what is missing, as far as time allows.

    Networks train in lanes. Results are written after each group of lanes, so after any
    interruption the next call continues from the results and from the store's checkpoints.
    Without the data nothing is trained, and stored results are returned if there are any.
    """
    path = study.path(workspace.out)
    results = stored_results(study, workspace.out)
    failed = [each.run for each in results.networks if each.failure and workspace.retry_failed]
    if (results.missing or failed) and time.monotonic() < workspace.deadline:
        todo = [*results.missing, *failed][: workspace.networks]
        if workspace.networks is not None:
            workspace.networks -= len(todo)
        if todo:
            again = f", and {len(failed)} failed and are tried again" if failed else ""
            workspace.say(
                f"{len(results.missing)} of {len(study.runs)} networks of {study.name} are missing"
                f"{again}"
            )
            try:
                seconds = _train_missing(workspace, study, todo, path)
            except DataNotFound as reason:
                if not results.networks:
                    raise
                workspace.say(f"{reason}. Stored results are used.")
            else:
                results = stored_results(study, workspace.out)
                _report_missing(workspace, results, seconds)
    workspace.costs |= {network.key: network.cost for network in results.networks}
    return results


def _train_missing(workspace: Workspace, study: Study, runs: Sequence[Run], path: Path) -> float:
    """Train runs until all are done or time is up, and store results as they come.

    Return the seconds that a step of one network took.
    """
    datasets = Datasets(workspace.device)
    of_study: dict[str, Run] = {}  # by the digests of resolved runs
    seconds = float("nan")  # of a step of one network

    def jobs() -> Iterator[Job]:
        on_gpu = workspace.device.type == "cuda"
        lanes = study.lanes or (study.gpu_lanes if on_gpu else usable_cores())
        for group in _groups(runs, lanes, read_networks(path)):
            if time.monotonic() >= workspace.deadline:
                break
            job = _job(workspace, study, group, datasets)
            forget_failures(job.failed if workspace.retry_failed else ())
            resolved = (run.digest for run in job.task.runs)
            of_study.update(zip(resolved, group, strict=True))
            yield job

    for trained in workspace.on.run(jobs(), workspace.progress, workspace.deadline):
        known = [of_study[outcome.run.digest] for outcome in trained.outcomes]
        seconds = trained.seconds / trained.steps if trained.steps else float("nan")
        _store(workspace, study, path, trained, known, seconds, datasets)
    return seconds


def _job(workspace: Workspace, study: Study, group: Sequence[Run], datasets: Datasets) -> Job:
    task = Task(
        runs=tuple(group),
        store=files.disk.name(workspace.store.root.absolute()),
        device=workspace.worker_device,
        precision=study.precision,
        checkpoint_seconds=workspace.checkpoint_seconds * max(1.0, len(group) / _FEW),
        measure=study.measures,
    )
    return Job.prepare(task, datasets)


def _store(
    workspace: Workspace,
    study: Study,
    path: Path,
    trained: Trained,
    runs: Sequence[Run],
    seconds: float,
    datasets: Datasets,
) -> None:
    if not runs:
        return
    outcomes, device = trained.outcomes, trained.device or workspace.device.type
    workspace.trained += sum(outcome.weights is not None for outcome in outcomes)
    cost = {
        "seconds": None if seconds != seconds else seconds * runs[0].steps,
        "lanes": len(runs),
        "device": device,
        "machine": trained.machine or machine(workspace.device),
        "precision": study.precision if device == "cuda" else "fp32",
        "date": today(),
    }
    dataset = datasets.load(runs[0].data)
    add_networks(study, path, _describe(workspace, study, runs, outcomes, dataset, cost))


def _groups(runs: Sequence[Run], most: int, failed: Collection[str]) -> Iterator[list[Run]]:
    """Yield runs that can train together, at most `most` at once, by the place of the first.

    Those that have failed before are alone: each resumes from another step.
    """
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(run.digest if run.digest in failed else run.lane_key, []).append(run)
    groups = [
        group[at : at + most] for group in alike.values() for at in range(0, len(group), most)
    ]
    yield from sorted(groups, key=lambda group: runs.index(group[0]))


def _steps(workspace: Workspace, run: Run) -> int:
    return workspace.store.folder(run).reached(run.steps)


def _describe(
    workspace: Workspace,
    study: Study,
    group: Sequence[Run],
    outcomes: Sequence[Outcome],
    dataset: Dataset,
    cost: Numbers,
) -> list[Network]:
    """Return the results of those networks of a group that are trained, or failed.

    On a CPU each core describes one network at a time.
    """
    finished = [
        (run, outcome)
        for run, outcome in zip(group, outcomes, strict=True)
        if outcome.weights is not None or outcome.failure
    ]

    def network(pair: tuple[Run, Outcome]) -> Network:
        run, outcome = pair
        facts = {} if outcome.failure else study.describe(FittedModel(outcome, dataset))
        return Network(run, _columns(outcome.measures), facts, cost, outcome.failure)

    each = workspace.each("networks described", finished)
    if dataset.device.type != "cpu":
        return [network(pair) for pair in each]
    with torch_threads(1):
        return list(thread_map(network, each))


def _columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Return measurements by name, such as "terms/rate", with None where one is missing."""
    flat = [
        {"step": row["step"]}
        | {f"{kind}/{name}": v for kind in row if kind != "step" for name, v in row[kind].items()}
        for row in rows
    ]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in ("step", *names)}


def _report_missing(workspace: Workspace, results: Results, seconds: float) -> None:
    study, missing = results.study, results.missing
    if not missing:
        return
    steps = sum(run.steps for run in missing)
    done = sum(_steps(workspace, run) for run in missing)
    text = f"{len(missing)} of {len(study.runs)} networks of {study.name} are still missing"
    if done:
        text += f", {done / steps:.0%} of their steps are done"
    on_gpu = [study.seconds.get(run.objective.kind, float("nan")) for run in missing]
    if seconds == seconds:
        text += f"; at this speed they would take {duration(seconds * (steps - done))}"
    if workspace.device.type != "cuda" and sum(on_gpu) == sum(on_gpu):
        text += f", on an H200 GPU {duration(sum(on_gpu))}"
    workspace.say(f"{text}. Run the same command again to continue.")


def read_networks(path: Path) -> dict[str, Network]:
    """Read the networks of a file of results, by their keys; none if there is no file."""
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            stored = unseal(_KIND, json.loads(line.decode())).content
            content: dict[str, Any] = {**check_form(StoredNetwork, stored)}
            network = Network(spec.from_json(Run, content.pop("run")), **content)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}, line {number}, is not a network's result ({error}): bring back the file "
                "from version control, or delete the line to train that network again"
            ) from None
        found[network.key] = network
    return found


def add_networks(study: Study, path: Path, networks: Sequence[Network]) -> int:
    """Add networks to a file of results, and return how many are new.

    One that failed is replaced by one that did not. The networks of the study come first, in its
    order. Others that are in the file, of a study that has changed since, are kept. Only pictures
    that figures show are kept.
    """
    make_folder(path.parent)
    with own_leases().hold(path.parent, wait=math.inf):  # other machines may write there too
        delete_unfinished(path.parent, path.name)
        here = read_networks(path)
        failed = {key for key, each in here.items() if each.failure}
        better = [each for each in networks if each.key not in failed or not each.failure]
        new = {each.key: each for each in better if each.key not in here.keys() - failed}
        found = here | new
        ordered = [found[key] for key in study.keys if key in found]
        shown = study.pictured(Results(study, ordered)) if study.pictured else ordered
        pictured = {network.key for network in shown}
        others = [network for key, network in found.items() if key not in study.keys]
        lines = [_line(network, network.key in pictured) for network in ordered]
        lines += [_line(network, pictured=True) for network in others]
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    return len(new)


def merge(study: Study, path: Path, other: Path) -> int:
    """Add the networks of a study from another file of results, and return how many are new."""
    there = read_networks(other)
    if not there.keys() & study.keys.keys():
        raise ValueError(
            f"{other} has {len(there)} networks and none of the study {study.name}: give the file "
            f"of the same study, {study.name}.jsonl"
        )
    return add_networks(study, path, [there[key] for key in study.keys if key in there])


def _line(network: Network, pictured: bool) -> str:
    facts = network.facts if pictured else {k: v for k, v in network.facts.items() if k != PICTURES}
    content = {
        "run": spec.to_json(network.run),  # not rounded: its digest is the network's key
        "curves": _rounded(network.curves, _CURVE_DIGITS),
        "facts": _rounded(facts, _FACT_DIGITS),
        "cost": _rounded(network.cost, _CURVE_DIGITS),
        "failure": network.failure,
    }
    return json.dumps(seal(_KIND, network.key, content), separators=(",", ":"))


def _rounded(value: Any, digits: int) -> Any:
    """Round all numbers to `digits` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(item, digits) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    return value
