"""Esmaeili et al., Structured Disentangled Representations.  [Esmaeili2019]."""

from unweave.papers.esmaeili2019 import digits_figures, faces, fig3, table2, weights
from unweave.studies.workspace import Reproduction

FIGURES: tuple[Reproduction, ...] = (
    *fig3.FIGURES,
    *digits_figures.FIGURES,
    *table2.FIGURES,
    *weights.FIGURES,
    *faces.FIGURES,
)
