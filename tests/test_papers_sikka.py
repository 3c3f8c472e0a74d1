"""Figures of Sikka et al.: terms of networks against closed forms, and verdicts."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from reproduced import fitted, put, put_closed_form
from unweave.data import MNIST, Mixing, MovingDigit, from_array
from unweave.evaluation.model import FittedModel
from unweave.latents import FullGaussian
from unweave.papers.sikka2019 import deep, fig1, fig2, fig3, orders
from unweave.papers.sikka2019.deep import (
    Sweep,
    Truth,
    claims_of,
    extremum,
    inference_errors,
    largest_rise,
    terms_of,
    tie_claims,
)
from unweave.papers.sikka2019.fig3 import cosines, motions
from unweave.studies.study import Network, NotTrained, Results
from unweave.theory import observations, solve
from unweave.training import train


def encoders(latents, seed, size=40, width=7):
    """Return sources, and an encoder that mixes them and has other noise."""
    rng = np.random.default_rng(seed)
    loadings = 0.5 + rng.normal(size=(width, latents))
    seen = rng.normal(size=(size, latents)) @ loadings.T + rng.normal(size=(size, width))
    turn = np.linalg.qr(rng.normal(size=(latents, latents)))[0]
    precision = loadings.T @ loadings + np.eye(latents)
    mean = np.linalg.solve(precision, loadings.T @ seen.T).T @ turn
    return Truth(loadings, seen), mean, rng.uniform(0.05, 0.5, (size, latents))


def plain(truth, mean, variance, order, signs):
    """Return E[KL(q || p(s|x))] by the library's Gaussians, for one order and signs of latents."""
    a, x = (torch.from_numpy(each) for each in truth)
    covariance = torch.linalg.inv(a.T @ a + torch.eye(a.shape[1]).double())
    posterior = FullGaussian(x @ a @ covariance, torch.linalg.cholesky(covariance))
    factor = torch.from_numpy(np.sqrt(variance[:, order])).diag_embed()
    return (
        FullGaussian(torch.from_numpy(mean[:, order] * signs), factor).kl(posterior).mean().item()
    )


@pytest.mark.parametrize("latents", [1, 2, 3])
def test_the_true_inference_error_is_the_smallest_of_all_matchings(latents):
    truth, mean, variance = encoders(latents, seed=latents)
    every = {
        (order, signs): plain(truth, mean, variance, list(order), np.array(signs))
        for order in itertools.permutations(range(latents))
        for signs in itertools.product((1.0, -1.0), repeat=latents)
    }
    found = inference_errors(mean, variance, truth)
    assert found.aligned == pytest.approx(min(every.values()))
    assert found.printed == pytest.approx(every[tuple(range(latents)), (1.0,) * latents])
    assert found.shuffled == pytest.approx(np.mean(list(every.values())))


def test_the_error_of_an_optimal_linear_encoder_is_that_of_the_closed_form():
    loadings = np.random.default_rng(0).uniform(0, 1, (30, 10))
    seen, _ = observations(loadings, 60)
    for beta in (0.3, 2.0):
        found = solve(loadings, beta)
        variance = np.tile(np.exp(found.log_variances), (60, 1))
        errors = inference_errors(seen @ found.encoder.T, variance, Truth(loadings, seen))
        assert errors[:2] == pytest.approx((found.tie_aligned, found.tie))


def test_terms_of_networks_are_those_of_the_closed_form(monkeypatch):
    """The weights are set to the closed form; the data have slightly different moments."""
    matrix = tuple(map(tuple, 0.5 * (1 + np.eye(6, 2))))
    sweep = Sweep(
        Mixing(matrix=matrix, observations=1000), latents=2, betas=(0.5, 2.0), seeds=(0,),
        epochs=1, hidden=(),
    )  # fmt: skip
    dataset = sweep.data.load(torch.device("cpu"))
    monkeypatch.setattr(deep, "_AT_ONCE", {"cpu": 2 * 6 * 200 * 300, "cuda": 0})
    x = dataset.images(torch.arange(dataset.size)).double().numpy()
    truth = Truth(sweep.data.loadings().numpy(), x)
    for run in sweep.runs:
        model, each = fitted(run), solve(matrix, run.weights["beta"])
        put_closed_form(model, each)
        got = terms_of(model, dataset, truth, samples=200)
        terms = {"elbo": each.elbo, "tie": each.tie_aligned, "rate": each.rate, "mie": each.mie,
                 "reconstruction": each.reconstruction}  # fmt: skip
        for name, wanted in terms.items():
            assert got[name] == pytest.approx(wanted, abs=0.25), name
        assert got["elbo"] == pytest.approx(got["reconstruction"] - got["rate"])


@pytest.mark.parametrize(("at_once", "lots"), [(3000, [1] * 4), (6000, [2, 2]), (1, [1] * 4)])
def test_as_many_observations_are_measured_together_as_memory_holds(monkeypatch, at_once, lots):
    seen = []
    monkeypatch.setattr(deep, "_AT_ONCE", {"cpu": at_once, "cuda": 0})

    def bound(model, q, x, *_):
        seen.append(len(x))
        return (x.sum(-1),) * 3

    monkeypatch.setattr(deep, "particle_bound", bound)
    data = Mixing(matrix=((1.0,), (0.5,), (0.2,)), observations=4)
    (run,) = Sweep(data, latents=1, betas=(1.0,), seeds=(0,), hidden=()).runs
    model = fitted(dataclasses.replace(run, steps=1, batch_size=4))
    truth = Truth(data.loadings().numpy(), np.zeros((4, 3)))
    terms_of(model, model.dataset, truth, samples=1000)
    assert seen == lots
    assert deep.SAMPLES == 1000  # [Sikka2019] app. C


def test_a_part_of_a_study_is_drawn_with_the_seeds_that_all_weights_have():
    sweep = Sweep(Mixing(matrix=((1.0,),)), latents=1, betas=(1.0, 2.0), seeds=tuple(range(150)))
    assert [run.seed for run in sweep.runs] == [*range(100)] * 2 + [*range(100, 150)] * 2
    study = sweep.study("part", lambda model: {}, lambda results: [], deep.SeenAndFresh)
    names = ("elbo", "tie", "reconstruction", "rate", "mie", "printed")
    terms = dict.fromkeys(names, 1.0)
    networks = [Network(run, {}, terms | {"fresh": terms, "samples": 10}, {}) for run in sweep.runs]
    some = [n for n in networks if n.run.seed < (3 if n.run.weights["beta"] == 1.0 else 2)]
    trained = sweep.trained(Results(study, some))
    assert [(n.run.weights["beta"], n.run.seed) for n in trained] == [
        (beta, seed) for beta in sweep.betas for seed in (0, 1)
    ]
    numbers = deep.gather(sweep.betas, trained)
    assert (numbers["seeds"], len(numbers["elbo"])) == ([0, 1], 4)
    with pytest.raises(NotTrained, match="no seed is trained for all"):
        sweep.trained(Results(study, some[:3]))


def test_on_average_over_orders_the_error_of_the_linear_optimum_is_its_limit_plus_the_rate():
    loadings = np.random.default_rng(0).uniform(0, 1, (30, 4))
    seen, _ = observations(loadings, 60)
    truth = Truth(loadings, seen)
    nothing = np.zeros((60, 4))
    limit = inference_errors(nothing, nothing + 1, truth)
    assert limit.aligned == pytest.approx(limit.printed)
    falling = []
    for beta in (0.3, 2.0, 6.0):
        found = solve(loadings, beta)
        variance = np.tile(np.exp(found.log_variances), (60, 1))
        falling.append(inference_errors(seen @ found.encoder.T, variance, truth).shuffled)
        assert falling[-1] == pytest.approx(limit.shuffled + found.rate)
    assert falling == sorted(falling, reverse=True)


def orders_results(*factors):
    """Return results of the control whose average errors are given, from the first weight on."""
    facts = [{"shuffled": 5.0 * each, "tie": 1.0, "limit": 4.0} for each in factors]
    sweep = orders.SWEEPS["mixed digits"]
    networks = [Network(run, {}, fact, {}) for run, fact in zip(sweep.runs, facts, strict=True)]
    return Results(orders.STUDY, networks)


def test_the_control_decides_about_the_error_as_printed():
    falls, rises = orders_results(6, 5, 4, 3, 2, 1), orders_results(6, 5, 4, 2, 3, 1)
    below = orders_results(6, 5, 4, 3, 2, 0.7)  # the limit
    for results, verdict in ((falls, "pass"), (rises, "undecided"), (below, "undecided")):
        found = orders.averages(results, "mixed digits")
        assert (found.limit, found.values.shape) == (4.0, (6, 1))
        assert orders.average_claim("mixed digits", found).verdict == verdict
    assert list(orders.trained_averages(falls)) == ["mixed digits"]
    with pytest.raises(NotTrained):
        orders.trained_averages(Results(orders.STUDY, []))


def test_the_control_contradicts_an_optimum_only_with_networks_that_show_its_fall():
    falling = np.array([18, 16, 14, 12, 10, 8], float)[:, None] + np.zeros(4)
    end = falling.copy()
    end[-1, 0] += 9  # the mean rises at the last step, because of one network
    for values, expected in ((falling, "fail"), (end, "undecided")):
        numbers = measured() | {"printed": values.ravel().tolist()}
        claims = tie_claims(numbers, "TIE", "x", falls=True)
        assert [claim.verdict for claim in claims] == [expected, "pass"]
    claims = tie_claims(measured(), "TIE", "x", falls=True)  # a clear minimum
    assert [claim.verdict for claim in claims] == ["pass", "pass"]


def test_extrema_are_interpolated_between_weights():
    betas = (0.1, 0.5, 1.0, 3.0, 10.0)
    curve = -np.square(np.log(np.array(betas) / 1.3))
    rng = np.random.default_rng(0)
    values = curve[:, None] + 0.01 * rng.normal(size=(5, 100))
    exact = extremum(betas, curve[:, None], top=True)
    assert exact.value == pytest.approx(1.3)
    assert np.isnan(exact[1:]).all()  # a single network has no interval
    drawn = extremum(betas, values, top=True)
    assert drawn.low < 1.3 < drawn.high
    assert drawn.high - drawn.low < 0.05
    assert extremum(betas, -values, top=False) == pytest.approx(drawn)
    for top, end in ((False, 0.1), (True, 10.0)):  # the very ends, without rounding
        assert extremum(betas, np.array([betas, betas]).T, top) == (end, end, end)


def test_the_largest_rise_and_its_interval():
    falling = np.array([[3.0, 3.2], [2.0, 2.1], [1.9, 1.8]])
    assert largest_rise(falling).value == pytest.approx(-0.2)
    assert largest_rise(falling).high < 0
    assert largest_rise(falling[::-1]).low > 0
    unsure = np.array([[3.0, 3.0], [2.9, 2.9], [0.0, 5.0]])  # the second step may be a rise
    assert largest_rise(unsure) == pytest.approx((-0.4, -5.4, 4.6))


def test_motions_of_a_linear_decoder_equal_their_closed_form():
    """A decoder that is linear in z: a spot whose mass goes right with z1, and down with z2."""
    sweep = Sweep(
        MovingDigit(digits=MNIST(), side=8, observations=100), latents=2, betas=(1.0, 2.0),
        seeds=(0,), epochs=1, hidden=(),
    )  # fmt: skip
    ways = np.array([[0.5, 0.0], [0.25, 1.0]])  # pixels by which each latent moves the mass
    y, x = np.meshgrid(np.arange(8) - 3.5, np.arange(8) - 3.5, indexing="ij")
    places = np.stack([x.ravel(), y.ravel()])
    power = np.square(places).mean(1)  # a change of mass by place / power moves the mean by one
    loadings = (places / power[:, None]).T @ ways.T / 2  # half of it on either side of 0
    data, dataset = from_array(np.random.default_rng(0).random((100, 8, 8), np.float32))
    run = dataclasses.replace(sweep.runs[0], data=data).resolve(dataset)
    model = FittedModel(train([run], dataset)[0], dataset)
    put(model, decoder__0__weight=loadings, decoder__0__bias=np.ones(64))
    moved = np.array(motions(model))
    np.testing.assert_allclose(moved, ways, atol=2e-3)
    cosine, shorter = cosines(moved)
    np.testing.assert_allclose(cosine, 0.25 / np.hypot(0.25, 1), atol=2e-3)
    np.testing.assert_allclose(shorter, 0.5, atol=2e-3)


WEIGHTS = (0.1, 0.5, 1.0, 2.5, 6.0, 16.0)
AS_CLAIMED = {  # by weight; a picture has 1600 pixels
    "elbo": [-10, -9, -8, -9, -12, -20],
    "tie": [9, 7, 5, 4, 6, 9],
    "printed": [14, 12, 10, 9, 11, 15],
    "squared_error": [1, 2, 4, 8, 20, 60],
    "reconstruction": [-0.5 * (1600 * math.log(2 * math.pi) + e) for e in (1, 2, 4, 8, 20, 60)],
    "rate": [7, 6, 5, 4, 2, 0],
}
STEEP, FLAT = [[3.0, 0.0], [0.0, 3.0]], [[3.0, 0.0], [2.9, 0.3]]  # motions: orthogonal, or not


def measured(**changes):
    """Return numbers of four networks per weight as in the paper, except for changes."""
    numbers = {"betas": list(WEIGHTS)}
    for name, line in AS_CLAIMED.items():
        values = np.array(line, float)[:, None] + np.linspace(-0.01, 0.01, 4)
        if name in changes:
            weight, value = changes[name]
            values[WEIGHTS.index(weight)] = value
        numbers[name] = values.ravel().tolist()
    motions = np.array([[FLAT] * 4] * 2 + [[STEEP] * 4] * 4)
    for weight, moved in changes.get("motions", {}).items():
        motions[WEIGHTS.index(weight)] = moved
    return {**numbers, "motions": motions.reshape(-1, 2, 2).tolist()}


def verdicts(numbers):
    """Return the verdicts other than pass, by the number of the claim."""
    claims = [
        *claims_of(numbers, "3", "x"), *tie_claims(numbers, "Minima", "x", np.min),
        fig3.worsens_claim(numbers), fig3.axes_claim(numbers),
    ]  # fmt: skip
    assert [claim.verdict for claim in claims[7:8]] == ["not comparable"]
    return {n: each.verdict for n, each in enumerate(claims) if each.verdict != "pass" and n != 7}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"elbo": (0.1, -7)}, {0: "fail"}),  # the maximum is elsewhere, and a rise follows
        ({"elbo": (0.5, -7.9)}, {0: "undecided"}),  # on the grid it is at the edge of our bound
        ({"elbo": (16.0, -11.8)}, {0: "fail"}),  # a rise after it
        ({"elbo": (6.0, [-8, -12, -16, -10])}, {0: "undecided"}),  # perhaps a rise
        ({"printed": (16.0, 8)}, {1: "undecided", 5: "undecided"}),
        ({"tie": (0.1, 3)}, {2: "undecided", 6: "undecided"}),
        ({"tie": (16.0, [9, 9, 9, 3.5])}, {2: "undecided", 6: "undecided"}),  # of one network
        ({"reconstruction": (2.5, -1472)}, {3: "fail"}),
        ({"rate": (2.5, [5.2, 5.2, 4.9, 4.9])}, {4: "undecided"}),
        ({"motions": {2.5: FLAT}}, {8: "fail"}),
        ({"motions": {2.5: [STEEP, STEEP, FLAT, STEEP]}}, {8: "undecided"}),
        ({"motions": {0.1: STEEP}}, {8: "fail"}),  # orthogonal, but no more than at the small one
    ],
)
def test_one_term_at_one_weight_changes_the_verdict_about_it(changes, expected):
    assert verdicts(measured(**changes)) == expected


def test_claims_report_maxima_below_one_and_unused_latents():
    claim = claims_of(measured(elbo=(0.5, -7)), "3", "x")[0]
    assert ", below 1, 0.5 on the grid;" in claim.got
    assert "at β = 0.5, exactly the edge of our bound" in claim.note
    dead = [[3.0, 0.0], [0.0, 0.1]]
    found = fig3.axes_claim(measured(motions={0.1: [FLAT, FLAT, FLAT, dead]}))
    assert "; 0.99 over 3 at β = 0.1; two" in found.got
    errors = fig3.worsens_claim(measured())
    assert errors.verdict == "not comparable"
    assert "picture 1.000 [0.990, 1.010] at β = 0.1 and 8.000 [7.990, 8.010] at 2.5" in errors.got


def test_the_optimum_of_deep_networks_is_that_of_the_linear_model_or_not():
    matrix = [[2.0, 0.3], [0.2, 1.8], [1.0, 1.0]]
    closed = [solve(matrix, beta) for beta in np.geomspace(0.1, 16, 60).tolist()]
    best = min(closed, key=lambda each: each.tie_aligned).beta
    far, near = (measured(tie=(weight, 1)) for weight in (6.0, 1.0))
    assert 0.6 < best < 1.7
    for numbers, verdict in ((near, "pass"), (far, "undecided")):
        claim = fig2.theory_claim({**numbers, "fresh": numbers}, closed)
        assert claim.verdict == verdict


def test_networks_away_from_the_closed_form_are_named():
    there, below, apart = ({"below": b, "apart": a} for b, a in ((0, 0), (0.011, 0), (0, 0.011)))

    def reaches(*dots):
        return fig1._reaches("descended", (0.5, 2.0), dots, iterations=500)

    assert reaches(there, there).verdict == "pass"
    for off in (below, apart):
        claim = reaches(there, off)
        assert claim.verdict == "fail"
        assert claim.note.startswith("Networks at β = 2 are not. L-BFGS stops")
