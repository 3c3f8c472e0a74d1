"""Kim and Mnih, Disentangling by Factorising.  [Kim2018]."""

from __future__ import annotations

from unweave.papers.kim2018 import fig3
from unweave.papers.kim2018.batches import fig18
from unweave.papers.kim2018.initial_weights import initial_weights
from unweave.papers.kim2018.sensitivity import fig16
from unweave.papers.kim2018.shapes2d import GLOROT, STUDY
from unweave.papers.kim2018.shapes2d_curves import fig4, fig5, fig7
from unweave.papers.kim2018.shapes2d_pictures import fig6, fig19, fig40
from unweave.studies.workspace import Reproduction

_SHAPES2D = (
    ("fig4", "Figure 4: reconstruction and both metrics during training", fig4),
    ("fig5", "Figure 5: reconstruction against disentanglement", fig5),
    ("fig6", "Figure 6: traversals of the best networks", fig6),
    ("fig7", "Figures 7 and 37: the total correlation and its critic", fig7),
    ("fig16", "Figures 16 and 17: how both metrics depend on their settings", fig16),
    ("fig18", "Figure 18: total correlation with a batch in place of the dataset", fig18),
    ("fig19", "Figures 19 and 20: samples, and log-likelihoods", fig19),
    ("fig40", "Figure 40: the marginals of the codes", fig40),
)

FIGURES: tuple[Reproduction, ...] = (
    fig3.FIGURE,
    *(
        Reproduction("kim2018", figure, title, "weeks (100 minutes on an H200)", make, study=STUDY)
        for figure, title, make in _SHAPES2D
    ),
    Reproduction(
        "kim2018",
        "initial-weights",
        "Control: the headline with the initial weights of TensorFlow",
        "weeks (17 minutes on an H200)",
        initial_weights,
        study=GLOROT,
    ),
)
