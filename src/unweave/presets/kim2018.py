"""Kim and Mnih, Disentangling by Factorising.  [Kim2018]."""

from __future__ import annotations

from unweave.data import Shapes2D
from unweave.latents import Gaussian
from unweave.likelihoods import Bernoulli
from unweave.networks import Critic, Kim2018
from unweave.objectives import BetaVAE, FactorVAE
from unweave.optimisers import Adam
from unweave.presets.base import Preset
from unweave.run import Run

_SEEDS = tuple(range(10))
_MODEL = Adam(lr=1e-4, betas=(0.9, 0.999))  # app. A
_CRITIC = Critic(width=1000, depth=6, slope=0.2, optimiser=Adam(lr=1e-4, betas=(0.5, 0.9)))

_RENDERED = "2D Shapes is dSprites; `shapes2d` renders the same images, so nothing is downloaded."
_SLOPE = "The paper does not give the slope of the leaky ReLUs; 0.2 is usual."

PRESETS = (
    Preset(
        "kim2018/shapes2d-beta-vae",
        "beta-VAE on 2D Shapes, the baseline of figures 4 and 5",
        "[Kim2018] app. A, table 1 and fig. 4",
        Run(
            data=Shapes2D(),
            latent=Gaussian(10),
            network=Kim2018(hidden=128),
            likelihood=Bernoulli(),
            objective=BetaVAE(beta=4.0),
            optimiser=_MODEL,
            batch_size=64,
            steps=300_000,
            seed=0,
        ),
        grid={"objective.beta": (1, 4, 6, 10), "seed": _SEEDS},
        notes=(_RENDERED,),
    ),
    Preset(
        "kim2018/shapes2d-factor-vae",
        "FactorVAE on 2D Shapes, figures 4 to 7",
        "[Kim2018] app. A, table 1 and fig. 4",
        Run(
            data=Shapes2D(),
            latent=Gaussian(10),
            network=Kim2018(hidden=128),
            likelihood=Bernoulli(),
            objective=FactorVAE(gamma=35.0, critic=_CRITIC),
            optimiser=_MODEL,
            batch_size=64,
            steps=300_000,
            seed=0,
        ),
        grid={"objective.gamma": (10, 20, 30, 35, 40, 100), "seed": _SEEDS},
        notes=(_RENDERED, _SLOPE),
    ),
)
