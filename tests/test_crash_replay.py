"""Crashes after every file operation of a command: what is left opens, and the rerun ends alike.

The figures that docs/reliability.md quotes: pytest -m slow -s tests/test_crash_replay.py
"""

import errno
import hashlib
import itertools
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from crash_replay import (
    FailingDisk,
    Recorder,
    WatchedDisk,
    build,
    crash_states,
    tree,
    using,
)
from download_server import serving
from unweave.core.files import Disk
from unweave.data import MNIST
from unweave.data.published import download
from unweave.data.published.download import Source
from unweave.training.store import Store

TRAIN = ["train", "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1",
         "network=mlp", "network.hidden=[4]", "latent.size=2", "batch_size=8", "steps=3",
         "--device", "cpu", "--threads", "1", "--checkpoint-seconds", "0"]  # fmt: skip
SMALL = ["--device", "cpu", "--rows", "64"]
PAGES = {f"/{name}": name.encode() * 300 for name in ("known", "new")}
JOBS = ["training", "evaluation", "report", "download"]
WIDE = pytest.param("training of three runs", marks=pytest.mark.slow)


@dataclass
class Job:
    """A command, the folder that it works in, and what is there before and after it."""

    name: str
    root: Path
    unweave: object

    def __post_init__(self):
        self.root.mkdir()
        for command in self.preparation():
            self.call(command)
        self.before = tree(self.root)
        with using(Recorder()) as recorder:
            self.call(self.command())
        self.operations, self.after = recorder.operations, tree(self.root)

    def train(self):
        seeds = "seed=0..2" if self.name.endswith("of three runs") else "seed=0..1"
        return [*TRAIN, seeds, "--store", self.root / "runs"]

    def of_runs(self, name, *options):
        runs = sorted(path.parent for path in self.root.glob("runs/*/run.json"))
        return [name, *runs, *options, *SMALL]

    def preparation(self):
        if self.name in ("evaluation", "report"):
            yield self.train()
        if self.name == "evaluation":
            yield self.of_runs("evaluate", "--metrics", "mig")

    def command(self):
        if self.name == "download":
            return ["data", "get", "mnist"]
        if self.name.startswith("training"):
            return self.train()
        options = {"evaluation": ("evaluate", "--metrics", "sap"),
                   "report": ("report", "--no-explorer")}  # fmt: skip
        return self.of_runs(*options[self.name])

    def call(self, command):
        code, _, err = self.unweave(*command)
        assert code == 0, err

    def check(self):
        """Check that what is there can be read, then that the rerun ends as an undisturbed run."""
        read_everything(self.root)
        self.rerun()

    def rerun(self):
        with using(Recorder()):
            self.call(self.command())
        assert tree(self.root) == self.after


def read_everything(root):
    for folder in Store(root / "runs").folders():
        assert folder.status in ("finished", "stopped", "not started")
        folder.read_run()
        steps = [row["step"] for row in folder.read_log()]
        for step in folder.states:
            assert folder.read_state(step)
            assert steps[:step] == list(range(1, step + 1))
        assert folder.scores is not None
    for name, content in PAGES.items():
        path = root / "data" / "mnist" / name[1:]
        assert not path.exists() or path.read_bytes() == content


@pytest.fixture
def job(request, unweave, tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "root" / "data"))
    monkeypatch.setattr("unweave.training.leases._HALF_WRITTEN", 0.0)
    monkeypatch.setattr("unweave.training.heartbeats.BEAT", 3600.0)  # the same operations each time
    monkeypatch.setattr(download, "BLOCK", 500)
    monkeypatch.setattr(download, "SYNCED", 1000)
    monkeypatch.setattr("unweave.report.page.render", lambda model, **_: f"run {model.run.digest}")
    with serving(dict(PAGES)) as server:
        content = PAGES["/known"]
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        sources = (
            Source("known", len(content), digest, (server.url("known"),)),
            Source("new", None, None, (server.url("new"),)),
        )
        about = MNIST.ABOUT
        monkeypatch.setattr(MNIST, "ABOUT", type(about)(**{**vars(about), "sources": sources}))
        yield Job(request.param, tmp_path / "root", unweave)


def test_all_operations_are_watched():
    def operations(disk):
        return {name for name in vars(disk) if not name.startswith("_")}

    made_of_others = {"create", "put"}
    changing_nothing = {"read", "names", "newest", "push", "pull", "fetch", "name"}
    unwatched = made_of_others | changing_nothing
    assert operations(WatchedDisk) - {"before"} == operations(Disk) - unwatched


@pytest.mark.parametrize("job", [*JOBS, WIDE], indirect=True)
@pytest.mark.parametrize(
    ("most", "reruns"), [(16, 5), pytest.param(1024, 10**6, marks=pytest.mark.slow)]
)
def test_whatever_a_crash_leaves_opens_and_the_rerun_ends_alike(job, most, reruns):
    states, made = crash_states(job.root, job.before, job.operations, most)
    for state in states:
        build(job.root, state)
        read_everything(job.root)
    chosen = random.Random(0).sample(states, min(reruns, len(states)))
    for state in chosen:
        build(job.root, state)
        job.rerun()
    print(
        f"\n{job.name}: {len(job.operations)} operations, {made:,} crash states, "
        f"{len(states)} distinct without unfinished files, {len(chosen)} rerun"
    )


@pytest.mark.parametrize("job", JOBS, indirect=True)
@pytest.mark.parametrize("every", [37, pytest.param(1, marks=pytest.mark.slow)])
def test_an_operation_that_fails_is_one_line_and_loses_nothing(job, every):
    places, numbers = range(len(job.operations)), (errno.ENOSPC, errno.EIO)
    faults = list(itertools.product(places, numbers))[::every]
    for place, number in faults:
        build(job.root, job.before)
        with using(FailingDisk(place, number)) as disk:
            code, _, err = job.unweave(*job.command())
        check_message(code, err, disk.failed, job.root)
        job.check()
    print(f"\n{job.name}: {len(job.operations)} operations, {len(faults)} failed")


def check_message(code, err, failed, root):
    last = err.strip().splitlines()[-1]
    assert code == 2, (failed, err)
    assert last.startswith("error: "), (failed, err)
    assert "Traceback" not in err
    assert str(root) in last, (failed, last)
    assert "run the command again" in last or "rerun the command" in last, (failed, last)
