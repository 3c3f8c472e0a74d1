"""Threads and processes: results in order, shared cores, and errors that are raised."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import unweave as uw
from pool_items import interrupts, run_item
from test_evaluate import fitted
from unweave.core import parallel
from unweave.core.parallel import WorkerKilled, process_map, thread_map

POOL = parallel._pool


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_processes_share_cores_keep_order_and_raise_errors(monkeypatch):
    models = fitted(seeds=range(2))
    here = uw.evaluate(models, 50, metrics="mig")
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    items, pids, cores, threads = zip(*process_map(run_item, range(20), 2), strict=True)
    assert items == tuple(range(20))
    assert os.getpid() not in pids
    assert set(cores) == {2}
    assert max(threads) <= 2
    ((_, alone, _, _),) = process_map(run_item, [0], 1)
    assert alone == os.getpid()
    assert [scores.to_json() for scores in uw.evaluate(models, 50, metrics="mig")] == [
        s.to_json() for s in here
    ]
    with pytest.raises(ValueError, match="one"):
        list(process_map(run_item, [0, "fail", 2], 2))
    with pytest.raises(WorkerKilled, match="one of 2 processes was killed"):
        list(process_map(run_item, [0, "die", 2], 2))


def test_processes_that_join_later_leave_interrupts_to_their_parent(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 6)  # a share of 2 cores each
    list(process_map(abs, range(2), 2))
    monkeypatch.setattr(parallel, "_pool", lambda *_: POOL(3, 9))  # the same share, a larger pool
    found = list(process_map(interrupts, range(9), 3))
    assert set(found) == {(True, signal.SIG_IGN)}


def test_new_processes_cannot_be_interrupted_during_their_first_imports():
    """The process that starts the trackers of resources unblocks interrupts; it used to be first.

    Workers then printed a traceback if Ctrl-C came while they imported.
    """
    script = """
import functools, signal
from unweave.core.parallel import process_map
blocked = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK)
print(all(signal.SIGINT in found for found in process_map(blocked, [()] * 4, 2)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_results_come_in_order_and_few_items_are_read_ahead():
    taken, done = [], []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    for result in thread_map(lambda item: -item, items(), threads=3):
        done.append(result)
        assert len(taken) <= len(done) + 7
    assert done == [-number for number in range(50)]


def test_nested_threads_are_no_more_than_cores(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)

    def inner(item):
        return parallel.own_cores(), threading.get_ident()

    def outer(item):
        return threading.get_ident(), list(thread_map(inner, range(6)))

    for here, found in thread_map(outer, range(8)):
        assert {cores for cores, _ in found} == {4 // 4}
        assert {thread for _, thread in found} == {here}
    for here, found in thread_map(outer, range(8), threads=2):
        assert {cores for cores, _ in found} == {1}
        assert here not in {thread for _, thread in found}
    assert parallel.own_cores() == 4


def test_after_a_failed_call_no_other_starts():
    """Those that have started are finished."""
    started, ended, failed = [], [], threading.Event()

    def work(item):
        started.append(item)
        if item == 1:
            failed.set()
            raise ValueError("one")
        failed.wait()
        ended.append(item)
        return item

    results = thread_map(work, range(100), threads=2)
    with pytest.raises(ValueError, match="one"):
        list(results)
    assert set(ended) == set(started) - {1}
    assert len(started) < 10
