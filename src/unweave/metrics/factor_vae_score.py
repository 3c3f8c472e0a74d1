"""The FactorVAE score: which code varies least while a factor is held fixed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Floats, Ints, as_kl, subset
from unweave.metrics.fixed_factors import Groups, group_by_factor, group_details, random_below
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score


class _Code(NamedTuple):
    """One code."""

    j: int
    values: Floats  # (N,)
    discrete: bool
    variance: float  # over the whole table


@dataclass(frozen=True)
class _VoteRules:
    """The numbers of a protocol."""

    batch: int  # L, rows per vote
    train: int  # votes that fit the classifier
    test: int  # other votes that score it; 0 if it is scored on those that fitted it
    points: int | None  # rows that estimate Var(z_j); None for all
    prunes: bool = True


_PROTOCOLS: Mapping[str, _VoteRules] = {
    "kim2018": _VoteRules(batch=100, train=800, test=0, points=None),  # [Kim2018] app. B
    "locatello2019": _VoteRules(batch=64, train=10_000, test=5_000, points=10_000),
    "mathieu2019": _VoteRules(batch=1000, train=20_000, test=0, points=None, prunes=False),
}
_CHUNK = 2**17  # rows chosen at once: a few megabytes, whatever N and D are


@metric
def factor_vae_score(
    inputs: Inputs,
    *,
    protocol: Literal["kim2018", "locatello2019", "mathieu2019"] = "kim2018",
    kl: ArrayLike | None = None,
    batch: int | None = None,
    votes: int | None = None,
    kl_threshold: float = 0.01,
    std_threshold: float = 0.05,
) -> Score:
    """Compute how well the code that varies least identifies the factor that is held fixed.

    A vote fixes a factor k and draws L rows that share a value of it; it goes to the code
    a = argmin_j Var_L(z_j) / Var(z_j). With V_jk = #{votes: a = j, factor = k} the classifier is
    C(j) = argmax_k V_jk, and the score is its accuracy.  [Kim2018] sec. 4 and app. B
    The score of [Higgins2017] can be 1 for codes that hold K - 1 of K factors; this one cannot.

    Protocols: `kim2018` has L = 100 and 800 votes that both fit and score the classifier, and
    prunes codes that have collapsed to the prior. `locatello2019` has L = 64, fits the classifier
    to 10,000 votes and scores it on 5,000 others, estimates Var(z_j) from 10,000 rows and prunes by
    the standard deviation of the means.  [Locatello2019] `mathieu2019` has L = 1000 and 20,000
    votes that both fit and score the classifier, and prunes constant codes only. For priors that
    are not normal the paper first maps codes to normal quantiles through the cdf of their prior, as
    `uw.evaluate(models, codes="prior-cdf")` does.  [Mathieu2019] app. B, with the numbers of its
    released code

    The variance of a discrete code is Gini's ([Kim2018] eq. 4), and constant codes are pruned. If
    no code is left, the score is 0 by definition. A factor is left out if it takes a single value,
    or no value twice. Pruning by standard deviation depends on the scale of the codes.

    Implementations differ: disent's version of `locatello2019` prunes nothing, and both it and the
    original report all codes as active; Ubisoft's library has L = 200 and 800 + 800 votes, prunes
    at other thresholds and rescales the score; the code of JointVAE uses its own numbers and prunes
    by a threshold on the KL.

    Args:
        inputs: posterior means (N, D) and integer factors (N, K).
        protocol: whose numbers and rules.
        kl: (D,) mean KL(q(z_j|x) || p(z_j)), by which `kim2018` prunes if it is given; other
            protocols ignore it.
        batch: L; default: that of the protocol.
        votes: number of votes that fit the classifier; default: that of the protocol.
        kl_threshold: nats below which a code counts as collapsed.
        std_threshold: standard deviation below which a code counts as collapsed.

    Returns:
        Parts: accuracy on the votes of each factor. Matrix: V (D, K) of the classifier's votes.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> factor_vae_score(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(factor_vae_score/kim2018 = 1.0000; x 1.000, y 1.000)
    """
    # kl_threshold: the paper says q(z_j|x) = p(z_j) and gives no number; 0.01 nats is our choice.
    # std_threshold: [Locatello2019]; the same for kim2018 without kl is our choice.
    inputs.require_classes()
    rules = _rules(_PROTOCOLS[protocol], batch, votes)
    divergence = None if kl is None or protocol != "kim2018" else as_kl(kl, inputs.dims)
    codes = _codes(inputs, subset(inputs.rows, rules.points or inputs.rows, inputs.rng))
    active, rule = _prune(codes, divergence, kl_threshold, std_threshold if rules.prunes else 0.0)
    groups = group_by_factor(inputs)
    train = _count_votes(inputs, active, groups, rules.train, rules.batch)
    test = _count_votes(inputs, active, groups, rules.test, rules.batch) if rules.test else train
    correct = _correct_votes(test, train)
    remaining = [code.j for code in active]
    details = group_details(inputs, groups) | {
        "active": len(remaining),
        "pruned": [j for j in range(inputs.dims) if j not in remaining],
        "pruned by": rule,
        "training accuracy": _share(_correct_votes(train, train).sum(), train.sum()),
    }
    if not active:
        details["note"] = "every code is pruned, so the score is 0 by definition"
    return inputs.score(
        _share(correct.sum(), test.sum()),
        parts={inputs.names[k]: _share(correct[k], test[:, k].sum()) for k in groups},
        matrix=train,
        details=details,
    )


def variance(values: Floats, discrete: bool) -> Floats:
    """Compute the variance of each row of values (V, L); Gini's for categories numbered from 0.

    Var(x) = 1/(2L(L-1)) sum_il d(x_i, x_l), with d the squared difference or [x_i != x_l].
    [Kim2018] eq. 4
    """
    if not discrete:
        # Relative to the first value, so that equal values have a variance of exactly 0.
        d = values - values[:, :1]
        squares = np.einsum("vl,vl->v", d, d) - d.sum(1) ** 2 / d.shape[1]
        variances: Floats = np.maximum(squares, 0) / (d.shape[1] - 1)
        return variances
    total, size = values.shape
    categories = int(values.max()) + 1
    flat = values.astype(np.int64) + categories * np.arange(total)[:, None]
    counts = np.bincount(flat.ravel(), minlength=total * categories).reshape(total, categories)
    # Pairs that differ = all pairs - pairs within a category: L numbers, not L^2 pairs.
    differing: Floats = (size**2 - (counts**2).sum(1)) / (2 * size * (size - 1))
    return differing


def draw_fixed_factor_rows(
    groups: Mapping[int, Groups], votes: int, batch: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw a factor (V,) for each vote, uniformly, and rows (V, L) that share a value of it.

    The value is that of a random row, so it is drawn as often as it occurs; the rows are drawn with
    replacement. Values that occur once are not drawn, because their variance says nothing.
    """
    fixed = rng.choice(np.array(list(groups)), votes)
    rows = np.empty((votes, batch), dtype=np.int64)
    for k, group in groups.items():
        members = np.flatnonzero(fixed == k)
        anchor = rng.choice(group.repeated, len(members))
        place = random_below(group.size[anchor, None], (len(members), batch), rng)
        place += group.start[anchor, None]
        rows[members] = group.order.take(place)
    return fixed, rows


def _rules(rules: _VoteRules, batch: int | None, votes: int | None) -> _VoteRules:
    batch = rules.batch if batch is None else batch
    votes = rules.train if votes is None else votes
    if batch < 2 or votes < 1:
        raise ValueError(
            f"expected a batch of at least 2 rows and at least 1 vote, got {batch} and {votes}: "
            "leave them out to use the numbers of the protocol"
        )
    return replace(rules, batch=batch, train=votes)


def _codes(inputs: Inputs, points: Ints) -> list[_Code]:
    """Return the codes one by one, with the variance of each over the given rows."""
    columns = zip(inputs.codes.T, inputs.discrete.tolist(), strict=True)
    return [
        _Code(j, np.ascontiguousarray(z), discrete, float(variance(z[None, points], discrete)[0]))
        for j, (z, discrete) in enumerate(columns)
    ]


def _prune(
    codes: list[_Code], kl: Floats | None, kl_threshold: float, std_threshold: float
) -> tuple[list[_Code], str]:
    """Return the codes that have not collapsed, and the rule that prunes the others."""
    # A constant code has no ratio of variances, whatever its KL.
    varied = [code for code in codes if code.variance > 0]
    if kl is not None:
        return [code for code in varied if kl[code.j] >= kl_threshold], f"kl < {kl_threshold}"
    wide = [code for code in varied if code.discrete or math.sqrt(code.variance) >= std_threshold]
    return wide, f"standard deviation < {std_threshold}" if std_threshold else "constant"


def _count_votes(
    inputs: Inputs, active: list[_Code], groups: Mapping[int, Groups], votes: int, batch: int
) -> Ints:
    """Count V (D, K): how often code j varied least when factor k was fixed."""
    counts = np.zeros((inputs.dims, len(inputs.names)), dtype=np.int64)
    if not active:
        return counts
    indices = np.array([code.j for code in active])
    step = max(1, _CHUNK // batch)  # independent of D: more codes must not change the rows drawn
    for done in range(0, votes, step):
        fixed, rows = draw_fixed_factor_rows(groups, min(step, votes - done), batch, inputs.rng)
        ratios = [
            variance(code.values.take(rows), code.discrete) / code.variance for code in active
        ]
        np.add.at(counts, (indices[np.argmin(ratios, axis=0)], fixed), 1)
    return counts


def _correct_votes(votes: Ints, train: Ints) -> Ints:
    """Count the votes of each factor (K,) that the majority-vote classifier of `train` gets right.

    C(j) = argmax_k V_jk  [Kim2018] app. B
    """
    answer = train.argmax(1)[:, None] == np.arange(train.shape[1])  # (D, K)
    correct: Ints = np.where(answer, votes, 0).sum(0)
    return correct


def _share(correct: np.integer, votes: np.integer) -> float:
    """Return the accuracy; 0 without votes, because every code is pruned."""
    return float(correct / votes) if votes else 0.0
