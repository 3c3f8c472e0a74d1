"""Models: encode, decode, forward. What to do with them is the objectives' business."""

from unweave.models.vae import VAE, Pass

__all__ = ["VAE", "Pass"]
