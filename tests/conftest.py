"""Fixtures and settings of all tests."""

import errno
import os
import sys

# Before numpy is imported, also for processes that tests start: threads of BLAS that wait for each
# other on busy cores take many times as long as one.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is defined


@pytest.fixture(autouse=True, scope="session")
def one_core():
    """Start no processes or threads, also for fixtures that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unweave.core.parallel.usable_cores", lambda: 1)
        yield


@pytest.fixture(autouse=True)
def as_if_alone():
    """Make random numbers and threads of a test independent of earlier tests."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for tiny networks more threads are slower


@pytest.fixture
def no_space(monkeypatch):
    """Let every file fail when it is complete, as on a full disk."""

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "replace", fail)


@pytest.fixture
def quick_scores():
    """Let scores that sample draw less, where a test does not look at their values."""
    from few_draws import few_draws

    with few_draws():
        yield


@pytest.fixture
def unweave(monkeypatch, capsys):
    """Run the command line in this process; return exit code, stdout and stderr."""

    from unweave.cli import main as cli
    from unweave.core import console  # which defines kernels

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["unweave", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    monkeypatch.setattr(console.out, "_width", 200)
    return run
