"""Large studies: trained in slices, on several machines, and drawn from their results alone."""

import base64
import dataclasses
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NotRequired

import numpy as np
import pytest
from PIL import Image
from typing_extensions import TypedDict

import unweave as uw
from reproduced import COST, workspace
from stopping import Late
from unweave.core.console import PlainConsole
from unweave.evaluation.monitor import Measure
from unweave.papers import Reproduction, Result, merge_results, reproduce, train_studies
from unweave.studies.images import check_png, decode_png
from unweave.studies.study import (
    PICTURES,
    Group,
    Network,
    Results,
    Study,
    add_networks,
    merge,
    read_networks,
)
from unweave.studies.training import train_or_load
from unweave.training import Silent, train
from unweave.training.records import seal, unseal

DATA = uw.data.Blobs(side=8, positions=4)


def describe(model):
    """Return facts of a network that are the same wherever it is measured."""
    kl = [round(float(each), 3) for each in model.table().kl]
    return {"kl": kl, PICTURES: {"one": "picture"}}


def first_seeds(results):
    return [network for network in results.networks if network.run.seed == 0]


def runs_of(steps=12, seeds=range(3)):
    common = dict(data=DATA, latent=uw.Gaussian(2), network=uw.MLP((4,)), batch_size=8, steps=steps)
    objectives = (uw.BetaVAE(beta=2.0), uw.VAE())
    likelihood = uw.likelihoods.Bernoulli()
    return [
        uw.Run(objective=objective, likelihood=likelihood, seed=seed, **common)
        for objective in objectives
        for seed in seeds
    ]


def study_of(**fields):
    given = dict(
        paper="kim2018", name="tiny", runs=runs_of(), describe=describe, pictured=first_seeds,
        measures=(Measure(every=5, rows=16),), seconds={"beta-vae": 1.0, "vae": 1.0},
    )  # fmt: skip
    return Study(**(given | fields))


def at(folder, **fields):
    """A workspace for figures under a folder, with a store of its own."""
    one = workspace(folder / "runs")
    one.start_figure(folder / "papers")
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def file_of(folder):
    return folder / "papers/kim2018/tiny.jsonl"


def content(folder):
    """Return the results of a study without those that depend on the clock."""
    networks = read_networks(file_of(folder))
    return {key: (each.curves, each.facts, each.failure) for key, each in networks.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study trained at once."""
    folder = tmp_path_factory.mktemp("whole")
    results = train_or_load(at(folder), study_of())
    assert results.complete
    return folder


def test_results_contain_settings_curves_facts_and_costs(whole):
    networks = list(read_networks(file_of(whole)).values())
    assert [network.run for network in networks] == runs_of()
    for network in networks:
        steps, rates = network.curve("terms/rate")
        assert steps.tolist() == [5, 10, 12]
        assert network.value("terms/rate") == rates[-1] >= 0
        assert np.isnan(network.value("terms/of-another-objective"))
        assert network.cost["lanes"] >= 1
        assert network.cost["seconds"] > 0
        assert (PICTURES in network.facts) == (network.run.seed == 0)


def test_stored_networks_are_not_trained_again(whole, tmp_path, monkeypatch):
    file_of(tmp_path).parent.mkdir(parents=True)
    file_of(tmp_path).write_bytes(file_of(whole).read_bytes())
    monkeypatch.setattr("unweave.studies.training.Job", None)
    assert train_or_load(at(tmp_path), study_of()).complete
    assert not (tmp_path / "runs").exists()


def test_slices_of_two_machines_merge_to_the_whole_study(whole, tmp_path):
    study = study_of()
    one, two = tmp_path / "one", tmp_path / "two"
    assert len(train_or_load(at(one, networks=2), study).missing) == 4
    other = dataclasses.replace(study, runs=study.runs[::-1])
    assert len(train_or_load(at(two, networks=4), other).missing) == 2
    assert merge(study, file_of(one), file_of(two)) == 4
    assert merge(study, file_of(one), file_of(two)) == 0
    assert content(one) == content(whole)
    assert [network.run for network in read_networks(file_of(one)).values()] == study.runs


def test_the_limit_of_networks_counts_over_all_studies_of_a_call(tmp_path):
    one = at(tmp_path, networks=2)
    assert len(train_or_load(one, study_of()).networks) == 2
    assert len(train_or_load(one, study_of()).networks) == 2


def test_training_stops_at_the_deadline_and_continues_from_checkpoints(whole, tmp_path):
    clock, said = [0.0], []
    with pytest.MonkeyPatch.context() as patch:
        for place in ("unweave.training.interrupt", "unweave.studies.training"):
            patch.setattr(f"{place}.time.monotonic", lambda: clock[0])
        one = at(tmp_path, deadline=1.0, progress=Late(clock, 7), say=said.append)
        assert train_or_load(one, study_of()).networks == []
    assert not (tmp_path / "papers").exists()  # where an empty file of results was left
    assert "6 of 6 networks of tiny are still missing" in said[-1]
    assert "of their steps are done" in said[-1]
    assert "on an H200 GPU 6 seconds" in said[-1]
    assert train_or_load(at(tmp_path), study_of()).complete
    assert content(tmp_path) == content(whole)


def test_a_failed_run_is_stored_as_a_result(tmp_path):
    runs = [*runs_of()[:2], dataclasses.replace(runs_of()[2], optimiser=uw.Adam(lr=1e30))]
    results = train_or_load(at(tmp_path), study_of(runs=runs))
    assert results.complete
    assert [network.failure is None for network in results.networks] == [True, True, False]
    group = results.groups(lambda run: run.objective.kind)["beta-vae"]
    assert [network.run.seed for network in group.networks] == [0, 1]
    assert (group.total, group.failed, group.complete) == (3, 1, True)


def test_a_damaged_line_of_results_is_reported(whole, tmp_path):
    lines = file_of(whole).read_bytes().splitlines()
    path = tmp_path / "damaged.jsonl"
    for damage in (b"", b"null", b"[]", b"{}", lines[1][:-5], b'{"run": {}}', b"\xff\xfe"):
        path.write_bytes(b"\n".join([lines[0], damage, *lines[2:]]))
        with pytest.raises(ValueError, match=r"damaged.jsonl, line 2, .* delete the line"):
            read_networks(path)


class Form(TypedDict):
    """The form of what `describe` returns."""

    kl: list[float]
    pictures: NotRequired[dict[str, str]]


def changed_line(path, whole, change):
    """Write the results of a study with a change to the second network, sealed again."""
    lines = file_of(whole).read_text().splitlines()
    stored = unseal("network", json.loads(lines[1]))
    change(stored.content)
    lines[1] = json.dumps(seal("network", stored.run, stored.content))
    path.write_text("\n".join(lines))
    return path


WRONG = {
    "no facts": lambda line: line.update(facts={}),
    "null": lambda line: line.update(facts={"kl": None}),
    "text": lambda line: line.update(facts={"kl": "x"}),
    "large": lambda line: line["facts"]["kl"].append(10**400),
    "markup": lambda line: line["facts"].update(more="<script>"),
    "direction": lambda line: line["facts"].update(more={"\u202e": 1}),
    "deep": lambda line: line["facts"].update(more=[[[None]]]),
    "no steps": lambda line: line["curves"].pop("step"),
    "no step": lambda line: line["curves"].update(step=[None] * 3),
    "ragged": lambda line: line["curves"]["terms/rate"].pop(),
    "no machine": lambda line: line["cost"].pop("machine"),
    "list": lambda line: line["cost"].update(machine=[]),
    "seconds": lambda line: line["cost"].update(seconds=float("inf")),
    "date": lambda line: line["cost"].update(date="[x](y)"),
    "failed": lambda line: line.update(failure={"step": 1, "term": "loss"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_results_of_another_form_are_refused_before_they_are_merged(name, whole, tmp_path):
    path, other = file_of(tmp_path), tmp_path / "other.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(file_of(whole).read_bytes().splitlines(True)[:1]))
    before, study = path.read_bytes(), study_of(form=Form)
    with pytest.raises(ValueError, match=r"^[^\n]*other.jsonl, line 2, is not a network's result"):
        merge(study, path, changed_line(other, whole, WRONG[name]))
    assert path.read_bytes() == before
    assert merge(study, path, changed_line(other, whole, lambda line: None)) == 5


def test_hardware_in_results_is_no_markup_on_a_page(whole, tmp_path):
    evil = "<b>x</b> ![a](javascript:x) `c` $d$ www.e.f\n\n# \u202e\x1b[31m"
    file_of(tmp_path).parent.mkdir(parents=True)
    changed_line(file_of(tmp_path), whole, lambda line: line["cost"].update(
        machine=evil, version=evil))  # fmt: skip
    made = Reproduction("kim2018", "fig99", "Figure 99", "a second", make, study=study_of())
    reproduce([made], at(tmp_path), tmp_path / "papers")
    page = (tmp_path / "papers/kim2018.md").read_text()
    safe = (r"\<b\>x\</b\> \!\[a\](javascript\:x) \`c\` \$d\$ www\.e.f  \# \\u202e"
            r"\\x1b\[31m")  # fmt: skip
    assert page.count(safe) == 2
    assert not any(line.startswith("# \\") for line in page.splitlines())


@pytest.mark.parametrize("error", [KeyError("kl"), IndexError("x\ny"), TypeError("no")])
def test_results_that_cannot_be_drawn_are_one_line_that_names_their_file(error, whole, tmp_path):
    def draw(one, results):
        raise error

    file_of(tmp_path).parent.mkdir(parents=True)
    file_of(tmp_path).write_bytes(file_of(whole).read_bytes())
    made = Reproduction("kim2018", "fig99", "Figure 99", "a second", draw, study=study_of())
    with pytest.raises(ValueError, match=r"^[^\n]*fig99 cannot be drawn from .*tiny.jsonl.*") as it:
        reproduce([made], at(tmp_path), tmp_path / "papers")
    assert it.value.__cause__ is error
    with pytest.raises(type(error)):  # not from a file of results
        reproduce([dataclasses.replace(made, study=None, make=lambda one: draw(one, None))],
                  at(tmp_path), tmp_path / "papers")  # fmt: skip


def png(side, kind="PNG"):
    content = io.BytesIO()
    Image.new("1", (side, side)).save(content, kind)
    return base64.b64encode(content.getvalue()).decode()


def test_pictures_in_results_are_pngs_of_ordinary_size():
    assert decode_png(check_png(png(20))).shape == (20, 20, 3)
    for text in ("", "é", "%", "AAAA", png(20, "GIF"), png(5_000), png(20)[:20]):
        with pytest.raises(ValueError, match=r"^expected a PNG in base64 of at most 16,777,216"):
            check_png(text)
    with pytest.raises(ValueError, match="expected a PNG"):
        decode_png(png(500)[:120])  # cut off after its header


def test_numbers_are_kept_with_six_or_seven_digits(tmp_path):
    run = runs_of()[0]
    network = Network(run, {"step": [1], "terms/rate": [1 / 3]}, {"x": [2 / 3]}, COST)
    assert add_networks(study_of(), tmp_path / "x.jsonl", [network]) == 1
    (found,) = read_networks(tmp_path / "x.jsonl").values()
    assert (found.curves["terms/rate"], found.facts["x"]) == ([0.333333], [0.6666667])


def make(one, results):
    return Result({}, {}, (), f"{len(results.networks)} networks", "0")


def test_figures_are_drawn_from_the_networks_trained_so_far(tmp_path):
    said = []
    made = Reproduction("kim2018", "fig99", "Figure 99", "a second", make, study=study_of())
    folder = tmp_path / "papers"
    assert reproduce([made], at(tmp_path, networks=0, say=said.append), folder) == []
    assert "no network of kim2018 fig99 is trained yet" in said[-1]
    assert not (folder / "kim2018.md").exists()
    reproduce([made], at(tmp_path, networks=4), folder)
    assert "4 networks" in (folder / "kim2018.md").read_text()
    other = tmp_path / "other"
    train_studies([made], at(other), other / "papers")
    merge_results([made], [file_of(other)], folder, PlainConsole(quiet=True))
    reproduce([made], at(tmp_path, deadline=time.monotonic()), folder)
    assert "6 networks" in (folder / "kim2018.md").read_text()
    plain = dataclasses.replace(made, study=None)
    with pytest.raises(ValueError, match=r"--train-only is for figures drawn from a study, got"):
        train_studies([plain], at(other), other)
    with pytest.raises(ValueError, match="name one"):
        merge_results([plain], [file_of(other)], folder, None)


class KillsAt(Silent):
    """Kills the process at step 7."""

    def advance(self, step, rows):
        if step >= 7:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_study_continues_to_the_same_results(whole, tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "import test_papers_study as t; one = t.at(Path(sys.argv[2]), checkpoint_seconds=0.0,"
        "progress=t.KillsAt()); t.train_or_load(one, t.study_of())"
    )
    arguments = [str(Path(__file__).parent), str(tmp_path)]
    ended = subprocess.run([sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (tmp_path / "runs").exists()
    assert not file_of(tmp_path).exists()
    assert train_or_load(at(tmp_path), study_of()).complete
    assert content(tmp_path) == content(whole)


def test_results_of_runs_that_left_the_study_are_kept(whole, tmp_path):
    file_of(tmp_path).parent.mkdir(parents=True)
    file_of(tmp_path).write_bytes(file_of(whole).read_bytes())
    fewer = study_of(runs=runs_of(seeds=range(4))[:4])
    results = train_or_load(at(tmp_path), fewer)
    assert (len(results.networks), results.complete) == (4, True)
    assert len(read_networks(file_of(tmp_path))) == 7
    assert content(whole).items() <= content(tmp_path).items()


def test_the_first_runs_of_a_study_are_trained_first(tmp_path):
    beta, plain = runs_of()[:3], runs_of()[3:]
    begun = []

    class Watched(Silent):
        def begin(self, runs, step):
            begun.append([(run.objective.kind, run.seed) for run in runs])

    order = [beta[0], plain[0], plain[1], beta[1], beta[2], plain[2]]
    train_or_load(at(tmp_path, progress=Watched()), study_of(runs=order, lanes=2))
    assert begun == [
        [("beta-vae", 0), ("beta-vae", 1)],
        [("vae", 0), ("vae", 1)],
        [("beta-vae", 2)],
        [("vae", 2)],
    ]


def test_groups_wait_until_all_their_networks_are_trained(whole):
    study = study_of()
    networks = list(read_networks(file_of(whole)).values())

    def of_kind(run):
        return run.objective.kind

    some = Results(study, networks[:4]).groups(of_kind)
    assert {kind: (g.done, g.total, g.complete) for kind, g in some.items()} == {
        "beta-vae": (3, 3, True), "vae": (1, 3, False)
    }  # fmt: skip
    rates = some["beta-vae"].values("terms/rate")
    assert some["beta-vae"].mean("terms/rate").value == pytest.approx(rates.mean())
    ranked = [network.value("terms/rate") for network in some["beta-vae"].ranked("terms/rate")]
    assert ranked == sorted(rates, reverse=True)
    assert [n.run.seed for n in some["beta-vae"].keep("terms/rate")] == [0, 0]  # with pictures
    assert some["vae"].keep("terms/rate") == list(some["vae"].networks)
    assert np.isnan(Group((), 3).values("terms/rate")).all()


def add_some(study, folder, number, barrier):
    """Add every fourth network, as another machine does, which has its own temporary folder."""
    warnings.simplefilter("ignore")  # it may have to wait
    os.environ["UNWEAVE_HOST"] = f"host{number}"
    tempfile.tempdir = str(folder / f"temporary{number}")
    os.mkdir(tempfile.tempdir)
    barrier.wait(60)
    for run in study.runs[number::4]:
        add_networks(study, file_of(folder), [Network(run, {"step": []}, {}, COST)])


def test_results_that_machines_add_at_once_are_all_kept(tmp_path):
    """Each machine had a lock of its own, and lines were lost."""
    study, context = study_of(runs=runs_of(seeds=range(16))), multiprocessing.get_context("fork")
    facts = study, tmp_path, context.Barrier(4)
    machines = [
        context.Process(target=add_some, args=(*facts[:2], number, facts[2])) for number in range(4)
    ]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join(120)
        assert machine.exitcode == 0
    assert list(read_networks(file_of(tmp_path))) == [run.digest for run in study.runs]
    assert [each.name for each in file_of(tmp_path).parent.iterdir()] == ["tiny.jsonl"]
    assert not list(tmp_path.rglob(".workers/*"))


def test_a_network_that_another_process_trained_has_no_cost_of_this_one(tmp_path, monkeypatch):
    """Its steps used to be divided by the time that it took to read it."""
    monkeypatch.setattr("unweave.evaluation.tasks._LOOK_AGAIN", 0.0)
    here, study = at(tmp_path), study_of(runs=runs_of(seeds=range(1))[:1])
    (run,) = study.runs
    folder = here.store.folder(run)
    folder.create(run)
    context = multiprocessing.get_context("fork")
    held, ended = context.Event(), context.Event()

    def train_elsewhere():
        with folder.lock():
            held.set()
            ended.wait(60)
        train([run], run.data.load(here.device), here.store)

    other = context.Process(target=train_elsewhere)
    other.start()
    held.wait(60)

    class Waits(Silent):
        def note(self, text):
            ended.set()
            other.join()

    here.progress = Waits()
    (network,) = train_or_load(here, study).networks
    assert network.cost["seconds"] is None
