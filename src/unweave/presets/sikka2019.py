"""Sikka et al., A Closer Look at Disentangling in beta-VAE.  [Sikka2019]."""

from unweave.core.optimisers import Adam
from unweave.data import MNIST, Data, Mixing, MovingDigit
from unweave.latents import Gaussian
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.presets.base import Preset
from unweave.training.run import Run

_BATCH = "The paper gives no batch size; we use 100."
_BETAS = "The text does not list the values of beta; the grid is ours."


BATCH = 100  # ours: the paper gives none
MIXED_DIGITS = Mixing(
    columns=MNIST(),
    indices=(1, 3, 5, 7, 2, 0, 13, 15, 17, 4),  # the first digit of each class
)
MOVING_DIGIT = MovingDigit(digits=MNIST(), index=7, side=40)
MIXED_BETAS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 16.0, 25.0, 50.0)
MOVING_BETAS = (0.1, 0.25, 0.5, 1.0, 1.4, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 16.0)


def deep(data: Data, latents: int) -> Run:
    """Return a run of app. C: 1,000 epochs of 1,000 observations."""
    return Run(
        data=data,
        latent=Gaussian(latents),
        network=MLP(hidden=(256, 200, 200), activation="tanh"),
        likelihood=GaussianLikelihood(scale=1.0),
        objective=BetaVAE(beta=1.0),
        optimiser=Adam(lr=1e-3, betas=(0.9, 0.999)),
        batch_size=BATCH,
        steps=10_000,
        seed=0,
    )


_HALVES = tuple(tuple(1.0 if row == column else 0.5 for column in (0, 1)) for row in range(128))

PRESETS = (
    Preset(
        "sikka2019/linear",
        "Linear beta-VAE on two mixed sources, figure 1",
        "[Sikka2019] sec. IV and fig. 1",
        Run(
            data=Mixing(matrix=_HALVES, noise=1.0, observations=1000),
            latent=Gaussian(2),
            network=MLP(hidden=()),
            likelihood=GaussianLikelihood(scale=1.0),
            objective=BetaVAE(beta=1.0),
            optimiser=Adam(lr=1e-3, betas=(0.9, 0.999)),
            batch_size=100,
            steps=10_000,
            seed=0,
        ),
        {"objective.beta": (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)},
        (
            "The paper solves eq. 23 and trains nothing; `unweave.theory.solve` does that. Sample, "
            "optimiser and steps are ours, after app. C.",
            _BETAS,
            "The encoder's variances may depend on x here, as in eq. 20; at the optimum they do "
            "not.",
        ),
    ),
    Preset(
        "sikka2019/mixed-digits",
        "Deep beta-VAE on ten mixed MNIST digits, figure 2",
        "[Sikka2019] sec. V, app. C and fig. 2",
        deep(MIXED_DIGITS, 10),
        {"objective.beta": MIXED_BETAS, "seed": tuple(range(100))},
        (
            "Sec. V mixes ten digits, and app. C has k = 2 latents for all experiments; we use 10.",
            "Figure 2 has 100 initialisations, app. C 300.",
            "The paper does not say which digits; we take the first of each class.",
            _BATCH,
            _BETAS,
        ),
    ),
    Preset(
        "sikka2019/moving-digit",
        "Deep beta-VAE on one MNIST digit at random places, figure 3",
        "[Sikka2019] app. C and fig. 3",
        deep(MOVING_DIGIT, 2),
        {"objective.beta": MOVING_BETAS, "seed": tuple(range(300))},
        (
            "The paper names neither the digit nor the size of the canvas; ours is a 3 on 40 x 40 "
            "pixels.",
            "The paper does not say what p(x|z) is here; it is normal with variance 1 in sec. IV.",
            _BATCH,
            _BETAS,
        ),
    ),
)
