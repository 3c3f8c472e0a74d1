"""A control of figure 5 of [Kim2018]: the headline with the initial weights of TensorFlow."""

from __future__ import annotations

from unweave.papers.kim2018.methods import (
    DISTORTION,
    METHODS,
    difference,
    label,
    result_of,
    setting_of,
)
from unweave.papers.kim2018.shapes2d import OURS, STUDY
from unweave.papers.kim2018.shapes2d_curves import BETA, FACTOR, draw_curves
from unweave.studies.drawing import BLUE, ORANGE, letter_panels, panels
from unweave.studies.study import Group, Results, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Result, Workspace

SLACK = 0.02  # as for the scores of figure 5


def initial_weights(workspace: Workspace, results: Results) -> Result:
    """Compare the networks of the headline by how their weights start."""
    plain = stored_results(STUDY, workspace.out).groups(setting_of)
    glorot = results.groups(setting_of)
    figure, (left, right) = panels(1, 2, width=3.6, height=2.8)
    draw_curves(left, {"1/√(fan-in)": plain[FACTOR], "Glorot": glorot[FACTOR]}, DISTORTION)
    left.axhline(45, color="0.6", linewidth=1, linestyle=":")
    left.set_ylim(25, 110)
    left.set_xlabel("iterations")
    left.set_ylabel("reconstruction error, γ = 40")
    for setting, colour in ((BETA, BLUE), (FACTOR, ORANGE)):
        for groups, marker, name in ((plain, "o", "1/√(fan-in)"), (glorot, "^", "Glorot")):
            errors, scores = (groups[setting].values(read) for read in (DISTORTION, OURS))
            text = f"{METHODS[setting[0]][0]}, {name}"
            right.plot(errors, scores, marker, color=colour, markersize=4, alpha=0.7, label=text)
    right.set_xlabel("reconstruction error at the end")
    right.set_ylabel("score of Kim & Mnih")
    right.legend(loc="lower left", fontsize=6)
    letter_panels([left, right], ["", ""])
    texts = Texts(__package__, "shapes2d", "initial_weights")
    claims = []
    for setting, stated in ((FACTOR, 0.82), (BETA, 0.73)):
        ours, theirs = glorot[setting], plain[setting]
        mean = ours.mean(OURS)
        away = max(mean.low - stated, stated - mean.high, 0.0)
        claims.append(
            texts.claim(
                "score",
                away <= SLACK,
                contradicted=away > 3 * SLACK,
                needs=(theirs,),
                method=label(setting),
                stated=stated,
                slack=SLACK,
                limit=3 * SLACK,
                away=away,
                glorot=mean,
                count=len(ours.networks),
                plain=theirs.mean(OURS),
                difference=difference(ours, theirs, OURS),
            )
        )
    noticed = texts(
        "noticed",
        halfway=f"{_mean_at(plain[FACTOR], DISTORTION):.1f}",
        score_halfway=f"{_mean_at(plain[FACTOR], OURS):.3f}",
        score_end=f"{plain[FACTOR].mean(OURS).value:.3f}",
        glorot_halfway=f"{_mean_at(glorot[FACTOR], DISTORTION):.1f}",
        glorot_score_halfway=f"{_mean_at(glorot[FACTOR], OURS):.3f}",
        glorot_score_end=f"{glorot[FACTOR].mean(OURS).value:.3f}",
    )
    return result_of("initial_weights", results, figure, claims, noticed)


def _mean_at(group: Group, name: str, step: int = 150_000) -> float:
    """Return the mean of a curve over networks at a step."""
    curves = [dict(zip(*network.curve(name), strict=True)) for network in group.networks]
    return float(sum(curve[step] for curve in curves) / max(1, len(curves)))
