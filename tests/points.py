"""Points in spaces of latents."""

import torch

from unweave.core.noise import Noise


def normal(*shape, seed=0, dtype=torch.float64):
    """Draw standard normal numbers, by default in double precision."""
    return Noise(seed).normal(shape, "points", dtype)
