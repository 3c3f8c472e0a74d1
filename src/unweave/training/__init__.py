"""Training: one loop for all games, many runs at once as lanes."""

from unweave.training.engine import Row
from unweave.training.lanes import Lanes
from unweave.training.loop import (
    Monitor,
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
    "Monitor",
    "Outcome",
    "Precision",
    "Progress",
    "Row",
    "Silent",
    "log_interval",
    "notes",
    "pick_device",
    "recall",
    "train",
]
