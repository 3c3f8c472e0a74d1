"""InfoMEC against scikit-learn's estimators and plain loops over its formulas."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from lattice_tables import TABLES, blurred, identity, noise, with_columns
from unweave.metrics import evaluate, info_mec
from unweave.metrics.infomec import logistic_entropy, neighbour_information

tables = pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)


@pytest.mark.parametrize("neighbours", [1, 3, 10])
def test_information_matches_scikit_learn(neighbours):
    rng = np.random.default_rng(0)
    labels = np.append(rng.integers(5, size=300), [5, 6, 6])  # alone, and two of a kind
    x = np.append(labels[:300] * 0.5, [0.0, 1.0, 1.5]) + rng.standard_normal(303)
    expected = mutual_info_classif(x[:, None], labels, n_neighbors=neighbours)[0]
    # It compares squares of distances, so that rounding counts the k-th neighbour here and there.
    assert neighbour_information(x, labels, neighbours) == pytest.approx(expected, abs=1e-3)
    assert expected > 0.05


def fitted_entropy(x, labels):
    """As the authors' code has it, on any version of scikit-learn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops at 100 steps
        model = LogisticRegression(C=1e12, class_weight="balanced", max_iter=100).fit(x, labels)
    return log_loss(labels, model.predict_proba(x))


def test_logistic_regression_matches_scikit_learn():
    rng = np.random.default_rng(1)
    labels = np.minimum(rng.poisson(1.2, size=400), 4)  # classes of different sizes
    x = rng.standard_normal((400, 3)) + 0.5 * labels[:, None]
    assert logistic_entropy(x, labels) == pytest.approx(fitted_entropy(x, labels), abs=1e-3)
    assert logistic_entropy(0 * x, labels) == pytest.approx(math.log(5), abs=1e-6)


def info_by_loops(codes, factors):
    """InfoM and InfoC of active codes, by scikit-learn's estimates."""
    table = [
        [
            mutual_info_classif(code[:, None], v, n_neighbors=10, random_state=0)[0]
            / math.log(len(set(v)))
            for v in factors.T
        ]
        for code in codes.T
    ]
    d, k = codes.shape[1], factors.shape[1]
    rows = [max(row) / sum(row) if sum(row) else 1 / k for row in table]
    columns = [
        max(column) / sum(column) if sum(column) else 1 / d for column in zip(*table, strict=True)
    ]
    return (sum(rows) / d - 1 / k) / (1 - 1 / k), (sum(columns) / k - 1 / d) / (1 - 1 / d)


def active_by_loops(codes, protocol):
    def spread(column):
        if protocol == "hsu2023":
            return (max(column) - min(column)) * 8
        low, high = np.percentile(column, (25, 75))
        return (high - low) * 10

    most = max(map(spread, codes.T)) / (8 if protocol == "hsu2023" else 10)
    return [j for j, column in enumerate(codes.T) if spread(column) > most]


@tables
@pytest.mark.parametrize("protocol", ["hsu2023", "hsu2024"])
def test_info_mec_by_loops(base, protocol):
    base = base()
    untied = base.codes + 0.01 * np.random.default_rng(3).standard_normal(base.codes.shape)
    base = replace(base, codes=untied)
    small = 0.09 * blurred().codes[:, :1]  # active by neither rule
    heavy = np.where(np.arange(480) == 7, 4.0, 0.02 * base.codes[:, 0])  # active by its range only
    whole = with_columns(base, np.column_stack([small, heavy]), np.ones((480, 2)))
    score = info_mec(whole.codes, whole.factors, protocol=protocol)
    alive = active_by_loops(whole.codes, protocol)
    pruned = [j for j in range(whole.codes.shape[1]) if j not in alive]
    assert score.details["pruned"] == pruned
    assert (len(alive) - base.codes.shape[1]) == (1 if protocol == "hsu2023" else 0)
    infom, infoc = info_by_loops(whole.codes[:, alive], whole.factors)
    scaled = (whole.codes - whole.codes.mean(0)) / whole.codes.std(0)
    infoe = [1 - fitted_entropy(scaled, v) / math.log(len(set(v))) for v in whole.factors.T]
    assert float(score) == score.parts["modularity"] == pytest.approx(infom, abs=2e-3)
    assert score.parts["compactness"] == pytest.approx(infoc, abs=2e-3)
    # Where a plane parts the classes, the regression without penalty ends by its 100 steps only.
    assert score.parts["explicitness"] == pytest.approx(sum(infoe) / 3, abs=0.02)


def test_explicitness_of_a_continuous_factor_is_the_variance_explained():
    rng = np.random.default_rng(2)
    v = rng.uniform(size=(300, 2))
    z = v @ [[1.0, 0.3], [0.2, 1.0]] + 0.2 * rng.standard_normal((300, 2))
    expected = np.mean([LinearRegression().fit(z, c).score(z, c) for c in v.T])
    assert info_mec(z, v).parts["explicitness"] == pytest.approx(expected, abs=1e-9)
    assert 0 <= float(info_mec(z, v)) <= 1


def test_categories_are_counted_and_read_one_hot():
    base = identity()
    labels = np.array([7.0, 0.0, 5.0, 2.0])[base.factors[:, 0]]
    codes = np.column_stack([labels, base.codes[:, 1:], np.full(480, 3.0)])
    mask = [True, False, False, True]
    score = info_mec(codes, base.factors, discrete=mask)
    assert score.details["pruned"] == [3]
    assert score.matrix[0] == pytest.approx([1, 0, 0], abs=1e-9)
    assert score.parts["explicitness"] > 0.9


def test_uninformative_codes():
    constant = info_mec(np.full((480, 3), 0.1), identity().factors)
    assert constant.parts == {"modularity": 0.0, "explicitness": 0.0, "compactness": 0.0}
    assert info_mec(noise().codes, noise().factors).parts["explicitness"] < 0.05
    single = info_mec(identity().codes[:, :1], identity().factors)
    assert single.parts["compactness"] == pytest.approx(1.0, abs=0.7)


def test_two_factors_and_a_neighbour_are_required():
    with pytest.raises(ValueError, match="at least 2 factors that vary"):
        info_mec(identity().codes, identity().factors[:, :1])
    with pytest.raises(ValueError, match="at least 1 neighbour"):
        info_mec(identity().codes, identity().factors, neighbours=0)


def test_pruning_at_another_threshold():
    """Of one collapsed code in ten: over a twentieth of the range, and under an eighth of it."""
    base = blurred()
    weak = base.codes[:, :1] / np.ptp(base.codes[:, 0]) * np.ptp(base.codes, axis=0).max() / 10
    codes = np.column_stack([base.codes, weak])
    assert info_mec(codes, base.factors, samples=100).details["pruned"] == [3]
    assert info_mec(codes, base.factors, samples=100, threshold=1 / 20).details["pruned"] == []
    with pytest.raises(ValueError, match="expected threshold as a share"):
        info_mec(codes, base.factors, threshold=1.5)


def test_evaluate_estimates_once_for_both_prunings(monkeypatch):
    fits = []

    def count(*args):
        fits.append(args)
        return logistic_entropy(*args)

    monkeypatch.setattr("unweave.metrics.infomec.logistic_entropy", count)
    table = blurred()
    scores = evaluate(table, metrics="info_mec", seed=3, interval=0.9, resamples=2)
    assert len(fits) == 3 * (1 + 2 * 2)  # of three factors; halves are of other rows
    for key, score in scores.items():
        alone = info_mec(table.codes, table.factors, protocol=key.split("/")[1], seed=3)
        assert float(score) == float(alone)
        assert score.parts == alone.parts
    merged = evaluate(table, metrics="info_mec", seed=3, periods={"x": 3})
    alone = info_mec(
        table.codes, table.factors, seed=3, periods={"x": 3}, factor_names=table.factor_names
    )
    assert float(merged["info_mec/hsu2023"]) == float(alone)
