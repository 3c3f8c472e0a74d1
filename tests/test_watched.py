"""What fuzzed inputs must not do is noticed, whatever it is."""

import pickle
import socket
import subprocess
import sys

import numpy as np
import pytest

import watched
from watched import watched as watch


def connect():
    """Connect, without sending anything, to an address that is reserved for documentation."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.connect(("192.0.2.1", 9))


NOT_ALLOWED = {
    "program": lambda place: subprocess.run([sys.executable, "-c", ""], check=True),
    "pickle": lambda place: pickle.loads(pickle.dumps(np.float64)),
    "outside": lambda place: (place.parent / "outside").write_text("x"),
    "beside": lambda place: (place.parent / f"{place.name}2").mkdir(),
    "connection": lambda place: connect(),
    "memory": lambda place: np.ones(watched.ADDRESS_SPACE + 2**30, np.uint8),
    "traceback": lambda place: [][1],
}


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_forbidden_calls_are_noticed(tmp_path, name):
    place = tmp_path / "own"
    place.mkdir()
    with watch(place) as found:
        NOT_ALLOWED[name](place)
    assert found


def test_an_input_that_does_not_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(watched, "SECONDS", 0.05)
    with watch(tmp_path) as found:
        while True:
            (tmp_path / "inside").write_text("x")
    assert "took more than" in found[0]


def test_allowed_calls_are_not_noticed(tmp_path):
    with watch(tmp_path) as found:
        (tmp_path / "a").write_bytes(bytes(np.ones(3, np.uint8)))
        (tmp_path / "a").rename(tmp_path / "b")
    assert found == []
