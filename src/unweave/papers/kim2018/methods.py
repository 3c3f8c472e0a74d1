"""The settings of the study on 2D Shapes, by method and weight, and the texts of its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unweave.studies.intervals import difference_interval
from unweave.studies.study import Group, Reader, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Result
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTORTION, ACCURACY, MISMATCH = (
    "terms/distortion", "terms/critic_accuracy", "metrics/dimension_kl",
)  # fmt: skip
METHODS = {"beta-vae": ("β-VAE", "β"), "factor-vae": ("FactorVAE", "γ")}
Setting = tuple[str, float]  # method and weight


def setting_of(run: Run) -> Setting:
    """Return the method of a run and its weight, beta or gamma."""
    return run.objective.kind, float(next(iter(run.weights.values())))


def label(setting: Setting) -> str:
    """Name a setting.

    >>> label(("beta-vae", 4.0))
    'β-VAE, β = 4'
    """
    method, weight = METHODS[setting[0]]
    return f"{method}, {weight} = {setting[1]:g}"


def by_weight(results: Results, method: str) -> dict[float, Group]:
    """Return the groups of a method that have networks, by ascending weight."""
    groups = results.groups(setting_of).items()
    return dict(
        sorted((w, group) for (kind, w), group in groups if kind == method and group.networks)
    )


def difference(ours: Group, theirs: Group, read: Reader) -> Measured:
    """Return the difference of the means of two groups, with its interval."""
    return difference_interval(ours.values(read), theirs.values(read))


def texts_of(figure: str) -> Texts:
    """Return the texts of a figure of this study."""
    return Texts(__package__, "shapes2d", figure)


def result_of(
    figure: str,
    results: Results,
    drawing: Figure,
    claims: Sequence[Claim],
    noticed: str | None = None,
    **values: Any,
) -> Result:
    """Return a result that says how much of the study is trained."""
    counts = [
        f"{METHODS[method][1]} = {weight:g}: {len(group.networks)}"
        for method in METHODS
        for weight, group in by_weight(results, method).items()
    ]
    names = {"bf16": "bfloat16", "fp32": "float32", "tf32": "TF32"}
    precisions = Counter(names[network.cost["precision"]] for network in results.networks)
    precision = " and ".join(f"{name} ({count} networks)" for name, count in precisions.items())
    return texts_of(figure).result(
        {"": drawing},
        claims,
        noticed=noticed,
        there=len(results.networks),
        planned=len(results.study.runs),
        counts="; ".join(counts),
        precision=precision if len(precisions) > 1 else next(iter(precisions)),
        seeds=results.seeds,
        **values,
    )
