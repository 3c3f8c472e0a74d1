"""The Python interface, as in the README."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

import unweave as uw
from datasets import ADVERSARIAL, LATENTS, SMALL
from unweave.core.noise import Noise
from unweave.latents import with_hard_samples
from unweave.metrics import left_out
from unweave.metrics.registry import select
from unweave.training import Outcome

FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, progress=False)
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def model():
    return uw.fit(SMALL, steps=20, **FIELDS)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)


def test_codes_and_images_have_the_right_shapes(model):
    x = model.observations([0, 1, 2, 3, 4])
    assert x.shape == (5, 1, 16, 16)
    mean, scale = model.posterior(x)
    assert np.array_equal(mean, model.encode(x))
    assert (scale > 0).all()
    assert model.decode(mean).shape == model.reconstruct(x).shape == (5, 1, 16, 16)
    assert np.array_equal(model.reconstruct(x), model.decode(model.encode(x)))
    assert model.sample(7).shape == (7, 1, 16, 16)
    assert np.array_equal(model.sample(7, seed=1), model.sample(7, seed=1))
    assert not np.array_equal(model.sample(7, seed=1), model.sample(7, seed=2))


def test_a_traversal_changes_one_dimension_from_its_start(model):
    x = model.observations([7])
    traversals = model.traverse(x, values=[-1.0, 0.5])
    code = model.encode(x)[0]
    for column in range(3):
        for place, value in enumerate([-1.0, 0.5]):
            moved = code.copy()
            moved[column] = value
            assert np.allclose(traversals[column][place], model.decode(moved[None])[0], atol=1e-6)
    middle = model.traverse(values=[0.0])
    assert np.allclose(middle, model.decode(np.zeros((1, 3)))[None], atol=1e-6)
    assert [walk.shape for walk in model.traverse(x, steps=5)] == [(5, 1, 16, 16)] * 3
    assert np.allclose(model.traverse(x, steps=3)[2], model.traverse(x, values=[-2, 0, 2])[2])
    with pytest.raises(ValueError, match="one observation"):
        model.traverse(model.observations([1, 2]))


def test_a_table_has_the_encoders_posteriors(model):
    table = model.table(50)
    assert len(table) == 50
    index = model.rows(50)
    mean, scale = model.posterior(model.observations(index))
    assert np.allclose(table.codes, mean, atol=1e-6)
    assert np.allclose(table.scales, scale, atol=1e-6)
    kl = 0.5 * (mean**2 + scale**2 - 1 - 2 * np.log(scale)).mean(0)
    assert np.allclose(table.kl, kl, atol=1e-5)
    assert np.array_equal(table.factors, SMALL.lattice.factors(index).numpy())


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_codes_traversals_and_tables_of_every_latent_space(latent):
    model = uw.fit(SMALL, steps=3, **(FIELDS | {"latent": latent}))
    x, count = model.observations([3, 4]), len(latent.variables)
    codes = model.codes(x)
    assert codes.shape == (2, count)
    assert model.encode(x).shape == (2, latent.size)
    assert model.reconstruct(x).shape == x.shape
    traversals = model.traverse(x[:1], steps=4)
    expected = [len(walk) for walk in latent.traversal_values(model.prior(), 4)]
    assert [walk.shape for walk in traversals] == [(n, *x.shape[1:]) for n in expected]
    given = model.traverse(values=[0.1, 0.2, 0.3])
    for walk, own, discrete in zip(given, expected, latent.discrete, strict=True):
        assert len(walk) == (own if discrete else 3)
    table = model.table(100)
    assert table.codes.shape == table.scales.shape == (100, count)
    assert tuple(table.discrete) == latent.discrete
    index = model.rows(100)
    assert np.allclose(table.codes, model.codes(model.observations(index)), atol=1e-5)
    assert table.codes[:, table.discrete].astype(int).tolist() == (
        table.codes[:, table.discrete].tolist()
    )
    for column, width in enumerate(latent.variables):
        if width > 1:
            assert table.codes[:, column].max() < width
            assert (table.scales[:, column] == 1).all()
    assert ("mig/chen2018" in select(table, None)) == all(latent.normal)
    assert ("mig/chen2018" in left_out(table)) != all(latent.normal)
    found = model.log_likelihood(x, particles=20)
    assert found.shape == (2,)
    assert np.isfinite(found).all()
    assert np.array_equal(found, model.log_likelihood(x, particles=20))


def test_rates_without_a_formula_are_estimated_on_samples():
    """log q - log p at the mean of q is no estimate of the rate: here it is 0.43 nats more."""
    latent = uw.Gaussian(3, sampled_rate=True)
    model = uw.fit(SMALL, steps=1, **(FIELDS | {"latent": latent}))
    index = model.rows()
    q = latent.posterior(torch.tensor([0.5, 0.5, 0.5, -2.0, -2.0, -2.0]).expand(len(index), -1))
    exact = uw.Gaussian(3).rates(q, model.prior(), q.mean)[0]
    assert np.allclose(model.tabulate(index, q).kl, exact, atol=0.12)


def linear_gaussian(spread):
    """x = W z + b + 0.5 eps with W^T W diagonal, so that a diagonal posterior is exact.

    `spread` widens q(z|x) by a factor.
    """
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    model = uw.fit(
        uw.data.from_array(x, scale="none")[0],
        steps=1, latent=uw.Gaussian(2), network=uw.MLP(hidden=()), batch_size=8,
        likelihood=uw.likelihoods.Gaussian(0.5), progress=False,
    )  # fmt: skip
    w = torch.tensor([[1.0, 0.5], [1.0, -0.5], [0.3, 0.6], [0.3, -0.6]])
    b = torch.tensor([0.1, -0.2, 0.3, 0.0])
    variances = 1 / (1 + (w.T @ w).diagonal() / 0.25)
    gain = variances[:, None] * w.T / 0.25
    log_variances = torch.log(variances * spread**2)
    encoder = torch.cat([gain, torch.zeros(2, 4)]), torch.cat([-gain @ b, log_variances])
    weights = {name: value[0] for name, value in model.trained.weights.items()}
    names = [name for name in weights if name.startswith("model.")]
    assert [name.split(".")[1] for name in names] == ["encoder"] * 2 + ["decoder"] * 2
    values = dict(zip(names, (*encoder, w, b), strict=True))
    assert {n: v.shape for n, v in values.items()} == {n: weights[n].shape for n in names}
    exact = uw.FittedModel(Outcome(model.run, weights | values, [], None), model.dataset)
    marginal = MultivariateNormal(b, w @ w.T + 0.25 * torch.eye(4))
    return exact, x, marginal.log_prob(torch.as_tensor(x)).numpy()


def test_log_likelihood_with_the_true_posterior_is_exact():
    model, x, expected = linear_gaussian(spread=1.0)
    for particles in (1, 7):
        assert np.allclose(model.log_likelihood(x, particles), expected, atol=1e-4)


def test_log_likelihood_of_classes_and_bits_is_the_sum_over_them():
    """Relaxed samples would give the likelihood of another model."""
    latent = uw.Product(shape=uw.Categorical(3), flag=uw.Bernoulli(1, probability=0.3))
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    model = uw.fit(
        uw.data.from_array(x, scale="none")[0],
        steps=1,
        latent=latent,
        likelihood=uw.likelihoods.Gaussian(),
        network=uw.MLP(hidden=(8,)),
        batch_size=6,
        progress=False,
    )
    hard_samples = [[*row, bit] for row in np.eye(3) for bit in (0.0, 1.0)]
    prior = [math.log(p / 3) for _ in range(3) for p in (0.7, 0.3)]
    means = torch.as_tensor(model.decode(np.array(hard_samples, np.float32)))
    each = torch.distributions.Normal(means, 1.0).log_prob(torch.as_tensor(x)[:, None]).sum(-1)
    expected = torch.logsumexp(each + torch.tensor(prior), 1).numpy()
    assert np.allclose(model.log_likelihood(x, 40_000), expected, atol=0.02)


def test_more_particles_tighten_the_bound(monkeypatch):
    model, x, expected = linear_gaussian(spread=2.0)
    means = [model.log_likelihood(x, particles).mean() for particles in (1, 5, 50)]
    assert means == sorted(means)
    assert means[0] < expected.mean() - 0.5
    whole = model.log_likelihood(x, 2000, seed=1)
    assert np.allclose(whole, expected, atol=0.15)
    assert abs(whole.mean() - expected.mean()) < 0.02
    monkeypatch.setattr(
        uw.evaluation.model, "_NUMBERS", {"cpu": 4 * 300}
    )  # chunks of 300 and a rest of 200
    parts = model.log_likelihood(x, 2000, seed=1)
    assert np.allclose(parts, expected, atol=0.15)
    assert abs(parts.mean() - expected.mean()) < 0.02
    with pytest.raises(ValueError, match="at least 1 particle"):
        model.log_likelihood(x, 0)


def test_tensors_and_arrays_are_equivalent(model):
    x = torch.as_tensor(model.observations([3, 4]))
    assert np.array_equal(model.encode(x), model.encode(x.numpy()))
    z = torch.zeros(2, 3, requires_grad=True)
    assert np.array_equal(model.decode(z), model.decode(np.zeros((2, 3))))


def test_observations_are_read_like_the_training_data(images):
    """Bytes 0 and 1 alone must not be read as binary when the data were bytes."""
    model = uw.fit(images, steps=3, **FIELDS)
    dark = (images[:2] > 128).astype(np.uint8)
    together = model.encode(np.concatenate([dark, images]))
    assert np.allclose(model.encode(dark), together[:2], atol=1e-6)
    assert np.allclose(model.encode(images), model.encode(model.observations(range(40))), atol=1e-6)
    assert np.allclose(model.encode(np.moveaxis(images, -1, 1)), model.encode(images))


def test_codes_do_not_depend_on_the_rest_of_the_batch(tmp_path):
    """Also with batch normalisation, whose statistics are stored with the weights."""
    fields = FIELDS | {"network": uw.DCGAN(base=4)}
    normalised = uw.fit(SMALL, steps=30, store=tmp_path, **fields)
    x = normalised.observations(range(20))
    codes, pictures = normalised.encode(x), normalised.reconstruct(x)
    assert codes.std(0).max() > 1e-3
    np.testing.assert_allclose(normalised.encode(x[3:4]), codes[3:4], atol=1e-6)
    np.testing.assert_allclose(normalised.reconstruct(x[3:4]), pictures[3:4], atol=1e-5)
    assert np.array_equal(normalised.encode(x), codes)
    again = uw.load(normalised.folder)
    assert np.array_equal(again.encode(x), codes)
    assert np.array_equal(again.reconstruct(x), pictures)


def test_invalid_arguments_are_rejected(model):
    with pytest.raises(ValueError, match=r"expected observations of shape \(N, 1, 16, 16\)"):
        model.encode(np.zeros((2, 8, 8)))
    with pytest.raises(ValueError, match=r"values in \[0, 1\]"):
        model.encode(np.full((2, 16, 16), 7.0))
    with pytest.raises(ValueError, match="finite"):
        model.encode(np.full((2, 16, 16), np.nan))
    with pytest.raises(ValueError, match=r"expected codes of shape \(N, 3\)"):
        model.decode(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="at least one step"):
        model.traverse(steps=-1)
    with pytest.raises(ValueError, match="expected a seed or several"):
        uw.fit(SMALL, seed=[], steps=1, **FIELDS)
    with pytest.raises(TypeError, match=r"give labels together .*uw\.data\.from_array\(x, y\)"):
        uw.fit(np.zeros((9, 2)), np.zeros(9))
    with pytest.raises(ValueError, match="precision: 'fp16' is not known"):
        uw.fit(SMALL, steps=1, precision="fp16", **FIELDS)


def test_fit_and_load_take_what_from_array_returns(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    bound = uw.data.from_array(x, y, ["third"])
    model = uw.fit(bound, steps=2, progress=False, network=uw.MLP(hidden=(4,)))
    assert model.schema.factor_names == ("third",)
    model.save(tmp_path / "model.uw")
    assert uw.load(tmp_path / "model.uw", data=bound).dataset.size == 48


def test_several_seeds_train_together():
    models = uw.fit(SMALL, seed=range(3), steps=10, **FIELDS)
    assert [model.run.seed for model in models] == [0, 1, 2]
    alone = uw.fit(SMALL, seed=np.int64(1), steps=10, **FIELDS)
    x = alone.observations([5])
    assert np.allclose(models[1].encode(x), alone.encode(x), atol=1e-5)


def test_a_stored_run_can_be_loaded(tmp_path, images):
    model = uw.fit(SMALL, steps=10, store=tmp_path, **FIELDS)
    for path in (model.folder, tmp_path / model.run.digest[:5]):
        again = uw.load(path)
        assert again.run == model.run
        assert again.log == model.log
        x = model.observations([1, 2])
        assert np.array_equal(again.encode(x), model.encode(x))
    kept = uw.fit(images, steps=3, store=tmp_path, **FIELDS)
    assert np.array_equal(uw.load(kept.folder).encode(images), kept.encode(images))
    assert np.array_equal(uw.load(kept.folder, data=images).encode(images), kept.encode(images))
    with pytest.raises(ValueError, match="other data"):
        uw.load(kept.folder, data=images[:30])


def test_a_failed_run_raises_an_error():
    with pytest.raises(FloatingPointError, match="rate is not finite"):
        uw.fit(SMALL, objective=uw.BetaVAE(beta=1e39), steps=10, **FIELDS)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"lr": 0.1}, "optimiser=uw.Adam(lr=0.1)"),
        ({"learning_rate": 0.1}, "optimiser=uw.Adam(lr=0.1)"),
        ({"beta": 4}, "objective=uw.BetaVAE(beta=4)"),
        ({"gamma": 6.0}, "uw.FactorVAE(gamma=6.0)"),
        ({"latent_dim": 3}, "latent=uw.Gaussian(3)"),
        ({"latent": 10}, "latent=uw.Gaussian(10)"),
        ({"objective": "beta-vae"}, "objective=uw.BetaVAE()"),
        ({"objective": "beta-vea"}, "objective=uw.BetaVAE()"),
        ({"objective": "zzz"}, "the choices are aae, alpha-beta-vae"),
        ({"objective": uw.VAE}, "objective=uw.VAE()"),
        ({"y": [0, 1, 0, 1]}, "uw.fit(uw.data.from_array(x, y))"),
        ({"labels": np.arange(4)}, "uw.fit(uw.data.from_array(x, y))"),
        ({"scale": "common"}, 'uw.fit(uw.data.from_array(x, scale="common"))'),
        ({"likelihood": "gaussian"}, "likelihood=uw.likelihoods.Gaussian()"),
        ({"epochs": 5}, "steps"),
        ({"stor": "runs"}, "did you mean 'store'?"),
        ({"objective": [uw.VAE(), uw.BetaVAE()]}, "[uw.fit(data, objective=each) for each in"),
        ({"seed": "0..3"}, "seed=range(4)"),
        ({"seed": 1.5}, "seed=range(4)"),
    ],
)
def test_wrong_arguments_of_fit_are_answered_in_python(arguments, advice):
    with pytest.raises(ValueError, match=re.escape(advice)) as raised:
        uw.fit(np.zeros((4, 8, 8)), **arguments)
    assert "unweave train" not in str(raised.value)
    for name in re.findall(r"uw\.([A-Z]\w+)", str(raised.value)):
        assert hasattr(uw, name)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ((np.zeros((4, 3)), np.arange(4)), r"a tuple of 2: .*give uw.data.from_array\(x, labels\)"),
        ({"x": np.zeros((4, 3)), "y": 0}, r"a dict of 'x', 'y': .*uw.data.from_array\(x, labels\)"),
        ({"a": [1.0, 2.0], "b": [3.0, 4.0]}, r"pandas.DataFrame\(data\)"),
        (None, "an array, a path or a data spec, got None"),
        (np.array([["a", "b"]] * 4), "got text .*leave text columns out, or give them as labels"),
        (np.zeros((4, 3), complex), r"got complex numbers .*numpy.abs\(x\)"),
        (np.zeros((4, 3), "datetime64[s]"), "got times .*give seconds"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_a_way_to_give_it(data, answer):
    with pytest.raises(ValueError, match=answer) as raised:
        uw.fit(data, steps=1, progress=False)
    assert "astype" not in str(raised.value)


def test_a_file_that_does_not_exist_is_not_taken_for_a_digest(tmp_path):
    (tmp_path / "model.uw").touch()
    with pytest.raises(ValueError, match=r"there is no file .*modle.uw: did you mean .*model.uw"):
        uw.load(tmp_path / "modle.uw")
    with pytest.raises(ValueError, match=r"there is no file .*3f2a: check the path"):
        uw.load(tmp_path / "nowhere" / "3f2a")
    with pytest.raises(ValueError, match="is not a run in"):
        uw.load(tmp_path / "3f2a")


def python_example(page):
    """The block under "In Python" on a page."""
    return re.search(r"## In Python\n\n```python\n(.*?)```", (ROOT / page).read_text(), re.S)[1]


@pytest.mark.usefixtures("quick_scores")
def test_the_readme_runs(tmp_path, monkeypatch):
    """With fewer images and steps."""
    monkeypatch.chdir(tmp_path)
    code = python_example("README.md").replace("steps=7_000", "steps=3, progress=False")
    exec(code.replace("orientations=1", "orientations=1, positions=8"), {})
    assert (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("quick_scores")
def test_the_guide_runs(tmp_path, images, monkeypatch):
    """With fewer steps."""
    monkeypatch.chdir(tmp_path)
    code = python_example("docs/guide.md")
    code = code.replace("beta=4))", "beta=4), steps=3, progress=False)")
    factors = np.arange(40)[:, None] % 5
    exec(code, {"images": np.tile(images, (4, 1, 1, 1)), "factors": np.tile(factors, (4, 1))})
    assert (tmp_path / "report.html").exists()


def anchors(page):
    """The anchors of a page's headings, as GitHub names them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_links_in_the_documents_exist():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
            target = page.parent / name if name else page
            assert target.exists(), f"{page}: {name}"
            if anchor:
                assert anchor in anchors(target), f"{page}: {name}#{anchor}"


def test_the_example_on_the_aggregates_page_runs():
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/aggregate.md").read_text(), re.S)
    exec(code[0], {})


@pytest.mark.parametrize("objective", ADVERSARIAL, ids=lambda o: o.kind)
def test_noise_of_a_generator_can_be_drawn_and_varied(objective):
    latent = uw.Product(what=uw.Categorical(3), place=uw.Uniform(2))
    model = uw.fit(
        SMALL, objective=objective, latent=latent, steps=2, batch_size=16, progress=False
    )
    noise = model.draw_noise(50_000, seed=3)
    assert np.array_equal(noise, model.draw_noise(50_000, seed=3))
    assert not np.isin(noise, model.draw_noise(50_000, seed=4)).any(1).all()
    assert noise.shape == (50_000, objective.noise_size)
    assert np.allclose(noise.mean(0), 0, atol=0.02)
    assert np.allclose(np.cov(noise.T), np.eye(objective.noise_size), atol=0.02)

    drawn = with_hard_samples(model.prior()).rsample(Noise(7, 0, "sample"), (5,))
    assert np.array_equal(model.sample(5, seed=7), model.decode(drawn, model.draw_noise(5, 7)))
    assert not np.allclose(model.sample(5, seed=7), model.decode(drawn))

    code = model.encode(model.observations([9]))
    same = np.repeat(code, 4, 0)
    still = model.decode(same)
    assert np.allclose(still, still[:1], atol=1e-6)  # codes share the noise unless it is given
    varied = model.decode(same, noise[:4])
    assert all(not np.allclose(varied[0], other) for other in varied[1:])
    for row in range(4):
        one = model.decode(same, noise[row])
        assert np.allclose(one, varied[row], atol=1e-6)
        assert np.allclose(model.reconstruct(model.observations([9]), noise[row]), one, atol=1e-6)
    traversals = model.traverse(model.observations([9]), noise=noise[1])
    for columns, values, walk in zip(
        latent.columns, model.traversal_values(), traversals, strict=True
    ):
        codes = np.repeat(code, len(values), 0)
        codes[:, columns] = values
        assert np.allclose(walk, model.decode(codes, noise[1]), atol=1e-6)
    with pytest.raises(ValueError, match=r"shape \(2,\) or \(4, 2\), got \(3, 2\)"):
        model.decode(same, noise[:3])
