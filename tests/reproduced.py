"""Workspaces, trained models, and models with known weights, for tests of reproductions."""

import dataclasses

import numpy as np
import pytest
import torch

from published_files import idx
from unweave.evaluation.model import FittedModel
from unweave.papers import Workspace, reproduce
from unweave.studies.study import read_networks, stored_results
from unweave.training import Silent, train
from unweave.training.store import Store

COST = {"seconds": 1.0, "lanes": 1, "device": "cpu", "machine": "a CPU", "precision": "fp32"}


def workspace(path, console=None):
    """Return a workspace that trains on the CPU and stores runs under a path."""
    return Workspace(Store(path), torch.device("cpu"), Silent(), console)


@pytest.fixture
def sketches(monkeypatch):
    """Write drawings of few pixels, without layout and SVG, which take longer than all else."""

    def save(figure, stem):
        figure.set_layout_engine("none")
        figure.savefig(stem.with_suffix(".png"), dpi=10)
        return [stem.with_suffix(".png")]

    monkeypatch.setattr("unweave.studies.page.save_figure", save)


def rings(count):
    """Rings of random thickness and width, (count, 28, 28) bytes, with labels 0 to 9 in turn."""
    rng = np.random.default_rng(0)
    v, u = np.mgrid[:28, :28] - 13.5
    radius, thick = rng.uniform(4, 11, (count, 1, 1)), rng.uniform(1, 3, (count, 1, 1))
    far = np.abs(np.hypot(u * 10 / radius, v) - 10) < thick
    return (255 * far).astype(np.uint8), (np.arange(count) % 10).astype(np.uint8)


@pytest.fixture
def digit_files(tmp_path, monkeypatch):
    """Files of MNIST and Fashion-MNIST with rings in place of their images."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("unweave.data.published.base.verify", lambda *_: None)  # files of ours
    images, labels = rings(200)
    for kind in ("mnist", "fashion-mnist"):
        folder = tmp_path / "data" / kind
        folder.mkdir(parents=True)
        for part in ("train", "t10k"):
            (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
            (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels))


def made_twice(figures, tmp_path, study):
    """Reproduce figures twice; the second time nothing is trained, and the claims are the same."""
    at, out = workspace(tmp_path / "runs"), tmp_path / "pages"
    figures = [dataclasses.replace(made, study=study) for made in figures]
    first = reproduce(figures, at, out)
    kept = read_networks(study.path(out))
    assert [*kept] == [run.digest for run in study.runs]
    assert all(network.failure is None for network in kept.values())
    other = workspace(tmp_path / "none")
    assert reproduce(figures, other, out) == first
    assert other.trained == 0
    assert not (tmp_path / "none").exists() or not any((tmp_path / "none").iterdir())
    return kept, (out / f"{study.paper}.md").read_text(), stored_results(study, out)


def fitted(run):
    """Train a run in memory and return the model."""
    dataset = run.data.load(torch.device("cpu"))
    (outcome,) = train([run.resolve(dataset)], dataset)
    return FittedModel(outcome, dataset)


def put(model, **weights):
    """Set weights of a trained model, by the names of its layers with __ for dots."""
    for name, value in weights.items():
        weight = model.trained.weights["model." + name.replace("__", ".")]
        weight.copy_(torch.from_numpy(value).reshape(weight.shape))


def put_closed_form(model, found):
    """Set the weights of a linear model to the encoder and the decoder of `theory.solve`."""
    put(
        model,
        encoder__1__weight=np.concatenate([found.encoder, np.zeros_like(found.encoder)]),
        encoder__1__bias=np.concatenate([np.zeros(found.encoder.shape[0]), found.log_variances]),
        decoder__0__weight=found.decoder,
        decoder__0__bias=np.zeros(found.decoder.shape[0]),
    )
