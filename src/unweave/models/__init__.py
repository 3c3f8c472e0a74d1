"""Models: networks that encode, decode and run a forward pass, without a loss."""

from unweave.core.lazy import public_names
from unweave.models.infogan import (
    GeneratedBatch as GeneratedBatch,
    ImageCritic as ImageCritic,
    InfoGANModel as InfoGANModel,
)
from unweave.models.model import Model as Model, as_float32 as as_float32
from unweave.models.vae import ForwardPass as ForwardPass, VAEModel as VAEModel

__all__ = public_names(__name__)
