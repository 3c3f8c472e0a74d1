"""Figures 12 to 15, 38 and 39 of [Kim2018]: images without known factors, and a stand-in for them.

3D Faces, 3D Chairs and CelebA must be downloaded; Olivetti faces stand in for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.papers.kim2018.methods import (
    DISTORTION,
    LATENTS,
    METHODS,
    ROWS,
    draw_settings,
    label,
    result_of,
    setting_of,
)
from unweave.papers.stand_in import (
    OLIVETTI,
    describe_photographs,
    first_pictured,
    is_stand_in,
    stand_in_text,
)
from unweave.presets import preset
from unweave.studies.drawing import Figure, letter_panels, panels
from unweave.studies.forms import Divergences
from unweave.studies.images import draw_pictures
from unweave.studies.study import PICTURES, Group, Network, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.run import Run

SHOWN = {"beta-vae": 4.0, "factor-vae": 10.0}  # the settings in pictures, with seed 0
_STEPS, _SEEDS = 20_000, 3  # of the stand-in
_TEXTS = Texts(__package__, "unlabelled")


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    return describe_photographs(model, model.table(ROWS), LATENTS)


def _pictured(results: Results) -> list[Network]:
    return [n for n in first_pictured(results) if setting_of(n.run) in SHOWN.items()]


def _study(name: str, runs: Sequence[Run], every: int) -> Study:
    return Study("kim2018", name, runs, describe, measures=(Measure(every=every, rows=2_048),),
                 pictured=_pictured, form=Divergences)  # fmt: skip


def _runs(name: str) -> list[Run]:
    return [run for kind in SHOWN for run in preset(f"kim2018/{name}-{kind}").runs()]


STUDIES = {name: _study(name, _runs(name), 10_000) for name in ("faces", "chairs", "celeba")}
STAND_IN = _study(
    "olivetti",
    [replace(run, data=OLIVETTI, steps=_STEPS) for run in _runs("faces") if run.seed < _SEEDS],
    500,
)


def figure_of(title: str, workspace: Workspace, results: Results) -> Result:
    """Draw errors during training, and traversals, on the images of a title or a stand-in."""
    drawings = {"": _draw_errors(results), "traversals": _draw_traversals(results)}
    return result_of(
        _TEXTS, results, drawings, claims_of(results), own=stand_in_text(results, title),
        steps=results.study.runs[0].steps, latents=LATENTS,
    )  # fmt: skip


def _draw_errors(results: Results) -> Figure:
    drawing, axes = panels(1, len(SHOWN), width=3.6, height=2.5)
    for axis, kind in zip(axes, SHOWN, strict=True):
        draw_settings(axis, results, kind, DISTORTION)
        axis.set_xlabel("iterations")
    axes[0].set_ylabel("reconstruction error (nats)")
    letter_panels(axes, [METHODS[kind].name for kind in SHOWN])
    return drawing


def _draw_traversals(results: Results) -> Figure:
    pictures = {}
    for network in _pictured(results):
        kind, _ = setting = setting_of(network.run)
        pictures[list(SHOWN).index(kind)] = network.facts[PICTURES]["traversals"], label(setting)
    return draw_pictures(1, len(SHOWN), pictures, 3.6, 4.6, fontsize=9.5)


def claims_of(results: Results) -> list[Claim]:
    """Judge what the paper says about errors, and leave factors to the reader."""
    groups = results.groups(setting_of)
    ours = [group for (kind, _), group in groups.items() if kind == "factor-vae"]
    theirs = [g for (kind, weight), g in groups.items() if kind == "beta-vae" and weight > 1]
    less = _together(ours).difference(_together(theirs), DISTORTION)
    return [
        _TEXTS.below("smaller_error", less, needs=(*ours, *theirs),
                     ours=_together(ours).mean(DISTORTION),
                     theirs=_together(theirs).mean(DISTORTION), difference=less,
                     prefix="(ours) On a stand-in: " if is_stand_in(results) else ""),
        _TEXTS.claim("sensible", needs=(*ours, *theirs)),
    ]  # fmt: skip


def _together(groups: Sequence[Group]) -> Group:
    networks = tuple(network for group in groups for network in group.networks)
    return Group(networks, sum(group.total for group in groups))
