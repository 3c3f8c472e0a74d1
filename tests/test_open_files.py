"""Every run that is being trained holds its lock open: many runs under a small limit."""

import contextlib
import multiprocessing
import os

import pytest

from datasets import DATASET, small_run
from unweave.training import train
from unweave.training.open_files import allow_open_files
from unweave.training.store import Store

resource = pytest.importorskip("resource")
ROOM = 48  # files beside those that are open: fewer than runs


def limited(root, count, hard):
    """Train runs of which each holds a file, under a low soft or hard limit."""
    used = len(os.listdir("/dev/fd"))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = used + ROOM
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft if hard else most))
    with contextlib.ExitStack() as stack:
        if hard:
            text = f"at most {ROOM - 24} runs at once.* allows {soft}, got {count}; train"
            stack.enter_context(pytest.raises(ValueError, match=text))
        train([small_run(seed=seed, steps=1) for seed in range(count)], DATASET, Store(root))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft


@pytest.mark.parametrize("hard", [False, True])
def test_more_runs_than_files_train_or_are_refused_at_once(tmp_path, hard):
    """In a process of its own, because a hard limit cannot be raised again."""
    process = multiprocessing.get_context("fork").Process(
        target=limited, args=(tmp_path, ROOM + 8, hard)
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0
    statuses = {folder.status for folder in Store(tmp_path).folders()}
    assert statuses == (set() if hard else {"finished"})


def test_a_limit_that_is_high_enough_stays():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    with allow_open_files(max(0, before[0] - used - 600)):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_finished_runs_hold_no_files(tmp_path):
    """A store of thousands can be given to one command."""
    runs, store = [small_run(seed=seed, steps=1) for seed in range(8)], Store(tmp_path)
    train(runs, DATASET, store)
    used = len(os.listdir("/dev/fd"))
    held = []

    class Looks:
        def begin(self, runs, step):
            held.append(len(os.listdir("/dev/fd")) - used)

        advance = broke = end = lambda *_: None

    train([*runs, small_run(seed=8, steps=1)], DATASET, store, Looks())
    assert held == [1]
