"""Sikka et al., A Closer Look at Disentangling in beta-VAE.  [Sikka2019]."""

from __future__ import annotations

from unweave.papers.sikka2019 import fig1, fig2, fig3
from unweave.studies.workspace import Reproduction

FIGURES = (
    Reproduction(
        "sikka2019",
        "fig1",
        "Figure 1: terms of the optimal linear β-VAE",
        "three minutes",
        fig1.fig1,
        study=fig1.study(),
    ),
    Reproduction(
        "sikka2019",
        "fig2",
        "Figure 2: terms of deep β-VAEs on mixed digits",
        "a day; minutes on a GPU",
        fig2.fig2,
        study=fig2.study(),
    ),
    Reproduction(
        "sikka2019",
        "fig3",
        "Figure 3: terms of deep β-VAEs on a digit that moves, and walks along their latents",
        "a day; minutes on a GPU",
        fig3.fig3,
        study=fig3.study(),
    ),
)
