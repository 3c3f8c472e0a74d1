"""Settings for users' own data: split and hyperparameters that suit it, chosen in one place.

Own data are files, folders and arrays in memory, and selections and pairs of them. `unweave train`
and `fit` use `suggest` for everything that the user did not set; `Run` itself has the defaults of
the papers.
"""

import math

import torch

from unweave import likelihoods
from unweave.core.optimisers import Adam
from unweave.core.schedules import Linear
from unweave.core.spec import digest
from unweave.data import (
    ArrayDataset,
    Arrays,
    Data,
    Dataset,
    Folder,
    InMemory,
    Paired,
    Selected,
    Subset,
    noise_deviation,
)
from unweave.data.dataset import load_dataset
from unweave.data.files.build import take_split
from unweave.data.splits import takes_all, with_split
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.training.run import Run, default_likelihood, default_network

LEAST_TO_SPLIT = 50  # distinct observations from which some are held out
_BETA = 1.0  # the weight of the rate after the warm-up
_LEAST_SCALE = 0.3  # of the data's; below, the first steps spread factors over all variables
_NETWORK = MLP(hidden=(128, 128))  # for what is not an image
_WARM_UP = 5  # the warm-up takes a fifth of the suggested steps
_OWN = (Arrays, Folder, InMemory)


def is_own_data(data: Data) -> bool:
    """Whether data are a user's own: read from a file, a folder or memory, or made of such."""
    return isinstance(data.source if isinstance(data, (Selected, Paired)) else data, _OWN)


class Datasets:
    """Data on a device, each read once, with what is held out of a user's own data."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._loaded: dict[str, Dataset] = {}

    def add(self, data: Data, dataset: Dataset) -> Data:
        """Add data that are loaded already; return their spec."""
        self._loaded[digest(data)] = dataset
        return data

    def load(self, data: Data) -> Dataset:
        """Load data, or a split of data that are loaded already."""
        key = digest(data)
        if key not in self._loaded:
            self._loaded[key] = self._split(data) or load_dataset(data, self.device)
        return self._loaded[key]

    def training_split(self, data: Data) -> Data:
        """Return the split of own data to train on: "train" if there is enough, otherwise all.

        A subset has as many observations as the user asked for, so it is not split; nor are pairs,
        which need all combinations of factors.
        """
        if not is_own_data(data) or not takes_all(data) or _has_subset(data):
            return data
        return with_split(data, "train") if self.load(data).distinct >= LEAST_TO_SPLIT else data

    def validation(self, data: Data) -> Dataset | None:
        """Return the validation split of own data that are trained on their training split."""
        source = data.source if isinstance(data, Selected) else data
        if not isinstance(source, _OWN) or source.split != "train" or _has_subset(data):
            return None
        return self.load(with_split(data, "validation"))

    def drop_whole(self, data: Data) -> None:
        """Forget the whole of own data whose splits are loaded, to keep no observation twice."""
        if isinstance(data, _OWN) and data.split != "all":
            self._loaded.pop(digest(with_split(data, "all")), None)

    def _split(self, data: Data) -> Dataset | None:
        """Take the split from the whole of the data, which are not read a second time."""
        if not isinstance(data, _OWN) or data.split == "all":
            return None
        whole = self.load(with_split(data, "all"))
        return take_split(whole, data.split) if isinstance(whole, ArrayDataset) else None


def _has_subset(data: Data) -> bool:
    return isinstance(data, Selected) and any(isinstance(each, Subset) for each in data.select)


def suggest(run: Run, dataset: Dataset, keep_steps: bool = True) -> Run:
    """Return a run on the same own data whose settings suit the data.

    Only three settings of the given run are used: whether its objective trains an autoencoder, how
    many latent variables it has and, with `keep_steps`, its steps. The warm-up does not depend on
    the steps unless they are few, so that a run can be continued with more.
    """
    usual = suggested_steps(dataset)
    steps = run.steps if keep_steps else usual
    warm_up = max(1, min(usual // _WARM_UP, steps // 2))
    likelihood = default_likelihood(dataset)
    if run.objective.autoencodes and isinstance(likelihood, likelihoods.Gaussian):
        # The learned scale starts near its end: Adam divides a scale by about 3 in 1,000 steps.
        start = noise_deviation(dataset, len(run.latent.variables), _LEAST_SCALE)
        likelihood = likelihoods.Gaussian(float(f"{start:.1g}") or 1.0, learn="shared")
    vectors = isinstance(default_network(run.data, dataset.shape), MLP)
    return Run(
        data=run.data,
        network=_NETWORK if vectors and run.objective.autoencodes else None,
        likelihood=likelihood,
        objective=BetaVAE(beta=Linear(0.0, _BETA, steps=warm_up)),
        optimiser=Adam(lr=1e-3),
        batch_size=_batch_size(dataset.size),
        steps=steps,
    )


def suggested_steps(dataset: Dataset) -> int:
    """Return the steps of a first run: 200 epochs, or 400 of images, within 1,000 to 5,000 steps.

    Large data get ten epochs, if these are more, and at most 30,000 steps.
    """
    epoch = dataset.size / _batch_size(dataset.size)
    epochs = 400 if len(dataset.shape) == 3 else 200
    steps = max(min(epochs * epoch, 5_000), 10 * epoch)
    return int(min(max(steps, 1_000), 30_000)) // 100 * 100


def _batch_size(size: int) -> int:
    """Return 64, or for fewer than 256 observations a power of two that is at most a quarter."""
    return min(64, 1 << int(math.log2(max(1, size // 4))))
