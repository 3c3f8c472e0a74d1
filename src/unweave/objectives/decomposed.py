"""Objectives that weigh the parts of the rate separately."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.func import vmap

from unweave.aggregate import Decomposition, Estimator, decompose, estimate
from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent, with_hard_samples
from unweave.models import ForwardPass, Model
from unweave.objectives.base import (
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Nets,
    OnePlayer,
    Term,
    Terms,
    Update,
    elbo,
    left,
    number,
)
from unweave.objectives.compatibility import fixed_prior_only, several_variables


def decompose_batch(passed: ForwardPass, batch: Batch, estimator: Estimator) -> Decomposition:
    """The parts of the rate of a pass, with q(z) estimated from the batch."""
    return decompose(passed.latent, passed.q, passed.p, passed.z, batch.dataset_size, estimator)


@spec
class BetaTCVAE(OnePlayer):
    """E_q[-log p(x|z)] + alpha I(x; z) + beta TC(z) + gamma sum_v KL(q(z_v) || p(z_v)).

    [Chen2018] eq. 4, with q(z) estimated from the batch. The three parts on a sample sum to the
    rate on it, whatever the estimator, so the loss is the rate itself, by its formula, and what the
    weights are beyond 1 of the parts: the same mean, less noise, and at weights 1 the ELBO.
    """

    alpha: Weight = 1.0
    beta: Weight = 6.0  # [Chen2018] sec. 6: the best beta on dSprites
    gamma: Weight = 1.0
    estimator: Estimator = "stratified"
    kind: Literal["beta-tcvae"] = tag("beta-tcvae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion and the parts of the rate."""
        parts = decompose_batch(passed, batch, self.estimator)
        return elbo(passed) | {
            "mutual_information": Term(number(self.alpha) - 1.0, parts.mutual_information),
            "total_correlation": Term(number(self.beta) - 1.0, parts.total_correlation),
            "dimension_kl": Term(number(self.gamma) - 1.0, parts.dimension_kl),
        }

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return several_variables(latent)


@spec
class HFVAE(OnePlayer):
    """E_q[-log p(x|z)] + alpha I(x; z) + beta A + gamma sum_g i_g + sum_v KL(q(z_v) || p(z_v)).

    [Esmaeili2019] eq. 9 and fig. 4: A is the total correlation between the groups at the top of
    the latent tree, i_g that inside every group further down, each beyond what the prior has:
    E[log q(z_n) / prod_c q(z_c) - log p(z_n) / prod_c p(z_c)] at a node n with children c. As in
    `BetaTCVAE` the loss is the rate and what the weights are beyond 1 of these parts.
    """

    alpha: Weight = 1.0
    beta: Weight = 4.0  # [Esmaeili2019] table 2: beta 4, gamma 3 on dSprites
    gamma: Weight = 3.0
    estimator: Estimator = "stratified"
    kind: Literal["hfvae"] = tag("hfvae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion and the parts of the rate, level by level."""
        parts = decompose_batch(passed, batch, self.estimator)
        inner = [name for name in parts.correlations if name]
        within = [parts.excess(name) for name in inner] or [torch.zeros_like(passed.distortion)]
        leaves = torch.stack(list(parts.leaf_kls.values())).sum(0)
        return elbo(passed) | {
            "mutual_information": Term(number(self.alpha) - 1.0, parts.mutual_information),
            "between_groups": Term(number(self.beta) - 1.0, parts.excess("")),
            "within_groups": Term(number(self.gamma) - 1.0, torch.stack(within).sum(0)),
            "leaf_kl": Term(0.0, leaves.detach()),
        }

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return several_variables(latent)


@spec
class LagrangianVAE(BaseObjective):
    """l1 E[-log p(x|z) / p(x)] + l2 I(x; z) + l3 E[-log p(x)] + l4 KL(q(z) || p(z)).

    [Esmaeili2019] eq. 7 and fig. 2, with a weight on the first of the four terms too, which the
    paper says is for the identifiability of z; the fields are l1 to l4 in order. Distortion is the
    first and the third term together. At weights 1 it is the ELBO, in the manner of `BetaTCVAE`.
    p(x) is estimated on `particles` draws of p(z) and one of q(z|x), which takes a latent space of
    few columns.
    """

    identifiability: Weight = 1.0
    information: Weight = 1.0
    likelihood: Weight = 1.0
    marginal_kl: Weight = 1.0
    particles: PositiveInt = 256
    estimator: Estimator = "stratified"
    kind: Literal["lagrangian-vae"] = tag("lagrangian-vae")

    @property
    def updates(self) -> tuple[Update, ...]:
        """The model moves."""
        return (Update(MODEL, self.play),)

    def play(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        """Distortion, the two parts of the rate, and the log-likelihood."""
        passed = nets.model(batch.x, noise)
        parts = decompose_batch(passed, batch, self.estimator)
        likelihood = sampled_likelihood(nets.model, passed, noise, self.particles)
        return elbo(passed) | {
            "distortion": Term(self.identifiability, passed.distortion),
            "mutual_information": Term(number(self.information) - 1.0, parts.mutual_information),
            "marginal_kl": Term(
                number(self.marginal_kl) - 1.0, parts.total_correlation + parts.dimension_kl
            ),
            "log_likelihood": Term(
                number(self.identifiability) - number(self.likelihood), likelihood
            ),
        }, left(passed)

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return several_variables(latent)


def sampled_likelihood(model: Model, passed: ForwardPass, noise: Noise, particles: int) -> Tensor:
    """log sum_j p(x|z_j) / (K + q(z_j|x) / p(z_j)), z_j K draws of p(z) and one of q(z|x), (B,).

    An estimate of log p(x) by both, weighed by the balance heuristic. The prior's draws alone would
    let a decoder hide from them what it shows to the encoder.
    """
    z = with_hard_samples(passed.p).rsample(noise.fold("prior"), (particles,))
    px = model.decode(z)  # once for all x

    def seen(one: Tensor) -> Tensor:
        return px.log_prob(one.expand(particles, *one.shape))

    drawn = vmap(seen)(passed.x) - _weight(passed, z[:, None], particles).T  # (B, K)
    own = -passed.distortion - _weight(passed, passed.hard_samples, particles)
    return torch.logsumexp(torch.cat([drawn, own.unsqueeze(-1)], -1), -1)


def _weight(passed: ForwardPass, z: Tensor, particles: int) -> Tensor:
    """log(K + q(z|x) / p(z))."""
    ratio = passed.q.log_prob(z) - passed.p.log_prob(z)
    return torch.logaddexp(ratio, torch.full_like(ratio, math.log(particles)))


@spec
class InformationDropout(OnePlayer):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || q(z)) + gamma TC(z).

    [Kim2018] eqs. 8 and 9, the former with gamma = 0. The first divergence is I(x; z); the prior
    plays no part, and the rate is only reported.
    """

    beta: Weight = 1.0
    gamma: Weight = 0.0
    estimator: Estimator = "stratified"
    kind: Literal["information-dropout"] = tag("information-dropout")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion, information and dependence."""
        parts = decompose_batch(passed, batch, self.estimator)
        return elbo(passed, rate=0.0) | {
            "mutual_information": Term(self.beta, parts.mutual_information),
            "total_correlation": Term(self.gamma, parts.total_correlation),
        }

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return fixed_prior_only(latent, "nothing here would teach a prior")


@spec
class AnchorVAE(OnePlayer):
    """-ELBO - weight I(x; z_a): less is paid for the information of the anchor variables.

    [Esmaeili2019] table 1, after [Gao2019]. `anchor` is the path of a block or variable of the
    latent tree; without one it is the whole code.
    """

    anchor: str = ""
    weight: Weight = 0.5
    estimator: Estimator = "stratified"
    kind: Literal["anchor-vae"] = tag("anchor-vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion, rate and the anchors' information."""
        return elbo(passed) | {
            "anchor_information": Term(-number(self.weight), self._information(passed, batch))
        }

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        names = [node.name for node in latent.nodes]
        if self.anchor in names:
            return None
        if len(names) == 1:
            return (
                f"{self.anchor!r} is not in the latent tree, which is a single variable; leave it"
            )
        return f"{self.anchor!r} is not in the latent tree: {nearest(self.anchor, names[1:])}"

    def _information(self, passed: ForwardPass, batch: Batch) -> Tensor:
        """log q(z_a|x) / q(z_a) on the sample, (B,)."""
        latent, q, z = passed.latent, passed.q, passed.hard_samples
        column = [node.name for node in latent.nodes].index(self.anchor)
        table = latent.log_nodes(q, z[:, None])[..., column]
        return table.diagonal() - estimate(table, batch.dataset_size, self.estimator)
