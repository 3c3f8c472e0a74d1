"""SAP against loops over scikit-learn, its laws, and what it makes of the odd."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.svm import LinearSVC

from lattice_tables import identity, kinds
from unweave.metrics import sap
from unweave.metrics.inputs import read
from unweave.metrics.predictors import split
from unweave.metrics.separated import machines


def by_loops(score_of, dims):
    """1/K sum_k of best minus second best."""
    matrix = np.array([[score_of(j, k) for k in range(3)] for j in range(dims)])
    gaps = [sorted(column)[-1] - sorted(column)[-2] for column in matrix.T]
    return matrix, np.mean(gaps)


@pytest.mark.parametrize("kind", kinds())
def test_regression_form_by_loops(kind):
    codes, factors = kinds()[kind], identity().factors

    def r2(j, k):
        return (
            LinearRegression().fit(codes[:, [j]], factors[:, k]).score(codes[:, [j]], factors[:, k])
        )

    matrix, expected = by_loops(r2, codes.shape[1])
    score = sap(codes, factors, protocol="kumar2018")
    np.testing.assert_allclose(score.matrix, matrix, atol=1e-12)
    assert float(score) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", kinds())
def test_classifier_form_by_loops(kind):
    codes, factors = kinds()[kind], identity().factors
    rows = split(read(codes, factors), 10_000, 5_000, np.random.default_rng(5))
    back = np.argsort(rows.active)
    train, test = rows.train[:, back], rows.test[:, back]

    def accuracy(j, k):
        machine = LinearSVC(C=0.01, class_weight="balanced")
        machine.fit(train[:, [j]], rows.train_factors[:, k])
        return machine.score(test[:, [j]], rows.test_factors[:, k])

    matrix, expected = by_loops(accuracy, codes.shape[1])
    score = sap(codes, factors, rng=5)
    np.testing.assert_allclose(score.matrix, matrix, atol=0.01)
    assert float(score) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_machines_are_those_of_scikit_learn(classes, scale):
    rng = np.random.default_rng(classes)
    labels = np.minimum(rng.integers(classes + 2, size=400), classes - 1)  # the last is frequent
    x = scale * (labels + 0.7 * rng.standard_normal(400) - 2)
    order = np.argsort(x)
    w, b = machines(x[order], labels[order], classes)
    peer = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    peer.fit(x[:, None], labels)
    last = slice(1, None) if classes == 2 else slice(None)
    np.testing.assert_allclose(w[last], peer.coef_[:, 0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(b[last], peer.intercept_, rtol=1e-3, atol=1e-4)


def test_two_values_are_told_perfectly():
    factors = np.argwhere(np.ones((2, 2, 2, 2, 4, 4)))[:, :3]
    score = sap(factors * 4.0, factors)
    # The other codes are right half of the time.
    assert float(score) == pytest.approx(0.5, abs=0.1)
    assert score.matrix.diagonal().min() == 1.0
    noise = np.random.default_rng(0).standard_normal((len(factors), 3))
    assert float(sap(noise, factors)) < 0.15


@pytest.mark.parametrize("protocol", ["locatello2019", "kumar2018"])
def test_sap_of_odd_tables(protocol):
    three = sap([[0.1], [0.2], [0.5]], [[0], [1], [0]], protocol=protocol)
    assert 0 <= float(three) <= 1
    constant = sap(np.full((30, 2), 0.1), np.arange(30)[:, None] % 3, protocol=protocol)
    assert float(constant) == 0.0
    rare = np.zeros((40, 1), int)
    rare[0] = 1
    score = sap(np.random.default_rng(0).standard_normal((40, 2)), rare, protocol=protocol)
    assert np.isfinite(score.matrix).all()
    with pytest.raises(ValueError, match="finite codes"):
        sap(np.full((9, 2), np.nan), np.arange(9)[:, None], protocol=protocol)
    with pytest.raises(ValueError, match="protocol to be one of"):
        sap(np.eye(9), np.arange(9)[:, None], protocol="kumar")
