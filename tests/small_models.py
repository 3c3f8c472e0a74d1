"""Random networks of a small model in float64, a batch, and losses on it."""

from types import SimpleNamespace

import torch

import unweave as uw
from datasets import run_updates
from unweave.core.noise import Noise
from unweave.objectives import Batch, total

f64 = torch.float64
SHAPE, COUNT = (4,), 12
SIZE = 100  # of the dataset that the batch is supposed to come from
X = Noise(9).normal((COUNT, *SHAPE), "x", f64)
NOISE = Noise(3, 1)


def nets_of(latent, objective=None):
    """Random networks of a small model; the same for latents of the same sizes."""
    torch.manual_seed(0)
    parts = (uw.MLP((8,), "tanh"), uw.likelihoods.Gaussian(scale=0.5), SHAPE)
    nets = (objective or uw.VAE()).build(latent, *parts).double()
    correlate(nets.model.prior)
    return nets


def correlate(prior):
    """Give learned covariances some dependence."""
    for name, parameter in prior.named_parameters():
        if name.endswith("below"):
            parameter.data = torch.linspace(0.9, -0.6, len(parameter), dtype=f64)
    return prior


def loss(objective, nets, size=SIZE, noise=NOISE):
    return total(run_updates(objective, nets, Batch(X, size), noise)["model"])


def loss_of(objective, passed, size=SIZE):
    """The loss of a forward pass that is given."""
    nets = SimpleNamespace(model=lambda x, noise: passed)
    return total(objective.updates[0].loss(nets, Batch(passed.x, size), NOISE, {})[0])
