"""`unweave runs`: filters, sorting, scores, formats, damaged and collapsed runs."""

import csv
import io
import json
import re
import time

import pytest

import unweave as uw
from datasets import CPU, SMALL
from stored_files import stored_scores, write_worker
from unweave.cli.run_list import ListedRun, find_names, runs_table
from unweave.core.text import number_text
from unweave.evaluation.compare import compared_folder
from unweave.evaluation.comparison import ComparedRun
from unweave.explorer.run_data import curves, own_scores, run_data
from unweave.report.analysis import analyse
from unweave.report.figures import log_curves
from unweave.report.summary import tiles
from unweave.report.text import number as in_reports
from unweave.training.final_terms import end_of, ends_collapsed, final_terms
from unweave.training.records import write_record
from unweave.training.run import Run
from unweave.training.store import RunFolder, ScoreFacts, Store, run_to_record


def add_run(root, beta, seed, rate, mig=None, steps=200, finished=True):
    """Write the folder of a run as training and `evaluate` would, without its weights' content."""
    run = Run(data=SMALL, objective=uw.BetaVAE(beta=beta), seed=seed, steps=steps)
    folder = Store(root).folder(run)
    folder.create(run)
    folder.write_log([{"step": steps, "distortion": 30.0 + seed, "rate": rate}])
    if finished:
        folder.weights.write_bytes(b"")
    if mig is not None:
        scores = stored_scores({"mig/chen2018": mig, "mig/locatello2019": mig / 2})
        folder.write_scores(ScoreFacts("all", 100, "mean", step=steps), scores)
    return folder.path


@pytest.fixture
def store(tmp_path, unweave, monkeypatch):
    add_run(tmp_path, 1.0, 0, 9.0, mig=0.1)
    add_run(tmp_path, 4.0, 0, 3.0, mig=0.3)
    add_run(tmp_path, 4.0, 1, 0.002, mig=0.2)
    add_run(tmp_path, 4.0, 2, 2.5, finished=False)
    monkeypatch.setattr("unweave.core.console.out._width", 80)
    return tmp_path


def listed(unweave, store, *options):
    code, out, err = unweave("runs", "--store", store, "--json", *options)
    assert code == 0, err
    return [(run["settings"]["objective.beta"], run["settings"]["seed"]) for run in json.loads(out)]


def test_runs_are_filtered_by_settings_and_facts(unweave, store):
    assert len(listed(unweave, store)) == 4
    assert listed(unweave, store, "--where", "objective.beta=4", "--where", "seed=1") == [(4, 1)]
    assert listed(unweave, store, "--where", "objective=beta-vae", "--where", "seed=0") == [
        (1, 0),
        (4, 0),
    ]
    assert listed(unweave, store, "--where", "status=finished", "--where", "objective.beta=4.0")
    assert listed(unweave, store, "--where", "status=not started") == [(4, 2)]
    assert listed(unweave, store, "--where", "collapsed=true") == [(4, 1)]
    assert listed(unweave, store, "--where", "objective.beta=7") == []
    code, out, _ = unweave("runs", "--store", store, "--where", "objective.beta=7")
    assert (code, out.startswith("0 of ")) == (0, True)
    code, out, err = unweave("runs", "--store", store, "--where", "objective.betta=4")
    assert (code, out) == (2, "")
    assert "did you mean 'objective.beta'?" in err
    assert unweave("runs", "--store", store, "--where", "beta")[0] == 2


def test_runs_are_sorted_by_numbers_and_missing_ones_come_last(unweave, store):
    assert listed(unweave, store, "--sort", "rate") == [(4, 1), (4, 2), (4, 0), (1, 0)]
    assert listed(unweave, store, "--sort", "-mig/chen2018") == [(4, 0), (4, 1), (1, 0), (4, 2)]
    assert listed(unweave, store, "--sort", "mig/chen2018") == [(1, 0), (4, 1), (4, 0), (4, 2)]
    code, _, err = unweave("runs", "--store", store, "--sort", "-mig")
    assert (code, err) == (0, "sorted by mig/chen2018\n")  # a name of two protocols


def test_the_heading_of_a_column_is_a_name_of_it(unweave, store):
    assert listed(unweave, store, "--where", "beta=4", "--where", "seed=1") == [(4, 1)]
    code, out, err = unweave("runs", "--store", store, "--columns", "beta", "--sort", "beta")
    assert (code, err) == (0, "sorted by objective.beta\n")
    assert " beta " in out
    settings = {"latent.learn": 1, "likelihood.learn": 2, "objective.beta": 3, "data.rate": 4}
    final = {"terms/rate": 1.0, "terms/loss": 1.0, "metrics/mig/a": 0.5}
    runs = [ListedRun("a", "finished", settings, final=final, scores={"all": {"sap/b": 0.1}})]
    names = [*settings, *final, "sap/b"]
    head = runs_table(runs, names, [], 200).columns[-len(names) - 1 : -1]
    assert {"beta", "rate", "latent.learn", "likelihood.learn", "data.rate"} <= {*head}
    assert [find_names(runs, name) for name in head] == [[name] for name in names]
    assert find_names(runs, "metrics/mig") == ["metrics/mig/a"]
    with pytest.raises(ValueError, match=r"several names: write latent.learn or likelihood.learn"):
        find_names(runs, "learn")
    with pytest.raises(ValueError, match=r"no run has 'betta'") as raised:
        find_names(runs, "betta")
    assert str(raised.value).partition(": ")[2] == (
        "did you mean 'beta'? The choices are facts: collapsed, run, status, step; settings: "
        "data.rate, latent.learn, likelihood.learn, objective.beta; terms: terms/loss, terms/rate; "
        "measured: metrics/mig/a; scores: sap/b"
    )


def test_scores_are_shown_and_the_table_fits_80_columns(unweave, store):
    code, out, _ = unweave("runs", "--store", store, "--columns", "rate,mig,objective.beta")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    rows = [line.split() for line in out.splitlines() if "finished" in line]
    assert [row[3:7] for row in rows] == [
        ["9.00", "0.100", "0.050", "1"],
        ["3.00", "0.300", "0.150", "4"],
        ["0.002", "0.200", "0.100", "4"],
    ]
    code, out, _ = unweave("runs", "--store", store)
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(
        "all: 200 steps; Gaussian 10; shapes2d side=16"
    )  # said once, not in every row
    assert "all latents are off in 1 of 4 runs" in out
    assert out.count("all latents off") == 1


def test_headline_scores_are_shown_if_they_fit(unweave, tmp_path, monkeypatch):
    """Settings that all runs share are printed once, which leaves room."""
    for seed in range(2):
        add_run(tmp_path, 4.0, seed, 3.0, mig=0.125)
    monkeypatch.setattr("unweave.core.console.out._width", 80)
    _, out, _ = unweave("runs", "--store", tmp_path)
    assert out.startswith("all: finished; 200 steps; Gaussian 10; ")
    assert out.count("0.125") == 2
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setattr("unweave.core.console.out._width", 40)
    _, out, _ = unweave("runs", "--store", tmp_path)
    assert "0.125" not in out


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"step": 150}, "from step 150, and training has continued since"),
        ({"codes": "prior-cdf"}, "computed from codes prior-cdf, not from means"),
        ({"continuous": "x"}, "declared continuous"),
    ],
)
def test_scores_that_compare_does_not_use_are_not_shown(unweave, tmp_path, facts, why):
    """Scores of an earlier step were shown as those of a run that had been continued."""
    add_run(tmp_path, 4.0, 0, 3.0, mig=0.125)
    folder = RunFolder(add_run(tmp_path, 4.0, 1, 3.0))
    folder.weights.unlink()
    folder.check_data(SMALL.load(CPU))
    folder.weights.write_bytes(b"")
    stored = ScoreFacts("all", 100, "mean", step=200)._replace(**facts)
    folder.write_scores(stored, stored_scores({"mig/chen2018": 0.875}))
    assert why in compared_folder(folder).unused
    code, out, _ = unweave("runs", "--store", tmp_path, "--columns", "mig")
    assert (code, "0.125" in out, "0.875" in out) == (0, True, False)
    out = " ".join(out.split())
    assert f"scores of {folder.path.name} on all are not shown: " in out
    assert why in out
    _, out, _ = unweave("runs", "--store", tmp_path, "--json")
    one = next(run for run in json.loads(out) if run["settings"]["seed"] == 1)
    assert (one["scores"], list(one["unused_scores"])) == ({}, ["all"])
    assert "0.875" not in unweave("runs", "--store", tmp_path, "--csv")[1]
    assert own_scores(folder, folder.read_run(), folder.read_log()) == {}  # nor in the explorer


def test_a_running_run_is_listed_at_the_step_that_its_process_reports(unweave, tmp_path):
    """It was listed at step 0 until its first checkpoint."""
    run = Run(data=SMALL, steps=200)
    folder = Store(tmp_path).folder(run)
    folder.create(run)
    write_worker(tmp_path, "elsewhere-12345678-17-99", runs=[run.digest], step=70, steps=200)
    with folder.lock():
        _, out, _ = unweave("runs", "--store", tmp_path, "--json")
    assert [(each["status"], each["step"]) for each in json.loads(out)] == [("running", 70)]
    assert "distortion" not in unweave("runs", "--store", tmp_path)[1]  # no empty columns


def test_csv_has_what_differs_and_all_numbers(unweave, store):
    code, out, _ = unweave("runs", "--store", store, "--csv")
    assert code == 0
    first, *_ = rows = list(csv.DictReader(io.StringIO(out)))
    assert list(first) == ["run", "status", "collapsed", "step", "seed", "objective.beta",
                           "terms/distortion", "terms/rate", "mig/chen2018",
                           "mig/locatello2019"]  # fmt: skip
    assert [row["mig/chen2018"] for row in rows] == ["0.1", "0.3", "0.2", ""]
    assert unweave("runs", "--store", store, "--csv", "--json")[0] == 2


def test_terms_and_measured_values_have_different_names(unweave, tmp_path):
    """An objective estimates the total correlation on batches; a measurement is exact."""
    folder = RunFolder(add_run(tmp_path, 4.0, 0, 2.0))
    folder.write_log([{"step": 200, "rate": 2.0, "total_correlation": -0.5}])
    folder.write_measures([
        {"step": 100, "terms": {"rate": 5.0}, "metrics": {"total_correlation": 9.0}},
        {"step": 200, "metrics": {"total_correlation": 0.25}, "validation": {"r2": 0.75}},
    ])  # fmt: skip
    _, out, _ = unweave("runs", "--store", tmp_path, "--csv")
    (row,) = csv.DictReader(io.StringIO(out))
    values = {"terms/rate": 2.0, "terms/total_correlation": -0.5,
              "metrics/total_correlation": 0.25, "validation/r2": 0.75}  # fmt: skip
    assert {name: float(row[name]) for name in values} == values
    assert not set(row) & {"rate", "total_correlation"}
    _, out, _ = unweave("runs", "--store", tmp_path, "--json")
    (run,) = json.loads(out)
    assert run["terms"] == {"rate": 2.0, "total_correlation": -0.5}
    assert (run["metrics"], run["validation"]) == ({"total_correlation": 0.25}, {"r2": 0.75})
    for asked in ("total_correlation", "metrics/total_correlation,terms/total_correlation"):
        _, out, _ = unweave("runs", "--store", tmp_path, "--columns", asked)
        assert re.findall(r"-?\d\.\d{3}", out) == ["0.250", "-0.500"]
    code, _, err = unweave("runs", "--store", tmp_path, "--sort", "total_correlation")
    assert (code, err) == (0, "sorted by metrics/total_correlation\n")
    both = folder.read_log(), folder.read_measures()
    assert ComparedRun("", folder.read_run(), "", *both).values == {
        n: x for n, x in values.items() if n != "terms/total_correlation"
    }
    logged, measured = (curves(rows).terms.keys() for rows in both)
    assert not logged & measured  # in the explorer's table of runs


def test_numbers_that_are_not_finite_are_called_so_and_json_has_null(unweave, tmp_path):
    for seed, value in enumerate([float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 2.0]):
        add_run(tmp_path, 4.0, seed, value, mig=value)
    code, out, _ = unweave("runs", "--store", tmp_path, "--columns", "rate")
    assert (code, out.count("not finite"), "nan" in out, "inf " in out) == (0, 3, False, False)
    assert (out.count("1e+308"), "0000" in out) == (2, False)

    def refuse(name):
        raise AssertionError(name)

    for sort in ("rate", "-mig"):
        code, out, _ = unweave("runs", "--store", tmp_path, "--json", "--sort", sort)
        runs = json.loads(out, parse_constant=refuse)
        assert [run["terms"]["rate"] for run in runs].count(None) == 3
        assert runs[-1]["settings"]["seed"] == 0  # NaN is neither large nor small
        rest = [run["settings"]["seed"] for run in runs[:-1]]
        assert rest == ([2, 4, 5, 3, 1] if sort == "rate" else [1, 3, 5, 4, 2])
    code, out, _ = unweave("runs", "--store", tmp_path, "--csv")
    rates = [float(row["terms/rate"]) for row in csv.DictReader(io.StringIO(out))]
    assert sorted(map(str, rates)) == ["-1e+308", "-inf", "1e+308", "2.0", "inf", "nan"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", "{no json"),
        ("run.json", "[1, 2]"),
        ("run.json", '{"objective": {"kind": "nonsense"}}'),
        ("log.jsonl", "{no json"),
        ("log.jsonl", '{"rate": "high"}'),
        ("scores.json", '{"scores": {"mig": 3}, "split": "all"}'),
        ("failed.json", "{"),
    ],
)
def test_a_damaged_run_is_listed_and_the_others_are_shown(unweave, store, file, content):
    path = add_run(store, 9.0, 0, 1.0, mig=0.5, finished=file != "failed.json")
    (path / file).write_text(content)
    code, out, err = unweave("runs", "--store", store)
    assert code == 0
    assert f"{path.name}  damaged" in out
    assert out.count(" finished ") == 3
    assert path.name in err


OTHER = [{"split": "test"}, {"rows": 50}, {"codes": "prior-cdf"}, {"seed": 1}, {"labels": "c0ffee"}]


@pytest.mark.parametrize("other", [*OTHER, {"continuous": "x"}, {"step": 5}])
def test_scores_of_other_metrics_stay_if_they_are_of_the_same_facts(tmp_path, other):
    folder = RunFolder(add_run(tmp_path, 1.0, 0, 9.0, mig=0.1))
    facts = ScoreFacts("all", 100, "mean", step=200)
    sap = stored_scores({"sap/kumar2018": 0.5})
    folder.write_scores(facts, sap)
    kept = ["mig/chen2018", "mig/locatello2019", "sap/kumar2018"]
    assert list(folder.scores["all"]["scores"]) == kept
    assert ScoreFacts.of(folder.scores["all"]) == facts
    folder.write_scores(facts._replace(**other), sap)
    assert list(folder.scores[other.get("split", "all")]["scores"]) == ["sap/kumar2018"]


def test_damaged_scores_are_replaced(tmp_path):
    folder = RunFolder(add_run(tmp_path, 1.0, 0, 9.0))
    (folder.path / "scores.json").write_text('{"mig/chen2018": {"value": 0.5}}')
    with pytest.warns(UserWarning, match="scores.json was damaged, and is replaced"):
        folder.write_scores(ScoreFacts("all", 100, "mean"), stored_scores({"sap/kumar2018": 0.5}))
    assert folder.metrics == ("sap/kumar2018",)


def test_terms_at_the_end_are_means_of_the_last_twentieth_of_a_log():
    rows = [{"step": n, "rate": float(n)} for n in range(1, 1001)]
    assert final_terms(rows) == {"rate": 975.5}  # of 951 to 1000
    assert final_terms(rows[:100]) == {"rate": 95.5}  # at least ten rows
    assert final_terms(rows[:6]) == {"rate": 5.0}  # but only the later half
    assert final_terms([]) == {}


def test_one_noisy_row_at_the_end_changes_no_order_of_runs(unweave, tmp_path):
    """Run a has the lower distortion, but a bad last batch."""
    for seed, distortion, last in ((0, 9.0, 11.0), (1, 10.0, 10.0)):
        folder = RunFolder(add_run(tmp_path, 1.0, seed, distortion))
        terms = [distortion] * 19 + [last]
        rows = [{"step": n + 1, "distortion": d, "rate": 1.0} for n, d in enumerate(terms)]
        folder.write_log(rows)
    _, shown, _ = unweave("runs", "--store", str(tmp_path), "--sort", "distortion", "--json")
    assert [run["terms"]["distortion"] for run in json.loads(shown)] == pytest.approx([9.2, 10.0])


@pytest.mark.usefixtures("quick_scores")
def test_every_place_shows_the_same_value_of_a_term(unweave, tmp_path):
    """The curves of reports, the explorer and notebooks showed the last row of the log."""
    model = uw.fit(SMALL, network=uw.MLP((8,)), batch_size=16, steps=40, store=tmp_path,
                   progress=False)  # fmt: skip
    folder = RunFolder(model.folder)
    noisy = [{**row, "distortion": 100.0} for row in folder.read_log()]
    noisy[-1]["distortion"] = 140.0
    folder.write_log(noisy)
    end = final_terms(noisy)["distortion"]
    assert 100 < end < 140
    model = uw.load(folder.path)
    (listed,) = json.loads(unweave("runs", "--store", tmp_path, "--json")[1])
    assert listed["terms"]["distortion"] == pytest.approx(end)
    assert run_data(folder.path).final["distortion"] == pytest.approx(end, rel=1e-5)
    assert run_data(model).final == run_data(folder.path).final
    found = analyse(model, 100)
    (curve,) = (each for each in log_curves(found) if each.title == "distortion")
    (tile,) = (each for each in tiles(found) if each.label == "distortion")
    assert (curve.remark.split()[0], tile.value) == (in_reports(end),) * 2
    assert f"distortion {number_text(end)}" in model._repr_html_()
    assert f"distortion {end:.2f}" in repr(model)


def test_terms_of_a_collapsed_run_are_means_too():
    rows = [{"step": 100 * n, "rate": 0.3} for n in range(1, 20)]
    assert not ends_collapsed(end_of([*rows, {"step": 2000, "rate": 0.0}]))


def test_collapse_is_a_rate_of_nearly_nothing():
    assert ends_collapsed(end_of([{"step": 100, "rate": 3.0}, {"step": 200, "rate": 0.002}]))
    assert not ends_collapsed(end_of([{"step": 100, "rate": 0.0}, {"step": 200, "rate": 0.3}]))
    assert not ends_collapsed(end_of([{"step": 1, "distortion": 0.0}]))
    assert not ends_collapsed(end_of([]))


def test_the_time_to_list_runs_grows_with_their_number_and_not_with_its_square(unweave, tmp_path):
    content = run_to_record(Run(data=SMALL))

    def seconds(count):
        root = tmp_path / str(count)
        for number in range(count):
            folder = RunFolder(root / f"{number:012x}")
            folder.path.mkdir(parents=True)
            write_record(folder.path / "run.json", folder.path.name, content | {"seed": number})
            folder.write_log([{"step": 30000, "rate": 1.0}])
        start = time.process_time()
        code, out, _ = unweave("runs", "--store", root, "--csv")
        assert (code, out.count("\n")) == (0, count + 1)
        return time.process_time() - start

    seconds(1)  # imports what it needs
    assert seconds(500) < 10 * seconds(100)
