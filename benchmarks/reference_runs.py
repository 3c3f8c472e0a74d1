"""Train ten small runs for 50 steps on the CPU and compare the bits of their weights.

A refactoring must not change them: `python benchmarks/reference_runs.py` compares with
`reference_runs.json`, and `--write` replaces that file. The bits are those of one CPU and one build
of torch, so compare before and after a change on the same machine.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

import unweave as uw

STORED = Path(__file__).with_suffix(".json")
MIXED = uw.Product(style=uw.Gaussian(4), shape=uw.Categorical(3))
RUNS = {
    "vae": uw.Run(objective=uw.VAE()),
    "beta-vae": uw.Run(objective=uw.BetaVAE(beta=4.0)),
    "factor-vae": uw.Run(objective=uw.FactorVAE(critic=uw.Critic(width=50, depth=2))),
    "beta-tcvae": uw.Run(objective=uw.BetaTCVAE()),
    "hfvae": uw.Run(latent=MIXED, objective=uw.HFVAE()),
    "dip-vae": uw.Run(objective=uw.DIPVAE()),
    "alpha-beta-vae": uw.Run(latent=uw.Sparse(6), objective=uw.AlphaBetaVAE()),
    "aae": uw.Run(objective=uw.AAE()),
    "student-t": uw.Run(latent=uw.StudentT(5), objective=uw.BetaVAE(beta=uw.Linear(0, 2, 30))),
    "info-gan": uw.Run(objective=uw.InfoGAN(), latent=uw.Uniform(4)),
}


def weights_digest(run: uw.Run) -> str:
    """Train a run for 50 steps and hash the names and bytes of its weights."""
    data = uw.Shapes2D(side=64, scales=2, orientations=4, positions=4)
    settings = {"latent": run.latent, "objective": run.objective, "steps": 50, "batch_size": 32}
    if run.objective.kind != "info-gan":
        settings["network"] = uw.Kim2018(hidden=32)
    content = hashlib.sha256()
    with tempfile.TemporaryDirectory() as store:
        uw.fit(data, **settings, seed=[0, 1], store=store, progress=False, device="cpu")
        for path in sorted(Path(store).glob("*/weights.safetensors")):
            for name, value in sorted(load_file(path).items()):
                content.update(name.encode() + value.contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


def main() -> None:
    """Print the digests, and fail if one differs from the stored."""
    torch.set_num_threads(1)
    found = {name: weights_digest(run) for name, run in RUNS.items()}
    if "--write" in sys.argv:
        STORED.write_text(json.dumps(found, indent=2) + "\n")
    stored = json.loads(STORED.read_text())
    for name, digest in found.items():
        print(f"{name:16} {digest} {'same' if digest == stored[name] else 'DIFFERS'}")
    sys.exit(found != stored)


if __name__ == "__main__":
    main()
