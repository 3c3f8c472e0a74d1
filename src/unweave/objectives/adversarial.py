"""InfoGAN and InfoWGAN-GP: a generator plays a critic of images, and its codes can be read back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeInt, PositiveInt, model_validator
from torch import Tensor

from unweave import models
from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.core.schedules import Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.networks import Kim2018GAN, Network, Shape
from unweave.objectives.base import (
    CRITIC_ACCURACY,
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Nets,
    Term,
    Terms,
    Update,
)
from unweave.objectives.compatibility import fixed_prior_only
from unweave.objectives.divergences import CRITIC, accuracy

_ADAM = Adam(lr=1e-4, betas=(0.5, 0.999))  # [Kim2018] app. H; the generator's has lr=1e-3


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(|grad_x D(x)| - 1)^2 at every point of x (B, *shape), (B,).  [Gulrajani2017] eq. 3.

    The critic gives a number for each point, (B,), that depends on no other point.
    """
    slopes: Tensor = torch.func.grad(lambda points: critic(points).sum())(x)
    lengths: Tensor = torch.linalg.vector_norm(slopes.flatten(1), dim=1)
    return (lengths - 1).square()


def between(real: Tensor, fake: Tensor, noise: Noise) -> Tensor:
    """pi real + (1 - pi) fake with pi ~ U(0, 1) for each pair, (B, *shape).  [Kim2018] eq. 16."""
    share = noise.uniform((len(real), *[1] * (real.dim() - 1)), "between", real.dtype)
    return fake + share * (real - fake)


class Adversarial(BaseObjective):
    """min over G, Q, max over D of V(D, G) - information L(G, Q).  [Kim2018] eq. 14.

    L(G, Q) = E_p(c) E_p(e) [log Q(c|G(c, e))], eq. 13, and V is the members' own. A step is
    `critic_steps` moves of the critic, each on a batch of its own, then one of the model.

    The model is G and the last layers of Q; the critic is D, and with it the trunk that D and Q
    share. In the model's turn the trunk is held, and the gradient of L reaches G through it. But
    the trunk is a part of Q, over which eq. 14 minimises as well, and Q would else have to make do
    with what helps D: so the critic's loss is -V - information L, on images that are held. Thus G
    follows V and L, D follows V, Q's own layers L, and the trunk both, as in the code released with
    [Chen2016] (where all of Q moves with the critic). Both updates report it; the log has
    the model's, which comes last.
    """

    information: Weight
    critic_steps: int
    noise_size: int
    network: Kim2018GAN
    critic_optimiser: Adam
    autoencodes: ClassVar[bool] = False

    @abstractmethod
    def fooled(self, fake: Tensor) -> Tensor:
        """The generator's loss on D(G(c, e)), (B,)."""

    @abstractmethod
    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """The critic's loss on D(x) and D(G(c, e)), and diagnostics, (B,) each."""

    @abstractmethod
    def smoothness(
        self, critic: models.Discriminator, real: Tensor, fake: Tensor, noise: Noise
    ) -> Terms:
        """What else the critic's loss has."""

    @property
    def updates(self) -> tuple[Update, ...]:
        """The critic moves as often as it is to, then the model."""
        critic = Update(CRITIC, self.critic_loss)
        return (*[critic] * self.critic_steps, Update(MODEL, self.model_loss))

    @property
    def optimisers(self) -> dict[str, Adam]:
        """The critic's."""
        return {CRITIC: self.critic_optimiser}

    def build(
        self, latent: Latent, network: Network | None, likelihood: Likelihood, shape: Shape
    ) -> Nets:
        """The networks of all players: generator, recogniser and critic are one model."""
        model = models.InfoGAN(latent, self.network, likelihood, shape, self.noise_size)
        return Nets(model, {})

    def critic_loss(
        self, nets: Nets, batch: Batch, noise: Noise, carry: Carry
    ) -> tuple[Terms, Carry]:
        """The critic's loss on a batch and as many generated images."""
        gan = _gan(nets)
        c, x = gan(len(batch.x), noise)
        held = x.detach()
        fake, q = gan.judge(held)
        terms = self.critic_terms(gan.critic(batch.x), fake)
        terms["information"] = Term(self.information, -q.log_prob(c))
        return terms | self.smoothness(gan.critic, batch.x, held, noise), {}

    def model_loss(
        self, nets: Nets, batch: Batch, noise: Noise, carry: Carry
    ) -> tuple[Terms, Carry]:
        """The model's loss on as many generated images as there are in a batch."""
        gan = _gan(nets)
        c, x = gan(len(batch.x), noise)
        fake, q = gan.judge(x)
        return {
            "adversarial": Term(1.0, self.fooled(fake)),
            "information": Term(self.information, -q.log_prob(c)),
        }, {}

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return fixed_prior_only(latent, "codes are drawn from a prior that is given")


@spec
class InfoGAN(Adversarial):
    """E[log D(x)] + E[log(1 - D(G(c, e)))] - information E[log Q(c|G(c, e))].

    [Chen2016] eq. 6, [Kim2018] eq. 13, 14, 15; eq. 15 is read as the original GAN's, which the text
    says it is. D makes it large, G and Q small; but for its second term G has -E[log D(G)],
    which has the same fixed point and a gradient where D wins: [Goodfellow2014] sec. 3.

    -E[log Q(c|G)], the term "information", is in nats, and H(c) less it bounds I(c; G(c, e)) from
    below. Q is the posterior of the latent space: masses for classes and bits; for `Uniform` codes
    a density on their interval, where [Chen2016] sec. 6 has a normal one, which leaks out of it and
    can never equal p(c), so that the bound stays below 0 where nothing is known.

    A run's `optimiser` is the generator's and Q's: use Adam(lr=1e-3, betas=(0.5, 0.999)), [Kim2018]
    app. H, from which the other defaults are; `noise_size` is 62 there for MNIST. `likelihood`
    gives the images' range, and a run's `network` is left out.
    """

    information: Weight = 1.0
    critic_steps: PositiveInt = 1
    noise_size: NonNegativeInt = 5
    network: Kim2018GAN = Kim2018GAN()
    critic_optimiser: Adam = _ADAM
    kind: Literal["info-gan"] = tag("info-gan")

    def fooled(self, fake: Tensor) -> Tensor:
        """-log D(G(c, e)), (B,)."""
        return F.softplus(-fake)

    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """-log D(x) - log(1 - D(G(c, e))) and the accuracy of D, the sigmoid of its arguments."""
        return {
            CRITIC: Term(1.0, F.softplus(-real) + F.softplus(fake)),
            CRITIC_ACCURACY: Term(0.0, accuracy(real, fake)),
        }

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return (CRITIC_ACCURACY,)

    def smoothness(
        self, critic: models.Discriminator, real: Tensor, fake: Tensor, noise: Noise
    ) -> Terms:
        """Nothing."""
        return {}


@spec
class InfoWGANGP(Adversarial):
    """E[D(x)] - E[D(G(c, e))] - penalty E[(|grad D(x')| - 1)^2] - information E[log Q(c|G(c, e))].

    [Kim2018] eq. 13, 14, 16: V is the Wasserstein distance of [Gulrajani2017] eq. 3, and x' lies
    at random between a real and a generated image. The penalty is the critic's alone and is to be
    small; eq. 16 prints it with a plus, the sign it has in a loss, in what D is to make large.

    [Gulrajani2017] alg. 1 moves the critic five times a step, `critic_steps=5`; [Kim2018] app. H
    does not say so. The gradient is that of each image alone, which batch normalisation would not
    let be: the trunk has layer normalisation, as there. All else as for `InfoGAN`.
    """

    information: Weight = 1.0
    penalty: Weight = 10.0
    critic_steps: PositiveInt = 1
    noise_size: NonNegativeInt = 5
    network: Kim2018GAN = Kim2018GAN(norm="layer")
    critic_optimiser: Adam = _ADAM
    kind: Literal["info-wgan-gp"] = tag("info-wgan-gp")

    @model_validator(mode="after")
    def _check(self) -> InfoWGANGP:
        if self.network.norm != "layer":
            raise ValueError(
                "expected network.norm=layer, got batch: a gradient penalty is of each image "
                "alone, and batch normalisation mixes them"
            )
        return self

    def fooled(self, fake: Tensor) -> Tensor:
        """-D(G(c, e)), (B,)."""
        return -fake

    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """D(G(c, e)) - D(x); this critic gives no probabilities, so it has no accuracy."""
        return {CRITIC: Term(1.0, fake - real)}

    def smoothness(
        self, critic: models.Discriminator, real: Tensor, fake: Tensor, noise: Noise
    ) -> Terms:
        """The penalty on slopes other than 1 between real and generated images."""
        value = gradient_penalty(critic, between(real, fake, noise))
        return {"penalty": Term(self.penalty, value)}

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return ("critic", "adversarial", "penalty")


def _gan(nets: Nets) -> models.InfoGAN:
    assert isinstance(nets.model, models.InfoGAN)
    return nets.model
