"""Small worlds, runs and helpers shared by the tests."""

import torch

import unweave as uw
from unweave import likelihoods
from unweave.objectives import Batch
from unweave.run import Run

CPU = torch.device("cpu")
SMALL = uw.Shapes2D(side=16, shapes=("square", "ellipse"), scales=2, orientations=1, positions=8)
CRITIC = uw.Critic(width=16, depth=2, optimiser=uw.Adam(lr=1e-3, betas=(0.5, 0.9)))

# One member of every objective, with weights away from the neutral ones.
OBJECTIVES = [
    uw.VAE(),
    uw.BetaVAE(beta=3.0),
    uw.FactorVAE(gamma=5.0, critic=CRITIC),
    uw.BetaTCVAE(alpha=0.5, beta=4.0, gamma=2.0),
    uw.BetaTCVAE(beta=4.0, estimator="weighted"),
]
LATENTS = [
    uw.Gaussian(3),
    uw.Product(style=uw.Gaussian(2), place=uw.Product(x=uw.Gaussian(1), y=uw.Gaussian(1))),
]

# One member of every likelihood, and every way of learning a scale.
LIKELIHOODS = [
    likelihoods.Bernoulli(),
    likelihoods.ContinuousBernoulli(),
    likelihoods.Gaussian(scale=0.7),
    likelihoods.Gaussian(scale=0.7, learn="shared"),
    likelihoods.Gaussian(scale=0.7, learn="each"),
    likelihoods.Laplace(scale=0.3),
]


def small_run(**fields):
    defaults = dict(
        data=SMALL, network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, steps=50,
        optimiser=uw.Adam(lr=1e-3), likelihood=uw.likelihoods.Bernoulli(),
    )  # fmt: skip
    return Run(**(defaults | fields))


def nets_and_batch(run, seed=0, size=12):
    """Fresh networks of a run and a batch of its data, in float64."""
    torch.manual_seed(seed)
    world = SMALL.load(CPU)
    nets = run.build(world.shape).double()
    index = torch.randperm(world.size)[:size]
    return nets, Batch(world.images(index).double(), world.size)


def play_turns(objective, nets, batch, noise):
    """All turns of an objective on the same batch: {player: terms}."""
    memo, played = {}, {}
    for turn in objective.turns:
        played[turn.player], memo = turn.loss(nets, batch, noise, memo)
    return played
