"""Every network of the papers, and a tree with discrete blocks, with random weights."""

import numpy as np
import torch

import unweave as uw
from unweave.data import from_array
from unweave.evaluation.model import FittedModel
from unweave.training import Outcome
from unweave.training.run import Run

ROWS = 8
TREE = uw.Product(
    style=uw.Gaussian(2),
    what=uw.Product(shape=uw.Categorical(3), flags=uw.Bernoulli(2), size=uw.StudentT(1, df=5)),
)


def _gan(table, norm="batch"):
    return uw.InfoGAN(network=uw.Kim2018GAN(table, norm), noise_size=3)


# The shape of images, and the network. Images are small where the network takes any size, so that
# there are fewer weights; the layers are the same.
NETWORKS = {
    "kim2018-table-1": ((1, 64, 64), {"network": uw.Kim2018()}),
    "kim2018-table-2": ((3, 64, 64), {"network": uw.Kim2018(hidden=256)}),
    "kim2018-table-3": ((1, 64, 64), {"network": uw.Kim2018(hidden=256)}),
    "mathieu2018": ((1, 64, 64), {"network": uw.Mathieu2019(third=32)}),
    "mathieu2019": ((1, 64, 64), {"network": uw.Mathieu2019()}),
    "mathieu2019-table-1b": ((1, 8, 8), {"network": uw.MLP()}),
    "mathieu2019-table-1c": ((3, 64, 64), {"network": uw.DCGAN(8)}),
    "esmaeili2019-table-3": ((1, 12, 12), {"network": uw.Esmaeili2019(3), "latent": TREE}),
    "esmaeili2019-table-4": ((1, 12, 12), {"network": uw.Esmaeili2019(4)}),
    "esmaeili2019-table-5": ((3, 64, 64), {"network": uw.Esmaeili2019(5), "latent": TREE}),
    "sikka2019": ((1, 12, 12), {"network": uw.MLP((256, 200, 200), "tanh")}),
    "kim2018-table-4": ((1, 8, 8), {"objective": _gan(4)}),
    "kim2018-table-5": ((1, 16, 16), {"objective": _gan(5), "latent": TREE}),
    "kim2018-table-6": ((3, 8, 8), {"objective": _gan(6, "layer")}),
}


def random_model(shape, fields):
    """Return a model that was not trained. Its weights are coarse, so its page is small."""
    values = np.random.default_rng(0).random((ROWS, *shape))
    data, dataset = from_array((255 * values).astype(np.uint8))
    fields = {"latent": uw.Gaussian(4)} | fields
    run = Run(data=data, batch_size=2, **fields).resolve(dataset)
    torch.manual_seed(0)
    weights = {
        name: _coarse(value) for name, value in run.build(dataset.shape).state_dict().items()
    }
    return FittedModel(Outcome(run, weights, [], None), dataset)


def _coarse(value):
    """Make weights so large that codes matter, and round them to multiples of 1/128."""
    if value.dim() < 2:
        return value.detach()
    inputs = value.numel() / max(value.shape[:2])
    scaled = value.detach() * (2 / inputs) ** 0.5 / value.std()
    return torch.round(128 * scaled) / 128
