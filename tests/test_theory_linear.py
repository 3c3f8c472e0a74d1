"""The linear beta-VAE in closed form, against Gaussians written out, optimisers and training."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, Normal, kl_divergence

import unweave as uw
from unweave.core.noise import Noise
from unweave.theory import observations, solve, solve_encoder

f64 = torch.float64
RNG = np.random.default_rng(0)
MIXINGS = {  # with the standard deviation of the noise
    "paper": (0.5 * (1 + np.eye(128, 2)), 1.0),
    "tall": (RNG.normal(size=(6, 3)), 1.0),
    "noisy": (RNG.normal(size=(5, 3)), 0.4),
    "deficient": (np.outer(RNG.normal(size=5), [1.0, -2.0, 0.5]), 1.3),
    "wide": (RNG.normal(size=(2, 3)), 1.0),
}
SMALL = ("tall", "noisy", "deficient", "wide")
mixings = pytest.mark.parametrize("name", MIXINGS)
BETAS = np.geomspace(0.05, 100, 60).tolist()


def sigma(a, noise):
    return torch.tensor(a @ a.T + noise**2 * np.eye(len(a)))


def points(a, noise):
    """2 N points with mean 0 and covariance Sigma_x: means of quadratics over them are exact."""
    root = torch.linalg.cholesky(sigma(a, noise)).T * math.sqrt(len(a))
    return torch.cat([root, -root])


def posterior(loadings, noise, x):
    """p(z|x) of x = loadings z + eta by conditioning the joint Gaussian, eq. 48 and 49."""
    latents = loadings.shape[1]
    gain = torch.linalg.solve(loadings @ loadings.T + noise**2 * torch.eye(len(loadings)), loadings)
    covariance = torch.eye(latents) - loadings.T @ gain
    return MultivariateNormal(x @ gain, 0.5 * (covariance + covariance.T))


@pytest.fixture(autouse=True)
def _doubles():
    torch.set_default_dtype(f64)
    yield
    torch.set_default_dtype(torch.float32)


def by_hand(found, order=None, signs=None):
    """Compute all terms with torch's distributions, averaged over the points, for given latents."""
    a, noise = found.mixing, found.noise
    x, d, w = points(a, noise), torch.tensor(found.decoder), torch.tensor(found.encoder)
    v = torch.tensor(found.log_variances).exp()
    mean = x @ w.T
    q = MultivariateNormal(mean, torch.diag(v))
    log_x = Normal(mean @ d.T, noise).log_prob(x).sum(-1)
    reconstruction = (log_x - 0.5 * (d.square().sum(0) @ v) / noise**2).mean()
    rate = kl_divergence(q, MultivariateNormal(torch.zeros(len(v)), torch.eye(len(v)))).mean()
    marginal = MultivariateNormal(torch.zeros(len(a)), d @ d.T + noise**2 * torch.eye(len(a)))
    order = list(range(len(v))) if order is None else list(order)
    signs = torch.ones(len(v)) if signs is None else torch.tensor(signs, dtype=f64)
    turned = MultivariateNormal(mean[:, order] * signs, torch.diag(v[order]))
    return {
        "reconstruction": reconstruction.item(),
        "rate": rate.item(),
        "elbo": (reconstruction - rate).item(),
        "objective": (reconstruction - found.beta * rate).item(),
        "log_likelihood": marginal.log_prob(x).mean().item(),
        "mie": kl_divergence(q, posterior(d, noise, x)).mean().item(),
        "tie": kl_divergence(turned, posterior(torch.tensor(a), noise, x)).mean().item(),
    }


@mixings
@pytest.mark.parametrize("beta", [0.05, 0.7, 1.0, 3.0, 100.0])
def test_every_term_equals_that_of_explicit_gaussians(name, beta):
    found = solve(MIXINGS[name][0], beta, MIXINGS[name][1])
    for term, expected in by_hand(found).items():
        assert getattr(found, term) == pytest.approx(expected, rel=1e-9, abs=1e-9), term
    assert found.mie == pytest.approx(found.log_likelihood - found.elbo, abs=1e-9)  # eq. 16


@mixings
def test_equation_23_holds_at_every_beta(name):
    for beta in BETAS:
        found = solve(MIXINGS[name][0], beta, MIXINGS[name][1])
        assert max(found.residuals) < 1e-13, beta


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e6, 1e9])
def test_terms_do_not_depend_on_the_units_of_the_data(scale):
    """Data in other units have the same terms; data far larger than the noise lose no digits."""
    a, shift = MIXINGS["tall"][0], 6 * math.log(scale)
    found, other = solve(a, 1.5, 0.7), solve(scale * a, 1.5, scale * 0.7)
    for term in ("rate", "mie", "tie", "tie_aligned"):
        assert getattr(other, term) == pytest.approx(getattr(found, term), rel=1e-9)
    for term in ("elbo", "log_likelihood"):
        assert getattr(other, term) == pytest.approx(getattr(found, term) - shift, rel=1e-9)
    large = solve(np.random.default_rng(2).normal(size=(300, 8)) * scale, 3.0)
    assert max(large.residuals) < 1e-13
    assert large.log_likelihood - large.elbo - large.mie == pytest.approx(0, abs=1e-7)


def test_residuals_are_large_away_from_the_optimum():
    found = solve(MIXINGS["tall"][0], 1.5)
    for name in ("decoder", "encoder", "log_variances"):
        moved = {n: getattr(found, n) for n in ("decoder", "encoder", "log_variances")}
        moved[name] = moved[name] * 1.01
        other = type(found)(found.mixing, found.beta, found.noise, thresholds=found.thresholds,
                            **moved)  # fmt: skip
        assert max(other.residuals) > 1e-3


@mixings
def test_latents_die_exactly_at_their_eigenvalues(name):
    a, noise = MIXINGS[name]
    values = torch.linalg.eigvalsh(sigma(a, noise)).flip(0)[: a.shape[1]] / noise**2
    thresholds = solve(a, 1.0, noise).thresholds
    assert thresholds[: len(values)] == pytest.approx(values.numpy())
    assert (thresholds[len(values) :] == 0).all()  # more latents than numbers in x
    for i, beta in enumerate(thresholds[: len(values)]):
        before, at = solve(a, np.nextafter(beta, 0), noise), solve(a, beta, noise)
        assert before.active[i]
        assert np.abs(before.decoder[:, i]).max() > 0
        assert not at.active[i]
        assert (at.decoder[:, i] == 0).all()
        assert (at.encoder[i] == 0).all()
        assert at.log_variances[i] == 0


@pytest.mark.parametrize("beta", [0.5, 1.1, 3.0])
def test_equally_large_entries_have_the_sign_of_the_first(beta):
    """In the paper's example the second column of D is along (1, -1, 0, ...)."""
    a = MIXINGS["paper"][0]
    found = solve(a, beta)
    assert (found.decoder[0] >= 0).all()
    rng = np.random.default_rng(0)
    for other in (a * (1 + 1e-15), np.roll(a, 3, 0), np.insert(a, 1, a[9], 0)[: len(a)],
                  a + 1e-12 * rng.normal(size=a.shape)):  # fmt: skip
        assert solve(other, beta).tie == pytest.approx(found.tie, rel=1e-6)
        assert solve(other, beta).tie_aligned == pytest.approx(found.tie_aligned, rel=1e-6)
    mirrored = solve(a[::-1], beta)  # the first of the two is another: no convention heals that
    assert mirrored.tie_aligned == pytest.approx(found.tie_aligned)
    assert (mirrored.tie == pytest.approx(found.tie)) == (beta > 1.25)


def test_the_gap_is_zero_if_the_optimum_is_not_unique():
    """Equal eigenvalues: a change of 1e-9 in A updates D and moves the true inference error."""
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2)
    nearly = [solve(np.eye(4, 2) @ np.diag([2.0, 2.0 + e]) @ turn, 0.5) for e in (0.0, 1e-9)]
    assert abs(nearly[0].tie_aligned - nearly[1].tie_aligned) > 1
    assert nearly[0].elbo == pytest.approx(nearly[1].elbo)
    assert [each.gap < 1e-8 for each in nearly] == [True, True]
    apart = [solve(np.eye(4, 2) @ np.diag([2.0, 2.1 + e]) @ turn, 0.5) for e in (0.0, 1e-9)]
    assert apart[0].tie_aligned == pytest.approx(apart[1].tie_aligned, rel=1e-7)
    assert apart[0].gap == pytest.approx(1 - 5 / (2.1**2 + 1))
    assert solve(2 * np.eye(4, 2), 5.5).gap == math.inf  # no latent lives
    deficient = MIXINGS["deficient"][0]  # below 1 latents live in the noise, in any direction
    assert solve(deficient, 0.5).gap == pytest.approx(0, abs=1e-12)
    assert solve(deficient, 1.5).gap > 0.5


def equation_21(a, noise, beta, parameters):
    """L_beta with all its parameters, and the constants that the paper leaves out."""
    d, w, slopes, b_mean, b_x, b = parameters
    s, size, k = sigma(a, noise), *a.shape
    gap = d @ w - torch.eye(size)
    spread = (0.5 * torch.diagonal(slopes @ s @ slopes.T) + b).exp()
    squares = (
        (torch.trace(gap @ s @ gap.T) + (d @ b_mean + b_x).square().sum()) / noise**2
        + beta * (torch.trace(w @ s @ w.T) + b_mean.square().sum())
        + ((d.square().sum(0) / noise**2 + beta) * spread).sum()
        - beta * b.sum()
    )
    return -0.5 * (squares + size * math.log(2 * math.pi * noise**2) - beta * k)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("beta", [0.3, 2.5])
def test_no_optimiser_beats_the_closed_form(name, beta):
    """L-BFGS in float64 over all parameters of eq. 21, the biases and W^sigma among them."""
    a, noise = MIXINGS[name]
    (size, k), found = a.shape, []
    for restart in range(2):
        shapes = [(size, k), (k, size), (k, size), (k,), (size,), (k,)]
        draw = Noise(restart)
        parameters = [
            (0.5 * draw.normal(shape, str(i), f64)).requires_grad_()
            for i, shape in enumerate(shapes)
        ]
        search = torch.optim.LBFGS(
            parameters, max_iter=250, tolerance_change=1e-13, line_search_fn="strong_wolfe"
        )

        def loss(search=search, parameters=parameters):
            search.zero_grad()
            value = -equation_21(a, noise, beta, parameters)
            value.backward()
            return value

        search.step(loss)
        found.append(-loss().item())
    best = solve(a, beta, noise).objective
    assert max(found) <= best + 1e-9
    assert max(found) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("name", ["paper", "tall", "noisy"])
def test_at_beta_1_and_full_rank_the_elbo_is_the_log_likelihood_of_the_truth(name):
    a, noise = MIXINGS[name]
    found = solve(a, 1.0, noise)
    truth = -MultivariateNormal(torch.zeros(len(a)), sigma(a, noise)).entropy().item()
    assert found.elbo == pytest.approx(found.log_likelihood, abs=1e-10)
    assert found.log_likelihood == pytest.approx(truth, abs=1e-9)
    assert found.mie == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("beta", [0.4, 2.0])
def test_the_alignment_is_the_best_of_all_signed_permutations(name, beta):
    found = solve(MIXINGS[name][0], beta, MIXINGS[name][1])
    k = len(found.thresholds)
    every = [
        by_hand(found, order, signs)["tie"]
        for order in itertools.permutations(range(k))
        for signs in itertools.product((1, -1), repeat=k)
    ]
    assert found.tie_aligned == pytest.approx(min(every), abs=1e-9)
    assert by_hand(found, *found.alignment)["tie"] == pytest.approx(found.tie_aligned, abs=1e-9)
    assert found.tie_aligned <= found.tie + 1e-12


DECODERS = {
    "random": np.random.default_rng(4).normal(size=(6, 3)),
    "true": MIXINGS["tall"][0],
    "one latent less": np.random.default_rng(5).normal(size=(6, 3)) * [1.0, 0.0, 2.0],
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("noise", [1.0, 0.4])
def test_with_a_fixed_decoder_the_model_inference_error_is_smallest_at_beta_1(name, noise):
    """[Sikka2019] sec. IV-A: the likelihood stays, the ELBO is largest at beta = 1."""
    a, d = MIXINGS["tall"][0], DECODERS[name]
    betas = [*BETAS, 1.0]
    found = [solve_encoder(a, d, beta, noise) for beta in betas]
    errors, likelihood = [each.mie for each in found], found[-1].log_likelihood
    assert [each.log_likelihood for each in found] == pytest.approx([likelihood] * len(found))
    assert [likelihood - each.elbo for each in found] == pytest.approx(errors, abs=1e-9)
    assert min(errors[:-1]) > errors[-1]
    precision = d.T @ d / noise**2 + np.eye(3)
    least = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    assert errors[-1] == pytest.approx(least)
    assert least > 1e-3
    assert (found[0].active == (d != 0).any(0)).all()
    if name == "true":
        assert [each.tie for each in found] == pytest.approx(errors)


@pytest.mark.parametrize("beta", [0.3, 2.5])
def test_the_encoder_for_a_fixed_decoder_is_the_optimum(beta):
    """The objective is concave in W and log v: it is where its slopes are 0, and nowhere else."""
    (a, noise), d = MIXINGS["noisy"], np.random.default_rng(6).normal(size=(5, 3))
    found = solve_encoder(a, d, beta, noise)
    for term, expected in by_hand(found).items():
        assert getattr(found, term) == pytest.approx(expected, rel=1e-9, abs=1e-9), term
    assert max(found.residuals.encoder, found.residuals.log_variances) < 1e-13
    assert found.residuals.decoder > 0.01
    w, v = (torch.tensor(each, requires_grad=True) for each in (found.encoder, found.log_variances))
    zeros = [torch.zeros(3, 5), torch.zeros(3), torch.zeros(5)]
    value = equation_21(a, noise, beta, (torch.tensor(d), w, *zeros, v))
    assert value.item() == pytest.approx(found.objective)
    assert max(slope.abs().max() for slope in torch.autograd.grad(value, (w, v))) < 1e-9
    every = [
        by_hand(found, order, signs)["tie"]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1, -1), repeat=3)
    ]
    assert found.tie_aligned == pytest.approx(min(every))  # though codes are correlated


@mixings
def test_the_encoder_for_the_optimal_decoder_is_that_of_the_optimum(name):
    a, noise = MIXINGS[name]
    found = solve(a, 1.7, noise)
    other = solve_encoder(a, found.decoder, 1.7, noise)
    assert other.encoder == pytest.approx(found.encoder, abs=1e-12)
    assert other.log_variances == pytest.approx(found.log_variances, abs=1e-12)
    assert max(other.residuals) < 1e-12


def test_twenty_thousand_dimensions():
    """No N x N matrix: 20,000 numbers an observation, 60 sources."""
    found = solve(np.random.default_rng(1).normal(size=(20_000, 60)), 3.0)
    assert max(found.residuals) < 1e-12
    assert found.mie == pytest.approx(found.log_likelihood - found.elbo, abs=1e-8)
    assert found.tie_aligned <= found.tie


def test_a_trained_linear_vae_reaches_the_closed_form():
    """On observations whose moments are those of the model, the means of all terms are exact."""
    torch.set_default_dtype(torch.float32)
    a, noise, beta = np.array([[1.5, 0.2], [0.0, 0.9], [0.3, -0.4]]), 0.5, 2.0
    found = solve(a, beta, noise)
    x = points(a, noise).float().repeat(50, 1)
    model = uw.fit(
        uw.data.from_array(x, scale="none")[0],
        latent=uw.Gaussian(2),
        network=uw.MLP(hidden=()),
        likelihood=uw.likelihoods.Gaussian(scale=noise),
        objective=uw.BetaVAE(beta=beta),
        optimiser=uw.Adam(lr=0.01),
        batch_size=len(x),
        split="all",
        steps=1500,
        progress=False,
        device="cpu",
    )
    mean, scale = model.posterior(x.numpy()[:6])
    decoder = (model.decode(np.eye(2)) - model.decode(np.zeros((2, 2)))).T
    errors = (model.decode(mean) - x.numpy()[:6]) / noise
    spread = (np.square(scale) @ np.square(decoder).sum(0)) / noise**2
    constant = 3 * math.log(2 * math.pi * noise**2)
    reconstruction = -0.5 * (np.square(errors).sum(1) + spread + constant).mean()
    rates = 0.5 * (np.square(mean) + np.square(scale) - 1 - 2 * np.log(scale)).sum(1)
    reached = reconstruction - beta * rates.mean()
    assert found.objective - 0.02 < reached < found.objective + 1e-4
    assert reconstruction - rates.mean() == pytest.approx(found.elbo, abs=0.05)
    assert found.active.tolist() == [True, True]
    products = decoder @ decoder.T  # whatever the order and the signs of the latents
    assert products == pytest.approx(found.decoder @ found.decoder.T, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve([1.0, 2.0], 1.0), r"matrix of finite numbers, \(N, k\), got shape \(2,\)"),
        (lambda: solve([[math.nan]], 1.0), "not finite"),
        (lambda: solve(np.zeros((0, 2)), 1.0), "got shape"),
        (lambda: solve([["a"]], 1.0), "mixing matrix of real numbers"),
        (lambda: solve([[1.0], [1.0, 2.0]], 1.0), "mixing matrix of real numbers"),
        (lambda: solve(np.array([[1 + 1j]]), 1.0), "mixing matrix of real numbers"),
        (lambda: solve([[1.0]], 0.0), "beta as a number above 0"),
        (lambda: solve([[1.0]], math.inf), "above 0 and finite"),
        (lambda: solve([[1.0]], np.array([1.0, 2.0])), "beta as a number"),
        (lambda: solve([[1.0]], "1"), "beta as a number"),
        (lambda: solve([[1.0]], 1.0, -1.0), "noise as a number above 0"),
        (lambda: solve([[1e200]], 1.0), r"up to 1e\+10 times the noise, got 1e\+200"),
        (lambda: solve([[1.0]], 1.0, 1e-200), "use a larger noise"),
        (
            lambda: solve_encoder(np.eye(3), np.eye(3, 2), 1.0),
            r"shape of the mixing matrix, \(3, 3",
        ),
        (lambda: solve_encoder([[1.0]], [[1e11]], 1.0), "times the noise"),
        (lambda: observations([1.0, 2.0], 100), "mixing matrix of finite numbers"),
        (lambda: observations([[math.nan]], 100), "not finite"),
        (lambda: observations(np.ones((3, 3, 3)), 100), r"got shape \(3, 3, 3\)"),
        (lambda: observations([[1.0]], 100, noise=-1.0), "noise as a number above 0"),
        (lambda: observations([[1.0]], 100, noise=math.nan), "noise as a number above 0"),
        (lambda: observations([[1.0]], 100.5), "whole number of observations, got 100.5"),
        (lambda: observations([[1.0]], 2), "more observations"),
    ],
)
def test_invalid_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
