"""The study of [Kim2018] figures 4 to 7, 16 to 20, 37, 40: beta-VAE and FactorVAE on 2D Shapes."""

from dataclasses import replace
from typing import NotRequired

import numpy as np

from unweave.core.noise import Noise
from unweave.evaluation.model import FittedModel
from unweave.papers.kim2018.batches import FACT, DrawsFacts, draws_of
from unweave.papers.kim2018.methods import (
    MEASURES,
    METHODS,
    OURS,
    ROWS,
    SEEDS,
    VAEFacts,
    describe_vae,
    runs_of,
    setting_of,
)
from unweave.studies.forms import Packed
from unweave.studies.images import pack_array
from unweave.studies.study import Study, best_of_settings
from unweave.studies.workspace import Numbers
from unweave.training.records import Matrix

CODES = "codes"  # the key of the codes in a network's facts
EDGES = np.linspace(-4, 4, 41)  # of the histograms of q(z_j)
SHOWN = np.arange(8) * 91_237 % 737_280  # observations in pictures: spread over the dataset
START = 4 * 91_237 + 5_000  # the observation that traversals start from

# Headlines first: beta = 4 and gamma = 40 are the best settings of figure 5, beta = 1 is a VAE.
_ORDER = (
    ("beta-vae", 4), ("factor-vae", 40), ("beta-vae", 1), ("beta-vae", 10), ("factor-vae", 35),
    ("factor-vae", 10), ("beta-vae", 6), ("factor-vae", 100), ("factor-vae", 20),
    ("factor-vae", 30),
)  # fmt: skip


class _Facts(VAEFacts):
    """The form of the facts of a network; some have draws and codes."""

    marginals: Matrix
    draws: NotRequired[DrawsFacts]
    codes: NotRequired[Packed]


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    facts = describe_vae(model, SHOWN, START)
    q = model.posteriors(model.rows(ROWS))
    z = q.rsample(Noise(0, 0, "marginals", q.mean.device)).cpu().numpy()
    facts["marginals"] = [np.histogram(column, EDGES)[0].tolist() for column in z.T]
    if model.run.objective.kind == "beta-vae" and model.run.seed == 0:
        facts[FACT] = draws_of(model)
        facts[CODES] = pack_array(model.table(ROWS).codes)
    return facts


STUDY = Study(
    "kim2018",
    "shapes2d",
    [
        run
        for kind, weight in _ORDER
        for run in runs_of(f"shapes2d-{kind}", METHODS[kind].field, weight)
    ],
    measures=MEASURES,
    describe=describe,
    pictured=best_of_settings(setting_of, OURS),
    seconds={"beta-vae": 31.0, "factor-vae": 53.0},
    form=_Facts,
)

# The two settings of the headline with the initial weights of TensorFlow; the paper names none.
GLOROT = replace(
    STUDY,
    name="shapes2d-glorot",
    runs=[
        replace(run, init="glorot") for run in (*STUDY.runs[SEEDS : 2 * SEEDS], *STUDY.runs[:SEEDS])
    ],
)

# FactorVAE of the headline for half of the steps, with other weights or another precision, because
# it reconstructs better than the paper's.
HALF = STUDY.runs[0].steps // 2
_HALVED = [replace(run, steps=HALF) for run in STUDY.runs[SEEDS : 2 * SEEDS]]
LECUN = replace(
    STUDY,
    name="shapes2d-lecun",
    runs=[replace(run, init="lecun") for run in _HALVED],
)
TF32 = replace(
    STUDY,
    name="shapes2d-tf32",
    runs=_HALVED,
    precision="tf32",
)
