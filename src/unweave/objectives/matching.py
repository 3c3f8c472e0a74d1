"""Objectives that match the aggregate posterior q(z) to the prior p(z) by a divergence."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from unweave.latents import Latent
from unweave.networks import Critic
from unweave.noise import Noise
from unweave.objectives.divergences import MMD, AnyDivergence, DensityRatio, InclusiveKL
from unweave.objectives.game import MODEL, Batch, Game, Memo, Nets, Term, Terms, Turn, elbo, number
from unweave.objectives.support import exactly, fixed_prior_only
from unweave.schedules import Weight
from unweave.spec import spec, tag


class Matching(Game):
    """Distortion, rate and a divergence, each with a weight."""

    divergence: AnyDivergence
    rated: ClassVar[bool] = True  # whether the rate is part of the loss

    @property
    @abstractmethod
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """The weights of the rate and of the divergence, as numbers."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model moves, then the critic if the divergence has one."""
        return (Turn(MODEL, self.play), *self.divergence.turns)

    @property
    def critics(self) -> dict[str, Critic]:
        """The critic of the divergence, if it has one."""
        return self.divergence.critics

    def play(self, nets: Nets, batch: Batch, noise: Noise, memo: Memo) -> tuple[Terms, Memo]:
        """The model's loss; the codes are kept for the critic."""
        passed = nets.model(batch.x, noise)
        rate, divergence = self.weights
        value = self.divergence.value(nets, passed, batch, noise)
        return elbo(passed, rate) | {"divergence": Term(divergence, value)}, {"z": passed.z}

    def refuses(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        if self.critics and not self.rated:
            return fixed_prior_only(latent, "a critic does not teach a prior")
        return self.divergence.refuses(latent)

    @property
    def whole(self) -> bool:
        """Whether it needs the whole data set in every batch."""
        return exactly(self.divergence)


@spec
class AlphaBetaVAE(Matching):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)) + alpha D(q(z), p(z)).  [Mathieu2019] eq. 7.

    Overlap of the encodings by beta, match of the aggregate by alpha.
    """

    alpha: Weight = 1.0
    beta: Weight = 1.0
    divergence: AnyDivergence = InclusiveKL()
    kind: Literal["alpha-beta-vae"] = tag("alpha-beta-vae")

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """Beta and alpha."""
        return number(self.beta), number(self.alpha)


@spec
class InfoVAE(Matching):
    """E_q[-log p(x|z)] + (1 - alpha) KL(q(z|x) || p(z)) + (alpha + scale - 1) D(q(z), p(z)).

    [Zhao2019] eq. 6, whose lambda is `scale`: alpha rewards information, scale the match.
    """

    alpha: Weight = 0.0
    scale: Weight = 500.0  # [Zhao2019] app. D
    divergence: AnyDivergence = MMD(kernel="rbf")
    kind: Literal["info-vae"] = tag("info-vae")

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """1 - alpha and alpha + scale - 1."""
        alpha = number(self.alpha)
        return 1.0 - alpha, alpha + number(self.scale) - 1.0


@spec
class WAE(Matching):
    """E_q[-log p(x|z)] + weight D(q(z), p(z)): the Wasserstein autoencoder.

    [Tolstikhin2018] eq. 4. WAE-MMD with divergence=mmd, WAE-GAN with divergence=adversary. The
    rate is only reported.
    """

    weight: Weight = 10.0  # [Tolstikhin2018] sec. 4: 10 on MNIST, 100 on CelebA
    divergence: AnyDivergence = MMD()
    kind: Literal["wae"] = tag("wae")
    rated: ClassVar[bool] = False

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
    rated: ClassVar[bool] = False

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """Nothing for the rate."""
        return 0.0, number(self.gamma)
