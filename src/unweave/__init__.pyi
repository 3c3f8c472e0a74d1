"""The public names, and the modules that have them: `__init__.py` loads each at its first use."""

from unweave import (
    aggregate as aggregate,
    likelihoods as likelihoods,
    metrics as metrics,
    presets as presets,
)
from unweave.core.noise import Noise as Noise
from unweave.core.optimisers import Adam as Adam
from unweave.core.schedules import (
    Cyclic as Cyclic,
    Linear as Linear,
    Schedule as Schedule,
    Weight as Weight,
)
from unweave.core.spec import spec as spec
from unweave.data import (
    Arrays as Arrays,
    Folder as Folder,
    Lattice as Lattice,
    Shapes2D as Shapes2D,
    Shapes3D as Shapes3D,
)
from unweave.evaluation.compare import compare as compare
from unweave.evaluation.comparison import Comparison as Comparison
from unweave.evaluation.evaluate import (
    describe as describe,
    evaluate as evaluate,
    summaries as summaries,
    tables as tables,
)
from unweave.evaluation.fit import fit as fit
from unweave.evaluation.loading import load as load
from unweave.evaluation.model import FittedModel as FittedModel
from unweave.evaluation.monitor import Measure as Measure
from unweave.executors.local import Local as Local
from unweave.executors.ray import Ray as Ray
from unweave.executors.slurm import Slurm as Slurm
from unweave.explorer.explore import explore as explore
from unweave.explorer.share import share as share
from unweave.latents import (
    Bernoulli as Bernoulli,
    Categorical as Categorical,
    Gaussian as Gaussian,
    GaussianMixture as GaussianMixture,
    Laplace as Laplace,
    Product as Product,
    Sparse as Sparse,
    StudentT as StudentT,
    Uniform as Uniform,
    VampPrior as VampPrior,
)
from unweave.networks import (
    DCGAN as DCGAN,
    MLP as MLP,
    Conv as Conv,
    Critic as Critic,
    Esmaeili2019 as Esmaeili2019,
    Kim2018 as Kim2018,
    Kim2018GAN as Kim2018GAN,
    Mathieu2019 as Mathieu2019,
    Modules as Modules,
)
from unweave.objectives import (
    AAE as AAE,
    DIPVAE as DIPVAE,
    HFVAE as HFVAE,
    IWAE as IWAE,
    VAE as VAE,
    WAE as WAE,
    AlphaBetaVAE as AlphaBetaVAE,
    AnchorVAE as AnchorVAE,
    BetaTCVAE as BetaTCVAE,
    BetaVAE as BetaVAE,
    CapacityVAE as CapacityVAE,
    EntropyVAE as EntropyVAE,
    FactorVAE as FactorVAE,
    InfoGAN as InfoGAN,
    InformationDropout as InformationDropout,
    InfoVAE as InfoVAE,
    InfoWGANGP as InfoWGANGP,
    Label as Label,
    LagrangianVAE as LagrangianVAE,
    divergences as divergences,
)
from unweave.presets import Preset as Preset, preset as preset
from unweave.report import write_comparison as write_comparison, write_report as write_report
from unweave.training.run import Run as Run

__version__: str
