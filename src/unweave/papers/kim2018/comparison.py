"""What the figures on 2D Shapes have in common: settings compared over seeds, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.papers.kim2018.shapes2d import STUDY
from unweave.studies.drawing import Values
from unweave.studies.intervals import difference, redrawn
from unweave.studies.study import Network, Results
from unweave.studies.workspace import Claim, Measured, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTORTION, ACCURACY, MISMATCH = (
    "terms/distortion", "terms/critic_accuracy", "metrics/dimension_kl",
)  # fmt: skip
METHODS = {"beta-vae": ("β-VAE", "β"), "factor-vae": ("FactorVAE", "γ")}
Settings = Mapping[float, Sequence[Network]]
Found = Mapping[tuple[str, float], Sequence[Network]]  # by method and weight

OPEN = "The reason is open; see the remark below."
BOTH = "The interval of the difference allows both answers."


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
        f"does not say how. Products are in {_precisions(results)}. Both metrics follow app. B, on "
        "10,000 observations. Brackets are 95% bootstrap intervals over seeds."
    )


def _precisions(results: Results) -> str:
    """The precision of the networks' products, and how many have which if they differ."""
    names = {"bf16": "bfloat16", "fp32": "float32", "tf32": "TF32"}
    counts = Counter(names[network.cost["precision"]] for network in results.networks)
    if len(counts) == 1:
        return next(iter(counts))
    return " and ".join(f"{name} ({count} networks)" for name, count in counts.items())


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


def mean_of(networks: Sequence[Network], name: str) -> Measured:
    """The mean of a curve's last values over seeds, with its interval."""
    return redrawn(final(networks, name))


def gap(ours: Sequence[Network], theirs: Sequence[Network], name: str) -> Measured:
    """The difference of two means over seeds, with its interval."""
    return difference(final(ours, name), final(theirs, name))


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
