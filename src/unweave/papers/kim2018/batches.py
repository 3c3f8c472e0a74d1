"""Figure 18 of [Kim2018]: the total correlation with a batch in place of the dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import TypedDict

from unweave.aggregate import batch_total_correlation, exact, log_aggregate, total_correlation
from unweave.core.noise import Noise
from unweave.evaluation.model import FittedModel
from unweave.latents import Distribution, Latent, rows
from unweave.studies.drawing import BLUE, INK, ORANGE, Figure, Values, panels
from unweave.studies.intervals import range_interval, two_sigma_interval
from unweave.studies.study import NotTrained, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.theory import encodings_of
from unweave.training.records import Matrix, Number

BATCH, BATCHES, DRAWS = 10_000, 20, 500
BETAS = 4  # of the study, with one network each
FACT = "draws"  # the key of these numbers in a network's facts
_TEXTS = Texts(__package__, "fig18")


class Draws(NamedTuple):
    """Log-densities at samples of q(z), with a batch in place of the dataset."""

    joint: Values  # log q(z) by the first batch, (H,)
    marginals: Values  # sum_j log q(z_j) by the first batch, (H,)
    estimates: Values  # of the total correlation by each batch
    spreads: Values  # standard deviations of both log-densities over samples, (batches, 2)
    truth: Measured  # with all of q(z)


class DrawsFacts(TypedDict):
    """The form of what `draws_of` returns."""

    joint: list[Number]
    marginals: list[Number]
    estimates: list[Number]
    spreads: Matrix
    truth: Annotated[list[Number], Field(min_length=3, max_length=3)]


def fig18(workspace: Workspace, results: Results) -> Result:
    """Figure 18, from the beta-VAEs whose log-densities were kept, one for each beta."""
    used = [network for network in results.networks if FACT in network.facts]
    if not used:
        raise NotTrained("no β-VAE with seed 0 is trained yet")
    draws = {float(network.run.weights["beta"]): _read(network.facts[FACT]) for network in used}
    draws = dict(sorted(draws.items()))
    return _TEXTS.result({"": _histograms(draws)}, claims_of(draws), networks=(len(draws), BETAS),
                         used=used, batch=BATCH, draws=DRAWS, batches=BATCHES)  # fmt: skip


def _read(numbers: Numbers) -> Draws:
    arrays = {name: np.array(numbers[name]) for name in Draws._fields if name != "truth"}
    return Draws(**arrays, truth=Measured(*numbers["truth"]))


def claims_of(draws: Mapping[float, Draws]) -> tuple[Claim, ...]:
    """Judge what appendix D says about batches, for networks by their beta."""

    def each(text: Callable[[Draws], object]) -> str:
        return "; ".join(f"β = {beta:g}: {text(one)}" for beta, one in draws.items())

    def stddevs(one: Draws) -> str:
        joint, marginals = one.spreads.T
        ratio = (joint / marginals).mean()
        return f"{range_interval(joint)} and {range_interval(marginals)}, {ratio:.1f} times"

    estimates = each(lambda one: f"{range_interval(one.estimates)}, with all of q(z) {one.truth}")
    return (
        _TEXTS.claim("negative", all((one.estimates < 0).all() for one in draws.values()),
                     estimates=estimates),
        _TEXTS.claim("stable", all((one.spreads[:, 0] > one.spreads[:, 1]).all()
                                   for one in draws.values()), stddevs=each(stddevs)),
        _TEXTS.claim("dimension"),
        _TEXTS.claim("trade_off"),
    )  # fmt: skip


def draws_of(model: FittedModel) -> Numbers:
    """Compute log-densities at samples of q(z), with batches in place of the dataset, for JSON."""
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
    draws = Draws(
        joint[0],
        marginals[0],
        np.array([batch_total_correlation(table).item() for table in tables]),
        np.stack([joint.std(1), marginals.std(1)], 1),
        _true_correlation(latent, q, z),
    )
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in draws._asdict().items()
    }


def _true_correlation(latent: Latent, q: Distribution, z: Tensor) -> Measured:
    """Estimate the total correlation of the mixture of all encodings, at samples z."""
    nodes = log_aggregate(latent, q, z)
    values = total_correlation(nodes[:, 0], nodes[:, 1:])
    return two_sigma_interval(values.mean().item(), values.std().item() / math.sqrt(len(z)))


def _histograms(draws: Mapping[float, Draws]) -> Figure:
    figure, axes = panels(2, len(draws), width=2.3, height=2.0)
    marginals = np.histogram_bin_edges(np.concatenate([d.marginals for d in draws.values()]), 79)
    for column, (beta, each) in enumerate(draws.items()):
        top, bottom = axes[column], axes[column + len(draws)]
        for axis, values, bins, colour in (
            (top, each.joint, 79, BLUE),
            (bottom, each.marginals, marginals.tolist(), ORANGE),
        ):
            axis.hist(values, bins=bins, color=colour, alpha=0.8)
            axis.axvline(float(values.mean()), color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            axis.set_ylabel("samples" if column == 0 else "")
        estimate, truth = each.estimates[0], each.truth.value
        top.set_title(f"β = {beta:g}\nTC {estimate:.1f}, true {truth:.2f}")
        top.set_xlabel("log q(z) by a batch")
        bottom.set_xlabel("Σ log q(zⱼ) by a batch")
    return figure
