"""Models: networks that encode, decode and run a forward pass, without a loss."""

from unweave.models.infogan import GeneratedBatch, ImageCritic, InfoGAN
from unweave.models.model import Model, as_float32
from unweave.models.vae import VAE, ForwardPass

__all__ = ["VAE", "ForwardPass", "GeneratedBatch", "ImageCritic", "InfoGAN", "Model", "as_float32"]
