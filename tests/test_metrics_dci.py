"""DCI: its trees against scikit-learn's, its scores against loops, and degenerate tables."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import Lasso
from sklearn.tree import DecisionTreeRegressor

from lattice_tables import blurred, identity, kinds
from plain_splits import UNEVEN, categories, halves, scaled
from unweave.metrics import dci
from unweave.metrics.dci import purities, purity
from unweave.metrics.trees import boosting
from unweave.metrics.trees.boosting import bin_codes, boost, grow


def entangled(rows, sizes, dims, rng):
    """Codes that are noisy nonlinear mixtures of the factors, one rounded and one duplicated."""
    factors = np.stack([rng.integers(size, size=rows) for size in sizes], 1)
    mix = rng.standard_normal((len(sizes), dims)) * (rng.random((len(sizes), dims)) < 0.5)
    codes = np.tanh(factors / np.array(sizes) @ mix) + 0.1 * rng.standard_normal((rows, dims))
    codes[:, 0] = codes[:, 0].round(1)
    codes[:, 1] = codes[:, 2]
    return codes, factors


def peer(train, labels, **options):
    return GradientBoostingClassifier(random_state=0, **options).fit(train, labels)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_trees_match_scikit_learn_if_every_value_has_its_bin(classes):
    rng = np.random.default_rng(classes)
    z = rng.standard_normal((290, 4))
    labels = (z[:, 0] * 2 + z[:, 1] ** 2 + 0.5 * rng.standard_normal(290)).argsort().argsort()
    labels = labels * classes // 290 * 3 + 5
    train, test = z[:200], z[200:]
    ours = boost(train, labels[:200], test, np.random.default_rng(0), rounds=15)
    theirs = peer(train, labels[:200], n_estimators=15)
    # Several codes can split small nodes equally well; both implementations choose at random.
    np.testing.assert_allclose(ours.importances, theirs.feature_importances_, atol=0.01)
    assert (ours.predicted == theirs.predict(z)).mean() > 0.97


@pytest.mark.parametrize("k", [0, 1, 2])
def test_trees_are_close_to_scikit_learn_if_bins_are_wide(k, monkeypatch):
    monkeypatch.setattr(boosting, "BINS", 30)
    codes, factors = entangled(1500, (2, 4, 12), 6, np.random.default_rng(1))
    train, labels, test = codes[:1000], factors[:1000, k], codes[1000:]
    ours = boost(train, labels, test, np.random.default_rng(0), rounds=20)
    theirs = peer(train, labels, n_estimators=20)
    # The two equal codes share their importance at random, in both implementations.
    together = [0, 1, 3, 4, 5]
    near = theirs.feature_importances_
    near[1], near[2] = near[1] + near[2], 0
    own = ours.importances.copy()
    own[1], own[2] = own[1] + own[2], 0
    np.testing.assert_allclose(own[together], near[together], atol=0.01)
    assert abs(ours.importances[1] - ours.importances[2]) <= 0.3 * own[1]
    right = (ours.predicted[1000:] == factors[1000:, k]).mean()
    assert right == pytest.approx(theirs.score(test, factors[1000:, k]), abs=0.02)
    right = (ours.predicted[:1000] == labels).mean()
    assert right == pytest.approx(theirs.score(train, labels), abs=0.01)


@pytest.mark.parametrize("share", [0.02, 0.3])
@pytest.mark.parametrize("width", [5, 30, 100])
def test_a_tree_is_that_of_scikit_learn(width, share, monkeypatch):
    """Residuals are real numbers, so there are no ties, and splits of both are the same.

    With a small share of positive residuals most bins have none, and the best split may still lie
    within such a bin.
    """
    monkeypatch.setattr(boosting, "BINS", width)
    rng = np.random.default_rng(width)
    z = rng.standard_normal((3000, 4)).astype(np.float32).astype(np.float64)
    target = rng.random((6, 3000)) < share * np.exp(0.5 * z[:, 0])
    p = 1 / (1 + np.exp(-rng.standard_normal((6, 3000)) + z[:, 1] * np.sign(z[:, 2])))
    gains, steps = grow(bin_codes(z), z.T.copy(), target, p, rng)
    explained = 0.0
    for tree, r in enumerate(target - p):
        theirs = DecisionTreeRegressor(max_depth=3).fit(z, r)
        leaves, numbers = theirs.apply(z), steps[tree]
        for leaf in np.unique(leaves):
            inside = leaves == leaf
            expected = r[inside].sum() / (p * (1 - p))[tree, inside].sum()
            np.testing.assert_allclose(numbers[inside], expected, rtol=1e-6)
        explained += theirs.tree_.compute_feature_importances(normalize=False).sum() * len(r)
    # Only their sum: a node of a few rows may be split alike by two codes.
    np.testing.assert_allclose(gains.sum(), explained, rtol=1e-6)


def test_equal_values_are_in_the_same_bin():
    rng = np.random.default_rng(0)
    codes = np.stack([np.maximum(rng.standard_normal(3000), 0), rng.integers(9, size=3000)], 1)
    got = bin_codes(codes)
    for d, code in enumerate(codes.T):
        numbers = got.bin[d]
        assert (np.diff(code[np.argsort(code)]) >= 0).all()
        low = [code[numbers == b].min() for b in range(numbers.max() + 1)]
        high = [code[numbers == b].max() for b in range(numbers.max() + 1)]
        assert all(a < b for a, b in zip(high, low[1:], strict=False))
        sizes = np.bincount(numbers)
        np.testing.assert_array_equal(np.cumsum(sizes), got.end[d, : len(sizes)])
    assert (got.bin[1] == codes[:, 1]).all()
    zeros = got.bin[0] == 0
    assert set(codes[zeros, 0]) == {0.0}
    assert not got.divisible[0, 0]
    assert got.divisible[0, 1]
    assert got.slots.shape[2] < 3000 / boosting.BINS + 20


def entropic(matrix):
    """Disentanglement and completeness by loops."""
    total, score = matrix.sum(), 0.0
    for row in matrix:
        if row.sum() > 0:
            p = row / row.sum()
            h = -sum(x * np.log(x) / np.log(len(p)) for x in p if x > 0)
            score += row.sum() / total * (1 - h)
    return score


CASES = [
    *(("locatello2019", np.arange(6), kind) for kind in ("entangled", "duplicated")),
    *(
        (protocol, values, kind)
        for protocol in ("esmaeili2019", "eastwood2018")
        for values in (np.arange(6), UNEVEN)
        for kind in kinds()
    ),
]


@pytest.mark.parametrize(
    ("protocol", "values", "kind"),
    CASES,
    ids=lambda x: x if isinstance(x, str) else f"to {x[-1]}",
)
def test_dci_matches_scikit_learn(kind, protocol, values):
    codes, factors = kinds()[kind], values[identity().factors]
    score = dci(codes, factors, protocol=protocol, seed=3)
    z, labels, other, truths = halves(codes, factors, 3)
    assert (len(z), len(other)) == (320, 160)
    matrix, informativeness = np.zeros((codes.shape[1], 3)), []
    if protocol == "eastwood2018":
        z, other = scaled(z, other)
    for k in range(3):
        y, truth = labels[:, k], truths[:, k]
        if protocol == "locatello2019":
            model = peer(z, y)
            matrix[:, k] = model.feature_importances_
            informativeness.append(model.score(other, truth))
            continue
        y, truth = scaled(y, truth)
        lasso = protocol == "eastwood2018"
        model = Lasso(alpha=0.02) if lasso else RandomForestRegressor(10, random_state=k)
        model.fit(z, y)
        matrix[:, k] = abs(model.coef_) if lasso else model.feature_importances_
        error = np.sqrt(((model.predict(other) - truth) ** 2).mean())
        informativeness.append(max(0, 1 - error / truth.std()))
    # Forests differ by their draws, of which there are only ten.
    near = 0.06 if protocol == "esmaeili2019" else 0.02
    ours = score.matrix
    if kind == "duplicated":  # equal codes share their importance at random
        matrix, ours = (m.reshape(3, 2, 3).sum(1) for m in (matrix, ours))
    np.testing.assert_allclose(ours, matrix, atol=near)
    assert score.parts["informativeness"] == pytest.approx(np.mean(informativeness), abs=near)
    assert score.details["training informativeness"] >= score.parts["informativeness"] - 0.03
    if kind != "duplicated":
        each = [entropic(column[None]) for column in matrix.T]
        complete = np.mean(each) if protocol == "eastwood2018" else entropic(matrix.T)
        assert score.parts["disentanglement"] == pytest.approx(entropic(matrix), abs=near)
        assert score.parts["completeness"] == pytest.approx(complete, abs=near)


def test_purity_by_loops():
    matrix = np.random.default_rng(0).random((5, 4)) ** 3
    matrix[2] = 0
    matrix[:, 1] = 0
    assert purity(matrix) == pytest.approx(entropic(matrix), abs=1e-12)
    np.testing.assert_allclose(purities(matrix), [entropic(row[None]) for row in matrix])
    assert purity(np.ones((3, 3))) == pytest.approx(0, abs=1e-12)
    assert purity(np.zeros((3, 3))) == 0.0
    assert purity(np.ones((3, 1))) == 1.0


def test_completeness_of_the_lasso_weighs_factors_equally():
    rng = np.random.default_rng(0)
    factors = rng.integers(10, size=(3000, 2))
    v = (factors - factors.mean(0)) / factors.std(0)
    faint = 0.3 * v[:, [1]] + rng.standard_normal((3000, 2))
    score = dci(np.column_stack([v[:, 0], faint]), factors, protocol="eastwood2018")
    strength = score.matrix.sum(0)
    assert strength[0] > 1.5 * strength[1]
    expected = np.mean([entropic(column[None]) for column in score.matrix.T])
    assert score.parts["completeness"] == pytest.approx(expected, abs=1e-12)
    assert entropic(score.matrix.T) > expected + 0.1


@pytest.mark.parametrize("protocol", ["locatello2019", "esmaeili2019", "eastwood2018"])
def test_labels_of_categories_do_not_matter(protocol):
    factors, codes, renamed = categories(np.random.default_rng(3), rows=300)
    one, other = (
        dci(z, factors, protocol=protocol, discrete=[True, False]) for z in (codes, renamed)
    )
    np.testing.assert_allclose(other.matrix, one.matrix, atol=1e-9)
    assert other.parts == pytest.approx(one.parts, abs=1e-9)
    # The importance of a category is that of its code, here by scikit-learn.
    if protocol == "eastwood2018":
        wide = np.column_stack([np.eye(6)[codes[:, 0].astype(int)], codes[:, 1]])
        train, y, _, _ = halves(wide, factors, 0)
        w = Lasso(alpha=0.02, tol=1e-9).fit(scaled(train, train)[0], scaled(y, y)[0]).coef_
        np.testing.assert_allclose(one.matrix[1], np.abs(w[:, 6]), atol=1e-4)
        np.testing.assert_allclose(one.matrix[0], np.abs(w[:, :6]).sum(1), atol=1e-4)


@pytest.mark.parametrize("protocol", ["esmaeili2019", "eastwood2018"])
def test_regression_takes_real_numbers(protocol):
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(900, 3))
    score = dci(factors * [1, -3, 2], factors, protocol=protocol)
    assert min(score.parts.values()) > 0.95
    with pytest.raises(ValueError, match="expected factors that are classes"):
        dci(factors, factors)


def test_dci_of_duplicated_missing_and_noise_codes():
    base = identity()
    doubled = dci(np.repeat(base.codes, 2, 1), base.factors)
    assert doubled.parts["disentanglement"] > 0.99
    # Two equal codes share a factor, at random: H_6 of halves is log 2 / log 6.
    assert doubled.parts["completeness"] == pytest.approx(1 - np.log(2) / np.log(6), abs=0.03)
    missing = dci(base.codes[:, :2], base.factors)
    assert missing.parts["informativeness"] < 0.8
    noise = dci(np.random.default_rng(0).standard_normal((480, 4)), base.factors)
    assert noise.parts["disentanglement"] < 0.1
    assert noise.parts["informativeness"] < 0.4
    assert noise.details["training informativeness"] > 0.9


@pytest.mark.parametrize("protocol", ["locatello2019", "esmaeili2019", "eastwood2018"])
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_dci_of_odd_tables(protocol):
    three = dci([[0.1], [0.2], [0.5]], [[0], [1], [0]], protocol=protocol)
    assert all(0 <= part <= 1 for part in three.parts.values())
    constant = dci(np.ones((30, 2)), np.arange(30)[:, None] % 3, protocol=protocol)
    assert constant.parts["disentanglement"] == constant.parts["completeness"] == 0.0
    single = dci(np.arange(30)[:, None] % 3, np.arange(30)[:, None] % 3, protocol=protocol)
    assert single.parts["disentanglement"] == single.parts["completeness"] == 1.0
    # A value in one row only, so that it is missing from one side of the split.
    rare = np.zeros((40, 1), int)
    rare[0] = 1
    score = dci(np.random.default_rng(0).standard_normal((40, 2)), rare, protocol=protocol)
    assert np.isfinite([*score.parts.values(), *score.matrix.ravel()]).all()
    with pytest.raises(ValueError, match="finite codes"):
        dci(np.full((9, 2), np.nan), np.arange(9)[:, None], protocol=protocol)
    with pytest.raises(ValueError, match="at least 1 row to train"):
        dci(np.eye(9), np.arange(9)[:, None], protocol=protocol, train=0)


def test_dci_does_not_depend_on_the_number_of_threads(monkeypatch):
    base = blurred()
    scores = []
    for threads in (1, 3):
        monkeypatch.setattr("unweave.core.parallel.usable_cores", lambda n=threads: n)
        scores.append(dci(base.codes[:160], base.factors[:160]).matrix)
    np.testing.assert_array_equal(*scores)
