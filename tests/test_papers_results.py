"""Results of studies: which networks are trained, and figures drawn from committed results."""

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave as uw
from reproduced import workspace
from unweave.data import Pinwheel
from unweave.latents import GaussianMixture
from unweave.papers import FIGURES, Reproduction, Result, Workspace, reproduce
from unweave.papers.mathieu2019 import appc, fig3
from unweave.studies.drawing import figure_style
from unweave.studies.images import pack_array, unpack_array
from unweave.studies.study import PICTURES, NotTrained, Study, read_networks
from unweave.studies.training import train_or_load
from unweave.studies.workspace import today, version
from unweave.training import Silent
from unweave.training.records import check_form
from unweave.training.store import Store

PAGES = Path(__file__).parent.parent / "docs/papers"
DATA = Pinwheel(points_per_cluster=10)


def described(model):
    return {"mean": float(model.encode(model.observations([0])).mean()), PICTURES: "x" * 50}


def small_study(steps=30, lanes=None, describe=described, **changes):
    """Four networks with a number among their settings that seven digits do not hold."""
    runs = [
        uw.Run(data=DATA, latent=GaussianMixture(scales=math.sqrt(0.015)), network=uw.MLP((4,)),
               likelihood=uw.likelihoods.Gaussian(), batch_size=10, steps=steps, seed=seed,
               objective=uw.BetaVAE(beta=beta), **changes)
        for beta in (1.0, 2.0) for seed in (0, 1)
    ]  # fmt: skip
    return Study("paper", "small", runs, describe, lanes=lanes,
                 pictured=lambda results: results.networks[:1])  # fmt: skip


def at(path, store="runs", progress=None, **fields):
    one = Workspace(Store(path / store), torch.device("cpu"), progress or Silent(), **fields)
    one.start_figure(path / "out")
    return one


class Watched(Silent):
    """Progress that records how many lanes begin, and at which step."""

    def __init__(self):
        self.begun = []

    def begin(self, runs, step):
        self.begun.append((len(runs), step))


def test_stored_results_need_no_training_in_an_empty_store(tmp_path):
    first = at(tmp_path)
    trained = train_or_load(first, small_study())
    assert trained.complete
    assert (first.trained, len(first.costs)) == (4, 4)
    second = at(tmp_path, "elsewhere")
    assert train_or_load(second, small_study()).networks == trained.networks
    assert (second.trained, len(second.costs)) == (0, 4)
    assert not (tmp_path / "elsewhere").exists()
    assert [network.run for network in trained.networks] == small_study().runs
    assert [PICTURES in facts for facts in trained.facts] == [True, False, False, False]


def test_a_study_limits_how_many_networks_train_at_once(tmp_path):
    watched = Watched()
    train_or_load(at(tmp_path, progress=watched), small_study(lanes=3))
    assert watched.begun == [(3, 0), (1, 0)]


def test_figures_that_need_all_networks_raise_if_some_are_missing(tmp_path):
    results = train_or_load(at(tmp_path, networks=3), small_study())
    assert (len(results.networks), len(results.missing)) == (3, 1)
    with pytest.raises(NotTrained, match="1 of 4 networks are not trained yet"):
        _ = results.facts
    broken = small_study(optimiser=uw.Adam(lr=1e30))
    with pytest.raises(FloatingPointError, match="not finite"):
        _ = train_or_load(at(tmp_path / "broken"), broken).facts


def test_packed_arrays_are_unpacked_unchanged():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 3))
    np.testing.assert_allclose(unpack_array(pack_array(values), -1, 3), values, rtol=1e-3)
    pixels = rng.integers(0, 256, (2, 3, 4), dtype=np.uint8)
    assert (unpack_array(pack_array(pixels), 2, 3, 4, dtype=np.uint8) == pixels).all()


def test_the_page_says_when_and_where_networks_were_trained(tmp_path):
    def make(workspace, results):
        return Result({}, {}, (), "", str(len(results.facts)))

    made = Reproduction("paper", "fig1", "Figure 1", "a second", make, study=small_study(2))
    reproduce([made], at(tmp_path, networks=1), tmp_path / "some")
    assert not (tmp_path / "some/paper.md").exists()  # a figure that needs all networks
    for trained in (4, 0):
        one = at(tmp_path, f"store {trained}")
        reproduce([made], one, tmp_path / "out")
        assert one.trained == trained
        page = (tmp_path / "out/paper.md").read_text()
        assert f"`: 4 {'networks trained' if trained else 'stored networks, trained'} in " in page
        stamp = re.escape(f"{today()}, by unweave {version()}; drawn on {today()}")
        assert re.search(f" CPU threads?, {stamp}", page)
        assert f" by unweave {version()}. Seeds: 4." in page


def test_a_figure_none_of_whose_networks_is_trained_is_not_drawn(tmp_path):
    def make(workspace, results):
        return Result({}, {}, (), "", "0", networks=(len(results.networks) - 3, 1))

    made = Reproduction("paper", "fig1", "Figure 1", "a second", make, study=small_study())
    reproduce([made], at(tmp_path, networks=3), tmp_path / "out")
    assert not (tmp_path / "out/paper.md").exists()
    reproduce([made], at(tmp_path), tmp_path / "out")
    assert (tmp_path / "out/paper.md").exists()


def test_a_page_counts_the_networks_that_its_figure_uses(tmp_path):
    def make(workspace, results):
        return Result({}, {}, (), "", "0", networks=(1, 1), used=(results.networks[0].key,))

    made = Reproduction("paper", "fig1", "Figure 1", "a second", make, study=small_study(2))
    for count in ("1 network trained in ", "1 stored network, trained in "):
        reproduce([made], at(tmp_path), tmp_path / "out")
        assert f"`: {count}" in (tmp_path / "out/paper.md").read_text()


SLOW = {("kim2018", "fig16")}  # computes scores
DRAWN = [
    pytest.param(
        made,
        id=f"{made.paper} {made.figure}",
        marks=[pytest.mark.slow] if (made.paper, made.figure) in SLOW else [],
    )
    for made in FIGURES
    if made.study and made.study.path(PAGES).exists()
]
SMALLER = {  # numbers of a module that make drawings small, or the rest of a figure
    ("mathieu2019", "fig3"): (fig3, {"SIDE": 8}, None),
    ("mathieu2018", "fig2"): (fig3, {"SIDE": 8}, None),
    ("mathieu2019", "appc"): (
        appc, {"SIZE": 100, "DIMENSIONS": (1, 2), "SCALES": (0.1,), "DATA_SETS": (100, 200)}, 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("made", DRAWN)
def test_committed_results_give_the_stored_claims_without_training(made, tmp_path, monkeypatch):
    """In an empty store, without any dataset, and from the files of the paper's results alone."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "no data"))
    module, changes, some = SMALLER.get((made.paper, made.figure), (None, {}, None))
    for name, value in changes.items():
        monkeypatch.setattr(module, name, value)
    path = made.study.path(tmp_path / "out")
    path.parent.mkdir(parents=True)
    for file in made.study.path(PAGES).parent.glob("*.jsonl"):
        shutil.copy(file, path.parent)
    one = workspace(tmp_path / "runs")
    one.networks = 0  # a study may be incomplete, and none of it is to be trained here
    one.start_figure(tmp_path / "out")
    with figure_style():
        result = made.make(one, train_or_load(one, made.study))
    assert one.trained == 0
    assert not (tmp_path / "runs").exists()
    claims = [dataclasses.asdict(claim) for claim in result.claims]
    committed = PAGES / made.paper / f"{made.figure}.json"
    if result.networks and not result.networks[0]:
        assert not committed.exists()
        return
    stored = json.loads(committed.read_text())["claims"]
    if some is None:
        assert claims == stored
    else:
        assert sum(claim in stored for claim in claims) >= some


STUDIES = {made.study.name: made.study for made in FIGURES if made.study}


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_study_has_a_form_of_its_facts(study):
    """Committed facts have it, and they would not if one of them were of another kind."""
    with pytest.raises(ValueError, match="Field required"):
        check_form(study.form, {})
    for network in list(read_networks(study.path(PAGES), study).values())[::50]:
        for name in study.form.__annotations__.keys() & network.facts.keys():
            with pytest.raises(ValueError, match=f"^{name}"):
                check_form(study.form, network.facts | {name: None})


@pytest.mark.parametrize("made", DRAWN)
def test_committed_results_hold_every_network_of_a_study_once(made):
    networks = read_networks(made.study.path(PAGES))
    lines = made.study.path(PAGES).read_text().splitlines()
    assert len(networks) == len(lines)
    assert list(networks) == [key for key in made.study.keys if key in networks]
    assert all(network.cost["machine"] for network in networks.values())
