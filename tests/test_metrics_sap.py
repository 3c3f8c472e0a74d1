"""SAP against scikit-learn, and degenerate tables."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.svm import LinearSVC

from lattice_tables import identity, kinds
from plain_splits import UNEVEN, categories, halves
from unweave.metrics import sap
from unweave.metrics.sap import categorical_svm, linear_svm


def by_loops(score_of, dims):
    """1/K sum_k of best minus second best."""
    matrix = np.array([[score_of(j, k) for k in range(3)] for j in range(dims)])
    gaps = [sorted(column)[-1] - sorted(column)[-2] for column in matrix.T]
    return matrix, np.mean(gaps)


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("values", [np.arange(6), UNEVEN, np.sqrt(np.arange(6))])
def test_kumar2018_by_loops(kind, values):
    codes, factors = kinds()[kind], values[identity().factors]

    def r2(j, k):
        return (
            LinearRegression().fit(codes[:, [j]], factors[:, k]).score(codes[:, [j]], factors[:, k])
        )

    matrix, expected = by_loops(r2, codes.shape[1])
    score = sap(codes, factors, protocol="kumar2018")
    np.testing.assert_allclose(score.matrix, matrix, atol=1e-12)
    assert float(score) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", kinds())
def test_locatello2019_matches_scikit_learn(kind):
    codes, factors = kinds()[kind], identity().factors
    train, y, test, truth = halves(codes, factors, 5)

    def accuracy(j, k):
        machine = LinearSVC(C=0.01, class_weight="balanced")
        return machine.fit(train[:, [j]], y[:, k]).score(test[:, [j]], truth[:, k])

    matrix, expected = by_loops(accuracy, codes.shape[1])
    score = sap(codes, factors, seed=5)
    np.testing.assert_allclose(score.matrix, matrix, atol=0.01)
    assert float(score) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_support_vector_machines_match_scikit_learn(classes, scale):
    rng = np.random.default_rng(classes)
    labels = np.minimum(rng.integers(classes + 2, size=400), classes - 1)  # the last is frequent
    x = scale * (labels + 0.7 * rng.standard_normal(400) - 2)
    order = np.argsort(x)
    w, b = linear_svm(x[order], labels[order], classes)
    peer = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    peer.fit(x[:, None], labels)
    last = slice(1, None) if classes == 2 else slice(None)
    np.testing.assert_allclose(w[last], peer.coef_[:, 0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(b[last], peer.intercept_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("classes", [2, 5])
def test_support_vector_machines_of_categories_match_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    labels = np.minimum(rng.integers(classes + 2, size=400), classes - 1)
    odd = rng.random(400) < 0.3
    z = np.eye(6)[np.where(odd, rng.integers(6, size=400), labels)]
    w, b = categorical_svm(z, labels, classes)
    peer = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    peer.fit(z, labels)
    last = slice(1, None) if classes == 2 else slice(None)
    np.testing.assert_allclose(w[last], peer.coef_, atol=1e-5)
    np.testing.assert_allclose(b[last], peer.intercept_, atol=1e-5)


def test_unevenly_spaced_values_as_codes_are_perfect():
    values = np.column_stack([UNEVEN[identity().factors[:, 0]], identity().factors[:, 1]])
    score = sap(values * [-0.3, 2.0], values, protocol="kumar2018")
    np.testing.assert_allclose(score.matrix.diagonal(), 1, atol=1e-12)
    assert float(score) == pytest.approx(1, abs=1e-9)


def test_a_constant_code_predicts_as_scikit_learn_does():
    factors = np.minimum(np.argwhere(np.ones((5, 6, 20)))[:, :2], [2, 3])  # the last are frequent
    codes = np.column_stack([4.0 * factors[:, 0], np.zeros(len(factors))])
    score = sap(codes, factors, seed=1)
    train, y, test, truth = halves(codes, factors, 1)
    for k in range(2):
        machine = LinearSVC(C=0.01, class_weight="balanced").fit(train[:, [1]], y[:, k])
        assert score.matrix[1, k] == machine.score(test[:, [1]], truth[:, k])
    # A code of noise so faint that no slope is worth it is as good as a constant.
    codes[:, 1] = 1e-6 * np.random.default_rng(0).standard_normal(len(codes))
    np.testing.assert_allclose(sap(codes, factors, seed=1).matrix, score.matrix, atol=1e-12)


@pytest.mark.parametrize("protocol", ["locatello2019", "kumar2018"])
def test_categories_are_read_one_hot(protocol):
    factors, codes, renamed = categories(np.random.default_rng(3))
    discrete = np.array([True, False])
    score = sap(codes, factors, protocol=protocol, discrete=discrete)
    train, y, test, truth = halves(codes, factors, 0)
    if protocol == "kumar2018":
        train = test = codes
        y = truth = factors
    for k in range(2):
        if protocol == "kumar2018":
            model = LinearRegression()
        else:
            model = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-9)
        model.fit(np.eye(6)[train[:, 0].astype(int)], y[:, k])
        right = model.score(np.eye(6)[test[:, 0].astype(int)], truth[:, k])
        assert score.matrix[0, k] == pytest.approx(right, abs=1e-9)
    again = sap(renamed, factors, protocol=protocol, discrete=discrete)
    np.testing.assert_allclose(again.matrix, score.matrix, atol=1e-12)


def test_two_values_are_separated_perfectly():
    factors = np.argwhere(np.ones((2, 2, 2, 2, 4, 4)))[:, :3]
    score = sap(factors * 4.0, factors)
    # The other codes are right half of the time.
    assert float(score) == pytest.approx(0.5, abs=0.1)
    assert score.matrix.diagonal().min() == 1.0
    noise = np.random.default_rng(0).standard_normal((len(factors), 3))
    assert float(sap(noise, factors)) < 0.15


@pytest.mark.parametrize("protocol", ["locatello2019", "kumar2018"])
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_sap_of_degenerate_tables(protocol):
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
    with pytest.raises(ValueError, match=r"is not known: .*he choices are"):
        sap(np.eye(9), np.arange(9)[:, None], protocol="kumar")
