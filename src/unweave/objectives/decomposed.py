"""Objectives that weight the parts of the rate separately, by estimates or by a critic."""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import vmap

from unweave.aggregate import Decomposition, Estimator, decompose, estimate
from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import Size, spec, tag
from unweave.latents import Latent, prior_samples, variable_of_column, with_hard_samples
from unweave.models import ForwardPass, Model
from unweave.networks import Critic
from unweave.objectives.base import (
    CRITIC,
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
    weight_value,
)
from unweave.objectives.divergences import critic_terms, log_ratio


def decompose_batch(forward: ForwardPass, batch: Batch, estimator: Estimator) -> Decomposition:
    """Decompose the rate of a forward pass, with q(z) estimated from the batch."""
    return decompose(forward.latent, forward.q, forward.p, forward.z, batch.dataset_size, estimator)


@spec
class BetaTCVAE(VAEObjective):
    """E_q[-log p(x|z)] + alpha I(x; z) + beta TC(z) + gamma sum_v KL(q(z_v) || p(z_v)).

    [Chen2018] eq. 4, with q(z) estimated from the batch. On every sample the three parts sum to the
    sampled rate, whatever the estimator. The loss is therefore the rate in closed form plus
    (weight - 1) times each part: the same mean with less noise, and the ELBO at weights 1.
    """

    alpha: Weight = 1.0
    """Weight of the mutual information I(x; z)."""
    beta: Weight = 6.0  # [Chen2018] sec. 6: the best beta on dSprites
    """Weight of the total correlation TC(z)."""
    gamma: Weight = 1.0
    """Weight of the dimension-wise KL."""
    estimator: Estimator = "stratified"
    kind: Literal["beta-tcvae"] = tag("beta-tcvae")
    several_variables: ClassVar[bool] = True

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        parts = decompose_batch(forward, batch, self.estimator)
        return elbo_terms(forward) | {
            "mutual_information": Term(weight_value(self.alpha) - 1.0, parts.mutual_information),
            "total_correlation": Term(weight_value(self.beta) - 1.0, parts.total_correlation),
            "dimension_kl": Term(weight_value(self.gamma) - 1.0, parts.dimension_kl),
        }


@spec
class HFVAE(VAEObjective):
    """E_q[-log p(x|z)] + alpha I(x; z) + beta A + gamma sum_g i_g + sum_v KL(q(z_v) || p(z_v)).

    [Esmaeili2019] eq. 9 and fig. 4: A is the total correlation between the groups at the top of
    the latent tree, i_g that within every group below, each in excess of the prior's own:
    E[log q(z_n) / prod_c q(z_c) - log p(z_n) / prod_c p(z_c)] at a node n with children c. As in
    `BetaTCVAE`, the loss is the rate plus (weight - 1) times each part. A latent space of one block
    has no groups below the top: gamma then has no effect, and the objective is a `BetaTCVAE`.
    """

    alpha: Weight = 1.0
    """Weight of the mutual information I(x; z)."""
    beta: Weight = 4.0  # [Esmaeili2019] table 2: beta 4, gamma 3 on dSprites
    """Weight of the total correlation between groups."""
    gamma: Weight = 3.0
    """Weight of the total correlation within groups; without effect if there is one block."""
    estimator: Estimator = "stratified"
    kind: Literal["hfvae"] = tag("hfvae")
    several_variables: ClassVar[bool] = True

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        parts = decompose_batch(forward, batch, self.estimator)
        inner = [name for name in parts.correlations if name]
        within = [parts.excess(name) for name in inner] or [torch.zeros_like(forward.distortion)]
        leaf_kl = torch.stack(list(parts.leaf_kls.values())).sum(0)
        return elbo_terms(forward) | {
            "mutual_information": Term(weight_value(self.alpha) - 1.0, parts.mutual_information),
            "between_groups": Term(weight_value(self.beta) - 1.0, parts.excess("")),
            "within_groups": Term(weight_value(self.gamma) - 1.0, torch.stack(within).sum(0)),
            "leaf_kl": Term(0.0, leaf_kl.detach()),
        }

    def weights_without_effect(self, latent: Latent) -> dict[str, str]:
        parents = [node.parent for node in latent.nodes]
        has_parts = [parents.count(place) > 1 for place in range(len(parents))]
        if not has_parts[0]:
            return {"beta": "the latent tree has only one group at the top"}
        if any(has_parts[1:]):
            return {}
        return {
            "gamma": "the latent tree has no groups of several variables below the top; use a "
            "product of blocks, as in latent=product latent.shape=categorical latent.style=gaussian"
        }


@spec
class LagrangianVAE(BaseObjective):
    """l1 E[-log p(x|z) / p(x)] + l2 I(x; z) + l3 E[-log p(x)] + l4 KL(q(z) || p(z)).

    [Esmaeili2019] eq. 7 and fig. 2, with an additional weight on the first term, which the paper
    relates to the identifiability of z; the fields are l1 to l4 in order. The first and the third
    term sum to the distortion. At weights 1 it is the ELBO, as for `BetaTCVAE`. p(x) is estimated
    from `particles` samples of p(z) and one of q(z|x), which needs a latent space of few columns.
    """

    identifiability: Weight = 1.0
    """Weight of E[-log p(x|z) / p(x)]."""
    information: Weight = 1.0
    """Weight of the mutual information I(x; z)."""
    likelihood: Weight = 1.0
    """Weight of E[-log p(x)]."""
    marginal_kl: Weight = 1.0
    """Weight of KL(q(z) || p(z))."""
    particles: Size = 256
    """Samples from which p(x) is estimated."""
    estimator: Estimator = "stratified"
    kind: Literal["lagrangian-vae"] = tag("lagrangian-vae")
    several_variables: ClassVar[bool] = True

    @property
    def decodes_per_observation(self) -> int:
        """The particles."""
        return self.particles

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        forward = nets.model(batch.x, noise)
        parts = decompose_batch(forward, batch, self.estimator)
        likelihood = sampled_likelihood(nets.model, forward, noise, self.particles)
        return elbo_terms(forward) | {
            "distortion": Term(self.identifiability, forward.distortion),
            "mutual_information": Term(
                weight_value(self.information) - 1.0, parts.mutual_information
            ),
            "marginal_kl": Term(
                weight_value(self.marginal_kl) - 1.0, parts.total_correlation + parts.dimension_kl
            ),
            "log_likelihood": Term(
                weight_value(self.identifiability) - weight_value(self.likelihood), likelihood
            ),
        }, carry_from(forward)


def sampled_likelihood(model: Model, forward: ForwardPass, noise: Noise, particles: int) -> Tensor:
    """Estimate log p(x) = log sum_j p(x|z_j) / (K + q(z_j|x) / p(z_j)), (B,).

    The z_j are K samples of p(z) and one of q(z|x), weighted by the balance heuristic. Samples of
    p(z) alone would underestimate p(x) if they miss the codes that the decoder uses for x.
    """
    z = prior_samples(forward.p, particles, noise)
    px = model.decode(z)  # once for all x

    def log_likelihoods(one: Tensor) -> Tensor:
        return px.log_prob(one.expand(particles, *one.shape))

    prior = vmap(log_likelihoods)(forward.x) - _log_weight(forward, z[:, None], particles).T
    own = -forward.distortion - _log_weight(forward, forward.hard_samples, particles)
    return torch.logsumexp(torch.cat([prior, own.unsqueeze(-1)], -1), -1)  # over (B, K + 1)


def _log_weight(forward: ForwardPass, z: Tensor, particles: int) -> Tensor:
    """Compute log(K + q(z|x) / p(z))."""
    ratio = forward.q.log_prob(z) - forward.p.log_prob(z)
    return torch.logaddexp(ratio, torch.full_like(ratio, math.log(particles)))


@spec
class InformationDropout(VAEObjective):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || q(z)) + gamma TC(z).

    [Kim2018] eqs. 8 and 9, the former with gamma = 0. The first divergence is I(x; z). The prior is
    not used, and the rate is only reported.
    """

    beta: Weight = 1.0
    """Weight of the mutual information I(x; z)."""
    gamma: Weight = 0.0
    """Weight of the total correlation TC(z)."""
    estimator: Estimator = "stratified"
    kind: Literal["information-dropout"] = tag("information-dropout")
    requires: ClassVar[Requirements] = {
        "fixed_prior": "this objective has no term that trains a prior"
    }

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        parts = decompose_batch(forward, batch, self.estimator)
        return elbo_terms(forward, rate=0.0) | {
            "mutual_information": Term(self.beta, parts.mutual_information),
            "total_correlation": Term(self.gamma, parts.total_correlation),
        }

    def weights_without_effect(self, latent: Latent) -> dict[str, str]:
        several = len(latent.variables) > 1
        return {} if several else {"gamma": "one variable alone has no total correlation"}


@spec
class AnchorVAE(VAEObjective):
    """-ELBO - weight I(x; z_a): information in the anchor variables costs less.

    [Esmaeili2019] table 1, after [Gao2019]. `anchor` is the path of a block or variable of the
    latent tree, by default the whole code.
    """

    anchor: str = ""
    """Path of a block or variable of the latent tree; by default the whole code."""
    weight: Weight = 0.5
    """How much less information in the anchor costs."""
    estimator: Estimator = "stratified"
    kind: Literal["anchor-vae"] = tag("anchor-vae")
    also_cites: ClassVar[tuple[str, ...]] = ("Gao2019",)

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        return elbo_terms(forward) | {
            "anchor_information": Term(
                -weight_value(self.weight), self._information(forward, batch)
            )
        }

    def incompatibility(self, latent: Latent) -> str | None:
        names = [node.name for node in latent.nodes]
        if self.anchor in names:
            return None
        if len(names) == 1:
            return (
                f"{self.anchor!r} is not in the latent tree, which is a single variable; leave "
                "anchor out"
            )
        return f"{self.anchor!r} is not in the latent tree: {nearest(self.anchor, names[1:])}"

    def _information(self, forward: ForwardPass, batch: Batch) -> Tensor:
        """Estimate log q(z_a|x) / q(z_a) on the sample, (B,)."""
        latent, q, z = forward.latent, forward.q, forward.hard_samples
        column = [node.name for node in latent.nodes].index(self.anchor)
        table = latent.log_nodes(q, z[:, None])[..., column]
        return table.diagonal() - estimate(table, batch.dataset_size, self.estimator)


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
    """Network that distinguishes two distributions of codes, and its optimiser."""
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
