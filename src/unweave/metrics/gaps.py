"""Relatives of the mutual information gap: per code, with the joint entropy, and both at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.information import Binned, entropy, read_binned, top_gap
from unweave.metrics.inputs import Bools, Inputs, Seed, check_choice
from unweave.metrics.options import Frame, framed
from unweave.metrics.score import Detail, Score

MIGSupProtocol = Literal["li2020"]
JEMMIGProtocol = Literal["do2020"]
DCIMIGProtocol = Literal["sepliarskaia2019"]


@framed
def mig_sup(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: MIGSupProtocol = "li2020",
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    std_threshold: float = 0.05,
    **frame: Unpack[Frame],
) -> Score:
    """Mutual information gap of each code: how much more it knows of one factor than of the next.

    MIG-sup = 1/J sum_j (I(z_j; v_a) / H(v_a) - I(z_j; v_b) / H(v_b)), where a and b are the two
    factors that code j knows most of, over the J codes that mean anything.  [Li2020]
    MIG is blind to a code that holds two factors; this is blind to a factor held by two codes.

    Protocols: `li2020`. The paper takes the mutual information of [Chen2018]; we count bins, 20 of
    equal width over the range of a code, as [Locatello2019] does for MIG, from 10,000 rows. Which
    codes mean something it does not say; we take those whose standard deviation is at least 0.05,
    and discrete codes that are not constant. The code of the review [Carbonneau2022] divides by
    H(z_j), not by H(v_k).

    Where no code is left the score is 0. With a single factor the gap is all of the information.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers, which are cut into bins as codes are.
        protocol: whose definition.
        rng: seed or generator, for the rows.
        samples: rows to estimate from.
        bins: bins to a code and to a continuous factor.
        discrete: (D,) mask of codes that are categories; these are not binned.
        factor_names: names of the factors.
        leave_out: factors not to score, by name or number.
        std_threshold: standard deviation below which a code means nothing.

    Returns:
        Parts: the gap of each code that counts. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mig_sup(factors @ [[1, 0, 1], [0, 2, 0]], factors)
    Score(mig_sup/li2020 = 1.0000; code 0 1.000, code 1 1.000, code 2 1.000)
    """
    check_choice("protocol", protocol, get_args(MIGSupProtocol))
    inputs, binned = read_binned(
        codes,
        factors,
        rng=rng,
        samples=samples,
        bins=bins,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    matrix = binned.normalised
    alive = active(inputs, std_threshold)
    gap = top_gap(matrix[:, inputs.scored].T)
    return Score(
        name="mig_sup",
        protocol=protocol,
        value=float(gap[alive].mean()) if alive.any() else 0.0,
        parts={f"code {j}": float(gap[j]) for j in np.flatnonzero(alive)},
        matrix=matrix,
        details=_details(inputs, binned) | {"pruned": np.flatnonzero(~alive).tolist()},
    )


@framed
def jemmig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: JEMMIGProtocol = "do2020",
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    std_threshold: float = 0.05,
    **frame: Unpack[Frame],
) -> Score:
    """Joint entropy minus mutual information gap, normalised: the gap, and a code without a rest.

    JEMMIG_k = H(z_a, v_k) - I(z_a; v_k) + I(z_b; v_k), where a and b are the two codes that know
    most of factor k; the score is 1/K sum_k (1 - JEMMIG_k / (H(v_k) + log B)) for B bins.
    H(z_a, v_k) = I(z_a; v_k) where the code holds the factor and nothing else.  [Do2020]

    Protocols: `do2020`, normalised so that higher is better. The paper draws z ~ q(z|x) into bins
    of a fixed range; we bin posterior means, 20 bins of equal width over the range of each, from
    10,000 rows. The formula gives a constant code log B / (H(v_k) + log B), more than many a
    learned one. So codes are left out whose standard deviation is under 0.05, or that are discrete
    and constant, as in `mig_sup`; where none is left the score is 0. A code that is wide but has
    few values still gains by them, whatever it tells: read the matrix as well.

    For a discrete code B is the number of its categories. Codes that vary without end never reach
    1, as the value within a class is entropy of the code beyond the factor. Ubisoft's library has
    the formula as it is: no code is left out.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers, which are cut into bins as codes are.
        protocol: whose definition.
        rng: seed or generator, for the rows.
        samples: rows to estimate from.
        bins: B, to a code and to a continuous factor.
        discrete: (D,) mask of codes that are categories; these are not binned.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.
        std_threshold: standard deviation below which a code is left out.

    Returns:
        Parts: the term of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> jemmig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(jemmig/do2020 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(JEMMIGProtocol))
    inputs, binned = read_binned(
        codes,
        factors,
        rng=rng,
        samples=samples,
        bins=bins,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    alive = active(inputs, std_threshold)
    parts = {inputs.names[k]: _jemmig_of(k, inputs, binned, alive, bins) for k in inputs.scored}
    return Score(
        name="jemmig",
        protocol=protocol,
        value=float(np.mean(list(parts.values()))),
        parts=parts,
        matrix=binned.normalised,
        details=_details(inputs, binned) | {"pruned": np.flatnonzero(~alive).tolist()},
    )


def _jemmig_of(k: int, inputs: Inputs, binned: Binned, alive: Bools, bins: int) -> float:
    if not alive.any():
        return 0.0
    told = np.where(alive, binned.shared[:, k], -1.0)
    best = int(told.argmax())
    size = int(binned.codes[:, best].max()) + 1 if inputs.discrete[best] else bins
    joint = entropy(binned.codes[:, best]) + binned.entropies[k] - told[best]
    gap = top_gap(told[alive, None])[0]
    return float(1 - (joint - gap) / (binned.entropies[k] + np.log(size)))


@framed
def dcimig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: DCIMIGProtocol = "sepliarskaia2019",
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Share of the factors' information in codes that each hold one factor alone.

    Code j counts for the factor a that it knows most of, with the gap
    R_j = I(z_j; v_a) - max_{k != a} I(z_j; v_k). With S_k the largest gap among the codes that
    count for factor k, 0 if there are none, the score is sum_k S_k / sum_k H(v_k).
    [Sepliarskaia2019]

    Protocols: `sepliarskaia2019`, from bins: 20 of equal width over the range of each posterior
    mean, from 10,000 rows. It asks as DCI does that a code holds one factor, by gaps of mutual
    information as MIG; a second code of the same factor costs nothing. Ubisoft's library has the
    same formula.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers, which are cut into bins as codes are.
        protocol: whose definition.
        rng: seed or generator, for the rows.
        samples: rows to estimate from.
        bins: bins to a code and to a continuous factor.
        discrete: (D,) mask of codes that are categories; these are not binned.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: S_k / H(v_k) of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> dcimig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(dcimig/sepliarskaia2019 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(DCIMIGProtocol))
    inputs, binned = read_binned(
        codes,
        factors,
        rng=rng,
        samples=samples,
        bins=bins,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    shared, h = binned.shared[:, inputs.scored], binned.entropies[inputs.scored]
    mine = shared.argmax(1)[:, None] == np.arange(len(h))  # (D, K)
    best = np.where(mine, top_gap(shared.T)[:, None], 0.0).max(0)
    return Score(
        name="dcimig",
        protocol=protocol,
        value=float(best.sum() / h.sum()) if h.any() else 0.0,
        parts={
            inputs.names[k]: float(s / e) if e else 0.0
            for k, s, e in zip(inputs.scored, best, h, strict=True)
        },
        matrix=binned.normalised,
        details=_details(inputs, binned),
    )


def active(inputs: Inputs, std_threshold: float) -> Bools:
    """Codes (D,) of at least this standard deviation, and categories that are not constant."""
    spread = inputs.codes.std(0)
    alive: Bools = (spread > 0) & (inputs.discrete | (spread >= std_threshold))
    return alive


def _details(inputs: Inputs, binned: Binned) -> dict[str, Detail]:
    return {
        "rows": inputs.rows,
        "samples": len(binned.codes),
        "best codes": binned.shared.argmax(0)[inputs.scored].tolist(),
        "factors cut into bins": inputs.continuous_names,
        "factors left out": list(inputs.left_out),
    }
