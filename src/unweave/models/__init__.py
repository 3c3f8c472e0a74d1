"""Models: networks that encode, decode and run a forward pass, without a loss."""

from unweave.models.infogan import GeneratedBatch, ImageCritic, InfoGANModel
from unweave.models.model import Model, as_float32
from unweave.models.vae import ForwardPass, VAEModel

__all__ = [
    "ForwardPass",
    "GeneratedBatch",
    "ImageCritic",
    "InfoGANModel",
    "Model",
    "VAEModel",
    "as_float32",
]
