"""unweave: learn, measure and explore decomposed representations.

>>> import unweave as uw
>>> uw.Product(style=uw.Gaussian(8), place=uw.Gaussian(2)).size
10
"""

from unweave import aggregate, likelihoods, metrics
from unweave.data import Arrays, Folder, Lattice, Shapes2D, Shapes3D
from unweave.fitted import Fitted, fit, load
from unweave.latents import (
    Bernoulli,
    Categorical,
    Gaussian,
    GaussianMixture,
    Laplace,
    Product,
    Sparse,
    StudentT,
    Uniform,
    VampPrior,
)
from unweave.measure import describe, evaluate, summaries, tables
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
from unweave.objectives import (
    AAE,
    DIPVAE,
    HFVAE,
    IWAE,
    VAE,
    WAE,
    AlphaBetaVAE,
    AnchorVAE,
    BetaTCVAE,
    BetaVAE,
    CapacityVAE,
    EntropyVAE,
    FactorVAE,
    InfoGAN,
    InformationDropout,
    InfoVAE,
    InfoWGANGP,
    Label,
    LagrangianVAE,
    divergences,
)
from unweave.optimisers import Adam
from unweave.report import write_report
from unweave.run import Run
from unweave.schedules import Cyclic, Linear

__version__ = "0.1.0"

__all__ = [
    "AAE",
    "DCGAN",
    "DIPVAE",
    "HFVAE",
    "IWAE",
    "MLP",
    "VAE",
    "WAE",
    "Adam",
    "AlphaBetaVAE",
    "AnchorVAE",
    "Arrays",
    "Bernoulli",
    "BetaTCVAE",
    "BetaVAE",
    "CapacityVAE",
    "Categorical",
    "Conv",
    "Critic",
    "Cyclic",
    "EntropyVAE",
    "Esmaeili2019",
    "FactorVAE",
    "Fitted",
    "Folder",
    "Gaussian",
    "GaussianMixture",
    "InfoGAN",
    "InfoVAE",
    "InfoWGANGP",
    "InformationDropout",
    "Kim2018",
    "Kim2018GAN",
    "Label",
    "LagrangianVAE",
    "Laplace",
    "Lattice",
    "Linear",
    "Mathieu2019",
    "Noise",
    "Product",
    "Run",
    "Shapes2D",
    "Shapes3D",
    "Sparse",
    "StudentT",
    "Uniform",
    "VampPrior",
    "aggregate",
    "describe",
    "divergences",
    "evaluate",
    "fit",
    "likelihoods",
    "load",
    "metrics",
    "summaries",
    "tables",
    "write_report",
]
