"""Explicitness and downstream accuracy against scikit-learn, and what they make of the odd."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from lattice_tables import blurred, identity, kinds
from unweave.metrics import downstream, explicitness
from unweave.metrics.inputs import read
from unweave.metrics.predictors import split
from unweave.metrics.probes import area_under_curve


def parts_of(codes, train, test, rng):
    rows = split(read(codes, identity().factors), train, test, np.random.default_rng(rng))
    mean, deviation = rows.train.mean(0), rows.train.std(0)
    return rows, (rows.train - mean) / deviation, (rows.test - mean) / deviation


@pytest.mark.parametrize("kind", kinds())
def test_explicitness_by_scikit_learn(kind):
    codes = kinds()[kind]
    rows, train, test = parts_of(codes, 10_000, 5_000, 2)
    expected = []
    for k in range(3):
        model = LogisticRegression(max_iter=1000).fit(train, rows.train_factors[:, k])
        p, truth = model.predict_proba(test), rows.test_factors[:, k]
        expected.append(np.mean([roc_auc_score(truth == v, p[:, v]) for v in range(p.shape[1])]))
    score = explicitness(codes, identity().factors, rng=2)
    np.testing.assert_allclose(list(score.parts.values()), expected, atol=1e-9)
    assert float(score) == pytest.approx(np.mean(expected), abs=1e-9)


def test_explicitness_is_of_all_codes_together():
    score = {
        kind: float(explicitness(codes, identity().factors)) for kind, codes in kinds().items()
    }
    assert score["identity"] > 0.97
    assert score["rotated"] == pytest.approx(score["identity"], abs=0.01)
    assert score["missing"] < 0.9
    assert score["noise"] == pytest.approx(0.5, abs=0.06)


def test_area_by_pairs():
    rng = np.random.default_rng(0)
    score, positive = rng.integers(6, size=40) / 6, rng.random(40) < 0.3
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert area_under_curve(score, positive) == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("kind", ["identity", "entangled"])
def test_downstream_by_scikit_learn(kind):
    codes = kinds()[kind]
    rows, _, _ = parts_of(codes, 100, 200, 4)
    expected = {}
    for n in (20, 100):
        z, test = rows.train[:n], rows.test
        scaled = [(x - z.mean(0)) / z.std(0) for x in (z, test)]
        pairs = [(rows.train_factors[:n, k], rows.test_factors[:, k]) for k in range(3)]
        expected[f"logistic {n}"] = np.mean(
            [LogisticRegression().fit(scaled[0], y).score(scaled[1], t) for y, t in pairs]
        )
        expected[f"boosting {n}"] = np.mean(
            [GradientBoostingClassifier(random_state=0).fit(z, y).score(test, t) for y, t in pairs]
        )
    score = downstream(codes, identity().factors, labels=[100, 20], test=200, rng=4)
    assert list(score.parts) == list(expected)
    # Trees of few rows split them in many ways that are equally good, and choose at random.
    np.testing.assert_allclose(list(score.parts.values()), list(expected.values()), atol=0.04)
    assert float(score) == pytest.approx(np.mean(list(score.parts.values())))


def test_downstream_takes_what_labels_there_are():
    base = blurred()
    score = downstream(base.codes, base.factors, labels=[10, 50_000], test=1000)
    assert list(score.parts) == ["logistic 10", "boosting 10"]
    assert score.details["labels left out"] == [50_000]
    few = downstream(base.codes[:30], base.factors[:30], labels=[10_000])
    assert list(few.parts) == ["logistic 20", "boosting 20"]


@pytest.mark.parametrize("metric", [explicitness, downstream])
def test_odd_tables(metric):
    three = metric([[0.1], [0.2], [0.5]], [[0], [1], [0]])
    assert 0 <= float(three) <= 1
    constant = metric(np.full((30, 2), 0.1), np.arange(30)[:, None] % 3)
    assert float(constant) == (0.5 if metric is explicitness else pytest.approx(1 / 3, abs=0.2))
    rare = np.zeros((40, 1), int)
    rare[0] = 1
    assert 0 <= float(metric(np.random.default_rng(0).standard_normal((40, 2)), rare)) <= 1
    with pytest.raises(ValueError, match="finite codes"):
        metric(np.full((9, 2), np.nan), np.arange(9)[:, None])


def test_labels_must_be_numbers():
    with pytest.raises(ValueError, match="numbers of labels"):
        downstream(np.eye(9), np.arange(9)[:, None], labels=[])
