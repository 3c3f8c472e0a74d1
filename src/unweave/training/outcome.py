"""The result of a run, in memory or in a store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from unweave.training.final_terms import end_of
from unweave.training.flat_parameters import Tensors
from unweave.training.records import Row
from unweave.training.run import Run
from unweave.training.state import model_weights
from unweave.training.store import RunFolder


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its weights, log and measurements, or its failure.

    A run that was stopped by a deadline has neither weights nor a failure. One that was interrupted
    has the weights of its last step.
    """

    run: Run
    weights: Tensors | None
    log: list[Row]
    failure: Row | None
    measures: list[Row] = field(default_factory=list)

    @property
    def has_weights(self) -> bool:
        """Whether there are weights."""
        return self.weights is not None

    @property
    def log_end(self) -> Sequence[Row]:
        """The rows at the end of the log."""
        return end_of(self.log)


class StoredOutcome(Outcome):
    """The result of a run in a store, with the newest weights there are.

    Weights, log and measurements are read whenever they are asked for, and never kept, so a command
    can hold the outcomes of thousands of runs.
    """

    _folder: RunFolder
    _finished: bool
    _step: int | None  # of the weights of a run that is not finished

    def __init__(self, folder: RunFolder, run: Run) -> None:
        finished = folder.weights.exists()
        step = None if finished else max(folder.states, default=None)
        failure = None if finished else folder.failure
        vars(self).update(run=run, failure=failure, _folder=folder, _finished=finished, _step=step)

    @property
    def has_weights(self) -> bool:
        """Whether there are weights; they are not read."""
        return self._finished or self._step is not None

    @property
    def weights(self) -> Tensors | None:
        """The weights, read from the folder."""
        if self._finished:
            return self._folder.read_weights()
        return None if self._step is None else model_weights(self._folder.read_state(self._step))

    @property
    def log(self) -> list[Row]:
        """The log, read from the folder."""
        return self._folder.read_log(self._step)

    @property
    def log_end(self) -> Sequence[Row]:
        """The rows at the end of the log, read from the folder; others are not parsed."""
        return self._folder.read_log_end() if self._step is None else end_of(self.log)

    @property
    def measures(self) -> list[Row]:
        """The measurements, read from the folder."""
        return self._folder.read_measures(self._step)


def recall(folder: RunFolder, run: Run) -> Outcome:
    """Read the result of a run from its folder, with the newest weights there are."""
    stored = StoredOutcome(folder, run)
    return Outcome(run, stored.weights, stored.log, stored.failure, stored.measures)
