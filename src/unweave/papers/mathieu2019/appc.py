"""[Mathieu2019] app. C: the bias of estimates of KL(q(z) || p(z)) from a batch."""

import itertools
import math

import numpy as np
from pydantic import PositiveInt
from typing_extensions import TypedDict

from unweave.core.optimisers import Adam
from unweave.data import Shapes2D
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian
from unweave.likelihoods import Bernoulli
from unweave.networks import MLP
from unweave.objectives import BetaTCVAE, BetaVAE
from unweave.studies.drawing import (
    COLOURS,
    DASHES,
    INK,
    MUTED,
    Axes,
    Values,
    batch_axis,
    draw_bias,
    letter_panels,
    panels,
)
from unweave.studies.intervals import two_sigma_interval
from unweave.studies.study import Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.theory import Encodings, Estimates, encodings_of, expected_estimates, make_encodings
from unweave.theory.bias import BatchEstimator, Quantity
from unweave.training.records import Number
from unweave.training.run import Run

SIZE, DIMENSION, SCALE, BATCH, DRAWS = 10_000, 3, 0.1, 64, 2000
DIMENSIONS = (1, 2, 3, 4, 6, 8)
SCALES = (0.5, 0.3, 0.1, 0.03)
DATA_SETS = (100, 300, 1000, 3000, 10_000)
BETAS = (1.0, 5.0, 9.0)
SPRITES, STEPS = Shapes2D(side=32, positions=16, orientations=4), 6000
FINE = 4  # batch sizes within a factor of 2
_NEAR, _FAR = 0.1, 0.5  # nats of bias: a small one, and a large one
_PART = 0.1  # of the data: a very large batch
_APART = 0.8  # of the difference that encodings without overlap make
_BY_BATCH = ("bias", "error", "alone", "alone_error")  # arrays over batch sizes
_ESTIMATORS: tuple[BatchEstimator, ...] = ("stratified", "weighted", "batch")
_TEXTS = Texts(__package__, "appc")


def appendix_c(workspace: Workspace, results: Results) -> Result:
    """Appendix C: the bias of estimates of H[q(z)] and KL(q(z) || p(z)) from a batch."""
    base = make_encodings(SIZE, DIMENSION, SCALE)
    each = workspace.each
    by_estimator = {
        name: expected_estimates(base, name, _batch_sizes(SIZE), DRAWS)
        for name in each("estimators", _ESTIMATORS)
    }
    by_dimension = {
        d: _stratified(make_encodings(SIZE, d, SCALE)) for d in each("dimensions", DIMENSIONS)
    }
    by_scale = {s: _stratified(make_encodings(SIZE, DIMENSION, s)) for s in each("scales", SCALES)}
    by_size = {
        n: _stratified(make_encodings(n, DIMENSION, SCALE)) for n in each("sizes", DATA_SETS)
    }
    models = [estimates(facts) for facts in results.facts]
    learned = dict(zip(BETAS, models[: len(BETAS)], strict=True))
    regularised = dict(zip(BETAS[1:], models[len(BETAS) :], strict=True))
    figure, axes = panels(2, 3, width=3.2)
    letter_panels(axes, ("Entropy", "KL", "Bias by dimension", "Bias by overlap",
                         "Bias by size of the dataset", "Bias of trained models"))  # fmt: skip
    _draw_estimates(axes[0], "entropy", by_estimator)
    _draw_estimates(axes[1], "kl", by_estimator)
    axes[1].set_ylim(top=9.0)
    axes[1].legend(loc="upper right", fontsize=7, ncols=2, handlelength=2.4, columnspacing=1.2)
    draw_bias(axes[2], {f"D = {d}": each for d, each in by_dimension.items()})
    draw_bias(axes[3], {f"scale {s}": each for s, each in by_scale.items()})
    draw_bias(axes[4], {f"n = {n:,}": each for n, each in by_size.items()})
    draw_bias(axes[5], {f"β = {beta:g}": each for beta, each in learned.items()})
    return _TEXTS.result(
        {"": figure},
        (*claims_of(by_estimator["stratified"], by_dimension, by_size, learned),
         regulariser_claim(learned, regularised)),
        size=SIZE, scale=SCALE, dimension=DIMENSION, draws=DRAWS,
        observations=results.facts[0]["observations"], steps=STEPS,
    )  # fmt: skip


def study() -> Study:
    """Return the study: small VAEs on sprites, with the estimates for their encodings.

    beta-VAEs, and then VAEs to whose loss beta - 1 times the estimated KL(q(z) || p(z)) is added.
    """
    runs = [
        Run(
            data=SPRITES,
            latent=Gaussian(10),
            network=MLP(hidden=(256, 256)),
            likelihood=Bernoulli(),
            objective=objective,
            optimiser=Adam(lr=1e-3),
            steps=STEPS,
        )
        for objective in (
            *(BetaVAE(beta=beta) for beta in BETAS),
            *(BetaTCVAE(alpha=1.0, beta=beta, gamma=beta) for beta in BETAS[1:]),
        )
    ]
    return Study("mathieu2019", "sprites", runs, _describe, precision="fp32", form=_Facts)


class _Quantities(TypedDict):
    entropy: Number
    kl: Number
    total_correlation: Number


class _ByBatch(TypedDict):
    entropy: list[Number]
    kl: list[Number]
    total_correlation: list[Number]


class _Facts(TypedDict):
    """The form of the facts of a network: its stratified estimates."""

    observations: PositiveInt
    batch_sizes: list[PositiveInt]
    exact: _Quantities
    exact_error: _Quantities
    bias: _ByBatch
    error: _ByBatch
    alone: _ByBatch
    alone_error: _ByBatch


def _describe(model: FittedModel) -> Numbers:
    each = _stratified(encodings_of(model))
    by_batch = {
        name: {quantity: values.tolist() for quantity, values in getattr(each, name).items()}
        for name in _BY_BATCH
    }
    return {
        "observations": model.dataset.size,
        "batch_sizes": each.batch_sizes,
        "exact": each.exact,
        "exact_error": each.exact_error,
        **by_batch,
    }


def estimates(facts: Numbers) -> Estimates:
    """Return the stratified estimates for the encodings of a network, from its facts."""
    by_batch = {
        name: {quantity: np.array(values) for quantity, values in facts[name].items()}
        for name in _BY_BATCH
    }
    sizes = tuple(facts["batch_sizes"])
    return Estimates("stratified", sizes, facts["exact"], facts["exact_error"], **by_batch)


def _stratified(encodings: Encodings) -> Estimates:
    """Compute expected estimates of the stratified estimator, eq. 10, for all batch sizes."""
    return expected_estimates(encodings, "stratified", _batch_sizes(encodings.size), DRAWS)


def _batch_sizes(most: int) -> tuple[int, ...]:
    """Return batch sizes from 2 on, evenly along a logarithmic axis, and the whole dataset."""
    powers = range(FINE, FINE * 64)
    sizes = dict.fromkeys(round(2 ** (power / FINE)) for power in powers)
    return (*itertools.takewhile(lambda size: size < most, sizes), most)


def bias_at(each: Estimates, batch: int = BATCH) -> Measured:
    """Return the bias of the entropy with a batch."""
    at = each.batch_sizes.index(batch)
    return two_sigma_interval(each.bias["entropy"][at], each.error["entropy"][at])


def batch_needed(each: Estimates, bias: float = _NEAR) -> Measured:
    """Return the smallest batch size from which on the bias of the entropy is at most `bias`.

    Its interval is that for the bias less and plus two standard errors.
    """
    values, error = np.abs(each.bias["entropy"]), 2 * each.error["entropy"]
    sizes = np.array(each.batch_sizes)

    def first(biases: Values) -> float:
        off = (biases > bias).nonzero()[0]
        return float(sizes[min(off[-1] + 1, len(sizes) - 1)] if len(off) else sizes[0])

    return Measured(first(values), first(values - error), first(values + error))


def claims_of(
    base: Estimates,
    by_dimension: dict[int, Estimates],
    by_size: dict[int, Estimates],
    learned: dict[float, Estimates],
) -> tuple[Claim, ...]:
    """Judge what appendix C states, by estimates for mixtures and for trained models."""
    models = {
        **{f"trained, β = {beta:g}": each for beta, each in learned.items()},
        f"the mixture of {DIMENSION} dimensions": base,
    }
    return (
        _large_claim(learned),
        *(_apart_claim(name, each) for name, each in models.items()),
        *(_negative_claim(name, each) for name, each in models.items()),
        _TEXTS.claim("data_sets", _grows(by_size), batch=BATCH, values=_listed("n", by_size)),
        _TEXTS.claim("dimensions", _grows(by_dimension), contradicted=False, batch=BATCH,
                     values=_listed("D", by_dimension)),
    )  # fmt: skip


def rate_of(each: Estimates) -> float:
    """Return the rate of a model: without overlap, the estimated KL is the rate less log n."""
    return float(each.alone["kl"][-1]) + math.log(each.batch_sizes[-1])


def regulariser_claim(
    learned: dict[float, Estimates], regularised: dict[float, Estimates]
) -> Claim:
    """Judge whether networks trained with the estimate resemble beta-VAEs of the same weight.

    They do if their rate is nearer to that of such a beta-VAE than to that of a VAE. Penalised
    without bias, KL(q(z) || p(z)) would not lower the information.
    """
    vae = rate_of(learned[1.0])
    rates = {beta: (rate_of(each), rate_of(learned[beta])) for beta, each in regularised.items()}
    alike = all(abs(own - beta) < abs(own - vae) for own, beta in rates.values())
    return _TEXTS.claim(
        "regulariser", alike, contradicted=False, batch=BATCH, vae=vae,
        rates="; ".join(
            f"β = {beta:g}: {own:.2f} nats, β-VAE {other:.2f}; KL(q(z) ‖ p(z)) "
            f"{_truth(regularised[beta], 'kl')}, β-VAE {_truth(learned[beta], 'kl')}"
            for beta, (own, other) in rates.items()
        ),
    )  # fmt: skip


def _large_claim(learned: dict[float, Estimates]) -> Claim:
    needed = {beta: (bias_at(each), batch_needed(each)) for beta, each in learned.items()}
    size = next(iter(learned.values())).batch_sizes[-1]
    values = "; ".join(
        f"β = {beta:g}: {bias} nats, and B = {batch:,.0f} for {_NEAR} nats"
        for beta, (bias, batch) in needed.items()
    )
    large = any(bias.low > _FAR and batch.low > _PART * size for bias, batch in needed.values())
    return _TEXTS.claim("large", large, contradicted=False, far=_FAR, batch=BATCH, size=size,
                        near=_NEAR, values=values)  # fmt: skip


def _apart_claim(name: str, each: Estimates) -> Claim:
    """Judge whether the estimate is what it would be if no two encodings of a batch overlapped."""
    bias, alone = bias_at(each), each.alone["entropy"][each.batch_sizes.index(BATCH)]
    truth = _truth(each, "entropy")
    gap = alone - truth.value
    near = each.bias["entropy"] > _APART * gap
    return _TEXTS.claim("apart", bias.low > _APART * gap, contradicted=False, model=name,
                        alone=alone, truth=truth, batch=BATCH, bias=bias, gap=gap,
                        bias_of_two=bias_at(each, 2),
                        upto=f"up to B = {max(np.array(each.batch_sizes)[near]):,}"
                        if near.any() else "for no B")  # fmt: skip


def _negative_claim(name: str, each: Estimates) -> Claim:
    """Judge whether the estimated KL is below 0 on average."""
    at = each.batch_sizes.index(BATCH)
    # No less than the standard error of an expected KL: those of its two terms together.
    error = each.exact_error["kl"] + float(each.error["kl"][at])
    value, alone = two_sigma_interval(each.expected("kl")[at], error), each.alone["kl"][at]
    return _TEXTS.claim("negative", value.high < 0, contradicted=alone <= 0, model=name,
                        batch=BATCH, alone=alone, value=value,
                        truth=_truth(each, "kl"))  # fmt: skip


def _truth(each: Estimates, quantity: Quantity) -> Measured:
    return two_sigma_interval(each.exact[quantity], each.exact_error[quantity])


def _grows(by_key: dict[int, Estimates]) -> bool:
    """Return whether the bias rises from one to the next, with intervals apart."""
    steps = itertools.pairwise(map(bias_at, by_key.values()))
    return all(after.low > before.high for before, after in steps)


def _listed(name: str, by_key: dict[int, Estimates]) -> str:
    return ", ".join(f"{name} = {key:,}: {bias_at(each)}" for key, each in by_key.items())


def _draw_estimates(
    axis: Axes, quantity: Quantity, by_estimator: dict[BatchEstimator, Estimates]
) -> None:
    for colour, dashes, (name, each) in zip(COLOURS, DASHES, by_estimator.items(), strict=False):
        values = each.expected(quantity)
        axis.plot(each.batch_sizes, values, color=colour, linestyle=dashes, label=name)
    first = by_estimator["stratified"]
    alone = float(first.alone[quantity][0])
    axis.axhline(first.exact[quantity], color=INK, linewidth=1.0, label="exact")
    axis.axhline(alone, color=MUTED, linewidth=1.0, linestyle=":", label="no overlap")
    batch_axis(axis, "nats")
