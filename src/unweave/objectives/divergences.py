"""Divergences between the aggregate posterior q(z) and the prior p(z), as values.

The union of them is the registry. One that needs a critic brings the critic's move along.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from unweave.aggregate import (
    Estimator,
    Kernel,
    directions,
    estimate,
    inclusive_kl,
    mmd,
    moment_matching,
    sliced_wasserstein,
)
from unweave.core.noise import Noise
from unweave.core.parts import Open
from unweave.core.spec import spec, tag
from unweave.latents import Distribution, Latent, with_hard_samples
from unweave.latents.block import side_by_side
from unweave.models import ForwardPass
from unweave.networks import Critic
from unweave.objectives.base import CRITIC_ACCURACY, Batch, Carry, Nets, Term, Terms, Update
from unweave.objectives.compatibility import finite_variance_only, leaves

CRITIC = "critic"


class Divergence(ABC):
    """How far q(z) is from p(z), estimated on a batch, from samples as hard samples."""

    kind: str
    nats: ClassVar[bool] = True  # whether its value is in nats

    @abstractmethod
    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """The estimate, of mean or value D(q(z), p(z)): (B,) or ()."""

    @property
    def critics(self) -> dict[str, Critic]:
        """The players it brings along."""
        return {}

    @property
    def updates(self) -> tuple[Update, ...]:
        """Their moves, after the model's."""
        return ()

    def incompatibility(self, latent: Latent) -> str | None:
        """Why it makes no sense on a latent space, if it does not."""
        return None


@spec
class ExclusiveKL(Divergence):
    """KL(q(z) || p(z)) = E_q[log q(z) - log p(z)], with q(z) estimated from the batch.

    The estimator "exact" needs the whole data set in a batch; for the bias of the others see
    [Mathieu2019] app. C.
    """

    estimator: Estimator = "stratified"
    kind: Literal["exclusive-kl"] = tag("exclusive-kl")

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """log q(z) - log p(z) on the samples, (B,)."""
        z = passed.hard_samples
        table = passed.q.log_prob(z[:, None])
        return estimate(table, batch.dataset_size, self.estimator) - passed.p.log_prob(z)


@spec
class InclusiveKL(Divergence):
    """KL(p(z) || q(z)) = E_p[log p(z) - log q(z)], q(z) the mean of the batch's encodings.

    [Mathieu2019] app. B.
    """

    kind: Literal["inclusive-kl"] = tag("inclusive-kl")

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """The mean over as many draws of p(z) as there are observations, ()."""
        z = drawn(passed.p, len(passed.z), noise)
        return inclusive_kl(passed.p.log_prob(z), passed.q.log_prob(z[:, None]))

    def incompatibility(self, latent: Latent) -> str | None:
        """Why it makes no sense on a latent space, if it does not."""
        return finite_variance_only(latent, "KL(p || q) is infinite if the prior has no variance")


@spec
class MMD(Divergence):
    """The squared maximum mean discrepancy of samples of q(z) and p(z).

    U-statistic [Gretton2012] lemma 6; kernels of [Tolstikhin2018] sec. 4 ("imq"), of the released
    code of [Mathieu2019] ("imq-dimensionwise") and as printed there, app. B ("imq-unsquared").
    With `blockwise` it is the sum over the blocks of the latent tree.
    """

    kernel: Kernel = "imq"
    scales: tuple[PositiveFloat, ...] | None = None
    blockwise: bool = False
    kind: Literal["mmd"] = tag("mmd")
    nats: ClassVar[bool] = False

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """The statistic, ()."""
        y = drawn(passed.p, len(passed.z), noise)
        groups = _blocks(passed.latent) if self.blockwise else None
        return mmd(passed.hard_samples, y, self.kernel, self.scales, groups=groups)


@spec
class Moments(Divergence):
    """|E_q[z] - E_p[z]|^2 + |Cov_q[z] - Cov_p[z]|^2 of samples: mean and covariance matched.

    [Kumar2018] sec. 3 matches the covariance.
    """

    kind: Literal["moments"] = tag("moments")
    nats: ClassVar[bool] = False

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """The squared differences, ()."""
        return moment_matching(passed.hard_samples, drawn(passed.p, len(passed.z), noise))

    def incompatibility(self, latent: Latent) -> str | None:
        """Why it makes no sense on a latent space, if it does not."""
        return finite_variance_only(latent, "second moments need a prior that has a variance")


@spec
class SlicedWasserstein(Divergence):
    """The mean over random directions of W_2^2 between projected samples.  [Kolouri2018] alg. 1."""

    projections: PositiveInt = 50
    kind: Literal["sliced-wasserstein"] = tag("sliced-wasserstein")
    nats: ClassVar[bool] = False

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """The mean over the projections, ()."""
        y = drawn(passed.p, len(passed.z), noise)
        along = directions(noise, self.projections, passed.z.shape[-1], passed.z.dtype)
        return sliced_wasserstein(passed.hard_samples, y, along)

    def incompatibility(self, latent: Latent) -> str | None:
        """Why it makes no sense on a latent space, if it does not."""
        return finite_variance_only(latent, "W_2 needs a prior that has a variance")


class CriticDivergence(Divergence):
    """A divergence by a critic that tells q(z) from p(z)."""

    critic: Critic

    @property
    def critics(self) -> dict[str, Critic]:
        """The critic that tells q(z) from p(z)."""
        return {CRITIC: self.critic}

    @property
    def updates(self) -> tuple[Update, ...]:
        """The critic moves, on the codes that the model left and as many draws of the prior."""
        return (Update(CRITIC, critic_loss),)


@spec
class DensityRatio(CriticDivergence):
    """KL(q(z) || p(z)) = E_q[log D(z) / (1 - D(z))], D a critic that tells q(z) from p(z).

    [Kim2018] eqs. 7, 12. The first logit stands for q(z), the second for p(z).
    """

    critic: Critic = Critic()
    kind: Literal["density-ratio"] = tag("density-ratio")

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """log D(z) / (1 - D(z)) on the samples, (B,)."""
        return log_ratio(nets, passed.hard_samples)


@spec
class Adversary(CriticDivergence):
    """E_q[-log(1 - D(z))], D a critic that tells q(z) from p(z): WAE-GAN.  [Tolstikhin2018] alg. 1.

    Small where the critic takes codes for draws of the prior; not itself a divergence.
    """

    critic: Critic = Critic()
    kind: Literal["adversary"] = tag("adversary")

    def value(self, nets: Nets, passed: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """-log(1 - D(z)) on the samples, (B,)."""
        return -F.log_softmax(nets.critic(passed.hard_samples), -1)[:, 1]


def critic_loss(nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
    """The critic's cross-entropy on codes of q(z) and draws of p(z)."""
    z = carry["z"].detach()
    theirs = drawn(nets.model.p(), len(z), noise).detach()
    return critic_terms(nets, z, theirs), {}


def drawn(p: Distribution, count: int, noise: Noise) -> Tensor:
    """Draws of the prior, classes and bits as hard samples, (count, D)."""
    return with_hard_samples(p).rsample(noise.fold("prior"), (count,))


def log_ratio(nets: Nets, z: Tensor) -> Tensor:
    """log D(z) / (1 - D(z)) of a critic, the first logit less the second, (B,)."""
    logits = nets.critic(z)
    return logits[:, 0] - logits[:, 1]


def critic_terms(nets: Nets, first: Tensor, second: Tensor) -> Terms:
    """The critic's loss, (-log D(first) - log(1 - D(second))) / 2, and its accuracy, (B,) each."""
    ours, theirs = nets.critic(first), nets.critic(second)
    loss = -0.5 * (F.log_softmax(ours, -1)[:, 0] + F.log_softmax(theirs, -1)[:, 1])
    right = accuracy(ours[:, 0] - ours[:, 1], theirs[:, 0] - theirs[:, 1])
    return {CRITIC: Term(1.0, loss), CRITIC_ACCURACY: Term(0.0, right)}


def accuracy(first: Tensor, second: Tensor) -> Tensor:
    """Compute the accuracy of a binary classifier from its logits for the first class, (B,).

    Each pair of an example of the first class and one of the second counts 0, 1/2 or 1, so the mean
    is the accuracy over both classes; a logit of exactly 0 counts as half right. No gradient flows.
    [Kim2018] fig. 24, 37.
    """
    return 0.5 + 0.25 * (first.detach().sign() - second.detach().sign())


def _blocks(latent: Latent) -> tuple[slice, ...]:
    """The columns of every block of a latent tree."""
    return side_by_side([sum(block.variables) for block in leaves(latent).values()])


AnyDivergence = Annotated[
    ExclusiveKL
    | InclusiveKL
    | MMD
    | Moments
    | SlicedWasserstein
    | DensityRatio
    | Adversary
    | Divergence,
    Open(),
]
