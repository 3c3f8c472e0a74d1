"""Hostile command lines: every one works, or ends with one line and exit code 2.

The convention: 0 is success, 1 says that some of several runs failed, 2 that the command or a file
was wrong, with one line that explains it. Anything else, such as a traceback, is a bug.
"""

import dataclasses
import io
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fuzzing import (
    COMMANDS,
    NAMED,
    OF_TYPER,
    ROOT,
    TINY,
    USUAL,
    WEIGHTS,
    command_line,
    fuzz_on,
    generator,
    is_clean,
)
from unweave import papers
from unweave.data import Arrays
from unweave.explorer.server import ExplorerServer
from unweave.latents import Gaussian
from unweave.networks import MLP
from unweave.studies.study import NotTrained
from unweave.training.run import Run
from watched import confine, run_command

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
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        confine(patch, place)
        shorten(patch)
        words = f"train {' '.join(TINY)} steps=2"
        code, _, err, problem = run_command(words.split(), place)
        assert (code, problem) == (0, ""), err
        yield place, next(Path("runs").iterdir()).name


def shorten(patch):
    """Leave out what waits or takes long: serving, exports, long trainings, measurements."""
    data = Arrays("data.npz", factors_key="factors")
    tiny = Run(data=data, network=MLP((4,)), latent=Gaussian(2), steps=2, batch_size=8)
    patch.setattr(ExplorerServer, "serve_forever", stop_at_once)
    patch.setattr("webbrowser.open", lambda url: True)
    patch.setattr("unweave.cli.status.time.sleep", stop_at_once)
    patch.setattr("unweave.explorer.onnx_export._export", lambda *_: b"")
    patch.setattr("unweave.cli.demo.demo_run", lambda seed: dataclasses.replace(tiny, seed=seed))
    for name in ("Lanes", "LanePool"):
        patch.setattr(f"unweave.bench.throughput.{name}", lambda *_, **__: None)
    patch.setattr("unweave.bench.throughput.timed", lambda step, device, seconds: 1e3)
    undrawn = [dataclasses.replace(figure, make=not_trained) for figure in papers.FIGURES]
    patch.setattr(papers, "FIGURES", tuple(undrawn))
    patch.setattr(papers, "train_or_load", lambda *_: SimpleNamespace(networks=()))


def stop_at_once(_):
    raise KeyboardInterrupt


def not_trained(*_):
    raise NotTrained("it takes long")


def check(line, place, seed):
    """Run a command, and say what is wrong with how it ended; "" if nothing is."""
    code, out, err, problem = run_command(line, place)
    shown = f"seed {seed}: {line!r}\n"
    if problem or code not in (0, 1, 2):
        return f"{shown}{code} {problem}"
    if code == 2 and not err.rstrip("\n").rpartition("\n")[2].startswith("error: "):
        return "" if "Usage" in out + err else f"{shown}no line says what is wrong: {err!r}"
    if not is_clean(out) or not is_clean(err):
        return f"{shown}control characters are printed: {out!r} {err!r}"
    return ""


def test_command_lines_end_as_they_should(sandbox):
    """Three lines of every command that does not take seconds."""
    place, run = sandbox
    quick = [(words, each) for words, each in COMMANDS if WEIGHTS.get(words[-1], 1) >= 1]
    lines = [command_line(generator(seed), run, each) for seed, each in enumerate(3 * quick)]
    found = [check(line, place, seed) for seed, line in enumerate(lines)]
    assert [problem for problem in found if problem] == []


@pytest.mark.slow
def test_many_command_lines_end_as_they_should(sandbox):
    """As many as UNWEAVE_FUZZ_SECONDS allow; the seeds are new each time, and printed."""
    place, run = sandbox

    def line(seed):
        return check(command_line(generator(seed), run), place, seed)

    assert fuzz_on("command lines", line) == []


def test_every_command_and_option_is_fuzzed():
    """A new option fails here until `USUAL` in fuzzing.py has values that it may take."""
    assert {words[0] for words, _ in COMMANDS} == set(ROOT.commands)
    known = {*USUAL, *NAMED, "assignments"}
    for words, command in COMMANDS:
        drawn = [command_line(generator(seed), "3f2a", (words, command)) for seed in range(80)]
        given = {word for line in drawn for word in line}
        for option in [*command.params, *ROOT.params]:
            if option.name not in OF_TYPER and option.param_type_name != "argument":
                assert option in ROOT.params or given & {*option.opts}, (words, option.name)
            assert option.name in known or getattr(option, "is_flag", False), option.name
