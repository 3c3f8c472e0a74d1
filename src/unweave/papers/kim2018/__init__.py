"""Kim and Mnih, Disentangling by Factorising.  [Kim2018]."""

from __future__ import annotations

from unweave.papers.form import Reproduction
from unweave.papers.kim2018 import shapes2d_figures, small

__all__ = ["FIGURES"]

FIGURES: tuple[Reproduction, ...] = (*shapes2d_figures.FIGURES, *small.FIGURES)
