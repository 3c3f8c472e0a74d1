"""Modularity: whether each code depends on one factor only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.gaps import active
from unweave.metrics.information import read_binned
from unweave.metrics.inputs import Floats, Inputs, Seed, check_choice
from unweave.metrics.options import Frame, framed
from unweave.metrics.score import Score

ModularityProtocol = Literal["locatello2019", "ridgeway2018"]


@framed
def modularity(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: ModularityProtocol = "locatello2019",
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    std_threshold: float = 0.05,
    **frame: Unpack[Frame],
) -> Score:
    """How little the codes know of factors other than the one they know most of.

    1/D sum_j (1 - sum_{k != a} I(z_j; v_k)^2 / (I(z_j; v_a)^2 (K - 1))), where a is the factor that
    code j knows most of.  [Ridgeway2018]

    Protocols: `locatello2019` takes the mutual information of 20 bins of equal width over the range
    of a code, from 10,000 rows, and gives 0 to a code that knows nothing, in a mean over all codes:
    dead codes cost.  [Locatello2019]  `ridgeway2018` leaves these codes out, which the paper does
    not define (0/0): discrete codes that are constant, and others whose standard deviation is under
    0.05, our choice. If all are left out, it is 0.

    Modularity is high for codes that know next to nothing of anything, by the luck of counts:
    compare it with its null. Ubisoft's library takes 10 bins, and divides by 0 for dead codes.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers, which are cut into bins as codes are; two or more
            that vary.
        protocol: which codes count.
        rng: seed or generator, for the rows.
        samples: rows to estimate from.
        bins: bins to a code and to a continuous factor.
        discrete: (D,) mask of codes that are categories; these are not binned.
        factor_names: names of the factors.
        leave_out: factors not to score, by name or number.
        std_threshold: standard deviation below which `ridgeway2018` leaves a code out.

    Returns:
        Parts: the modularity of each code that counts. Matrix: I(z_j; v_k) in nats, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> modularity(factors @ [[1, 0], [0, 2]], factors)
    Score(modularity/locatello2019 = 1.0000; code 0 1.000, code 1 1.000)
    """
    check_choice("protocol", protocol, get_args(ModularityProtocol))
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
    check_two_factors(inputs)
    each = _of_each(binned.shared[:, inputs.scored])
    counted = np.ones(inputs.dims, np.bool_)
    if protocol == "ridgeway2018":
        counted = active(inputs, std_threshold)
    return Score(
        name="modularity",
        protocol=protocol,
        value=float(each[counted].mean()) if counted.any() else 0.0,
        parts={f"code {j}": float(each[j]) for j in np.flatnonzero(counted)},
        matrix=binned.shared,
        details={
            "rows": inputs.rows,
            "samples": len(binned.codes),
            "pruned": np.flatnonzero(~counted).tolist(),
            "factors cut into bins": inputs.continuous_names,
            "factors left out": list(inputs.left_out),
        },
    )


def check_two_factors(inputs: Inputs) -> None:
    """Raise unless two factors can be told apart."""
    if len(inputs.scored) < 2:
        raise ValueError(
            f"expected at least 2 factors that vary, got {inputs.names[inputs.scored[0]]} alone: "
            "whether codes mix factors cannot be seen from one"
        )


def _of_each(shared: Floats) -> Floats:
    """The modularity of each code (D,) by its information (D, K); 0 without any."""
    squared = shared**2
    most = squared.max(1)
    rest = (squared.sum(1) - most) / (shared.shape[1] - 1)
    return np.where(
        most > 0, 1 - np.divide(rest, most, where=most > 0, out=np.ones_like(most)), 0.0
    )
