"""Recognise a model that memorises its training data, from its held-out loss."""

from collections.abc import Sequence
from typing import NamedTuple

from unweave.evaluation.validation import held_out_losses, note_on_runs
from unweave.training import Outcome, Row
from unweave.training.final_terms import mean_terms

_LEAST_MEASUREMENTS = 5
_SHARE = 0.5  # of what the held-out distortion fell since it was first measured
_LEAST_RISE = 1.0  # nats
_LEAST_SHARE = 0.05  # of the lowest distortion


class Overfit(NamedTuple):
    """The best step of a run, and the held-out distortion then and at the end, in nats."""

    step: int
    least: float
    last: float

    def __str__(self) -> str:
        return (
            f"held-out distortion rose from {self.least:.1f} at step {self.step:,} to "
            f"{self.last:.1f} while that of the training data fell: the model memorises its "
            f"training data; train with steps={self.step}, or with more data"
        )


def overfit(log: Sequence[Row], measures: Sequence[Row]) -> Overfit | None:
    """Return the best step of a run, if its held-out distortion has risen much since then.

    The distortion has to have risen by more than half of what it fell since it was first measured,
    and by more than 1 nat and 5 %, at five measurements or more. At the best step, both the
    distortion and the loss, distortion plus rate, have passed their minimum: one falls as the other
    rises while the weight of the rate changes. For the same reason, the distortion of the training
    data must have fallen since.
    """
    found = held_out_losses(measures)
    if len(found) < _LEAST_MEASUREMENTS:
        return None
    steps, losses = [step for step, _ in found], [loss.total for _, loss in found]
    distortions = [loss.distortion for _, loss in found]
    best = max(values.index(min(values)) for values in (distortions, losses))
    first, least, last = distortions[0], distortions[best], distortions[-1]
    if last - least <= max(_SHARE * (first - least), _LEAST_RISE, _LEAST_SHARE * abs(least)):
        return None

    def trained(end: int) -> float:
        """Return the distortion of the training data since the measurement before a step."""
        start = end - (steps[1] - steps[0])
        part = [row for row in log if start < row["step"] <= end]
        return mean_terms(part).get("distortion", float("nan"))

    memorises = losses[-1] > losses[best] and trained(steps[-1]) < trained(steps[best])
    return Overfit(steps[best], least, last) if memorises else None


def overfit_warning(outcomes: Sequence[Outcome]) -> str:
    """Say which runs memorise their training data, in one line; "" if none does."""
    note = note_on_runs(outcomes, lambda each: overfit(each.log, each.measures), "overfit")
    return note and f"WARNING: {note}"
