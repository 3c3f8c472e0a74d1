"""Models: encode, decode, forward. What to do with them is the objectives' business."""

from unweave.models.infogan import Discriminator, Drawn, InfoGAN
from unweave.models.model import Model, full
from unweave.models.vae import VAE, ForwardPass

__all__ = ["VAE", "Discriminator", "Drawn", "ForwardPass", "InfoGAN", "Model", "full"]
