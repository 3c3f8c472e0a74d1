"""What the figures on 2D Shapes have in common: settings compared over seeds, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.papers.drawing import Values
from unweave.papers.form import Claim, Measured, Result
from unweave.papers.intervals import redrawn
from unweave.papers.kim2018.shapes2d import STUDY
from unweave.papers.study import Network, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTORTION, ACCURACY, MISMATCH = (
    "terms/distortion", "terms/critic_accuracy", "metrics/dimension_kl",
)  # fmt: skip
METHODS = {"beta-vae": ("β-VAE", "β"), "factor-vae": ("FactorVAE", "γ")}
Settings = Mapping[float, Sequence[Network]]
Found = Mapping[tuple[str, float], Sequence[Network]]  # by method and weight

WEAK = (
    "Our critic finds less of the total correlation than the paper's seems to, so the penalty "
    "costs less reconstruction. It is not bfloat16: four of these networks trained to 50,000 "
    "iterations in float32 have the same critic accuracy, 0.57. The reason is open."
)


def setting_of(results: Results) -> str:
    """What was trained, and how much of the study is there."""
    there, whole = len(results.networks), len(STUDY.runs)
    counts = [
        f"{METHODS[kind][1]} = {weight:g}: {len(networks)}"
        for kind in METHODS
        for weight, networks in results.of(kind).items()
    ]
    return (
        f"**{there} of {whole} networks** ({'; '.join(counts)} seeds). 2D Shapes is dSprites: "
        "`Shapes2D()` renders the same 737,280 images. Networks, optimisers, batch size and "
        "300,000 steps as in app. A (presets `kim2018/shapes2d-beta-vae` and "
        "`kim2018/shapes2d-factor-vae`); layers start uniform within 1/√(fan-in), since the paper "
        "does not say how. Products are in bfloat16. Both metrics follow app. B, on 10,000 "
        "observations. Brackets are 95% bootstrap intervals over seeds."
    )


def seeds_of(results: Results) -> str:
    """The seeds of the networks that are there."""
    seeds = [network.run.seed for network in results.networks]
    return f"{min(seeds)} to {max(seeds)}" if seeds else "none"


def result_of(
    results: Results,
    drawings: dict[str, Figure],
    captions: dict[str, str],
    claims: Sequence[Claim],
    noticed: str = "",
) -> Result:
    """A result with the study's setting and seeds."""
    return Result(
        drawings, captions, tuple(claims), setting_of(results), seeds_of(results), noticed
    )


def final(networks: Sequence[Network], name: str) -> Values:
    """The values of a curve at the end of training, one for each network."""
    return np.array([network.last(name) for network in networks])


def spread(networks: Sequence[Network], name: str) -> Measured:
    """The mean of a curve's last values over seeds, with its interval."""
    return redrawn(final(networks, name))


def difference(ours: Sequence[Network], theirs: Sequence[Network], name: str) -> Measured:
    """The difference of two means over seeds, with its 95% bootstrap interval."""
    rng = np.random.default_rng(0)
    one, two = final(ours, name), final(theirs, name)
    drawn = [rng.choice(values, (2000, len(values))).mean(1) for values in (one, two)]
    low, high = np.quantile(drawn[0] - drawn[1], (0.025, 0.975))
    return Measured(float(one.mean() - two.mean()), float(low), float(high))


def compared(
    results: Results,
    needed: Mapping[str, Sequence[float]],
    statement: str,
    where: str,
    expected: str,
    judge: Callable[[Found], Claim],
) -> Claim:
    """A claim about settings of the study; undecided while networks of one of them are missing."""
    found = {(kind, w): results.of(kind).get(w, ()) for kind, ws in needed.items() for w in ws}
    missing = [
        f"{METHODS[kind][1]} = {w:g}" for (kind, w), there in found.items() if len(there) < 2
    ]
    if missing:
        note = f"Networks with {', '.join(missing)} are not trained yet."
        return Claim(statement, where, expected, "not measured yet", "undecided", note)
    return judge(found)


def resampled(a: Values, b: Values, correlation: Callable[..., Any]) -> Measured:
    """A correlation of pairs, as scipy gives it, with its 95% bootstrap interval."""

    def of(one: Values, two: Values) -> float:
        return float(correlation(one, two)[0])

    rows = np.random.default_rng(0).integers(len(a), size=(1000, len(a)))
    low, high = np.nanquantile([of(a[row], b[row]) for row in rows], (0.025, 0.975))
    return Measured(of(a, b), float(low), float(high))
