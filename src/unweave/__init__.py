"""unweave: learn, measure and explore decomposed representations.

>>> import unweave as uw
>>> uw.Product(style=uw.Gaussian(8), place=uw.Gaussian(2)).size
10
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unweave import aggregate, likelihoods, metrics, presets
    from unweave.data import Arrays, Folder, Lattice, Shapes2D, Shapes3D
    from unweave.fitted import Fitted, load
    from unweave.fitting import fit
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
    from unweave.monitor import Measure
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
    from unweave.presets import Preset, preset
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
    "Measure",
    "Noise",
    "Preset",
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
    "preset",
    "presets",
    "summaries",
    "tables",
    "write_report",
]

# The same names by the module that has them. Each is loaded when it is first asked for: torch takes
# seconds, and the help of the command line does without it.
_HOMES = {
    "data": "Arrays Folder Lattice Shapes2D Shapes3D",
    "fitted": "Fitted load",
    "fitting": "fit",
    "latents": "Bernoulli Categorical Gaussian GaussianMixture Laplace Product Sparse StudentT "
    "Uniform VampPrior",
    "measure": "describe evaluate summaries tables",
    "monitor": "Measure",
    "networks": "DCGAN MLP Conv Critic Esmaeili2019 Kim2018 Kim2018GAN Mathieu2019",
    "noise": "Noise",
    "objectives": "AAE DIPVAE HFVAE IWAE VAE WAE AlphaBetaVAE AnchorVAE BetaTCVAE BetaVAE "
    "CapacityVAE EntropyVAE FactorVAE InfoGAN InformationDropout InfoVAE InfoWGANGP Label "
    "LagrangianVAE divergences",
    "optimisers": "Adam",
    "presets": "Preset preset",
    "report": "write_report",
    "run": "Run",
    "schedules": "Cyclic Linear",
}

if not TYPE_CHECKING:  # a checker knows the names, and would take any other for one

    def __getattr__(name: str) -> object:
        """A public name, or a module of this package."""
        home = next((module for module, names in _HOMES.items() if name in names.split()), None)
        if home:
            value = getattr(import_module(f"unweave.{home}"), name)
        elif not name.startswith("_") and find_spec(f"unweave.{name}"):
            value = import_module(f"unweave.{name}")
        else:
            raise AttributeError(f"module 'unweave' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """What can be asked for."""
        return sorted({*globals(), *__all__})
