"""Figures 24 to 32 and 36 of [Kim2018]: InfoGAN and InfoWGAN-GP on MNIST.

The digit that an image shows is that of its nearest neighbours in the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NotRequired

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from unweave.evaluation.model import Array, FittedModel
from unweave.evaluation.monitor import Measure
from unweave.papers.esmaeili2019.digits import Digits, digits_of
from unweave.papers.kim2018.methods import draw_lines, draw_losses
from unweave.presets import preset
from unweave.studies.drawing import Figure, panels
from unweave.studies.forms import Picture, Traversals
from unweave.studies.images import decode_png, draw_pictures, encode_png
from unweave.studies.study import PICTURES, Group, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.records import Number
from unweave.training.run import Run

ACCURACY = "terms/critic_accuracy"
CONTINUOUS, CATEGORIES, NOISE = "facts/continuous", "facts/categories", "facts/noise"
SETTINGS: dict[str, list[Run]] = {
    "InfoGAN": preset("kim2018/mnist-info-gan").runs(),
    "InfoWGAN-GP": preset("kim2018/mnist-info-wgan-gp").runs(),
    "three codes": preset("kim2018/mnist-info-gan-three-codes").runs(),
    "2 categories": preset("kim2018/mnist-info-gan-categories").runs(["latent.category.size=2"]),
    "20 categories": preset("kim2018/mnist-info-gan-categories").runs(["latent.category.size=20"]),
}
COLUMNS = 10  # of a picture of traversals, and of reconstructions with varied noise
GUESSING, AROUND = 0.5, 0.05  # the accuracy of a critic that calls all images real, and a bound
OFTEN = 0.1  # share of images
TEN = 10  # digits
_PER_DIGIT = 10
_STARTS = 20  # codes that traversals start from, to count digits


class _Pictures(Traversals):
    noise: Picture


class _Facts(TypedDict):
    """The form of the facts of a network."""

    continuous: Number
    categories: Number
    noise: Number
    pictures: NotRequired[_Pictures]


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    digits = digits_of(model.dataset)
    first = model.encode(digits.images[digits.first(1)])
    chosen = digits.first(_PER_DIGIT)
    codes = model.encode(digits.images[chosen])
    return {
        "continuous": _changed_by_codes(model, digits, codes),
        "categories": _digits_of_categories(model, digits, codes[:_STARTS]),
        "noise": _changed(  # as the noise varies, fig. 26
            np.stack([digits.classify(_vary_noise(model, code)) for code in codes])
        ),
        PICTURES: {
            "traversals": encode_png(model.traverse(digits.images[chosen[:1]], steps=COLUMNS)),
            "noise": encode_png(
                [
                    np.concatenate([image[None], _vary_noise(model, code)])
                    for image, code in zip(digits.images[digits.first(1)], first, strict=True)
                ]
            ),
        },
    }


def _vary_noise(model: FittedModel, code: Array) -> Array:
    """Decode one code with different noise, (COLUMNS, *shape)."""
    return model.decode(np.repeat(code[None], COLUMNS, 0), model.draw_noise(COLUMNS))


def _changed(shown: NDArray[np.int64]) -> float:
    """Return the share of images that do not show the commonest digit of their row (n, columns)."""
    commonest = [np.bincount(row).max() for row in shown]
    return float(1 - np.sum(commonest) / shown.size)


def _changed_by_codes(model: FittedModel, digits: Digits, codes: Array) -> float:
    """Return how often the digit changes along traversals of continuous codes.  [Kim2018] fig. 25.

    The mean over the continuous codes.
    """
    values = model.traversal_values(COLUMNS)
    shares = []
    for variable, discrete in enumerate(model.run.latent.discrete):
        if not discrete:
            rows = [model.traverse_variable(code, variable, values[variable]) for code in codes]
            shares.append(_changed(np.stack([digits.classify(row) for row in rows])))
    return float(np.mean(shares))


def _digits_of_categories(model: FittedModel, digits: Digits, codes: Array) -> float:
    """Return how many digits a traversal of the category shows, on average."""
    variable = model.run.latent.discrete.index(True)
    values = model.traversal_values(COLUMNS)[variable]
    rows = [digits.classify(model.traverse_variable(code, variable, values)) for code in codes]
    return float(np.mean([len(np.unique(row)) for row in rows]))


def setting_of(run: Run) -> str:
    """Return the name of a run's setting."""
    return next(name for name, runs in SETTINGS.items() if run in runs)


STUDY = Study(
    "kim2018",
    "mnist",
    [run for runs in SETTINGS.values() for run in runs],
    measures=(Measure(every=500, rows=2_048),),
    describe=describe,
    precision="fp32",
    form=_Facts,
)


texts_of = partial(Texts, __package__, "mnist")  # of a figure of this study


def _result(
    figure: str,
    results: Results,
    drawings: dict[str, Figure],
    claims: Sequence[Claim],
    names: Sequence[str] = tuple(SETTINGS),
) -> Result:
    """Return the result of a figure about some settings of the study, by default all."""
    groups = results.groups(setting_of)
    counts = "; ".join(f"{name}: {len(groups[name].networks)}" for name in names)
    shown = Group.joined(groups[name] for name in names)
    return texts_of(figure).result(
        drawings, claims, results=results, networks=(shown.done, shown.total),
        used=shown.networks, there=shown.done, planned=shown.total, counts=counts, method=names[0],
    )  # fmt: skip


def fig24(workspace: Workspace, results: Results) -> Result:
    """Figure 24: the accuracy of InfoGAN's discriminator during training."""
    group = results.groups(setting_of)["InfoGAN"]
    figure, (axis,) = panels(1, 1, width=4.4, height=2.4)
    draw_lines(axis, group, ACCURACY, 0.5)
    axis.axhline(GUESSING, color="0.6", linewidth=1, linestyle=":")
    axis.set(xlabel="iterations", ylabel="accuracy", ylim=(0, 1.02))
    return _result("fig24", results, {"": figure}, [degenerate_claim(group)], ["InfoGAN"])


def degenerate_claim(group: Group) -> Claim:
    """Judge whether the discriminators of all runs end up guessing."""
    ends = group.values(ACCURACY)
    return texts_of("fig24").claim(
        "degenerate", bool((np.abs(ends - GUESSING) < AROUND).all()), contradicted=False,
        needs=(group,), bound=AROUND, guessing=GUESSING,
        ends=", ".join(f"{end:.2f}" for end in ends),
    )  # fmt: skip


def fig32(workspace: Workspace, results: Results) -> Result:
    """Figure 32: the losses of InfoWGAN-GP during training."""
    figure, _ = draw_losses(results.groups(setting_of)["InfoWGAN-GP"], 0.5)
    return _result("fig32", results, {"": figure}, (), ["InfoWGAN-GP"])


def traversals(name: str, workspace: Workspace, results: Results) -> Result:
    """Figures 25 and 36: traversals of all seeds of a GAN."""
    group = results.groups(setting_of)[name]
    drawings = {"": _draw_pictures(group, "traversals")}
    return _result("fig25", results, drawings, class_claims(name, group), [name])


def class_claims(name: str, group: Group) -> list[Claim]:
    """Judge whether the digit changes with continuous codes, and digits repeat over classes."""
    texts = texts_of("fig25")
    changed, shown = group.mean(CONTINUOUS), group.mean(CATEGORIES)
    return [
        texts.claim("continuous", changed.low > OFTEN, contradicted=False, needs=(group,),
                    method=name, bound=OFTEN, changed=changed),
        texts.claim("overlapping", shown.high < TEN - 1, contradicted=shown.low > TEN - 0.5,
                    needs=(group,), method=name, shown=shown),
    ]  # fmt: skip


def fig26(workspace: Workspace, results: Results) -> Result:
    """Figure 26: reconstructions of InfoGAN with varied noise."""
    group = results.groups(setting_of)["InfoGAN"]
    changed = group.mean(NOISE)
    shares = group.values(NOISE)
    claim = texts_of("fig26").claim(
        "noise", changed.low > OFTEN, contradicted=False, needs=(group,), bound=OFTEN,
        mean=changed.value, shares=", ".join(f"{share:.3f}" for share in sorted(shares)),
        few=int((shares <= OFTEN).sum()), count=len(shares),
    )  # fmt: skip
    one = Group(group.networks[:1], 1)
    return _result("fig26", results, {"": _draw_pictures(one, "noise", 2.6)}, [claim], ["InfoGAN"])


def fig27(workspace: Workspace, results: Results) -> Result:
    """Figures 27 to 31: other numbers of codes and categories."""
    groups = results.groups(setting_of)
    drawings = {
        name.replace(" ", "-"): _draw_pictures(groups[name], each, 2.6, title=title)
        for name, each, title in (
            ("three codes", "traversals", "three continuous codes"),
            ("2 categories", "traversals", "2 categories"),
            ("20 categories", "traversals", "20 categories"),
        )
    }
    for name in ("2 categories", "20 categories"):
        key = f"{name.replace(' ', '-')}-noise"
        drawings[key] = _draw_pictures(groups[name], "noise", 2.6, title=f"{name}, varied noise")
    shown = ("three codes", "2 categories", "20 categories")
    return _result("fig27", results, drawings, number_claims(groups), shown)


def number_claims(groups: Mapping[str, Group]) -> list[Claim]:
    """Judge how the numbers of codes and categories change what carries the digit.

    The paper shows one network of each, so a comparison with five seeds is all there is.
    """
    texts, usual = texts_of("fig27"), groups["InfoGAN"]
    claims = []
    for key, name, read, sign in (
        ("three_codes", "three codes", CONTINUOUS, 1),
        ("two_codes", "2 categories", CONTINUOUS, 1),
        ("two_noise", "2 categories", NOISE, 1),
        ("twenty_noise", "20 categories", NOISE, -1),
    ):
        ours, values = groups[name], usual.values(read)
        value = float(ours.values(read).mean())
        beyond = bool((sign * (value - values) > 0).all())
        claims.append(
            texts.claim(key, beyond, contradicted=False, needs=(ours, usual), value=value,
                        low=values.min(), high=values.max(), count=len(values))
        )  # fmt: skip
    return claims


def _draw_pictures(
    group: Group, picture: str, width: float = 3.2, title: str | None = None
) -> Figure:
    """Draw a picture of every network of a group, at most three side by side."""
    pictures = {
        number: (network.facts[PICTURES][picture], title or f"seed {network.run.seed}")
        for number, network in enumerate(group.networks)
    }
    columns = min(3, len(pictures)) or 1
    rows = -(-len(pictures) // columns) or 1
    sizes = [decode_png(text).shape for text, _ in pictures.values()]
    height = 0.25 + width * max((tall / wide for tall, wide, _ in sizes), default=0.3)
    return draw_pictures(rows, columns, pictures, width, height)
