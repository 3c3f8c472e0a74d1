"""The commands and files of the guide work."""

import re
import shlex
from pathlib import Path

import pytest
import typer

import unweave as uw
from unweave.cli.main import app
from unweave.training.overrides import base_from, runs_from

TEXT = (Path(__file__).parent.parent / "docs/guide.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```bash\n(.*?)```", TEXT, re.S)
    for line in block.splitlines()
    if line.startswith("unweave ")
]


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
    code, out, err = unweave("train", "--from", path, "--store", tmp_path / "runs", *small)
    assert code == 0, err
    assert "factor-vae, gamma 10" in " ".join(out.split())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_of_the_guide_exists(words):
    known = typer.main.get_command(app)
    assert words[1] in known.commands
    if words[1] == "train" and not {"--from", "data=photos/"} & set(words):
        assignments = [word for word in words[2:] if re.match(r"[\w.]+=", word)]
        assert runs_from(assignments)


def test_the_methods_that_the_guide_names_exist():
    from unweave.catalogue.fields import listing
    from unweave.catalogue.methods import method_page

    for name in re.findall(r"unweave methods ([\w-]+)", TEXT):
        assert method_page(name)
    for name in re.findall(r"unweave fields ([\w=.-]+)", TEXT):
        assert listing(name)
