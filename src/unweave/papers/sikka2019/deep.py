"""Figures 2 and 3 of [Sikka2019]: many deep beta-VAEs over beta, their terms and claims."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, NotRequired

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor
from typing_extensions import TypedDict

from unweave.core.noise import Noise
from unweave.data import Dataset, Mixing, MovingDigit
from unweave.evaluation.model import FittedModel
from unweave.networks import MLP
from unweave.objectives import BetaVAE, Nets
from unweave.objectives.importance import particle_bound
from unweave.presets.sikka2019 import BATCH, deep
from unweave.studies.drawing import BLUE, INK, MUTED, PURPLE, SKY, Axes, Values
from unweave.studies.forms import Packed
from unweave.studies.intervals import RESAMPLES, resampled_interval, two_sigma_interval
from unweave.studies.study import Network, NotTrained, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers
from unweave.theory import match_latents
from unweave.training.records import Number
from unweave.training.run import Run

SAMPLES = 1000  # of q(z|x) for each observation, as in app. C
TERMS = {
    "elbo": "ELBO",
    "tie": "True inference error",
    "reconstruction": "Reconstruction objective",
    "rate": "Conditional independence loss",
    "mie": "Model inference error, at least",
}
_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}  # numbers that decoders return at once
_RISE = 0.1  # nats: less is the noise of samples
_AROUND = 0.5, 2.0  # beta that count as around 1; ours
_TEXTS = Texts(__package__, "deep")
BRACKETS = (
    "Brackets after a β are 95 % bootstrap intervals over initialisations, those after a rise two "
    "standard errors over initialisations to either side."
)


class Truth(NamedTuple):
    """The sources of observations: A (N, k), and A s + eta of each observation, (n, N)."""

    loadings: Values
    seen: Values


class Errors(NamedTuple):
    """True inference errors by the order and signs of latents: the best, their own, any.

    `shuffled` is the mean over all orders and signs. It is the expectation of `printed` over
    initialisations, because no order and no sign of the latents is likelier than another.
    """

    aligned: float
    printed: float
    shuffled: float


def inference_errors(mean: Values, variance: Values, truth: Truth) -> Errors:
    """Return the true inference errors of q(z|x) with mean and variance (n, k), in nats.

    The mean over x of KL(q(P z|x) || p(s|x)) for the best signed permutation P of the latents,
    without one, as in eq. 25 and 27, and for the average one; `unweave.theory.matching` has the
    formula.

    >>> a, x = np.eye(3, 2), np.ones((1, 3))
    >>> inference_errors(np.array([[0.5, -0.5]]), np.full((1, 2), 0.5), Truth(a, x))
    Errors(aligned=0.0, printed=1.0, shuffled=1.0)
    """
    a, x = truth
    size, latents = mean.shape
    precision = a.T @ a + np.eye(latents)
    pulled = x @ a  # A^T x of each, (n, k)
    second = mean.T @ mean / size + np.diag(variance.mean(0))
    cross = mean.T @ pulled / size  # (latent, source)
    known = np.sum(pulled * np.linalg.solve(precision, pulled.T).T) / size
    spread = np.log(variance).sum(1).mean() + np.linalg.slogdet(precision)[1] + latents
    rest = 0.5 * (known - spread)
    matched = match_latents(precision, second, cross).cost
    as_is = 0.5 * np.sum(precision * second) - np.trace(cross)
    average = 0.5 * np.trace(precision) * np.trace(second) / latents
    return Errors(*(float(each + rest) for each in (matched, as_is, average)))


class DeepTerms(TypedDict):
    """The form of what `terms_of` returns, as far as figures use it."""

    elbo: Number
    tie: Number
    reconstruction: Number
    rate: Number
    mie: Number
    printed: Number


class SeenAndFresh(DeepTerms):
    """The form of the facts of a network: those of `seen_and_fresh`, and a picture."""

    fresh: DeepTerms
    samples: PositiveInt
    pictures: NotRequired[Packed]


@dataclass(frozen=True)
class Sweep:
    """Networks of appendix C on data, for weights and seeds."""

    data: Mixing | MovingDigit
    latents: int
    betas: tuple[float, ...]
    seeds: tuple[int, ...]
    epochs: int = 1000
    hidden: tuple[int, ...] = (256, 200, 200)

    @property
    def runs(self) -> list[Run]:
        """All weights with the first hundred seeds, then with the next, and so on."""
        network = MLP(hidden=self.hidden, activation="tanh")
        base = replace(deep(self.data, self.latents), network=network, steps=self.steps)
        objectives = [BetaVAE(beta=beta) for beta in self.betas]
        return [
            replace(base, objective=objective, seed=seed)
            for first in range(0, len(self.seeds), 100)
            for objective, seed in itertools.product(objectives, self.seeds[first : first + 100])
        ]

    @property
    def steps(self) -> int:
        """The steps of each network."""
        return self.epochs * self.data.observations // BATCH

    def study(
        self,
        name: str,
        describe: Callable[[FittedModel], Numbers],
        pictured: Callable[[Results], Sequence[Network]],
        form: type[SeenAndFresh],
    ) -> Study:
        """Return the study of these networks."""
        return Study("sikka2019", name, self.runs, describe, pictured=pictured, precision="fp32",
                     gpu_lanes=400, form=form)  # fmt: skip

    def trained(self, results: Results) -> list[Network]:
        """Return the networks of seeds that are trained for every weight, weight by weight."""
        there = {(n.run.weights["beta"], n.run.seed): n for n in results.healthy_networks}
        seeds = [s for s in self.seeds if all((beta, s) in there for beta in self.betas)]
        if not seeds:
            raise NotTrained("no seed is trained for all β yet: run the same command again")
        return [there[beta, seed] for beta in self.betas for seed in seeds]

    def texts(self, numbers: Numbers) -> dict[str, Any]:
        """Return what the texts of a figure say about the setting."""
        return {
            "observations": self.data.observations,
            "epochs": self.epochs,
            "betas": len(self.betas),
            "seed_count": len(numbers["seeds"]),
            "network_count": len(numbers["elbo"]),
            "batch": BATCH,
            "samples": samples_text(numbers),
            "brackets": BRACKETS,
            "seeds": f"{numbers['seeds'][0]} to {numbers['seeds'][-1]}",
        }


def seen_and_fresh(model: FittedModel, samples: int) -> Numbers:
    """Return the terms of a model on the data of training, and under "fresh" on fresh data."""
    data, device = model.run.data, model.dataset.device
    assert isinstance(data, Mixing | MovingDigit)
    return {
        **terms_of(model, *observed(data, device), samples),
        "fresh": terms_of(model, *observed(replace(data, seed=1), device), samples),
        "samples": samples,
    }


@lru_cache(4)
def observed(data: Mixing | MovingDigit, device: torch.device) -> tuple[Dataset, Truth]:
    """Return a dataset and its sources; the position of a moving digit says all about them."""
    dataset = data.load(device)
    if isinstance(data, MovingDigit):
        return dataset, Truth(data.loadings().numpy(), data.places().double().numpy())
    x = dataset.images(torch.arange(dataset.size, device=device)).flatten(1)
    return dataset, Truth(data.loadings().numpy(), x.double().cpu().numpy())


def terms_of(model: FittedModel, dataset: Dataset, truth: Truth, samples: int) -> Numbers:
    """Return the terms of a model, means over the observations of a dataset, in nats.

    The reconstruction uses `samples` of q(z|x) for each observation; the rate and the true
    inference error are exact. The model inference error is log p(x) - ELBO, eq. 16, with the
    importance-weighted bound on the same samples for log p(x), so it is a lower bound.
    """
    q, values = _passes(model, dataset, samples)
    mean, stddev = np.split(q, 2, axis=1)
    errors = inference_errors(mean, np.square(stddev), truth)
    bound, reconstruction, rate = values.mean(0).tolist()
    elbo = reconstruction - rate
    return {
        "elbo": elbo,
        "tie": errors.aligned,
        "reconstruction": reconstruction,
        "rate": rate,
        "mie": bound - elbo,
        "printed": errors.printed,
        "shuffled": errors.shuffled,
    }


def _passes(model: FittedModel, dataset: Dataset, samples: int) -> tuple[Values, Values]:
    """Return means and scales (n, 2 k) of q(z|x), and bound, reconstruction and rate, (n, 3)."""
    size = max(
        1,
        _AT_ONCE.get(dataset.device.type, _AT_ONCE["cuda"])
        // (samples * int(np.prod(dataset.shape))),
    )
    parts = []
    for number, index in enumerate(torch.arange(dataset.size, device=dataset.device).split(size)):
        noise = Noise(0, number, "terms", dataset.device)

        def terms(nets: Nets, x: Tensor, noise: Noise = noise) -> Tensor:
            model = nets.model
            q = model.encode(x)
            bound, distortion, _ = particle_bound(model, q, x, noise, samples)
            rate = model.latent.rate(q, model.p(), q.mean)
            values = torch.stack([bound, -distortion, rate], -1)
            return torch.cat([q.mean, q.stddev, values], -1)

        parts.append(model.trained.alone(0, terms, dataset.images(index)).double().cpu().numpy())
    every = np.concatenate(parts)
    return every[:, :-3], every[:, -3:]


def gather(betas: Sequence[float], networks: Sequence[Network]) -> Numbers:
    """Gather the terms of networks, weight by weight, from the facts of `seen_and_fresh`."""
    facts = [network.facts for network in networks]

    def by_name(every: Sequence[Numbers]) -> Numbers:
        names = (*TERMS, "printed")
        return {"betas": betas, **{name: [each[name] for each in every] for name in names}}

    return {
        **by_name(facts),
        "fresh": by_name([each["fresh"] for each in facts]),
        "samples": sorted({each["samples"] for each in facts}),
        "seeds": [network.run.seed for network in networks[: len(networks) // len(betas)]],
    }


def samples_text(numbers: Numbers) -> str:
    """Say how many samples of q(z|x) the reconstruction is over.

    >>> samples_text({"samples": [100]})
    '100 samples for each observation (app. C has 1,000)'
    """
    counts = " or ".join(f"{count:,}" for count in numbers["samples"])
    paper = ", as in app. C" if numbers["samples"] == [SAMPLES] else f" (app. C has {SAMPLES:,})"
    return f"{counts} samples for each observation{paper}"


def curves(numbers: Numbers, name: str) -> Values:
    """Return a term of all networks, (betas, seeds)."""
    return np.array(numbers[name]).reshape(len(numbers["betas"]), -1)


def extremum(
    betas: Sequence[float], values: Values, top: bool, statistic: Callable[..., Values] = np.mean
) -> Measured:
    """Return the beta where the mean of values (betas, seeds) over seeds is largest or smallest.

    It is the extremum of the parabola over log beta through three neighbours on the grid, with its
    95 % bootstrap interval over seeds. `statistic` replaces the mean.
    """
    rng = np.random.default_rng(0)
    count, sign = values.shape[1], 1 if top else -1
    chosen = rng.integers(count, size=(RESAMPLES, count))
    places = [_peak(betas, sign * each) for each in statistic(values[:, chosen], axis=2).T]
    return resampled_interval(_peak(betas, sign * statistic(values, axis=1)), places, count)


def _peak(betas: Sequence[float], y: Values) -> float:
    """Return where a curve through points over log beta is highest; exactly, if at an end."""
    x, at = np.log(np.array(betas)), int(y.argmax())
    if at in (0, len(x) - 1):
        return betas[at]
    left, right = x[at - 1] - x[at], x[at + 1] - x[at]
    slope_left, slope_right = (y[at - 1] - y[at]) / left, (y[at + 1] - y[at]) / right
    bend = (slope_right - slope_left) / (right - left)  # below 0, or 0 on a plateau
    if bend >= 0:
        return betas[at]
    return float(np.exp(x[at] - 0.5 * (slope_left - bend * left) / bend))


def largest_rise(values: Values) -> Measured:
    """Return the largest rise of the mean over seeds from one beta to the next, with its interval.

    values: (betas, seeds). The interval is two standard errors to either side, and the step is the
    one whose upper end is highest. The rise is negative if the mean falls everywhere.
    """
    steps = np.diff(values, axis=0)
    rises, count = steps.mean(1), values.shape[1]
    errors = steps.std(1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(steps))
    at = int((rises + 2 * errors).argmax())
    return two_sigma_interval(rises[at], errors[at])


def claims_of(numbers: Numbers, figure: str, where: str, falls: bool = False) -> list[Claim]:
    """Judge what figures 2 and 3 show: the maximum of ELBO, the minimum of TIE, two that fall.

    See `tie_claims` for `falls`.
    """
    where = f"{where}, fig. {figure}"
    text = "TIE follows a non-monotonic trend and has an optimal β"
    return [
        _elbo_claim(numbers, where),
        *tie_claims(numbers, text, f"{where}B", falls=falls),
        _fall_claim(numbers, "reconstruction", f"{where}C"),
        _fall_claim(numbers, "rate", f"{where}D"),
    ]


def _elbo_claim(numbers: Numbers, where: str) -> Claim:
    betas, elbo = numbers["betas"], curves(numbers, "elbo")
    top = extremum(betas, elbo, True)
    at, near = int(elbo.mean(1).argmax()), int(np.abs(np.log(betas)).argmin())
    after = largest_rise(elbo[min(at, len(betas) - 2) :])  # where it should fall
    inside = _AROUND[0] < min(top.low, betas[at]) and max(top.high, betas[at]) < _AROUND[1]
    edge = (
        f"The largest mean on the grid is at β = {betas[at]:g}, exactly the edge of our bound; a "
        "parabola through it and its neighbours has its maximum inside. "
    ) if betas[at] in _AROUND else ""  # fmt: skip
    return _TEXTS.claim(
        "elbo", inside and after.high <= _RISE, contradicted=after.low > _RISE, where=where,
        around=_AROUND, rise=_RISE, top=top, grid=betas[at], after=after, edge=edge,
        side="" if top.low <= 1 <= top.high else ", below 1" if top.high < 1 else ", above 1",
        one=betas[near], less=elbo.mean(1)[at] - elbo.mean(1)[near], span=np.ptp(elbo.mean(1)),
    )  # fmt: skip


def tie_claims(
    numbers: Numbers,
    text: str,
    where: str,
    statistic: Callable[..., Values] = np.mean,
    falls: bool = False,
) -> list[Claim]:
    """Judge whether TIE has an optimum inside: as the paper prints it, and with latents matched.

    `statistic`: over initialisations, as in `extremum`. `falls`: whether the control shows that TIE
    as printed falls with beta on average. This contradicts an optimum only if our mean falls, too.
    """
    betas, claims = numbers["betas"], []
    for name, definition in (
        ("printed", "as printed (eq. 25, 27)"),
        ("tie", "latents matched to sources (ours)"),
    ):
        values = curves(numbers, name)
        at, line = extremum(betas, values, False, statistic), statistic(values, axis=1)
        end, known = betas[0] if at.low <= betas[0] else betas[-1], falls and name == "printed"
        least = int(line.argmin())
        claims.append(
            _TEXTS.claim(
                "tie_falls" if known else "tie", betas[0] < at.low and at.high < betas[-1],
                contradicted=known and bool((np.diff(line) < 0).all()), text=text,
                definition=definition, where=where, at=at, least=line[least], lowest=betas[least],
                first=line[0], last=line[-1], betas=(betas[0], betas[-1]), end=end,
                error=values[least].std(ddof=1) / values.shape[1] ** 0.5, count=values.shape[1],
                smallest="is smallest" if at.value == end else "may be smallest, by its interval,",
            )
        )  # fmt: skip
    return claims


def _fall_claim(numbers: Numbers, name: str, where: str) -> Claim:
    values = curves(numbers, name)
    rise, means = largest_rise(values), values.mean(1)
    return _TEXTS.claim(
        "falls", rise.high <= _RISE, contradicted=rise.low > _RISE, term=TERMS[name].lower(),
        where=where, rise=_RISE, first=means[0], last=means[-1], largest=rise,
    )  # fmt: skip


def draw_term(axis: Axes, numbers: Numbers, name: str, top: bool | None = None) -> None:
    """Draw a term over beta: mean, smallest and largest over initialisations, and its extremum.

    A dotted line is its mean on fresh data.
    """
    betas, values = numbers["betas"], curves(numbers, name)
    low, high = values.min(1), values.max(1)
    axis.fill_between(betas, low, high, color=SKY, alpha=0.25, linewidth=0)
    for edge in (low, high):
        axis.plot(betas, edge, color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)))
    axis.plot(betas, values.mean(1), "o-", color=BLUE, markersize=3, label="mean")
    axis.plot([], [], color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)), label="min, max")
    fresh = curves(numbers["fresh"], name).mean(1)
    axis.plot(betas, fresh, color=PURPLE, linestyle=":", label="mean, fresh data")
    if top is not None:
        at = extremum(betas, values, top)
        axis.axvspan(at.low, at.high, color=MUTED, alpha=0.25, linewidth=0)
        axis.axvline(at.value, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        height = 0.5 if top else 1.0  # away from the curve
        axis.annotate(f" β = {at.value:.2g}", (at.value, height), va="top", fontsize=7.5,
                      xycoords=("data", "axes fraction"), color=INK)  # fmt: skip
    beta_axis(axis, betas)


def beta_axis(axis: Axes, betas: Sequence[float]) -> None:
    """Show beta along a logarithmic axis."""
    axis.set(xscale="log", xlim=(0.85 * betas[0], 1.18 * betas[-1]))
    ticks: list[Any] = [tick for tick in (0.01, 0.1, 1, 10, 100) if betas[0] <= tick <= betas[-1]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set(xlabel="β", ylabel="nats")
