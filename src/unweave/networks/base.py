"""The base class of networks, which build an encoder and a decoder."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import nn

Shape = tuple[int, ...]
Outputs = Sequence[bool]  # one entry per output of an encoder: whether it is a discrete logit


class BaseNetwork(ABC):
    """A spec that builds an encoder and a decoder.

    To use your own architecture, subclass this and write both methods, or pass two modules as
    `Modules(encoder, decoder)`.
    """

    kind: str

    @abstractmethod
    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        """Build the encoder, from observations (B, *shape) to (B, len(outputs)).

        `outputs` says which of the outputs are logits of discrete variables; most networks need
        only their number.
        """

    @abstractmethod
    def decoder(self, size: int, shape: Shape) -> nn.Module:
        """Build the decoder, from codes (B, size) to (B, *shape).

        `shape` is what the likelihood reads: that of the observations, or twice its channels if the
        decoder also outputs scales.
        """
