"""Kim and Mnih, Disentangling by Factorising.  [Kim2018]."""

from __future__ import annotations

from unweave.papers.kim2018 import batches, fig3, shapes2d
from unweave.papers.kim2018 import shapes2d_figures as drawn
from unweave.studies.workspace import Reproduction

_WEEKS, _STUDY = "weeks (100 minutes on an H200)", shapes2d.STUDY
_CONTROL = "Control: the headline with the initial weights of TensorFlow"

FIGURES = tuple(
    Reproduction("kim2018", figure, title, cost, make, study=study)
    for figure, title, cost, make, study in (
        ("fig3", "Figure 3: where the older metric fails", "half a minute", fig3.fig3, None),
        ("fig4", "Figure 4: reconstruction and both metrics during training", _WEEKS,
         drawn.fig4, _STUDY),
        ("fig5", "Figure 5: reconstruction against disentanglement", _WEEKS, drawn.fig5, _STUDY),
        ("fig6", "Figure 6: traversals of the best networks", _WEEKS, drawn.fig6, _STUDY),
        ("fig7", "Figures 7 and 37: the total correlation and its critic", _WEEKS,
         drawn.fig7, _STUDY),
        ("fig16", "Figures 16 and 17: how both metrics depend on their settings", _WEEKS,
         drawn.fig16, _STUDY),
        ("fig18", "Figure 18: total correlation with a batch in place of the dataset", _WEEKS,
         batches.fig18, _STUDY),
        ("fig19", "Figures 19 and 20: samples, and log-likelihoods", _WEEKS, drawn.fig19, _STUDY),
        ("fig40", "Figure 40: the marginals of the codes", _WEEKS, drawn.fig40, _STUDY),
        ("initial-weights", _CONTROL, "weeks (17 minutes on an H200)", drawn.initial_weights,
         shapes2d.GLOROT),
    )
)  # fmt: skip
