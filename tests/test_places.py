"""A machine on which tasks die, and which is always the first to be free, costs no study."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import unweave as uw
from datasets import small_run
from executor_laws import train_on
from fake_engine import Fake, FakePool
from test_slurm import QueuedJob
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import TasksFailed
from unweave.executors import places
from unweave.executors.driver import _score_parts
from unweave.executors.places import Places
from unweave.executors.ray import RayTasks
from unweave.executors.slurm import ArrayJobs
from unweave.executors.worker import Ended, work


class Hosts(FakePool):
    """Does one task in four looks on a good host, and loses one at each look on a bad one."""

    def __init__(self, bad, good=1):
        super().__init__()
        self.bad, self.places = bad, {*bad, *(f"good {n}" for n in range(good))}
        self.lost, self.looks, self.avoiding = [], 0, {}

    def submit(self, texts, avoid=frozenset()):
        assert self.places - avoid
        keys = super().submit(texts)
        self.avoiding |= dict.fromkeys(keys, avoid)
        return keys

    def wait(self, seconds):
        if any('"probe": true' in text for text in self._waiting.values()):
            return super().wait(seconds)
        self.looks += 1
        ended = {}
        good = sorted(self.places - {*self.bad}) if self.looks % 4 == 0 else []
        for place in [*self.bad, *good]:
            key = next((k for k in self._waiting if place not in self.avoiding[k]), None)
            if key is not None and place in self.bad:
                self.lost.append((place, self._waiting.pop(key)))
                ended[key] = Ended("died", "CUDA error", host=place, place=place)
            elif key is not None:
                ended[key] = self.do(self._waiting.pop(key))._replace(place=place)
        return ended

    def do(self, text):
        return Ended("done", "{}") if '"scoring"' in text else Ended.read(work(text))


class OnHosts(Fake):
    def __init__(self, pool, **given):
        super().__init__(**given)
        self.pool = pool

    @contextmanager
    def open(self, device, store):
        yield self.pool


def check_losses(pool):
    """Check that no task was lost twice, and only three besides those submitted by then."""
    assert 0 < len(pool.lost) == len(set(pool.lost)) < 3 + pool.window


@pytest.mark.parametrize("count", [2, 8])
def test_a_broken_host_loses_few_tasks_and_each_once(tmp_path, count):
    """All tasks but those of the good host used to be given up."""
    pool, runs = Hosts(["bad"]), [small_run(steps=1, seed=seed) for seed in range(count)]
    outcomes = train_on(OnHosts(pool, lanes=1), tmp_path, runs)
    assert all(each.weights is not None for each in outcomes)
    check_losses(pool)


def test_a_broken_host_costs_no_scores():
    pool = Hosts(["bad"])
    parts = [ScoringTask((f"folder {n}",)) for n in range(20)]
    assert list(_score_parts(pool, parts, tries=3)) == [{}] * 20
    check_losses(pool)


def test_tasks_that_die_everywhere_are_given_up(tmp_path):
    pool, runs = Hosts(["one", "two"], good=0), [small_run(steps=1, seed=n) for n in range(5)]
    with pytest.raises(TasksFailed, match="5 of 5 tasks failed"):
        train_on(OnHosts(pool, lanes=1), tmp_path, runs)
    assert len(pool.lost) == 15


def test_a_place_is_tried_again_after_a_while_and_after_success(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(places.time, "monotonic", lambda: clock[0])
    pool = SimpleNamespace(places={"a", "b"})
    found = Places(pool)

    def lose(*tasks):
        for task in tasks:
            found.record(Ended("died", place="a"), task)
        return found.to_avoid(set())

    assert lose("1", "1", "1", "2") == set()
    assert lose("3") == {"a"}
    assert found.to_avoid({"b"}) == {"a"}  # a broken place is worse
    assert found.to_avoid(set()) == {"a"}
    pool.places = {"a"}
    assert found.to_avoid(set()) == set()
    pool.places = None
    assert found.to_avoid({"b"}) == {"a", "b"}
    clock[0] = places._PAUSE
    assert found.to_avoid(set()) == set()
    assert lose("4") == {"a"}
    found.record(Ended("done", place="a"), "5")
    assert lose("6", "7") == set()


class FakeRay:
    """Two nodes that do nothing."""

    exceptions = SimpleNamespace(
        TaskCancelledError=KeyError, RayTaskError=IndexError, RayError=OSError
    )

    def __init__(self, **resources):
        one = {"Alive": True, "Resources": resources}
        self.alive = [one | {"NodeID": "n1"}, one | {"NodeID": "n2"}]
        self.options, self.cancelled, self.done = [], [], {}

    def nodes(self):
        return self.alive

    def cluster_resources(self):
        return {}

    def remote(self, **_):
        def options(**given):
            self.options.append(given)
            return SimpleNamespace(remote=lambda text: text)

        return lambda work: SimpleNamespace(options=options)

    def wait(self, running, **_):
        done = [ref for ref in running if ref in self.done]
        return done, [ref for ref in running if ref not in done]

    def get(self, ref):
        if isinstance(self.done[ref], Exception):
            raise self.done[ref]
        return self.done[ref]

    def cancel(self, ref, **_):
        self.cancelled.append(ref)


@pytest.fixture
def strategies(monkeypatch):
    """Ray's ways to choose nodes."""
    module = SimpleNamespace(
        NotIn=lambda *nodes: nodes, NodeLabelSchedulingStrategy=lambda hard: hard
    )
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", module)


def test_tasks_on_ray_avoid_nodes_as_long_as_there_are_others(strategies):
    ray = FakeRay(CPU=1.0)
    tasks = RayTasks(ray, uw.Ray(), "cpu")
    assert tasks.places == {"n1", "n2"}
    tasks.submit(["free"])
    tasks.submit(["kept"], frozenset({"n1"}))
    assert [each.get("scheduling_strategy") for each in ray.options] == [
        None, {"ray.io/node-id": ("n1",)}
    ]  # fmt: skip
    assert (tasks.wait(0), ray.cancelled) == ({}, [])
    ray.alive.pop()  # the task would wait for ever
    assert (tasks.wait(0), ray.cancelled) == ({}, ["kept"])
    ray.done = {
        "kept": KeyError(),
        "free": OSError("out of memory on the node (IP: 10.0.0.1, ID: n1)"),
    }
    died = Ended("died", "out of memory on the node (IP: 10.0.0.1, ID: n1)", place="n1")
    assert tasks.wait(0) == {"kept": Ended("stopped"), "free": died}


class Ref(str):
    """A task of Ray, which it names by an identifier."""

    def task_id(self):
        return SimpleNamespace(hex=lambda: f"task-{self}")


def test_tasks_of_a_ray_node_that_vanished_are_lost_though_ray_still_waits(monkeypatch):
    """Ray waited seven minutes for their workers, since nothing closed the connections."""
    ray, nodes = FakeRay(CPU=1.0), {"task-one": b"n1", "task-two": b"n2"}
    shared = {f"unweave-node-{task}".encode(): node for task, node in nodes.items()}
    monkeypatch.setattr(
        "unweave.executors.ray._shared", lambda: SimpleNamespace(_internal_kv_get=shared.get)
    )
    monkeypatch.setattr("unweave.executors.ray._LOOK", 0.0)
    tasks = RayTasks(ray, uw.Ray(), "cpu")
    tasks.submit([Ref("one"), Ref("two"), Ref("waits")])
    assert tasks.wait(0) == {}
    ray.alive[1]["Alive"] = False
    assert tasks.wait(0) == {"two": Ended("died", "its node n2 was lost", place="n2")}
    assert tasks.wait(0) == {}
    ray.done = {"one": json.dumps(Ended("done")), "waits": json.dumps(Ended("done"))}
    assert tasks.wait(0).keys() == {"one", "waits"}


def test_tasks_wait_for_machines_that_a_ray_cluster_does_not_have_yet():
    """Clusters that start machines for waiting tasks, and none before, were refused."""
    ray = FakeRay(CPU=1.0)
    with pytest.warns(UserWarning, match="has 1 GPUs and 1 cores; tasks wait until one joins"):
        tasks = RayTasks(ray, uw.Ray(gpus=1), "auto")
    assert (tasks.slots, tasks.window, tasks.device) == (1, 2, "cuda")
    ray.alive += [{"Alive": True, "NodeID": "n3", "Resources": {"CPU": 8.0, "GPU": 8.0}}]
    assert (tasks.window, tasks.places) == (16, {"n3"})
    with pytest.raises(ValueError, match=r"has 0 GPUs and 400 cores: use fewer.* --on ray:gpus=0$"):
        RayTasks(ray, uw.Ray(cpus=400), "cpu")


def test_tasks_on_slurm_avoid_hosts_unless_there_are_no_others():
    calls = []

    class Executor:
        def update_parameters(self, **given):
            calls.append(given["slurm_exclude"])

        def map_array(self, function, texts):
            calls.append(list(texts))
            if calls[-2:-1] == ["h1,h2"]:
                raise RuntimeError("Requested node configuration is not available")
            return [QueuedJob(text) for text in texts]

    jobs = ArrayJobs(Executor(), uw.Slurm(cluster="local", gpus=0), "cpu", Path())
    jobs.submit(["1"])
    jobs.submit(["2"], frozenset({"h1"}))
    assert jobs.submit(["3"], frozenset({"h1", "h2"})) == ["3"]
    assert calls == [["1"], "h1", ["2"], "h1,h2", ["3"], None, ["3"]]


def test_a_worker_says_on_which_host_it_was(monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    ended = Ended.read(work(json.dumps({"version": "0"})))
    assert (ended.how, ended.host, ended.place) == ("failed", "node7", "node7")
    assert ended.reason.endswith("(on node7)")
