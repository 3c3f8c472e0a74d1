"""InfoGAN and InfoWGAN-GP: a generator, a critic of images, and a recogniser of codes."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from unweave import models
from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.core.schedules import Weight
from unweave.core.spec import Size, spec, tag
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.networks import Kim2018GAN, Network, Shape
from unweave.objectives.base import (
    CRITIC,
    CRITIC_ACCURACY,
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
)
from unweave.objectives.divergences import accuracy

_CRITIC_ADAM = Adam(lr=1e-4, betas=(0.5, 0.999))  # [Kim2018] app. H; the generator's lr is 1e-3


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute (|grad_x D(x)| - 1)^2 at every point of x (B, *shape), (B,).  [Gulrajani2017] eq. 3.

    The critic must map each point to a number, (B,), independently of the other points.
    """
    slopes: Tensor = torch.func.grad(lambda points: critic(points).sum())(x)
    lengths: Tensor = torch.linalg.vector_norm(slopes.flatten(1), dim=1)
    return (lengths - 1).square()


def interpolate(real: Tensor, fake: Tensor, noise: Noise) -> Tensor:
    """Draw pi real + (1 - pi) fake, pi ~ U(0, 1) for each pair, (B, *shape).  [Kim2018] eq. 16."""
    share = noise.uniform((len(real), *[1] * (real.dim() - 1)), "between", real.dtype)
    return fake + share * (real - fake)


class AdversarialObjective(BaseObjective):
    """min over G, Q, max over D of V(D, G) - information L(G, Q).  [Kim2018] eq. 14.

    L(G, Q) = E_p(c) E_p(e) [log Q(c|G(c, e))], eq. 13; subclasses define V. A step is
    `critic_steps` updates of the critic, each on its own batch, then one update of the model.

    The model consists of G and the last layers of Q, the critic of D and the trunk that D and Q
    share. In the model's update the trunk is constant, and the gradient of L reaches G through it.
    Since eq. 14 also minimises over the trunk as a part of Q, the critic's loss is
    -V - information L, on images without gradient. So G follows V and L, D follows V, Q's own
    layers follow L, and the trunk follows both, as in the code released with [Chen2016] (where all
    of Q is updated with the critic). Both updates report L; the log keeps the model's, the last.
    """

    information: Weight
    """Weight of the mutual information between codes and images."""
    critic_steps: int
    """Updates of the critic in a step, each on its own batch."""
    noise_size: int
    """Columns of noise that the generator reads besides the codes."""
    network: Kim2018GAN
    """Generator, critic and recogniser."""
    critic_optimiser: Adam
    """Optimiser of the critic."""
    autoencodes: ClassVar[bool] = False
    requires: ClassVar[Requirements] = {
        "fixed_prior": "the generator needs codes from a fixed prior"
    }

    @abstractmethod
    def generator_loss(self, fake: Tensor) -> Tensor:
        """Compute the generator's loss from D(G(c, e)), (B,)."""

    @abstractmethod
    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """Return the critic's loss on D(x) and D(G(c, e)), and diagnostics, (B,) each."""

    def critic_regulariser(
        self, critic: models.ImageCritic, real: Tensor, fake: Tensor, noise: Noise
    ) -> Terms:
        """Return further terms of the critic's loss; none by default."""
        return {}

    @property
    def updates(self) -> tuple[Update, ...]:
        critic = Update(CRITIC, self.critic_loss)
        return (*[critic] * self.critic_steps, Update(MODEL, self.model_loss))

    @property
    def optimisers(self) -> dict[str, Adam]:
        return {CRITIC: self.critic_optimiser}

    def build(
        self, latent: Latent, network: Network | None, likelihood: Likelihood, shape: Shape
    ) -> Nets:
        """Build generator, recogniser and critic, which form one model."""
        model = models.InfoGANModel(latent, self.network, likelihood, shape, self.noise_size)
        return Nets(model, {})

    def critic_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        """Return the critic's loss on a batch and as many generated images."""
        gan = _gan(nets)
        c, x = gan(len(batch.x), noise)
        generated = x.detach()
        fake, q = gan.criticise(generated)
        terms = self.critic_terms(gan.critic(batch.x), fake)
        terms["information"] = Term(self.information, -q.log_prob(c))
        return terms | self.critic_regulariser(gan.critic, batch.x, generated, noise), {}

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        """Return the model's loss on as many generated images as there are in the batch."""
        gan = _gan(nets)
        c, x = gan(len(batch.x), noise)
        fake, q = gan.criticise(x)
        return {
            "adversarial": Term(1.0, self.generator_loss(fake)),
            "information": Term(self.information, -q.log_prob(c)),
        }, {}


@spec
class InfoGAN(AdversarialObjective):
    """E[log D(x)] + E[log(1 - D(G(c, e)))] - information E[log Q(c|G(c, e))].

    [Chen2016] eq. 6, [Kim2018] eq. 13, 14, 15; we read eq. 15 as that of the original GAN, as the
    text says. D maximises it, G and Q minimise it. For its second term G minimises -E[log D(G)],
    which has the same fixed point and a gradient even if D wins: [Goodfellow2014] sec. 3.

    The term "information", -E[log Q(c|G)], is in nats, and H(c) minus it is a lower bound on
    I(c; G(c, e)). Q is the posterior of the latent space: probabilities of classes and bits, and
    for `Uniform` codes a density on their interval. [Chen2016] sec. 6 uses a normal density, which
    leaks out of the interval and never equals p(c), so the bound is below 0 for uninformative Q.

    A run's `optimiser` is that of the generator and Q: use Adam(lr=1e-3, betas=(0.5, 0.999)),
    [Kim2018] app. H, the source of the other defaults; `noise_size` is 62 there for MNIST.
    `likelihood` sets the images' range. Leave the run's `network` out.
    """

    not_in_nats = (CRITIC_ACCURACY,)
    information: Weight = 1.0
    critic_steps: Size = 1
    noise_size: Annotated[int, Field(ge=0, le=1_000_000)] = 5
    network: Kim2018GAN = Kim2018GAN()
    critic_optimiser: Adam = _CRITIC_ADAM
    kind: Literal["info-gan"] = tag("info-gan")

    def generator_loss(self, fake: Tensor) -> Tensor:
        """Compute -log D(G(c, e)), (B,)."""
        return F.softplus(-fake)

    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """Return -log D(x) - log(1 - D(G(c, e))), D the sigmoid of its logit, and its accuracy."""
        return {
            CRITIC: Term(1.0, F.softplus(-real) + F.softplus(fake)),
            CRITIC_ACCURACY: Term(0.0, accuracy(real, fake)),
        }


@spec
class InfoWGANGP(AdversarialObjective):
    """E[D(x)] - E[D(G(c, e))] - penalty E[(|grad D(x')| - 1)^2] - information E[log Q(c|G(c, e))].

    [Kim2018] eq. 13, 14, 16: V is the Wasserstein distance of [Gulrajani2017] eq. 3, and x' is a
    random point between a real and a generated image. Only the critic minimises the penalty; eq. 16
    prints it with a plus, its sign in a loss, although D maximises that expression.

    [Gulrajani2017] alg. 1 updates the critic five times per step, `critic_steps=5`; [Kim2018]
    app. H does not mention it. The gradient is taken for each image alone, so the trunk has layer
    instead of batch normalisation, as there. Everything else is as for `InfoGAN`.
    """

    information: Weight = 1.0
    penalty: Weight = 10.0
    """Weight of the gradient penalty of the critic."""
    critic_steps: Size = 1
    noise_size: Annotated[int, Field(ge=0, le=1_000_000)] = 5
    network: Kim2018GAN = Kim2018GAN(norm="layer")
    critic_optimiser: Adam = _CRITIC_ADAM
    kind: Literal["info-wgan-gp"] = tag("info-wgan-gp")
    not_in_nats = (CRITIC, "adversarial", "penalty")
    also_cites: ClassVar[tuple[str, ...]] = ("Gulrajani2017",)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.network.norm != "layer":
            raise ValueError(
                "expected network.norm=layer, got batch: a gradient penalty needs each image "
                "alone, and batch normalisation mixes them"
            )
        return self

    def generator_loss(self, fake: Tensor) -> Tensor:
        """Compute -D(G(c, e)), (B,)."""
        return -fake

    def critic_terms(self, real: Tensor, fake: Tensor) -> Terms:
        """Return D(G(c, e)) - D(x); this critic has no probabilities, and so no accuracy."""
        return {CRITIC: Term(1.0, fake - real)}

    def critic_regulariser(
        self, critic: models.ImageCritic, real: Tensor, fake: Tensor, noise: Noise
    ) -> Terms:
        """Return the penalty on slopes other than 1 between real and generated images."""
        value = gradient_penalty(critic, interpolate(real, fake, noise))
        return {"penalty": Term(self.penalty, value)}


def _gan(nets: Nets) -> models.InfoGANModel:
    assert isinstance(nets.model, models.InfoGANModel)
    return nets.model
