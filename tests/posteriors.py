"""Posteriors of latent blocks, and draws of them with hard samples of discrete variables."""

import torch

from unweave.core.noise import Noise

f64 = torch.float64


def posterior(latent, batch=5, seed=0, dtype=f64):
    return latent.posterior(Noise(seed).normal((batch, latent.outputs), "raw", dtype))


def draws(latent, q, count=60_000):
    """Samples of q; of discrete variables those of the masses, not of their relaxation."""
    z = q.rsample(Noise(4), (count,))
    columns = z.split(list(latent.variables), -1)
    kept = []
    for part, discrete in zip(columns, latent.discrete, strict=True):
        if not discrete:
            kept.append(part)
        elif part.shape[-1] == 1:
            kept.append(part.round())
        else:
            one = torch.nn.functional.one_hot(part.argmax(-1), part.shape[-1])
            kept.append(one.to(part.dtype))
    return torch.cat(kept, -1)
