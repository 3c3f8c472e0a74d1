"""Networks: specs that build encoders, decoders and critics."""

from unweave.networks.architectures import MLP, Conv, Critic, Kim2018, Mathieu2019, Network
from unweave.networks.initialise import initialise
from unweave.networks.stacks import Shape

__all__ = ["MLP", "Conv", "Critic", "Kim2018", "Mathieu2019", "Network", "Shape", "initialise"]
