"""Figure 3 of [Kim2018]: codes that leave factors out, trained networks, and the two metrics."""

import numpy as np
from numpy.typing import NDArray

from unweave.metrics import beta_vae_score, factor_vae_score
from unweave.papers.kim2018.methods import label, setting_of
from unweave.papers.kim2018.sensitivity import codes_of
from unweave.papers.kim2018.shapes2d import CODES, STUDY
from unweave.studies.drawing import BLUE, DASHES, MUTED, ORANGE, Values, panels
from unweave.studies.intervals import range_interval
from unweave.studies.study import Results, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Result, Workspace

FACTORS = {"x": 8, "y": 8, "scale": 6, "orientation": 10}  # the shape is ignored, as in the paper
COLUMNS = 10
SEEDS = tuple(range(10))
TRAINED_SEEDS = (0, 1, 2)  # of the older metric, on codes of trained networks


def fig3(workspace: Workspace) -> Result:
    """Figure 3: codes that ignore a factor, and the two scores."""
    encoded = range(len(FACTORS) + 1)
    scores = {
        name: np.array([[float(score(*table(count, seed), seed=seed)) for seed in SEEDS]
                        for count in workspace.each(f"tables scored as {name} do", encoded)])
        for name, score in (("Higgins et al.", beta_vae_score), ("Kim & Mnih", factor_vae_score))
    }  # fmt: skip
    figure, (axis,) = panels(1, 1, width=4.6, height=3.0)
    for colour, dashes, (name, values) in zip((ORANGE, BLUE), DASHES, scores.items(), strict=False):
        axis.plot(list(encoded), values.mean(1), color=colour, linestyle=dashes, label=name)
        places = np.repeat(list(encoded), len(SEEDS))
        axis.plot(places, values.ravel(), "o", color=colour, markersize=3)
    axis.axvline(len(FACTORS) - 1, color=MUTED, linewidth=0.8, linestyle=":")
    axis.set_xticks(list(encoded), ["none", *(f"+ {name}" for name in FACTORS)])
    axis.set(xlabel="factors that have a code of their own", ylabel="score")
    axis.set_title("Codes that leave factors out")
    axis.legend(loc="lower right")
    old, new = (range_interval(scores[name][-2]) for name in scores)
    whole, count = range_interval(scores["Kim & Mnih"][-1]), len(FACTORS)
    texts = Texts(__package__, "fig3")
    claims = [
        texts.claim("older", old.value > 0.99, contradicted=False, old=old),
        texts.claim("newer", new.high < 0.95 and whole.low > 0.99, new=new, whole=whole,
                    contradicted=new.low >= whole.high, some=count - 1, count=count),
        *trained_claims(stored_results(STUDY, workspace.out)),
    ]  # fmt: skip
    return texts.result(
        {"": figure},
        claims,
        factors=", ".join(FACTORS),
        sizes="x".join(map(str, FACTORS.values())),
        columns=COLUMNS,
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}",
    )


def trained_claims(results: Results) -> list[Claim]:
    """Judge whether networks whose codes are stored have a perfect score on the older metric only.

    There is no such claim without stored codes.
    """
    scores = {}
    for network in sorted(results.networks, key=lambda network: setting_of(network.run)):
        if CODES in network.facts:
            codes, factors = codes_of(network, without="shape")
            newer = factor_vae_score(codes, factors, kl=network.facts["kl"])
            older = [float(beta_vae_score(codes, factors, seed=seed)) for seed in TRAINED_SEEDS]
            scores[label(setting_of(network.run))] = range_interval(older), float(newer)
    if not scores:
        return []
    listed = [f"{name}: {old:.3f} and {new:.3f}" for name, (old, new) in scores.items()]
    misled = any(old.low > 0.995 and new < 0.95 for old, new in scores.values())
    return [Texts(__package__, "fig3").claim("trained", misled, contradicted=False,
                                             scores="; ".join(listed))]  # fmt: skip


def table(encoded: int, seed: int) -> tuple[Values, NDArray[np.int64]]:
    """Return codes (N, D) of the first factors of a lattice, and all factors (N, K)."""
    factors = np.argwhere(np.ones(tuple(FACTORS.values())))
    rng = np.random.default_rng(seed)
    codes = 0.02 * rng.standard_normal((len(factors), COLUMNS))
    values = (factors - factors.mean(0)) / factors.std(0)
    codes[:, :encoded] += values[:, :encoded]
    return codes, factors
