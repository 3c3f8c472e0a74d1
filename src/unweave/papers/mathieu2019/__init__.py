"""Mathieu et al., Disentangling Disentanglement in Variational Auto-Encoders.  [Mathieu2019]."""

from unweave.papers.mathieu2019 import appc, fig3, priors, shapes2d, sparsity
from unweave.studies.workspace import Reproduction

FIGURES = tuple(
    Reproduction("mathieu2019", figure, title, cost, make, study=study)
    for figure, title, cost, make, study in (
        ("fig2", "Figure 2: reconstruction against disentanglement by the prior",
         "weeks (two hours on an H200)", shapes2d.fig2, shapes2d.STUDY),
        ("fig3", "Figure 3: q(z) of the pinwheel by α and β", "twenty minutes",
         fig3.conference_figure, fig3.study()),
        ("fig4", "Figure 4: sparsity over α, on Fashion-MNIST", "two days (8 minutes on an H200)",
         sparsity.fig4, sparsity.STUDY),
        ("fig4-celeba", "Figure 4: sparsity over α, on CelebA", "weeks (two hours on an H200)",
         sparsity.fig4_celeba, sparsity.CELEBA),
        ("fig5", "Figure 5: Student-t priors, and rotations", "three minutes",
         priors.student_priors, priors.study()),
        ("fig6", "Figure 6: the mixture prior", "half a minute", priors.mixture_prior, None),
        ("appc", "Appendix C: the bias of estimates of KL(q(z) ‖ p(z))",
         "ten minutes, with training", appc.appendix_c, appc.study()),
    )
)  # fmt: skip
