"""The study of [Mathieu2019] figure 2: priors for axis-aligned disentanglement on 2D Shapes.

240 networks, ten seeds for each point of the figure, where the paper has a hundred. On an H200 a
step with a batch of 64 takes 81 us of each network in 64 lanes and 122 in 15; with a batch of 256
it should take at most four times as long. All networks then take 93 to 141 minutes. The runs are in
three slices, in order of importance:

- 60 networks, 19 to 28 minutes: Gaussian priors at beta = 1 and 4, 20 lanes for each prior;
- 60 networks, 37 to 56 minutes: Student-t priors, 10 lanes for each number of degrees of freedom;
- 120 networks, 37 to 56 minutes: Gaussian priors at the other beta, 40 lanes for each prior.

Runs of one prior train together whatever their slice, unless `--networks` leaves later ones out:
`unweave reproduce mathieu2019 fig2 --networks 60` trains the first slice alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.latents import Gaussian, StudentT
from unweave.metrics import evaluate
from unweave.presets import preset
from unweave.presets.mathieu2019 import BETAS, DEGREES
from unweave.studies.images import traversals_png
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.workspace import Numbers
from unweave.training.run import Run

Setting = tuple[str, float]  # the prior, and its beta or degrees of freedom

GAUSSIANS, STUDENT = ("isotropic", "pca", "learned"), "student-t"
FIRST_BETAS = (1, 4)  # a VAE, and the value that Kim and Mnih found best
_DEGREES = (100, 5, 9, 3, 20, 50)  # nearly Gaussian, heavy tails, the released script, figure 5
SEEDS = "seed=0..9"

KIM, RELEASED = "factor_vae_score/kim2018", "factor_vae_score/mathieu2019"
DISTORTION = "terms/distortion"
MAPPED = "mapped_scores"  # on the codes as normal quantiles under the prior
SHOWN: tuple[Setting, ...] = (*((prior, 4.0) for prior in GAUSSIANS), (STUDENT, 5.0))
LATENTS = 6  # of a picture of traversals
ROWS = 10_000
_SHOWN = [column * 91_237 % 737_280 for column in range(8)]  # spread over the dataset
_START = 4 * 91_237 + 5_000  # the observation that traversals start from


def _runs() -> list[Run]:
    assert set(_DEGREES) == set(DEGREES)
    later = [beta for beta in BETAS if beta not in FIRST_BETAS]

    def gaussian(betas: Iterable[float]) -> list[Run]:
        values = ",".join(map(str, betas))
        return [
            run
            for prior in GAUSSIANS
            for run in preset(f"mathieu2019/shapes2d-{prior}").runs(
                [f"objective.beta={values}", SEEDS]
            )
        ]

    degrees = f"latent.df={','.join(map(str, _DEGREES))}"
    student = preset(f"mathieu2019/shapes2d-{STUDENT}").runs([degrees, SEEDS])
    return [*gaussian(FIRST_BETAS), *student, *gaussian(later)]


def setting_of(run: Run) -> Setting:
    """Return the point of the figure that a run belongs to.

    >>> setting_of(STUDY.runs[0])
    ('isotropic', 1.0)
    """
    if isinstance(run.latent, StudentT):
        return STUDENT, run.latent.df
    assert isinstance(run.latent, Gaussian)
    learned = "pca" if run.latent.fixed_prior else "learned"
    prior = "isotropic" if run.latent.variances is None else learned
    return prior, float(run.weights["beta"])


def kim_score(network: Network) -> float:
    """Return the score as in the text: the metric of [Kim2018] on the means of q(z|x)."""
    return network.last(f"metrics/{KIM}")


def released_score(network: Network) -> float:
    """Return the score as in the released code: more votes, no pruning, and mapped codes."""
    return float(network.facts[MAPPED][RELEASED])


# The score of app. B, by how it is computed.
SCORES: dict[str, Callable[[Network], float]] = {
    "as in the text": kim_score,
    "as in the released code": released_score,
}


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    table = model.table(ROWS, codes="prior-cdf")
    assert table.kl is not None
    scores = evaluate(table, metrics=(KIM, RELEASED))
    return {
        "kl": table.kl.tolist(),
        "prior_scales": model.prior().stddev.tolist(),
        MAPPED: {name: score.value for name, score in scores.items()},
        "factors": scores[RELEASED].parts,
        PICTURES: {"traversals": traversals_png(model, table.kl, _SHOWN, _START, LATENTS)},
    }


def _pictured(results: Results) -> list[Network]:
    """Return the best and the median network at one setting of each prior."""
    groups = results.groups(setting_of)
    shown = [groups[setting] for setting in SHOWN if setting in groups]
    return [network for group in shown for network in group.keep(released_score)]


STUDY = Study(
    "mathieu2019",
    "shapes2d",
    _runs(),
    measures=(
        Measure(every=11_520, rows=8_192),
        Measure(every=57_600, metrics=(KIM,)),
        Measure(  # at the end only
            every=230_400,
            metrics=(RELEASED, "mutual_information", "total_correlation", "dimension_kl"),
        ),
    ),
    describe=describe,
    pictured=_pictured,
)
