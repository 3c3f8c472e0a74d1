"""The commands and files of the guide work."""

import re
import shlex
from glob import glob
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

import unweave as uw
from unweave.cli.main import app
from unweave.training.overrides import base_from, runs_from
from unweave.training.store import RunFolder

TEXT = (Path(__file__).parent.parent / "docs/guide.md").read_text()


def _commands(block):
    lines = block.splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("unweave ")]


COMMANDS = _commands("".join(re.findall(r"```bash\n(.*?)```", TEXT, re.S)))


def toml(tmp_path):
    (content,) = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
    path = tmp_path / "my.toml"
    path.write_text(content)
    return path


def test_the_file_of_settings_is_read(tmp_path):
    (run,) = runs_from([], base_from(toml(tmp_path)))
    assert run == uw.Run(
        data=uw.Shapes2D(side=32),
        latent=uw.Gaussian(6),
        objective=uw.FactorVAE(10.0),
        optimiser=uw.Adam(lr=1e-3),
        steps=2000,
        batch_size=32,
    )


def test_assignments_win_over_the_file(tmp_path):
    (command,) = (words for words in COMMANDS if "my.toml" in words)
    runs = runs_from(command[4:], base_from(toml(tmp_path)))
    assert len(runs) == 15
    assert {run.objective.gamma for run in runs} == {5.0, 10.0, 20.0}
    assert {run.steps for run in runs} == {2000}


def test_the_file_trains(tmp_path, unweave):
    small = ["data.positions=4", "data.orientations=1", "network=mlp", "steps=2", "batch_size=8"]
    path = toml(tmp_path)
    code, _, err = unweave("train", "--from", path, "--store", tmp_path / "runs", *small)
    assert code == 0, err
    (folder,) = (tmp_path / "runs").iterdir()
    assert RunFolder(folder).read_run().objective == uw.FactorVAE(gamma=10)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_of_the_guide_exists(words):
    known = typer.main.get_command(app)
    assert words[1] in known.commands
    if words[1] == "train" and not {"--from", "data=photos/"} & set(words):
        assignments = [word for word in words[2:] if re.match(r"[\w.]+=", word)]
        assert runs_from(assignments)


@pytest.mark.usefixtures("quick_scores")
def test_the_walk_from_photos_to_codes_and_back_works(tmp_path, unweave, monkeypatch):
    """The commands of the first section and of the store, in their order, on small photos."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(f"photos/{number:02}.png")
    rows = [f"{number:02}.png,{number % 2}" for number in range(60)]
    Path("photos/labels.csv").write_text("\n".join(["file,kind", *rows]))
    run, digest = Path("runs"), ""
    for section in ("## Your own data", "## The store"):
        block = re.search(r"```bash\n(.*?)```", TEXT[TEXT.index(section) :], re.S)
        for words in _commands(block[1]):
            words = [word.replace("3f2a", digest).replace("=3000", "=3") for word in words[1:]]
            if words[0] == "report" and (run / "report.html").exists():
                continue  # it takes longest, and is the command of the first section
            if section == "## The store" and words[0] in ("encode", "decode"):
                words.append("--overwrite")  # the first section has written these files
            if words[0] == "train":
                words.append("seed=0..1")  # two, to be compared
            code, _, err = unweave(*(place for word in words for place in glob(word) or [word]))
            assert code == 0, f"{words}: {err}"
            if words[0] == "train":
                run = min(Path("runs").iterdir())
                digest = run.name[:6]
    assert (run / "report.html").exists()
    assert len(Path("codes.csv").read_text().splitlines()) == 61
    assert len(list(Path("decoded").iterdir())) == 60


def test_the_methods_that_the_guide_names_exist():
    from unweave.catalogue.fields import listing
    from unweave.catalogue.methods import method_page

    for name in re.findall(r"unweave methods ([\w-]+)", TEXT):
        assert method_page(name)
    for name in re.findall(r"unweave fields ([\w=.-]+)", TEXT):
        assert listing(name)
