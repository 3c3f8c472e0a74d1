"""Recognise a model that ignores its input, and say what to try."""

from collections.abc import Sequence

from unweave.core.hints import join_words
from unweave.core.schedules import Schedule, at
from unweave.data import Dataset
from unweave.evaluation.unfinished import unfinished
from unweave.likelihoods import Gaussian
from unweave.training.own_data import suggested_steps
from unweave.training.records import Row
from unweave.training.run import Run


def collapse_warning(run: Run, dataset: Dataset, measures: Sequence[Row] = ()) -> str:
    """Say that all latent variables of a run are off, and what to try."""
    return (
        f"WARNING: all latent variables of run {run.digest} are off: its rate is about 0 nats, so "
        f"it ignores the data. {advice(run, dataset, measures)}"
    )


def advice(run: Run, dataset: Dataset, measures: Sequence[Row] = ()) -> str:
    """Say what to try if a run has learned little, leaving out what it does already.

    Args:
        run: the run.
        dataset: the data that it was trained on.
        measures: with its held-out loss. More steps come first if the loss was still falling, or
            if the run had fewer steps than are usual for the data. Extreme values come before all.
    """
    if extremes := dataset.schema.extremes:
        return f"First of all, {extremes.advice}."
    tries = []
    for name, weight in run.weights.items():
        last = at(weight, run.steps)
        if last > 0 and hasattr(run.objective, name):
            tries.append(f"a smaller objective.{name} (it is {last:g})")
            if not isinstance(weight, Schedule):
                tries.append(
                    f"a warm-up (objective.{name}=linear objective.{name}.steps={run.steps // 2})"
                )
    if isinstance(run.likelihood, Gaussian) and run.likelihood.learn == "nothing":
        tries.append("a learned scale (likelihood=gaussian likelihood.learn=shared)")
    if dataset.schema.scaling.method == "none" and not dataset.bounded:
        tries.append("scaled data (data.scale=standardise, or values of about 0 to 1)")
    tries.append(f"another learning rate (optimiser.lr is {run.optimiser.lr:g})")
    falling, usual = unfinished(measures), suggested_steps(dataset)
    why = "; the held-out loss was still falling" if falling else ""
    if not falling and run.steps < usual:
        why = f"; {usual:,} are usual for data of this size"
    more = f"more steps (it had {run.steps:,}{why})"
    tries = [more, *tries] if why else [*tries, more]
    return f"Try {join_words(tries, 'or')}."
