"""Figures of Mathieu et al.: how their claims are judged, on inputs whose verdicts are known."""

import math

import numpy as np
import pytest
import torch

from unweave.latents import Gaussian, GaussianMixture
from unweave.papers.form import Measured
from unweave.papers.intervals import redrawn
from unweave.papers.mathieu2019 import ablation, appc, fig3, fig5, fig6
from unweave.papers.mathieu2019.ablation import Row
from unweave.papers.mathieu2019.fig3 import ALPHAS, BETAS, DATA, LARGER_ALPHAS, LARGER_BETAS
from unweave.papers.mathieu2019.priors import rotated_kl
from unweave.theory import Comparison

LOG_4 = math.log(4)


def test_the_mean_over_seeds_and_what_is_known_of_it():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    found = redrawn(values)
    error = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(
        (found.value - error, found.value + error), abs=0.1 * error
    )


def test_trends_hold_only_beyond_the_interval():
    up, unsure, down = Measured(2, 1, 3), Measured(2, -1, 5), Measured(-2, -3, -1)
    assert ablation.rises([up, up])
    assert ablation.falls([down, down])
    for steps in ([up, down], [up, unsure], [down, unsure]):
        assert not ablation.rises(steps)
        assert not ablation.falls(steps)


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
        made.append(Row(weights, 5, [], measures))
    return made


def failed(top, bottom):
    claims = (
        *ablation.beta_claims(top, "x", DATA),
        *ablation.alpha_claims(top, bottom, "x", DATA),
        *ablation.limit_claims(top, bottom, "x", DATA),
        *(claim(bottom, among, "x", DATA)
          for claim in (ablation.modes_claim, ablation.meaning_claim)
          for among in (bottom.own[-1:], bottom.beyond[1:])),
    )  # fmt: skip
    assert len(claims) == 14
    return [number for number, claim in enumerate(claims) if claim.verdict == "fail"]


def test_what_is_as_the_paper_says_passes():
    assert failed(*rows()) == []


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"beta": {"neighbours": (1.0, 5.0)}}, [0]),
        ({"beta": {"variance": (0.5, 0.05)}}, [1]),
        ({"beta": {"inclusive": (1.2, 0.29)}}, [2]),
        ({"alpha": {"inclusive": (5.0, 0.45)}}, [3]),
        ({"alpha": {"neighbours": (3.0, 6.0)}}, [4]),
        ({"alpha": {"neighbours": (8.0, 120.0)}}, [5]),
        ({"beta": {"information": (5.0, 2.0)}}, [6, 7]),
        ({"beta": {"information": (5.0, 0.1)}}, [7]),
        ({"beta": {"inclusive": (5.0, 1.0)}}, [8]),
        ({"alpha": {"inclusive": (100.0, 0.3)}}, [9]),
        ({"alpha": {"inclusive": (20.0, 0.3)}}, [9]),
        ({"alpha": {"modes": (8.0, 2.0)}}, [10]),
        ({"alpha": {"modes": (100.0, 2.0)}}, [11]),
        ({"alpha": {"information": (8.0, 1.0)}}, [12]),
        ({"alpha": {"information": (20.0, 1.0)}}, [13]),
    ],
)
def test_one_measure_at_one_weight_turns_the_claims_about_it(changes, numbers):
    assert failed(*rows(**changes)) == numbers


def test_one_network_that_leaves_a_component_out_is_counted():
    top, bottom = rows()
    bottom.measures["modes"][-1, 0] = 2.0
    assert failed(top, bottom) == [11]
    claim = ablation.modes_claim(bottom, (20.0, 100.0), "x", DATA)
    assert claim.got.endswith("networks that leave one out: 0 of 4, 1 of 4")


def test_the_step_of_the_first_seeds_alone_is_told():
    """Down on the whole, and up in the first ten: what more seeds say is the verdict."""
    weights = BETAS
    before, after = np.ones(40), np.concatenate([np.full(10, 1.5), np.full(30, 0.5)])
    inclusive = np.stack([*np.ones((3, 40)), before, after])
    claim = ablation._top_right(Row(weights, 5, [], {"inclusive": inclusive}), "x")
    assert (claim.verdict, "up for 10 of 40 seeds" in claim.got) == ("fail", True)
    assert "it came out as 0.5 [0.5, 0.5]" in claim.note


def test_no_gaussian_is_nearer_than_the_one_with_the_moments_of_the_prior():
    p = ablation.PRIOR.density(torch.zeros(2, dtype=torch.float64))
    lines = torch.linspace(-3, 3, 241, dtype=torch.float64)
    z = torch.cartesian_prod(lines, lines)
    weights = torch.softmax(p.log_prob(z), 0)

    def divergence(variance):
        log_q = -z.square().sum(-1) / (2 * variance) - math.log(2 * math.pi * variance)
        return float(weights @ (p.log_prob(z) - log_q))

    assert divergence(0.53) == pytest.approx(ablation.nearest_gaussian(), abs=1e-4)
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


PRIORS = {"a": Gaussian(2), "b": Gaussian(2), "c": Gaussian(2), "round": Gaussian(2),
          "long": Gaussian(2)}  # fmt: skip


def turned(**changes):
    """Verdicts on networks whose ELBO changes by a turn: that of "round" by nothing."""
    spread = np.linspace(0.9, 1.1, 5)
    losses = {"a": -1.0, "b": -0.5, "c": -0.1, "round": 0.0, "long": -1.0} | changes
    moves = {
        name: [Comparison({"objective": 0.0, "rate": 0.0}, {"objective": each, "rate": 1.0})
               for each in value * spread]
        for name, value in losses.items()
    }  # fmt: skip
    apart = {name: Measured(v, v - 0.01, v + 0.01) for name, v in (("a", 3), ("b", 2), ("c", 1))}
    apart |= {"round": Measured(0, 0, 0), "long": Measured(1, 0.9, 1.1)}
    claims = fig5.claims_of(PRIORS, moves, apart, {3.0: 0.1, 1000.0: 1e-6})
    return [number for number, claim in enumerate(claims) if claim.verdict == "fail"]


def test_a_change_of_the_elbo_turns_the_claim_about_its_prior():
    assert turned() == []
    assert turned(round=1e-3) == [1]
    for name in ("a", "c", "long"):
        assert turned(**{name: 0.5}) == [4]
    assert turned(c=0.0) == [4]


class Constructed:
    """Estimates whose bias at B = 2, 64, 256 and 1000 of as many observations is given."""

    batch_sizes = (2, 64, 256, 1000)

    def __init__(self, *bias, error=0.01, truth=10.0, alone=12.0, kl=0.1):
        values, away = np.array(bias), alone - truth
        self.bias = {"entropy": values, "kl": -values}
        self.error = {name: np.full(4, error) for name in self.bias}
        self.exact = {"entropy": truth, "kl": kl}
        self.exact_error = {"entropy": error, "kl": error}
        self.alone = {"entropy": np.full(4, alone), "kl": np.full(4, kl - away)}

    def expected(self, quantity):
        return self.exact[quantity] + self.bias[quantity]


GOOD = Constructed(2.0, 1.9, 0.5, 0.0)


def of_appendix_c(base=GOOD, by_dimension=None, by_size=None, learned=None):
    rising = {n: Constructed(2.0, bias, 0.1, 0.0) for n, bias in ((1, 0.2), (2, 0.4), (3, 1.0))}
    claims = appc.claims_of(base, by_dimension or rising, by_size or rising, learned or {1.0: GOOD})
    assert len(claims) == 5 + 2 * len(learned or {1.0: GOOD})
    return [number for number, claim in enumerate(claims) if claim.verdict == "fail"]


def test_claims_of_appendix_c_turn_with_what_they_are_about():
    falling = {n: Constructed(2.0, bias, 0.1, 0.0) for n, bias in ((1, 0.2), (2, 0.4), (3, 0.3))}
    unsure = {n: Constructed(2.0, bias, 0.1, 0.0) for n, bias in ((1, 0.2), (2, 0.21))}
    positive = Constructed(2.0, 1.9, 0.5, 0.0, kl=3.0)
    assert of_appendix_c() == []
    assert of_appendix_c(learned={1.0: Constructed(2.0, 1.9, 0.0, 0.0)}) == []  # B = 256 of 1000
    assert of_appendix_c(learned={1.0: Constructed(0.4, 0.4, 0.2, 0.0, alone=10.45)}) == [0]
    assert of_appendix_c(learned={1.0: Constructed(2.0, 1.5, 0.5, 0.0)}) == [1]
    assert of_appendix_c(base=Constructed(2.0, 1.5, 0.5, 0.0)) == [2]
    assert of_appendix_c(learned={1.0: positive}) == [3]
    assert of_appendix_c(base=positive) == [4]
    for values in (falling, unsure):
        assert of_appendix_c(by_size=values) == [5]
        assert of_appendix_c(by_dimension=values) == [6]


def test_one_network_is_enough_for_what_can_be():
    """Large biases can be: of the networks with one weight, not of all."""
    small = Constructed(0.4, 0.4, 0.0, 0.0, alone=10.45)
    assert of_appendix_c(learned={1.0: GOOD, 5.0: small}) == []
    assert of_appendix_c(learned={1.0: small, 5.0: small}) == [0]


def test_the_batch_that_a_bias_needs():
    each = Constructed(2.0, 0.3, 0.11, 0.0, error=0.01)
    assert appc.batch_needed(each) == Measured(1000, 256, 1000)
    assert appc.batch_needed(each, 0.2) == Measured(256, 256, 256)
    assert appc.batch_needed(each, 3.0) == Measured(2, 2, 2)
