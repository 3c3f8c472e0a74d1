"""Checks for your own parts: the laws that unweave's own tests apply.

Call one in a test of your package. If a law is broken, it raises an AssertionError that names the
law and says by how much it is broken.

>>> import unweave as uw
>>> from unweave.testing import check_network
>>> check_network(uw.MLP(hidden=(16,)), shape=(1, 8, 8))
"""

from unweave.testing.datasets import check_dataset
from unweave.testing.latents import check_latent
from unweave.testing.likelihoods import check_likelihood
from unweave.testing.metrics import check_metric
from unweave.testing.networks import check_network
from unweave.testing.objectives import check_objective

__all__ = [
    "check_dataset",
    "check_latent",
    "check_likelihood",
    "check_metric",
    "check_network",
    "check_objective",
]
