"""DIP-VAE: the covariance of the codes is held to the identity."""

from __future__ import annotations

from typing import Literal

from unweave.aggregate import covariance_penalty
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.models import ForwardPass
from unweave.objectives.base import Batch, OnePlayer, Term, Terms, elbo
from unweave.objectives.compatibility import (
    continuous_only,
    factorised_only,
    finite_variance_only,
    fixed_prior_only,
    leaves,
)


@spec
class DIPVAE(OnePlayer):
    """-ELBO + off_diagonal sum_{i != j} Cov_ij^2 + diagonal sum_i (Cov_ii - 1)^2.

    [Kumar2018] eqs. 6, 7, [Kim2018] eqs. 10, 11. Cov is that of the means of q(z|x) over the batch
    (`covariance_of="means"`, DIP-VAE-I) or that of q(z) (`covariance_of="codes"`, DIP-VAE-II), with
    columns in units of their standard deviation under the prior, which is 1 in the papers.
    """

    off_diagonal: Weight = 10.0
    diagonal: Weight = 100.0
    covariance_of: Literal["means", "codes"] = "means"
    kind: Literal["dip-vae"] = tag("dip-vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion, rate and the two penalties."""
        unit = passed.p.spread
        variance = (passed.q.spread / unit).square() if self.covariance_of == "codes" else None
        penalty = covariance_penalty(passed.q.mean / unit, variance)
        return elbo(passed) | {
            "off_diagonal": Term(self.off_diagonal, penalty.off_diagonal),
            "diagonal": Term(self.diagonal, penalty.diagonal),
        }

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return ("off_diagonal", "diagonal")

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        full = [path for path, b in leaves(latent).items() if getattr(b, "encoding", "") == "full"]
        if self.covariance_of == "codes" and full:
            return f"DIP-VAE-II is about diagonal encodings, and {full[0] or 'the latent'} is full"
        return (
            continuous_only(latent, "a covariance of the identity is for continuous variables")
            or fixed_prior_only(latent, "the covariance of a prior that moves is no aim")
            or finite_variance_only(latent, "a covariance needs a prior that has one")
            or factorised_only(latent, "columns are held to be uncorrelated, as under the prior")
        )
