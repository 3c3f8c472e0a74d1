"""Models with random weights, without training, on small random data."""

from unweave.core.noise import Noise
from unweave.data import from_array
from unweave.evaluation.model import FittedModel
from unweave.training import Outcome
from unweave.training.run import Run


def untrained(array, factors=None, names=None, *, scale=None, **fields):
    """Return a model of an array whose weights and running statistics are random."""
    data, dataset = from_array(array, factors, names, scale=scale)
    run = Run(data=data, batch_size=2, **fields).resolve(dataset)
    weights = {
        name: _shaken(name, value.detach())
        for name, value in run.build(dataset.shape).state_dict().items()
    }
    return FittedModel(Outcome(run, weights, [], None), dataset)


def _shaken(name, value):
    """Move a tensor of weights away from special values; variances stay positive."""
    noise = 0.02 * Noise(5, 0, "shaken").normal(value.shape, name)
    return value + (noise.abs() if name.endswith("running_var") else noise)
