"""Hostile command lines: every one works, or ends with one line and exit code 2.

The convention: 0 is success, 1 says that some of several runs failed, 2 that the command or a file
was wrong, with one line that explains it. Anything else, such as a traceback, is a bug.
"""

import io
import json
import os
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fuzzing import command_line, generator, is_clean, run_command

pytestmark = [pytest.mark.filterwarnings("ignore")]


def header(shape):
    content = io.BytesIO()
    fields = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, fields)
    return content.getvalue()


def write_files(folder):
    rng = np.random.default_rng(0)
    images, factors = rng.random((40, 8, 8), np.float32), rng.integers(0, 2, (40, 2))
    np.savez(folder / "data.npz", images=images, factors=factors)
    np.savez(folder / "codes.npz", codes=rng.normal(size=(40, 2)), factors=factors)
    rows = [f"{n % 3},{n % 2}" for n in range(40)]
    (folder / "labels.csv").write_text("\n".join(["a,b", *rows]))
    (folder / "hostile.csv").write_text("\n".join(["s[/b]\x1b[31m,=1+1\u202e", *rows]))
    (folder / "lie.npy").write_bytes(header((10**13, 3)) + bytes(64))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("codes.npy", header((2**26, 1)) + bytes(2**29))
    (folder / "bad.json").write_text("null")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deep.toml").write_text("a = " + "[" * 100_000)
    (folder / "good.toml").write_text("steps = 2\n[latent]\nkind = 'gaussian'\nsize = 2\n")
    (folder / "photos").mkdir()
    for number in range(8):
        Image.fromarray(np.uint8(images[number] * 255)).save(folder / f"photos/{number}[x].png")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """A folder with files and a small run, and the digest of the run; commands run there."""
    place = tmp_path_factory.mktemp("fuzz") / "sandbox"
    place.mkdir()
    write_files(place)
    before = Path.cwd()
    os.chdir(place)
    words = "train data=data.npz network=mlp network.hidden=[4] latent.size=2 steps=2 batch_size=8"
    code, _, err, problem = run_command(words.split())
    assert code == 0, err + problem
    yield place, next(Path("runs").iterdir()).name
    os.chdir(before)


def check(line, seed):
    """Run a command, and say what is wrong with how it ended; "" if nothing is."""
    code, out, err, problem = run_command(line)
    shown = f"seed {seed}: {line!r}\n"
    if problem or code not in (0, 1, 2):
        return f"{shown}{code} {problem}"
    if code == 2 and not err.rstrip("\n").rpartition("\n")[2].startswith("error: "):
        return "" if "Usage" in out + err else f"{shown}no line says what is wrong: {err!r}"
    if not is_clean(out) or not is_clean(err):
        return f"{shown}control characters are printed: {out!r} {err!r}"
    return ""


def fuzz(seeds, place, run, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(place / "cache"))
    monkeypatch.setenv("HOME", str(place))
    around = sorted(place.parent.iterdir())
    found = [p for seed in seeds if (p := check(command_line(generator(seed), run), seed))]
    assert sorted(place.parent.iterdir()) == around  # nothing is written outside
    return found


def test_command_lines_end_as_they_should(sandbox, monkeypatch):
    assert fuzz(range(60), *sandbox, monkeypatch) == []


@pytest.mark.slow
def test_many_command_lines_end_as_they_should(sandbox, monkeypatch):
    """As many as UNWEAVE_FUZZ_SECONDS allow; the seeds are new each time, and printed."""
    seconds, first = float(os.environ.get("UNWEAVE_FUZZ_SECONDS", "120")), time.time_ns()
    count, found, end = 0, [], time.monotonic() + seconds
    while time.monotonic() < end:
        found += fuzz(range(first + count, first + count + 50), *sandbox, monkeypatch)
        count += 50
    print(json.dumps({"command lines": count, "first seed": first, "failures": len(found)}))
    assert found == []
