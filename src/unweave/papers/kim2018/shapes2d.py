"""The study of [Kim2018] figures 4 to 7, 16 to 20, 37, 40: beta-VAE and FactorVAE on 2D Shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.noise import Noise
from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import evaluate
from unweave.papers.kim2018.batches import FACT, draws_of
from unweave.presets import preset
from unweave.studies.images import encode_png, pack_array, traversals_png
from unweave.studies.study import PICTURES, Group, Results, Study, best_of_settings
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OURS, _HIGGINS = "factor_vae_score/kim2018", "beta_vae_score/kim2018"
OURS, HIGGINS = f"metrics/{_OURS}", f"metrics/{_HIGGINS}"
TRUE_TC, CRITIC_TC = "metrics/total_correlation", "terms/total_correlation"
COLUMNS, LATENTS = 8, 8  # of a picture of traversals
CODES = "codes"  # the key of the codes in a network's facts
EDGES = np.linspace(-4, 4, 41)  # of the histograms of q(z_j)
ROWS = 10_000
SEEDS = 10  # of each setting
LIKELIHOODS, PARTICLES = 64, 5_000  # app. E
_SHOWN = np.arange(COLUMNS) * 91_237 % 737_280  # observations in pictures: spread over the dataset
_START = 4 * 91_237 + 5_000  # the observation that traversals start from

# Headlines first: beta = 4 and gamma = 40 are the best settings of figure 5, beta = 1 is a VAE.
_ORDER = (
    ("beta-vae", 4), ("factor-vae", 40), ("beta-vae", 1), ("beta-vae", 10), ("factor-vae", 35),
    ("factor-vae", 10), ("factor-vae", 100), ("beta-vae", 6), ("factor-vae", 20),
    ("factor-vae", 30),
)  # fmt: skip
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


def _runs() -> list[Run]:
    weights = {"beta-vae": "beta", "factor-vae": "gamma"}
    return [
        run
        for kind, weight in _ORDER
        for run in preset(f"kim2018/shapes2d-{kind}").runs([f"objective.{weights[kind]}={weight}"])
    ]


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    table = model.table(ROWS)
    assert table.kl is not None
    q = model.posteriors(model.rows(ROWS))
    z = q.rsample(Noise(0, 0, "marginals", q.mean.device)).cpu().numpy()
    likelihoods = model.log_likelihood(model.observations(model.rows(LIKELIHOODS)), PARTICLES)
    kind, seed = model.run.objective.kind, model.run.seed
    facts: Numbers = {
        "kl": table.kl.tolist(),
        "factors": evaluate(table, metrics=_OURS)[_OURS].parts,
        "marginals": [np.histogram(column, EDGES)[0].tolist() for column in z.T],
        "log_likelihood": float(likelihoods.mean()),
        "log_likelihood_error": float(likelihoods.std(ddof=1)) / len(likelihoods) ** 0.5,
        PICTURES: {
            "traversals": traversals_png(model, table.kl, _SHOWN, _START, LATENTS),
            "samples": samples(model),
        },
    }
    if kind == "beta-vae" and seed == 0:
        facts[FACT] = draws_of(model)
        facts[CODES] = pack_array(table.codes)
    return facts


def samples(model: FittedModel) -> str:
    """Encode images decoded from samples of the prior.  [Kim2018] fig. 19, 20."""
    images = model.sample(5 * COLUMNS)
    return encode_png(list(images.reshape(5, COLUMNS, *images.shape[1:])))


STUDY = Study(
    "kim2018",
    "shapes2d",
    _runs(),
    measures=(
        Measure(every=10_000, rows=2_048),
        Measure(every=10_000, metrics=(_OURS, _HIGGINS)),
        Measure(every=50_000, metrics=("mutual_information", "total_correlation", "dimension_kl")),
    ),
    describe=describe,
    pictured=best_of_settings(setting_of, OURS),
    seconds={"beta-vae": 37.0, "factor-vae": 78.0},
)

# The two settings of the headline with the initial weights of TensorFlow; the paper names none.
GLOROT = replace(
    STUDY,
    name="shapes2d-glorot",
    runs=[
        replace(run, init="glorot") for run in (*STUDY.runs[SEEDS : 2 * SEEDS], *STUDY.runs[:SEEDS])
    ],
)
