"""The demo: a dataset small enough to learn in minutes on two cores."""

from __future__ import annotations

from unweave.core.optimisers import Adam
from unweave.core.schedules import Linear
from unweave.data import Shapes2D
from unweave.latents import Gaussian
from unweave.likelihoods import Bernoulli
from unweave.networks import Conv
from unweave.objectives import BetaVAE
from unweave.training.run import Run


def demo_run(seed: int) -> Run:
    """An ellipse in six sizes at 32 x 32 places, drawn on 32 x 32 pixels, and a small network.

    Beta falls from above the point where every latent dies to 4. The latents come alive one
    after the other, the most useful first, while the encodings still overlap widely; so the map
    from images to codes does not fold, which it does in most seeds when beta starts low.
    """
    return Run(
        data=Shapes2D(side=32, shapes=("ellipse",), orientations=1),
        latent=Gaussian(6),
        network=Conv(base=16, hidden=128),
        likelihood=Bernoulli(),
        objective=BetaVAE(beta=Linear(50.0, 4.0, steps=5_000)),
        optimiser=Adam(lr=1e-3),
        steps=7_000,
        seed=seed,
    )
