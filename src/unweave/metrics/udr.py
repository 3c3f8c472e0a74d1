"""UDR, unsupervised disentanglement ranking: which of several models agree with the others."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Bools, Floats, Seed, as_codes, as_kl, subset
from unweave.metrics.predictors import lasso, standardise
from unweave.metrics.score import Score
from unweave.metrics.validation import check_arguments

UDRProtocol = Literal["duan2020-lasso", "duan2020-spearman"]

_ALPHA = 0.1  # weight of the L1 penalty, [Duan2020]


@check_arguments
def udr(
    codes: Sequence[ArrayLike],
    *,
    protocol: UDRProtocol = "duan2020-lasso",
    kl: Sequence[ArrayLike] | None = None,
    kl_threshold: float = 0.01,
    seed: Seed = 0,
    samples: int = 10_000,
) -> list[Score]:
    """Compute how well each model agrees with the others on a one-to-one matching of codes.

    For models i and j on the same rows, R (D_i, D_j) measures how strongly their codes are related;
    r_ij = 1/2 [mean_b max_a R_ab^2 / sum_a R_ab + mean_a max_b R_ab^2 / sum_b R_ab] is 1 if each
    code of one is a code of the other. The score of model j is the median of r_ij over the others
    i.  [Duan2020], with the constants and means of its released code (in disentanglement_lib)

    Protocols: `duan2020-lasso` takes the absolute coefficients of a lasso (alpha = 0.1) that
    predicts the standardised codes of j from those of i as R, so even equal codes reach only 0.9;
    `duan2020-spearman` takes absolute rank correlations.

    Only informative codes count: those that vary and, if `kl` is given, have a mean KL above 0.01
    nats. A pair in which a model has none scores 0. Models may have different numbers of codes. The
    released code samples rows for each call; here all pairs share the same `samples` random rows.

    Args:
        codes: (N, D_m) posterior means of each of at least two models, with the same observation in
            row n of all.
        protocol: how to compare codes.
        kl: (D_m,) mean KL(q(z_j|x) || p(z_j)) of each model.
        kl_threshold: nats above which a code is informative.
        seed: an integer or a NumPy generator, to choose rows if there are more than `samples`.
        samples: rows to compare on.

    Returns:
        A score for each model, in [0, 1]. Parts: r_ij with each other model.

    >>> z = np.random.default_rng(0).standard_normal((500, 3))
    >>> turned = z @ [[1, 1, 0], [1, -1, 0], [0, 0, 1]]
    >>> [round(s.value, 2) for s in udr([z, -z[:, ::-1], turned], protocol="duan2020-spearman")]
    [0.77, 0.77, 0.56]
    """
    tables = [as_codes(each).astype(np.float64) for each in codes]
    masks = _informative(tables, kl, kl_threshold)
    rows = subset(len(tables[0]), samples, np.random.default_rng(seed))
    # A code that varies may be constant in the chosen rows: it becomes 0, related to none.
    prepared = [standardise(z[rows][:, mask])[0] for z, mask in zip(tables, masks, strict=True)]
    if protocol == "duan2020-spearman":
        from scipy.stats import rankdata

        prepared = [standardise(rankdata(z, axis=0))[0] for z in prepared]
    count = len(prepared)
    pairs = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            if i != j and prepared[i].size and prepared[j].size:
                a, b = prepared[i], prepared[j]
                if protocol == "duan2020-lasso":
                    strengths = lasso(a.T @ a / len(a), a.T @ b / len(a), _ALPHA)
                else:
                    strengths = np.einsum("na,nb->ab", a, b) / len(a)  # correlations
                pairs[i, j] = one_to_one(np.abs(strengths))
    return [
        Score(
            "udr",
            protocol,
            float(np.median(np.delete(pairs[:, j], j))),
            parts={f"model {i}": float(pairs[i, j]) for i in range(count) if i != j},
            details={"rows": len(rows), "informative": np.flatnonzero(masks[j]).tolist()},
        )
        for j in range(count)
    ]


def one_to_one(strengths: Floats) -> float:
    """Compute 1/2 [mean_b max_a R_ab^2 / sum_a R_ab + mean_a max_b R_ab^2 / sum_b R_ab].

    >>> one_to_one(np.eye(2)), one_to_one(np.ones((2, 2))), one_to_one(np.zeros((2, 2)))
    (1.0, 0.5, 0.0)
    """
    return (_relative(strengths) + _relative(strengths.T)) / 2


def _relative(strengths: Floats) -> float:
    """Average largest^2 / sum over columns; 0 for a column of zeros."""
    top, total = strengths.max(0), strengths.sum(0)
    return float(np.divide(top**2, total, out=np.zeros_like(top), where=total > 0).mean())


def _informative(
    tables: list[Floats], kl: Sequence[ArrayLike] | None, threshold: float
) -> list[Bools]:
    """Return a mask (D_m,) of the informative codes of each model."""
    lengths = [len(z) for z in tables]
    if len(tables) < 2 or len(set(lengths)) > 1:
        raise ValueError(
            f"expected the codes of at least two models on the same rows, got {len(tables)} with "
            f"{', '.join(map(str, lengths)) or 'no'} rows: encode the same observations by each"
        )
    varied = [(z != z[:1]).any(0) for z in tables]
    if kl is None:
        return varied
    if len(kl) != len(tables):
        raise ValueError(f"expected kl of each of {len(tables)} models, got {len(kl)}")
    given = [as_kl(values, z.shape[1]) for values, z in zip(kl, tables, strict=True)]
    return [mask & (values > threshold) for mask, values in zip(varied, given, strict=True)]
