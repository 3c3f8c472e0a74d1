"""Measure runs while they train.

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
from pydantic import Field
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.notes import capture_warnings
from unweave.core.parallel import run_in_background
from unweave.core.spec import Count, Seed, spec
from unweave.data import Dataset
from unweave.evaluation.evaluate import SUMMARY_SAMPLES, AggregateName, aggregates, encode
from unweave.evaluation.model import FittedModel, chosen_rows, factor_columns
from unweave.evaluation.stacked import StackedModels
from unweave.evaluation.validation import Validation
from unweave.metrics import METRICS, UNSUPERVISED, Table, evaluate as evaluate_table
from unweave.metrics.registry import find_metrics, select
from unweave.training import Lanes, Outcome, Row
from unweave.training.run import Run

TERMS, VALIDATION = "terms", "validation"


@spec
class Measure:
    """What to measure during training, how often, and on how many observations.

    `metrics` are names: "terms" for all terms of the objective, such as distortion, rate and the
    critic's accuracy; "mutual_information", "total_correlation" and "dimension_kl", the parts of
    the rate under the exact aggregate posterior of all observations [Kim2018] app. C;
    "information", I(x; z_v) of every latent variable, and "correlations", the total correlation of
    every group of a latent tree [Esmaeili2019] fig. 4 and 6; and the name of any metric, as
    `unweave.evaluate` takes it. The rows are the same at every step and for every run. Measuring
    changes neither the digest nor the weights of a run.

    Args:
        every: steps between two measurements; the last step is always measured.
        metrics: the names.
        rows: observations for terms and metrics, None for all; parts of the rate use all.
        samples: samples of the aggregate posterior for the parts of the rate.
        seed: of rows and samples.
    """

    every: Count = 10_000
    metrics: Annotated[tuple[str, ...], Field(min_length=1)] = (TERMS,)
    rows: Count | None = 10_000
    samples: Count = SUMMARY_SAMPLES
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
        """The names of metrics of a table of codes and factors."""
        return tuple(name for name in self.metrics if name not in (TERMS, *get_args(AggregateName)))

    @property
    def aggregates(self) -> tuple[AggregateName, ...]:
        """The names of parts of the rate."""
        return tuple(name for name in get_args(AggregateName) if name in self.metrics)


def as_measures(measure: Measure | Sequence[Measure] | None) -> tuple[Measure, ...]:
    """Return what to measure as a tuple; raise a TypeError for anything else."""
    measures = (measure,) if isinstance(measure, Measure) else tuple(measure or ())
    if wrong := next((each for each in measures if not isinstance(each, Measure)), None):
        raise TypeError(
            f"expected measure=Measure(every=..., metrics=(...)) or a list of them, got {wrong!r}"
        )
    return measures


def monitor_of(
    measure: Measure | Sequence[Measure] | None,
    runs: Sequence[Run],
    dataset: Dataset,
    validation: Validation | None = None,
) -> LaneMonitor | None:
    """Return a monitor for runs on a dataset, or None if nothing is to be measured.

    Metrics that the data do not allow, because factors are missing, are rejected before training.
    The held-out loss is measured on `validation`, at steps that follow from the runs.
    """
    measures = as_measures(measure)
    for each in measures:
        if each.scores:
            _check(each.scores, runs[0], dataset)
    if validation is not None and all(run.objective.autoencodes for run in runs):
        return LaneMonitor(measures, validation, min(map(validation.interval, runs)))
    return LaneMonitor(measures) if measures else None


class LaneMonitor:
    """Measures all lanes together on the device, and scores tables in other processes."""

    def __init__(
        self,
        measures: Sequence[Measure],
        validation: Validation | None = None,
        validate_every: int = 0,
    ) -> None:
        self.measures, self.validation = measures, validation
        self.validate_every = validate_every
        self._intervals = [each.every for each in measures] + [validate_every] * bool(validation)

    def next_step(self, step: int) -> int:
        """Return the first step after this one at which to measure."""
        return min((step // every + 1) * every for every in self._intervals)

    def measure(self, lanes: Lanes) -> Callable[[], list[Row]]:
        """Start to measure all lanes; return a function that waits for one row per lane."""
        step, last = lanes.step, lanes.runs[0].steps
        count = len(lanes.runs)  # some may be dropped before `wait` is called
        due = [each for each in self.measures if step % each.every == 0 or step == last]
        started = [_start(each, lanes) for each in due]
        if self.validation and (step % self.validate_every == 0 or step == last):
            losses = self.validation.measure(_stacked(lanes))
            found = [{k: _finite(v) for k, v in loss._asdict().items()} for loss in losses]
            started.append(lambda: [{VALIDATION: each} for each in found])

        def wait() -> list[Row]:
            rows: list[Row] = [{"step": step} for _ in range(count)]
            for wait_for_one in started:
                for row, results in zip(rows, wait_for_one(), strict=True):
                    for kind, values in results.items():
                        row.setdefault(kind, {}).update(values)
            return rows

        return wait


def _start(measure: Measure, lanes: Lanes) -> Callable[[], list[Row]]:
    """Start one measurement of all lanes; return a function that waits for its rows."""
    rows: list[Row] = [{} for _ in lanes.runs]
    if TERMS in measure.metrics:
        terms = lanes.evaluate(_batches(measure, lanes))
        for lane, row in enumerate(rows):
            row[TERMS] = {name: _finite(values[lane].item()) for name, values in terms.items()}
    models = _models(lanes) if measure.scores or measure.aggregates else []
    for row in rows[: len(models)]:
        row["metrics"] = {}
    # On all observations, because q(z) of a subset is another distribution.
    for each in encode(models, None) if measure.aggregates else ():
        summary = each.model.summarise(each.q, measure.samples, measure.seed)
        parts = aggregates(summary, measure.aggregates, each.model.run.latent.names)
        rows[each.number]["metrics"] |= {name: _finite(value) for name, value in parts.items()}
    # The codes of a lane that is about to fail may not be finite; it gets no scores.
    tables = {
        each.number: each.model.tabulate(each.rows, each.q)
        for each in (encode(models, measure.rows, measure.seed) if measure.scores else ())
        if each.q.mean.isfinite().all() and each.q.stddev.isfinite().all()
    }
    score = partial(_scores, metrics=measure.scores)
    wait_for_scores = run_in_background(score, list(tables.values()))

    def wait() -> list[Row]:
        for lane, scores in zip(tables, wait_for_scores(), strict=True):
            rows[lane]["metrics"] |= scores
        return rows

    return wait


def _stacked(lanes: Lanes) -> StackedModels:
    weights = {**lanes.state.parameters, **lanes.state.buffers}
    return StackedModels(copy.deepcopy(lanes.nets).eval(), weights)


def _models(lanes: Lanes) -> list[FittedModel]:
    nets, weights = (stacked := _stacked(lanes)).nets, stacked.weights
    return [
        FittedModel(
            Outcome(run, None, [], None),
            lanes.dataset,
            trained=StackedModels(nets, {name: value[[lane]] for name, value in weights.items()}),
        )
        for lane, run in enumerate(lanes.runs)
    ]


def _batches(measure: Measure, lanes: Lanes) -> Tensor:
    """Divide the rows into batches of the run's size, (N, B); an incomplete one is dropped."""
    size, batch = lanes.dataset.size, lanes.runs[0].batch_size
    count = max(1, min(measure.rows or size, size) // batch)
    order = Noise(measure.seed, 0, "measure", lanes.device).permutation(size, "rows")
    return order[: count * batch].reshape(count, batch)


def _scores(table: Table, metrics: Sequence[str]) -> dict[str, float | None]:
    scores, _ = capture_warnings(partial(evaluate_table, metrics=metrics), table)
    return {key: _finite(score.value) for key, score in scores.items()}


def _finite(value: float) -> float | None:
    """Return the number, or None, as JSON has it, if it is not finite."""
    return value if np.isfinite(value) else None


def _check(metrics: Sequence[str], run: Run, dataset: Dataset) -> None:
    """Raise a ValueError for metrics that the data do not allow, judged by a few rows."""
    index = chosen_rows(dataset, 1_000)
    codes = np.random.default_rng(0).normal(size=(len(index), len(run.latent.variables)))
    table = Table(
        codes,
        **factor_columns(dataset, index),
        scales=np.ones_like(codes),
        kl=np.ones(codes.shape[1]),
        discrete=np.array(run.latent.discrete),
        normal=np.array(run.latent.normal),
    )
    select(table, metrics)
