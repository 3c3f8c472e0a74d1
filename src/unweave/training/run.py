"""Runs: one immutable value each, the same in Python, in `run.json` and on the command line."""

import dataclasses
import math
from functools import partial
from typing import Any, Self

import torch

from unweave import likelihoods
from unweave.core import spec as specs
from unweave.core.html import spec_html
from unweave.core.noise import seeded
from unweave.core.optimisers import Adam
from unweave.core.parts import MissingPart, missing_parts
from unweave.core.schedules import Schedule
from unweave.core.spec import Count, Seed, spec
from unweave.data import (
    Data,
    Dataset,
    DSprites,
    Paired,
    Selected,
    Shapes2D,
    principal_variances,
)
from unweave.data.splits import split_of
from unweave.latents import Gaussian, Latent
from unweave.likelihoods import Likelihood
from unweave.networks import MLP, Conv, Init, Kim2018, Network, Shape
from unweave.objectives import BetaVAE, Label, Nets, Objective
from unweave.training.memory import check_memory, needed_memory

_FEW_ROWS = 1_000  # rows by which data are judged


@spec
class Run:
    """Data, latent space, network, likelihood, objective, optimiser, batch, steps and seed.

    `network` and `likelihood` may be omitted; `resolve` chooses them from the data. `network` is
    that of an autoencoder; omit it for an objective that has networks of its own, such as
    `InfoGAN`. `optimiser` is that of the model, and its default is for VAEs: use Adam(lr=1e-3,
    betas=(0.5, 0.999)) for the generator of an InfoGAN. The objective has the optimisers of other
    players. `init` chooses the initial weights: as in PyTorch ("fan-in"), TensorFlow ("glorot") or
    Sonnet ("lecun").

    >>> Run(seed=3) == Run(seed=3), Run(seed=3).digest == Run(seed=4).digest
    (True, False)
    """

    data: Data = Shapes2D()
    """The observations, and their factors if they are known."""
    latent: Latent = Gaussian(10)
    """The latent space: one block, or a tree of named blocks."""
    network: Network | None = None
    """Encoder and decoder; by default chosen to fit the data."""
    likelihood: Likelihood | None = None
    """Distribution p(x|z) of an observation; by default chosen to fit the data."""
    objective: Objective = BetaVAE()
    """The loss that is minimised, with its weights."""
    labels: tuple[Label, ...] = ()
    """Factors that supervise blocks of the latent space."""
    optimiser: Adam = Adam()
    """Optimiser of the model."""
    init: Init = "fan-in"
    """Initial weights: as in PyTorch (fan-in), TensorFlow (glorot) or Sonnet (lecun)."""
    batch_size: Count = 64
    """Observations in a batch."""
    steps: Count = 30_000  # a first look; [Kim2018] app. A: 300,000 on 2D Shapes
    """Training steps."""
    seed: Seed = 0
    """Seed of initial weights, batches and noise."""

    def _repr_html_(self) -> str:
        return str(spec_html(self, f"Run {self.digest}"))

    @property
    def digest(self) -> str:
        """The name of the run: twelve hexadecimal digits of its content."""
        return specs.digest(self)

    @property
    def weights(self) -> dict[str, Any]:
        """The weights of the objective and the labels: numbers or schedules by name."""
        names = specs.lane_fields(type(self.objective))
        found = {name: getattr(self.objective, name) for name in names}
        return found | {label.name: label.weight for label in self.labels}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on settings that may be mistakes.

        These are schedules that continue after the last step, and weights without effect.
        """
        return (
            *(
                f"note: {name} goes {weight}, but the run has only {self.steps:,}"
                for name, weight in self.weights.items()
                if isinstance(weight, Schedule) and (weight.last_change or 0) > self.steps
            ),
            *(f"note: {reason}" for reason in self.idle_weights),
        )

    @property
    def idle_weights(self) -> tuple[str, ...]:
        """The weights of the objective that have no effect in this latent space, and why."""
        idle = self.objective.weights_without_effect(self.latent)
        return tuple(f"objective.{name} has no effect: {why}" for name, why in idle.items())

    @property
    def lane_key(self) -> str:
        """Equal for runs that differ only in seed and weights, which can train together."""
        content = specs.to_json(self)
        for name in specs.lane_fields(type(self.objective)):
            del content["objective"][name]
        for label in content["labels"]:
            del label["weight"]
        del content["seed"]
        return repr(content)

    def resolve(self, dataset: Dataset) -> Self:
        """Return the run with omitted settings chosen from the data, and check it against them."""
        run = dataclasses.replace(
            self,
            latent=self.latent.resolve(partial(principal_variances, dataset)),
            network=self._network(dataset.shape),
            likelihood=self.likelihood or default_likelihood(dataset),
        )
        assert run.likelihood is not None
        if run.likelihood.bounded and not dataset.bounded:
            raise ValueError(
                f"a {run.likelihood.kind} likelihood needs values in [0, 1], but the data have "
                "values outside; scale the data, or use likelihood=gaussian"
            )
        if run.likelihood.counts and not _holds_counts(dataset):
            raise ValueError(
                f"a {run.likelihood.kind} likelihood needs counts, the integers 0, 1, 2, ..., but "
                "the data have other values; use data.scale=counts if they are counts that were "
                "scaled, otherwise likelihood=gaussian"
            )
        if run.batch_size > dataset.size:
            split = split_of(run.data)
            where = "there are" if split == "all" else f"of the {split} split"
            raise ValueError(
                f"batch_size={run.batch_size} is more than the {dataset.size} observations "
                f"{where}; use batch_size={dataset.size} or less"
            )
        if reason := run.objective.incompatibility(run.latent):
            raise ValueError(f"objective {run.objective.kind} cannot be used here: {reason}")
        if run.objective.needs_full_batch and run.batch_size != dataset.size:
            raise ValueError(
                f"the exact q(z) needs all {dataset.size} observations in a batch, got batch_size="
                f"{run.batch_size}; use batch_size={dataset.size}, or another estimator"
            )
        names = [label.name for label in run.labels]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"expected one label for a factor and block, got two named {twice}")
        for label in run.labels:
            label.check(
                run.latent, dict(zip(dataset.factor_names, dataset.factor_sizes, strict=True))
            )
        check_memory(*run._sizes(dataset.shape), dataset.shape, dataset.device)
        return run

    def lanes_memory(self, shape: Shape, lanes: int, at_once: int) -> int:
        """Return the fewest bytes that runs like this take side by side, for data of a shape."""
        return needed_memory(*self._sizes(shape), lanes, at_once)

    def _sizes(self, shape: Shape) -> tuple[Nets, int]:
        """The networks without memory, and how many numbers a batch has at least.

        These are observations, reconstructions and codes.
        """
        rows = self.batch_size * self.objective.decodes_per_observation
        with torch.device("meta"):
            return self.build(shape), rows * (2 * math.prod(shape) + sum(self.latent.variables))

    def build(self, shape: Shape, seed: int = 0) -> Nets:
        """Build the networks of all players, for observations of a shape.

        Modules that draw values with torch's random numbers get those of `seed`. What is not in
        the state of a module has to be the same for all seeds, so only the initial state of a run
        is built with its own seed.
        """
        assert self.likelihood is not None
        try:
            with seeded(seed):
                return self.objective.build(self.latent, self.network, self.likelihood, shape)
        except MissingPart as error:  # one of two modules
            missing = missing_parts(specs.to_json(self))
            raise MissingPart.of(missing) if missing else error from None

    def _network(self, shape: Shape) -> Network | None:
        """The autoencoder's network, if the objective trains an autoencoder."""
        if self.objective.autoencodes:
            return self.network or default_network(self.data, shape)
        if self.network is not None:
            raise ValueError(
                f"objective {self.objective.kind} has networks of its own, objective.network: "
                f"expected no network, got network={self.network.kind}; leave it out"
            )
        return None


def default_likelihood(dataset: Dataset) -> Likelihood:
    """Choose a likelihood: negative binomial for counts, otherwise by the range of the values."""
    if dataset.schema.scaling.method == "counts":
        return likelihoods.NegativeBinomial()
    return likelihoods.Bernoulli() if dataset.bounded else likelihoods.Gaussian()


def _holds_counts(dataset: Dataset) -> bool:
    """Whether observations are non-negative integers, judged by a few where it is not known."""
    if dataset.schema.scaling.method == "counts":
        return True
    x = dataset.images(torch.arange(min(dataset.size, _FEW_ROWS), device=dataset.device))
    return bool(((x >= 0) & (x == x.round())).all())


def default_network(data: Data, shape: Shape) -> Network:
    """Choose a network: convolutions for images, an MLP for everything else.

    64x64 images get the networks of [Kim2018]. The paper has two sizes, and which one applies
    depends on the dataset and not on the colours: 128 hidden units for the sprites of 2D Shapes
    (table 1), 256 for everything else, coloured (table 2) or grey (table 3, 3D Faces). So
    `Shapes2D` and `DSprites` get 128, also when sampled or paired, and all other images 256.

    >>> from unweave.data import Faces3D
    >>> default_network(Shapes2D(), (1, 64, 64))
    Kim2018(hidden=128)
    >>> default_network(Faces3D(), (1, 64, 64))
    Kim2018(hidden=256)
    """
    dataset = data.source if isinstance(data, (Selected, Paired)) else data
    if len(shape) == 3 and shape[1:] == (64, 64):
        return Kim2018(hidden=128 if isinstance(dataset, (Shapes2D, DSprites)) else 256)
    if len(shape) == 3 and min(shape[1:]) >= 16 and max(shape[1:]) <= 256:
        return Conv()
    return MLP(hidden=(256, 256))
