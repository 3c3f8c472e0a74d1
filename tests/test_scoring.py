"""`unweave score` and the options it shares with `unweave evaluate`."""

import csv
import io
import json
import re
import warnings
from dataclasses import fields

import numpy as np
import pytest

import unweave as uw
from lattice_tables import identity
from unweave.cli import score_output
from unweave.metrics import METRICS, Metric, Score, Scores, Table, evaluate, hoyer, mcc


@pytest.fixture
def codes(tmp_path):
    path = tmp_path / "codes.npz"
    np.savez(path, codes=identity().codes, factors=identity().factors)
    return path


def test_score_prints_a_table(unweave, codes):
    code, out, err = unweave("score", codes, "--metrics", "mig,factor_vae_score/kim2018")
    assert code == 0, err
    table, *skipped = out.split("\n\n")[-2:]
    assert skipped[0].startswith("mig/chen2018 is left out: ")
    assert [line.split() for line in table.splitlines() if "/" in line] == [
        ["mig/locatello2019", "1.0000"],
        ["factor_vae_score/kim2018", "1.0000"],
    ]
    assert err == ""


def test_scores_that_cannot_be_judged_are_marked(unweave, tmp_path):
    one, noise = tmp_path / "one.npz", tmp_path / "noise.npz"
    table, rng = identity(), np.random.default_rng(0)
    np.savez(one, codes=table.codes, factors=table.factors[:, :1])
    code, out, _ = unweave("score", one, "--metrics", "mig")
    assert code == 0
    note, *_, skipped = out.strip().splitlines()
    assert note.startswith("no evidence: only one factor can be scored")
    assert note.endswith("(mig/locatello2019)")
    assert skipped.startswith("mig/chen2018 is left out: the table has no ")  # scales
    dead = np.hstack([table.codes[:, :1], np.zeros((len(table), 3))])
    np.savez(one, codes=dead, factors=table.factors)
    code, out, _ = unweave("score", one, "--metrics", "dci/eastwood2018")  # completeness is 1
    assert (code, "no evidence: only one code varies, and" in out) == (0, True)
    np.savez(one, codes=np.zeros((len(table), 4)), factors=table.factors)
    code, out, _ = unweave("score", one, "--metrics", "dci/eastwood2018")
    assert (code, "no evidence: no code varies, and" in out) == (0, True)
    factors = rng.integers(3, size=(500, 2))
    np.savez(noise, codes=rng.standard_normal((500, 10)), factors=factors)
    code, out, _ = unweave("score", noise, "--metrics", "modularity,irs/suter2019", "--null")
    assert code == 0
    notes = re.findall("no evidence: .* above shuffled factors.*", out)
    assert sum(note.count("/") for note in notes) == 3  # two of modularity
    np.savez(noise, codes=rng.standard_normal((20, 10)), factors=factors[:20])
    code, out, _ = unweave("score", noise, "--metrics", "irs/suter2019")
    assert "20 rows are too few" in out


@pytest.mark.usefixtures("quick_scores")
def test_score_computes_what_evaluate_does(unweave, codes):
    code, out, err = unweave("score", codes, "--json", "--seed", 5)
    assert code == 0
    assert (
        Scores.from_json(json.loads(out)).to_json() == evaluate(Table.load(codes), seed=5).to_json()
    )
    assert "left out: the table has no posterior scales (mig/chen2018)" in " ".join(err.split())
    assert "slow metrics are left out (--metrics all): " in " ".join(err.split())
    assert "dci/locatello2019" in err


def test_csv_has_intervals_and_nulls(unweave, codes):
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


def test_reseeds_and_ceiling_are_printed_in_every_format(unweave, codes):
    asked = ["--metrics", "factor_vae_score/kim2018", "--reseeds", 2, "--ceiling", "--seed", 5]
    keywords = {"metrics": "factor_vae_score/kim2018", "seed": 5, "reseeds": 2, "ceiling": True}
    expected = evaluate(Table.load(codes), **keywords)
    code, out, _ = unweave("score", codes, "--json", *asked)
    assert code == 0
    assert json.loads(out) == expected.to_json()
    found = expected["factor_vae_score/kim2018"]
    assert found.extras == {n: found.details[n] for n in ("seed std", "ceiling")}
    numbers = [f"{number:.4f}" for number in (float(found), *found.extras.values())]
    for text in (unweave("score", codes, *asked)[1], str(expected)):
        head, *_, row = [line.split() for line in text.splitlines() if line.strip(" ─━-")]
        assert head == ["metric", "value", "seed", "std", "ceiling"]
        assert row[1:] == numbers
    rows = list(csv.DictReader(io.StringIO(unweave("score", codes, "--csv", *asked)[1])))
    assert {name: float(rows[0][name]) for name in found.extras} == found.extras
    assert unweave("score", codes, "--reseeds", 1)[0] == 2


def test_intervals_and_nulls_of_several_runs_have_rows_of_their_own():
    score = Score(
        "mig", "chen2018", 0.5, details={"ceiling": 0.75}, interval=(0.25, 0.625), null=0.125
    )
    for runs in (2, 6):
        table = score_output.scores_table({f"run {n}": Scores(mig=score) for n in range(runs)})
        rows = ["mig", "mig low", "mig high", "mig null", "mig ceiling"]
        assert [row[0] for row in table.rows] == rows
        column = [row[1 if runs == 2 else 2] for row in table.rows]
        assert column == ["0.500", "0.250", "0.625", "0.125", "0.750"]


def test_decisions_about_factors_and_few_rows_are_noted(unweave, tmp_path):
    path = tmp_path / "codes.npz"
    v = np.column_stack([np.repeat([0.5, 1.5, 4.5], 8), np.tile([0, 1], 12)])
    np.savez(path, codes=v, factors=v, factor_names=["angle", "shape"])
    code, out, err = unweave("score", path, "--metrics", "mig", "--json")
    assert code == 0
    assert json.loads(out)["mig/locatello2019"]["details"]["factors cut into bins"] == []
    first, second, _ = err.splitlines()
    assert first.startswith("angle has 3 real numbers, each 8 times on average, taken as classes; ")
    assert second.startswith(
        "24 rows are too few: for 3 values of angle there should be at least 30"
    )
    for named, cut in (("angle", ["angle"]), ("0,shape", ["angle", "shape"]), ("", [])):
        asked = ["--metrics", "mig", "--json", "--continuous", named]
        code, out, err = unweave("score", path, *asked)
        assert json.loads(out)["mig/locatello2019"]["details"]["factors cut into bins"] == cut
        assert "taken as classes" not in err
    code, _, err = unweave("score", path, "--continuous", "angel")
    assert (code, err.count("\n")) == (2, 1)
    Table(v, v, continuous=[0]).save(path)
    assert Table.load(path).continuous == ("factor 0",)


def test_warnings_of_libraries_are_printed_as_notes(unweave, codes, monkeypatch):
    def fit(codes, factors):
        warnings.warn("lbfgs failed to converge", stacklevel=2)
        return mcc(codes, factors)

    monkeypatch.setitem(METRICS, "odd/fit", Metric("odd", "fit", fit))
    monkeypatch.setitem(METRICS, "odd/again", Metric("odd", "again", fit))
    code, _, err = unweave("score", codes, "--metrics", "odd")
    assert (code, err) == (0, "lbfgs failed to converge\n")


def test_an_interruption_prints_the_scores_so_far(unweave, codes, monkeypatch):
    def stop(codes, factors):
        raise KeyboardInterrupt

    monkeypatch.setitem(METRICS, "odd/stop", Metric("odd", "stop", stop, slow=True))
    asked = ["--metrics", "mig/locatello2019,odd/stop,mcc"]
    code, out, err = unweave("score", codes, *asked)
    assert code == 130
    assert "mig/locatello2019  1.0000" in " ".join(out.split(" "))
    assert "mcc" not in out
    assert err.splitlines() == [
        "measured 1 of 3, now odd/stop",
        "measured 1 of 3",
        "stopped; completed results were printed",
    ]
    code, out, _ = unweave("score", codes, *asked, "--json")
    assert (code, list(json.loads(out))) == (130, ["mig/locatello2019"])


@pytest.mark.usefixtures("quick_scores")
def test_evaluate_takes_the_options_of_score(unweave, tmp_path):
    dataset = uw.Shapes2D(side=16, positions=4, orientations=1)
    models = uw.fit(dataset, latent=uw.Gaussian(3), network=uw.MLP((8,)), batch_size=8, steps=2,
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


def test_unknown_arrays_are_noted_and_misspelt_ones_rejected(unweave, tmp_path):
    path = tmp_path / "codes.npz"
    arrays = {"codes": identity().codes, "factors": identity().factors}
    np.savez(path, **arrays, images=np.zeros(3), split=np.zeros(2))
    code, out, err = unweave("score", path, "--metrics", "mig", "--json")
    assert code == 0
    assert json.loads(out) == evaluate(**arrays, metrics="mig").to_json()
    assert f"{path} also holds images, split, which a table does not read" in err
    with pytest.warns(UserWarning, match="also holds images, split,") as told:
        Table.load(path)
    assert told[0].filename == __file__
    for name, meant in {"scale": "scales", "factor_name": "factor_names", "KL": None}.items():
        np.savez(path, **arrays, **{name: np.ones((480, 3))})
        code, _, err = unweave("score", path, "--metrics", "mig")
        assert code == (2 if meant else 0)
        assert meant is None or f"got '{name}': did you mean '{meant}'?" in err
    np.savez(path, code=identity().codes)
    assert "'code': did you mean 'codes'?" in unweave("score", path)[2]


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.parametrize("arrays", [{}, {"factors": np.zeros((9, 0), int)}])
def test_codes_without_factors_get_unsupervised_metrics(unweave, tmp_path, arrays):
    z = np.random.default_rng(0).normal(size=(9, 3))
    np.savez(tmp_path / "codes.npz", codes=z, **arrays)
    code, out, err = unweave("score", tmp_path / "codes.npz", "--json")
    assert code == 0, err
    assert json.loads(out)["hoyer/mathieu2019"]["value"] == pytest.approx(float(hoyer(z)))
    assert "some metrics are left out: the table has no factors" in err
    assert "; `unweave metrics --page` says what each needs)" in " ".join(err.split())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (None, "got nothing there"),
        (text_file, "damaged or something else"),
        (broken_file, "damaged or something else"),
        (single_array, "damaged or something else"),
        (without_codes, "expected codes, mostly with factors"),
    ],
)
def test_bad_files_give_one_line(unweave, tmp_path, make, message):
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
        (["--json", "--csv"], "got both"),
        (["--seed", "x"], "valid integer"),
    ],
)
def test_bad_options_give_one_line(unweave, codes, options, message):
    code, out, err = unweave("score", codes, *options)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("command", ["score", "evaluate"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--interval", 95], "level between 0 and 1, got 95"),
        (["--resamples", 1], "at least 2 resamples"),
        (["--reseeds", 1], "at least 2 reseeds"),
        (["--metrics", "migg"], "metric 'migg' is not known"),
    ],
)
def test_options_are_checked_before_any_work(unweave, tmp_path, command, options, message):
    """`evaluate --interval 95` loaded the models and encoded the data first."""
    code, out, err = unweave(command, tmp_path / "nothing here", *options)
    assert (code, out) == (2, "")
    assert message in err


def test_the_help_names_every_array_of_a_table(unweave):
    code, out, _ = unweave("score", "--help")
    assert code == 0
    assert "unweave score codes.npz" in out
    for field in fields(Table):
        assert re.search(rf"\b{field.name}\b", out), field.name


def test_equal_images_of_shapes2d_share_a_class():
    dataset = uw.Shapes2D(side=16, scales=1, positions=2, orientations=5)
    model = uw.fit(dataset, latent=uw.Gaussian(3), network=uw.MLP((8,)), batch_size=8, steps=2,
                   progress=False)  # fmt: skip
    table = model.table(100)
    assert table.periods == {"orientation": {"shape": [1, 2, 4]}}
    column = table.factor_names.index("orientation")
    assert table.factors[:, column].max() == 4
    assert table.merged_factors[:, column].max() == 3
