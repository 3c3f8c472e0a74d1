"""Networks: specs that build encoders, decoders, critics and the parts of a GAN."""

from typing import Annotated

from unweave.core.lazy import public_names
from unweave.core.parts import Open
from unweave.networks.adversarial import Kim2018GAN as Kim2018GAN
from unweave.networks.architectures import (
    DCGAN as DCGAN,
    MLP as MLP,
    Conv as Conv,
    Critic as Critic,
    Esmaeili2019 as Esmaeili2019,
    Kim2018 as Kim2018,
    Mathieu2019 as Mathieu2019,
)
from unweave.networks.base import BaseNetwork as BaseNetwork, Shape as Shape
from unweave.networks.initialise import Init as Init, initialise as initialise
from unweave.networks.layers import frozen_statistics as frozen_statistics
from unweave.networks.modules import Modules as Modules, UserModule as UserModule

__all__ = public_names(__name__)

Network = Annotated[
    Kim2018 | Mathieu2019 | DCGAN | Esmaeili2019 | Conv | MLP | Modules | BaseNetwork, Open()
]
