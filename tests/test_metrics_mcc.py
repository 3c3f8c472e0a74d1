"""The mean correlation coefficient against scipy's correlations and all matchings."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from lattice_tables import TABLES, blurred, identity, noise
from unweave.metrics import mcc

CORRELATIONS = {"pearson": pearsonr, "spearman": spearmanr}


@pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_mcc_over_all_matchings(base, correlation):
    base = base()
    found = [
        [abs(CORRELATIONS[correlation](z, v).statistic) for v in base.factors.T]
        for z in base.codes.T
    ]
    best = max(
        sum(found[j][k] for k, j in enumerate(matching)) / 3
        for matching in permutations(range(base.codes.shape[1]), 3)
    )
    score = mcc(base.codes, base.factors, correlation=correlation)
    assert float(score) == pytest.approx(best, abs=1e-9)
    np.testing.assert_allclose(score.matrix, found, atol=1e-9)


def test_rank_correlation_is_invariant_under_monotone_maps():
    base = blurred()
    bent = np.exp(base.codes)
    ranks = {"correlation": "spearman"}
    assert float(mcc(bent, base.factors, **ranks)) == float(mcc(base.codes, base.factors, **ranks))
    assert float(mcc(bent, base.factors)) < float(mcc(base.codes, base.factors)) - 0.05


def test_continuous_factors():
    v = np.random.default_rng(0).uniform(size=(200, 2))
    assert float(mcc(v @ [[0, -3.0], [2.0, 0]] + 5, v)) == pytest.approx(1.0)


def test_factors_without_a_code_and_codes_without_a_correlation():
    base = identity()
    assert float(mcc(base.codes[:, :2], base.factors)) == pytest.approx(2 / 3)
    assert mcc(base.codes[:, :2], base.factors).details["codes matched"] == [0, 1, -1]
    constant = np.column_stack([np.full(480, 0.1), base.codes[:, 0]])
    np.testing.assert_allclose(mcc(constant, base.factors).matrix[0], 0.0)
    mask = [True, False, False]
    assert float(mcc(base.codes, base.factors, discrete=mask)) == pytest.approx(2 / 3)
    assert float(mcc(noise().codes, base.factors)) < 0.15
    with pytest.raises(ValueError, match=r"is not known: the choices are pearson, spearman"):
        mcc(base.codes, base.factors, correlation="kendall")
