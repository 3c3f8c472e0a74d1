"""A control, not a figure of [Esmaeili2019]: whether other weights make the HFVAE use its category.

The paper gives the weights of the HFVAE for dSprites and CelebA, not for MNIST and Fashion-MNIST.
"""

from typing_extensions import TypedDict

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.papers.esmaeili2019 import digits
from unweave.papers.esmaeili2019.table2 import category_counts, category_information
from unweave.presets import preset
from unweave.studies.drawing import BLUE, MUTED, ORANGE, panels
from unweave.studies.study import Results, Study, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Numbers, Reproduction, Result, Workspace
from unweave.training.records import Matrix, Number
from unweave.training.run import Run

PAPER = (1.0, 4.0, 3.0)  # alpha, beta and gamma of the other figures
OTHERS = ((1, 1, 1), (0, 1, 1), (0, 4, 3), (1, 10, 3), (0, 10, 3), (1, 1, 10))
_NAMES = ("alpha", "beta", "gamma")
_STEPS = digits.SETTINGS["HFVAE"][0].steps


def setting_of(run: Run) -> tuple[float, float, float]:
    """Return the weights alpha, beta and gamma of a run."""
    alpha, beta, gamma = (float(getattr(run.objective, name)) for name in _NAMES)
    return alpha, beta, gamma


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
        run
        for weights in OTHERS
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
    names = [", ".join(f"{weight:g}" for weight in weights) for weights in groups]
    axis.set_xticks(range(len(names)), names)
    axis.set(ylim=(-0.02, 1.0), xlabel="α, β, γ", ylabel="I(category; digit) / H(digit)")
    texts = Texts(__package__, "digits", "weights")
    return texts.result(
        {"": figure}, (), own=texts("own"), batch=digits.SETTINGS["HFVAE"][0].batch_size,
        steps=_STEPS, results=results,
    )  # fmt: skip


FIGURES = (
    Reproduction(
        "esmaeili2019", "weights", "Control: the category of the HFVAE by its weights",
        "a day (8 minutes on an H200)", control, study=STUDY,
    ),
)  # fmt: skip
