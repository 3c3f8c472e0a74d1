"""Mathieu et al., Disentangling Disentanglement in Variational Auto-Encoders.  [Mathieu2019]."""

from __future__ import annotations

from unweave.papers.mathieu2019 import appc, fig3, fig5, shapes2d, sparsity
from unweave.papers.mathieu2019.fig6 import mixture_prior
from unweave.papers.mathieu2019.shapes2d_figures import fig2
from unweave.papers.mathieu2019.sparsity_figures import fig4
from unweave.studies.workspace import Reproduction

FIGURES = tuple(
    Reproduction("mathieu2019", figure, title, cost, make, study=study)
    for figure, title, cost, make, study in (
        ("fig2", "Figure 2: reconstruction against disentanglement by the prior",
         "weeks (two hours on an H200)", fig2, shapes2d.STUDY),
        ("fig3", "Figure 3: q(z) of the pinwheel by α and β", "twenty minutes",
         fig3.conference_figure, fig3.study()),
        ("fig4", "Figure 4: sparsity over α, on Fashion-MNIST", "days (hours on an H200)",
         fig4, sparsity.STUDY),
        ("fig5", "Figure 5: Student-t priors, and rotations", "three minutes",
         fig5.student_priors, fig5.study()),
        ("fig6", "Figure 6: the mixture prior", "half a minute", mixture_prior, None),
        ("appc", "Appendix C: the bias of estimates of KL(q(z) ‖ p(z))",
         "ten minutes, with training", appc.appendix_c, appc.study()),
    )
)  # fmt: skip
