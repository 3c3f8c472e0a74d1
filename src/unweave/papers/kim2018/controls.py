"""Controls for figure 5 of [Kim2018]: what might explain why our FactorVAE reconstructs better."""

from __future__ import annotations

from functools import partial

from unweave.papers.kim2018.methods import (
    DISTORTION,
    METHODS,
    OURS,
    STATED,
    TOLERANCES,
    TRUE_TC,
    draw_curves,
    label,
    label_errors,
    result_of,
    setting_of,
)
from unweave.papers.kim2018.shapes2d import HALF, STUDY
from unweave.papers.kim2018.shapes2d_figures import BETA, FACTOR
from unweave.studies.drawing import BLUE, ORANGE, letter_panels, panels
from unweave.studies.study import Network, Results, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Result, Workspace

# What is compared at half of the steps: a curve, and a difference that would matter.
_COMPARED = {
    "reconstruction error": (DISTORTION, TOLERANCES["error"]),
    "true total correlation": (TRUE_TC, 1.0),
    "score": (OURS, TOLERANCES["score"]),
}


def initial_weights(workspace: Workspace, results: Results) -> Result:
    """Compare the networks of the headline by how their weights start."""
    plain = stored_results(STUDY, workspace.out).groups(setting_of)
    glorot = results.groups(setting_of)
    figure, (left, right) = panels(1, 2, width=3.6, height=2.8)
    draw_curves(left, {"1/√(fan-in)": plain[FACTOR], "Glorot": glorot[FACTOR]}, DISTORTION)
    left.axhline(45, color="0.6", linewidth=1, linestyle=":")
    left.set(yscale="log", xlabel="iterations", ylabel="reconstruction, γ = 40 (nats)")
    label_errors(left.yaxis)
    for setting, colour in ((BETA, BLUE), (FACTOR, ORANGE)):
        for groups, marker, name in ((plain, "o", "1/√(fan-in)"), (glorot, "^", "Glorot")):
            errors, scores = (groups[setting].values(read) for read in (DISTORTION, OURS))
            text = f"{METHODS[setting[0]].name}, {name}"
            right.plot(errors, scores, marker, color=colour, markersize=4, alpha=0.7, label=text)
    right.set(xlabel="reconstruction at the end (nats)", ylabel="score of Kim & Mnih")
    right.legend(loc="lower left", fontsize=6)
    letter_panels([left, right], ["", ""])
    texts = Texts(__package__, "shapes2d", "initial_weights")
    claims = []
    for setting, what, stated in (
        (FACTOR, "score", 0.82), (FACTOR, "error", 45.0), (BETA, "score", 0.73),
        (BETA, "error", 45.0),
    ):  # fmt: skip
        ours, theirs, (read, named) = glorot[setting], plain[setting], STATED[what]
        mean, tolerance = ours.mean(read), TOLERANCES[what]
        claims.append(
            texts.claim(
                "stated", mean.within(stated, tolerance),
                contradicted=mean.beyond(stated, tolerance), needs=(ours, theirs), what=named,
                method=label(setting), stated=stated, tolerance=tolerance, glorot=mean,
                count=len(ours.networks), plain=theirs.mean(read),
                difference=ours.difference(theirs, read),
            )
        )  # fmt: skip
    values = {}
    for prefix, group in (("", plain[FACTOR]), ("glorot_", glorot[FACTOR])):
        values[f"{prefix}halfway"] = f"{group.mean(partial(value_at, DISTORTION, HALF)).value:.1f}"
        values[f"{prefix}score_halfway"] = f"{group.mean(partial(value_at, OURS, HALF)).value:.3f}"
        values[f"{prefix}score_end"] = f"{group.mean(OURS).value:.3f}"
    return result_of(texts, results, figure, claims, texts("noticed", **values))


def halved(name: str, workspace: Workspace, results: Results) -> Result:
    """Compare FactorVAEs after half of the steps with those of figure 5, at the same step."""
    texts = Texts(__package__, name, "controls")
    plain = stored_results(STUDY, workspace.out).groups(setting_of)[FACTOR]
    changed = results.groups(setting_of)[FACTOR]
    figure, axes = panels(1, len(_COMPARED), width=3.0, height=2.6)
    variant = texts("variant")
    for axis, (curve, _) in zip(axes, _COMPARED.values(), strict=True):
        draw_curves(axis, {"as in figure 5": plain, variant: changed}, curve)
        axis.set(xlabel="iterations", ylabel="" if curve == OURS else "nats")
        if (legend := axis.get_legend()) and axis is axes[0]:
            axis.legend(loc="upper right", fontsize=7, handlelength=2.2)
        elif legend:
            legend.remove()
    axes[0].set_yscale("log")
    label_errors(axes[0].yaxis)
    axes[0].axhline(45, color="0.6", linewidth=1, linestyle=":")
    letter_panels(axes, list(_COMPARED))
    claims = []
    for what, (curve, tolerance) in _COMPARED.items():
        read = partial(value_at, curve, HALF)
        difference = changed.difference(plain, read)
        claims.append(
            texts.claim(
                "same", difference.within(0, tolerance),
                contradicted=difference.beyond(0, tolerance), needs=(plain, changed), what=what,
                variant=variant, tolerance=tolerance, steps=HALF, changed=changed.mean(read),
                plain=plain.mean(read), difference=difference,
            )
        )  # fmt: skip
    return result_of(texts, results, figure, claims, steps=HALF)


def value_at(curve: str, step: int, network: Network) -> float:
    """Return what a curve measured at a step, or NaN."""
    steps, values = network.curve(curve)
    return float(values[steps == step].sum()) if step in steps else float("nan")
