"""Sikka et al., A Closer Look at Disentangling in beta-VAE.  [Sikka2019]."""

from unweave.papers.sikka2019 import fig1, fig2, fig3, orders
from unweave.studies.workspace import Reproduction

_GPU = "a day; minutes on a GPU"
_MOVING = "Figure 3: terms of deep β-VAEs on a digit that moves, and traversals of their latents"

FIGURES = tuple(
    Reproduction("sikka2019", figure, title, cost, make, study=study)
    for figure, title, cost, make, study in (
        ("fig1", "Figure 1: terms of the optimal linear β-VAE", "three minutes", fig1.fig1,
         fig1.study()),
        ("fig2", "Figure 2: terms of deep β-VAEs on mixed digits", _GPU, fig2.fig2, fig2.study()),
        ("fig3", _MOVING, "three days (half an hour on an H200)", fig3.fig3, fig3.study()),
        ("orders", "Control: the true inference error by the order of latents", "an hour",
         orders.orders, orders.STUDY),
    )
)  # fmt: skip
