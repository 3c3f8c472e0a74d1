"""`unweave methods` and `unweave metrics`."""

from __future__ import annotations

import sys


def methods_command() -> None:
    """Print all objectives, divergences and latent blocks, their papers, and what combines.

    Example:

      unweave methods > methods.md
    """
    from unweave.catalogue.methods import page

    sys.stdout.write(page())


def metrics_command() -> None:
    """Print all metrics: protocols, inputs, papers, and how they differ from namesakes.

    Example:

      unweave metrics > metrics.md
    """
    from unweave.catalogue.metrics import page

    sys.stdout.write(page())
