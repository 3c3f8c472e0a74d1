"""Training: one loop for all objectives, with many runs side by side as lanes."""

from unweave.training.engine import Row
from unweave.training.lane_group import Monitor, Outcome, log_interval
from unweave.training.loop import TrainingInterrupted, notes, pick_device, recall, train
from unweave.training.precision import Precision
from unweave.training.progress import Progress, Silent
from unweave.training.step import Lanes

__all__ = [
    "Lanes",
    "Monitor",
    "Outcome",
    "Precision",
    "Progress",
    "Row",
    "Silent",
    "TrainingInterrupted",
    "log_interval",
    "notes",
    "pick_device",
    "recall",
    "train",
]
