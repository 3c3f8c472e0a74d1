"""Figure 8 of [Esmaeili2019]: factors in CelebA, by an HFVAE and a beta-VAE, and a stand-in."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import Table
from unweave.papers.stand_in import (
    OLIVETTI,
    describe_photographs,
    first_pictured,
    is_stand_in,
    stand_in_text,
)
from unweave.presets import preset
from unweave.studies.forms import Divergences, Word
from unweave.studies.images import draw_pictures
from unweave.studies.study import PICTURES, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Reproduction, Result, Workspace
from unweave.training.records import Number
from unweave.training.run import Run

METHODS = {"hfvae": "HFVAE", "beta-vae": "β-VAE"}
ATTRIBUTES = {"Smiling": "smiling", "Eyeglasses": "glasses"}  # of CelebA
SEEDS = 3
SEPARATED = 0.75  # area under the ROC curve
LATENTS = 10
_ROWS = 10_000
_TEXTS = Texts(__package__, "fig8")


def setting_of(run: Run) -> str:
    """Return the method of a run."""
    return run.objective.kind


class _Facts(Divergences):
    """The form of the facts of a network."""

    attributes: dict[Word, Number]


def describe(model: FittedModel) -> Numbers:
    """Return what the figure shows of a trained network."""
    table = model.table(_ROWS)
    return describe_photographs(model, table, LATENTS, attributes=attributes(table))


def attributes(table: Table) -> dict[str, float]:
    """Return how well the best latent separates images with an attribute from those without."""
    return {
        name: max(separation(code, table.factors[:, table.factor_names.index(name)] > 0)
                  for code in table.codes.T)
        for name in ATTRIBUTES if name in table.factor_names
    }  # fmt: skip


def separation(code: NDArray[np.floating], has: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of a code that tells two groups apart, at least 0.5.

    >>> separation(np.array([0.0, 1.0, 2.0, 3.0]), np.array([True, True, False, False]))
    1.0
    """
    area = stats.mannwhitneyu(code[has], code[~has]).statistic / (has.sum() * (~has).sum())
    return float(max(area, 1 - area))


def _runs() -> list[Run]:
    first = [preset(f"esmaeili2019/celeba-{name}").run for name in METHODS]
    return [replace(run, seed=seed) for seed in range(SEEDS) for run in first]


def _study(name: str, runs: Sequence[Run]) -> Study:
    measures = (Measure(every=runs[0].steps // 20, rows=2_048),)
    return Study("esmaeili2019", name, runs, describe, measures, pictured=first_pictured,
                 precision="fp32", form=_Facts)  # fmt: skip


STUDY = _study("celeba", _runs())
STAND_IN = _study(
    "olivetti", [replace(run, data=OLIVETTI, batch_size=200, steps=5_000) for run in _runs()]
)


def fig8(workspace: Workspace, results: Results) -> Result:
    """Figure 8: traversals of both methods."""
    groups, run = results.groups(setting_of), results.study.runs[0]
    pictures = {}
    for network in first_pictured(results):
        kind, used = setting_of(network.run), sum(kl > 0.1 for kl in network.facts["kl"])
        title = f"{METHODS[kind]}, {used} latents in use"
        pictures[list(METHODS).index(kind)] = network.facts[PICTURES]["traversals"], title
    counts = "; ".join(f"{name}: {len(groups[kind].networks)}" for kind, name in METHODS.items())
    return _TEXTS.result(
        {"": draw_pictures(1, len(METHODS), pictures, 3.6, 5.0, fontsize=9.5)},
        [attributes_claim(results)], results=results, counts=counts, latents=LATENTS,
        own=stand_in_text(results, "CelebA"), steps=run.steps, batch=run.batch_size,
    )  # fmt: skip


def attributes_claim(results: Results) -> Claim:
    """Judge whether a latent of every HFVAE follows each attribute."""
    group = results.groups(setting_of)["hfvae"]
    if is_stand_in(results):
        return _TEXTS.claim("no_attributes", needs=(group,))
    found = {name: [n.facts["attributes"][key] for n in group.networks]
             for key, name in ATTRIBUTES.items()}  # fmt: skip
    got = "; ".join(f"{name} {', '.join(f'{area:.2f}' for area in areas)}"
                    for name, areas in found.items())  # fmt: skip
    return _TEXTS.claim(
        "attributes", all(area > SEPARATED for areas in found.values() for area in areas),
        contradicted=False, needs=(group,), bound=SEPARATED, areas=got,
    )  # fmt: skip


FIGURES = (
    Reproduction("esmaeili2019", "fig8", "Figure 8: factors in CelebA",
                 "weeks (half an hour on an H200)", fig8, study=STUDY),
    Reproduction("esmaeili2019", "olivetti", "Stand-in: Olivetti faces in place of CelebA",
                 "two hours (a minute on an H200)", fig8,
                 "unweave reproduce esmaeili2019 olivetti --data olivetti.npz", STAND_IN),
)  # fmt: skip
