"""The beta-VAE score: the original definition by loops, and its known failure."""

import functools
import importlib

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lattice_tables import SIZES, TABLES, blurred, identity, lattice, rotated
from unweave.metrics import Table, beta_vae_score, factor_vae_score
from unweave.metrics.beta_vae_score import _fit_adagrad, _fit_penalised, draw_pairs
from unweave.metrics.fixed_factors import group_by_factor
from unweave.metrics.inputs import read
from unweave.metrics.registry import select

pairs_module = importlib.import_module("unweave.metrics.beta_vae_score")
PROTOCOLS = ["kim2018", "locatello2019"]


@functools.cache
def by_drawing_factors(make, pairs, examples):
    """The original definition: draw factors, share one of them, encode, average differences."""
    rng, sizes = np.random.default_rng(0), SIZES
    codes = make().codes[: len(lattice())].reshape(*SIZES, -1)
    features, answers = [], []
    for _ in range(examples):
        k = rng.integers(len(sizes))
        one = [rng.integers(size, size=pairs) for size in sizes]
        two = [rng.integers(size, size=pairs) for size in sizes]
        two[k] = one[k]
        features.append(np.abs(codes[tuple(one)] - codes[tuple(two)]).mean(0))
        answers.append(k)
    cut = examples // 2
    model = LogisticRegression(max_iter=1000).fit(features[:cut], answers[:cut])
    return model.score(features[cut:], answers[cut:])


@pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_on_a_full_lattice_it_is_the_original_definition(base, protocol):
    codes = base().codes[: len(lattice())]
    expected = by_drawing_factors(base, 8, 3000)
    score = beta_vae_score(codes, lattice(), protocol=protocol, pairs=8)
    assert (0.5 < expected < 0.95) == (base in (rotated, blurred))
    assert float(score) == pytest.approx(expected, abs=0.05)
    assert score.details["combinations missing"] == 0


def test_missing_combinations_are_counted():
    codes, factors = identity().codes[7:120], lattice()[7:]
    score = beta_vae_score(codes, factors, pairs=2, steps=10)
    assert score.details["combinations missing"] == 7


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_factors_but_one_can_score_1(protocol):
    # [Kim2018] fig. 3: if both codes vary, the third factor must be fixed.
    base = identity()
    two = base.codes[:, :2]
    assert float(beta_vae_score(two, base.factors, protocol=protocol, pairs=50)) > 0.99
    assert float(factor_vae_score(two, base.factors)) < 0.75


def test_pairs_share_the_factor():
    factors = np.random.default_rng(0).integers(5, size=(60, 3))
    factors[0, 0] = 9  # occurs once, so it is never shared
    groups = group_by_factor(read(np.ones((60, 1)), factors))
    assert set(groups) == {0, 1, 2}
    for k, group in groups.items():
        pairs = draw_pairs(group, (3000, 11), np.random.default_rng(k))
        first, second = pairs
        assert first.shape == second.shape == (3000, 11)
        np.testing.assert_array_equal(factors[first, k], factors[second, k])
        assert (first == second).mean() == pytest.approx(
            (1 / group.size[group.repeated]).mean(), abs=0.01
        )
        possible = np.arange(60) > 0 if k == 0 else np.ones(60, dtype=bool)
        for rows in pairs:
            drawn = np.bincount(rows.ravel(), minlength=60) / rows.size
            np.testing.assert_allclose(drawn, possible / possible.sum(), atol=0.003)


def test_every_step_of_adagrad_has_a_batch_of_its_own(monkeypatch):
    """[Kim2018] app. B: new examples at every step, and others again for the score."""
    seen = []
    adagrad = pairs_module._fit_adagrad
    monkeypatch.setattr(
        pairs_module, "_fit_adagrad", lambda x, y, steps: seen.append(x) or adagrad(x, y, steps)
    )
    base = blurred()
    for steps, count in [(None, 100_000), (70, 700)]:
        beta_vae_score(base.codes, base.factors, steps=steps, pairs=3)
        assert len(seen[-1]) == len(np.unique(seen[-1], axis=0)) == count


def test_adagrad_by_loops():
    rng = np.random.default_rng(0)
    x, y = rng.random((70, 2)), np.eye(3)[rng.integers(3, size=70)]
    w, h = np.zeros((3, 3)), np.full((3, 3), 0.1)
    for step in range(7):
        g = np.zeros((3, 3))
        for n in range(step * 10, step * 10 + 10):
            z = np.append(x[n], 1.0)
            p = np.exp(w.T @ z) / np.exp(w.T @ z).sum()
            g += np.outer(z, p - y[n]) / 10
        h += g**2
        w -= 0.01 * g / np.sqrt(h)
    slope, offset = _fit_adagrad(x, y, 7)
    np.testing.assert_allclose(slope, w[:2], rtol=1e-12)
    np.testing.assert_allclose(offset, w[2], rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("scales", [(1, 1, 1), (1e-3, 1, 30), (1e-9, 1e4, 1e9)], ids=str)
def test_the_penalised_fit_converges_at_any_scale(scales, classes):
    """As scikit-learn's where that ends; no direction leads down from it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=400)
    x = (rng.standard_normal((400, 3)) + labels[:, None] * [1, 0.3, -0.5] + 2) * scales
    w, b = _fit_penalised(x, labels, classes)

    def loss(w, b):
        logits = x @ w + b
        cross = np.logaddexp.reduce(logits, 1) - logits[np.arange(400), labels]
        return cross.sum() + (2 if classes == 2 else 1) * (w**2).sum() / 2

    for _ in range(20):
        step = 1e-3 * rng.standard_normal(w.shape) / np.maximum(x.std(0), 1)[:, None]
        assert loss(w, b) <= loss(w + step, b) + 1e-3
    if max(scales) < 100:
        model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(x, labels)
        same = model.predict(x) == (x @ w + b).argmax(1)
        assert same.mean() > 0.99


def test_higgins_is_the_same_as_kim():
    base = blurred()
    one = beta_vae_score(base.codes, base.factors, protocol="higgins2017", pairs=5, steps=100)
    other = beta_vae_score(base.codes, base.factors, protocol="kim2018", pairs=5, steps=100)
    assert float(one) == float(other)
    np.testing.assert_array_equal(one.matrix, other.matrix)
    few = Table(base.codes[:60], base.factors[:60])
    key = "beta_vae_score/higgins2017"
    assert list(select(few, key)) == [key]
    assert key not in select(few)  # the same number as kim2018


def test_seeds_differ_if_the_fit_is_not_run_to_convergence():
    base = blurred()
    spread = {
        protocol: beta_vae_score(base.codes, base.factors, protocol=protocol, pairs=50, reseeds=4)
        for protocol in PROTOCOLS
    }
    assert spread["kim2018"].details["seed std"] > 0.03
    assert spread["locatello2019"].details["seed std"] < 0.01


def test_categories_are_equal_or_different():
    base = identity()
    codes = base.factors[:, [0, 1, 2]] * 10.0
    discrete = np.array([True] * 3)
    score = beta_vae_score(codes, base.factors, discrete=discrete, pairs=30, steps=3000)
    assert float(score) > 0.99
    assert score.matrix.max() <= 1.0
    np.testing.assert_allclose(score.matrix.diagonal(), 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_beta_vae_score_of_degenerate_tables(protocol):
    few = {"steps": 100} if protocol == "kim2018" else {}
    three = beta_vae_score([[0.1], [0.2], [0.5]], [[0], [1], [0]], protocol=protocol, **few)
    assert float(three) == 1.0  # one factor only
    constant = beta_vae_score(np.full((30, 2), 0.1), lattice()[:30], protocol=protocol)
    assert float(constant) == 0.0
    assert "0 by definition" in constant.details["note"]
    with pytest.raises(ValueError, match="at least two rows"):
        beta_vae_score(np.eye(4), np.arange(4)[:, None], protocol=protocol)
    with pytest.raises(ValueError, match="at least 1 pair"):
        beta_vae_score(np.eye(4), [[0], [0], [1], [1]], protocol=protocol, pairs=0)
