"""Kim and Mnih, Disentangling by Factorising.  [Kim2018]."""

from functools import partial

from unweave.papers.kim2018 import (
    batches,
    controls,
    fig3,
    info_wgan_gp,
    mnist,
    related,
    sensitivity,
    shapes2d,
    shapes2d_figures as drawn,
    shapes3d,
    unlabelled,
)
from unweave.studies.workspace import Reproduction

_WEEKS, _STUDY = "weeks (100 minutes on an H200)", shapes2d.STUDY
_CONTROL = "Control: the headline with the initial weights of TensorFlow"
_LONG = "weeks (hours on an H200)"
_DAY = "a day"
_DAYS = "days (10 minutes on an H200)"
_HOUR = "weeks (an hour on an H200)"
_DATASETS = "3D Faces, 3D Chairs and CelebA"  # that Olivetti faces stand in for
_COMMANDS = {"olivetti": "unweave reproduce kim2018 olivetti --data olivetti.npz"}

FIGURES = tuple(
    Reproduction("kim2018", figure, title, cost, make, _COMMANDS.get(figure, ""), study)
    for figure, title, cost, make, study in (
        ("fig3", "Figure 3: where the older metric fails", "half a minute", fig3.fig3, None),
        ("fig4", "Figure 4: reconstruction and both metrics during training", _WEEKS,
         drawn.fig4, _STUDY),
        ("fig5", "Figure 5: reconstruction against disentanglement", _WEEKS, drawn.fig5, _STUDY),
        ("fig6", "Figure 6: traversals of the best networks", _WEEKS, drawn.fig6, _STUDY),
        ("fig7", "Figures 7 and 37: the total correlation and the discriminator's estimate", _WEEKS,
         drawn.fig7, _STUDY),
        ("fig8", "Figure 8: scores of InfoWGAN-GP", _LONG, info_wgan_gp.fig8, info_wgan_gp.STUDY),
        ("fig9", "Figure 9: traversals of InfoWGAN-GP", _LONG, info_wgan_gp.fig9,
         info_wgan_gp.STUDY),
        ("fig10", "Figure 10: reconstruction against disentanglement on 3D Shapes", _LONG,
         shapes3d.fig10, shapes3d.STUDY),
        ("fig11", "Figure 11: traversals of the best networks on 3D Shapes", _LONG,
         shapes3d.fig11, shapes3d.STUDY),
        ("fig12", "Figures 12 and 14: 3D Faces", _HOUR, partial(unlabelled.figure_of, "3D Faces"),
         unlabelled.STUDIES["faces"]),
        ("fig13", "Figures 13 and 38: 3D Chairs", _HOUR, partial(unlabelled.figure_of, "3D Chairs"),
         unlabelled.STUDIES["chairs"]),
        ("fig15", "Figures 15 and 39: CelebA", _HOUR, partial(unlabelled.figure_of, "CelebA"),
         unlabelled.STUDIES["celeba"]),
        ("fig16", "Figures 16 and 17: how both metrics depend on their settings", _WEEKS,
         sensitivity.fig16, _STUDY),
        ("fig18", "Figure 18: total correlation with a batch in place of the dataset", _WEEKS,
         batches.fig18, _STUDY),
        ("fig19", "Figures 19 and 20: samples, and log-likelihoods", _WEEKS, drawn.fig19, _STUDY),
        ("fig21", "Figures 21 and 22: samples on 3D Shapes, and log-likelihoods", _LONG,
         shapes3d.fig21, shapes3d.STUDY),
        ("fig23", "Figure 23: AAE, and FactorVAE with p(z)", _LONG, related.fig23, related.STUDY),
        ("related", "Appendix F: related methods against β-VAE and FactorVAE", _LONG,
         related.related, related.STUDY),
        ("fig24", "Figure 24: the accuracy of InfoGAN's discriminator", _DAY, mnist.fig24,
         mnist.STUDY),
        ("fig25", "Figure 25: traversals of InfoGAN", _DAY, partial(mnist.traversals, "InfoGAN"),
         mnist.STUDY),
        ("fig26", "Figure 26: reconstructions with varied noise", _DAY, mnist.fig26, mnist.STUDY),
        ("fig27", "Figures 27 to 31: other numbers of codes and categories", _DAY, mnist.fig27,
         mnist.STUDY),
        ("fig32", "Figure 32: losses of InfoWGAN-GP on MNIST", _DAY, mnist.fig32, mnist.STUDY),
        ("fig33", "Figure 33: losses of InfoWGAN-GP on 2D Shapes", _LONG, info_wgan_gp.fig33,
         info_wgan_gp.STUDY),
        ("fig34", "Figure 34: scores of the larger InfoWGAN-GP", _LONG, info_wgan_gp.fig34,
         info_wgan_gp.LARGE),
        ("fig35", "Figure 35: traversals of the larger InfoWGAN-GP", _LONG, info_wgan_gp.fig35,
         info_wgan_gp.LARGE),
        ("fig36", "Figure 36: traversals of InfoWGAN-GP on MNIST", _DAY,
         partial(mnist.traversals, "InfoWGAN-GP"), mnist.STUDY),
        ("fig40", "Figure 40: the marginals of the codes", _WEEKS, drawn.fig40, _STUDY),
        ("initial-weights", _CONTROL, "weeks (17 minutes on an H200)", controls.initial_weights,
         shapes2d.GLOROT),
        ("lecun", "Control: FactorVAE with the initial weights of Sonnet", _DAYS,
         partial(controls.halved, "lecun"), shapes2d.LECUN),
        ("tf32", "Control: FactorVAE with products in TF32", _DAYS,
         partial(controls.halved, "tf32"), shapes2d.TF32),
        ("olivetti", f"Stand-in: Olivetti faces in place of {_DATASETS}",
         "half a day (3 minutes on an H200)", partial(unlabelled.figure_of, _DATASETS),
         unlabelled.STAND_IN),
    )
)  # fmt: skip
