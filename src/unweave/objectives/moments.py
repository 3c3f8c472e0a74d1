"""DIP-VAE, which pulls the covariance of the codes towards the identity."""

from __future__ import annotations

from typing import ClassVar, Literal

from unweave.aggregate import covariance_penalty
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.models import ForwardPass
from unweave.objectives.base import Batch, Term, Terms, VAEObjective, elbo_terms
from unweave.objectives.compatibility import Requirements, unmet


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
        "continuous": "an identity covariance is for continuous variables",
        "fixed_prior": "a learned prior is no fixed target",
        "finite_variance": "a covariance needs a prior that has one",
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
