"""Figure 2: deep beta-VAEs on mixed digits.  [Sikka2019] sec. V, app. C."""

from collections.abc import Sequence

import numpy as np

from unweave.data import Mixing
from unweave.evaluation.model import FittedModel
from unweave.papers.sikka2019 import deep
from unweave.papers.sikka2019.deep import SAMPLES
from unweave.papers.sikka2019.orders import falls
from unweave.presets.sikka2019 import MIXED_BETAS, MIXED_DIGITS
from unweave.studies.drawing import (
    BLUE,
    DASHES,
    ORANGE,
    PURPLE,
    Figure,
    Values,
    letter_panels,
    panels,
)
from unweave.studies.images import pack_array, unpack_array
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.theory import Solution, solve

SWEEP = deep.Sweep(MIXED_DIGITS, latents=10, betas=MIXED_BETAS, seeds=tuple(range(100)))
_GRID = np.geomspace(0.08, 60, 1500)  # and where latents die
_TEXTS = Texts(__package__, "deep", "fig2")


def fig2(workspace: Workspace, results: Results) -> Result:
    """Figure 2: terms of deep beta-VAEs over beta."""
    networks = SWEEP.trained(results)
    numbers = deep.gather(SWEEP.betas, networks)
    closed = _closed(_loadings(networks))
    betas, fresh = numbers["betas"], numbers["fresh"]
    tie, mie = deep.curves(numbers, "tie").mean(1), deep.curves(numbers, "mie").mean(1)
    shown, at = deep.curves(fresh, "reconstruction").mean(1), int(tie.argmin())
    return _TEXTS.result(
        {"": _draw(numbers, closed)},
        [*deep.claims_of(numbers, "2", "sec. V", falls(workspace, "mixed digits")),
         theory_claim(numbers, closed)],
        **SWEEP.texts(numbers), fresh_tie=deep.extremum(betas, deep.curves(fresh, "tie"), False),
        fresh_elbo=deep.extremum(betas, deep.curves(fresh, "elbo"), True), first=shown[0],
        first_beta=betas[0], top=shown.max(), top_beta=betas[int(shown.argmax())],
        printed=deep.curves(numbers, "printed")[at].mean(), tie=tie[at], beta=betas[at],
        mie=mie.min(), mie_beta=betas[int(mie.argmin())],
    )  # fmt: skip


def study() -> Study:
    """Return the study of the figure."""
    return SWEEP.study("mixed-digits", _describe, _pictured, deep.SeenAndFresh)


def _describe(model: FittedModel) -> Numbers:
    data = model.run.data
    assert isinstance(data, Mixing)
    digits = np.rint(255 * data.loadings().numpy()).astype(np.uint8)
    return {**deep.seen_and_fresh(model, SAMPLES), PICTURES: pack_array(digits)}


def _pictured(results: Results) -> list[Network]:
    """Return any one network: all are trained on the same digits."""
    return [network for network in results.networks if PICTURES in network.facts][:1]


def _loadings(networks: Sequence[Network]) -> Values:
    """Return the digits as columns of A, (N, k)."""
    digits = next(each.facts[PICTURES] for each in networks if PICTURES in each.facts)
    return unpack_array(digits, -1, SWEEP.latents, dtype=np.uint8) / 255


def _closed(loadings: Values) -> list[Solution]:
    """Return the optimal linear beta-VAEs for the same digits."""
    places = np.concatenate([_GRID, solve(loadings, 1.0).thresholds])
    inside = np.unique(places[(places >= _GRID[0]) & (places <= _GRID[-1])])
    return [solve(loadings, beta) for beta in inside.tolist()]


def theory_claim(numbers: Numbers, closed: Sequence[Solution]) -> Claim:
    """Judge whether the optimum of deep networks is near that of the linear model."""
    betas = numbers["betas"]
    found = deep.extremum(betas, deep.curves(numbers, "tie"), False)
    best = min(closed, key=lambda each: each.tie_aligned).beta
    at = betas.index(min(betas, key=lambda beta: abs(beta - 1)))
    seen, fresh = (deep.curves(each, "elbo").mean(1) for each in (numbers, numbers["fresh"]))
    return _TEXTS.claim(
        "theory", best / 2 < found.low and found.high < 2 * best, contradicted=False, best=best,
        deep=found, ratio=found.value / best, observations=SWEEP.data.observations, beta=betas[at],
        seen=seen[at], true=max(each.elbo for each in closed), fresh=fresh[at],
        gap=seen[at] - fresh[at], last_gap=seen[-1] - fresh[-1], last=betas[-1],
    )  # fmt: skip


def _draw(numbers: Numbers, closed: Sequence[Solution]) -> Figure:
    figure, axes = panels(2, 3, width=3.1)
    names = ("elbo", "tie", "reconstruction", "rate", "mie")
    letter_panels(axes, [*(deep.TERMS[name] for name in names), "TIE, latents matched or not"])
    lines = [each.beta for each in closed]
    for axis, name, top in zip(axes, names, (True, False, None, None, None), strict=False):
        line = [getattr(each, "tie_aligned" if name == "tie" else name) for each in closed]
        axis.plot(lines, line, color=ORANGE, linestyle=(0, (9, 1)), linewidth=1.1,
                  label="linear, closed form")  # fmt: skip
        deep.draw_term(axis, numbers, name, top)
    axes[3].legend(loc="upper right")
    for name, label, colour, dashes in (
        ("printed", "in their own order", PURPLE, DASHES[1]),
        ("tie", "matched", BLUE, DASHES[0]),
    ):
        values = deep.curves(numbers, name).mean(1)
        axes[5].plot(numbers["betas"], values, color=colour, linestyle=dashes, label=label)
    axes[5].legend(loc="upper right")
    deep.beta_axis(axes[5], numbers["betas"])
    return figure
