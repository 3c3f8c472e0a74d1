"""The meaning of every field of a spec, in one sentence.

A string below a field of a class is its meaning, so that a new part explains its own fields. Words
that many parts share, such as seed or split, are explained once, here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any

_SHARED = {
    "activation": "Activation function of the hidden layers.",
    "axes": "Order of the axes of the array, such as NHWC, if it cannot be guessed.",
    "base": "Channels of the first convolutions.",
    "components": "Number of components of the mixture.",
    "critic": "Network that tells two distributions of codes apart, and its optimiser.",
    "critic_optimiser": "Optimiser of the critic.",
    "critic_steps": "Updates of the critic in a step, each on its own batch.",
    "divergence": "Divergence between the aggregate posterior q(z) and the prior p(z).",
    "encoding": "Covariance of the posterior q(z|x): diagonal or full.",
    "estimator": "How q(z) is estimated from a batch.",
    "exact_moments": "Whether mean and covariance of the sample are exactly those asked for.",
    "factors_key": "Array or columns with the known factors of the observations.",
    "features": "File of learned classes that selections may refer to.",
    "hard": "Whether samples are rounded to one class (straight through).",
    "hidden": "Units of the hidden layer.",
    "ignore": "Columns to leave out, by name or glob, such as sample,plate*.",
    "key": "Array of the observations in the file, or the columns of a table.",
    "kernel": "Kernel of the discrepancy.",
    "noise": "Standard deviation of the noise.",
    "noise_size": "Columns of noise that the generator reads beside the codes.",
    "observations": "Number of observations to draw.",
    "orientations": "Number of orientations.",
    "particles": "Samples of z for each observation.",
    "path": "Where the data are: a file or a folder.",
    "positions": "Number of positions along each axis.",
    "sampled_rate": "Whether to estimate the rate on the sample, even if it has a closed form.",
    "scale": "Scale of the distribution.",
    "scales": "Number of scales (sizes of the shape).",
    "seed": "Seed of the random numbers.",
    "shapes": "Shapes that are drawn.",
    "side": "Height and width of the images in pixels.",
    "size": "Number of latent variables in the block.",
    "slope": "Slope of the leaky ReLU for negative values.",
    "source": "The dataset to choose from.",
    "split": "Split to read: train, validation, test, or all of the data.",
    "sprites": "The sprites that are drawn.",
    "stream": "Whether to read observations while training; by default if they exceed the memory.",
    "table": "Table of the paper that prints the network.",
    "temperature": "Temperature of the relaxed samples; lower is closer to one class.",
}

_OWN = {
    "Run": {
        "data": "The observations, and their factors if they are known.",
        "latent": "The latent space: one block, or a tree of named blocks.",
        "network": "Encoder and decoder; by default chosen to fit the data.",
        "likelihood": "Distribution p(x|z) of an observation; by default chosen to fit the data.",
        "objective": "The loss that is minimised, with its weights.",
        "labels": "Factors that supervise blocks of the latent space.",
        "optimiser": "Optimiser of the model.",
        "init": "Initial weights: as in PyTorch (fan-in) or as in TensorFlow (glorot).",
        "batch_size": "Observations in a batch.",
        "steps": "Training steps.",
        "seed": "Seed of initial weights, batches and noise.",
        "validation": "Share of the data that is held out to measure the loss on.",
    },
    "Adam": {
        "lr": "Learning rate.",
        "betas": "Decay rates of the two moments.",
        "eps": "Number added to the denominator for stability.",
        "amsgrad": "Whether to use the largest second moment so far (AMSGrad).",
    },
    "Linear": {
        "start": "Weight at the first step.",
        "stop": "Weight from the last step of the schedule on.",
        "steps": "Steps from start to stop.",
    },
    "Cyclic": {
        "low": "Weight at the start of each period.",
        "high": "Weight at the end of each period.",
        "period": "Steps of a period.",
        "rise": "Share of a period in which the weight rises.",
    },
    "BetaVAE": {"beta": "Weight of the rate: larger values use fewer, more separate variables."},
    "CapacityVAE": {
        "gamma": "Weight of the distance between rate and capacity.",
        "capacity": "Rate to reach, in nats; it usually grows during training.",
    },
    "EntropyVAE": {"beta": "Weight of the posterior's entropy."},
    "AlphaBetaVAE": {
        "alpha": "Weight of the divergence between q(z) and p(z).",
        "beta": "Weight of the rate.",
    },
    "InfoVAE": {
        "alpha": "Reward of information; 1 removes the rate.",
        "lam": "Weight of the match of q(z) and p(z), the paper's lambda.",
    },
    "WAE": {"weight": "Weight of the divergence between q(z) and p(z)."},
    "AAE": {"gamma": "Weight of KL(q(z) || p(z))."},
    "MMD": {
        "scales": "Scales s of the kernels, with constants C = 2 D s for D columns.",
        "blockwise": "Whether to sum over the blocks of the latent tree.",
        "constants": "Constants C of the kernels; instead of scales.",
        "constant": "Constant C of the kernel.",
    },
    "SlicedWasserstein": {"projections": "Number of random directions."},
    "FactorVAE": {"gamma": "Weight of the total correlation TC(z)."},
    "BetaTCVAE": {
        "alpha": "Weight of the mutual information I(x; z).",
        "beta": "Weight of the total correlation TC(z).",
        "gamma": "Weight of the dimension-wise KL.",
    },
    "HFVAE": {
        "alpha": "Weight of the mutual information I(x; z).",
        "beta": "Weight of the total correlation between groups.",
        "gamma": "Weight of the total correlation within groups.",
    },
    "LagrangianVAE": {
        "identifiability": "Weight of E[-log p(x|z) / p(x)].",
        "information": "Weight of the mutual information I(x; z).",
        "likelihood": "Weight of E[-log p(x)].",
        "marginal_kl": "Weight of KL(q(z) || p(z)).",
        "particles": "Samples from which p(x) is estimated.",
    },
    "InformationDropout": {
        "beta": "Weight of the mutual information I(x; z).",
        "gamma": "Weight of the total correlation TC(z).",
    },
    "AnchorVAE": {
        "anchor": "Path of a block or variable of the latent tree; by default the whole code.",
        "weight": "How much less information in the anchor costs.",
    },
    "DIPVAE": {
        "off_diagonal": "Weight of the squared covariances.",
        "diagonal": "Weight of the squared distances of the variances from 1.",
        "covariance_of": "Covariance of the means (DIP-VAE-I) or of the codes (DIP-VAE-II).",
    },
    "IWAE": {"particles": "Samples of z for each observation, K."},
    "InfoGAN": {
        "information": "Weight of the mutual information between codes and images.",
        "network": "Generator, critic and recogniser.",
    },
    "InfoWGANGP": {
        "information": "Weight of the mutual information between codes and images.",
        "penalty": "Weight of the gradient penalty of the critic.",
        "network": "Generator, critic and recogniser.",
    },
    "Label": {
        "factor": "Name of the factor that supervises.",
        "block": "Path of the block that is supervised; by default the whole latent space.",
        "share": "Share of the observations whose factor is used.",
        "weight": "Weight of the supervised term.",
    },
    "Gaussian": {
        "variances": "Variances of the prior; pca: those of the data's principal components.",
        "scale": "Standard deviation of the values; where it starts, if it is learned.",
    },
    "StudentT": {"df": "Degrees of freedom; fewer have heavier tails."},
    "Sparse": {
        "spike_weight": "Share of the columns that are off.",
        "spike_scale": "Standard deviation of the columns that are off.",
    },
    "Uniform": {"low": "Lower end of the interval.", "high": "Upper end of the interval."},
    "GaussianMixture": {
        "centres": "Centres of the components, (C, D).",
        "scales": "Standard deviations: one, one per component, or one per component and column.",
        "weights": "Probabilities of the components; by default equal.",
        "learn": "Whether centres and scales are learned.",
    },
    "VampPrior": {"components": "Number of learned pseudo-inputs."},
    "Categorical": {
        "size": "Number of classes.",
        "learn": "Whether the prior's probabilities are learned.",
        "given": "Discrete block that the prior depends on.",
    },
    "Bernoulli": {
        "size": "Number of bits.",
        "probability": "Probability of a one under the prior.",
    },
    "Mathieu2019": {"third": "Channels of the third convolution."},
    "DCGAN": {"first_norm": "Whether the first convolution is normalised."},
    "MLP": {"hidden": "Units of each hidden layer of the encoder; the decoder mirrors them."},
    "Critic": {
        "width": "Units of each hidden layer.",
        "depth": "Number of hidden layers.",
        "optimiser": "Optimiser of the critic.",
    },
    "Kim2018GAN": {"norm": "Normalisation of the trunk: batch for InfoGAN, layer for InfoGAN-GP."},
    "Modules": {
        "encoder": "Function that builds the encoder, as module:name.",
        "decoder": "Function that builds the decoder, as module:name.",
    },
    "Blobs": {
        "levels": "Number of levels of brightness.",
        "widths": "Number of widths of the blob.",
    },
    "Blocks": {
        "sizes": "Number of classes of each factor.",
        "cell": "Side of a block in pixels.",
    },
    "Pinwheel": {
        "clusters": "Number of arms.",
        "points_per_cluster": "Points in each arm.",
        "radial_std": "Standard deviation along the radius.",
        "tangential_std": "Standard deviation across the radius.",
        "rate": "How much the arms are bent.",
        "convention": "Which standard deviation is which: as in the paper's code or text.",
    },
    "Mixing": {
        "matrix": "The mixing matrix A, row by row.",
        "columns": "Dataset whose images are the columns of A, instead of a matrix.",
        "indices": "Numbers of these images.",
    },
    "MovingDigit": {
        "digits": "Dataset of the image that moves.",
        "index": "Number of the image in its dataset.",
        "noise": "Standard deviation of the position's noise in pixels.",
    },
    "Arrays": {"scale": "How values are scaled: none, bytes, percentile, standardise or counts."},
    "Folder": {
        "size": "Side, or height and width, that images are resized to.",
        "channels": "Channels to read: 1 (grey), 3 (RGB) or 4 (RGBA).",
        "fit": "What to do with other aspect ratios: crop, pad or stretch.",
        "factors": "Table of labels: a file name in the first column, then one column per factor.",
        "scale": "How values are scaled: none, bytes, percentile, standardise or counts.",
    },
    "InMemory": {
        "digest": "Checksum of the array.",
        "shape": "Shape of the array.",
        "dtype": "Type of its numbers.",
    },
    "MPI3D": {"version": "Toy renderings, realistic renderings, or photographs."},
    "CelebA": {"crop": "Side of the centred square that is cut out, in pixels."},
    "MNIST": {"strokes": "Whether thickness and width of the stroke are factors too."},
    "Selected": {"select": "Selections, applied one after the other."},
    "Subset": {"count": "Number of observations to draw."},
    "HeldOut": {
        "classes": "Combinations of factors to hold out.",
        "split": "Observations to keep: the rest, or those held out.",
    },
    "Incomplete": {
        "factors": "Factors whose combinations are missing.",
        "share": "Share of the combinations that is missing.",
        "split": "Observations to keep: the rest, or those held out.",
    },
    "Correlated": {
        "factors": "The two factors to correlate.",
        "scale": "Strength: 0.2 correlates strongly, 0.7 weakly.",
        "count": "Number of observations to draw; by default as many as there are.",
    },
    "Paired": {
        "shared": "Factors that both observations of a pair share.",
        "changed": "Number of factors in which the two differ.",
    },
}

_LIKELIHOODS = {
    "learn": "Learn the scale: not at all, one number, or one for each value.",
}
_LATENTS = {"learn": "What of the prior is learned: nothing, variances or covariance."}


def meaning(cls: type, name: str) -> str:
    """Return the meaning of a field of a spec in one sentence, "" if nobody has written it down.

    >>> from unweave.objectives import FactorVAE
    >>> meaning(FactorVAE, "gamma")
    'Weight of the total correlation TC(z).'
    """
    for owner in cls.__mro__:
        if written := _written(owner).get(name) or _OWN.get(owner.__name__, {}).get(name):
            return written
    folder = cls.__module__.split(".")[1:2]
    special = {"latents": _LATENTS, "likelihoods": _LIKELIHOODS}.get("".join(folder), {})
    return special.get(name) or _SHARED.get(name, "")


@cache
def _written(cls: type) -> dict[str, str]:
    """Return the strings below the fields of a class, by field."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # no source, as for builtins
        return {}
    found: dict[str, str] = {}
    body: list[Any] = getattr(tree, "body", [])
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        text = below.value.value if _is_constant(below) else None
        if isinstance(text, str):
            found[field.target.id] = " ".join(text.split())
    return found


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
