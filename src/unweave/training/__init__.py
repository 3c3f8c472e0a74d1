"""Training: one loop for all objectives, with many runs side by side as lanes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unweave.training.lane_group import Monitor, Outcome
    from unweave.training.log_rows import log_interval
    from unweave.training.loop import TrainingInterrupted, notes, pick_device, recall, train
    from unweave.training.precision import Precision
    from unweave.training.progress import Progress, Silent
    from unweave.training.records import Row
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

# Where each name is. It is loaded when it is first asked for, because listing runs needs no torch.
_HOMES = {
    "engine": "Row",
    "lane_group": "Monitor Outcome",
    "log_rows": "log_interval",
    "loop": "TrainingInterrupted notes pick_device recall train",
    "precision": "Precision",
    "progress": "Progress Silent",
    "step": "Lanes",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of this package."""
        for module, names in _HOMES.items():
            if name in names.split():
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
