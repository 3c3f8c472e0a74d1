"""The Python interface, as in the README."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave as uw
from worlds import SMALL

FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, progress=False)
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def model():
    return uw.fit(SMALL, steps=20, **FIELDS)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)


def test_codes_and_pictures_have_their_shapes(model):
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


def test_a_walk_moves_one_column_and_starts_where_it_should(model):
    x = model.observations([7])
    walks = model.traverse(x, values=[-1.0, 0.5])
    code = model.encode(x)[0]
    for column in range(3):
        for place, value in enumerate([-1.0, 0.5]):
            moved = code.copy()
            moved[column] = value
            assert np.allclose(walks[column, place], model.decode(moved[None])[0], atol=1e-6)
    middle = model.traverse(values=[0.0])
    assert np.allclose(middle, model.decode(np.zeros((1, 3)))[None], atol=1e-6)
    with pytest.raises(ValueError, match="one observation"):
        model.traverse(model.observations([1, 2]))


def test_a_table_is_what_the_encoder_says(model):
    table = model.table(50)
    assert len(table) == 50
    index = model.rows(50)
    mean, scale = model.posterior(model.observations(index))
    assert np.allclose(table.codes, mean, atol=1e-6)
    assert np.allclose(table.scales, scale, atol=1e-6)
    kl = 0.5 * (mean**2 + scale**2 - 1 - 2 * np.log(scale)).mean(0)
    assert np.allclose(table.kl, kl, atol=1e-5)
    assert np.array_equal(table.factors, SMALL.lattice.factors(index).numpy())


def test_tensors_go_in_as_well(model):
    x = torch.as_tensor(model.observations([3, 4]))
    assert np.array_equal(model.encode(x), model.encode(x.numpy()))
    z = torch.zeros(2, 3, requires_grad=True)
    assert np.array_equal(model.decode(z), model.decode(np.zeros((2, 3))))


def test_an_observation_means_the_same_whatever_comes_with_it(images):
    """Bytes 0 and 1 alone must not be read as binary when the data were bytes."""
    model = uw.fit(images, steps=3, **FIELDS)
    dark = (images[:2] > 128).astype(np.uint8)
    together = model.encode(np.concatenate([dark, images]))
    assert np.allclose(model.encode(dark), together[:2], atol=1e-6)
    assert np.allclose(model.encode(images), model.encode(model.observations(range(40))), atol=1e-6)
    assert np.allclose(model.encode(np.moveaxis(images, -1, 1)), model.encode(images))


def test_a_code_does_not_depend_on_the_rest_of_the_batch(tmp_path):
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


def test_what_does_not_fit_is_refused(model):
    with pytest.raises(ValueError, match=r"expected observations of shape \(N, 1, 16, 16\)"):
        model.encode(np.zeros((2, 8, 8)))
    with pytest.raises(ValueError, match=r"values in \[0, 1\]"):
        model.encode(np.full((2, 16, 16), 7.0))
    with pytest.raises(ValueError, match="finite"):
        model.encode(np.full((2, 16, 16), np.nan))
    with pytest.raises(ValueError, match=r"expected codes of shape \(N, 3\)"):
        model.decode(np.zeros((2, 4)))


def test_several_seeds_train_together():
    models = uw.fit(SMALL, seed=range(3), steps=10, **FIELDS)
    assert [model.run.seed for model in models] == [0, 1, 2]
    alone = uw.fit(SMALL, seed=np.int64(1), steps=10, **FIELDS)
    x = alone.observations([5])
    assert np.allclose(models[1].encode(x), alone.encode(x), atol=1e-5)


def test_a_stored_run_comes_back(tmp_path, images):
    model = uw.fit(SMALL, steps=10, store=tmp_path, **FIELDS)
    for path in (model.folder, tmp_path / model.run.digest[:5]):
        again = uw.load(path)
        assert again.run == model.run
        assert again.log == model.log
        x = model.observations([1, 2])
        assert np.array_equal(again.encode(x), model.encode(x))
    kept = uw.fit(images, steps=3, store=tmp_path, **FIELDS)
    with pytest.raises(ValueError, match="give it again"):
        uw.load(kept.folder)
    assert np.array_equal(uw.load(kept.folder, data=images).encode(images), kept.encode(images))
    with pytest.raises(ValueError, match="other data"):
        uw.load(kept.folder, data=images[:30])


def test_a_run_that_breaks_says_so():
    with pytest.raises(FloatingPointError, match="rate broke, it is not finite"):
        uw.fit(SMALL, objective=uw.BetaVAE(beta=1e39), steps=10, **FIELDS)


def test_the_readme_runs(tmp_path, images, monkeypatch):
    """The block under "In Python", with fewer steps."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    code = re.search(r"## In Python\n\n```python\n(.*?)```", text, re.DOTALL)[1]
    code = code.replace("beta=4))", "beta=4), steps=3, progress=False)")
    factors = np.arange(40)[:, None] % 5
    exec(code, {"images": np.tile(images, (2, 1, 1, 1)), "factors": np.tile(factors, (2, 1))})
    assert (tmp_path / "report.html").exists()


def test_links_in_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
