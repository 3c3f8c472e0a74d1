"""Objectives that match the aggregate posterior q(z), or its moments, to the prior p(z)."""

from abc import abstractmethod
from typing import ClassVar, Literal, Self

from pydantic import model_validator
from torch import Tensor

from unweave.aggregate import covariance_penalty
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.models import ForwardPass
from unweave.networks import Critic
from unweave.objectives.base import (
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Loss,
    Nets,
    Requirements,
    Term,
    Terms,
    Update,
    VAEObjective,
    carry_from,
    elbo_terms,
    unmet,
    weight_value,
)
from unweave.objectives.divergences import MMD, AnyDivergence, DensityRatio, InclusiveKL


class MatchingObjective(BaseObjective):
    """A weighted sum of distortion, rate and a divergence of q(z) from p(z)."""

    divergence: AnyDivergence
    """Divergence between the aggregate posterior q(z) and the prior p(z)."""

    @property
    def uses_rate(self) -> bool:
        """Whether the loss includes the rate; otherwise it is only reported."""
        return False

    @property
    @abstractmethod
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        """The weights of the rate and of the divergence."""

    @property
    def updates(self) -> tuple[Update, ...]:
        return (Update(MODEL, self.model_loss), *self.divergence.updates)

    @property
    def critics(self) -> dict[str, Critic]:
        return self.divergence.critics

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        forward = nets.model(batch.x, noise)
        rate, divergence = self.weights
        value = self.divergence.value(nets, forward, batch, noise)
        return elbo_terms(forward, rate) | {"divergence": Term(divergence, value)}, carry_from(
            forward
        )

    def incompatibility(self, latent: Latent) -> str | None:
        reason = None
        if self.critics and not self.uses_rate:
            reason = unmet(latent, {"fixed_prior": "a critic cannot train a prior"})
        return reason or self.divergence.incompatibility(latent)

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        return super().not_in_nats + (() if self.divergence.nats else ("divergence",))

    @property
    def needs_full_batch(self) -> bool:
        return self.divergence.estimator == "exact"


@spec
class AlphaBetaVAE(MatchingObjective):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)) + alpha D(q(z), p(z)).  [Mathieu2019] eq. 7.

    beta controls the overlap of the encodings, alpha the match of the aggregate posterior. With
    divergence=density-ratio and beta = 1 it is the variant of FactorVAE whose critic separates q(z)
    from p(z), with alpha for its gamma: [Kim2018] eq. 12.
    """

    alpha: Weight = 1.0
    """Weight of the divergence between q(z) and p(z)."""
    beta: Weight = 1.0
    """Weight of the rate."""
    divergence: AnyDivergence = InclusiveKL()
    kind: Literal["alpha-beta-vae"] = tag("alpha-beta-vae")

    @property
    def uses_rate(self) -> bool:
        return self.beta != 0

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        return weight_value(self.beta), weight_value(self.alpha)


@spec
class InfoVAE(MatchingObjective):
    """E_q[-log p(x|z)] + (1 - alpha) KL(q(z|x) || p(z)) + (alpha + lam - 1) D(q(z), p(z)).

    [Zhao2019] eq. 6, whose lambda is `lam`: alpha rewards information, lam the match. Its code
    has the kernel exp(-|x - y|^2 / D^2) for D columns; set `divergence.constants` for another.
    """

    alpha: Weight = 0.0
    """Reward for information; 1 removes the rate."""
    lam: Weight = 500.0  # [Zhao2019] app. D
    """Weight of the match of q(z) and p(z), the paper's lambda."""
    divergence: AnyDivergence = MMD(kernel="rbf")
    kind: Literal["info-vae"] = tag("info-vae")

    @model_validator(mode="after")
    def _check(self) -> Self:
        alpha, lam = self.alpha, self.lam
        if isinstance(alpha, float) and isinstance(lam, float) and alpha + lam < 1:
            raise ValueError(
                f"expected alpha + lam of 1 or more, got {alpha:g} + {lam:g}: less would "
                "reward a mismatch of q(z) and p(z)"
            )
        return self

    @property
    def revision(self) -> int:
        """1 for the default divergence, which had the constant 200 D; part of the digest."""
        return int(self.divergence == MMD(kernel="rbf"))

    @property
    def uses_rate(self) -> bool:
        return self.alpha != 1

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        alpha = weight_value(self.alpha)
        return 1.0 - alpha, alpha + weight_value(self.lam) - 1.0


@spec
class WAE(MatchingObjective):
    """E_q[-log p(x|z)] + weight D(q(z), p(z)): the Wasserstein autoencoder.

    [Tolstikhin2018] eq. 4. WAE-MMD with divergence=mmd, WAE-GAN with divergence=adversary. The
    rate is only reported.
    """

    weight: Weight = 10.0  # [Tolstikhin2018] sec. 4: 10 on MNIST, 100 on CelebA
    """Weight of the divergence between q(z) and p(z)."""
    divergence: AnyDivergence = MMD()
    kind: Literal["wae"] = tag("wae")

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        return 0.0, weight_value(self.weight)


@spec
class AAE(MatchingObjective):
    """E_q[-log p(x|z)] + gamma KL(q(z) || p(z)), estimated by the density ratio of a critic.

    [Kim2018] eq. 7 with the weight gamma of its app. F. The rate is only reported.
    """

    gamma: Weight = 1.0
    """Weight of KL(q(z) || p(z))."""
    divergence: DensityRatio = DensityRatio()
    kind: Literal["aae"] = tag("aae")

    @property
    def weights(self) -> tuple[float | Tensor, float | Tensor]:
        return 0.0, weight_value(self.gamma)


@spec
class DIPVAE(VAEObjective):
    """-ELBO + off_diagonal sum_{i != j} Cov_ij^2 + diagonal sum_i (Cov_ii - 1)^2.

    [Kumar2018] eqs. 6, 7, [Kim2018] eqs. 10, 11. Cov is the covariance over the batch of the means
    of q(z|x) (`covariance_of="means"`, DIP-VAE-I) or that of q(z) (`covariance_of="codes"`,
    DIP-VAE-II). Columns are in units of their standard deviation under the prior, which is 1 in the
    papers.
    """

    off_diagonal: Weight = 10.0
    """Weight of the squared covariances."""
    diagonal: Weight = 100.0
    """Weight of the squared distances of the variances from 1."""
    covariance_of: Literal["means", "codes"] = "means"
    """Covariance of the means (DIP-VAE-I) or of the codes (DIP-VAE-II)."""
    kind: Literal["dip-vae"] = tag("dip-vae")
    not_in_nats = ("off_diagonal", "diagonal")
    requires: ClassVar[Requirements] = {
        "continuous": "only continuous variables can have an identity covariance",
        "fixed_prior": "the covariance needs a fixed target",
        "finite_variance": "a covariance needs a prior with a finite variance",
        "factorised": "columns must be uncorrelated under the prior",
    }

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        unit = forward.p.stddev
        variance = (forward.q.stddev / unit).square() if self.covariance_of == "codes" else None
        penalty = covariance_penalty(forward.q.mean / unit, variance)
        return elbo_terms(forward) | {
            "off_diagonal": Term(self.off_diagonal, penalty.off_diagonal),
            "diagonal": Term(self.diagonal, penalty.diagonal),
        }

    def incompatibility(self, latent: Latent) -> str | None:
        independent: Requirements = {
            "factorised_posterior": "DIP-VAE-II needs encodings with independent columns"
        }
        reason = unmet(latent, independent) if self.covariance_of == "codes" else None
        return reason or super().incompatibility(latent)

    def weights_without_effect(self, latent: Latent) -> dict[str, str]:
        return {} if latent.size > 1 else {"off_diagonal": "one column alone has no covariances"}
