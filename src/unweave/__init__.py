"""unweave: learn, measure and explore decomposed representations.

>>> import unweave as uw
>>> uw.Product(style=uw.Gaussian(8), place=uw.Gaussian(2)).size
10
"""

from unweave import aggregate, likelihoods, metrics
from unweave.data import Arrays, Folder, Lattice, Shapes2D
from unweave.fitted import Fitted, fit, load
from unweave.latents import Gaussian, Product
from unweave.networks import (
    DCGAN,
    MLP,
    Conv,
    Critic,
    Esmaeili2019,
    Kim2018,
    Kim2018GAN,
    Mathieu2019,
)
from unweave.noise import Noise
from unweave.objectives import VAE, BetaTCVAE, BetaVAE, FactorVAE
from unweave.optimisers import Adam
from unweave.report import write_report
from unweave.run import Run
from unweave.schedules import Cyclic, Linear

__version__ = "0.1.0"

__all__ = [
    "DCGAN",
    "MLP",
    "VAE",
    "Adam",
    "Arrays",
    "BetaTCVAE",
    "BetaVAE",
    "Conv",
    "Critic",
    "Cyclic",
    "Esmaeili2019",
    "FactorVAE",
    "Fitted",
    "Folder",
    "Gaussian",
    "Kim2018",
    "Kim2018GAN",
    "Lattice",
    "Linear",
    "Mathieu2019",
    "Noise",
    "Product",
    "Run",
    "Shapes2D",
    "aggregate",
    "fit",
    "likelihoods",
    "load",
    "metrics",
    "write_report",
]
