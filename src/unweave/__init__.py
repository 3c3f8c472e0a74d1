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
    from unweave.core.noise import Noise
    from unweave.core.optimisers import Adam
    from unweave.core.schedules import Cyclic, Linear
    from unweave.core.spec import spec
    from unweave.data import Arrays, Folder, Lattice, Shapes2D, Shapes3D
    from unweave.evaluation.compare import compare
    from unweave.evaluation.comparison import Comparison
    from unweave.evaluation.evaluate import describe, evaluate, summaries, tables
    from unweave.evaluation.fit import fit
    from unweave.evaluation.loading import load
    from unweave.evaluation.model import FittedModel
    from unweave.evaluation.monitor import Measure
    from unweave.executors.local import Local
    from unweave.executors.ray import Ray
    from unweave.executors.slurm import Slurm
    from unweave.explorer.explore import explore
    from unweave.explorer.share import share
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
    from unweave.networks import (
        DCGAN,
        MLP,
        Conv,
        Critic,
        Esmaeili2019,
        Kim2018,
        Kim2018GAN,
        Mathieu2019,
        Modules,
    )
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
    from unweave.presets import Preset, preset
    from unweave.report import write_comparison, write_report
    from unweave.training.run import Run

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
    "Comparison",
    "Conv",
    "Critic",
    "Cyclic",
    "EntropyVAE",
    "Esmaeili2019",
    "FactorVAE",
    "FittedModel",
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
    "Local",
    "Mathieu2019",
    "Measure",
    "Modules",
    "Noise",
    "Preset",
    "Product",
    "Ray",
    "Run",
    "Shapes2D",
    "Shapes3D",
    "Slurm",
    "Sparse",
    "StudentT",
    "Uniform",
    "VampPrior",
    "aggregate",
    "compare",
    "describe",
    "divergences",
    "evaluate",
    "explore",
    "fit",
    "likelihoods",
    "load",
    "metrics",
    "preset",
    "presets",
    "share",
    "spec",
    "summaries",
    "tables",
    "write_comparison",
    "write_report",
]

# The same names by the module that has them. Each is loaded when it is first asked for: torch takes
# seconds, and the help of the command line does without it.
_HOMES = {
    "data": "Arrays Folder Lattice Shapes2D Shapes3D",
    "evaluation.loading": "load",
    "evaluation.model": "FittedModel",
    "evaluation.fit": "fit",
    "latents": "Bernoulli Categorical Gaussian GaussianMixture Laplace Product Sparse StudentT "
    "Uniform VampPrior",
    "evaluation.compare": "compare",
    "evaluation.comparison": "Comparison",
    "evaluation.evaluate": "describe evaluate summaries tables",
    "evaluation.monitor": "Measure",
    "executors": "Local Ray Slurm",
    "explorer.explore": "explore",
    "explorer.share": "share",
    "networks": "DCGAN MLP Conv Critic Esmaeili2019 Kim2018 Kim2018GAN Mathieu2019 Modules",
    "core.noise": "Noise",
    "objectives": "AAE DIPVAE HFVAE IWAE VAE WAE AlphaBetaVAE AnchorVAE BetaTCVAE BetaVAE "
    "CapacityVAE EntropyVAE FactorVAE InfoGAN InformationDropout InfoVAE InfoWGANGP Label "
    "LagrangianVAE divergences",
    "core.optimisers": "Adam",
    "presets": "Preset preset",
    "report": "write_comparison write_report",
    "training.run": "Run",
    "core.schedules": "Cyclic Linear",
    "core.spec": "spec",
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
