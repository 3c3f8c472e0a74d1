"""Figures 2 and 3 of Sikka et al.: terms of many networks, and what is read off them."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave as uw
from reproduced import desk, put, put_closed_form
from unweave.data import MNIST, Mixing, MovingDigit, from_array
from unweave.latents import FullGaussian
from unweave.papers.sikka2019 import deep
from unweave.papers.sikka2019.deep import Study, extremum, largest_rise, terms_of
from unweave.papers.sikka2019.fig3 import cosines, motions
from unweave.papers.sikka2019.inference import Truth, inference_errors
from unweave.theory import observations, solve


def encoders(latents, seed, size=40, width=7):
    """Truth, and an encoder that mixes the sources and sees other noise."""
    rng = np.random.default_rng(seed)
    loadings = 0.5 + rng.normal(size=(width, latents))
    seen = rng.normal(size=(size, latents)) @ loadings.T + rng.normal(size=(size, width))
    turn = np.linalg.qr(rng.normal(size=(latents, latents)))[0]
    precision = loadings.T @ loadings + np.eye(latents)
    mean = np.linalg.solve(precision, loadings.T @ seen.T).T @ turn
    return Truth(loadings, seen), mean, rng.uniform(0.05, 0.5, (size, latents))


def plain(truth, mean, variance, order, signs):
    """E[KL(q || p(s|x))] with the library's own Gaussians, for one order and signs of latents."""
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


def test_the_error_of_an_optimal_linear_encoder_is_that_of_the_closed_form():
    loadings = np.random.default_rng(0).uniform(0, 1, (30, 10))
    seen, _ = observations(loadings, 60)
    for beta in (0.3, 2.0):
        found = solve(loadings, beta)
        variance = np.tile(np.exp(found.log_variances), (60, 1))
        errors = inference_errors(seen @ found.encoder.T, variance, Truth(loadings, seen))
        assert errors == pytest.approx((found.tie_aligned, found.tie))


def test_terms_of_lanes_are_those_of_the_closed_form(tmp_path, monkeypatch):
    """Weights put in by hand; on moments that are not quite those of the model."""
    matrix = tuple(map(tuple, 0.5 * (1 + np.eye(6, 2))))
    study = Study(
        Mixing(matrix=matrix, observations=1000), latents=2, betas=(0.5, 2.0), seeds=(0,),
        epochs=1, hidden=(),
    )  # fmt: skip
    world = study.data.load(torch.device("cpu"))
    models = desk(tmp_path).carry_out(study.runs, world)
    found = [solve(matrix, beta) for beta in study.betas]
    for model, each in zip(models, found, strict=True):
        put_closed_form(model, each)
    monkeypatch.setattr(deep, "_AT_ONCE", {"cpu": 2 * 6 * 200 * 300, "cuda": 0})
    x = world.images(torch.arange(world.size)).double().numpy()
    got = terms_of(
        models, world, Truth(study.data.loadings().numpy(), x), samples=200, desk=desk(tmp_path)
    )
    for number, each in enumerate(found):
        terms = {"elbo": each.elbo, "tie": each.tie_aligned, "rate": each.rate, "mie": each.mie,
                 "reconstruction": each.reconstruction}  # fmt: skip
        for name, wanted in terms.items():
            assert got[name][number] == pytest.approx(wanted, abs=0.25), name
    assert got["elbo"] == pytest.approx(np.subtract(got["reconstruction"], got["rate"]), abs=2e-4)


def test_extrema_are_found_between_the_weights():
    betas = (0.1, 0.5, 1.0, 3.0, 10.0)
    curve = -np.square(np.log(np.array(betas) / 1.3))
    rng = np.random.default_rng(0)
    values = curve[:, None] + 0.01 * rng.normal(size=(5, 100))
    exact = extremum(betas, curve[:, None], top=True)
    assert exact == pytest.approx((1.3, 1.3, 1.3))
    drawn = extremum(betas, values, top=True)
    assert drawn.low < 1.3 < drawn.high
    assert drawn.high - drawn.low < 0.05
    assert extremum(betas, -values, top=False) == pytest.approx(drawn)
    assert extremum(betas, np.array(betas)[:, None], top=False).value == pytest.approx(0.1)


def test_rises_come_with_their_error():
    falling = np.array([[3.0, 3.2], [2.0, 2.1], [1.9, 1.8]])
    assert largest_rise(falling).value == pytest.approx(-0.2)
    assert largest_rise(falling).high < 0
    assert largest_rise(falling[::-1]).low > 0


def test_numbers_are_kept_beside_the_page_and_read_again(tmp_path):
    runs = [uw.Run(seed=seed) for seed in (0, 1)]
    one, asked = desk(tmp_path / "runs"), []

    def measure():
        asked.append(1)
        one.trained += 2
        return {"elbo": (1.0, 2.0)}

    place = tmp_path / "out/paper/fig9"
    one.turn_to(place)
    assert one.measured(runs, {"samples": 2}, measure) == {"elbo": [1.0, 2.0]}
    assert one.earlier is None
    kept = json.loads((tmp_path / "out/paper/fig9-numbers.json").read_text())
    assert kept["cost"]["trained"] == 2
    again = desk(tmp_path / "elsewhere")
    again.turn_to(place)
    assert again.measured(runs, {"samples": 2}, measure) == {"elbo": [1.0, 2.0]}
    assert (again.earlier, again.trained, len(asked)) == (kept["cost"], 0, 1)
    assert not Path(tmp_path / "elsewhere").exists()
    again.measured(runs[:1], {"samples": 2}, measure)  # other runs
    again.measured(runs[:1], {"samples": 3}, measure)  # measured otherwise
    assert len(asked) == 3


def test_motions_are_those_of_what_decoders_show(tmp_path):
    """A decoder that is linear in z: a spot whose mass goes right with z1, and down with z2."""
    study = Study(
        MovingDigit(digits=MNIST(), side=8, observations=100), latents=2, betas=(1.0, 2.0),
        seeds=(0,), epochs=1, hidden=(),
    )  # fmt: skip
    ways = np.array([[0.5, 0.0], [0.25, 1.0]])  # pixels by which each latent moves the mass
    y, x = np.meshgrid(np.arange(8) - 3.5, np.arange(8) - 3.5, indexing="ij")
    places = np.stack([x.ravel(), y.ravel()])
    power = np.square(places).mean(1)  # a change of mass by place / power moves the mean by one
    loadings = (places / power[:, None]).T @ ways.T / 2  # half of it on either side of 0
    world = from_array(np.random.default_rng(0).random((100, 8, 8), np.float32))[1]
    models = desk(tmp_path).carry_out(study.runs, world)
    for model in models:
        put(model, decoder__0__weight=loadings, decoder__0__bias=np.ones(64))
    moved = np.array(motions(models))
    np.testing.assert_allclose(moved, [ways, ways], atol=2e-3)
    cosine, shorter = cosines(moved)
    np.testing.assert_allclose(cosine, 0.25 / np.hypot(0.25, 1), atol=2e-3)
    np.testing.assert_allclose(shorter, 0.5, atol=2e-3)
