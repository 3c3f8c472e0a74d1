"""Training: one loop for all games, many runs at once as lanes."""

from unweave.training.lanes import Lanes
from unweave.training.loop import (
    Outcome,
    Progress,
    Silent,
    log_interval,
    pick_device,
    recall,
    train,
)

__all__ = [
    "Lanes",
    "Outcome",
    "Progress",
    "Silent",
    "log_interval",
    "pick_device",
    "recall",
    "train",
]
