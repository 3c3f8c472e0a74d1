"""Fixtures and settings of all tests."""

import errno
import gc
import logging
import os
import signal
import sys

# Shells start background commands with SIGINT ignored, but tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before numpy is imported, also for processes that tests start: threads of BLAS that wait for each
# other on busy cores take many times as long as one.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import pytest
import torch

_STATES = {}  # of the generators of modules, before their first test

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is defined


@pytest.fixture(autouse=True, scope="session")
def one_core():
    """Start no processes or threads, also for fixtures that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unweave.core.parallel.usable_cores", lambda: 1)
        yield


def pytest_xdist_auto_num_workers():
    """Start one worker more than there are cores, for the time in which tests wait."""
    from unweave.core.parallel import usable_cores

    return usable_cores() + 1


def pytest_xdist_make_scheduler(config, log):
    """Distribute whole files, and all that drive a browser to one worker, which starts just one."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "tests/browser" if file.startswith("tests/browser/") else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector what lasts until the end: modules and thousands of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000)  # it took a tenth of the time of some tests
        gc.enable()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Restart generators also for the fixtures of modules, which come before those of tests."""
    restart_generators(item)


def restart_generators(item):
    """Let the random generators of a test's module begin as they were before its first test."""
    module = getattr(item, "module", None)
    for name, value in vars(module).items() if module else ():
        if isinstance(value, np.random.Generator):
            state = value.bit_generator.state
            value.bit_generator.state = _STATES.setdefault((module.__name__, name), state)


@pytest.fixture(autouse=True)
def as_if_alone(request):
    """Make random numbers and threads of a test independent of earlier tests."""
    restart_generators(request.node)
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(0)  # without a GPU, torch.manual_seed records the whole stack each time, for later
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
def write_module(tmp_path, monkeypatch):
    """Return a function that writes a module into the working directory, an empty folder."""
    from unweave.core import parts

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(parts, "_used", {})
    written = []

    def write(name, source):
        written.append(tmp_path / f"{name}.py")
        written[-1].write_text(source)
        return written[-1]

    yield write
    for path in written:
        sys.modules.pop(path.stem, None)


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


@pytest.fixture(scope="module")
def address():
    """The address of an S3 server on this machine."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # not each of thousands of requests
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(address, monkeypatch, tmp_path):
    """An empty bucket, as a function that returns the content of all objects by name."""
    import boto3

    from unweave.core import files

    facts = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**facts, "ENDPOINT_URL": address}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "disk", files.Disk())
    service = boto3.resource("s3", endpoint_url=address)
    found = service.create_bucket(Bucket="bucket")
    yield lambda: {each.key: each.get()["Body"].read() for each in found.objects.all()}
    found.objects.all().delete()
    found.delete()
