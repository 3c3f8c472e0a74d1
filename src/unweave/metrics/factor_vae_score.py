"""Metrics that hold one factor fixed and watch what the codes do.

On a table, "hold factor k at a value" means: choose among the rows that have this value. On a full
lattice that draws the other factors uniformly, as the papers do; on any other table it draws them
as they occur together with the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.inputs import (
    Floats,
    Inputs,
    Ints,
    Seed,
    as_kl,
    check_choice,
    read,
    subset,
)
from unweave.metrics.options import Frame, framed
from unweave.metrics.score import Detail, Score

FactorVAEProtocol = Literal["kim2018", "locatello2019", "mathieu2019"]


class Groups(NamedTuple):
    """The rows of a table grouped by the value of one factor."""

    order: Ints  # (N,) rows, those of one value side by side
    start: Ints  # (N,) where in `order` the group of each row begins
    size: Ints  # (N,) how many rows share the value of each row
    repeated: Ints  # rows whose value occurs in another row as well


class _Code(NamedTuple):
    """A column of the codes."""

    j: int
    values: Floats  # (N,)
    discrete: bool
    overall: float  # its spread over the whole table


@dataclass(frozen=True)
class _Votes:
    """The numbers of a protocol of the FactorVAE score."""

    batch: int  # L, rows to a vote
    train: int  # votes that make the classifier
    test: int  # separate votes that score it; 0: it is scored on those that made it
    points: int | None  # rows that give the overall spread; None: all
    prunes: bool = True


_PROTOCOLS: Mapping[str, _Votes] = {
    "kim2018": _Votes(batch=100, train=800, test=0, points=None),  # [Kim2018] app. B
    "locatello2019": _Votes(batch=64, train=10_000, test=5_000, points=10_000),
    "mathieu2019": _Votes(batch=1000, train=20_000, test=0, points=None, prunes=False),
}
_CHUNK = 2**17  # rows chosen at once: a few megabytes, whatever N and D are


@framed
def factor_vae_score(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: FactorVAEProtocol = "kim2018",
    rng: Seed = 0,
    kl: ArrayLike | None = None,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    batch: int | None = None,
    votes: int | None = None,
    kl_threshold: float = 0.01,
    std_threshold: float = 0.05,
    **frame: Unpack[Frame],
) -> Score:
    """How well the code that varies least tells which factor is fixed.

    A vote fixes a factor k and takes L rows that share a value of it; the vote goes to the code
    a = argmin_j Var_L(z_j) / Var(z_j). With V_jk = #{votes: a = j, factor = k} the classifier is
    C(j) = argmax_k V_jk, and the score is its accuracy.  [Kim2018] sec. 4 and app. B
    The score of [Higgins2017] gives 1 to codes that hold K - 1 of K factors; this one does not.

    Protocols: `kim2018` has L = 100 and 800 votes that both make and score the classifier, and
    prunes codes that have collapsed to the prior. `locatello2019` has L = 64, makes the classifier
    by 10,000 votes and scores it on 5,000 others, takes Var(z_j) from 10,000 rows and prunes by the
    standard deviation of the means.  [Locatello2019] `mathieu2019` has L = 1000 and 20,000 votes
    that both make and score the classifier, and prunes constant codes only. For priors that are not
    normal the paper first maps codes to normal quantiles through the distribution function of their
    prior: score a model with `uw.evaluate(models, codes="prior-cdf")`.  [Mathieu2019] app. B, whose
    code gives the numbers

    The spread of a discrete code is Gini's variance ([Kim2018] eq. 4); it is pruned if constant.
    Where no code is left the score is 0 by definition. A factor is left out that takes one value
    only or no value twice. Pruning by standard deviation depends on the scale of the codes.

    Namesakes differ: disent prunes nothing under the name of `locatello2019`, and it and the
    original report all codes as active; Ubisoft's library has L = 200 and 800 + 800 votes, prunes
    at other thresholds and rescales the score; the code of JointVAE has numbers of its own and a
    threshold of the KL.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose numbers and rules.
        rng: seed or generator.
        kl: (D,) mean KL(q(z_j|x) || p(z_j)); with it `kim2018` prunes by it. `locatello2019` does
            not read it.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.
        batch: L, if not that of the protocol.
        votes: number of votes that make the classifier, if not that of the protocol.
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
    check_choice("protocol", protocol, get_args(FactorVAEProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    rules = _rules(_PROTOCOLS[protocol], batch, votes)
    divergence = None if kl is None or protocol != "kim2018" else as_kl(kl, inputs.dims)
    generator = np.random.default_rng(rng)
    every = _columns(inputs, subset(inputs.rows, rules.points or inputs.rows, generator))
    alive, rule = _alive(every, divergence, kl_threshold, std_threshold if rules.prunes else 0.0)
    groups = fixable(inputs)
    shape = (inputs.dims, len(inputs.names))
    train = _tally(alive, groups, shape, rules.train, rules.batch, generator)
    test = _tally(alive, groups, shape, rules.test, rules.batch, generator) if rules.test else train
    right = _right(test, train)
    details = _details(inputs, groups, alive, rule)
    details["training accuracy"] = _share(_right(train, train).sum(), train.sum())
    return Score(
        name="factor_vae_score",
        protocol=protocol,
        value=_share(right.sum(), test.sum()),
        parts={inputs.names[k]: _share(right[k], test[:, k].sum()) for k in groups},
        matrix=train,
        details=details,
    )


def spread(values: Floats, discrete: bool) -> Floats:
    """Empirical variance of each row of values (V, L); Gini's for categories numbered from 0.

    Var(x) = 1/(2L(L-1)) sum_il d(x_i, x_l), with d the squared difference or [x_i != x_l].
    [Kim2018] eq. 4
    """
    if not discrete:
        # From the first value on, so that equal values have a variance of 0 without rounding.
        d = values - values[:, :1]
        squares = np.einsum("vl,vl->v", d, d) - d.sum(1) ** 2 / d.shape[1]
        variance: Floats = np.maximum(squares, 0) / (d.shape[1] - 1)
        return variance
    total, size = values.shape
    categories = int(values.max()) + 1
    flat = values.astype(np.int64) + categories * np.arange(total)[:, None]
    counts = np.bincount(flat.ravel(), minlength=total * categories).reshape(total, categories)
    # Pairs that differ = all pairs - pairs within a category: L numbers, not L^2 pairs.
    differing: Floats = (size**2 - (counts**2).sum(1)) / (2 * size * (size - 1))
    return differing


def group_rows(factor: Ints) -> Groups:
    """Group the rows by the values (N,) of one factor, numbered 0, 1, ..."""
    sizes = np.bincount(factor)
    start = np.cumsum(sizes) - sizes
    size = sizes[factor]
    return Groups(np.argsort(factor, kind="stable"), start[factor], size, np.flatnonzero(size > 1))


def fixed_factor_rows(
    groups: Mapping[int, Groups], votes: int, batch: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """For each vote a factor (V,), uniformly, and rows (V, L) that share a value of it.

    The value is that of a random row, so it comes as often as it occurs; the rows are drawn with
    replacement. Values that occur once are not drawn: one row repeated L times says nothing.
    """
    chosen = rng.choice(np.array(list(groups)), votes)
    rows = np.empty((votes, batch), dtype=np.int64)
    for k, group in groups.items():
        mine = np.flatnonzero(chosen == k)
        anchor = rng.choice(group.repeated, len(mine))
        place = random_below(group.size[anchor, None], (len(mine), batch), rng)
        place += group.start[anchor, None]
        rows[mine] = group.order.take(place)
    return chosen, rows


def random_below(bound: int | Ints, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """Draw integers from 0 to below `bound`, uniformly but for a bias of at most bound / 2^32.

    The high half of 32 random bits times the bound: three times as fast as `rng.integers`.
    """
    drawn = rng.integers(2**32, size=shape, dtype=np.uint32).astype(np.int64)
    drawn *= bound
    drawn >>= 32
    return drawn


def _rules(rules: _Votes, batch: int | None, votes: int | None) -> _Votes:
    batch = rules.batch if batch is None else batch
    votes = rules.train if votes is None else votes
    if batch < 2 or votes < 1:
        raise ValueError(
            f"expected a batch of at least 2 rows and at least 1 vote, got {batch} and {votes}: "
            "leave them out to use the numbers of the protocol"
        )
    return replace(rules, batch=batch, train=votes)


def _columns(inputs: Inputs, points: Ints) -> list[_Code]:
    """The codes one by one, with the spread of each over the given rows."""
    columns = zip(inputs.codes.T, inputs.discrete.tolist(), strict=True)
    return [
        _Code(j, np.ascontiguousarray(z), discrete, float(spread(z[None, points], discrete)[0]))
        for j, (z, discrete) in enumerate(columns)
    ]


def _alive(
    every: list[_Code], kl: Floats | None, kl_threshold: float, std_threshold: float
) -> tuple[list[_Code], str]:
    """The codes that have not collapsed, and the rule that prunes the others."""
    # A constant code has no ratio of variances, whatever its KL.
    varied = [code for code in every if code.overall > 0]
    if kl is not None:
        return [code for code in varied if kl[code.j] >= kl_threshold], f"kl < {kl_threshold}"
    wide = [code for code in varied if code.discrete or math.sqrt(code.overall) >= std_threshold]
    return wide, f"standard deviation < {std_threshold}" if std_threshold else "constant"


def fixable(inputs: Inputs) -> dict[int, Groups]:
    """The groups of each factor that can be held fixed while others vary."""
    groups = {int(k): group_rows(inputs.factors[:, k]) for k in inputs.scored}
    groups = {k: group for k, group in groups.items() if len(group.repeated)}
    if not groups:
        raise ValueError(
            "expected a factor with a value that occurs in at least two rows, got none: to fix a "
            "factor, encode several observations that share its value"
        )
    return groups


def _tally(
    alive: list[_Code],
    groups: Mapping[int, Groups],
    shape: tuple[int, int],
    votes: int,
    batch: int,
    rng: np.random.Generator,
) -> Ints:
    """V (D, K): how often code j varied least when factor k was fixed."""
    tally = np.zeros(shape, dtype=np.int64)
    if not alive:
        return tally
    indices = np.array([code.j for code in alive])
    step = max(1, _CHUNK // batch)  # free of D: more codes must not change the rows drawn
    for done in range(0, votes, step):
        chosen, rows = fixed_factor_rows(groups, min(step, votes - done), batch, rng)
        local = [spread(code.values.take(rows), code.discrete) / code.overall for code in alive]
        np.add.at(tally, (indices[np.argmin(local, axis=0)], chosen), 1)
    return tally


def _right(votes: Ints, train: Ints) -> Ints:
    """Votes of each factor (K,) that the majority-vote classifier of `train` gets right.

    C(j) = argmax_k V_jk  [Kim2018] app. B
    """
    answer = train.argmax(1)[:, None] == np.arange(train.shape[1])  # (D, K)
    right: Ints = np.where(answer, votes, 0).sum(0)
    return right


def _share(right: np.integer, votes: np.integer) -> float:
    """Accuracy; 0 where every code is pruned, so that there were no votes."""
    return float(right / votes) if votes else 0.0


def _details(
    inputs: Inputs, groups: Mapping[int, Groups], alive: list[_Code], rule: str
) -> dict[str, Detail]:
    active = {code.j for code in alive}
    details: dict[str, Detail] = {
        "rows": inputs.rows,
        "combinations missing": combinations_missing(inputs, list(groups)),
        "active": len(active),
        "pruned": [j for j in range(inputs.dims) if j not in active],
        "pruned by": rule,
        "factors left out": [n for k, n in enumerate(inputs.names) if k not in groups],
        "chance": 1 / len(groups),
    }
    if not active:
        details["note"] = "every code is pruned, so the score is 0 by definition"
    return details


def combinations_missing(inputs: Inputs, factors: list[int]) -> int:
    """Cells of the lattice of the values that occur which no row has; 0: a full lattice."""
    cell = np.zeros(inputs.rows, dtype=np.int64)
    for k in factors:
        # Renumbering after each factor keeps the numbers below N x size, so they cannot overflow.
        cell = np.unique(cell * inputs.sizes[k] + inputs.factors[:, k], return_inverse=True)[1]
    return math.prod(int(inputs.sizes[k]) for k in factors) - int(cell.max()) - 1
