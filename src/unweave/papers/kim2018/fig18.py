"""Figure 18 of [Kim2018]: the total correlation with a batch in place of the dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unweave.aggregate import batch_total_correlation, exact, log_aggregate, total_correlation
from unweave.core.noise import Noise
from unweave.evaluation.model import FittedModel
from unweave.latents import Distribution, Latent, rows
from unweave.studies.drawing import BLUE, INK, ORANGE, Values, panels
from unweave.studies.intervals import range_interval, two_sigma_interval
from unweave.studies.study import Incomplete, Results
from unweave.studies.workspace import Claim, Measured, Numbers, Result, judged
from unweave.theory import encodings_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH, BATCHES, DRAWS = 10_000, 20, 500
BETAS = 4  # of the study, with one network each
FACT = "draws"  # where a network's facts have them


class Draws(NamedTuple):
    """Log-densities at draws of q(z), with a batch in place of the dataset."""

    joint: Values  # log q(z) by the first batch, (H,)
    marginals: Values  # sum_j log q(z_j) by the first batch, (H,)
    estimates: Values  # of the total correlation by each batch
    spreads: Values  # standard deviations of both log-densities over draws, (batches, 2)
    truth: Measured  # with all of q(z)


def drawn(results: Results) -> Result:
    """Draw the figure from the beta-VAEs whose log-densities were kept, one for each beta."""
    found = {
        beta: _read(network.facts[FACT])
        for beta, networks in results.of("beta-vae").items()
        for network in networks
        if FACT in network.facts
    }
    if not found:
        raise Incomplete("no β-VAE with seed 0 is trained yet")
    return Result(
        drawings={"": _histograms(found)},
        captions={
            "": "Log-densities at draws of q(z), with a batch in place of the dataset: the joint "
            "density above, the product of the marginals below, all on the same axis. Dashed: "
            "their means. The titles have the estimate of TC from this batch, and the true one."
        },
        claims=claims_of(found),
        setting=(
            f"One β-VAE for each β of the study of figure 4 that is trained so far: batches of "
            f"{BATCH:,} of the 737,280 observations, as in the paper, and {DRAWS:,} draws. The "
            f"paper shows β = 1, 5 and 9. Brackets are the range over {BATCHES} batches; those of "
            "the true TC, with all observations, are two standard errors of the mean over draws."
        ),
        seeds="0 (networks, batches and draws)",
        networks=(len(found), BETAS),
    )


def _read(numbers: Numbers) -> Draws:
    """The log-densities from their JSON form."""
    arrays = {name: np.array(numbers[name]) for name in Draws._fields if name != "truth"}
    return Draws(**arrays, truth=Measured(*numbers["truth"]))


def claims_of(found: Mapping[float, Draws]) -> tuple[Claim, ...]:
    """What appendix D says about batches, for networks by their beta."""

    def each(text: Callable[[Draws], object]) -> str:
        return "; ".join(f"β = {beta:g}: {text(draws)}" for beta, draws in found.items())

    return (
        judged(
            "We get negative values for the estimate of TC, which is a KL divergence, even with B "
            "as big as 10,000",
            "app. D, fig. 18",
            "below 0 for every batch",
            each(
                lambda draws: f"{range_interval(draws.estimates)}, with all of q(z) {draws.truth}"
            ),
            max(draws.estimates.max() for draws in found.values()) < 0,
        ),
        judged(
            "log q(z) becomes very small, and log prod q(z_j) gives much more stable values",
            "app. D, fig. 18",
            "standard deviations over draws are larger for the joint, with every β and batch (the "
            "paper says no measure, nor how much)",
            each(
                lambda draws: (
                    f"{range_interval(draws.spreads[:, 0])} and "
                    f"{range_interval(draws.spreads[:, 1])}, "
                    f"{(draws.spreads[:, 0] / draws.spreads[:, 1]).mean():.1f} times"
                )
            ),
            all((draws.spreads[:, 0] > draws.spreads[:, 1]).all() for draws in found.values()),
        ),
        Claim(
            "log q(z) becomes very small for latent dimension d ≥ 2 during training",
            "app. D",
            "not so for one latent",
            "not measured",
            "not comparable",
            "All networks here have ten latents, and are looked at when they are trained.",
        ),
        Claim(
            "This seemed to give a similar trade-off to β-VAE, and in [Chen2018] disentangling is "
            "improved by it",
            "app. D",
            "a trade-off of reconstruction and disentangling",
            "not measured",
            "not comparable",
            "It needs training with that estimate, which this figure does not do.",
        ),
    )


def draws_of(model: FittedModel) -> Numbers:
    """Log-densities at draws of q(z) with batches in place of the dataset, as JSON holds them."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in _draws(model)._asdict().items()
    }


def _draws(model: FittedModel) -> Draws:
    latent, q, _ = encodings = encodings_of(model)
    noise = Noise(0, 0, "appendix d", q.mean.device)
    z = rows(q, noise.integers(encodings.size, (DRAWS,), "rows")).rsample(noise)
    tables = []
    for number in range(BATCHES):
        own = noise.fold(f"batch {number}")
        chosen = own.permutation(encodings.size, "batch")
        batch = rows(q, chosen[:BATCH])
        tables.append(batch.log_marginals(z[:, None]))
    joint = torch.stack([exact(table.sum(-1)) for table in tables]).cpu().numpy()
    marginals = torch.stack([exact(table).sum(-1) for table in tables]).cpu().numpy()
    return Draws(
        joint[0],
        marginals[0],
        np.array([batch_total_correlation(table).item() for table in tables]),
        np.stack([joint.std(1), marginals.std(1)], 1),
        _correlation(latent, q, z),
    )


def _correlation(latent: Latent, q: Distribution, z: Tensor) -> Measured:
    """The total correlation of a mixture of all encodings that are given, by draws."""
    nodes = log_aggregate(latent, q, z)
    values = total_correlation(nodes[:, 0], nodes[:, 1:])
    return two_sigma_interval(values.mean().item(), values.std().item() / math.sqrt(len(z)))


def _histograms(found: Mapping[float, Draws]) -> Figure:
    figure, axes = panels(2, len(found), width=3.1, height=2.2)
    every = np.concatenate([[*each.joint, *each.marginals] for each in found.values()])
    bins = np.linspace(every.min(), every.max(), 100).tolist()
    for column, (beta, each) in enumerate(found.items()):
        for axis, values, colour in (
            (axes[column], each.joint, BLUE),
            (axes[column + len(found)], each.marginals, ORANGE),
        ):
            axis.hist(values, bins=bins, color=colour, alpha=0.8)
            axis.axvline(float(values.mean()), color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            axis.set_ylabel("draws" if column == 0 else "")
        estimate, truth = each.estimates[0], each.truth.value
        axes[column].set_title(f"β = {beta:g}: TC {estimate:.1f}, true {truth:.2f}")
        axes[column].set_xlabel("log q(z) by a batch")
        axes[column + len(found)].set_xlabel("Σ log q(zⱼ) by a batch")
    return figure
