"""Measuring many trained runs: those of one structure over one dataset are encoded as lanes.

>>> import numpy as np
>>> from unweave import MLP, fit
>>> images = np.random.default_rng(0).integers(0, 2, (64, 8, 8)) * 255
>>> models = fit(images.astype(np.uint8), seed=range(3), network=MLP(), steps=5, progress=False)
>>> [table.codes.shape for table in tables(models)]
[(64, 10), (64, 10), (64, 10)]
>>> [len(summary.information) for summary in summaries(models, samples=100)]
[10, 10, 10]
>>> found = describe(models[0], samples=100, observations=2, particles=10)
>>> 0 <= found["overlapping_neighbours/bhattacharyya"].value <= 63
True
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar, Unpack, overload

import numpy as np
from torch import Tensor

from unweave.aggregate import Summary
from unweave.core.noise import Noise
from unweave.core.parallel import in_processes, own_cores
from unweave.evaluation.model import TINY, Array, Codes, FittedModel
from unweave.evaluation.stacked import join
from unweave.latents import Distribution, Latent, distribution_at
from unweave.latents.densities import Mixture
from unweave.metrics import MetricOptions, Score, Scores, Table
from unweave.metrics import describe as describe_table
from unweave.metrics import evaluate as evaluate_table
from unweave.metrics.clusters import mixture_occupancy
from unweave.metrics.posterior.overlap import (
    correlation_score,
    information_score,
    neighbours_score,
    pairs_of,
)
from unweave.metrics.posterior.prior_match import match_scores

R = TypeVar("R")
T = TypeVar("T")

AggregateName = Literal[
    "mutual_information", "total_correlation", "dimension_kl", "information", "correlations"
]

_HELD = 2**30  # numbers of weights and codes on the device at once: 4 GB


class Encoded(NamedTuple):
    """A model with what it says of rows of its data."""

    number: int  # among the models
    model: FittedModel
    rows: Tensor  # (N,) numbers of the observations
    q: Distribution  # q(z|x) of each


def encode(
    models: Sequence[FittedModel],
    rows: int | None = 10_000,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Encoded]:
    """Encode `rows` observations of the data of every model, or all, model after model.

    Models of one structure over one dataset, as `fit` and `load` give them in a list, see each
    observation together: it is read once. So the order is that of structures; q(z|x) stays on the
    device, for as many models at once as memory bears. `progress` is told how many more codes
    there are.
    """
    for numbers in _groups(models, rows):
        yield from _together(models, numbers, rows, seed, progress)


def _together(
    models: Sequence[FittedModel],
    numbers: list[int],
    rows: int | None,
    seed: int,
    progress: Callable[[int], object] | None,
) -> Iterator[Encoded]:
    """The models of a group, whose codes are gone before those of the next are made."""
    first = models[numbers[0]]
    index = first.rows(_rows(first, rows), seed)
    raw = join([models[number].trained for number in numbers]).raw(first.dataset, index, progress)
    for lane, number in enumerate(numbers):
        yield Encoded(number, models[number], index, first.run.latent.posterior(raw[lane]))


def tables(models: Sequence[FittedModel], rows: int = 10_000, seed: int = 0) -> list[Table]:
    """`FittedModel.table` of every model."""
    found = {e.number: e.model.tabulate(e.rows, e.q) for e in encode(models, rows, seed)}
    return [found[number] for number in range(len(models))]


def summaries(
    models: Sequence[FittedModel], samples: int = 10_000, rows: int | None = None, seed: int = 0
) -> list[Summary]:
    """`FittedModel.summary` of every model: its rate decomposed with the exact q(z)."""
    found = {e.number: e.model.summarise(e.q, samples, seed) for e in encode(models, rows, seed)}
    return [found[number] for number in range(len(models))]


def aggregates(
    summary: Summary, names: Sequence[AggregateName], variables: Sequence[str]
) -> dict[str, float]:
    """Parts of the rate by name.

    "information" is I(x; z_v) of each variable, as "information/style.0", and "correlations" the
    total correlation of each group, as "correlations/style"; that of the root is "correlations/".
    """
    found: dict[str, float] = {}
    for name in names:
        if name == "information":
            each = zip(variables, summary.information, strict=True)
            found |= {f"{name}/{variable}": value for variable, value in each}
        elif name == "correlations":
            found |= {f"{name}/{group}": value for group, value in summary.correlations.items()}
        else:
            found[name] = getattr(summary, name)
    return found


def evaluate(
    models: Sequence[FittedModel],
    rows: int = 10_000,
    *,
    metrics: str | Sequence[str] | None = None,
    codes: Codes = "mean",
    rng: int = 0,
    **frame: Unpack[MetricOptions],
) -> list[Scores]:
    """Scores of every model by metric and protocol, as `metrics.evaluate` gives them of its table.

    Tables are made in lanes, and measured on all cores, several at once, while others are being
    encoded. `codes="prior-cdf"` scores the codes as normal quantiles under the prior (see
    `FittedModel.table`); metrics that need the scales of q(z|x) are then left out.
    """
    if isinstance(models, FittedModel):
        raise TypeError("expected a list of models, got one: give [model]")
    scored = partial(noted, partial(evaluate_table, metrics=metrics, seed=rng, **frame))
    found: dict[int, Scores] = {}
    told: dict[str, Warning] = {}
    for number, _, (scores, notes) in measured(models, rows, scored, codes=codes):
        found[number] = scores
        told |= {str(note): note for note in notes}
    for note in told.values():
        warnings.warn(note, stacklevel=2)
    return [found[number] for number in range(len(models))]


def noted(function: Callable[[T], R], item: T) -> tuple[R, list[Warning]]:
    """What a function gives of something, such as a table, and what it warns of, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function(item)
    texts = {str(each.message): each.message for each in caught}
    return found, [w if isinstance(w, Warning) else UserWarning(w) for w in texts.values()]


def measured(
    models: Sequence[FittedModel],
    rows: int,
    measure: Callable[[Table], R],
    progress: Callable[[int], object] | None = None,
    codes: Codes = "mean",
) -> Iterator[tuple[int, Table, R]]:
    """The number of every model, its table, and what a function says of that, on all cores.

    The function is pickled; tables are measured while others are being encoded, in the order of
    `encode`, which `progress` is for.
    """
    waiting: deque[tuple[int, Table]] = deque()

    def made() -> Iterator[Table]:
        for each in encode(models, rows, progress=progress):
            waiting.append((each.number, each.model.tabulate(each.rows, each.q, codes)))
            yield waiting[-1][1]

    for result in in_processes(measure, made(), min(own_cores(), len(models))):
        yield *waiting.popleft(), result


@overload
def describe(
    models: FittedModel,
    *,
    rows: int | None = ...,
    samples: int = ...,
    observations: int = ...,
    particles: int = ...,
    seed: int = ...,
) -> dict[str, Score]: ...


@overload
def describe(
    models: Sequence[FittedModel],
    *,
    rows: int | None = ...,
    samples: int = ...,
    observations: int = ...,
    particles: int = ...,
    seed: int = ...,
) -> list[dict[str, Score]]: ...


def describe(
    models: FittedModel | Sequence[FittedModel],
    *,
    rows: int | None = 10_000,
    samples: int = 2_000,
    observations: int = 100,
    particles: int = 1_000,
    seed: int = 0,
) -> dict[str, Score] | list[dict[str, Score]]:
    """All that a model, or each of several, says without labels, by name and protocol.

    The measures of its codes (`unweave.metrics.describe`); how far its encodings overlap: the
    exact mutual information with its bounds, the relative scale and the overlapping neighbours;
    the exact total correlation; every divergence between q(z) and the prior
    (`unweave.metrics.prior_match`); the occupancy of each mixture prior; and the log-likelihood.

    Neighbours, and bounds by pairs, need encodings that are Gaussian with independent columns. A
    model that gives no log p(x) has no likelihood. Information and correlation are those of the
    rows that are encoded: the mutual information of N rows is at most log N.

    Args:
        models: one, or several, which are encoded in lanes.
        rows: observations of the data to encode; None: all.
        samples: points at which the exact q(z) is evaluated, and rows whose neighbours are counted.
        observations: those whose likelihood is estimated; 0: none.
        particles: importance samples to each.
        seed: of rows and samples.
    """
    if isinstance(models, FittedModel):
        return describe(
            [models],
            rows=rows,
            samples=samples,
            observations=observations,
            particles=particles,
            seed=seed,
        )[0]
    found = {}
    for encoded in encode(models, rows, seed):
        scores = _described(encoded, samples, seed)
        if observations and encoded.model.run.objective.autoencodes:
            scores |= _likelihood(encoded.model, observations, particles, seed)
        found[encoded.number] = scores
    return [found[number] for number in range(len(models))]


def _described(encoded: Encoded, samples: int, seed: int) -> dict[str, Score]:
    """The measures of a model's codes and of its q(z|x)."""
    _, model, index, q = encoded
    latent = model.run.latent
    summary = model.summarise(q, samples, seed)
    rate = summary.mutual_information + summary.total_correlation + summary.dimension_kl
    normal = _independent_normals(latent, q)
    pairs = pairs_of(*normal, samples, seed) if normal else None
    own = [
        information_score(summary, len(index), pairs, rate),
        correlation_score(summary, len(index)),
        *([neighbours_score(pairs)] if pairs else []),
    ]
    noise = Noise(seed, 0, "describe", model.dataset.device)
    return (
        describe_table(model.tabulate(index, q))
        | {f"{score.name}/{score.protocol}": score for score in own}
        | match_scores(latent, q, model.prior(), summary, noise, samples=samples)
        | {
            f"cluster_occupancy/mathieu2019 {path}".rstrip(): mixture_occupancy(p, z)
            for path, (p, z) in _mixtures(latent, model.prior(), q.mean).items()
        }
    )


def _likelihood(
    model: FittedModel, observations: int, particles: int, seed: int
) -> dict[str, Score]:
    """The mean importance-weighted bound of log p(x) in nats, with its standard error."""
    if observations < 2:
        raise ValueError(
            f"expected at least 2 observations for a mean with its error, got {observations}: "
            "give 0 to leave the likelihood out"
        )
    index = model.rows(observations, seed)
    bounds = model.log_likelihood(model.observations(index), particles, seed)
    error = float(bounds.std(ddof=1)) / len(bounds) ** 0.5
    score = Score(
        "log_likelihood",
        "burda2016",
        float(bounds.mean()),
        details={
            "standard error": error,
            "observations": len(bounds),
            "particles": particles,
        },
    )
    return {"log_likelihood/burda2016": score}


def _independent_normals(latent: Latent, q: Distribution) -> tuple[Array, Array] | None:
    """Means and scales (N, D) of encodings that are Gaussian with independent columns."""
    if not (latent.gaussian_posterior and latent.factorised_posterior):
        return None
    return q.mean.cpu().numpy(), np.maximum(q.stddev.cpu().numpy(), TINY)


def _mixtures(latent: Latent, p: Distribution, z: Tensor) -> dict[str, tuple[Mixture, Tensor]]:
    """The mixtures among the priors of the blocks, by path, each with its columns of codes."""
    blocks = latent.leaf_blocks
    columns = z.split([sum(block.variables) for block in blocks.values()], -1)
    parts = {
        path: (distribution_at(p, path), own) for path, own in zip(blocks, columns, strict=True)
    }
    return {path: (d, own) for path, (d, own) in parts.items() if isinstance(d, Mixture)}


def _groups(models: Sequence[FittedModel], rows: int | None) -> Iterator[list[int]]:
    """Numbers of models that are encoded together."""
    alike: dict[tuple[int, str], list[int]] = {}
    for number, model in enumerate(models):
        alike.setdefault((id(model.dataset), model.run.lane_key), []).append(number)
    for numbers in alike.values():
        model = models[numbers[0]]
        weights = sum(value.numel() for value in model.trained.weights.values())
        lanes = max(1, _HELD // (weights + _rows(model, rows) * model.run.latent.outputs))
        yield from (numbers[at : at + lanes] for at in range(0, len(numbers), lanes))


def _rows(model: FittedModel, rows: int | None) -> int:
    """How many observations are encoded."""
    return model.dataset.size if rows is None else min(rows, model.dataset.size)
