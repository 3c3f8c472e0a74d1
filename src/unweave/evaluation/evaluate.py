"""Evaluate many trained models; those of one structure on one dataset are encoded together.

>>> import numpy as np
>>> from unweave import MLP, fit
>>> images = np.random.default_rng(0).integers(0, 2, (64, 8, 8)) * 255
>>> models = fit(images.astype(np.uint8), seed=range(3), network=MLP(), steps=5, progress=False)
>>> [table.codes.shape for table in tables(models)]
[(51, 10), (51, 10), (51, 10)]
>>> [len(summary.information) for summary in summaries(models, samples=100)]
[10, 10, 10]
>>> scores = describe(models[0], samples=100, observations=2, particles=10)
>>> 0 <= scores["overlapping_neighbours/bhattacharyya"].value <= 50
True
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack, overload

import numpy as np
from torch import Tensor

from unweave.aggregate import Summary
from unweave.core.groups import grouped
from unweave.core.noise import Noise
from unweave.core.notes import capture_warnings
from unweave.core.parallel import own_cores, process_map
from unweave.core.parts import own_parts
from unweave.data.splits import on_split
from unweave.evaluation.loading import in_memory
from unweave.evaluation.model import TINY, Array, Codes, FittedModel
from unweave.evaluation.stacked import join
from unweave.latents import Distribution, Latent, distribution_at
from unweave.latents.densities import Mixture
from unweave.metrics import (
    MetricOptions,
    Score,
    Scores,
    Table,
    describe as describe_table,
    evaluate as evaluate_table,
    udr,
)
from unweave.metrics.clusters import mixture_occupancy
from unweave.metrics.model_metrics import LIKELIHOOD, RATE_PARTS, UDR, split_model_metrics
from unweave.metrics.posterior.overlap import (
    correlation_score,
    information_score,
    neighbours_score,
    pairs_of,
)
from unweave.metrics.posterior.prior_match import match_scores
from unweave.training.grouping import code_in, data_identity, same_but_for_the_seed
from unweave.training.store import RunFolder, ScoreFacts

if TYPE_CHECKING:
    from unweave.evaluation.scoring import Scorer

R = TypeVar("R")

AggregateName = Literal[
    "mutual_information", "total_correlation", "dimension_kl", "information", "correlations"
]

SUMMARY_SAMPLES = 1_000  # of q(z), at which parts of the rate are estimated
LIKELIHOOD_ROWS = 100  # observations whose likelihood is estimated if the metric is named
LIKELIHOOD_PARTICLES = 100  # importance samples for each: a Kim2018 network takes 3 s for all
_TOGETHER = 64  # models that are in memory and encoded at once, at most
_AT_ONCE = {"cpu": 2**23, "cuda": 2**30}  # weights and codes at once, in numbers: 32 MB or 4 GB


class EncodedModel(NamedTuple):
    """A model and the posteriors of rows of its data."""

    number: int  # its index among the models
    model: FittedModel
    rows: Tensor  # (N,) indices of the observations
    q: Distribution  # q(z|x) of each


def encode(
    models: Sequence[FittedModel],
    rows: int | None = 10_000,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[EncodedModel]:
    """Encode `rows` observations of the data of every model (None: all), model by model.

    Models of one structure on one dataset, as `fit` and `load` return them in a list, are encoded
    together, so each observation is read once and models come in the order of their structures.
    Models that are not in memory are read, at most 64 at a time. Posteriors stay on the device,
    for as many models as fit into memory. `progress` is called with
    the number of new codes.
    """
    for numbers in _groups(models, rows):
        yield from _encode_group(
            {number: in_memory(models[number]) for number in numbers}, rows, seed, progress
        )


def _encode_group(
    group: Mapping[int, FittedModel],
    rows: int | None,
    seed: int,
    progress: Callable[[int], object] | None,
) -> Iterator[EncodedModel]:
    """Encode a group in a function of its own, so that its codes are freed before the next."""
    first = next(iter(group.values()))
    index = first.rows(_count_rows(first, rows), seed)
    raw = join([model.trained for model in group.values()]).raw(first.dataset, index, progress)
    for lane, (number, model) in enumerate(group.items()):
        yield EncodedModel(number, model, index, first.run.latent.posterior(raw[lane]))


def tables(models: Sequence[FittedModel], rows: int = 10_000, seed: int = 0) -> list[Table]:
    """Return `FittedModel.table` of every model."""
    by_number = {e.number: e.model.tabulate(e.rows, e.q) for e in encode(models, rows, seed)}
    return [by_number[number] for number in range(len(models))]


def summaries(
    models: Sequence[FittedModel], samples: int = 10_000, rows: int | None = None, seed: int = 0
) -> list[Summary]:
    """Return `FittedModel.summary` of every model: its rate, decomposed with the exact q(z)."""
    encoded = encode(models, rows, seed)
    by_number = {e.number: e.model.summarise(e.q, samples, seed) for e in encoded}
    return [by_number[number] for number in range(len(models))]


def aggregates(
    summary: Summary, names: Sequence[AggregateName], variables: Sequence[str]
) -> dict[str, float]:
    """Select parts of the rate by name.

    "information" is I(x; z_v) of each variable, as "information/style.0", and "correlations" the
    total correlation of each group, as "correlations/style" ("correlations/" for the root).
    """
    parts: dict[str, float] = {}
    for name in names:
        if name == "information":
            each = zip(variables, summary.information, strict=True)
            parts |= {f"{name}/{variable}": value for variable, value in each}
        elif name == "correlations":
            parts |= {f"{name}/{group}": value for group, value in summary.correlations.items()}
        else:
            parts[name] = getattr(summary, name)
    return parts


@overload
def evaluate(
    models: FittedModel,
    rows: int = ...,
    *,
    metrics: str | Sequence[Any] | None = ...,
    codes: Codes = ...,
    seed: int = ...,
    on: Scorer | None = ...,
    **options: Unpack[MetricOptions],
) -> Scores: ...


@overload
def evaluate(
    models: Sequence[FittedModel],
    rows: int = ...,
    *,
    metrics: str | Sequence[Any] | None = ...,
    codes: Codes = ...,
    seed: int = ...,
    on: Scorer | None = ...,
    **options: Unpack[MetricOptions],
) -> list[Scores]: ...


def evaluate(
    models: FittedModel | Sequence[FittedModel],
    rows: int = 10_000,
    *,
    metrics: str | Sequence[Any] | None = None,
    codes: Codes = "mean",
    seed: int = 0,
    on: Scorer | None = None,
    **options: Unpack[MetricOptions],
) -> Scores | list[Scores]:
    """Return the scores of a model, by metric and protocol; a list of models gives a list.

    Models are encoded together, and their tables are scored by `unweave.metrics.evaluate` in
    several processes at once.

    Args:
        models: a model, or a list of models, as `fit` and `load` return them.
        rows: number of observations to encode.
        metrics: names of metrics or functions of your own, as in `unweave.metrics.evaluate`.
            "log_likelihood" is the importance-weighted bound for 100 observations, "udr" compares
            models that differ only in their seed, and "mutual_information", "total_correlation" and
            "dimension_kl" are parts of the rate under the exact q(z) of all observations. Default:
            all metrics that apply and are not slow.
        codes: "prior-cdf" maps codes to normal quantiles through the prior's cdf (see
            `FittedModel.table`); metrics that need the scales of q(z|x) are then left out.
        seed: seed of the metrics.
        on: where to encode and score: `uw.Local()`, `uw.Ray()` or `uw.Slurm()`. The models must be
            stored in folders, and the metrics must be given by name.
        options: options of every metric, such as `interval`.
    """
    one = isinstance(models, FittedModel)
    models = [models] if isinstance(models, FittedModel) else models
    of_tables, of_models = split_model_metrics(metrics)
    score = partial(evaluate_table, metrics=of_tables, seed=seed, **options)
    by_number: dict[int, Scores] = {}
    encoded: dict[int, Table] = {}
    issued: dict[str, Warning] = {}
    results = map_tables(models, rows, partial(capture_warnings, score), codes=codes)
    if on is not None:
        from unweave.evaluation.scoring import score_on  # which imports this module

        results = score_on(on, models, of_tables, options, rows=rows, codes=codes, seed=seed)
    for number, table, (scores, own) in results:
        by_number[number] = scores
        encoded |= {number: table} if UDR in of_models else {}
        issued |= {str(warning): warning for warning in own}
    for warning in issued.values():
        warnings.warn(warning, stacklevel=2)
    for number, result in score_models(models, of_models, encoded, seed):
        if isinstance(result, ValueError):
            raise result
        by_number[number][result.key] = result
    return by_number[0] if one else [by_number[number] for number in range(len(models))]


def score_models(
    models: Sequence[FittedModel], keys: Sequence[str], tables: Mapping[int, Table], seed: int = 0
) -> Iterator[tuple[int, Score | ValueError]]:
    """Yield (index of the model, score) for scores that need more than the model's own table.

    `keys` are `LIKELIHOOD`, the importance-weighted bound of 100 observations with 100 particles
    each, `RATE_PARTS` under the exact q(z) of all observations, as `Measure` computes them, and
    `UDR` over the models that differ only in their seed, for which `tables` has the table of each.
    If a model cannot be scored, the error that says why takes the place of its scores.
    """
    parts = [key for key in keys if key in RATE_PARTS]
    for each in encode(models, None) if parts else ():
        try:
            summary = each.model.summarise(each.q, SUMMARY_SAMPLES, seed)
        except ValueError as error:
            yield each.number, error
            continue
        for key in parts:
            yield each.number, rate_part_score(summary, key, len(each.rows))
    if LIKELIHOOD in keys:
        for number, model in enumerate(models):
            try:
                count = min(LIKELIHOOD_ROWS, model.dataset.size)
                yield number, likelihood_score(in_memory(model), count, LIKELIHOOD_PARTICLES, seed)
            except ValueError as error:
                yield number, error
    if UDR in keys:
        for numbers in seed_groups(models):
            by_seed = {models[n].run.seed: tables[n] for n in numbers}  # copies count once
            scores = dict(zip(by_seed, _udr(list(by_seed.values()), seed), strict=True))
            yield from ((n, scores[models[n].run.seed]) for n in numbers)


def score_facts(
    model: FittedModel,
    rows: int,
    codes: Codes = "mean",
    seed: int = 0,
    continuous: str | None = None,
) -> ScoreFacts:
    """Return what scores of a model are computed on, to be stored with them."""
    count, labels = min(rows, model.dataset.size), model.dataset.labels_fingerprint
    return ScoreFacts(model.split, count, codes, seed, labels, continuous, model.step)


def content_of(model: FittedModel) -> str:
    """Return text that is equal for models on equal data and labels, wherever these are."""
    data, fingerprint = on_split(model.run.data, model.split), model.source.record.fingerprint
    return data_identity(data, fingerprint, model.dataset.labels_fingerprint)


def seed_groups(models: Sequence[FittedModel]) -> list[list[int]]:
    """Return the indices of the models that differ only in their seed and are on the same data."""
    return same_but_for_the_seed(
        [m.run for m in models], [content_of(m) for m in models], [code_of(m) for m in models]
    )


def code_of(model: FittedModel) -> dict[str, str]:
    """Return the hashes of a user's own parts that a model was trained with, by setting."""
    if model.folder is None or not own_parts(model.run):
        return {}
    return code_in(RunFolder(model.folder).settings)


def _udr(tables: Sequence[Table], seed: int) -> Sequence[Score | ValueError]:
    if len(tables) < 2:
        return [
            ValueError(
                "udr compares runs that differ only in their seed, and no other run has these "
                "settings: train more seeds, as in seed=0..4"
            )
        ]
    kl = [table.kl for table in tables if table.kl is not None]
    try:
        return udr([table.codes for table in tables], kl=kl, seed=seed)
    except ValueError as error:
        return [error] * len(tables)


def map_tables(
    models: Sequence[FittedModel],
    rows: int,
    function: Callable[[Table], R],
    progress: Callable[[int], object] | None = None,
    codes: Codes = "mean",
) -> Iterator[tuple[int, Table, R]]:
    """Yield the index of each model, its table, and `function(table)`, computed in processes.

    Tables are passed on while other models are still being encoded, in the order of `encode`, which
    calls `progress`. The function is pickled.
    """
    waiting: deque[tuple[int, Table]] = deque()

    def encoded() -> Iterator[Table]:
        for each in encode(models, rows, progress=progress):
            waiting.append((each.number, each.model.tabulate(each.rows, each.q, codes)))
            yield waiting[-1][1]

    for result in process_map(function, encoded(), min(own_cores(), len(models))):
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
    """Describe a model, or each of several, without labels: scores by name and protocol.

    The scores are the unsupervised metrics of its codes (`unweave.metrics.describe`); the overlap
    of its encodings (the exact mutual information with its bounds, the relative scale and the
    overlapping neighbours); the exact total correlation; every divergence between q(z) and the
    prior (`unweave.metrics.prior_match`); the occupancy of each mixture prior; and the
    log-likelihood.

    Neighbours, and bounds from pairs, need Gaussian encodings with independent dimensions. A model
    without log p(x) has no likelihood. Information and correlation are those of the encoded rows,
    so the mutual information of N rows is at most log N.

    Args:
        models: one model, or several, which are encoded together.
        rows: number of observations to encode; None for all.
        samples: points at which the exact q(z) is evaluated, and rows whose neighbours are counted.
        observations: number of observations whose likelihood is estimated; 0 for none.
        particles: importance samples for each of these.
        seed: seed of rows and samples.
    """
    several = [models] if isinstance(models, FittedModel) else models
    by_number = {}
    for encoded in encode(several, rows, seed):
        scores = _describe_encoded(encoded, samples, seed)
        if observations and encoded.model.run.objective.autoencodes:
            own = likelihood_score(encoded.model, observations, particles, seed)
            scores |= {own.key: own}
        by_number[encoded.number] = scores
    descriptions = [by_number[number] for number in range(len(several))]
    return descriptions[0] if isinstance(models, FittedModel) else descriptions


def _describe_encoded(encoded: EncodedModel, samples: int, seed: int) -> dict[str, Score]:
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


def rate_part_score(summary: Summary, key: str, rows: int) -> Score:
    """Return a part of the rate under the exact q(z) of N rows, in nats."""
    name, _, protocol = key.partition("/")
    if name == "total_correlation":
        return correlation_score(summary, rows)
    return Score(name, protocol, getattr(summary, name), details={"rows": rows})


def likelihood_score(model: FittedModel, observations: int, particles: int, seed: int = 0) -> Score:
    """Return the mean importance-weighted bound of log p(x) in nats, with its standard error."""
    if observations < 2:
        raise ValueError(
            f"expected at least 2 observations for a standard error, got {observations}: give 0 to "
            "leave the likelihood out"
        )
    index = model.rows(observations, seed)
    bounds = model.log_likelihood(model.observations(index), particles, seed)
    error = float(bounds.std(ddof=1)) / len(bounds) ** 0.5
    return Score(
        "log_likelihood",
        "burda2016",
        float(bounds.mean()),
        details={"standard error": error, "observations": len(bounds), "particles": particles},
    )


def _independent_normals(latent: Latent, q: Distribution) -> tuple[Array, Array] | None:
    """Return means and scales (N, D) if posteriors are Gaussian with independent dimensions."""
    if not (latent.gaussian_posterior and latent.factorised_posterior):
        return None
    return q.mean.cpu().numpy(), np.maximum(q.stddev.cpu().numpy(), TINY)


def _mixtures(latent: Latent, p: Distribution, z: Tensor) -> dict[str, tuple[Mixture, Tensor]]:
    """Return the blocks' priors that are mixtures, by path, each with its dimensions of z."""
    blocks = latent.leaf_blocks
    columns = z.split([sum(block.variables) for block in blocks.values()], -1)
    parts = {
        path: (distribution_at(p, path), own) for path, own in zip(blocks, columns, strict=True)
    }
    return {path: (d, own) for path, (d, own) in parts.items() if isinstance(d, Mixture)}


def _groups(models: Sequence[FittedModel], rows: int | None) -> Iterator[list[int]]:
    """Yield the numbers of models that are encoded together."""
    groups = grouped(((id(m.dataset), m.run.lane_key), number) for number, m in enumerate(models))
    for numbers in groups.values():
        model = in_memory(models[numbers[0]])
        weights = sum(value.numel() for value in model.trained.weights.values())
        each = weights + _count_rows(model, rows) * model.run.latent.outputs
        most = _AT_ONCE.get(model.device.type, _AT_ONCE["cuda"])
        lanes, count = max(1, min(_TOGETHER, most // each)), len(numbers)
        parts = -(-count // lanes)  # of equal size: a model on its own may be rounded differently
        yield from (numbers[count * n // parts : count * (n + 1) // parts] for n in range(parts))


def _count_rows(model: FittedModel, rows: int | None) -> int:
    return model.dataset.size if rows is None else min(rows, model.dataset.size)
