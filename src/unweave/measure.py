"""Measuring many trained runs: those of one structure over one world are encoded as lanes.

>>> import numpy as np
>>> from unweave import MLP, fit
>>> images = np.random.default_rng(0).integers(0, 2, (64, 8, 8)) * 255
>>> models = fit(images.astype(np.uint8), seed=range(3), network=MLP(), steps=5, progress=False)
>>> [table.codes.shape for table in tables(models)]
[(64, 10), (64, 10), (64, 10)]
>>> [len(summary.information) for summary in summaries(models, samples=100)]
[10, 10, 10]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Unpack

from torch import Tensor

from unweave.aggregate import Summary
from unweave.fitted import Fitted
from unweave.latents import Distribution
from unweave.metrics import Frame, Scores, Table
from unweave.metrics import evaluate as evaluate_table
from unweave.parallel import in_threads, usable_cores
from unweave.trained import join

_HELD = 2**30  # numbers of weights and codes on the device at once: 4 GB


class Encoded(NamedTuple):
    """A model with what it says of rows of its data."""

    number: int  # among the models
    model: Fitted
    rows: Tensor  # (N,) numbers of the observations
    q: Distribution  # q(z|x) of each


def encode(
    models: Sequence[Fitted],
    rows: int | None = 10_000,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Encoded]:
    """Encode `rows` observations of the data of every model, or all, model after model.

    Models of one structure over one world, as `fit` and `load` give them in a list, see each
    observation together: it is read once. So the order is that of structures; q(z|x) stays on the
    device, for as many models at once as memory bears. `progress` is told how many more codes
    there are.
    """
    for numbers in _groups(models, rows):
        first = models[numbers[0]]
        index = first.rows(_rows(first, rows), seed)
        trained = join([models[number].trained for number in numbers])
        raw = trained.raw(first.world, index, progress)
        for number, lane in zip(numbers, raw, strict=True):
            yield Encoded(number, models[number], index, first.run.latent.posterior(lane))


def tables(models: Sequence[Fitted], rows: int = 10_000, seed: int = 0) -> list[Table]:
    """`Fitted.table` of every model."""
    found = {e.number: e.model.tabulate(e.rows, e.q) for e in encode(models, rows, seed)}
    return [found[number] for number in range(len(models))]


def summaries(
    models: Sequence[Fitted], samples: int = 10_000, rows: int | None = None, seed: int = 0
) -> list[Summary]:
    """`Fitted.summary` of every model: the rate taken apart, with the exact q(z) of its data."""
    found = {e.number: e.model.summarise(e.q, samples, seed) for e in encode(models, rows, seed)}
    return [found[number] for number in range(len(models))]


def evaluate(
    models: Sequence[Fitted],
    rows: int = 10_000,
    *,
    metrics: str | Sequence[str] | None = None,
    rng: int = 0,
    **frame: Unpack[Frame],
) -> list[Scores]:
    """Scores of every model by metric and protocol, as `metrics.evaluate` gives them of its table.

    Tables are made in lanes, and measured in as many threads as there are cores.
    """
    work = partial(evaluate_table, metrics=metrics, rng=rng, **frame)
    return list(in_threads(work, tables(models, rows), usable_cores()))


def _groups(models: Sequence[Fitted], rows: int | None) -> Iterator[list[int]]:
    """Numbers of models that are encoded together."""
    alike: dict[tuple[int, str], list[int]] = {}
    for number, model in enumerate(models):
        alike.setdefault((id(model.world), model.run.lane_key), []).append(number)
    for numbers in alike.values():
        model = models[numbers[0]]
        weights = sum(value.numel() for value in model.trained.weights.values())
        lanes = max(1, _HELD // (weights + _rows(model, rows) * model.run.latent.outputs))
        yield from (numbers[at : at + lanes] for at in range(0, len(numbers), lanes))


def _rows(model: Fitted, rows: int | None) -> int:
    """How many observations are encoded."""
    return model.world.size if rows is None else min(rows, model.world.size)
