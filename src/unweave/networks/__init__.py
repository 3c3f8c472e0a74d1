"""Networks: specs that build encoders, decoders, critics and the parts of a GAN."""

from unweave.networks.adversarial import Kim2018GAN
from unweave.networks.architectures import (
    DCGAN,
    MLP,
    BaseNetwork,
    Conv,
    Critic,
    Esmaeili2019,
    Kim2018,
    Mathieu2019,
    Network,
)
from unweave.networks.initialise import Init, initialise
from unweave.networks.layers import statistics_held
from unweave.networks.stacks import Shape

__all__ = [
    "DCGAN",
    "MLP",
    "BaseNetwork",
    "Conv",
    "Critic",
    "Esmaeili2019",
    "Init",
    "Kim2018",
    "Kim2018GAN",
    "Mathieu2019",
    "Network",
    "Shape",
    "initialise",
    "statistics_held",
]
