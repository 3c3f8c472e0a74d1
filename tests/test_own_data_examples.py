"""The data sets of docs/own_data.md, taken from file to comparison by the commands of the page."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import own_data  # noqa: E402

PAGE = (ROOT / "docs" / "own_data.md").read_text()
TINY = ["network=mlp", "network.hidden=[4]", "steps=2", "latent.size=4", "batch_size=8"]
NAMES = [Path(name).stem for name in own_data.MAKERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All data sets with 60 observations."""
    path = tmp_path_factory.mktemp("examples") / "own-data"
    own_data.make(path, count=60)
    return path


def commands_of(name):
    """Return the arguments of `unweave data info` and `train` in the page (the last ones)."""
    pattern = rf"^\$ unweave (data info|train) (.*own-data/{name}.*)$"
    return {kind: shlex.split(rest) for kind, rest in re.findall(pattern, PAGE, re.MULTILINE)}


@pytest.mark.parametrize("name", NAMES)
def test_every_data_set_gets_from_file_to_comparison(
    name, folder, unweave, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(folder.parent)
    given = commands_of(name)
    code, out, _ = unweave("data", "info", *given["data info"])
    assert code == 0
    assert "60 of" in out
    training = [each for each in given["train"] if not each.startswith("seed=")]
    given = [each for each in training if each.partition("=")[0] != "steps"]
    code, out, err = unweave("train", *given, *TINY, "--store", tmp_path)
    assert code == 0, err
    run = re.search(r"report (\w+)", out)[1]
    data = training[0].removeprefix("data=")
    codes = tmp_path / "codes.csv"
    assert unweave("encode", run, data, "--out", codes, "--store", tmp_path)[0] == 0
    latents, values = own_data.read_numbers(codes)
    assert latents == ["z0", "z1", "z2", "z3"]  # and no names of rows, which may be numbers
    names, factors = own_data.read_numbers(folder / "truth" / f"{name}.csv")
    assert len(values) == len(factors) == 60
    own_data.compare(folder / "truth" / f"{name}.csv", [codes, codes])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[2:]] == names


def test_integers_of_a_table_stop_the_command_until_their_meaning_is_given(folder, unweave):
    code, _, err = unweave("data", "info", folder / "counts.csv")
    assert code == 2
    assert "data.scale=counts" in err


def test_the_comparison_finds_factors_and_only_those():
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(400, 2))
    noise = rng.normal(size=(400, 2))
    codes = np.c_[noise[:, 0], -(factors[:, 1] ** 3), 2 * factors[:, 0]]
    which, strength = own_data.best_latents(codes, factors)
    assert which.tolist() == [2, 1]
    np.testing.assert_allclose(strength, 1, atol=1e-12)  # ranks do not see the cube
    exact = own_data.r2(2 * factors - 1, factors, own_data.by_regression)
    np.testing.assert_allclose(exact, 1, atol=1e-9)
    assert (own_data.r2(factors, factors, own_data.by_neighbours) > 0.97).all()
    for predict in (own_data.by_regression, own_data.by_neighbours):
        assert (own_data.r2(noise, factors, predict) < 0.02).all()


def test_variables_that_are_off_take_no_part_in_the_comparison():
    factors = np.random.default_rng(0).normal(size=(400, 1))
    codes = np.c_[0.05 * factors, factors + 1, np.full(400, 3.0)]
    latents, used = own_data.in_use(["z0", "z1", "z2"], codes)
    assert latents == ["z1"]
    np.testing.assert_array_equal(used, factors + 1)


def test_a_table_of_trained_runs_fits_80_columns(folder, unweave, tmp_path, monkeypatch):
    from unweave.core import console

    monkeypatch.setattr(console.out, "_width", 80)
    store = tmp_path / "a-store-with-a-long-name"
    monkeypatch.chdir(tmp_path)
    training = [f"data={folder / 'spectra.csv'}", *TINY, "seed=0,1"]
    code, out, _ = unweave("train", *training, "--store", store.name)
    assert code == 0
    head = next(line for line in out.splitlines() if "folder" in line)
    assert head.split() == ["folder", "seed", "distortion", "rate", "held-out", "R^2"]
