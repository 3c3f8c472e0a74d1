"""Bundles hold the values of their models, in the types of `web/src/bundle.ts`."""

import dataclasses
import re
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

import unweave as uw
from bundles import ReadBundle
from datasets import SMALL
from report_pages import quick
from untrained import untrained
from unweave.core.text import visible
from unweave.data import from_array
from unweave.explorer import contents, model_data, pictures
from unweave.explorer.embedding import embed, principal_components
from unweave.explorer.model_data import model_bundle
from unweave.explorer.pictures import thumbnail_sheets
from unweave.report.analysis import analyse
from unweave.report.pictures import ColourMap, colour_map

pytestmark = pytest.mark.filterwarnings(
    "ignore::unweave.metrics.FewRowsWarning"
)  # of small datasets
CONTRACT = Path(__file__).parent.parent / "web/src/bundle.ts"
NASTY = '</script><img src=x onerror=alert(1)>"&\u202e'
SHOWN = visible(NASTY)
# The names of the contract's types in Python, where these differ.
RENAMED = {
    "ColourMap": "Colours",
    "Variable": "LatentVariable",
    "Group": "LatentGroup",
    "Factor": "LabelledFactor",
    "Rows": "ObservedRows",
}


@pytest.fixture
def no_networks(monkeypatch):
    """Leave out the networks, whose export has tests of its own."""
    monkeypatch.setattr(model_data, "export_encoder", lambda model: b"encoder")
    monkeypatch.setattr(model_data, "export_decoder", lambda model: b"decoder")


@cache
def shapes():
    """A model of small images with factors, which has learned a little."""
    return quick(SMALL, likelihood=uw.likelihoods.Bernoulli())


@cache
def tree():
    latent = uw.Product(
        what=uw.Categorical(3, learn=True),
        place=uw.Product(x=uw.Gaussian(1), y=uw.StudentT(1)),
        bits=uw.Bernoulli(2, probability=0.3),
    )
    return quick(SMALL, latent=latent, likelihood=uw.likelihoods.Bernoulli())


def read(model, **arguments):
    return ReadBundle(model_bundle(model, **({"rows": 50, "thumbnails": 20} | arguments)))


def test_the_types_are_those_of_the_page():
    """Every interface that both sides have has the same fields, but for the case of their names."""
    interfaces = re.findall(r"export interface (\w+) \{(.*?)\n\}", CONTRACT.read_text(), re.DOTALL)
    plain = {name: re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL) for name, body in interfaces}
    fields = {name: set(re.findall(r"^  (\w+):", body, re.M)) for name, body in plain.items()}
    del fields["ArrayRef"]
    for name, expected in fields.items():
        cls = getattr(contents, RENAMED.get(name, name))
        found = {contents._camel_case(field.name) for field in dataclasses.fields(cls)}
        assert found == expected, name


def test_a_bundle_has_the_networks_and_the_same_bytes_every_time():
    model = shapes()
    content = model_bundle(model, rows=50, thumbnails=20)
    assert content == model_bundle(model, rows=50, thumbnails=20)
    bundle = ReadBundle(content)
    import onnxruntime

    rows = bundle.header["rows"]
    x = model.dataset.images(torch.tensor(rows["index"][:5])).numpy()
    mean = bundle.array(rows["mean"])[:5]
    for name, inputs, expected in (
        ("encoder", {"x": x}, mean),
        ("decoder", {"z": mean}, model.decode(mean)),
    ):
        file = bundle.file(bundle.header[name])
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, inputs)[0], expected, atol=1e-5)


def test_rows_have_the_codes_factors_and_errors_of_their_observations(no_networks):
    model, bundle = shapes(), read(shapes())
    rows = bundle.header["rows"]
    index = np.array(rows["index"])
    assert rows["count"] == len(index) == len(set(index)) == 50
    assert not np.array_equal(index, np.sort(index))
    x = model.observations(index)
    np.testing.assert_allclose(bundle.array(rows["mean"]), model.encode(x), atol=1e-6)
    names = [factor["name"] for factor in bundle.header["factors"]]
    columns = [model.schema.column(name) for name in names]
    factors = model.dataset.factors(torch.tensor(index))[:, columns]
    assert np.array_equal(bundle.array(rows["factors"]), factors)
    error = np.square(x - model.reconstruct(x)).reshape(50, -1).mean(1)
    np.testing.assert_allclose(bundle.array(rows["error"]), error, rtol=1e-4)
    assert bundle.header["start"] < 20  # has a thumbnail


def test_thumbnails_are_the_observations(no_networks):
    model, bundle = shapes(), read(shapes())
    rows = bundle.header["rows"]
    assert rows["shown"]["count"] == 20
    assert rows["shown"]["type"] in ("image/png", "image/webp")
    x = model.observations(rows["index"][:20])
    for number in range(20):
        tile = bundle.tile(number).reshape(16, 16, -1)
        assert np.abs(tile[..., 0] - 255 * x[number, 0]).max() <= 0.5


def test_variables_are_those_of_the_report(no_networks):
    model, header = shapes(), read(shapes()).header
    analysis = analyse(model, 50, {})
    for found, expected in zip(header["variables"], analysis.variables, strict=True):
        assert (found["number"], found["name"]) == (expected.number, f"z{expected.name}")
        assert found["columns"] == [expected.columns.start, expected.columns.stop]
        assert found["kl"] == expected.kl
        assert found["active"] == (expected in analysis.active)
        np.testing.assert_allclose(found["quantiles"], [np.arange(-30, 31) / 10], atol=1e-6)
    assert header["rate"]["rate"] == analysis.rate
    rate = header["rate"]
    parts = rate["mutualInformation"] + rate["totalCorrelation"] + sum(rate["dimensionKl"])
    assert parts == pytest.approx(rate["rate"], abs=0.05)
    information = read(model).array(header["shares"])
    np.testing.assert_allclose(information, analysis.shares.values, rtol=1e-6)
    assert header["chance"] == analysis.shares.chance.tolist()
    assert header["aboveChance"] == analysis.shares.above_chance.tolist()


PRIORS = {
    "normal": uw.Gaussian(3),
    "product": uw.Product(what=uw.Categorical(3), place=uw.StudentT(1), rest=uw.Laplace(2)),
    "mixture": uw.GaussianMixture([[-1.0, -1.0], [1.0, 1.0]]),
    "dependent": uw.Product(what=uw.Categorical(3), how=uw.Categorical(2, given="what")),
}


@pytest.mark.parametrize("prior", PRIORS)
def test_the_parts_of_the_rate_sum_to_it_if_the_prior_factorises(no_networks, prior):
    model = quick(SMALL, latent=PRIORS[prior], likelihood=uw.likelihoods.Bernoulli())
    rate = read(model).header["rate"]
    assert rate["factorised"] == (prior in ("normal", "product"))
    parts = rate["mutualInformation"] + rate["totalCorrelation"] + sum(rate["dimensionKl"])
    if rate["factorised"]:
        # Information is a mean over 2,000 samples, and single KLs below 0 are cut off.
        assert parts == pytest.approx(rate["rate"], abs=0.1)


def test_samples_are_of_the_posteriors_of_their_rows(no_networks, monkeypatch):
    monkeypatch.setattr(model_data, "_POSTERIOR_SAMPLES", 40)
    model, bundle = tree(), read(tree())
    rows = bundle.header["rows"]
    sample = bundle.array(rows["sample"])
    assert sample.shape == (40, model.run.latent.size)
    q = model.posteriors(torch.tensor(rows["index"][:40]))
    place = slice(3, 5)  # normal columns: (z - mean) / stddev is standard normal
    score = (sample - q.mean.numpy())[:, place] / q.stddev.numpy()[:, place]
    assert abs(score.mean()) < 4 / np.sqrt(score.size)
    assert abs(np.square(score).mean() - 1) < 4 * np.sqrt(2 / score.size)
    np.testing.assert_allclose(np.sort(sample[:, :3]), [[0, 0, 1]] * 40, atol=1e-6)


def test_drawn_traversals_are_those_of_the_model(no_networks):
    model, bundle = shapes(), read(shapes())
    analysis = analyse(model, 50, {})
    start = analysis.starts()[0].row
    assert bundle.header["rows"]["index"][bundle.header["start"]] == analysis.index[start]
    assert [each["variable"] for each in bundle.header["drawn"]] == [
        variable.number for variable in analysis.active
    ]
    for each, variable in zip(bundle.header["drawn"], analysis.active, strict=True):
        images = analysis.traverse(start, variable)  # (steps, 1, 16, 16)
        row = np.concatenate(list(images[:, 0]), 1)
        assert np.abs(bundle.picture(each["picture"]) - 255 * row).max() <= 0.5


def test_a_tree_has_groups_and_the_masses_of_its_classes(no_networks):
    model, bundle = tree(), read(tree())
    variables = {variable["name"]: variable for variable in bundle.header["variables"]}
    assert {name: each["groups"] for name, each in variables.items()} == {
        "what": [],
        "place.x": ["place"],
        "place.y": ["place"],
        "bits.0": ["bits"],
        "bits.1": ["bits"],
    }
    assert [group["name"] for group in bundle.header["rate"]["groups"]] == ["", "place", "bits"]
    mean = bundle.array(bundle.header["rows"]["mean"]).astype(np.float64)
    what, bit = variables["what"], variables["bits.1"]
    assert (what["discrete"], what["classes"], what["quantiles"]) == (True, 3, [])
    np.testing.assert_allclose(what["masses"], mean[:, :3].mean(0), atol=1e-6)
    np.testing.assert_allclose(what["priorMasses"], model.prior().mean[:3], atol=1e-6)
    one = mean[:, bit["columns"][0]].mean()
    assert bit["classes"] == 2
    np.testing.assert_allclose(bit["masses"], [1 - one, one], atol=1e-6)
    np.testing.assert_allclose(bit["priorMasses"], [0.7, 0.3], atol=1e-6)
    prior = bundle.array(bundle.header["prior"])
    assert np.isin(prior[:, :3], (0, 1)).all()
    assert (prior[:, :3].sum(1) == 1).all()


def test_vectors_are_in_the_users_units(no_networks, tmp_path):
    rng = np.random.default_rng(0)
    names = ["400", "402.5", "405", "410"]
    x = rng.normal(1000, 30, (60, 1)) + rng.normal(0, 2, (60, 4))
    columns = dict(zip(names, x.T, strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    model = quick(tmp_path / "x.parquet")
    bundle = read(model)
    header, observation = bundle.header, bundle.header["observation"]
    assert (observation["kind"], observation["names"]) == ("vector", names)
    assert observation["positions"] == [400, 402.5, 405, 410]
    assert observation["curve"]
    assert not observation["counts"]
    assert not observation["units"]["clip"]
    scale, shift = (np.array(observation["units"][part]) for part in ("scale", "shift"))
    index = torch.tensor(header["rows"]["index"][:20])
    values = bundle.array(header["rows"]["shown"]["values"])
    assert_rows_of(values, x, 1e-3)
    seen = model.dataset.images(index).numpy()
    np.testing.assert_allclose(seen * scale + shift, values, rtol=1e-6)
    analysis = analyse(model, 50, {})
    start = analysis.starts()[0].row
    for each in header["drawn"]:
        variable = next(v for v in analysis.active if v.number == each["variable"])
        expected = analysis.traverse(start, variable)
        np.testing.assert_allclose(bundle.array(each["picture"]), expected, rtol=1e-5)


def assert_rows_of(values, x, tolerance):
    """Each of the values is an observation; which one depends on the split."""
    apart = np.abs(values[:, None] - x[None]).max(2).min(1)
    assert apart.max() <= tolerance


def test_counts_stay_counts(no_networks):
    x = np.random.default_rng(0).poisson(4.0, (60, 6))
    data, _ = from_array(x, scale="counts")
    bundle = read(quick(data, likelihood=uw.likelihoods.Poisson()))
    observation = bundle.header["observation"]
    assert observation["counts"]
    assert observation["units"] == {"scale": [1.0], "shift": [0.0], "clip": False}
    assert_rows_of(bundle.array(bundle.header["rows"]["shown"]["values"]), x, 0.0)


def test_images_of_16_bits_have_colours_and_units_for_each_channel(no_networks):
    rng = np.random.default_rng(0)
    x = (rng.random((40, 2, 8, 8)) * [[[[3000]], [[60000]]]]).astype(np.uint16)
    model = untrained(x, scale="percentile", latent=uw.Gaussian(2), network=uw.MLP((4,)))
    bundle = read(model, rows=40)
    observation = bundle.header["observation"]
    assert (observation["channels"], observation["height"], observation["width"]) == (2, 8, 8)
    assert not observation["pixels"]
    assert observation["units"]["clip"]
    scale, shift = (np.array(observation["units"][part]) for part in ("scale", "shift"))
    index = bundle.header["rows"]["index"][:20]
    seen = model.dataset.images(torch.tensor(index)).numpy()
    back = seen * scale[:, None, None] + shift[:, None, None]
    inside = (seen > 0) & (seen < 1)
    np.testing.assert_allclose(back[inside], x[index][inside], atol=0.6)
    for number in range(20):
        assert np.abs(bundle.tile(number) - shown(seen[number], observation["colours"])).max() <= 1


def shown(image, colours):
    """An image (C, h, w) in colour, by the formula of the contract."""
    low, high = (np.array(colours[end])[:, None, None] for end in ("low", "high"))
    shares = ((image - low) / (high - low)).clip(0, 1)
    return 255 * np.einsum("chw,cr->hwr", shares, colours["colours"]).clip(0, 1)


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_sheets_follow_the_formula_of_the_colours(channels):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(7, channels, 6, 9)).astype(np.float32)
    pixels = channels in (3, 4)
    chosen = colour_map(abs(images).clip(0, 1) if pixels else images, pixels)
    made = thumbnail_sheets(images, chosen)
    header = {"rows": {"shown": dataclasses.asdict(made)}}
    bundle = SimpleNamespace(header=header, picture=lambda ref: picture(ref["content"]))
    colours = dataclasses.asdict(model_data.colours_of(chosen))
    for number, image in enumerate(images):
        tile = ReadBundle.tile(bundle, number).reshape(6, 9, -1).astype(float)
        if colours["alpha"]:
            assert np.abs(tile[..., 3] - 255 * image[3].clip(0, 1)).max() <= 0.5
            seen = tile[..., 3] > 0  # what is transparent need not keep its colour
            apart = np.abs(tile[..., :3] - shown(image, colours))[seen]
        elif colours["diverging"]:
            apart = np.abs(tile - diverging(image, colours))
        else:
            apart = np.abs(tile - shown(image, colours))
        assert apart.max() <= 1


def diverging(image, colours):
    place = ((image[0] - colours["low"][0]) / (colours["high"][0] - colours["low"][0])).clip(0, 1)
    low, middle, high = (np.array(colour) for colour in colours["colours"])
    place = place[..., None]
    below = low + (middle - low) * 2 * place
    above = middle + (high - middle) * (2 * place - 1)
    return 255 * np.where(place < 0.5, below, above)


def picture(content):
    return ReadBundle.picture(SimpleNamespace(file=lambda _: content), None)


def test_large_images_are_reduced_and_long_data_fill_several_sheets(monkeypatch):
    images = np.linspace(0, 1, 70)[:, None, None, None] * np.ones((1, 1, 64, 128))
    wide = thumbnail_sheets(images, ColourMap())
    assert wide.tile == (64, 32)
    assert (wide.columns, wide.rows, len(wide.sheets)) == (32, 64, 1)
    assert picture(wide.sheets[0].content).shape[:2] == (3 * 32, 32 * 64)
    monkeypatch.setattr(pictures, "_SHEET", 128)
    square = thumbnail_sheets(images[:10, :, :, :64], ColourMap())
    assert (square.columns, square.rows, len(square.sheets)) == (2, 2, 3)
    assert picture(square.sheets[2].content).shape[:2] == (64, 128)


def test_photographs_are_stored_with_loss_and_drawings_without():
    rng = np.random.default_rng(0)
    smooth = rng.random((50, 3, 8, 8)).repeat(8, 2).repeat(8, 3)
    noisy = (smooth + 0.1 * rng.normal(size=smooth.shape)).clip(0, 1)
    sizes = [
        sum(len(sheet.content) for sheet in thumbnail_sheets(noisy, shown_as).sheets)
        for shown_as in (
            ColourMap((0.0,) * 3, (1.0,) * 3),
            ColourMap((0.0,) * 3, (1.0,) * 3, (), False),
        )
    ]
    assert sizes[0] < sizes[1] / 2  # channels that are not colours keep their values
    binary = (rng.random((50, 1, 16, 16)) > 0.5).astype(float)
    made = thumbnail_sheets(binary, ColourMap())
    pixels = picture(made.sheets[0].content)
    assert set(np.unique(pixels)) == {0, 255}


def test_missing_labels_and_continuous_factors(no_networks):
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=60), rng.integers(0, 3, 60)
    x = size[:, None] + colour[:, None] * [0, 1, 2, 3] + 0.1 * rng.normal(size=(60, 4))
    texts = np.array(["red", "green", NASTY], object)[colour]
    texts[:5] = None
    table = np.array([*zip(size, texts, strict=True)], object)
    model = untrained(x, table, [NASTY, "colour"], latent=uw.Gaussian(2), network=uw.MLP((4,)))
    bundle = read(model)
    factors = {factor["name"]: factor for factor in bundle.header["factors"]}
    assert factors[SHOWN] == {
        "name": SHOWN,
        "values": [],
        "ordered": True,
        "continuous": True,
        "atChance": "",
    }
    assert sorted(factors["colour"]["values"]) == sorted(["red", "green", SHOWN])
    assert not factors["colour"]["ordered"]
    rows, index = bundle.array(bundle.header["rows"]["factors"]), bundle.header["rows"]["index"]
    for column, name in enumerate(factors):
        for row, number in enumerate(index):
            if name == SHOWN:
                assert rows[row, column] == pytest.approx(size[number], rel=1e-6)
            elif number < 5:
                assert np.isnan(rows[row, column])
            else:
                assert factors[name]["values"][int(rows[row, column])] == visible(texts[number])


def test_a_model_without_factors_that_learned_nothing(no_networks):
    rng = np.random.default_rng(0)
    model = quick(rng.normal(size=(40, 4)), objective=uw.BetaVAE(beta=1000.0), steps=60)
    bundle = read(model, name=NASTY)
    assert bundle.header["name"] == SHOWN
    assert bundle.header["factors"] == bundle.header["drawn"] == []
    assert bundle.header["shares"]["shape"] == [3, 0]
    assert not any(variable["active"] for variable in bundle.header["variables"])
    assert "learned nothing" in bundle.header["headline"]
    assert bundle.header["rows"]["count"] == 40


def test_a_generator_has_noise_and_no_reconstructions(no_networks):
    model = quick(
        SMALL, objective=uw.InfoGAN(noise_size=2), network=None, latent=uw.Uniform(2), steps=2
    )
    header = read(model).header
    np.testing.assert_allclose(header["noise"], model.draw_noise(1)[0])
    assert not header["autoencodes"]
    assert header["rows"]["error"] is None
    probabilities = torch.special.ndtr(torch.arange(-30, 31) / 10)
    for variable in header["variables"]:
        np.testing.assert_allclose(variable["quantiles"][0], 2 * probabilities - 1, atol=1e-6)


def test_models_on_the_same_observations_share_a_fingerprint(no_networks):
    x = np.random.default_rng(0).normal(size=(40, 4))
    first, second, other = (untrained(a, latent=uw.Gaussian(2)) for a in (x, x.copy(), x + 1))
    prints = [read(model).header["data"] for model in (first, second, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_model_without_its_data_says_so(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 4)))
    quick(tmp_path / "x.npy", steps=1).save(tmp_path / "model.uw")
    (tmp_path / "x.npy").unlink()
    with pytest.raises(ValueError, match=r"this needs the data of the model.*data=PATH in Python"):
        model_bundle(uw.load(tmp_path / "model.uw", device="cpu"))


def test_principal_components_are_uncorrelated_and_widest_first():
    codes = np.random.default_rng(0).normal(size=(300, 4)) @ np.diag([1.0, 5.0, 0.1, 2.0])
    plane = principal_components(codes.astype(np.float32))
    covariance = np.cov(plane.T)
    variances = np.linalg.eigvalsh(np.cov(codes.T))[::-1]
    np.testing.assert_allclose(covariance, np.diag(variances[:2]), atol=1e-3)
    assert np.array_equal(
        principal_components(codes[:, :1].astype(np.float32))[:, 1], np.zeros(300)
    )


def test_an_embedding_is_that_of_its_package(no_networks, monkeypatch):
    made = []

    class UMAP:
        def __init__(self, **settings):
            made.append(settings)

        def fit_transform(self, codes):
            return 2 * codes[:, :2]

    monkeypatch.setitem(
        sys.modules, "umap", SimpleNamespace(UMAP=UMAP, __spec__=ModuleSpec("umap", None))
    )
    bundle = read(shapes(), embedding="umap", seed=3)
    rows = bundle.header["rows"]
    assert rows["embeddingName"] == "UMAP"
    expected = 2 * bundle.array(rows["mean"])[:, :2]
    np.testing.assert_array_equal(bundle.array(rows["embedding"]), expected)
    assert made == [{"n_components": 2, "random_state": 3}]


def test_codes_of_one_dimension_or_one_value_are_embedded_too(monkeypatch):
    """Both packages start from two principal components, which neither kind of codes has."""
    given = []
    reducer = SimpleNamespace(fit_transform=lambda codes: given.append(codes) or codes)
    package = SimpleNamespace(PaCMAP=lambda **_: reducer, __spec__=ModuleSpec("pacmap", None))
    monkeypatch.setitem(sys.modules, "pacmap", package)
    line = np.arange(20, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(embed(line, "pacmap", 0), np.hstack([line, np.zeros((20, 1))]))
    point = np.tile(np.float32([1, 2, 3]), (20, 1))
    np.testing.assert_array_equal(embed(point, "pacmap", 0), np.zeros((20, 2)))
    assert len(given) == 1


def test_missing_packages_and_few_codes_are_refused(monkeypatch):
    codes = np.zeros((20, 2), np.float32)
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ValueError, match=r"pip install 'unweave\[embedding\]'"):
        embed(codes, "umap", 0)
    with pytest.raises(ValueError, match="expected an embedding by umap or pacmap, got 'tsne'"):
        embed(codes, "tsne", 0)
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(__spec__=ModuleSpec("umap", None)))
    with pytest.raises(ValueError, match="at least 16 observations"):
        embed(codes[:3], "umap", 0)
