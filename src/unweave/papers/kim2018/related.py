"""Figure 23 of [Kim2018] and the related methods of its app. F, on 2D Shapes."""

from unweave.evaluation.model import FittedModel
from unweave.papers.kim2018.drawings import draw_trade_off, draw_training
from unweave.papers.kim2018.methods import (
    MEASURES,
    METHODS,
    OURS,
    best_of_all,
    describe_vae,
    result_of,
    runs_of,
    setting_of,
)
from unweave.papers.kim2018.shapes2d import SHOWN, START, STUDY as SHAPES2D
from unweave.studies.drawing import panels
from unweave.studies.study import Results, Study, best_of_settings, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace

ADVERSARIAL = ("aae", "alpha-beta-vae")
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


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    return describe_vae(model, SHOWN, START)


STUDY = Study(
    "kim2018",
    "related",
    [run for name, *assignment in _ORDER for run in runs_of(f"shapes2d-{name}", *assignment)],
    measures=MEASURES,
    describe=describe,
    pictured=best_of_settings(setting_of, OURS),
)


def texts_of(figure: str) -> Texts:
    """Return the texts of a figure of this study."""
    return Texts(__package__, "related", figure)


def fig23(workspace: Workspace, results: Results) -> Result:
    """Figure 23: error and both metrics of AAE and of FactorVAE with p(z), during training."""
    factor = stored_results(SHAPES2D, workspace.out)
    figure = draw_training(results, ADVERSARIAL, (10, 110))
    return result_of(texts_of("fig23"), results, figure, lower_claims(results, factor))


def lower_claims(results: Results, factor: Results) -> list[Claim]:
    """Judge whether the best mean score of each method is below that of FactorVAE."""
    theirs, claims = best_of_all(factor, "factor-vae"), []
    for kind in ADVERSARIAL:
        ours = best_of_all(results, kind)
        less = ours.difference(theirs, OURS)
        claims.append(
            texts_of("fig23").claim(
                "lower", less.high < 0, contradicted=less.low > 0, needs=(ours, theirs),
                method=METHODS[kind].name, ours=ours.mean(OURS), theirs=theirs.mean(OURS),
                difference=less,
            )
        )  # fmt: skip
    return claims


def related(workspace: Workspace, results: Results) -> Result:
    """Compare all methods of app. F with beta-VAE and FactorVAE."""
    vaes = stored_results(SHAPES2D, workspace.out)
    figure, axes = panels(1, 2, width=4.2, height=3.4)
    for axis, kinds in zip(axes, (ADVERSARIAL, UNTRIED), strict=True):
        for found, shown in ((vaes, ("beta-vae", "factor-vae")), (results, kinds)):
            draw_trade_off(axis, found, shown)
    return result_of(texts_of("related_methods"), results, figure, ())
