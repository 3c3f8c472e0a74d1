"""Recognise a model that memorises its training data, from its held-out loss."""

from collections.abc import Sequence
from typing import NamedTuple

from unweave.evaluation.validation import HeldOutLoss, held_out_losses, note_on_runs
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
    best = _risen_since(found)
    if best is None:
        return None
    steps = [step for step, _ in found]

    def trained(end: int) -> float:
        """Return the distortion of the training data since the measurement before a step."""
        start = end - (steps[1] - steps[0])
        part = [row for row in log if start < row["step"] <= end]
        return mean_terms(part).get("distortion", float("nan"))

    if not trained(steps[-1]) < trained(steps[best]):
        return None
    return Overfit(steps[best], found[best][1].distortion, found[-1][1].distortion)


def _risen_since(found: Sequence[tuple[int, HeldOutLoss]]) -> int | None:
    """Return the place of the best held-out loss, if it has risen much since then."""
    if len(found) < _LEAST_MEASUREMENTS:
        return None
    losses = [loss.total for _, loss in found]
    distortions = [loss.distortion for _, loss in found]
    best = max(values.index(min(values)) for values in (distortions, losses))
    first, least, last = distortions[0], distortions[best], distortions[-1]
    rises = last - least > max(_SHARE * (first - least), _LEAST_RISE, _LEAST_SHARE * abs(least))
    return best if rises and losses[-1] > losses[best] else None


def overfit_warning(outcomes: Sequence[Outcome]) -> str:
    """Say which runs memorise their training data, in one line; "" if none does."""
    note = note_on_runs(outcomes, _overfit, "overfit")
    return note and f"WARNING: {note}"


def _overfit(outcome: Outcome) -> Overfit | None:
    """Return the best step of a run that memorises its data; read the log only if it may."""
    measures = outcome.measures
    if _risen_since(held_out_losses(measures)) is None:
        return None
    return overfit(outcome.log, measures)
