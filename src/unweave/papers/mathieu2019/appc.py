"""[Mathieu2019] app. C: the bias of estimates of KL(q(z) || p(z)) from a batch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from unweave.core.optimisers import Adam
from unweave.data import Shapes2D
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian
from unweave.likelihoods import Bernoulli
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.studies.drawing import (
    COLOURS,
    DASHES,
    INK,
    MUTED,
    Values,
    batch_axis,
    draw_bias,
    lettered,
    panels,
)
from unweave.studies.intervals import two_sigma_interval
from unweave.studies.study import Study, results_of
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace, judged
from unweave.theory import Encodings, Estimates, constructed, encodings_of, expected
from unweave.theory.bias import BatchEstimator, Quantity
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE, DIMENSION, SCALE, BATCH, DRAWS = 10_000, 3, 0.1, 64, 2000
DIMENSIONS = (1, 2, 3, 4, 6, 8)
SCALES = (0.5, 0.3, 0.1, 0.03)
DATA_SETS = (100, 300, 1000, 3000, 10_000)
BETAS = (1.0, 5.0, 9.0)
SPRITES, STEPS = Shapes2D(side=32, positions=16, orientations=4), 6000
FINE = 4  # batch sizes within a factor of 2
_NEAR, _FAR, _PART = 0.1, 0.5, 0.1  # nats of bias to ask for, and that are many; of the data
_BY_BATCH = ("bias", "error", "alone", "alone_error")  # arrays over batch sizes
_ESTIMATORS: tuple[BatchEstimator, ...] = ("stratified", "weighted", "batch")


def appendix_c(workspace: Workspace) -> Result:
    """Appendix C: how far estimates of H[q(z)] and KL(q(z) || p(z)) from a batch are off."""
    base = constructed(SIZE, DIMENSION, SCALE)
    names, dimensions = (
        workspace.each("estimators", _ESTIMATORS),
        workspace.each("dimensions", DIMENSIONS),
    )
    scales, sizes = workspace.each("scales", SCALES), workspace.each("sizes", DATA_SETS)
    by_estimator = {name: expected(base, name, _batch_sizes(SIZE), DRAWS) for name in names}
    by_dimension = {d: _stratified(constructed(SIZE, d, SCALE)) for d in dimensions}
    by_scale = {s: _stratified(constructed(SIZE, DIMENSION, s)) for s in scales}
    by_size = {n: _stratified(constructed(n, DIMENSION, SCALE)) for n in sizes}
    facts = results_of(workspace, study()).facts
    learned = {beta: estimates(each) for beta, each in zip(BETAS, facts, strict=True)}
    figure, axes = panels(2, 3, width=3.2)
    lettered(axes, ("Entropy", "KL", "Bias by dimension", "Bias by overlap",
                    "Bias by size of the data set", "Bias of trained models"))  # fmt: skip
    _draw_estimates(axes[0], "entropy", by_estimator)
    _draw_estimates(axes[1], "kl", by_estimator)
    axes[1].set_ylim(top=9.0)
    axes[1].legend(loc="upper right", fontsize=7, ncols=2, handlelength=2.4, columnspacing=1.2)
    draw_bias(axes[2], {f"D = {d}": each for d, each in by_dimension.items()})
    draw_bias(axes[3], {f"scale {s}": each for s, each in by_scale.items()})
    draw_bias(axes[4], {f"n = {n:,}": each for n, each in by_size.items()})
    draw_bias(axes[5], {f"β = {beta:g}": each for beta, each in learned.items()})
    size: int = facts[0]["observations"]
    return Result(
        drawings={"": figure},
        captions={
            "": "Expected estimates by the size of the batch. A, B: all estimators on one mixture; "
            "dotted, log n + E[H[q(z|x)]] and the rate less log n; black, the values with all of "
            "q(z). C to F: by how much the stratified estimator (eq. 10) is above the entropy; "
            "bands are two standard errors to either side."
        },
        claims=claims_of(by_estimator["stratified"], by_dimension, by_size, learned),
        setting=(
            f"Constructed mixtures of n = {SIZE:,} encodings N(m, {SCALE}² I) in {DIMENSION} "
            "dimensions whose q(z) is about N(0, I), where nothing else is said; the paper gives "
            f"the argument and no figure. Expected values are over {DRAWS:,} draws and batches, "
            "with all of q(z) at the same draws (`unweave.theory.expected`). Brackets are two "
            "standard errors of that mean to either side; those of a size of the batch are the "
            "sizes at which the ends of the bias' own bracket are within bounds. "
            f"Trained: β-VAEs with ten latents on {size:,} sprites of 32 x 32 pixels, an MLP of "
            f"256-256, {STEPS:,} steps of 64, one network for each β."
        ),
        seeds="0 (mixtures, draws and networks)",
        noticed=(
            "What to do about it: `unweave.theory.batch_size_for` gives the batch that a bias "
            "needs, for a model that is trained. The weighted estimator is off by log B more where "
            "no two encodings overlap, and by log n with the whole data set in the batch."
        ),
    )


def study() -> Study:
    """Small beta-VAEs on sprites, one for each beta, with the estimates for their encodings."""
    runs = [
        Run(
            data=SPRITES,
            latent=Gaussian(10),
            network=MLP(hidden=(256, 256)),
            likelihood=Bernoulli(),
            objective=BetaVAE(beta=beta),
            optimiser=Adam(lr=1e-3),
            steps=STEPS,
        )
        for beta in BETAS
    ]
    return Study("mathieu2019", "sprites", runs, _describe, precision="fp32")


def _describe(model: FittedModel) -> Numbers:
    found = _stratified(encodings_of(model))
    by_batch = {
        name: {quantity: values.tolist() for quantity, values in getattr(found, name).items()}
        for name in _BY_BATCH
    }
    return {
        "observations": model.dataset.size,
        "batch_sizes": found.batch_sizes,
        "exact": found.exact,
        "exact_error": found.exact_error,
        **by_batch,
    }


def estimates(facts: Numbers) -> Estimates:
    """The estimates by the stratified estimator for the encodings of a network, from its facts."""
    by_batch = {
        name: {quantity: np.array(values) for quantity, values in facts[name].items()}
        for name in _BY_BATCH
    }
    sizes = tuple(facts["batch_sizes"])
    return Estimates("stratified", sizes, facts["exact"], facts["exact_error"], **by_batch)


def _stratified(encodings: Encodings) -> Estimates:
    """Expected estimates by the stratified estimator, eq. 10, for all batch sizes."""
    return expected(encodings, "stratified", _batch_sizes(encodings.size), DRAWS)


def _batch_sizes(most: int) -> tuple[int, ...]:
    """Batch sizes from 2 on, evenly along a logarithmic axis, and the whole dataset."""
    powers = range(FINE, FINE * 64)
    sizes = dict.fromkeys(round(2 ** (power / FINE)) for power in powers)
    return (*itertools.takewhile(lambda size: size < most, sizes), most)


def bias_at(each: Estimates, batch: int = BATCH) -> Measured:
    """The bias of the entropy with a batch."""
    at = each.batch_sizes.index(batch)
    return two_sigma_interval(each.bias["entropy"][at], each.error["entropy"][at])


def batch_needed(each: Estimates, bias: float = _NEAR) -> Measured:
    """The smallest batch, of those estimated, from which on the entropy is off by `bias` at most.

    Its interval is by the bias less and plus two standard errors.
    """
    found, error = np.abs(each.bias["entropy"]), 2 * each.error["entropy"]
    sizes = np.array(each.batch_sizes)

    def first(values: Values) -> float:
        off = (values > bias).nonzero()[0]
        return float(sizes[min(off[-1] + 1, len(sizes) - 1)] if len(off) else sizes[0])

    return Measured(first(found), first(found - error), first(found + error))


def claims_of(
    base: Estimates,
    by_dimension: dict[int, Estimates],
    by_size: dict[int, Estimates],
    learned: dict[float, Estimates],
) -> tuple[Claim, ...]:
    """What appendix C states, of estimates for a mixture, for others, and for trained models."""
    named = {
        **{f"trained, β = {beta:g}": each for beta, each in learned.items()},
        f"the mixture of {DIMENSION} dimensions": base,
    }
    return (
        _large(learned),
        *(_apart(name, each) for name, each in named.items()),
        *(_negative(name, each) for name, each in named.items()),
        judged(
            "The problem is potentially exacerbated in larger data sets",
            "app. C, end",
            f"the bias at B = {BATCH} grows with n at every step",
            _listed("n", by_size),
            _grows(by_size),
        ),
        judged(
            "The problem is potentially exacerbated in higher dimensional latent spaces",
            "app. C, end",
            f"the bias at B = {BATCH} grows with D at every step (our reading of a statement with "
            "“potentially”)",
            _listed("D", by_dimension),
            _grows(by_dimension),
            "It grows as long as encodings overlap in the data set as a whole. Where they do not, "
            "q(z) itself is a mixture of parts that never meet, its entropy is log n + "
            "E[H[q(z|x)]], and the estimate is right.",
            decisive=False,
        ),
    )


def _large(learned: dict[float, Estimates]) -> Claim:
    found = {beta: (bias_at(each), batch_needed(each)) for beta, each in learned.items()}
    size = next(iter(learned.values())).batch_sizes[-1]
    return judged(
        "The approaches can exhibit very large biases unless very large batch sizes are used",
        "app. C",
        f"for one of the networks, more than {_FAR} nats at B = {BATCH}, and more than a tenth of "
        f"the {size:,} observations for {_NEAR} nats (our bounds)",
        "; ".join(
            f"β = {beta:g}: {bias} nats, and B = {batch.value:,.0f} [{batch.low:,.0f}, "
            f"{batch.high:,.0f}] for {_NEAR} nats"
            for beta, (bias, batch) in found.items()
        ),
        any(bias.low > _FAR and batch.low > _PART * size for bias, batch in found.values()),
        decisive=False,
    )


def _apart(name: str, each: Estimates) -> Claim:
    """Whether the estimate is where no two encodings of a batch overlap."""
    bias, at = bias_at(each), each.batch_sizes.index(BATCH)
    alone, truth = each.alone["entropy"][at], _truth(each, "entropy")
    return judged(
        f"E[Ĥ] ≈ log n + E[H[q(z|x)]] for B ≪ n, and so KL ≈ rate - log n: {name}",
        "app. C, last two equations",
        f"{alone:.2f}, where the entropy is {truth}; at B = {BATCH} off by four fifths of what "
        "lies between them, or more (our bound)",
        f"off by {bias} of {alone - truth.value:.2f}, and by {bias_at(each, 2)} at B = 2",
        bias.low > 0.8 * (alone - truth.value),
        "The argument assumes that encodings in a batch rarely overlap. In the smallest batches "
        "this holds, and so does the equation; in this one encodings do overlap, and the estimate "
        "is closer to the true value. How small B must be is not said.",
        decisive=False,
    )


def _negative(name: str, each: Estimates) -> Claim:
    """Whether the KL is estimated below 0, on average."""
    at, truth = each.batch_sizes.index(BATCH), _truth(each, "kl")
    value, alone = (
        two_sigma_interval(each.expected("kl")[at], _error(each, at)),
        each.alone["kl"][at],
    )
    return judged(
        "It is possible, even likely, that negative estimates for the KL will be generated: "
        f"{name}",
        "app. C, after the last equation",
        f"below 0 at B = {BATCH} on average; rate - log n = {alone:.2f}",
        f"{value}, where the KL is {truth}",
        value.high < 0,
        "The rate of this network is above log n, so the paper's own equation also puts the "
        "estimate above 0; the paper says “likely”, not “always”."
        if alone > 0
        else "",
        decisive=alone <= 0,
    )


def _truth(each: Estimates, quantity: Quantity) -> Measured:
    return two_sigma_interval(each.exact[quantity], each.exact_error[quantity])


def _error(each: Estimates, at: int) -> float:
    """No less than the standard error of an expected KL: both of its parts' together."""
    return each.exact_error["kl"] + float(each.error["kl"][at])


def _grows(found: dict[int, Estimates]) -> bool:
    """Whether the bias rises from one to the next, with intervals apart."""
    steps = itertools.pairwise(map(bias_at, found.values()))
    return all(after.low > before.high for before, after in steps)


def _listed(name: str, found: dict[int, Estimates]) -> str:
    return ", ".join(f"{name} = {key:,}: {bias_at(each)}" for key, each in found.items())


def _draw_estimates(axis: Axes, quantity: Quantity, found: dict[BatchEstimator, Estimates]) -> None:
    for colour, dashes, (name, each) in zip(COLOURS, DASHES, found.items(), strict=False):
        values = each.expected(quantity)
        axis.plot(each.batch_sizes, values, color=colour, linestyle=dashes, label=name)
    first = found["stratified"]
    alone = float(first.alone[quantity][0])
    axis.axhline(first.exact[quantity], color=INK, linewidth=1.0, label="exact")
    axis.axhline(alone, color=MUTED, linewidth=1.0, linestyle=":", label="no overlap")
    batch_axis(axis, "nats")
