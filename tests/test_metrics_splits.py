"""Metrics that train predictors, on a given split into training and test rows."""

import numpy as np
import pytest

from lattice_tables import blurred
from unweave.metrics import dci, dci_es, explicitness, sap
from unweave.metrics.arrays import as_row_mask

METRICS = {
    "dci/locatello2019": (dci, {"protocol": "locatello2019"}),
    "dci/esmaeili2019": (dci, {"protocol": "esmaeili2019"}),
    "dci/eastwood2018": (dci, {"protocol": "eastwood2018"}),
    "dci_es": (dci_es, {"depths": (1, 4)}),
    "sap": (sap, {}),
    "explicitness/locatello2019": (explicitness, {"protocol": "locatello2019"}),
    "explicitness/ridgeway2018": (explicitness, {"protocol": "ridgeway2018"}),
}
BASE = blurred()
CODES, FACTORS = BASE.codes[:240], BASE.factors[:240]


@pytest.mark.parametrize(("metric", "options"), METRICS.values(), ids=METRICS)
def test_the_split_drawn_inside_can_be_given(metric, options):
    inside = metric(CODES, FACTORS, seed=5, **options)
    chosen = np.random.default_rng(5).permutation(240)[160:]
    mask = np.isin(np.arange(240), chosen)
    for test_rows in (chosen, mask):
        given = metric(CODES, FACTORS, seed=5, test_rows=test_rows, **options)
        assert given.to_json() == inside.to_json()
    other = metric(CODES, FACTORS, seed=5, test_rows=~mask, **options)
    assert (other.details["training rows"], other.details["test rows"]) == (80, 160)
    assert other.rows_read == 240
    assert float(other) != float(inside)


def test_predictors_are_fitted_to_the_other_rows_only():
    codes = CODES.copy()
    codes[::3] = np.random.default_rng(0).standard_normal(codes[::3].shape)  # useless test rows
    test_rows = np.arange(240) % 3 == 0
    score = sap(codes, FACTORS, test_rows=test_rows)
    assert score.details["test rows"] == 80
    np.testing.assert_array_equal(
        sap(codes[::-1], FACTORS[::-1], test_rows=test_rows[::-1]).matrix, score.matrix
    )
    assert explicitness(codes, FACTORS, test_rows=test_rows).details["training value"] > 0.75
    assert float(explicitness(codes, FACTORS, test_rows=test_rows)) < 0.6


def test_subsets_keep_rows_on_their_side_of_the_split():
    test_rows = np.arange(0, 240, 4)
    score = dci(
        CODES, FACTORS, protocol="eastwood2018", test_rows=test_rows,
        interval=0.9, resamples=5, null=True, shuffles=2, ceiling=True, reseeds=2,
    )  # fmt: skip
    assert score.interval[0] < float(score) < score.interval[1]
    assert score.details["seed std"] < 1e-9  # only the split is random, and it is given
    assert score.details["ceiling"] > 0.99
    with pytest.raises(ValueError, match=r"random subset .*\(expected test_rows to leave rows"):
        dci(CODES, FACTORS, protocol="eastwood2018", test_rows=[0], interval=0.9, resamples=20)


@pytest.mark.parametrize(
    "test_rows",
    [np.zeros(239, bool), [0, 240], [-1, 2], [3, 3], [], [0.5], np.zeros((240, 1), bool)],
    ids=["short", "beyond", "negative", "twice", "empty", "real", "matrix"],
)
def test_test_rows_that_do_not_fit_are_refused(test_rows):
    with pytest.raises(ValueError, match="expected test_rows as a mask of 240 booleans or"):
        sap(CODES, FACTORS, test_rows=test_rows)


def test_both_sides_of_a_split_need_rows():
    for test_rows, count in ((np.zeros(240, bool), 0), (np.arange(240), 240)):
        with pytest.raises(ValueError, match=f"got {count} of 240 rows to test on"):
            explicitness(CODES, FACTORS, test_rows=test_rows)
    with pytest.raises(ValueError, match=r"no test_rows for the protocol kumar2018"):
        sap(CODES, FACTORS, protocol="kumar2018", test_rows=[0])


def test_row_masks():
    np.testing.assert_array_equal(as_row_mask("rows", [2, 0], 3), [True, False, True])
