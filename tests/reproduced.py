"""Workspaces, trained models, and models with known weights, for tests of reproductions."""

import numpy as np
import pytest
import torch

from unweave.evaluation.model import FittedModel
from unweave.papers import Workspace
from unweave.training import Silent, train
from unweave.training.store import Store


def workspace(path, console=None):
    """Return a workspace that trains on the CPU and stores runs under a path."""
    return Workspace(Store(path), torch.device("cpu"), Silent(), console)


@pytest.fixture
def sketches(monkeypatch):
    """Write drawings of few pixels, and no SVG, which takes longer than all else."""

    def save(figure, stem):
        figure.savefig(stem.with_suffix(".png"), dpi=10)
        return [stem.with_suffix(".png")]

    monkeypatch.setattr("unweave.studies.page.save_figure", save)


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
