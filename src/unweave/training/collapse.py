"""Recognise a model that ignores its input, and say what to try."""

from __future__ import annotations

from collections.abc import Sequence

from unweave.core.schedules import Schedule, at
from unweave.likelihoods import Gaussian
from unweave.training.engine import Row
from unweave.training.run import Run

_LEAST_RATE = 0.05  # nats in all latent variables together
_LEAST_STEPS = 100  # a shorter run has not begun to use them


def collapsed(log: Sequence[Row]) -> bool:
    """Whether all latent variables are off at the end of a log: the rate is about 0 nats.

    >>> collapsed([{"step": 100, "distortion": 12.0, "rate": 0.004}])
    True
    """
    last = log[-1] if log else {"step": 0}
    return last["step"] >= _LEAST_STEPS and last.get("rate", 1.0) < _LEAST_RATE


def collapse_warning(run: Run) -> str:
    """Say that all latent variables of a run are off, and what to try."""
    tries = []
    for name, weight in run.weights.items():
        if at(weight, run.steps) > 0:
            tries.append(f"a smaller objective.{name} (it is {at(weight, run.steps):g})")
            if not isinstance(weight, Schedule):
                tries.append(
                    f"a warm-up (objective.{name}=linear objective.{name}.steps={run.steps // 2})"
                )
    if isinstance(run.likelihood, Gaussian) and run.likelihood.learn == "nothing":
        tries.append("a learned scale (likelihood=gaussian likelihood.learn=shared)")
    if not (run.likelihood and run.likelihood.counts):  # counts stay as they are
        tries.append(
            "scaled data (values of about 0 to 1, or with mean 0 and standard deviation 1)"
        )
    tries += [
        f"another learning rate (optimiser.lr is {run.optimiser.lr:g})",
        f"more steps (it had {run.steps:,})",
    ]
    return (
        f"WARNING: all latent variables of run {run.digest} are off: its rate is about 0 nats, so "
        f"it ignores the data. Try {', '.join(tries[:-1])} or {tries[-1]}."
    )
