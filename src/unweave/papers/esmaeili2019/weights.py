"""A control, not a figure of [Esmaeili2019]: what makes the HFVAE use its category.

The paper gives the weights of the HFVAE for dSprites and CelebA, not for MNIST and Fashion-MNIST.
The code released with it trains on MNIST with alpha = 1, beta = 0 and gamma = 4. In a tenth of the
batches, of other images in every epoch, labels replace the sampled category, which the paper does
not mention. Our labels are a term of the objective, for the same tenth of the images in all epochs.
"""

from dataclasses import replace

from typing_extensions import TypedDict

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.objectives import Label
from unweave.papers.esmaeili2019 import digits
from unweave.papers.esmaeili2019.table2 import category_counts, category_information
from unweave.presets import preset
from unweave.studies.drawing import BLUE, MUTED, ORANGE, panels
from unweave.studies.study import Results, Study, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Numbers, Reproduction, Result, Workspace
from unweave.training.records import Matrix, Number
from unweave.training.run import Run

Setting = tuple[float, float, float, float]  # alpha, beta, gamma, and the share of labels

_NAMES = ("alpha", "beta", "gamma")
PAPER: Setting = (1, 4, 3, 0)  # of the other figures
RELEASED: Setting = (1, 0, 4, 0.1)
OTHERS: tuple[Setting, ...] = (
    RELEASED, (1, 0, 4, 0), (1, 4, 3, 0.1), (1, 1, 1, 0), (0, 1, 1, 0), (0, 4, 3, 0),
    (1, 10, 3, 0), (0, 10, 3, 0), (1, 1, 10, 0),
)  # fmt: skip
_STEPS = digits.SETTINGS["HFVAE"][0].steps


def setting_of(run: Run) -> Setting:
    """Return the weights alpha, beta and gamma of a run, and the share of images with labels."""
    alpha, beta, gamma = (float(getattr(run.objective, name)) for name in _NAMES)
    return alpha, beta, gamma, sum(label.share for label in run.labels)


class _Facts(TypedDict):
    """The form of the facts of a network."""

    category: Matrix
    kl: list[Number]


def describe(model: FittedModel) -> Numbers:
    """Return how the category and the label occur together, and the KL of each latent."""
    table = model.table()
    assert table.kl is not None
    return {"category": category_counts(model, "class"), "kl": table.kl.tolist()}


def _runs() -> list[Run]:
    chosen = preset("esmaeili2019/mnist-hfvae")
    return [
        replace(run, labels=(Label("class", "category", share),) if share else ())
        for *weights, share in OTHERS
        for run in chosen.runs(
            [*(f"objective.{n}={w}" for n, w in zip(_NAMES, weights, strict=True)), "seed=0..2"]
        )
    ]


STUDY = Study(
    "esmaeili2019",
    "weights",
    _runs(),
    measures=(Measure(every=_STEPS, rows=2_048),),
    describe=describe,
    precision="fp32",
    form=_Facts,
)


def control(workspace: Workspace, results: Results) -> Result:
    """Compare how much of the label the category explains, by the weights of the objective."""
    groups = {PAPER: stored_results(digits.STUDY, workspace.out).groups(digits.setting_of)["HFVAE"]}
    groups |= results.groups(setting_of)
    figure, (axis,) = panels(1, 1, width=5.2, height=2.6)
    for place, (weights, group) in enumerate(groups.items()):
        values = group.values(category_information)
        colour = ORANGE if weights == PAPER else BLUE
        axis.plot([place] * len(values), values, "o", color=MUTED, markersize=3, alpha=0.6)
        axis.plot(place, values.mean(), "_", color=colour, markersize=18, markeredgewidth=2)
    names = [
        ", ".join(f"{weight:g}" for weight in weights) + "\nlabels" * bool(share)
        for *weights, share in groups
    ]
    axis.set_xticks(range(len(names)), names, fontsize=7)
    axis.set(ylim=(-0.02, 1.0), xlabel="α, β, γ", ylabel="I(category; digit) / H(digit)")
    texts = Texts(__package__, "digits", "weights")
    return texts.result(
        {"": figure}, (), own=texts("own"), batch=digits.SETTINGS["HFVAE"][0].batch_size,
        steps=_STEPS, results=results,
    )  # fmt: skip


FIGURES = (
    Reproduction(
        "esmaeili2019", "weights", "Control: the category of the HFVAE by its weights",
        "a day (12 minutes on an H200)", control, study=STUDY,
    ),
)  # fmt: skip
