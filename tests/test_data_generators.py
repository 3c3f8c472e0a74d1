"""The papers' generators against their formulas and moments."""

import numpy as np
import pytest
import torch

from datasets import CPU
from unweave.core.spec import from_json, to_json
from unweave.data import Arrays, Mixing, MovingDigit, Pinwheel


def values(spec):
    dataset = spec.load(CPU)
    return dataset.images(torch.arange(dataset.size)).double().numpy()


def unbent(spec):
    """Compute radial and tangential coordinates of the points by unbending each arm.

    |x|^2 = r_1^2 + r_2^2, and the angle of x is that of r minus t(r_1): solved by iteration.
    """
    points, cluster = values(spec), np.arange(spec.clusters).repeat(spec.points_per_cluster)
    along = np.hypot(*points.T)
    for _ in range(200):
        t = 2 * np.pi * cluster / spec.clusters + spec.rate * np.exp(along)
        r = np.stack(
            [
                np.cos(t) * points[:, 0] - np.sin(t) * points[:, 1],
                np.sin(t) * points[:, 0] + np.cos(t) * points[:, 1],
            ]
        )
        along = 0.5 * along + 0.5 * r[0]
    return r


@pytest.mark.parametrize(("convention", "spreads"), [("code", (0.3, 0.1)), ("text", (0.1, 0.3))])
def test_both_conventions_of_the_pinwheel(convention, spreads):
    spec = Pinwheel(points_per_cluster=2000, convention=convention)
    along, aside = unbent(spec)
    for found, spread in zip((along.std(), aside.std()), spreads, strict=True):
        assert found == pytest.approx(spread, rel=0.04)
    assert along.mean() == pytest.approx(1, abs=0.02)
    assert aside.mean() == pytest.approx(0, abs=0.02)
    assert abs(np.corrcoef(along, aside)[0, 1]) < 0.05


def test_the_pinwheel_of_the_paper():
    dataset = Pinwheel().load(CPU)
    assert dataset.size == 400
    assert dataset.shape == (2,)
    assert dataset.factor_names == ("cluster",)
    assert dataset.factors(torch.arange(400)).flatten().bincount().tolist() == [100] * 4
    assert not dataset.bounded
    # With no spread an arm is one point, (cos t, -sin t) at t = 2 pi k / n + rate e.
    points = values(Pinwheel(clusters=3, points_per_cluster=1, radial_std=0, tangential_std=0))
    angle = 2 * np.pi * np.arange(3) / 3 + 0.25 * np.e
    np.testing.assert_allclose(points, np.stack([np.cos(angle), -np.sin(angle)], 1), atol=1e-6)


def test_mixed_sources_have_the_covariance_of_the_paper():
    """Cov[x] = A A^T + noise^2 I.  [Sikka2019] eq. 20"""
    spec = Mixing(((2.0, 0.5), (0.0, 1.0), (1.0, 1.0)), noise=0.5, observations=20_000)
    x, s = values(spec), spec.sources().double().numpy()
    a = np.array(spec.matrix)
    np.testing.assert_allclose(np.cov(x.T), a @ a.T + 0.25 * np.eye(3), atol=0.15)
    rest = x - s @ a.T
    np.testing.assert_allclose(np.cov(rest.T), 0.25 * np.eye(3), atol=0.02)
    np.testing.assert_allclose(s.T @ rest / len(s), 0, atol=0.02)
    exact = Mixing(spec.matrix, noise=0, observations=50)
    np.testing.assert_allclose(values(exact), exact.sources().numpy() @ a.T, atol=1e-5)


@pytest.fixture
def digits(tmp_path):
    images = np.zeros((3, 6, 5), np.uint8)
    images[0, 2, 1], images[1, 1:4, 2], images[2, 3, 1:4] = 255, 255, 255
    np.savez(tmp_path / "digits.npz", images=images)
    return Arrays(tmp_path / "digits.npz", "images")


def test_columns_of_the_matrix_can_be_images(digits):
    spec = Mixing(columns=digits, indices=(2, 0), noise=0, observations=7)
    pictures = digits.load(CPU).images(torch.tensor([2, 0])).numpy()
    expected = np.einsum("nk,kchw->nchw", spec.sources().numpy(), pictures)
    assert spec.load(CPU).shape == (1, 6, 5)
    np.testing.assert_allclose(values(spec), expected, atol=1e-5)
    assert from_json(Mixing, to_json(spec)) == spec


def test_exact_moments_are_those_of_the_distribution():
    spec = Mixing(((2.0, 0.5), (0.0, 1.0), (1.0, 1.0)), noise=0.5, observations=7,
                  exact_moments=True)  # fmt: skip
    x, s = values(spec).astype(np.float64), spec.sources().double().numpy()
    a = np.array(spec.matrix)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(x.T @ x / 7, a @ a.T + 0.25 * np.eye(3), atol=1e-6)
    np.testing.assert_allclose(s.T @ s / 7, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(x.T @ s / 7, a, atol=1e-6)
    with pytest.raises(ValueError, match="more observations than sources and values together, 5"):
        Mixing(spec.matrix, observations=5, exact_moments=True).load(CPU)


def test_the_moving_digit_is_at_the_position_of_its_sources(digits):
    """The centre of mass of one bright pixel is centre + A s + its offset in the digit."""
    spec = MovingDigit(digits, side=40, noise=0, observations=60)
    pictures = values(spec)[:, 0]
    np.testing.assert_allclose(pictures.sum((1, 2)), 1, atol=1e-5)
    places = np.arange(40) + 0.5
    x = (pictures.sum(1) * places).sum(-1)
    y = (pictures.sum(2) * places).sum(-1)
    moved = spec.sources().double().numpy() @ (2 * np.eye(2) + 0.73)
    # Pixel (row 2, column 1) of 6 x 5 has its centre half a pixel above and one left of the middle.
    np.testing.assert_allclose(x, 20 + moved[:, 0] - 1, atol=1e-4)
    np.testing.assert_allclose(y, 20 + moved[:, 1] - 0.5, atol=1e-4)
    assert spec.load(CPU).bounded


def test_generators_are_functions_of_their_seed(digits):
    makers = (Pinwheel, Mixing, lambda seed: MovingDigit(digits, observations=50, seed=seed))
    for make in makers:
        one, two = (make(seed=seed) for seed in (0, 1))
        assert np.array_equal(values(one), values(make(seed=0)))
        assert not np.array_equal(values(one), values(two))
        assert one.load(CPU).fingerprint != two.load(CPU).fingerprint


def test_invalid_generators_are_refused(digits, tmp_path):
    with pytest.raises(ValueError, match="rows of equal length"):
        Mixing(((1.0,), (1.0, 2.0)))
    with pytest.raises(ValueError, match="columns and indices together"):
        Mixing(columns=digits)
    with pytest.raises(ValueError, match="between 0 and 2"):
        Mixing(columns=digits, indices=(3,)).load(CPU)
    np.save(tmp_path / "v.npy", np.zeros((4, 3)))
    with pytest.raises(ValueError, match="expected images"):
        MovingDigit(Arrays(tmp_path / "v.npy")).load(CPU)
