"""Figures 8, 9 and 33 of [Kim2018]: InfoWGAN-GP on 2D Shapes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import evaluate
from unweave.papers.esmaeili2019.table2 import counts_by_factor, shared_information
from unweave.papers.kim2018.methods import (
    COLUMNS,
    HIGGINS,
    METHODS,
    OURS,
    ROWS,
    SCORES,
    below_claim,
    best_of_all,
    by_weight,
    draw_losses,
    label,
    result_of,
    runs_of,
    samples,
    setting_of,
)
from unweave.papers.kim2018.shapes2d import START, STUDY as SHAPES2D
from unweave.studies.drawing import BLUE, MUTED, draw_means, letter_panels, panels
from unweave.studies.images import draw_pictures, encode_png
from unweave.studies.intervals import bootstrap_interval
from unweave.studies.study import (
    PICTURES,
    Group,
    Network,
    Results,
    Study,
    best_of_settings,
    stored_results,
)
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND = "info-wgan-gp"
BEST = (KIND, 0.2)  # of figure 9
FACTORS = ("x", "y", "scale", "orientation", "shape")
PLACES = ("x", "y")
_BLANK = 0.5  # of the brightest pixel
_ORDER = (0.2, 0.0, 1.0, 0.5, 0.1, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9)  # the paper's best first
_SCORE = OURS.removeprefix("metrics/")
texts_of = partial(Texts, __package__, "info_wgan_gp")  # of a figure of this study


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    traversals = model.traverse(model.observations([START]), steps=COLUMNS)
    every = np.concatenate(traversals)
    return {
        "factors": evaluate(model.table(ROWS), metrics=_SCORE)[_SCORE].parts,
        "category": {
            name: shared_information(np.transpose(counts))
            for name, counts in counts_by_factor(model, FACTORS).items()
        },
        "blank": float((every.reshape(len(every), -1).max(1) < _BLANK).mean()),
        PICTURES: {"traversals": encode_png(traversals), "samples": samples(model)},
    }


STUDY = Study(
    "kim2018",
    "info-wgan-gp",
    [run for value in _ORDER for run in runs_of(f"shapes2d-{KIND}", METHODS[KIND].field, value)],
    measures=(Measure(every=10_000, rows=2_048), SCORES),
    describe=describe,
    pictured=best_of_settings(setting_of, OURS),
)


def fig8(workspace: Workspace, results: Results) -> Result:
    """Figure 8: scores of both metrics by the weight of the information."""
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    for axis, metric in zip(axes, (HIGGINS, OURS), strict=True):
        _draw_scores(axis, by_weight(results, KIND), metric)
    axes[0].set_ylabel("score at the end of training")
    letter_panels(axes, ("Higgins et al.", "Kim & Mnih"))
    others = stored_results(SHAPES2D, workspace.out)
    return result_of(texts_of("fig8"), results, figure, low_claims(results, others))


def _draw_scores(axis: Axes, groups: dict[float, Group], metric: str) -> None:
    for weight, group in groups.items():
        values = group.values(metric)
        axis.plot(np.full(len(values), weight), values, "o", color=MUTED, markersize=3, alpha=0.5)
    means = [group.mean(metric) for group in groups.values()]
    if groups:
        draw_means(axis, list(groups), means, BLUE, 0.2, marker="o", markersize=4)
    axis.set(xlabel="λ", xlim=(-0.05, 1.05), ylim=(0.2, 1.0))


def low_claims(results: Results, others: Results) -> list[Claim]:
    """Judge whether the best mean score is below those of both VAEs."""
    ours, texts = best_of_all(results, KIND), texts_of("fig8")
    return [
        below_claim(texts, "low", kind, ours, best_of_all(others, kind))
        for kind in ("factor-vae", "beta-vae")
    ]


def fig9(workspace: Workspace, results: Results) -> Result:
    """Figure 9: traversals of the best and of the median network."""
    group = results.groups(setting_of)[BEST]
    pictures = {
        number: (network.facts[PICTURES]["traversals"],
                 f"{label(BEST)}, {which}\nscore {network.last(OURS):.3f}")
        for number, (which, network) in enumerate(group.best_and_median(OURS).items())
    }  # fmt: skip
    figure = draw_pictures(1, 2, pictures, 3.4, 2.3)
    return result_of(texts_of("fig9"), results, figure, code_claims(group), columns=COLUMNS)


def code_claims(group: Group) -> list[Claim]:
    """Judge what the codes of the paper's best setting learn."""
    texts = texts_of("fig9")
    votes = {name: group.values(partial(_votes, name)) for name in FACTORS}
    ahead = [bootstrap_interval(votes["scale"] - votes[n]) for n in FACTORS if n != "scale"]
    place = group.values(lambda n: max(n.facts["category"][name] for name in PLACES))
    shape = group.values(lambda n: float(n.facts["category"]["shape"]))
    more = bootstrap_interval(place - shape)
    blank = group.values(lambda n: float(n.facts["blank"]))
    shares = ", ".join(f"{name} {each.mean():.2f}" for name, each in votes.items())
    return [
        texts.claim("scale", min(each.low for each in ahead) > 0,
                    contradicted=min(each.high for each in ahead) < 0, needs=(group,),
                    votes=shares),
        texts.claim("category", more.low > 0, contradicted=more.high < 0, needs=(group,),
                    place=bootstrap_interval(place), shape=bootstrap_interval(shape)),
        texts.claim("blank", bool((blank > 0).any()), needs=(group,),
                    some=int((blank > 0).sum()), count=len(blank), share=blank.mean()),
    ]  # fmt: skip


def _votes(factor: str, network: Network) -> float:
    return float(network.facts["factors"][factor])


def fig33(workspace: Workspace, results: Results) -> Result:
    """Figure 33: the losses during training."""
    group = results.groups(setting_of)[KIND, 1.0]
    if not group.networks:
        group = results.groups(setting_of)[BEST]
    figure, axes = draw_losses(group, 0.4)
    for axis in axes:
        axis.set_xticks([0, 150_000, 300_000], ["0", "150k", "300k"])
    weight = setting_of(group.networks[0].run)[1] if group.networks else 1.0
    return result_of(texts_of("fig33"), results, figure, (), weight=f"{weight:g}")
