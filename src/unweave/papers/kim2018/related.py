"""Figure 23 of [Kim2018] and the related methods of its app. F, on 2D Shapes."""

from functools import partial

from unweave.papers.kim2018.methods import (
    MEASURES,
    OURS,
    VAEFacts,
    below_claim,
    best_of_all,
    describe_vae,
    draw_trade_off,
    draw_training,
    result_of,
    runs_of,
    setting_of,
)
from unweave.papers.kim2018.shapes2d import SHOWN, START, STUDY as SHAPES2D
from unweave.studies.drawing import panels
from unweave.studies.study import Results, Study, best_of_settings, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Result, Workspace

ADVERSARIAL = ("aae", "alpha-beta-vae")
texts_of = partial(Texts, __package__, "related")  # of a figure of this study
UNTRIED = ("dip-vae-i", "dip-vae-ii", "information-dropout")  # stated in the paper, not trained

# Every method with the paper's best gamma of FactorVAE, or alone, before any with other weights.
_ORDER = (
    ("aae", "gamma", 35), ("factor-vae-prior", "alpha", 35), ("dip-vae", "covariance_of", "means"),
    ("dip-vae", "covariance_of", "codes"), ("information-dropout", "gamma", 10),
    ("aae", "gamma", 10), ("factor-vae-prior", "alpha", 10), ("information-dropout", "gamma", 0),
    ("aae", "gamma", 100), ("factor-vae-prior", "alpha", 100), ("information-dropout", "gamma", 40),
    ("aae", "gamma", 20), ("factor-vae-prior", "alpha", 20), ("information-dropout", "gamma", 20),
    ("aae", "gamma", 30), ("factor-vae-prior", "alpha", 30), ("aae", "gamma", 40),
    ("factor-vae-prior", "alpha", 40),
)  # fmt: skip


STUDY = Study(
    "kim2018",
    "related",
    [run for name, *assignment in _ORDER for run in runs_of(f"shapes2d-{name}", *assignment)],
    measures=MEASURES,
    describe=partial(describe_vae, shown=SHOWN, start=START),
    pictured=best_of_settings(setting_of, OURS),
    form=VAEFacts,
)


def fig23(workspace: Workspace, results: Results) -> Result:
    """Figure 23: error and both metrics of AAE and of FactorVAE with p(z), during training."""
    factor = stored_results(SHAPES2D, workspace.out)
    figure = draw_training(results, ADVERSARIAL)
    return result_of(texts_of("fig23"), results, figure, lower_claims(results, factor))


def lower_claims(results: Results, factor: Results) -> list[Claim]:
    """Judge whether the best mean score of each method is below that of FactorVAE."""
    theirs, texts = best_of_all(factor, "factor-vae"), texts_of("fig23")
    return [
        below_claim(texts, "lower", kind, best_of_all(results, kind), theirs)
        for kind in ADVERSARIAL
    ]


def related(workspace: Workspace, results: Results) -> Result:
    """Compare all methods of app. F with beta-VAE and FactorVAE."""
    vaes = stored_results(SHAPES2D, workspace.out)
    figure, axes = panels(1, 2, width=4.2, height=3.4)
    for axis, kinds in zip(axes, (ADVERSARIAL, UNTRIED), strict=True):
        for found, shown in ((vaes, ("beta-vae", "factor-vae")), (results, kinds)):
            draw_trade_off(axis, found, shown)
    return result_of(texts_of("related_methods"), results, figure, ())
