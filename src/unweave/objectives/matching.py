"""Objectives that match the aggregate posterior q(z) to the prior p(z) by a divergence."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from pydantic import model_validator
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.networks import Critic
from unweave.objectives.base import (
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Nets,
    Term,
    Terms,
    Update,
    elbo,
    left,
    number,
)
from unweave.objectives.compatibility import exactly, fixed_prior_only
from unweave.objectives.divergences import MMD, AnyDivergence, DensityRatio, InclusiveKL


class Matching(BaseObjective):
    """Distortion, rate and a divergence, each with a weight."""

    divergence: AnyDivergence

    @property
    @abstractmethod
    def rated(self) -> bool:
        """Whether the rate is part of the loss."""

    @property
    @abstractmethod
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """The weights of the rate and of the divergence, as numbers."""

    @property
    def updates(self) -> tuple[Update, ...]:
        """The model moves, then the critic if the divergence has one."""
        return (Update(MODEL, self.play), *self.divergence.updates)

    @property
    def critics(self) -> dict[str, Critic]:
        """The critic of the divergence, if it has one."""
        return self.divergence.critics

    def play(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        """The model's loss; the codes are kept for the critic."""
        passed = nets.model(batch.x, noise)
        rate, divergence = self.weights
        value = self.divergence.value(nets, passed, batch, noise)
        return elbo(passed, rate) | {"divergence": Term(divergence, value)}, left(passed)

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        if self.critics and not self.rated:
            untaught = fixed_prior_only(latent, "a critic does not teach a prior")
            return untaught or self.divergence.incompatibility(latent)
        return self.divergence.incompatibility(latent)

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return super().not_in_nats + (() if self.divergence.nats else ("divergence",))

    @property
    def whole(self) -> bool:
        """Whether it needs the whole data set in every batch."""
        return exactly(self.divergence)


@spec
class AlphaBetaVAE(Matching):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)) + alpha D(q(z), p(z)).  [Mathieu2019] eq. 7.

    Overlap of the encodings by beta, match of the aggregate by alpha. With divergence=density-ratio
    and beta = 1 it is the variant of FactorVAE whose critic tells q(z) from p(z), with alpha for
    its gamma: [Kim2018] eq. 12.
    """

    alpha: Weight = 1.0
    beta: Weight = 1.0
    divergence: AnyDivergence = InclusiveKL()
    kind: Literal["alpha-beta-vae"] = tag("alpha-beta-vae")

    @property
    def rated(self) -> bool:
        """Unless beta is 0."""
        return self.beta != 0

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """Beta and alpha."""
        return number(self.beta), number(self.alpha)


@spec
class InfoVAE(Matching):
    """E_q[-log p(x|z)] + (1 - alpha) KL(q(z|x) || p(z)) + (alpha + lam - 1) D(q(z), p(z)).

    [Zhao2019] eq. 6, whose lambda is `lam`: alpha rewards information, lam the match.
    """

    alpha: Weight = 0.0
    lam: Weight = 500.0  # [Zhao2019] app. D
    divergence: AnyDivergence = MMD(kernel="rbf", scales=(100.0,))  # D^2 for D = 10, one kernel
    kind: Literal["info-vae"] = tag("info-vae")

    @model_validator(mode="after")
    def _check(self) -> InfoVAE:
        alpha, lam = self.alpha, self.lam
        if isinstance(alpha, float) and isinstance(lam, float) and alpha + lam < 1:
            raise ValueError(
                f"expected alpha + lam of 1 or more, got {alpha:g} + {lam:g}: less would "
                "reward a mismatch of q(z) and p(z)"
            )
        return self

    @property
    def rated(self) -> bool:
        """Unless alpha is 1."""
        return self.alpha != 1

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """1 - alpha and alpha + lam - 1."""
        alpha = number(self.alpha)
        return 1.0 - alpha, alpha + number(self.lam) - 1.0


@spec
class WAE(Matching):
    """E_q[-log p(x|z)] + weight D(q(z), p(z)): the Wasserstein autoencoder.

    [Tolstikhin2018] eq. 4. WAE-MMD with divergence=mmd, WAE-GAN with divergence=adversary. The
    rate is only reported.
    """

    weight: Weight = 10.0  # [Tolstikhin2018] sec. 4: 10 on MNIST, 100 on CelebA
    divergence: AnyDivergence = MMD()
    kind: Literal["wae"] = tag("wae")

    @property
    def rated(self) -> bool:
        """No: the rate is only reported."""
        return False

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """Nothing for the rate."""
        return 0.0, number(self.weight)


@spec
class AAE(Matching):
    """E_q[-log p(x|z)] + gamma KL(q(z) || p(z)), by the density ratio of a critic.

    [Kim2018] eq. 7 with the weight gamma of its app. F. The rate is only reported.
    """

    gamma: Weight = 1.0
    divergence: DensityRatio = DensityRatio()
    kind: Literal["aae"] = tag("aae")

    @property
    def rated(self) -> bool:
        """No: the rate is only reported."""
        return False

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """Nothing for the rate."""
        return 0.0, number(self.gamma)
