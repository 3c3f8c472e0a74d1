"""`unweave score` and the options it shares with `unweave evaluate`."""

import csv
import io
import json

import numpy as np
import pytest

import unweave as uw
from lattice_tables import identity
from unweave.metrics import Scores, Table, evaluate, hoyer


@pytest.fixture
def codes(tmp_path):
    path = tmp_path / "codes.npz"
    np.savez(path, codes=identity().codes, factors=identity().factors)
    return path


def test_score_as_a_table(unweave, codes):
    code, out, err = unweave("score", codes, "--metrics", "mig,factor_vae_score/kim2018")
    assert code == 0, err
    assert [line.split() for line in out.splitlines() if "/" in line] == [
        ["mig/locatello2019", "1.0000"],
        ["factor_vae_score/kim2018", "1.0000"],
    ]
    assert err == ""


def test_score_of_all_metrics_is_evaluate(unweave, codes):
    code, out, err = unweave("score", codes, "--json", "--rng", 5)
    assert code == 0
    assert (
        Scores.from_json(json.loads(out)).to_json() == evaluate(Table.load(codes), rng=5).to_json()
    )
    assert "left out: the table has no posterior scales (mig/chen2018)" in " ".join(err.split())
    assert "slow ones are left out, --metrics all has them: " in " ".join(err.split())
    assert "dci/locatello2019" in err


def test_score_as_csv_with_intervals_and_nulls(unweave, codes):
    asked = ["--interval", 0.9, "--resamples", 5, "--null"]
    code, out, _ = unweave("score", codes, "--csv", "--metrics", "mig", *asked)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["part"] for row in rows] == ["", "factor 0", "factor 1", "factor 2"]
    assert float(rows[0]["low"]) <= float(rows[0]["value"]) <= float(rows[0]["high"])
    assert float(rows[0]["null"]) < 0.1
    code, out, _ = unweave("score", codes, "--metrics", "mig", *asked)
    assert "interval" in out
    assert "null" in out


def test_score_with_the_spread_over_the_rng_and_the_best(unweave, codes):
    code, out, _ = unweave(
        "score", codes, "--json", "--metrics", "mig", "--draws", 2, "--best", "--rng", 5
    )
    assert code == 0
    asked = {"metrics": "mig", "rng": 5, "draws": 2, "best": True}
    assert json.loads(out) == evaluate(Table.load(codes), **asked).to_json()
    assert unweave("score", codes, "--draws", 1)[0] == 2


def test_evaluate_takes_the_same_options(unweave, tmp_path):
    world = uw.Shapes2D(side=16, positions=4, orientations=1)
    models = uw.fit(world, latent=uw.Gaussian(3), network=uw.MLP((8,)), batch_size=8, steps=2,
                    seed=range(2), store=tmp_path, progress=False)  # fmt: skip
    folders = [model.folder for model in models]
    asked = ["--rows", 100, "--metrics", "mig/locatello2019", "--null"]
    code, out, err = unweave("evaluate", *folders, *asked, "--csv")
    assert code == 0, err
    rows = [row for row in csv.DictReader(io.StringIO(out)) if not row["part"]]
    assert [row["run"] for row in rows] == [folder.name for folder in folders]
    direct = uw.evaluate(models, rows=100, metrics="mig/locatello2019", null=True)
    for row, scores in zip(rows, direct, strict=True):
        assert float(row["value"]) == float(scores["mig/locatello2019"])
        assert float(row["null"]) == scores["mig/locatello2019"].null
    code, out, _ = unweave("evaluate", folders[0], *asked)
    assert "mig/locatello2019" in out
    assert "null" in out
    code, out, _ = unweave("evaluate", *folders, *asked)
    assert all(folder.name in out for folder in folders)


def text_file(path):
    path.write_text("codes,factors\n1,2\n")


def broken_file(path):
    path.write_bytes(b"PK\x03\x04 and nothing more")


def single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def without_codes(path):
    np.savez(path, factors=np.eye(3))


@pytest.mark.parametrize("arrays", [{}, {"factors": np.zeros((9, 0), int)}])
def test_codes_without_factors_have_measures(unweave, tmp_path, arrays):
    z = np.random.default_rng(0).normal(size=(9, 3))
    np.savez(tmp_path / "codes.npz", codes=z, **arrays)
    code, out, err = unweave("score", tmp_path / "codes.npz", "--json")
    assert code == 0, err
    assert json.loads(out)["hoyer/mathieu2019"]["value"] == pytest.approx(float(hoyer(z)))
    assert "some metrics are left out: the table has no factors" in err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (None, "there is no file"),
        (text_file, "damaged or something else"),
        (broken_file, "damaged or something else"),
        (single_array, "a single array"),
        (without_codes, "expected codes, mostly with factors"),
    ],
)
def test_bad_files_are_one_line(unweave, tmp_path, make, message):
    path = tmp_path / "codes.npz"
    if make:
        make(path)
    code, out, err = unweave("score", path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics", "migg"], "metric 'migg' is not known: did you mean 'mig"),
        (["--metrics", "mig/chen2018"], "no posterior scales"),
        (["--interval", "95"], "between 0 and 1"),
        (["--json", "--csv"], "got both"),
        (["--rng", "x"], "valid integer"),
    ],
)
def test_bad_options_are_one_line(unweave, codes, options, message):
    code, out, err = unweave("score", codes, *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_help(unweave):
    code, out, _ = unweave("score", "--help")
    assert code == 0
    assert "unweave score codes.npz" in out


def test_a_table_of_shapes_knows_which_pictures_are_the_same():
    world = uw.Shapes2D(side=16, scales=1, positions=2, orientations=5)
    model = uw.fit(world, latent=uw.Gaussian(3), network=uw.MLP((8,)), batch_size=8, steps=2,
                   progress=False)  # fmt: skip
    table = model.table(100)
    assert table.periods == {"orientation": {"shape": [1, 2, 4]}}
    column = table.factor_names.index("orientation")
    assert table.factors[:, column].max() == 4
    assert table.classes[:, column].max() == 3
