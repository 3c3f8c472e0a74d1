"""Figures of Mathieu et al.: how their claims are judged, on inputs whose verdicts are known."""

import math

import numpy as np
import pytest
import torch

from unweave.latents import Gaussian, GaussianMixture
from unweave.papers.form import Measured
from unweave.papers.mathieu2019 import fig3, fig5, fig6
from unweave.papers.mathieu2019.fig3 import ALPHAS, BETAS, LARGER_ALPHAS, LARGER_BETAS, Row
from unweave.papers.mathieu2019.priors import rotated_kl

LOG_4 = math.log(4)


def test_the_mean_over_seeds_and_what_is_known_of_it():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    found = fig3.mean_of(values)
    error = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(
        (found.value - error, found.value + error), abs=0.1 * error
    )


def test_trends_hold_only_beyond_the_interval():
    up, unsure, down = Measured(2, 1, 3), Measured(2, -1, 5), Measured(-2, -3, -1)
    assert fig3.rises([up, up])
    assert fig3.falls([down, down])
    for steps in ([up, down], [up, unsure], [down, unsure]):
        assert not fig3.rises(steps)
        assert not fig3.falls(steps)


def rows(**changes):
    """Measures of four seeds that are as the paper says, but for what is changed at one weight."""
    many = {"neighbours": 10, "variance": 1, "information": LOG_4, "modes": 4, "exclusive": 1}
    top = {
        "neighbours": [0.1, 3, 10, 80, 150, 390, 398],
        "variance": [0.01, 0.1, 0.2, 0.4, 0.5, 0.6, 0.7],
        "information": [5.9, 5, 4, 2, 1.2, 0.1, 0.01],
        "inclusive": [200, 30, 5, 0.3, 1.5, 1.6, 1.7],
    }
    bottom = {
        "neighbours": [2, 7, 15, 30, 45, 60, 70],
        "information": [5, 4.5, 4, 3, 2.5, 2.3, 2],
        "inclusive": [1.5, 0.8, 0.4, 0.2, 0.1, 0.09, 0.08],
    }
    made = []
    for letter, values, weights in (
        ("beta", top, (*BETAS, *LARGER_BETAS)), ("alpha", bottom, (*ALPHAS, *LARGER_ALPHAS)),
    ):  # fmt: skip
        filled = {name: np.full(len(weights), float(value)) for name, value in many.items()}
        filled |= {name: np.array(value, float) for name, value in values.items()}
        for name, (weight, value) in changes.get(letter, {}).items():
            filled[name][weights.index(weight)] = value
        spread = np.linspace(0.99, 1.01, 4)
        measures = {name: value[:, None] * spread for name, value in filled.items()}
        made.append(Row(weights, [], measures))
    return made


def failed(top, bottom):
    claims = (*fig3._claims(top, bottom, "x"), *fig3._limits(top, bottom, "x"))
    assert len(claims) == 10
    return [number for number, claim in enumerate(claims) if claim.verdict == "fail"]


def test_what_is_as_the_paper_says_passes():
    assert failed(*rows()) == []


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"beta": {"neighbours": (1.0, 5.0)}}, 0),
        ({"beta": {"variance": (0.5, 0.05)}}, 1),
        ({"beta": {"inclusive": (1.2, 0.29)}}, 2),
        ({"alpha": {"inclusive": (5.0, 0.45)}}, 3),
        ({"alpha": {"neighbours": (3.0, 6.0)}}, 4),
        ({"alpha": {"neighbours": (8.0, 120.0)}}, 5),
        ({"alpha": {"modes": (8.0, 2.0)}}, 6),
        ({"alpha": {"information": (8.0, 1.0)}}, 6),
    ],
)
def test_one_measure_at_one_weight_turns_the_claim_about_it(changes, number):
    assert failed(*rows(**changes)) == [number]


def test_claims_of_large_weights_turn_too():
    assert failed(*rows(beta={"information": (5.0, 2.0)})) == [7, 8]
    assert failed(*rows(beta={"information": (5.0, 0.1)})) == [8]
    assert failed(*rows(beta={"inclusive": (5.0, 1.0)})) == [9]


def test_no_gaussian_is_nearer_than_the_one_with_the_moments_of_the_prior():
    p = fig3.PRIOR.density(torch.zeros(2, dtype=torch.float64))
    lines = torch.linspace(-3, 3, 241, dtype=torch.float64)
    z = torch.cartesian_prod(lines, lines)
    weights = torch.softmax(p.log_prob(z), 0)

    def divergence(variance):
        log_q = -z.square().sum(-1) / (2 * variance) - math.log(2 * math.pi * variance)
        return float(weights @ (p.log_prob(z) - log_q))

    assert divergence(0.53) == pytest.approx(fig3.nearest_gaussian(), abs=1e-4)
    assert min(divergence(0.5), divergence(0.56)) > divergence(0.53)


def test_levels_hold_the_shares_that_they_name():
    """Of N(0, I): above exp(-r^2 / 2) of its peak lies a share 1 - exp(-r^2 / 2)."""
    lines = np.linspace(-6, 6, 301)
    density = np.exp(-0.5 * (lines[:, None] ** 2 + lines**2)).ravel()
    assert fig3._levels(density) == pytest.approx([0.1, 0.5], rel=0.01)


@pytest.mark.parametrize("angle", [0.3, math.pi / 4, math.pi / 2])
def test_a_gaussian_and_itself_turned(angle):
    """KL = (a - b)^2 sin(angle)^2 / (2 a b) for variances a and b."""
    a, b = 1.6, 0.4
    found = rotated_kl(Gaussian(2, variances=(a, b)), angle, 50_000)
    exact = (a - b) ** 2 * math.sin(angle) ** 2 / (2 * a * b)
    assert found.low - 1e-3 < exact < found.high + 1e-3
    assert rotated_kl(Gaussian(2), angle, 100).value == pytest.approx(0, abs=1e-12)


def test_dependence_of_components_that_do_not_meet():
    """Centres on a diamond: one of two columns is told by the other, log 2; on a square: none."""
    assert fig6.dependence(GaussianMixture(scales=0.05)) == pytest.approx(math.log(2), abs=1e-3)
    square = GaussianMixture(centres=fig6.CORNERS, scales=0.05)
    assert fig6.dependence(square) == pytest.approx(0, abs=1e-3)


def test_values_fall_in_order_only_with_intervals_apart():
    one, two, wide = Measured(3, 2.5, 3.5), Measured(1, 0.5, 1.5), Measured(2, 0, 4)
    assert fig5._apart_in_order([one, two])
    assert not fig5._apart_in_order([two, one])
    assert not fig5._apart_in_order([one, wide])
