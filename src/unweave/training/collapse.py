"""Posterior collapse: a run whose latents carry no information about the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OFF = 0.01  # nats of rate below which all latents are off


def collapsed(log: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all latents are off at the end of a log; False if it has no rate.

    >>> collapsed([{"step": 1, "rate": 2.0}, {"step": 2, "rate": 0.001}]), collapsed([])
    (True, False)
    """
    return bool(log) and 0 <= log[-1].get("rate", OFF) < OFF
