"""Checks of a network."""

import dataclasses

import numpy as np
import torch
from torch import nn

from unweave.core.noise import seeded
from unweave.data import from_array
from unweave.latents import Categorical, Gaussian, Latent, Product
from unweave.networks import Modules, Network, Shape
from unweave.objectives import VAE
from unweave.testing.laws import CPU, check_spec, check_training, require
from unweave.training.run import Run
from unweave.training.state import initial_state


@seeded()
def check_network(
    network: Network, shape: Shape = (1, 64, 64), *, latent: Latent | None = None
) -> None:
    """Check a network.

    Encoder and decoder have the stated shapes, give the same result for the same input, also in
    training, and map each row by itself in evaluation; each weight has a gradient; weights start
    with other values for other seeds, and with the same for the same seed; runs in lanes equal runs
    alone; and an interrupted run ends with the same bits.

    Args:
        network: the spec of an encoder and a decoder.
        shape: shape of the observations to test it with, (C, H, W) or (D,).
        latent: latent space to test it with; `uw.Modules`, whose sizes are fixed, need the one they
            were made for. By default a product of Gaussian and categorical variables.
    """
    check_spec(network, Run(network=network))
    require(
        latent is not None or not isinstance(network, Modules),
        "the sizes of uw.Modules are fixed: give the latent space that they were made for, as in "
        "check_network(..., latent=uw.Gaussian(2))",
    )
    block = latent or Product(style=Gaussian(3), what=Categorical(2))
    encoder = network.encoder(shape, block.discrete_outputs)
    decoder = network.decoder(block.size, shape)
    raw = encoder(torch.rand(5, *shape))
    require(
        tuple(raw.shape) == (5, block.outputs),
        (f"encoder: expected shape {(5, block.outputs)}, got {tuple(raw.shape)}"),
    )
    out = decoder(torch.randn(5, block.size))
    require(
        tuple(out.shape) == (5, *shape),
        (f"decoder: expected shape {(5, *shape)}, got {tuple(out.shape)}"),
    )
    for part, value in (("encoder", raw), ("decoder", out)):
        module = encoder if part == "encoder" else decoder
        _check_deterministic(part, module, shape if part == "encoder" else (block.size,))
        parameters = dict(module.named_parameters())
        if parameters:
            weights = list(parameters.values())
            gradients = torch.autograd.grad(value.square().sum(), weights, allow_unused=True)
            pairs = zip(parameters, gradients, strict=True)
            idle = [name for name, g in pairs if g is None or not g.any()]
            require(not idle, f"{part}: these parameters get no gradient: {', '.join(idle)}")
        _check_rows(part, module, shape if part == "encoder" else (block.size,))
    images = np.random.default_rng(0).integers(0, 2, (40, *shape)).astype(np.uint8)
    data, dataset = from_array(images, axes="nchw" if len(shape) == 3 else None)
    run = Run(data=data, latent=latent or Gaussian(3), objective=VAE(), network=network,
              batch_size=16)  # fmt: skip
    _check_seeds(run.resolve(dataset), dataset.shape)
    check_training(run, dataset)


@torch.no_grad()
def _check_deterministic(part: str, module: nn.Module, shape: Shape) -> None:
    """In training, too: lanes would not equal runs alone, nor a resumed run one that was not."""
    x = torch.rand(5, *shape)
    require(
        torch.equal(module(x), module(x)),
        f"{part}: gives different results for the same input; remove dropout and other random "
        "layers",
    )


@torch.no_grad()
def _check_rows(part: str, module: nn.Module, shape: Shape) -> None:
    """After training, the code of an observation does not depend on those encoded with it."""
    was_training = module.training
    module.eval()
    x, others = torch.rand(2, 5, *shape)
    others[0] = x[0]
    row, same = module(x)[0], module(others)[0]
    module.train(was_training)
    require(
        torch.allclose(row, same, rtol=1e-3, atol=1e-5),
        f"{part}: a row of its output depends on the other rows of the batch (it changes by "
        f"{float((row - same).abs().max()):.3g} with them), so codes would depend on what is "
        "encoded together; take no mean, sum or softmax over the batch, or use running statistics "
        "in evaluation, as nn.BatchNorm1d does",
    )


def _check_seeds(run: Run, shape: Shape) -> None:
    """The initial state is a function of the seed, and no random parameter ignores it."""
    runs = [dataclasses.replace(run, seed=seed) for seed in (0, 1, 0)]
    state = initial_state(runs, run.build(shape), shape, CPU, half=False)
    for name, value in (state.parameters | state.buffers).items():
        require(
            torch.equal(value[0], value[2]),
            f"{name} starts with other values each time it is built with the same seed: draw them "
            "with torch's random numbers",
        )
    for name, value in state.parameters.items():
        constant = (value[0] == value[0].flatten()[:1]).all()
        require(
            constant or not torch.equal(value[0], value[1]),
            f"{name} starts with the same values for every seed: draw them with torch's random "
            "numbers, or keep fixed numbers with register_buffer",
        )
