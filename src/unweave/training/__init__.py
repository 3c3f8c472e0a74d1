"""Training: one loop for all games, many runs at once as lanes."""

from unweave.training.lanes import Lanes
from unweave.training.loop import (
    Outcome,
    Progress,
    Silent,
    log_interval,
    notes,
    pick_device,
    recall,
    train,
)
from unweave.training.precision import Precision

__all__ = [
    "Lanes",
    "Outcome",
    "Precision",
    "Progress",
    "Silent",
    "log_interval",
    "notes",
    "pick_device",
    "recall",
    "train",
]
