"""Figure 3 of [Esmaeili2019]: models trained without one of the four terms of the ELBO."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, NotRequired, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypedDict

from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.data import Dataset, Pinwheel
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.networks import MLP
from unweave.objectives import LagrangianVAE, Nets
from unweave.studies.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Axes,
    Figure,
    Values,
    panels,
    square_panel,
)
from unweave.studies.forms import Packed
from unweave.studies.images import pack_array, unpack_array
from unweave.studies.intervals import range_interval
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Reproduction, Result, Workspace
from unweave.training.records import Number
from unweave.training.run import Run

DATA = Pinwheel(points_per_cluster=25)
SEEDS = (0, 1, 2, 3)
STEPS, PARTICLES, HIDDEN = 2500, 256, (32, 32)
SCALE = 0.1  # of p(x|z)
LEFT_OUT = {  # the weights of the four terms
    "": (1.0, 1.0, 1.0, 1.0),
    "①": (0.0, 1.0, 1.0, 1.0),
    "②": (1.0, 0.0, 1.0, 1.0),
    "③": (1.0, 1.0, 0.0, 1.0),
    "④": (1.0, 1.0, 1.0, 0.0),
}
_EDGE, _NODES = 6.0, 161  # of the grid over z on which p(x) is integrated
_SAMPLES = 2000
_CLUSTERS = (BLUE, ORANGE, GREEN, PURPLE)
_TEXTS = Texts(__package__, "fig3")


class Terms(NamedTuple):
    """The terms of figure 2 for one model, in nats, and the volume of its encodings."""

    information: float  # I(x; z), which ② subtracts
    mismatch: float  # KL(q(z) || p(z)), which ④ subtracts
    likelihood: float  # E[log p(x)]: ③ up to a constant
    reconstruction: float  # E[log p(x|z)]; ① is this less the likelihood
    volume: float  # E[sum log scale of q(z|x)]: 0 if it is as wide as the prior

    @classmethod
    def of(cls, facts: Numbers) -> Self:
        """Return the terms of a network from its facts."""
        return cls(**{name: facts[name] for name in cls._fields})


def fig3(workspace: Workspace, results: Results) -> Result:
    """Figure 3: what becomes of a model without one of the four terms."""
    facts, count, dataset = results.facts, len(SEEDS), DATA.load(workspace.device)
    every = {name: facts[at * count :][:count] for at, name in enumerate(LEFT_OUT)}
    by_term = {name: [Terms.of(each) for each in some] for name, some in every.items()}
    shown = {name: some[0][PICTURES] for name, some in every.items()}
    rest = [
        each.reconstruction - each.likelihood - each.information - each.mismatch
        for each in by_term["③"]
    ]
    return _TEXTS.result(
        {"": _draw(shown, by_term, dataset)}, claims_of(by_term, math.log(dataset.size)),
        size=dataset.size, hidden=HIDDEN, scale=SCALE, steps=STEPS, particles=PARTICLES,
        samples=_SAMPLES, nodes=_NODES, seed_count=count, first=SEEDS[0],
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}", rest=np.mean(rest),
    )  # fmt: skip


def study() -> Study:
    """Return the study: networks with all four terms, and without one of them, of all seeds."""
    runs = [_run(weights, seed) for weights, seed in itertools.product(LEFT_OUT.values(), SEEDS)]
    return Study(
        "esmaeili2019",
        "terms",
        runs,
        _describe,
        pictured=_shown,
        precision="fp32",
        lanes=400,
        form=_Facts,
    )


class _Pictures(TypedDict):
    encodings: Packed
    draws: Packed


class _Facts(TypedDict):
    """The form of the facts of a network: `Terms`, and pictures of some."""

    information: Number
    mismatch: Number
    likelihood: Number
    reconstruction: Number
    volume: Number
    pictures: NotRequired[_Pictures]


def _describe(model: FittedModel) -> Numbers:
    """Return the terms, and what the figure draws: encodings, and samples of p(x)."""
    q = model.posteriors(model.rows())
    encodings = torch.cat([q.mean, q.stddev], 1)[::2].cpu().numpy()
    centres = model.sample(1000)
    noise = Noise(0, 0, "draws", model.dataset.device).normal(centres.shape, "x").cpu().numpy()
    pictures = {"encodings": pack_array(encodings), "draws": pack_array(centres + SCALE * noise)}
    return {**terms_of(model)._asdict(), PICTURES: pictures}


def _shown(results: Results) -> list[Network]:
    return [network for network in results.networks if network.run.seed == SEEDS[0]]


def _run(weights: tuple[float, float, float, float], seed: int) -> Run:
    return Run(
        data=DATA,
        latent=Gaussian(2),
        network=MLP(hidden=HIDDEN),
        likelihood=GaussianLikelihood(scale=SCALE),
        objective=LagrangianVAE(*weights, particles=PARTICLES, estimator="exact"),
        optimiser=Adam(lr=2e-3),
        batch_size=DATA.clusters * DATA.points_per_cluster,
        steps=STEPS,
        seed=seed,
    )


def terms_of(model: FittedModel) -> Terms:
    """Return the terms of a model over all its data."""
    index = model.rows()
    q = model.posteriors(index)
    summary = model.summarise(q, _SAMPLES)
    x = model.dataset.images(index)
    z = q.rsample(Noise(0, 0, "terms", x.device), (20,))  # (20, N, D)

    def reconstruction(nets: Nets, codes: Tensor) -> Tensor:
        everyone = x.expand(len(codes), *x.shape).flatten(0, 1)
        return nets.model.decode(codes.flatten(0, 1)).log_prob(everyone).mean()

    return Terms(
        summary.mutual_information,
        summary.total_correlation + summary.dimension_kl,
        float(log_likelihoods(model, x).mean()),
        model.trained.alone(0, reconstruction, z).item(),
        q.stddev.log().sum(-1).mean().item(),
    )


def log_likelihoods(model: FittedModel, x: Tensor) -> Values:
    """Return log p(x) of observations (N, *shape), by a sum over a grid of z in two dimensions."""
    line = torch.linspace(-_EDGE, _EDGE, _NODES, device=x.device)
    grid = torch.cartesian_prod(line, line)
    cell = 2 * math.log(float(line[1] - line[0]))

    def integrated(nets: Nets, observations: Tensor) -> Tensor:
        px, weight = nets.model.decode(grid), nets.model.p().log_prob(grid) + cell
        everyone = (one.expand(len(grid), *one.shape) for one in observations)
        return torch.stack([torch.logsumexp(px.log_prob(x) + weight, 0) for x in everyone])

    return model.trained.alone(0, integrated, x).double().cpu().numpy()


def claims_of(by_term: dict[str, list[Terms]], most: float) -> tuple[Claim, ...]:
    """Judge what figure 3 and section 3 say about models without a term; `most` is log N."""
    whole = {name: _over(by_term[""], name) for name in Terms._fields}
    first, second, third, fourth = (
        {name: _over(by_term[term], name) for name in Terms._fields} for term in "①②③④"
    )
    return (
        _TEXTS.claim(
            "prior", max(first["information"].high, first["mismatch"].high) < 0.05,
            contradicted=first["information"].high >= whole["information"].low,
            information=first["information"], mismatch=first["mismatch"],
            whole_information=whole["information"], whole_mismatch=whole["mismatch"],
        ),
        _TEXTS.claim("smaller", second["volume"].high < whole["volume"].low,
                     volume=second["volume"], whole=whole["volume"]),
        _TEXTS.claim("information", second["information"].low > most - 0.1, most=most,
                     contradicted=second["information"].low <= whole["information"].high
                     or second["information"].high > most,
                     information=second["information"], whole=whole["information"]),
        _TEXTS.claim("likelihood", third["likelihood"].high < whole["likelihood"].low - 1,
                     contradicted=third["likelihood"].high >= whole["likelihood"].low,
                     likelihood=third["likelihood"], whole=whole["likelihood"]),
        _TEXTS.claim("mismatch", fourth["mismatch"].low > whole["mismatch"].high + 0.5,
                     contradicted=fourth["mismatch"].low <= whole["mismatch"].high,
                     mismatch=fourth["mismatch"], whole=whole["mismatch"]),
        _TEXTS.claim("ignores", likelihood=first["likelihood"], whole=whole["likelihood"]),
    )  # fmt: skip


def _over(terms: Sequence[Terms], name: str) -> Measured:
    return range_interval([getattr(each, name) for each in terms])


def _draw(shown: dict[str, Numbers], by_term: dict[str, list[Terms]], dataset: Dataset) -> Figure:
    figure, axes = panels(2, len(shown), width=2.0, height=2.15)
    index = torch.arange(dataset.size, device=dataset.device)
    label, x = dataset.factors(index)[:, 0].cpu().numpy(), dataset.images(index).cpu().numpy()
    for column, (name, pictures) in enumerate(shown.items()):
        codes, points = axes[column], axes[column + len(shown)]
        _draw_codes(codes, unpack_array(pictures["encodings"], -1, 4), label[::2])
        _draw_points(points, unpack_array(pictures["draws"], -1, 2), x, label)
        title = f"{'ABCD'[column - 1]}  without {name}" if name else "    all terms"
        codes.set_title(title)
        terms = {key: _over(by_term[name], key).value for key in Terms._fields}
        information, mismatch = (abs(round(terms[key], 2)) for key in ("information", "mismatch"))
        codes.set_xlabel(f"I = {information:.2f}, KL = {mismatch:.2f}")  # without -0.00
        points.set_xlabel(f"E[log p(x)] = {terms['likelihood']:.2f}")
    axes[0].set_ylabel("z")
    axes[len(shown)].set_ylabel("x")
    return figure


def _draw_codes(axis: Axes, encodings: Values, label: NDArray[np.int64]) -> None:
    from matplotlib.collections import EllipseCollection
    from matplotlib.patches import Circle

    for radius in (1, 2):
        axis.add_patch(Circle((0, 0), radius, fill=False, color=INK, linewidth=0.8,
                              linestyle=(0, (4, 3))))  # fmt: skip
    mean, spread = np.split(encodings, 2, axis=1)
    colours = [_CLUSTERS[each % len(_CLUSTERS)] for each in label]
    axis.add_collection(
        EllipseCollection(
            2 * spread[:, 0], 2 * spread[:, 1], np.zeros(len(mean)), units="xy", offsets=mean,
            offset_transform=axis.transData, facecolors="none", edgecolors=colours, linewidths=0.8,
            alpha=0.8,
        )
    )  # fmt: skip
    square_panel(axis, max(3.0, 1.05 * float((np.abs(mean) + spread).max())), 2)


def _draw_points(
    axis: Axes, samples: Values, x: NDArray[np.float32], label: NDArray[np.int64]
) -> None:
    axis.plot(*samples.T, ".", color=MUTED, markersize=1.5, alpha=0.5, rasterized=True)
    for cluster in np.unique(label):
        own = x[label == cluster]
        axis.plot(*own.T, "o", color=_CLUSTERS[cluster % len(_CLUSTERS)], markersize=2.5)
    square_panel(axis, 2.2, 2)


_TITLE = "Figure 3: what each term of the objective is for"
FIGURES = (Reproduction("esmaeili2019", "fig3", _TITLE, "seven minutes", fig3, study=study()),)
