"""Divergences between the aggregate posterior q(z) and the prior p(z).

To write one, subclass `Divergence` and write `value`. A divergence with a critic also brings the
critic and its update.
"""

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, model_validator
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
from unweave.core.spec import Size, spec, tag
from unweave.latents import Latent, prior_samples
from unweave.latents.block import consecutive_slices
from unweave.models import ForwardPass
from unweave.networks import Critic
from unweave.objectives.base import (
    CRITIC,
    CRITIC_ACCURACY,
    Batch,
    Carry,
    Loss,
    Nets,
    Requirements,
    Term,
    Terms,
    Update,
    unmet,
)


class Divergence(ABC):
    """A distance between q(z) and p(z), estimated on a batch from hard samples."""

    kind: str
    nats: ClassVar[bool] = True  # whether its value is in nats
    estimator: Estimator | None = None  # for divergences that have this field
    """How q(z) is estimated from a batch."""
    requires: ClassVar[Requirements] = MappingProxyType({})  # of every block of the latent space

    @abstractmethod
    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """Estimate D(q(z), p(z)): one value for the batch, (), or values to be averaged, (B,)."""

    @property
    def critics(self) -> dict[str, Critic]:
        """The critics that this divergence needs, by player."""
        return {}

    @property
    def updates(self) -> tuple[Update, ...]:
        """The updates of the critics, after the model's."""
        return ()

    def incompatibility(self, latent: Latent) -> str | None:
        """Explain why this divergence is undefined on a latent space, or return None."""
        return unmet(latent, self.requires)


@spec
class ExclusiveKL(Divergence):
    """KL(q(z) || p(z)) = E_q[log q(z) - log p(z)], with q(z) estimated from the batch.

    The estimator "exact" needs the whole dataset in every batch; for the bias of the others see
    [Mathieu2019] app. C.
    """

    estimator: Estimator = "stratified"
    kind: Literal["exclusive-kl"] = tag("exclusive-kl")

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """Estimate log q(z) - log p(z) on the samples, (B,)."""
        z = forward.hard_samples
        table = forward.q.log_prob(z[:, None])
        return estimate(table, batch.dataset_size, self.estimator) - forward.p.log_prob(z)


@spec
class InclusiveKL(Divergence):
    """KL(p(z) || q(z)) = E_p[log p(z) - log q(z)], q(z) the mean of the batch's encodings.

    [Mathieu2019] app. B.
    """

    kind: Literal["inclusive-kl"] = tag("inclusive-kl")
    requires: ClassVar[Requirements] = {
        "finite_variance": "KL(p || q) is infinite if the prior has an infinite variance"
    }

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """Average over as many samples of p(z) as there are observations, ()."""
        z = prior_samples(forward.p, len(forward.z), noise)
        return inclusive_kl(forward.p.log_prob(z), forward.q.log_prob(z[:, None]))


@spec
class MMD(Divergence):
    """The squared maximum mean discrepancy of samples of q(z) and p(z).

    U-statistic [Gretton2012] lemma 6; kernels of [Tolstikhin2018] sec. 4 ("imq"), of the released
    code of [Mathieu2019] ("imq-dimensionwise") and as printed there, app. B ("imq-unsquared").
    With `blockwise` it is the sum over the blocks of the latent tree.

    A kernel is summed over constants C, for example C / (C + |x - y|^2). Give them as `constants`,
    or as `scales` s with C = 2 D s for D columns (C = 2 s for "imq-dimensionwise"). By default
    "rbf" has the single constant C = D^2, as in the code of [Zhao2019], and the others have several
    scales; `unweave.aggregate.kernel_constants` shows them.
    """

    kernel: Kernel = "imq"
    """Kernel of the discrepancy."""
    scales: tuple[PositiveFloat, ...] | None = None
    """Scales s of the kernels, with constants C = 2 D s for D columns."""
    blockwise: bool = False
    """Whether to sum over the blocks of the latent tree."""
    constants: tuple[PositiveFloat, ...] | None = None
    """Constants C of the kernels; instead of scales."""
    kind: Literal["mmd"] = tag("mmd")
    nats: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scales is not None and self.constants is not None:
            raise ValueError("expected scales or constants of the kernel, got both; use one")
        return self

    @property
    def also_cites(self) -> tuple[str, ...]:
        """The source of the kernel."""
        sources = {"imq": "Tolstikhin2018", "rbf": "Zhao2019"}
        return (sources.get(self.kernel, "Mathieu2019"),)

    @property
    def revision(self) -> int:
        """1 for the default "rbf", which had seven scales; part of the digest."""
        return int(self.kernel == "rbf" and not self.scales and not self.constants)

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        y = prior_samples(forward.p, len(forward.z), noise)
        sizes = [sum(block.variables) for block in forward.latent.leaf_blocks.values()]
        groups = consecutive_slices(sizes) if self.blockwise else None
        return mmd(
            forward.hard_samples, y, self.kernel, self.scales, groups=groups,
            constants=self.constants,
        )  # fmt: skip


@spec
class Moments(Divergence):
    """|E_q[z] - E_p[z]|^2 + |Cov_q[z] - Cov_p[z]|^2 of samples: matches mean and covariance.

    [Kumar2018] sec. 3 matches the covariance.
    """

    kind: Literal["moments"] = tag("moments")
    nats: ClassVar[bool] = False
    requires: ClassVar[Requirements] = {
        "finite_variance": "second moments need a prior with a finite variance"
    }

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        return moment_matching(
            forward.hard_samples, prior_samples(forward.p, len(forward.z), noise)
        )


@spec
class SlicedWasserstein(Divergence):
    """The mean over random directions of W_2^2 between projected samples.  [Kolouri2018] alg. 1."""

    projections: Size = 50
    """Number of random directions."""
    kind: Literal["sliced-wasserstein"] = tag("sliced-wasserstein")
    nats: ClassVar[bool] = False
    requires: ClassVar[Requirements] = {
        "finite_variance": "W_2 needs a prior with a finite variance"
    }

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        y = prior_samples(forward.p, len(forward.z), noise)
        lines = directions(noise, self.projections, forward.z.shape[-1], forward.z.dtype)
        return sliced_wasserstein(forward.hard_samples, y, lines)


class CriticDivergence(Divergence):
    """A divergence estimated by a critic that separates q(z) from p(z)."""

    critic: Critic
    """Network that distinguishes two distributions of codes, and its optimiser."""

    @property
    def critics(self) -> dict[str, Critic]:
        return {CRITIC: self.critic}

    @property
    def updates(self) -> tuple[Update, ...]:
        return (Update(CRITIC, critic_loss),)


@spec
class DensityRatio(CriticDivergence):
    """KL(q(z) || p(z)) = E_q[log D(z) / (1 - D(z))], D a critic that separates q(z) from p(z).

    [Kim2018] eqs. 7, 12. The first logit is for q(z), the second for p(z).
    """

    critic: Critic = Critic()
    kind: Literal["density-ratio"] = tag("density-ratio")

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """Compute log D(z) / (1 - D(z)) on the samples, (B,)."""
        return log_ratio(nets, forward.hard_samples)


@spec
class Adversary(CriticDivergence):
    """E_q[-log(1 - D(z))], D a critic of q(z) against p(z): WAE-GAN.  [Tolstikhin2018] alg. 1.

    Small if the critic mistakes codes for samples of the prior; not itself a divergence.
    """

    critic: Critic = Critic()
    kind: Literal["adversary"] = tag("adversary")

    def value(self, nets: Nets, forward: ForwardPass, batch: Batch, noise: Noise) -> Tensor:
        """Compute -log(1 - D(z)) on the samples, (B,)."""
        return -F.log_softmax(nets.critic(forward.hard_samples), -1)[:, 1]


def critic_loss(nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
    """Return the critic's cross-entropy on codes of q(z) and samples of p(z)."""
    z = carry["z"].detach()
    samples = prior_samples(nets.model.p(), len(z), noise).detach()
    return critic_terms(nets, z, samples), {}


def log_ratio(nets: Nets, z: Tensor) -> Tensor:
    """Compute log D(z) / (1 - D(z)), the first logit minus the second, (B,)."""
    logits = nets.critic(z)
    return logits[:, 0] - logits[:, 1]


def critic_terms(nets: Nets, first: Tensor, second: Tensor) -> Terms:
    """Return the critic's loss, -(log D(first) + log(1 - D(second))) / 2, and accuracy, (B,)."""
    logits = nets.critic(torch.cat([first, second]))  # in one pass, which is faster than two
    a, b = logits.split([len(first), len(second)])
    loss = -0.5 * (F.log_softmax(a, -1)[:, 0] + F.log_softmax(b, -1)[:, 1])
    correct = accuracy(a[:, 0] - a[:, 1], b[:, 0] - b[:, 1])
    return {CRITIC: Term(1.0, loss), CRITIC_ACCURACY: Term(0.0, correct)}


def accuracy(first: Tensor, second: Tensor) -> Tensor:
    """Compute the accuracy of a binary classifier from its logits for the first class, (B,).

    Each pair of an example of the first class and one of the second counts 0, 1/2 or 1, so the mean
    is the accuracy over both classes; a logit of exactly 0 counts as half right. No gradient flows.
    [Kim2018] fig. 24, 37.
    """
    return 0.5 + 0.25 * (first.detach().sign() - second.detach().sign())


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
