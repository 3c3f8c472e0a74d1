"""Figures on datasets that must be downloaded: users' images in their place, or stored results."""

from dataclasses import replace

import numpy as np
import pytest

from reproduced import COST, made_twice, sketches, workspace  # noqa: F401
from unweave.core.console import PlainConsole
from unweave.data import CelebA, InMemory
from unweave.data.dataset import DataNotFound
from unweave.metrics import Table
from unweave.networks import MLP
from unweave.papers import FIGURES, chosen, reproduce, with_own_images
from unweave.papers.esmaeili2019 import faces
from unweave.papers.kim2018 import unlabelled
from unweave.papers.kim2018.methods import DISTORTION, setting_of
from unweave.papers.mathieu2019 import sparsity
from unweave.studies.study import PICTURES, Network, Results, add_networks
from unweave.studies.training import train_or_load

ON_FILES = [("kim2018", "fig12"), ("kim2018", "fig13"), ("kim2018", "fig15"),
            ("esmaeili2019", "fig8"), ("mathieu2019", "fig4-celeba")]  # fmt: skip


@pytest.fixture
def images(tmp_path):
    """A file of 20 images of 8 x 8 pixels."""
    path = tmp_path / "My faces.npz"
    np.savez(path, images=np.random.default_rng(0).integers(0, 256, (20, 8, 8), np.uint8))
    return path


@pytest.fixture(autouse=True)
def _no_downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "none"))


def tiny(figure, kept):
    """Return a figure whose networks are small and trained for two steps."""
    study = figure.study
    runs = [replace(run, network=MLP((4,)), steps=2) for run in study.runs if kept(run)]
    measures = tuple(replace(measure, every=1, rows=20) for measure in study.measures)
    return replace(figure, study=replace(study, runs=runs, measures=measures))


def test_every_figure_on_a_dataset_to_download_has_a_study():
    found = {(each.paper, each.figure) for each in FIGURES
             if each.study and getattr(each.study.runs[0].data, "ABOUT", None)
             and each.study.runs[0].data.kind in ("celeba", "3dchairs", "3dfaces")}  # fmt: skip
    assert found == set(ON_FILES)


def test_a_study_on_own_images_differs_in_name_and_data(images):
    (fig15,) = chosen("kim2018", ["fig15"])
    (own,) = with_own_images([fig15], images)
    assert (own.figure, own.study.name) == ("fig15-my-faces", "celeba-my-faces")
    assert own.title == "Figures 15 and 39: CelebA, on the images of My faces"
    assert {run.data.shape for run in own.study.runs} == {(20, 8, 8)}
    assert {run.batch_size for run in own.study.runs} == {20}  # there are no more
    assert not own.study.keys.keys() & fig15.study.keys.keys()
    (again,) = with_own_images([own], images)
    assert (again.figure, again.study.keys) == (own.figure, own.study.keys)
    with pytest.raises(ValueError, match="got fig3: leave it out"):
        with_own_images(chosen("kim2018", ["fig3"]), images)


def test_stand_ins_name_the_array_and_not_a_file():
    for figure in (*chosen("kim2018", ["olivetti"]), *chosen("esmaeili2019", ["olivetti"])):
        assert figure.command.endswith("olivetti --data olivetti.npz")
        assert {type(run.data) for run in figure.study.runs} == {InMemory}
        assert {run.data.shape for run in figure.study.runs} == {(400, 64, 64)}


def test_a_stand_in_refuses_other_images(images):
    for paper in ("kim2018", "esmaeili2019"):
        with pytest.raises(ValueError, match="olivetti is about other images than those in My"):
            with_own_images(chosen(paper, ["olivetti"]), images)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.usefixtures("sketches", "quick_scores")
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (("kim2018", "fig15"), lambda run: setting_of(run) in unlabelled.SHOWN.items()),
        (("esmaeili2019", "fig8"), lambda run: run.seed < 2),
        (("mathieu2019", "fig4-celeba"), lambda run: sparsity.setting_of(run)[1] == 100),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_a_stand_in_from_training_to_the_page(name, kept, images, tmp_path):
    (figure,) = with_own_images([tiny(*chosen(name[0], [name[1]]), kept)], images)
    networks, page, _ = made_twice([figure], tmp_path, figure.study)
    assert "**A stand-in: 20 other images in place of CelebA.**" in page
    assert f"## {figure.title}" in page
    assert any("traversals" in network.facts.get(PICTURES, {}) for network in networks.values())


def test_without_its_data_a_study_has_stored_results(tmp_path, capsys):
    (figure,) = chosen("esmaeili2019", ["fig8"])
    console = PlainConsole()
    at, out = workspace(tmp_path / "runs", console), tmp_path / "out"
    at.start_figure(out)
    with pytest.raises(DataNotFound, match="celeba is not in"):
        train_or_load(at, figure.study)
    with pytest.raises(DataNotFound, match="`unweave data get celeba` explains how"):
        reproduce([figure], at, out)
    assert reproduce([figure, figure], at, out) == []  # the others are not left out for it
    assert "esmaeili2019 fig8 is not drawn: celeba is not in" in capsys.readouterr().out
    run = figure.study.runs[0]
    one = Network(run, {"step": []}, {"kl": [], "attributes": {}}, COST)
    add_networks(figure.study, figure.study.path(out), [one])
    assert [each.key for each in train_or_load(at, figure.study).networks] == [one.key]
    assert "Stored results are used." in capsys.readouterr().out


def results_of(study, errors):
    """Return results of all networks, whose errors depend on the method."""
    return Results(study, [
        Network(run, {"step": [1], DISTORTION: [errors[run.objective.kind] + 0.01 * run.seed]},
                {}, {})
        for run in study.runs
    ])  # fmt: skip


@pytest.mark.parametrize(("error", "verdict"), [(90, "pass"), (100, "undecided"), (110, "fail")])
def test_errors_of_both_methods_are_compared(error, verdict):
    errors = {"beta-vae": 100, "factor-vae": error}
    for study, prefix in ((unlabelled.STUDIES["celeba"], "FactorVAE"),
                          (unlabelled.STAND_IN, "(ours) On a stand-in: FactorVAE")):  # fmt: skip
        smaller, sensible = unlabelled.claims_of(results_of(study, errors))
        assert (smaller.verdict, sensible.verdict) == (verdict, "not comparable")
        assert smaller.statement.startswith(f"{prefix} has smaller")


def test_a_latent_that_follows_an_attribute_is_found():
    rng = np.random.default_rng(0)
    smiles, glasses = rng.integers(0, 2, (2, 200))
    codes = np.stack([rng.normal(size=200), 3 * smiles - rng.normal(size=200)], 1)
    table = Table(codes, np.stack([smiles, glasses], 1), factor_names=("Smiling", "Eyeglasses"))
    found = faces.attributes(table)
    assert found["Smiling"] > 0.95
    assert 0.5 <= found["Eyeglasses"] < 0.65
    assert faces.separation(-codes[:, 1], smiles > 0) == found["Smiling"]
    for area, verdict in ((0.9, "pass"), (0.6, "undecided")):
        facts = {"attributes": {"Smiling": 0.9, "Eyeglasses": area}}
        networks = [Network(run, {"step": []}, facts, {}) for run in faces.STUDY.runs]
        assert faces.attributes_claim(Results(faces.STUDY, networks)).verdict == verdict
    assert {run.data for run in faces.STUDY.runs} == {CelebA()}


def test_own_images_from_the_command_line(unweave, images, tmp_path):
    arguments = ("reproduce", "kim2018", "fig15", "--data", images, "--minutes", "0",
                 "--out", tmp_path / "out", "--store", tmp_path / "runs")  # fmt: skip
    code, _, err = unweave(*arguments)
    assert (code, "no network of kim2018 fig15-my-faces is trained yet" in err) == (0, True)
    code, _, err = unweave(*arguments[:4], tmp_path / "nothing.npz", *arguments[5:])
    assert (code, "nothing.npz" in " ".join(err.split())) == (2, True)
