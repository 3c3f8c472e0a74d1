"""The study of [Mathieu2019] figure 4 on Fashion-MNIST, as in the released code: sparse priors.

36 networks: six values of alpha, gamma = 0 and 0.8, three seeds as in the paper; 9,600 steps each.
Networks of one gamma train together, 18 at a time. On an H200 such a step took 1.2 seconds, so the
study would take six hours there; its arithmetic needs a small part of that.
"""

from __future__ import annotations

import numpy as np

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.latents import Sparse
from unweave.metrics import Table
from unweave.presets import preset
from unweave.studies.images import traversals_png
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.workspace import Numbers
from unweave.training.run import Run

Setting = tuple[float, float]  # gamma, the weight of the spike, and alpha

# The released code divides codes by their standard deviation first; the text does not say so.
_HOYER = ("hoyer/mathieu2019-normalised", "hoyer/mathieu2019")
NORMALISED, PLAIN = (f"metrics/{name}" for name in _HOYER)
ACTIVE = "metrics/active_units/kl"
DISTORTION, RATE, DIVERGENCE = "terms/distortion", "terms/rate", "terms/divergence"
SHOWN: tuple[Setting, ...] = ((0.0, 0.0), (0.0, 100.0), (0.8, 0.0), (0.8, 100.0))
LATENTS = 8  # of a picture of traversals
ROWS = 10_000
_SHOWN = [column * 7_001 for column in range(8)]  # spread over the dataset
_START = 7_001


def setting_of(run: Run) -> Setting:
    """Return gamma and alpha of a run.

    >>> setting_of(STUDY.runs[0])
    (0.0, 0.0)
    """
    assert isinstance(run.latent, Sparse)
    return run.latent.spike_weight, float(run.weights["alpha"])


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    table = model.table(ROWS)
    assert table.kl is not None
    return {
        "kl": table.kl.tolist(),
        PICTURES: {
            "magnitudes": class_magnitudes(table),
            "traversals": traversals_png(model, table.kl, _SHOWN, _START, LATENTS),
        },
    }


def class_magnitudes(table: Table) -> list[list[float]]:
    """Return the mean of |code| over the observations of each class, (classes, D)."""
    classes = table.factors[:, 0]
    return [np.abs(table.codes[classes == each]).mean(0).tolist() for each in np.unique(classes)]


def _pictured(results: Results) -> list[Network]:
    """Return the network of median sparsity at the weights that the released scripts have."""
    groups = results.groups(setting_of)
    shown = [groups[setting] for setting in SHOWN if setting in groups]
    return [network for group in shown for network in group.keep(NORMALISED, "median")]


STUDY = Study(
    "mathieu2019",
    "fashion-mnist",
    preset("mathieu2019/fashion-mnist-sparse").runs(),
    measures=(
        Measure(every=960, rows=ROWS),
        Measure(every=2_400, metrics=(*_HOYER, "active_units/kl")),
    ),
    describe=describe,
    pictured=_pictured,
)
