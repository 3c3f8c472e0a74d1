"""Measures of codes alone against closed forms and against loops written from the formulas."""

import json
import math

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics import mutual_info_score

from lattice_tables import blurred, identity, rotated
from unweave.metrics import (
    Score,
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)

RNG = np.random.default_rng(5)
TABLES = {
    "identity": identity().codes,
    "rotated": rotated().codes,
    "blurred": blurred().codes,
    "duplicated": np.column_stack([blurred().codes, blurred().codes[:, 0]]),
    "missing": identity().codes[:, :2],
    "noise": RNG.standard_normal((300, 5)),
    "shifted": 3 + RNG.standard_normal((300, 3)) @ RNG.standard_normal((3, 3)),
}
tables = pytest.mark.parametrize("codes", TABLES.values(), ids=TABLES)
UNSUPERVISED = {
    "hoyer": hoyer,
    "normalised hoyer": lambda z, **more: hoyer(z, protocol="mathieu2019-normalised", **more),
    "active": active_units,
    "tc": gaussian_total_correlation,
    "w2": gaussian_wasserstein_correlation,
    "normalised w2": lambda z, **more: gaussian_wasserstein_correlation(
        z, protocol="locatello2019-normalised", **more
    ),
    "pairs": mean_pairwise_information,
}
measures = pytest.mark.parametrize("measure", UNSUPERVISED.values(), ids=UNSUPERVISED)
SCALE_FREE = ("normalised hoyer", "tc", "pairs")


def mean_of_hoyers(codes):
    total = 0.0
    for z in codes:
        ratio = sum(abs(z)) / math.sqrt(sum(z**2))
        total += (math.sqrt(len(z)) - ratio) / (math.sqrt(len(z)) - 1)
    return total / len(codes)


@tables
def test_hoyer_is_the_mean_of_the_papers_formula(codes):
    assert hoyer(codes).value == pytest.approx(mean_of_hoyers(codes), abs=1e-12)


@tables
def test_normalised_hoyer_is_the_hoyer_of_the_mean_ratio_of_scaled_codes(codes):
    scaled = codes / codes.std(0, ddof=1)  # the released code has ddof 1, which cancels
    ratio = np.mean(np.abs(scaled).sum(1) / np.linalg.norm(scaled, axis=1))
    root = math.sqrt(codes.shape[1])
    expected = (root - ratio) / (root - 1)
    assert hoyer(codes, protocol="mathieu2019-normalised").value == pytest.approx(expected)


def test_hoyer_of_sparse_and_of_dense_rows():
    sparse, dense = np.eye(4)[[0, 1, 2, 3, 0]], np.array([[1, -1, 1.0, 1], [2, 2, 2, -2]])
    assert hoyer(sparse * 7).value == 1.0
    assert hoyer(dense).value == 0.0
    with_zeros = hoyer(np.vstack([sparse, np.zeros((3, 4))]))
    assert with_zeros.value == 1.0
    assert with_zeros.details["rows"] == 5
    assert hoyer(sparse * 1e-200).value == 1.0  # whose squares vanish


def test_a_collapsed_code_makes_codes_sparser_unless_they_are_normalised():
    codes = TABLES["noise"]
    dead = np.column_stack([codes, 1e-9 * RNG.standard_normal(len(codes))])
    assert hoyer(dead).value > hoyer(codes).value + 0.05
    normalised = [hoyer(z, protocol="mathieu2019-normalised").value for z in (codes, dead)]
    assert normalised[1] == pytest.approx(normalised[0], abs=0.05)
    constant = np.column_stack([codes, np.full(len(codes), 2.0)])
    assert hoyer(constant, protocol="mathieu2019-normalised").value == normalised[0]


@tables
def test_active_units_have_variances_above_the_threshold(codes):
    codes = codes * np.geomspace(0.05, 1, codes.shape[1])
    score = active_units(codes)
    expected = [sum((z - z.mean()) ** 2) / len(z) for z in codes.T]
    assert list(score.parts.values()) == pytest.approx(expected)
    assert score.value == sum(v > 0.01 for v in expected)
    assert score.details["active"] == [j for j, v in enumerate(expected) if v > 0.01]


def test_active_units_by_kl_and_of_categories():
    codes = RNG.standard_normal((50, 3))
    score = active_units(codes, protocol="kl", kl=[0.0, 0.011, 3.0])
    assert (score.value, score.details["active"]) == (2.0, [1, 2])
    with pytest.raises(ValueError, match="expected kl for the protocol kl"):
        active_units(codes, protocol="kl")
    with pytest.raises(ValueError, match="shape"):
        active_units(codes, protocol="kl", kl=[0.0])
    classes = np.repeat([[0.0], [5.0]], [1, 3], 0)
    score = active_units(np.column_stack([classes, classes * 0]), discrete=[True, True])
    assert list(score.parts.values()) == pytest.approx([0.5 * 2 * 0.25 * 0.75, 0.0])
    assert score.value == 1


@tables
def test_gaussian_total_correlation_is_the_kl_of_gaussians(codes):
    if np.linalg.matrix_rank(codes - codes.mean(0)) < codes.shape[1]:
        assert gaussian_total_correlation(codes).value == math.inf
        return
    c = np.cov(codes, rowvar=False)
    product = np.diag(np.diag(c))
    divergence = np.trace(np.linalg.inv(product) @ c) - len(c)
    divergence += math.log(np.linalg.det(product) / np.linalg.det(c))
    score = gaussian_total_correlation(codes)
    assert score.value == pytest.approx(0.5 * divergence, abs=1e-9)
    np.testing.assert_allclose(score.matrix, np.corrcoef(codes, rowvar=False), atol=1e-12)


def test_gaussian_total_correlation_of_two_codes_of_known_correlation():
    for rho in (0.0, 0.3, -0.9, 0.999):
        whitened = exactly_white(40, 2)
        codes = whitened @ np.linalg.cholesky([[1, rho], [rho, 1]]).T
        expected = -0.5 * math.log(1 - rho**2)
        assert gaussian_total_correlation(codes).value == pytest.approx(expected, abs=1e-9)
        assert gaussian_wasserstein_correlation(codes).value == pytest.approx(
            4 - 2 * (math.sqrt(1 + rho) + math.sqrt(1 - rho)), abs=1e-9
        )


def exactly_white(rows, dims):
    """Codes with mean 0 and covariance I, divided by N - 1."""
    z = np.random.default_rng(1).standard_normal((rows, dims))
    z -= z.mean(0)
    return z @ np.linalg.inv(np.linalg.cholesky(np.cov(z, rowvar=False))).T


@tables
def test_gaussian_wasserstein_correlation_by_the_square_root_of_a_matrix(codes):
    c = np.cov(codes, rowvar=False)
    root = scipy.linalg.sqrtm(c)
    middle = scipy.linalg.sqrtm(root @ np.diag(np.diag(c)) @ root)
    expected = 2 * np.trace(c) - 2 * np.trace(middle).real
    raw = gaussian_wasserstein_correlation(codes)
    assert raw.value == pytest.approx(expected, abs=1e-6)
    normalised = gaussian_wasserstein_correlation(codes, protocol="locatello2019-normalised")
    assert normalised.value == pytest.approx(expected / np.trace(c), abs=1e-6)


@tables
def test_mean_pairwise_information_by_counting(codes):
    labels = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in codes.T]
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    expected = np.mean([mutual_info_score(labels[i], labels[j]) for i, j in pairs])
    score = mean_pairwise_information(codes)
    assert score.value == pytest.approx(expected, abs=1e-12)
    assert score.matrix.shape == (len(labels),) * 2


def test_mean_pairwise_information_of_copies_is_their_entropy():
    codes = np.tile(np.arange(8.0)[:, None], (1, 3))
    assert mean_pairwise_information(codes).value == pytest.approx(math.log(8))
    assert mean_pairwise_information(codes, discrete=[True] * 3, bins=2).value == pytest.approx(
        math.log(8)
    )
    assert mean_pairwise_information(codes, samples=4).details["rows"] == 4


def test_independent_codes_score_null():
    codes = np.random.default_rng(0).standard_normal((20_000, 3))
    assert gaussian_total_correlation(codes).value < 1e-3
    assert gaussian_wasserstein_correlation(codes).value < 1e-3
    # 19^2 / (2 * 10,000) at the most: bins in the tails are empty.
    assert 0 < mean_pairwise_information(codes).value < 0.018


@measures
@pytest.mark.parametrize("codes", [TABLES["blurred"], TABLES["noise"]], ids=["blurred", "noise"])
def test_order_and_sign_do_not_matter(measure, codes):
    expected = measure(codes).value
    assert measure(codes[:, ::-1]).value == pytest.approx(expected, abs=1e-9)
    sign = np.where(np.arange(codes.shape[1]) % 2, -1, 1)
    assert measure(codes * sign).value == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("name", SCALE_FREE)
def test_scale_does_not_matter_to_metrics_without_one(name):
    codes = TABLES["blurred"]
    scaled = codes * [1e-8, 1.0, 1e8]
    expected = UNSUPERVISED[name](codes).value
    assert UNSUPERVISED[name](scaled).value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["active", "tc", "w2", "normalised w2", "normalised hoyer"])
def test_dead_codes_do_not_matter(name):
    codes = TABLES["blurred"]
    dead = np.column_stack([codes, np.full(len(codes), 0.1)])
    assert UNSUPERVISED[name](dead).value == pytest.approx(
        UNSUPERVISED[name](codes).value, abs=1e-12
    )


@measures
def test_a_score_is_finite_survives_json_and_leaves_codes_alone(measure):
    codes = TABLES["blurred"].astype(np.float32)
    before = codes.copy()
    score = measure(codes)
    np.testing.assert_array_equal(codes, before)
    assert math.isfinite(score.value)
    assert Score.from_json(json.loads(json.dumps(score.to_json()))).to_json() == score.to_json()
    assert measure(codes).value == score.value


@measures
def test_bad_input_is_refused(measure):
    for codes in (np.zeros(4), np.zeros((1, 2)), np.zeros((3, 0)), np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="expected"):
            measure(codes)
    with pytest.raises(ValueError, match="booleans"):
        measure(np.eye(3), discrete=[1, 0, 0])


@pytest.mark.parametrize("name", ["active", "tc", "w2", "normalised w2", "pairs"])
def test_constant_codes_and_three_rows_have_a_value(name):
    assert UNSUPERVISED[name](np.full((5, 3), 0.1)).value == 0.0
    value = UNSUPERVISED[name](np.eye(3)).value
    assert value == math.inf if name == "tc" else math.isfinite(value)


def test_tables_without_anything_to_measure_are_refused():
    with pytest.raises(ValueError, match="not all zeros"):
        hoyer(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="at least two codes that count"):
        hoyer(np.ones((4, 2)), protocol="mathieu2019-normalised")
    with pytest.raises(ValueError, match="at least two codes that count"):
        hoyer(np.eye(4), discrete=[True, True, True, False])
    with pytest.raises(ValueError, match="at least two codes to form a pair"):
        mean_pairwise_information(np.ones((4, 1)))
    with pytest.raises(ValueError, match="the choices are mathieu2019, mathieu2019-normalised"):
        hoyer(np.eye(4), protocol="hoyer2004")
    everything = [True] * 4
    assert gaussian_total_correlation(np.eye(4), discrete=everything).value == 0.0
    assert gaussian_wasserstein_correlation(np.eye(4), discrete=everything).value == 0.0
