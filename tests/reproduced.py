"""Desks at which reproductions are made in tests, and weights put into their models by hand."""

import numpy as np
import torch

from unweave.evaluation.model import FittedModel
from unweave.papers import Workspace
from unweave.training import Silent, train
from unweave.training.store import Store


def workspace(path, console=None):
    """A workspace that trains on the CPU and keeps runs under a path."""
    return Workspace(Store(path), torch.device("cpu"), Silent(), console)


def fitted(run):
    """A model of a run, trained in memory."""
    dataset = run.data.load(torch.device("cpu"))
    (outcome,) = train([run.resolve(dataset)], dataset)
    return FittedModel(outcome, dataset)


def put(model, **weights):
    """Weights into a trained model, by the names of its layers with __ for dots."""
    for name, value in weights.items():
        weight = model.trained.weights["model." + name.replace("__", ".")]
        weight.copy_(torch.from_numpy(value).reshape(weight.shape))


def put_closed_form(model, found):
    """The encoder and the decoder of `theory.solve`, into a linear model."""
    put(
        model,
        encoder__1__weight=np.concatenate([found.encoder, np.zeros_like(found.encoder)]),
        encoder__1__bias=np.concatenate([np.zeros(found.encoder.shape[0]), found.log_variances]),
        decoder__0__weight=found.decoder,
        decoder__0__bias=np.zeros(found.decoder.shape[0]),
    )
