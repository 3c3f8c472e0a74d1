"""Measuring runs while they train.

>>> import numpy as np
>>> from unweave.data import from_array
>>> from unweave.training.run import Run
>>> from unweave.networks import MLP
>>> from unweave.training import train
>>> data, dataset = from_array(np.random.default_rng(0).integers(0, 2, (64, 8, 8)) == 1)
>>> run = Run(data=data, network=MLP(), batch_size=16, steps=20).resolve(dataset)
>>> measure = Measure(every=10, metrics=("terms", "total_correlation"), rows=32, samples=100)
>>> (outcome,) = train([run], dataset, monitor=monitor_of(measure, [run], dataset))
>>> [(row["step"], sorted(row)) for row in outcome.measures]
[(10, ['metrics', 'step', 'terms']), (20, ['metrics', 'step', 'terms'])]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, get_args

import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.parallel import in_background
from unweave.core.spec import Seed, nearest, spec
from unweave.data import Dataset
from unweave.evaluation.evaluate import AggregateName, aggregates, encode, noted
from unweave.evaluation.model import FittedModel
from unweave.evaluation.stacked import StackedModels
from unweave.metrics import METRICS, UNSUPERVISED, Table
from unweave.metrics import evaluate as evaluate_table
from unweave.metrics.registry import find_metrics, select
from unweave.training import Lanes, Outcome, Row
from unweave.training.run import Run

TERMS = "terms"


@spec
class Measure:
    """What to measure during training, how often, and on how many observations.

    `metrics` are names: "terms" for all terms of the objective, such as distortion, rate and what
    its critic reports; "mutual_information", "total_correlation" and "dimension_kl", the parts of
    the rate under the exact aggregate posterior of all observations [Kim2018] app. C;
    "information", I(x; z_v) of every latent variable, and "correlations", the total correlation of
    every group of a latent tree [Esmaeili2019] fig. 4 and 6; and any metric, as `unweave.evaluate`
    takes it. The rows are the same at every step and for every run. Measuring is not part of a
    run: it changes neither its identity nor its weights.

    Args:
        every: steps between two measurements; the last step is always measured.
        metrics: the names.
        rows: observations for terms and metrics, None for all; parts of the rate use all.
        samples: draws of the aggregate posterior for its parts.
        seed: chooses the rows and draws.
    """

    every: PositiveInt = 10_000
    metrics: Annotated[tuple[str, ...], Field(min_length=1)] = (TERMS,)
    rows: PositiveInt | None = 10_000
    samples: PositiveInt = 1_000
    seed: Seed = 0

    def __post_init__(self) -> None:
        for name in self.scores:
            try:
                find_metrics(name)
            except ValueError:
                own = (TERMS, *get_args(AggregateName))
                raise ValueError(
                    f"{name!r} cannot be measured during training: "
                    f"{nearest(name, (*own, *METRICS, *UNSUPERVISED))}"
                ) from None

    @property
    def scores(self) -> tuple[str, ...]:
        """The names that are metrics of a table of codes and factors."""
        return tuple(name for name in self.metrics if name not in (TERMS, *get_args(AggregateName)))

    @property
    def aggregates(self) -> tuple[AggregateName, ...]:
        """The names of parts of the rate."""
        return tuple(name for name in get_args(AggregateName) if name in self.metrics)


def monitor_of(
    measure: Measure | Sequence[Measure] | None, runs: Sequence[Run], dataset: Dataset
) -> LaneMonitor | None:
    """What measures runs over a dataset in training; None if nothing is to be measured.

    Metrics that the data cannot have, for want of factors, are refused here, before training.
    """
    measures = [measure] if isinstance(measure, Measure) else list(measure or ())
    if wrong := next((each for each in measures if not isinstance(each, Measure)), None):
        raise TypeError(
            f"expected measure=Measure(every=..., metrics=(...)) or a list of them, got {wrong!r}"
        )
    for each in measures:
        if each.scores:
            _check(each.scores, runs[0], dataset)
    return LaneMonitor(measures) if measures else None


class LaneMonitor:
    """Measures all lanes together on the device; metrics of tables run in other processes."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.measures = measures

    def next_step(self, step: int) -> int:
        """The first step after this one at which to measure."""
        return min((step // each.every + 1) * each.every for each in self.measures)

    def measure(self, lanes: Lanes) -> Callable[[], list[Row]]:
        """Begin to measure all lanes; the result waits for the rows, one for each lane."""
        step, last = lanes.step, lanes.runs[0].steps
        count = len(lanes.runs)  # some may break before the rows are there
        due = [each for each in self.measures if step % each.every == 0 or step == last]
        waits = [_measure(each, lanes) for each in due]

        def wait() -> list[Row]:
            rows: list[Row] = [{"step": step} for _ in range(count)]
            for found in (each() for each in waits):
                for row, more in zip(rows, found, strict=True):
                    for kind, values in more.items():
                        row.setdefault(kind, {}).update(values)
            return rows

        return wait


def _measure(measure: Measure, lanes: Lanes) -> Callable[[], list[Row]]:
    """Begin one measurement of all lanes."""
    rows: list[Row] = [{} for _ in lanes.runs]
    if TERMS in measure.metrics:
        terms = lanes.evaluate(_batches(measure, lanes))
        for lane, row in enumerate(rows):
            row[TERMS] = {name: _finite(values[lane].item()) for name, values in terms.items()}
    models = _models(lanes) if measure.scores or measure.aggregates else []
    for row in rows[: len(models)]:
        row["metrics"] = {}
    # With all observations: q(z) of some of them is another distribution.
    for each in encode(models, None) if measure.aggregates else ():
        summary = each.model.summarise(each.q, measure.samples, measure.seed)
        found = aggregates(summary, measure.aggregates, each.model.run.latent.names)
        rows[each.number]["metrics"] |= {name: _finite(value) for name, value in found.items()}
    # A lane that is about to break may have codes that are not finite, and then has no table.
    tables = {
        each.number: each.model.tabulate(each.rows, each.q)
        for each in (encode(models, measure.rows, measure.seed) if measure.scores else ())
        if each.q.mean.isfinite().all() and each.q.stddev.isfinite().all()
    }
    scored = partial(_scores, metrics=measure.scores)
    scores = in_background(scored, list(tables.values()))

    def wait() -> list[Row]:
        for lane, more in zip(tables, scores(), strict=True):
            rows[lane]["metrics"] |= more
        return rows

    return wait


def _models(lanes: Lanes) -> list[FittedModel]:
    """The lanes as models that share their state."""
    nets = copy.deepcopy(lanes.nets).eval()
    weights = {**lanes.parameters, **lanes.buffers}
    return [
        FittedModel(
            Outcome(run, None, [], None),
            lanes.dataset,
            trained=StackedModels(nets, {name: value[[lane]] for name, value in weights.items()}),
        )
        for lane, run in enumerate(lanes.runs)
    ]


def _batches(measure: Measure, lanes: Lanes) -> Tensor:
    """Batches of the run's size out of the rows, (N, B); what is left over is not used."""
    size, batch = lanes.dataset.size, lanes.runs[0].batch_size
    count = max(1, min(measure.rows or size, size) // batch)
    order = Noise(measure.seed, 0, "measure", lanes.device).permutation(size, "rows")
    return order[: count * batch].reshape(count, batch)


def _scores(table: Table, metrics: Sequence[str]) -> dict[str, float | None]:
    scores, _ = noted(partial(evaluate_table, metrics=metrics), table)
    return {key: _finite(score.value) for key, score in scores.items()}


def _finite(value: float) -> float | None:
    """A number as JSON holds it: None where it is not finite."""
    return value if np.isfinite(value) else None


def _check(metrics: Sequence[str], run: Run, dataset: Dataset) -> None:
    """Refuse metrics that the data do not allow, by the factors of a few rows."""
    index = torch.arange(min(dataset.size, 1_000), device=dataset.device)
    codes = np.random.default_rng(0).normal(size=(len(index), len(run.latent.variables)))
    table = Table(
        codes,
        dataset.factors(index).cpu().numpy(),
        scales=np.ones_like(codes),
        kl=np.ones(codes.shape[1]),
        discrete=np.array(run.latent.discrete),
        normal=np.array(run.latent.normal),
        factor_names=dataset.factor_names,
        factor_sizes=dataset.factor_sizes,
        periods=dataset.periods,
    )
    select(table, metrics)
