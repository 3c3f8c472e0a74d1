"""Mathieu et al., Disentangling Disentanglement, the workshop paper.  [Mathieu2018]."""

from unweave.papers.mathieu2019.fig3 import study, workshop_figure
from unweave.studies.workspace import Reproduction

_TITLE = "Figure 2: q(z) of the pinwheel by α and β"
FIGURES = (
    Reproduction("mathieu2018", "fig2", _TITLE, "fifteen minutes", workshop_figure, study=study()),
)
