"""DCI-ES: its forests against scikit-learn's, its curves against closed forms and loops."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from lattice_tables import identity, kinds
from plain_splits import UNEVEN, categories, halves
from unweave.metrics import dci_es
from unweave.metrics.dci_es import DEPTHS, loss_curve_explicitness
from unweave.metrics.trees import forests
from unweave.metrics.trees.forests import grow_forest


class EveryRowOnce:
    """A generator that draws every row once, so that a tree is grown on the rows themselves."""

    def spawn(self, count):
        return [self] * count

    def integers(self, rows, size):
        return np.arange(rows)

    def random(self, shape):
        return np.random.default_rng(0).random(shape)


def sample(rows=260, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((rows, 4))
    z[:, 3] = z[:, 3].round(1)
    v = 2 * z[:, 0] + z[:, 1] ** 2 + 0.5 * rng.standard_normal(rows)
    return z[:200], v[:200], z[200:]


@pytest.mark.parametrize("depth", [1, 2, 4, 30])
@pytest.mark.parametrize("classes", [0, 2, 5])
def test_a_tree_read_at_a_depth_matches_scikit_learn(depth, classes):
    train, v, test = sample(seed=classes)
    if classes:
        v = v.argsort().argsort() * classes // len(v)
    ours = grow_forest(train, v, classes, test, EveryRowOnce(), trees=1, depths=[depth, 40])
    kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
    theirs = kind(max_depth=depth, random_state=0).fit(train, v)
    predictions = theirs.predict_proba(test) if classes else theirs.predict(test)[:, None]
    # Several codes can split small nodes equally well; both implementations choose at random.
    same = np.isclose(ours.predictions[0], predictions).all(1).mean()
    assert same > (0.99 if depth <= 2 else 0.55)
    np.testing.assert_allclose(ours.importances[0], theirs.feature_importances_, atol=0.03)


def test_forests_do_not_depend_on_how_many_trees_are_grown_at_once(monkeypatch):
    train, v, test = sample()
    labels = v.argsort().argsort() // 40
    made = []
    for at_once in (1, 2**20):
        monkeypatch.setattr(forests, "_ENTRIES", at_once)
        rng = np.random.default_rng(3)
        made.append(grow_forest(train, labels, 5, test, rng, trees=7, depths=[2, 20]))
    np.testing.assert_allclose(made[0].predictions, made[1].predictions, rtol=1e-12)
    np.testing.assert_allclose(made[0].importances, made[1].importances, rtol=1e-12)


def test_equal_codes_share_importance():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 1))
    labels = (z[:, 0] > 0.2).astype(int) + (z[:, 0] > 1)
    made = grow_forest(
        np.repeat(z, 2, 1), labels, 3, np.repeat(z, 2, 1), rng, trees=100, depths=[9]
    )
    np.testing.assert_allclose(made.importances[0], [0.5, 0.5], atol=0.15)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.8, 0.6, 0.4, 0.2, 0.0], 0.0),  # falls evenly to nothing
        ([0.1, 0.1, 0.1, 0.1, 0.1], 1.0),  # as good at once as ever
        ([0.8, 0.8, 0.8, 0.8, 0.8], 1.0),  # nothing is ever predicted
        ([0.8, 0.0, 0.5, 0.7, 0.9], 1 - 2 * 0.4 / 3.2),  # what larger probes lose does not count
        ([2.0, 2.0, 2.0, 2.0, 0.0], 1 - 2 * (3 * 0.8 + 0.4) / 3.2),  # worse than a constant
    ],
)
def test_explicitness_of_known_curves(losses, expected):
    assert loss_curve_explicitness([1, 2, 3, 4, 5], losses, 0.8) == pytest.approx(
        expected, abs=1e-12
    )


def test_explicitness_is_least_if_only_the_largest_probe_predicts():
    capacities = np.linspace(0, 1, 1001)
    assert loss_curve_explicitness(capacities, np.where(capacities < 1, 1.0, 0.0), 1.0) < -0.99
    assert loss_curve_explicitness([1, 2], [0.3, 0.2], 0.0) == 1.0


def area(x, y):
    """Explicitness by loops, as the released code has it."""
    y = [min(y[: i + 1]) for i in range(len(y))]
    return sum((x[i + 1] - x[i]) * ((y[i] + y[i + 1]) / 2 - y[-1]) for i in range(len(x) - 1))


@pytest.mark.parametrize("kind", ["entangled", "duplicated", "noise"])
@pytest.mark.parametrize(
    ("ordered", "values"),
    [((), np.arange(6)), ((0, 1, 2), UNEVEN)],
    ids=["classes", "numbers"],
)
def test_dci_es_matches_a_forest_of_scikit_learn_for_each_depth(kind, ordered, values):
    codes, factors, depths = kinds()[kind], values[identity().factors], (2, 4, 32)
    score = dci_es(codes, factors, seed=1, depths=depths, ordered=ordered)
    train, y, test, truths = halves(codes, factors, 1)
    losses = np.zeros((3, len(depths)))
    weights = np.zeros((len(depths), codes.shape[1], 3))
    baseline = np.ones(3)
    for k in range(3):
        truth = truths[:, k]
        if not ordered:
            baseline[k] = 1 - np.bincount(truth).max() / len(truth)
        for t, depth in enumerate(depths):
            forest = (
                RandomForestRegressor(30, max_depth=depth, random_state=k)
                if ordered
                else RandomForestClassifier(30, max_depth=depth, max_features=None, random_state=k)
            ).fit(train, y[:, k])
            losses[k, t] = min(1 - forest.score(test, truth), baseline[k])
            weights[t, :, k] = forest.feature_importances_
    explicit = [
        1 - 2 * area(depths, loss) / (30 * b) for loss, b in zip(losses, baseline, strict=True)
    ]
    near = 0.04  # forests differ by their draws
    informativeness = score.details["informativeness by depth"]
    np.testing.assert_allclose(informativeness, 1 - losses.mean(0), atol=near)
    assert score.parts["explicitness"] == pytest.approx(np.mean(explicit), abs=near)
    best = depths.index(score.details["best depth"])
    assert informativeness[best] == max(informativeness) == score.parts["informativeness"]
    ours, theirs = score.matrix, weights[best]
    if kind == "duplicated":  # equal codes share their importance at random
        ours, theirs = (m.reshape(3, 2, 3).sum(1) for m in (ours, theirs))
    # For noise, hardly any split is better than others.
    np.testing.assert_allclose(ours, theirs, atol=0.13 if kind == "noise" else 0.08)
    assert score.parts["size"] == 3 / codes.shape[1]


def test_labels_of_categories_do_not_matter():
    factors, codes, renamed = categories(np.random.default_rng(3), rows=300)
    one, other = (
        dci_es(z, factors, depths=(2, 8), discrete=[True, False]) for z in (codes, renamed)
    )
    np.testing.assert_allclose(other.matrix, one.matrix, atol=1e-12)
    assert other.parts == pytest.approx(one.parts, abs=1e-12)


def test_codes_that_need_deeper_trees_are_less_explicit():
    factors = np.repeat(np.arange(16), 40)[:, None]
    rng = np.random.default_rng(0)
    straight = factors + 0.1 * rng.standard_normal(factors.shape)
    # The same knowledge, scattered: neighbours on the code are of unlike values.
    bits = (factors[:, 0] * 7) % 16
    scattered = (bits + 0.1 * rng.standard_normal(len(bits)))[:, None]
    plain, hidden = (dci_es(z, factors, ordered=[0]) for z in (straight, scattered))
    assert plain.parts["informativeness"] > 0.99
    assert hidden.parts["informativeness"] > 0.99
    assert hidden.parts["explicitness"] < plain.parts["explicitness"] - 0.03


def test_dci_es_takes_real_numbers_and_checks_its_options():
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(300, 2))
    score = dci_es(factors * [1, 3], factors, depths=(1, 3, 9))
    assert score.parts["disentanglement"] > 0.99
    assert score.parts["informativeness"] > 0.98
    assert DEPTHS[0] == 1
    with pytest.raises(ValueError, match="expected two or more increasing depths"):
        dci_es(factors, factors, depths=(3, 2))
    with pytest.raises(ValueError, match="expected ordered to name factors"):
        dci_es(factors, factors, ordered=["size"])


def test_forests_do_not_compute_with_uninitialised_memory(monkeypatch):
    """Rows of nodes that are not split further once had arbitrary values, which can overflow."""

    def signalling(shape, dtype=float):
        if dtype is not float:
            return np.zeros(shape, dtype)
        return np.full(shape, 0x7FF0_0000_0000_0001, np.uint64).view(float)

    train, v, test = sample()
    labels = v.argsort().argsort() // 40
    expected = grow_forest(train, labels, 5, test, np.random.default_rng(0), trees=3, depths=[30])
    monkeypatch.setattr(forests.np, "empty", signalling)
    made = grow_forest(train, labels, 5, test, np.random.default_rng(0), trees=3, depths=[30])
    np.testing.assert_array_equal(made.predictions, expected.predictions)
