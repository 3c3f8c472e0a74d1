"""Recognise a run that stopped while its held-out loss was still falling."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unweave.data import Dataset
from unweave.evaluation.validation import held_out_losses, note_on_runs
from unweave.training import Outcome, Row
from unweave.training.overrides import longer_arguments
from unweave.training.resumption import arithmetic, saved_lanes
from unweave.training.run import Run
from unweave.training.store import RunFolder

_LEAST_MEASUREMENTS = 10
_END = 3  # the end of a run is the last third of its measurements, at least five
_LEAST_T = 6.0  # t of the slope; for noise at seven measurements, it is larger in 1 of 1,000
_LEAST_FALL = 0.1  # nats over the last tenth of the steps
_LEAST_SHARE = 0.01  # of what the loss has fallen by since it was first measured


class Unfinished(NamedTuple):
    """How fast the held-out loss was falling at the end of a run, and for how long to train."""

    fall: float  # nats over the last tenth of the steps
    steps: int

    def __str__(self) -> str:
        return self.describe([f"steps={self.steps}"])

    def describe(self, settings: Sequence[str]) -> str:
        """Say how fast the loss was falling, and with which settings to train longer."""
        return (
            f"held-out loss was still falling at the end, by {self.fall:.1f} nats over the last "
            f"tenth of the steps: train longer, with {' '.join(settings)}"
        )

    def describe_stored(self, run: Run, folder: RunFolder, dataset: Dataset) -> str:
        """Describe a stored run: the settings are those with which a longer run continues it.

        `dataset` is the one that it was trained on.
        """
        text = self.describe(longer_arguments(run, dataset, self.steps))
        longer = dataclasses.replace(run, steps=self.steps)
        alike = (arithmetic([each], dataset.device, "") for each in (run, longer))
        if not folder.states or next(alike) != next(alike):
            return text
        others = len(saved_lanes(folder)) - 1
        text += ", which continues this run"
        if others < 1:
            return text
        which = "the other run" if others == 1 else f"the {others} other runs"
        return f"{text} and {which} trained beside it"


def unfinished(measures: Sequence[Row]) -> Unfinished | None:
    """Return how fast the held-out loss, distortion plus rate, was falling, if it clearly was.

    A line through the last third of the measurements has to fall by more than six standard errors
    of its slope, and over a tenth of the steps by more than 0.1 nats and 1 % of what the loss has
    fallen by since it was first measured. None if there are fewer than ten measurements.
    """
    losses = held_out_losses(measures)
    if len(losses) < _LEAST_MEASUREMENTS:
        return None
    steps, totals = [step for step, _ in losses], [loss.total for _, loss in losses]
    end = max(5, -(-len(totals) // _END))
    slope, error = _slope(steps[-end:], totals[-end:])
    fall = -slope * steps[-1] / 10
    if fall < max(_LEAST_FALL, _LEAST_SHARE * (totals[0] - totals[-1])):
        return None
    return Unfinished(fall, 2 * steps[-1]) if -slope > _LEAST_T * error else None


def _slope(steps: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of the least-squares line, and its standard error."""
    x, y = (np.asarray(each, np.float64) - np.mean(each) for each in (steps, values))
    slope = x @ y / (x @ x)
    return float(slope), float(np.sqrt(np.square(y - slope * x).sum() / (len(x) - 2) / (x @ x)))


def unfinished_note(
    outcomes: Sequence[Outcome], describe: Callable[[Outcome, Unfinished], str] | None = None
) -> str:
    """Say which runs should have more steps, in one line; "" if none.

    `describe` describes the first of them (default: as the text of `Unfinished`).
    """

    def find(outcome: Outcome) -> Unfinished | None:
        found = unfinished(outcome.measures)
        return found if found and outcome.log_end[-1]["step"] >= outcome.run.steps else None

    return note_on_runs(outcomes, find, "need more steps", describe)
