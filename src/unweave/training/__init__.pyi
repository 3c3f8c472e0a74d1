"""The names of this package, and the modules that have them."""

from unweave.training.lane_group import Monitor as Monitor
from unweave.training.log_rows import log_interval as log_interval
from unweave.training.loop import (
    TrainingInterrupted as TrainingInterrupted,
    notes as notes,
    pick_device as pick_device,
    train as train,
)
from unweave.training.outcome import (
    Outcome as Outcome,
    StoredOutcome as StoredOutcome,
    recall as recall,
)
from unweave.training.precision import Precision as Precision
from unweave.training.progress import Progress as Progress, Silent as Silent
from unweave.training.records import Row as Row
from unweave.training.step import Lanes as Lanes
