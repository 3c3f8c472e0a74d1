"""Networks: specs that build encoders, decoders, critics and the parts of a GAN."""

from typing import Annotated

from unweave.core.parts import Open
from unweave.networks.adversarial import Kim2018GAN
from unweave.networks.architectures import (
    DCGAN,
    MLP,
    Conv,
    Critic,
    Esmaeili2019,
    Kim2018,
    Mathieu2019,
)
from unweave.networks.base import BaseNetwork, Shape
from unweave.networks.initialise import Init, initialise
from unweave.networks.layers import frozen_statistics
from unweave.networks.modules import Modules, UserModule

Network = Annotated[
    Kim2018 | Mathieu2019 | DCGAN | Esmaeili2019 | Conv | MLP | Modules | BaseNetwork, Open()
]

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
    "Modules",
    "Network",
    "Shape",
    "UserModule",
    "frozen_statistics",
    "initialise",
]
