"""Figures 8, 9 and 33 to 35 of [Kim2018]: InfoWGAN-GP on 2D Shapes, with two sizes of networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

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
from unweave.studies.drawing import BLUE, MUTED, Axes, Figure, draw_means, letter_panels, panels
from unweave.studies.forms import TraversalsAndSamples, Word
from unweave.studies.images import draw_pictures, encode_png
from unweave.studies.intervals import mean_over_networks
from unweave.studies.study import (
    PICTURES,
    Group,
    Results,
    Study,
    best_of_settings,
    stored_results,
)
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.records import Number

KIND = "info-wgan-gp"
BEST, BEST_LARGE = (KIND, 0.2), (KIND, 0.6)  # of figures 9 and 35
FACTORS = ("x", "y", "scale", "orientation", "shape")
PLACES = ("x", "y")
_BLANK = 0.5  # of the brightest pixel
_ORDER = (0.2, 0.0, 1.0, 0.5, 0.1, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9)  # the paper's best first
_SCORE = OURS.removeprefix("metrics/")
_NOT_BETTER = 0.05  # of two mean scores
texts_of = partial(Texts, __package__, "info_wgan_gp")  # of a figure of these studies


class _Facts(TypedDict):
    """The form of the facts of a network."""

    factors: dict[Word, Number]
    category: dict[Word, Number]
    blank: Number
    pictures: NotRequired[TraversalsAndSamples]


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


def _study(name: str, weights: Sequence[float]) -> Study:
    runs = [run for value in weights
            for run in runs_of(f"shapes2d-{name}", METHODS[KIND].field, value)]  # fmt: skip
    return Study("kim2018", name, runs, describe,
                 measures=(Measure(every=10_000, rows=2_048), SCORES),
                 pictured=best_of_settings(setting_of, OURS), form=_Facts)  # fmt: skip


STUDY = _study(KIND, _ORDER)
LARGE = _study(f"{KIND}-large", sorted(_ORDER, key=BEST_LARGE[1].__ne__))


def _result(
    figure: str, results: Results, drawing: Figure, claims: Sequence[Claim], **values: Any
) -> Result:
    large = results.study.name == LARGE.name
    return result_of(
        texts_of(figure), results, drawing, claims, preset=f"kim2018/shapes2d-{results.study.name}",
        noise="128" if large else "five", table=6 if large else 5, columns=COLUMNS, **values,
    )  # fmt: skip


def fig8(workspace: Workspace, results: Results) -> Result:
    """Figure 8: scores of both metrics by the weight of the information."""
    others = stored_results(SHAPES2D, workspace.out)
    return _result("fig8", results, _draw_metrics(results), low_claims(results, others))


def fig34(workspace: Workspace, results: Results) -> Result:
    """Figure 34: the same with larger networks."""
    smaller = stored_results(STUDY, workspace.out)
    return _result("fig34", results, _draw_metrics(results), [larger_claim(results, smaller)])


def larger_claim(results: Results, smaller: Results) -> Claim:
    """Judge whether larger networks score higher."""
    ours, theirs = best_of_all(results, KIND), best_of_all(smaller, KIND)
    more = ours.difference(theirs, OURS)
    return texts_of("fig34").claim(
        "larger", more.high < _NOT_BETTER, contradicted=more.low > 0, needs=(ours, theirs),
        bound=_NOT_BETTER, ours=ours.mean(OURS), theirs=theirs.mean(OURS), difference=more,
    )  # fmt: skip


def _draw_metrics(results: Results) -> Figure:
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    for axis, metric in zip(axes, (HIGGINS, OURS), strict=True):
        _draw_scores(axis, by_weight(results, KIND), metric)
    axes[0].set_ylabel("score at the end of training")
    letter_panels(axes, ("Higgins et al.", "Kim & Mnih"))
    return figure


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
    return _result("fig9", results, _draw_traversals(group), code_claims(group))


def fig35(workspace: Workspace, results: Results) -> Result:
    """Figure 35: the same with larger networks."""
    group = results.groups(setting_of)[BEST_LARGE]
    claim = texts_of("fig35").claim("realistic", needs=(group,))
    return _result("fig35", results, _draw_traversals(group), [claim])


def _draw_traversals(group: Group) -> Figure:
    pictures = {
        number: (network.facts[PICTURES]["traversals"],
                 f"{label(setting_of(network.run))}, {which}\nscore {network.value(OURS):.3f}")
        for number, (which, network) in enumerate(group.best_and_median(OURS).items())
    }  # fmt: skip
    return draw_pictures(1, 2, pictures, 3.4, 2.3)


def code_claims(group: Group) -> list[Claim]:
    """Judge what the codes of the paper's best setting learn."""
    texts = texts_of("fig9")
    votes = {name: group.values(f"facts/factors/{name}") for name in FACTORS}
    ahead = [mean_over_networks(votes["scale"] - votes[n]) for n in FACTORS if n != "scale"]
    place = group.values(lambda n: max(n.facts["category"][name] for name in PLACES))
    shape = group.values("facts/category/shape")
    more = mean_over_networks(place - shape)
    blank = group.values("facts/blank")
    shares = ", ".join(f"{name} {each.mean():.2f}" for name, each in votes.items())
    return [
        texts.above("scale", *ahead, needs=(group,), votes=shares),
        texts.above("category", more, needs=(group,), place=mean_over_networks(place),
                    shape=mean_over_networks(shape)),
        texts.claim("blank", bool((blank > 0).any()), needs=(group,),
                    some=int((blank > 0).sum()), count=len(blank), share=blank.mean()),
    ]  # fmt: skip


def fig33(workspace: Workspace, results: Results) -> Result:
    """Figure 33: the losses during training."""
    group = results.groups(setting_of)[KIND, 1.0]
    if not group.networks:
        group = results.groups(setting_of)[BEST]
    figure, axes = draw_losses(group, 0.4)
    for axis in axes:
        axis.set_xticks([0, 150_000, 300_000], ["0", "150k", "300k"])
    weight = setting_of(group.networks[0].run)[1] if group.networks else 1.0
    return _result("fig33", results, figure, (), weight=f"{weight:g}")
