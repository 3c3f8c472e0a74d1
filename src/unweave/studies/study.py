"""Studies: many networks, whose results are kept apart from their weights.

The results of a study are one file, <paper>/<study>.jsonl beside the page, with a line for each
network: its run, its curves during training, facts about it at the end, and its cost. Figures,
claims and pages are made from these files alone. Results of another machine are added by `merge`,
so a study can be trained anywhere, a few networks at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unweave.core import spec
from unweave.core.files import delete_unfinished, make_folder, write_atomically
from unweave.core.groups import grouped
from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.studies.forms import Facts, StoredNetwork
from unweave.studies.intervals import difference_of_means, mean_over_networks
from unweave.studies.workspace import Measured, Numbers
from unweave.training import Precision, Row
from unweave.training.leases import own_leases
from unweave.training.progress import failure_text
from unweave.training.records import check_form, seal, unseal
from unweave.training.run import Run

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
    lanes: int | None = None  # that train at once; by default one per core, on a GPU `gpu_lanes`
    gpu_lanes: int = 64
    form: Any = Facts  # of what `describe` returns, pictures aside: of stored facts

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
    cost: Numbers  # its share of the seconds, lanes, machine, precision, date, version
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

    def value(self, name: str) -> float:
        """Return a fact, or a curve at the end of training; NaN if it was not measured.

        "facts/category/shape" is the number facts["category"]["shape"]; other names are of curves.
        """
        first, *path = name.split("/")
        if first == "facts":
            fact: Any = self.facts
            for key in path:
                fact = fact[key]
            return float(fact)
        values = self.curve(name)[1]
        return float(values[-1]) if len(values) else float("nan")


Reader = str | Callable[[Network], float]  # a name that `Network.value` takes, or a function


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

    @classmethod
    def joined(cls, groups: Iterable[Group]) -> Group:
        """Return the networks of several settings as one group."""
        own = list(groups)
        networks = tuple(network for group in own for network in group.networks)
        return cls(networks, sum(g.total for g in own), sum(g.failed for g in own))

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
            return self.values(lambda network: network.value(read))
        return np.array([read(network) for network in self.networks] or [np.nan], np.float64)

    def mean(self, read: Reader) -> Measured:
        """Return the mean over networks with its 95% interval."""
        return mean_over_networks(self.values(read))

    def difference(self, other: Group, read: Reader) -> Measured:
        """Return the mean less that of another group, with its 95% interval."""
        return difference_of_means(self.values(read), other.values(read))

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
        groups = grouped((setting(run), there.get(key)) for key, run in self.study.keys.items())
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
    there = read_networks(study.path(out), study)
    return Results(study, [there[key] for key in study.keys if key in there])


def read_networks(path: Path, study: Study | None = None) -> dict[str, Network]:
    """Read the networks of a file of results, by their keys; none if there is no file.

    The facts of networks of a study must have its form.
    """
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            stored = unseal(_KIND, json.loads(line.decode())).content
            content: dict[str, Any] = {**check_form(StoredNetwork, stored)}
            network = Network(spec.from_json(Run, content.pop("run")), **content)
            if network.failure and network.facts:
                raise ValueError("its training failed, and yet it has facts")
            if study and not network.failure and network.key in study.keys:
                check_form(study.form, network.facts)
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
        here = read_networks(path, study)
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
    there = read_networks(other, study)
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
