"""FactorVAE, in which a critic estimates the total correlation of q(z)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent, variable_of_column, with_hard_samples
from unweave.networks import Critic
from unweave.objectives.base import (
    CRITIC,
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Loss,
    Nets,
    Term,
    Update,
    carry_from,
    elbo_terms,
)
from unweave.objectives.divergences import critic_terms, log_ratio


def permute_variables(z: Tensor, latent: Latent, noise: Noise) -> Tensor:
    """Permute every variable of z (B, D) independently over the batch.  [Kim2018] alg. 1.

    This turns samples of q(z) into samples of prod_v q(z_v). The columns of one variable (a one-hot
    group) stay together.
    """
    order = noise.permutation(z.shape[0], "permute", rows=len(latent.variables))
    return z.gather(0, order[variable_of_column(latent, z.device)].T)


@spec
class FactorVAE(BaseObjective):
    """-ELBO + gamma TC(z), with TC(z) = E_q[log D(z) / (1 - D(z))] from a critic D.

    [Kim2018] eq. 2, 3 and alg. 2: the model is updated on one batch. Then the critic is updated to
    separate the codes of that batch (sampled before the model's update) from permuted codes of a
    second batch (encoded after it). The first logit is for q(z), the second for prod_j q(z_j). The
    rate is computed in closed form; the paper's algorithm estimates it on the sample, with the same
    mean and more noise. The variant of [Kim2018] eq. 12, whose critic separates q(z) from p(z), is
    an `AlphaBetaVAE`.
    """

    gamma: Weight = 35.0  # [Kim2018] fig. 6: the best gamma on 2D Shapes
    """Weight of the total correlation TC(z)."""
    critic: Critic = Critic()
    """Network that tells two distributions of codes apart, and its optimiser."""
    kind: Literal["factor-vae"] = tag("factor-vae")
    several_variables: ClassVar[bool] = True

    @property
    def updates(self) -> tuple[Update, ...]:
        return (Update(MODEL, self.model_loss), Update(CRITIC, self.critic_loss))

    @property
    def critics(self) -> dict[str, Critic]:
        return {CRITIC: self.critic}

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        forward = nets.model(batch.x, noise)
        correlation = Term(self.gamma, log_ratio(nets, forward.hard_samples))
        return elbo_terms(forward) | {"total_correlation": correlation}, carry_from(forward)

    def critic_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        """Return the critic's loss, -(log D(z) + log(1 - D(permuted z'))) / 2, and accuracy."""
        second = with_hard_samples(nets.model.encode(batch.x)).rsample(noise.fold("posterior"))
        permuted = permute_variables(second, nets.model.latent, noise)
        return critic_terms(nets, carry["z"].detach(), permuted.detach()), {}
