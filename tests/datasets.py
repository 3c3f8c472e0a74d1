"""Small datasets, runs and helpers shared by the tests."""

import torch

import unweave as uw
from unweave import likelihoods
from unweave.core.noise import Noise
from unweave.objectives import Batch
from unweave.training.run import Run

CPU = torch.device("cpu")
SMALL = uw.Shapes2D(side=16, shapes=("square", "ellipse"), scales=2, orientations=1, positions=8)
DATASET = SMALL.load(CPU)
CRITIC = uw.Critic(width=16, depth=2, optimiser=uw.Adam(lr=1e-3, betas=(0.5, 0.9)))

D = uw.divergences
DIVERGENCES = [
    D.ExclusiveKL(),
    D.InclusiveKL(),
    D.MMD(),
    D.MMD(kernel="imq-dimensionwise", blockwise=True),
    D.Moments(),
    D.SlicedWasserstein(projections=10),
    D.DensityRatio(critic=CRITIC),
    D.Adversary(critic=CRITIC),
]

# At least one of every objective, with weights away from the neutral point: first those of
# autoencoders, then those with networks of their own.
OBJECTIVES = [
    uw.VAE(),
    uw.BetaVAE(beta=3.0),
    uw.CapacityVAE(gamma=10.0, capacity=5.0),
    uw.EntropyVAE(beta=2.0),
    uw.FactorVAE(gamma=5.0, critic=CRITIC),
    uw.BetaTCVAE(alpha=0.5, beta=4.0, gamma=2.0),
    uw.BetaTCVAE(beta=4.0, estimator="weighted"),
    uw.HFVAE(alpha=0.5, beta=4.0, gamma=3.0),
    uw.LagrangianVAE(information=0.5, likelihood=0.4, marginal_kl=2.0, particles=3),
    uw.InformationDropout(beta=0.5, gamma=2.0),
    uw.AnchorVAE(weight=0.5),
    uw.DIPVAE(off_diagonal=2.0, diagonal=3.0),
    uw.DIPVAE(off_diagonal=2.0, diagonal=3.0, covariance_of="codes"),
    *(uw.AlphaBetaVAE(alpha=2.0, beta=0.5, divergence=d) for d in DIVERGENCES),
    uw.InfoVAE(alpha=0.2, lam=3.0),
    uw.InfoVAE(alpha=0.2, lam=3.0, divergence=D.DensityRatio(critic=CRITIC)),
    uw.WAE(weight=5.0),
    uw.WAE(weight=5.0, divergence=D.Adversary(critic=CRITIC)),
    uw.AAE(gamma=2.0, divergence=D.DensityRatio(critic=CRITIC)),
    uw.IWAE(particles=3),
]
ADVERSARIAL = [
    uw.InfoGAN(information=0.7, noise_size=2),
    uw.InfoWGANGP(information=0.5, penalty=5.0, critic_steps=2, noise_size=2),
]
DEPENDENT = uw.Product(
    what=uw.Categorical(3, learn=True), style=uw.Gaussian(2), colour=uw.Categorical(2, given="what")
)
NESTED = uw.Product(style=uw.Gaussian(2), place=uw.Product(x=uw.Gaussian(1), y=uw.Gaussian(1)))
MIXED = uw.Product(  # full covariances, classes, bits and Student's t
    style=uw.Gaussian(2, learn="covariance", encoding="full"),
    what=uw.Product(shape=uw.Categorical(3), flags=uw.Bernoulli(2), size=uw.StudentT(2, df=4)),
)
LATENTS = [
    uw.Gaussian(3),
    uw.Gaussian(3, variances=(2.0, 0.7, 0.3)),
    uw.Gaussian(3, learn="variances"),
    uw.Gaussian(3, learn="covariance", encoding="full"),
    uw.StudentT(3, df=5),
    uw.StudentT(2, df=3, encoding="full"),
    uw.Sparse(3, spike_weight=0.8, spike_scale=0.05),
    uw.Laplace(3, scale=0.7),
    uw.Uniform(3),
    uw.GaussianMixture(),
    uw.GaussianMixture(centres=((0.0, 1.0, 0.0), (1.0, 0.0, -1.0)), scales=0.5, learn=True),
    uw.VampPrior(3, components=4),
    uw.Categorical(4),
    uw.Categorical(3, hard=True, learn=True),
    uw.Bernoulli(3, probability=0.3),
    DEPENDENT,
    NESTED,
    MIXED,
]

# One of every likelihood, and of every option for learning a scale or dispersion.
LIKELIHOODS = [
    likelihoods.Bernoulli(),
    likelihoods.ContinuousBernoulli(),
    likelihoods.Gaussian(scale=0.7),
    likelihoods.Gaussian(scale=0.7, learn="shared"),
    likelihoods.Gaussian(scale=0.7, learn="each"),
    likelihoods.Laplace(scale=0.3),
    likelihoods.Poisson(),
    likelihoods.NegativeBinomial(dispersion=0.5, learn="nothing"),
    likelihoods.NegativeBinomial(dispersion=0.5),
    likelihoods.NegativeBinomial(dispersion=0.5, learn="each"),
]


# Supported combinations; the others are refused with a reason.
PAIRS = [(o, latent) for o in OBJECTIVES for latent in LATENTS if o.incompatibility(latent) is None]
# Every objective and every latent space at least three times, for slower tests.
CROSS = [
    (o, latent)
    for o, latent in PAIRS
    if latent in (LATENTS[0], MIXED) or o in (OBJECTIVES[1], OBJECTIVES[4], OBJECTIVES[8])
]
SHAPE = (4,)


def prior(latent, dtype=torch.float64):
    """Return p(z), with pseudo-inputs and an encoder for priors that need them."""
    module = latent.prior(SHAPE).to(dtype)
    weight = Noise(1).normal((latent.outputs, *SHAPE), "weight", dtype)
    for name, parameter in module.named_parameters():
        if name.endswith("inputs"):
            parameter.data = Noise(2).uniform(parameter.shape, name, dtype)
    return module(lambda x: x @ weight.T)


def small_run(**fields):
    defaults = dict(
        data=SMALL, network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, steps=50,
        optimiser=uw.Adam(lr=1e-3), likelihood=uw.likelihoods.Bernoulli(),
    )  # fmt: skip
    return Run(**(defaults | fields))


def nets_and_batch(run, seed=0, size=12):
    """Return fresh networks of a run and a batch of its data, in float64."""
    torch.manual_seed(seed)
    nets = run.build(DATASET.shape).double()
    index = torch.randperm(DATASET.size)[:size]
    return nets, Batch(DATASET.images(index).double(), DATASET.size)


def run_updates(objective, nets, batch, noise):
    """Run all updates of an objective on the same batch; return {player: terms}."""
    carry, played = {}, {}
    for turn in objective.updates:
        played[turn.player], carry = turn.loss(nets, batch, noise, carry)
    return played


def batch_rows(lanes, step, turn):
    """Return the indices (L, B) that every lane sees in an update of a step."""
    lanes.sampler.seek(step)
    return lanes.sampler.indices(torch.tensor(step), lanes.sampler.orders)[turn]


def run_update(lanes, turn, carry):
    """Make one update of the next step; return means and shares of the terms, and the carry."""
    weights, seen = lanes.read(lanes.clock, lanes.weights.values, lanes.sampler.orders)
    return lanes.make_update(turn, weights, seen[turn], carry)
