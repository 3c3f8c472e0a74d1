"""Identities on trained models, and the propositions of Sikka et al. on closed forms."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.theory import (
    corollary_1,
    corollary_2,
    elbo_parts,
    optimum,
    proposition_1,
    proposition_2,
    proposition_3,
    recode,
    rescaling,
    solve,
    solve_encoder,
    theorem_1,
    theorem_2,
)
from unweave.theory.identities import double

BETAS = np.geomspace(0.05, 100, 80)
MIXINGS = {
    "paper": 0.5 * (1 + np.eye(128, 2)),
    "tall": np.random.default_rng(0).normal(size=(6, 3)),
    "deficient": np.outer(np.arange(1.0, 6.0), [1.0, -2.0, 0.5]),
}


def trained(latent, **fields):
    x = np.random.default_rng(1).normal(size=(80, 5)) @ np.diag([2.0, 1.0, 1.0, 0.5, 0.2])
    fields = dict(objective=uw.BetaVAE(beta=1.0), steps=150) | fields
    return uw.fit(
        uw.data.from_array(x, scale="none")[0],
        latent=latent,
        network=uw.MLP((16,), "tanh"),
        likelihood=uw.likelihoods.Gaussian(scale=0.5),
        optimiser=uw.Adam(lr=1e-2),
        batch_size=40,
        split="all",
        progress=False,
        **fields,
    )


@pytest.fixture(scope="module")
def model():
    return trained(uw.Gaussian(3))


def test_all_identities_hold_on_a_trained_model(model):
    assert model.log[-1]["rate"] > 1
    for sides in (theorem_1(model, 3.0), corollary_1(model, 3.0), elbo_parts(model)):
        assert sides.left.shape == (80,)  # all of its data
        assert sides.gap < 1e-10 * sides.left.abs().max()
    slopes = corollary_2(model, 3.0)
    assert slopes.gap < 1e-10 * slopes.left.abs().max()
    assert {name.split(".")[0] for name in slopes.parts} == {"encoder", "decoder"}
    assert theorem_2(model, 3.0).moved() == ["total_correlation", "dimension_kl"]
    assert rescaling(model, 3.0).moved() == ["objective", "rate", "entropy", "kl", "dimension_kl"]


def test_observations_and_rotations_may_be_arrays(model):
    x = model.observations(torch.arange(80))
    tensor = torch.from_numpy(x)
    assert torch.equal(theorem_1(model, 3.0, x).left, theorem_1(model, 3.0, tensor).left)
    assert theorem_1(double(model), 3.0, x).gap < 1e-9
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert theorem_2(model, 3.0, turn, x).moved() == ["total_correlation", "dimension_kl"]


def test_identities_use_the_trained_weights(model):
    """In float64 what the library has in float32: codes, and rates."""
    x = model.observations(torch.arange(80))
    passed, _ = recode(model, torch.eye(3))
    assert model.encode(x) == pytest.approx(passed.q.mean.detach().numpy(), abs=1e-5)
    table = model.table()
    assert passed.rate.mean().item() == pytest.approx(table.kl.sum(), rel=1e-4)
    found = optimum(model)
    assert found.beta == model.run.objective.beta
    assert found.rate == pytest.approx(passed.rate.mean().item())
    assert found.reconstruction == pytest.approx(-passed.distortion.mean().item())


@pytest.mark.parametrize("name", MIXINGS)
def test_propositions_hold_at_closed_forms(name):
    """Weights from 0.05 to 100, with 1 and every eigenvalue among them."""
    thresholds = solve(MIXINGS[name], 1.0).thresholds
    betas = sorted({*BETAS.tolist(), 1.0, *thresholds.tolist()})
    found = [solve(MIXINGS[name], beta) for beta in betas]
    for proposition in (proposition_1, proposition_2, proposition_3):
        bounds = proposition(found)
        assert bounds.slack > -1e-9 * bounds.value.abs().max(), proposition
        assert bounds.value.shape == (len(found) - 1,)
    all_of = [p(found) for p in (proposition_1, proposition_2, proposition_3)]
    first, second, third = ((each.value - each.low).numpy() for each in all_of)
    assert first * np.diff(betas) == pytest.approx(second, abs=1e-9)  # one inequality, three forms
    assert third == pytest.approx(second, abs=1e-9)
    rates, elbos = [each.rate for each in found], [each.elbo for each in found]
    assert max(np.diff(rates)) < 1e-12
    assert min(rates) >= 0
    assert max(np.diff([each.reconstruction for each in found])) < 1e-9
    assert max(np.diff([each.objective for each in found])) < 1e-12
    assert betas[int(np.argmax(elbos))] == 1.0


def test_propositions_hold_for_a_fixed_decoder():
    """[Sikka2019] sec. IV-A."""
    a, d = np.random.default_rng(2).normal(size=(2, 6, 3))
    found = [solve_encoder(a, d, beta) for beta in BETAS]
    for proposition in (proposition_1, proposition_2, proposition_3):
        assert proposition(found).slack > 0


def test_the_slope_of_the_objective_is_minus_the_rate():
    """Proposition 1 as it is printed, by a central difference."""
    a, step = MIXINGS["tall"], 1e-5
    for beta in (0.2, 1.0, 3.0):
        ends = [solve(a, beta + sign * step).objective for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert slope == pytest.approx(-solve(a, beta).rate, rel=1e-6)


def test_propositions_reject_models_of_different_problems(model):
    a = MIXINGS["tall"]
    others = (
        [solve(a, 1.0), solve(2 * a, 2.0)],
        [solve(a, 1.0), solve(a, 2.0, noise=0.5)],
        [model, trained(uw.Gaussian(2), objective=uw.BetaVAE(beta=2.0), steps=1)],
    )
    for models in others:
        with pytest.raises(ValueError, match="expected optima of one problem"):
            proposition_1(models)
    other = trained(uw.Gaussian(3), objective=uw.BetaVAE(beta=2.0), steps=1, seed=1)
    assert proposition_1([model, other]).value.shape == (1,)


def test_results_have_a_one_line_repr(model):
    assert "80 numbers, gap" in repr(theorem_1(model, 3.0))
    assert "2 latents active, elbo " in repr(solve(MIXINGS["paper"], 1.0))


def test_bounds_have_negative_slack_where_a_proposition_fails():
    """A model that is no optimum: one with the weight of another."""
    found = [optimum(solve(MIXINGS["tall"], beta)) for beta in (0.5, 1.0, 2.0)]
    wrong = [found[0], found[1]._replace(rate=found[0].rate + 1), found[2]]
    assert proposition_1(wrong).slack < -0.1
    assert proposition_2(wrong).slack < -0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: theorem_1(trained(uw.Gaussian(2, learn="variances"), steps=1), 2.0), "anneals"),
        (lambda m: corollary_1(trained(uw.StudentT(2, df=4), steps=1), 2.0), "Gaussian prior"),
        (lambda m: theorem_2(trained(uw.Categorical(3), steps=1), 2.0), "real columns"),
        (lambda m: corollary_2(m, 0.0), "beta above 0"),
        (lambda m: corollary_1(m, float("inf")), "above 0 and finite"),
        (lambda m: theorem_1(m, 2.0, np.zeros((4, 9))), r"shape \(B, 5\), got \(4, 9\)"),
        (lambda m: theorem_1(m, 2.0, "x"), "expected numbers"),
        (lambda m: theorem_2(m, 2.0, np.diag([2.0, 1.0, 1.0])), "rotation R with R R"),
        (lambda m: theorem_2(m, 2.0, np.eye(2)), r"\(3, 3\), got shape \(2, 2\)"),
        (lambda m: recode(m, np.ones((3, 3))), "invertible"),
        (lambda m: recode(m, np.full((3, 3), np.nan)), "finite numbers"),
        (lambda m: elbo_parts(double(m)), "give x"),
        (lambda m: optimum(trained(uw.Gaussian(2), steps=1, objective=uw.WAE())), "fixed beta"),
        (lambda m: proposition_1([m]), "two weights or more"),
        (lambda m: proposition_1([m, m]), "each once"),
    ],
)
def test_inputs_outside_a_theorem_are_rejected(model, call, message):
    with pytest.raises(ValueError, match=message):
        call(model)
