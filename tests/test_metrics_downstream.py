"""Explicitness and downstream accuracy against scikit-learn, and degenerate tables."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

from lattice_tables import blurred, identity, kinds
from plain_splits import categories, halves, scaled
from unweave.metrics import downstream, explicitness
from unweave.metrics.downstream import cross_validated_logistic
from unweave.metrics.explicitness import area_under_curve, logistic_one_vs_rest


def area_of(protocol, train, y, test, truth):
    """The mean area of a factor, by scikit-learn."""
    values = np.unique(y)
    if protocol == "locatello2019":
        p = LogisticRegression(max_iter=1000).fit(train, y).predict_proba(test)
    else:
        models = [
            LogisticRegression(solver="liblinear", tol=1e-8).fit(train, y == v) for v in values
        ]
        p = np.stack([model.decision_function(test) for model in models], 1)
    return np.mean([roc_auc_score(truth == v, p[:, c]) for c, v in enumerate(values)])


@pytest.mark.parametrize("protocol", ["locatello2019", "ridgeway2018"])
@pytest.mark.parametrize("kind", kinds())
def test_explicitness_matches_scikit_learn(kind, protocol):
    codes, factors = kinds()[kind], identity().factors * 3 + 1
    train, y, test, truth = halves(codes, factors, 2)
    train, test = scaled(train, test)
    expected = [area_of(protocol, train, y[:, k], test, truth[:, k]) for k in range(3)]
    score = explicitness(codes, factors, protocol=protocol, seed=2)
    # Codes without noise have ties, which rounding of probabilities breaks.
    near = 1e-9 if protocol == "locatello2019" else 0.01
    np.testing.assert_allclose(list(score.parts.values()), expected, atol=near)
    assert float(score) == pytest.approx(np.mean(expected), abs=near)


@pytest.mark.parametrize("classes", [2, 5])
def test_regressions_of_each_value_match_liblinear(classes):
    rng = np.random.default_rng(classes)
    labels = rng.integers(classes, size=200)
    x = np.column_stack([labels + rng.standard_normal(200), rng.standard_normal(200), np.ones(200)])
    w = logistic_one_vs_rest(x, labels, np.arange(classes))
    for c in range(classes):
        peer = LogisticRegression(solver="liblinear", tol=1e-10, max_iter=1000)
        peer.fit(x[:, :2], labels == c)
        np.testing.assert_allclose(w[c], [*peer.coef_[0], *peer.intercept_], atol=1e-5)


def test_explicitness_reads_all_codes_together():
    score = {
        kind: float(explicitness(codes, identity().factors)) for kind, codes in kinds().items()
    }
    assert score["identity"] > 0.97
    assert score["rotated"] == pytest.approx(score["identity"], abs=0.01)
    assert score["missing"] < 0.9
    assert score["noise"] == pytest.approx(0.5, abs=0.06)


def test_a_line_cannot_separate_the_middle_of_a_range():
    factors = np.tile(np.arange(9), 60)[:, None]
    softmax, separate = (
        explicitness(factors * 1.0, factors, protocol=protocol)
        for protocol in ("locatello2019", "ridgeway2018")
    )
    assert float(softmax) > 0.99
    # The area of value v is the share of the others on the far side, the larger one.
    expected = np.mean([max(v, 8 - v) / 8 for v in range(9)])
    assert float(separate) == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("metric", [explicitness, downstream])
def test_labels_of_categories_do_not_matter(metric):
    factors, codes, renamed = categories(np.random.default_rng(3), rows=300)
    options = {"labels": [60]} if metric is downstream else {}
    one, other = (metric(z, factors, discrete=[True, False], **options) for z in (codes, renamed))
    assert other.parts == pytest.approx(one.parts, abs=1e-9)
    wide = np.column_stack([np.eye(6)[codes[:, 0].astype(int)], codes[:, 1]])
    if metric is explicitness:
        train, y, test, truth = halves(wide, factors, 0)
        train, test = scaled(train, test)
        expected = area_of("locatello2019", train, y[:, 0], test, truth[:, 0])
        assert one.parts["factor 0"] == pytest.approx(expected, abs=1e-3)


def test_area_under_the_curve_by_pairs():
    rng = np.random.default_rng(0)
    score, positive = rng.integers(6, size=40) / 6, rng.random(40) < 0.3
    pairs = [(a > b) + (a == b) / 2 for a in score[positive] for b in score[~positive]]
    assert area_under_curve(score, positive) == pytest.approx(np.mean(pairs), abs=1e-12)


folds = pytest.mark.filterwarnings(
    "ignore::FutureWarning",  # of names that scikit-learn will change
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


@folds
@pytest.mark.parametrize("kind", ["identity", "entangled", "noise"])
def test_cross_validated_regression_matches_scikit_learn(kind):
    train, y, test, truth = halves(kinds()[kind] * 3.0, identity().factors, 4, 100, 200)
    right = np.zeros((2, 3))
    for k in range(3):
        values, labels = np.unique(y[:, k], return_inverse=True)
        w = cross_validated_logistic(np.column_stack([train, np.ones(100)]), labels, len(values))
        ours = values[(test @ w[:, :-1].T + w[:, -1]).argmax(1)]
        theirs = LogisticRegressionCV(Cs=10, cv=KFold(5)).fit(train, y[:, k]).predict(test)
        right[:, k] = (ours == truth[:, k]).mean(), (theirs == truth[:, k]).mean()
    # At large C neither regression converges in 100 steps.
    assert right[0].mean() == pytest.approx(right[1].mean(), abs=0.03)


@folds
def test_downstream_matches_scikit_learn():
    codes, factors = kinds()["entangled"] * 3.0, identity().factors
    train, y, test, truth = halves(codes, factors, 4, 100, 200)
    models = {
        "logistic": LogisticRegressionCV(Cs=10, cv=KFold(5)),
        "boosting": GradientBoostingClassifier(random_state=0),
    }
    score = downstream(codes, factors, labels=(100, 20), test=200, seed=4, leave_out=[2])
    assert list(score.parts) == [f"{name} {n}" for n in (20, 100) for name in models]
    for name, model in models.items():
        for n in (20, 100):
            right = [model.fit(train[:n], y[:n, k]).score(test, truth[:, k]) for k in range(2)]
            # Many splits of few rows are equally good, and trees choose among them at random.
            near = 0.03 if name == "logistic" else 0.05
            assert score.parts[f"{name} {n}"] == pytest.approx(np.mean(right), abs=near)
    assert float(score) == pytest.approx(np.mean(list(score.parts.values())))


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_downstream_leaves_out_more_labels_than_there_are_rows():
    base = blurred()
    score = downstream(base.codes, base.factors, labels=[10, 50_000], test=1000)
    assert list(score.parts) == ["logistic 10", "boosting 10"]
    assert score.details["labels left out"] == [50_000]
    few = downstream(base.codes[:30], base.factors[:30], labels=[10_000])
    assert list(few.parts) == ["logistic 20", "boosting 20"]


@pytest.mark.parametrize("metric", [explicitness, downstream])
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_degenerate_tables(metric):
    three = metric([[0.1], [0.2], [0.5]], [[0], [1], [0]])
    assert 0 <= float(three) <= 1
    constant = metric(np.full((30, 2), 0.1), np.arange(30)[:, None] % 3)
    assert float(constant) == (0.5 if metric is explicitness else pytest.approx(1 / 3, abs=0.2))
    rare = np.zeros((40, 1), int)
    rare[0] = 1
    assert 0 <= float(metric(np.random.default_rng(0).standard_normal((40, 2)), rare)) <= 1
    with pytest.raises(ValueError, match="finite codes"):
        metric(np.full((9, 2), np.nan), np.arange(9)[:, None])


def test_an_empty_list_of_labels_is_refused():
    with pytest.raises(ValueError, match="numbers of labels"):
        downstream(np.eye(9), np.arange(9)[:, None], labels=[])
