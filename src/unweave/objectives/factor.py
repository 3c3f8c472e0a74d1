"""FactorVAE: a critic estimates the total correlation of the aggregate posterior."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent, owner, with_hard_samples
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
)
from unweave.objectives.compatibility import several_variables
from unweave.objectives.divergences import CRITIC, critic_terms, log_ratio


def permute_variables(z: Tensor, latent: Latent, noise: Noise) -> Tensor:
    """Shuffle every variable of z (B, D) over the batch, independently.  [Kim2018] alg. 1.

    Turns samples of q(z) into samples of prod_v q(z_v). The columns of one variable (a one-hot
    group) stay together.
    """
    order = noise.permutation(z.shape[0], "permute", rows=len(latent.variables))
    return z.gather(0, order[owner(latent, z.device)].T)


@spec
class FactorVAE(BaseObjective):
    """-ELBO + gamma TC(z), with TC(z) = E_q[log D(z) / (1 - D(z))] from a critic D.

    [Kim2018] eq. 2, 3 and alg. 2: the model moves on one batch; then the critic moves, telling the
    codes of that batch (drawn before the model moved) from permuted codes of a second batch
    (encoded after it). The first logit stands for q(z), the second for prod_j q(z_j). The rate is
    in closed form where the paper's algorithm has its estimate on the sample: same mean, less
    noise. The variant of [Kim2018] eq. 12, whose critic tells q(z) from p(z), is an `AlphaBetaVAE`.
    """

    gamma: Weight = 35.0  # [Kim2018] fig. 6: the best gamma on 2D Shapes
    critic: Critic = Critic()
    kind: Literal["factor-vae"] = tag("factor-vae")

    @property
    def updates(self) -> tuple[Update, ...]:
        """The model moves, then the critic."""
        return (Update(MODEL, self.model_loss), Update(CRITIC, self.critic_loss))

    @property
    def critics(self) -> dict[str, Critic]:
        """The critic that tells q(z) from the product of its marginals."""
        return {CRITIC: self.critic}

    def model_loss(
        self, nets: Nets, batch: Batch, noise: Noise, carry: Carry
    ) -> tuple[Terms, Carry]:
        """The model's loss; the codes are kept for the critic."""
        passed = nets.model(batch.x, noise)
        correlation = Term(self.gamma, log_ratio(nets, passed.hard_samples))
        return elbo(passed) | {"total_correlation": correlation}, left(passed)

    def critic_loss(
        self, nets: Nets, batch: Batch, noise: Noise, carry: Carry
    ) -> tuple[Terms, Carry]:
        """The critic's cross-entropy, (-log D(z) - log(1 - D(permuted z'))) / 2, and accuracy."""
        second = with_hard_samples(nets.model.encode(batch.x)).rsample(noise.fold("posterior"))
        permuted = permute_variables(second, nets.model.latent, noise)
        return critic_terms(nets, carry["z"].detach(), permuted.detach()), {}

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return several_variables(latent)
