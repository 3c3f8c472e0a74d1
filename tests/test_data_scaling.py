"""Scaling of values: laws of every method, statistics in passes, and what is chosen by default."""

from typing import get_args

import numpy as np
import pytest
import torch

from byte_images import everything
from datasets import CPU
from unweave.data import Arrays, Schema, from_array, read_like
from unweave.data.files import rows as row_sources, statistics
from unweave.data.files.build import array_dataset
from unweave.data.files.rows import InMemoryRows
from unweave.data.files.statistics import moments, order_statistics, percentiles
from unweave.data.random_split import split_rows
from unweave.data.scaling import Scaling, ScalingMethod

METHODS = get_args(ScalingMethod)
SHAPES = [(40,), (3,), (1, 6, 7), (2, 6, 6), (13, 9, 8)]
rng = np.random.default_rng(0)


def examples(method, shape):
    """Values (60, *shape) that a method is meant for, with unequal channels or columns."""
    if method == "bytes":
        return rng.integers(0, 256, (60, *shape)).astype(np.uint8)
    if method == "counts":
        return rng.poisson(3, (60, *shape))
    level = 10.0 ** rng.uniform(-3, 4, (shape[0], *[1] * (len(shape) - 1)))
    return level * (5 + rng.standard_normal((60, *shape)))


def loaded(values, method):
    axes = "nchw" if values.ndim == 4 else None
    return from_array(values, scale=method, axes=axes)[1]


def grouped(values):
    """Values of each channel or column, (groups, n)."""
    return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)


@pytest.mark.parametrize("numbers", [(np.nan,), (1.0, np.inf), (-np.inf, 1.0)])
def test_offsets_and_units_are_finite_and_no_unit_is_negative(numbers):
    for fields in ({"offset": numbers}, {"unit": numbers}, {"unit": (1.0, -1e-300)}):
        with pytest.raises(ValueError, match="expected finite offsets and units of at least 0"):
            Scaling("standardise", **fields)


def test_values_that_hardly_differ_have_a_finite_unit():
    scaling = loaded(np.array([[1e-310, 0], [0, 1]] * 5), "standardise").schema.scaling
    assert (scaling.unit[0], scaling.unit[1]) == (0, 2)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS)
class TestLaws:
    def test_inverting_returns_values_to_their_units(self, method, shape):
        values = examples(method, shape)
        dataset = loaded(values, method)
        scaling = dataset.schema.scaling
        assert scaling.method == method
        inverted = scaling.invert(everything(dataset).numpy())
        if method == "bytes":  # users see bytes as [0, 1]
            values = values / 255
        if method == "percentile":
            offset, unit = (np.array(each) for each in (scaling.offset, scaling.unit))
            along = (-1, *[1] * (len(shape) - 1))
            low, high = offset.reshape(along), (offset + 1 / unit).reshape(along)
            values = values.clip(low, high)
        np.testing.assert_allclose(inverted, values, rtol=1e-5)

    def test_scaling_what_was_inverted_returns_it(self, method, shape):
        dataset = loaded(examples(method, shape), method)
        scaled, scaling = everything(dataset), dataset.schema.scaling
        again = scaling.apply(scaling.invert(scaled.numpy()))
        torch.testing.assert_close(again, scaled, rtol=1e-5, atol=1e-5)

    def test_new_observations_are_scaled_as_the_data(self, method, shape):
        values = examples(method, shape)
        dataset = loaded(values, method)
        assert torch.equal(read_like(dataset.schema, values[7:9]), everything(dataset)[7:9])

    def test_the_scaling_survives_json(self, method, shape):
        schema = loaded(examples(method, shape), method).schema
        assert Schema.from_json(schema.to_json()).scaling == schema.scaling

    def test_streaming_and_splits_change_nothing(self, method, shape, tmp_path, monkeypatch):
        monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
        monkeypatch.setattr(row_sources, "BLOCK", 20_000)  # several blocks
        values = examples(method, shape)
        np.save(tmp_path / "a.npy", values)
        axes = "nchw" if values.ndim == 4 else None
        whole = Arrays(tmp_path / "a.npy", scale=method, axes=axes).load(CPU)
        for stream in (True, False):
            spec = Arrays(tmp_path / "a.npy", None, None, "train", stream, method, axes)
            for _ in range(2):  # the second time from the cache
                split = spec.load(CPU)
                assert split.schema.scaling == whole.schema.scaling
            expected = everything(whole)[torch.from_numpy(split_rows("train", 60, whole.first))]
            assert torch.equal(everything(split), expected)


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "int32", "float32", ">f8"])
@pytest.mark.parametrize("groups", [1, 5, 900])
def test_order_statistics_and_moments_are_those_of_numpy(kind, groups, monkeypatch):
    monkeypatch.setattr(row_sources, "BLOCK", 3000)
    monkeypatch.setattr(statistics, "_HISTOGRAM", 2**18)  # many passes for many groups
    values = 300 * rng.standard_normal((50, groups, 4)) * rng.uniform(0, 2, (groups, 1))
    values = (np.abs(values) if kind.startswith("u") else values).astype(kind)
    values[0, 0] = 0, -0.0, 1, 100
    rows = InMemoryRows(values)
    for ranks in ([0, 1, 77, 199], [100]):
        expected = np.sort(grouped(values.astype(np.float32)))[:, ranks].T
        np.testing.assert_array_equal(order_statistics(rows, np.asarray, ranks), expected)
    mean, stddev = moments(rows, np.asarray)
    np.testing.assert_allclose(mean, values.astype(float).mean((0, 2)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stddev, values.astype(float).std((0, 2)), rtol=1e-9)


def test_percentiles_are_robust_to_outliers_but_not_to_sparse_signals():
    values = rng.uniform(0, 1, (5000, 2, 1)).astype(np.float32)
    values[7], values[:, 1] = 1e9, 0
    values[3, 1] = 5
    low, high = percentiles(InMemoryRows(values), np.asarray, 0.001)
    inner = np.sort(values[:, 0, 0])
    assert (low[0], high[0]) == (inner[4], inner[-5])
    assert (low[1], high[1]) == (0, 5)  # black almost everywhere: the whole range


def test_microscopy_keeps_its_grey_levels():
    """Images that use 200..3000 of 65,535 span [0, 1]; few values are clipped, and none merged."""
    images = rng.integers(200, 3001, (50, 32, 32)).astype(np.uint16)
    dataset = from_array(images)[1]
    scaled = everything(dataset).numpy()
    assert (scaled.min(), scaled.max()) == (0, 1)
    levels = len(np.unique(images))
    assert 0.99 * levels < len(np.unique(scaled)) <= levels
    inverted = dataset.schema.scaling.invert(scaled)[:, 0]
    assert (np.rint(inverted) == images).mean() > 0.997
    assert any(
        "uint16 from 200 to 3000, scaled by percentiles 0.1 and 99.9: 20" in n
        for n in dataset.notes
    )


@pytest.mark.parametrize("method", ["percentile", "standardise", "common"])
def test_constant_columns_and_channels_become_zero_and_are_named(method):
    values = rng.standard_normal((30, 4))
    values[:, 1], values[:, 3] = 0.1, 1e6
    dataset = from_array(values, scale=method)[1]
    assert everything(dataset)[:, [1, 3]].abs().max() == 0
    assert "2 constant, and therefore 0 after scaling: value 1, value 3" in dataset.notes
    inverted = dataset.schema.scaling.invert(everything(dataset).numpy())
    np.testing.assert_allclose(inverted[:, [1, 3]], values[:, [1, 3]], rtol=1e-6)


def test_large_offsets_keep_their_digits():
    """Times in seconds since 1970 differ by seconds: more digits than a float32 has."""
    values = 1.7e9 + rng.standard_normal((200, 2))
    scaled = everything(from_array(values)[1])
    expected = (values - values.mean(0)) / values.std(0)
    np.testing.assert_allclose(scaled, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "method"),
    [
        (rng.random((9, 8, 8)), "none"),
        (rng.random((9, 8, 8)) * 2, "percentile"),
        (rng.random((9, 8)), "standardise"),  # a table, even in [0, 1]
        (rng.integers(0, 2, (9, 8)).astype(float), "none"),
        (rng.integers(0, 2, (9, 8)), "none"),
        (rng.integers(0, 9, (9, 8)).astype(float), "standardise"),
    ],
    ids=str.split("unit-images float-images table binary-floats binary whole-floats"),
)
def test_the_default_follows_from_values_and_axes(values, method):
    dataset = from_array(values)[1]
    assert dataset.schema.scaling.method == method
    whole = method == "standardise" and (values == np.rint(values)).all()
    assert any("use scale=counts" in note for note in dataset.notes) == whole


def test_a_common_scale_keeps_the_relative_spread_of_columns():
    values = rng.standard_normal((200, 3)) * [1, 5, 0.01] + [7, 0, -3]
    scaled = everything(from_array(values, scale="common")[1]).double().numpy()
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    assert (scaled**2).mean() == pytest.approx(1)
    ratio = scaled.std(0) / values.std(0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("names", "method"),
    [
        ([f"{400 + 2.5 * n:g}" for n in range(12)], "common"),
        ([f"{4000 - 4 * n}" for n in range(12)], "common"),  # wavenumbers fall
        ([f"{n}" for n in range(12)], "standardise"),  # columns without names
        ([f"{n + 1}" for n in range(12)], "standardise"),
        ([f"gene{n}" for n in range(12)], "standardise"),
        (["400", "500", "450", *"abcdefghi"], "standardise"),
        (["400", "500", "600"], "standardise"),  # too few for a spectrum
    ],
    ids=str.split("wavelengths wavenumbers numbered from-one names mixed few"),
)
def test_columns_named_by_numbers_in_order_are_spectra_on_one_scale(tmp_path, names, method):
    path = tmp_path / "a.csv"
    lines = [[f"s{n}", *map(str, rng.standard_normal(len(names)))] for n in range(20)]
    path.write_text("\n".join(",".join(line) for line in [["sample", *names], *lines]))
    dataset = Arrays(path).load(CPU)
    assert dataset.schema.scaling.method == method
    assert any("read as spectra" in note for note in dataset.notes) == (method == "common")
    assert Arrays(path, scale="standardise").load(CPU).schema.scaling.method == "standardise"


def test_new_observations_beyond_the_percentiles_are_clipped_and_others_are_refused():
    images = rng.integers(200, 3000, (20, 6, 6)).astype(np.uint16)
    dataset = from_array(images)[1]
    with pytest.warns(UserWarning, match="more than half of the values lie beyond"):
        beyond = read_like(dataset.schema, np.array([[[65535, 0] * 3] * 6], np.uint16))
    assert beyond.unique().tolist() == [0, 1]
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            read_like(dataset.schema, np.full((1, 6, 6), wrong))
    counts = from_array(images.astype(int), scale="counts")[1]
    with pytest.raises(ValueError, match="expected counts"):
        read_like(counts.schema, images[:1] / 7)
    pixels = from_array(images.astype(np.uint8))[1]
    with pytest.raises(ValueError, match=r"\[0, 1\] or integers in 0..255.*float64 from"):
        read_like(pixels.schema, images[:1].astype(float))


def test_bytes_as_floats_stay_in_the_unit_interval():
    scaling = Scaling("bytes", unit=(1 / 255,))
    assert scaling.apply(np.array([[51]], np.uint8)).item() == pytest.approx(0.2)
    assert scaling.apply(np.array([[0.2]])).item() == pytest.approx(0.2)


def curves(rng, rows=200, columns=80):
    """Peaks of random height and place, on noise."""
    grid = np.linspace(0, 1, columns)
    height, place = rng.uniform(0.5, 2, (rows, 3, 1)), rng.uniform(0.2, 0.8, (rows, 3, 1))
    peaks = height * np.exp(-(((grid - place) / 0.06) ** 2))
    return 5 + peaks.sum(1) + rng.normal(0, 0.05, (rows, columns))


def factors_and_noise(rng, rows=200, columns=80):
    return rng.normal(size=(rows, 4)) @ rng.normal(size=(4, columns)) * 10 ** rng.uniform(
        -2, 2, columns
    ) + rng.normal(size=(rows, columns))


@pytest.mark.parametrize(
    ("make", "smooth"),
    [
        (curves, True),
        (lambda rng: rng.normal(size=(100, 40)).cumsum(1), True),
        (lambda rng: 3 + rng.uniform(size=(12, 60, 1)) * np.sin(np.arange(60) / 7)[:, None], None),
        (factors_and_noise, False),
        (lambda rng: factors_and_noise(rng, columns=8), False),
        (lambda rng: rng.lognormal(size=(200, 20)), False),
        (lambda rng: rng.normal(size=(200, 20)).repeat(2, 1), False),  # each measured twice
        (lambda rng: curves(rng)[:, rng.permutation(80)], False),
    ],
    ids=str.split("curves walks images factors few-columns noise replicates shuffled-curves"),
)
def test_one_scale_is_suggested_for_curves_without_names(make, smooth):
    """They are standardised, which makes the noise of a flat baseline as large as the peaks."""
    for seed in range(5):
        x = make(np.random.default_rng(seed))
        said = [note for note in array_dataset(x).notes if "scale=common" in note]
        assert bool(said) == bool(smooth)
        for scale in ("standardise", "common"):
            asked = array_dataset(x, scale=scale).notes
            assert not any("neighbouring columns" in note for note in asked)
