"""New observations: the same values are the same to a model, whatever they are stored in."""

import csv
import gc
import pickle
import warnings
from typing import NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import unweave as uw
from byte_images import everything
from datasets import CPU
from unweave.data import HeldOut, Selected, from_array, read_like
from unweave.data.files.write import write_images
from unweave.evaluation.source import open_like

FIELDS = dict(
    network=uw.MLP((8,)), latent=uw.Gaussian(2), batch_size=8, steps=2, progress=False,
    likelihood=uw.likelihoods.Gaussian(),
)  # fmt: skip
rng = np.random.default_rng(0)


class Case(NamedTuple):
    """Values of a type, the scale that they need said, and the containers that hold them."""

    values: np.ndarray
    scale: str | None
    method: str
    containers: tuple[str, ...]
    axes: str | None = None


def pixels(low, high, shape, kind):
    return rng.integers(low, high, (12, *shape)).astype(kind)


VECTORS = 5 * rng.standard_normal((12, 5)) + 1000 * np.arange(5)
ARRAYS, TABLES = ("npy", "npz", "stream"), ("npy", "stream", "csv")
FLOATS = rng.random((12, 6, 7)).astype(np.float32)
CASES = {
    "table": Case(VECTORS, None, "standardise", (*TABLES, "parquet")),
    "float32": Case(VECTORS.astype(np.float32), None, "standardise", (*ARRAYS, "h5")),
    "times": Case(1.7e9 + 100 * rng.standard_normal((12, 3)), None, "standardise", TABLES),
    "plain": Case(VECTORS, "none", "none", TABLES),
    "counts": Case(rng.poisson(3, (12, 5)), "counts", "counts", TABLES),
    "int-bytes": Case(pixels(0, 256, (5,), np.int64), "bytes", "bytes", TABLES),
    "byte-vectors": Case(pixels(0, 256, (5,), np.uint8), "bytes", "bytes", ARRAYS),
    "binary": Case(pixels(0, 2, (6, 7), np.uint8), None, "none", ARRAYS),
    "masks": Case(pixels(0, 2, (6, 7), bool), None, "none", ARRAYS),
    "dark": Case(pixels(0, 2, (6, 7), np.uint8), "bytes", "bytes", (*ARRAYS, "folder")),
    "grey": Case(pixels(0, 256, (6, 7), np.uint8), None, "bytes", (*ARRAYS, "folder")),
    "colour": Case(pixels(0, 256, (6, 7, 3), np.uint8), None, "bytes", (*ARRAYS, "folder")),
    "grey-sd": Case(
        pixels(0, 256, (6, 7), np.uint8), "standardise", "standardise", (*ARRAYS, "folder")
    ),
    "deep": Case(pixels(0, 4000, (6, 7), np.uint16), None, "percentile", (*ARRAYS, "folder")),
    "unit": Case(FLOATS, None, "none", (*ARRAYS, "folder")),
    "wide": Case(FLOATS * 3.5, None, "percentile", (*ARRAYS, "folder")),
    "big-endian": Case(FLOATS.astype(">f8") * 9, None, "percentile", ARRAYS),
    "ambiguous": Case(rng.random((12, 4, 6, 5)), None, "none", ARRAYS, "nhwc"),
    "cube": Case(rng.random((12, 5, 5, 5)) * 2, None, "percentile", ARRAYS, "nhwc"),
}


def write(values, container, folder):
    """Write values to a container and return its path."""
    path = folder / f"x.{'npy' if container == 'stream' else container}"
    if container in ("npy", "stream"):
        np.save(path, values)
    elif container == "npz":
        np.savez(path, imgs=values)
    elif container == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([[f"v{n}" for n in range(values.shape[1])], *values])
    elif container == "parquet":
        pq.write_table(pa.table({f"v{n}": each for n, each in enumerate(values.T)}), path)
    elif container == "h5":
        with h5py.File(path, "w") as file:
            file["imgs"] = values
    else:
        path.mkdir()
        for number, image in enumerate(values):
            extension = "png" if image.dtype == np.uint8 else "tif"
            Image.fromarray(image).save(path / f"{number:02d}.{extension}")
    return path


def spec_of(case, container, path):
    if container == "folder":
        return uw.Folder(path, scale=case.scale)
    return uw.Arrays(path, scale=case.scale, axes=case.axes, stream=container == "stream" or None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_same_values_have_the_same_codes_in_every_form(case, tmp_path, monkeypatch):
    """encode(path) = encode(array) = table().codes, and every form is the data of the model."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    x = case.values
    paths = {}
    for container in case.containers:
        (tmp_path / container).mkdir()
        paths[container] = write(x, container, tmp_path / container)
    in_memory, dataset = from_array(x, scale=case.scale, axes=case.axes)
    sources = [in_memory, *(spec_of(case, each, path) for each, path in paths.items())]
    for source in sources:  # one scaling, one fingerprint, the same values
        loaded = source.load(CPU)
        assert loaded.schema.scaling.method == case.method
        assert loaded.fingerprint == dataset.fingerprint
        assert loaded.schema.dtype == np.dtype(x.dtype).newbyteorder("=").name
        assert torch.equal(everything(loaded), everything(dataset))
    for number, source in enumerate([sources[0], sources[-1]]):
        model = uw.fit(source, split="all", **FIELDS)
        codes = model.table().codes
        model.save(tmp_path / f"{number}.uw")
        tensor = torch.from_numpy(x.astype(x.dtype.newbyteorder("=")))
        for form in (x, np.asfortranarray(x), tensor, *paths.values()):
            np.testing.assert_allclose(model.encode(form), codes, atol=1e-6)
            again = uw.load(tmp_path / f"{number}.uw", data=form)
            np.testing.assert_allclose(again.table().codes, codes, atol=1e-6)
        if case.axes is None or x.shape[1:] != model.schema.shape:
            back = model.encode(model.observations(range(12)))
            np.testing.assert_allclose(back, codes, atol=1e-5)


def test_the_type_of_new_values_decides_and_not_their_range(tmp_path):
    """A dark image of 8 bits is dark, and not binary, in an array and in a file."""
    model = uw.fit(CASES["grey"].values, split="all", **FIELDS)
    dark = CASES["binary"].values
    np.save(tmp_path / "dark.npy", dark)
    expected = model.encode(dark / 255)
    for form in (dark, tmp_path / "dark.npy", write(dark, "folder", tmp_path)):
        np.testing.assert_allclose(model.encode(form), expected, atol=1e-6)


def test_image_files_of_8_bits_are_in_the_unit_interval_if_the_data_are(tmp_path):
    model = uw.fit(CASES["unit"].values, split="all", **FIELDS)
    x = CASES["grey"].values
    np.testing.assert_allclose(
        model.encode(write(x, "folder", tmp_path)), model.encode(x / 255), atol=1e-6
    )
    with pytest.raises(ValueError, match=r"expected values in \[0, 1\] as in the data, got uint8"):
        model.encode(x)


@pytest.mark.parametrize("name", ["deep", "wide"])
def test_images_of_8_bits_are_refused_by_a_model_of_other_depths(name, tmp_path):
    case = CASES[name]
    model = uw.fit(case.values, split="all", **FIELDS)
    np.save(tmp_path / "x.npy", CASES["grey"].values)
    folder = write(CASES["grey"].values, "folder", tmp_path)
    for form in (CASES["grey"].values, tmp_path / "x.npy", folder):
        with pytest.raises(ValueError, match=f"expected images of {case.values.dtype}.*of 8 bits"):
            model.encode(form)


def test_labels_of_new_folders_are_not_read(tmp_path, unweave):
    x = CASES["grey"].values
    folder = write(x, "folder", tmp_path)
    lines = [f"{n:02d}.png,{n % 3},p{n % 2}" for n in range(12)]
    (folder / "labels.csv").write_text("\n".join(["file,kind,plate", *lines]))
    data = uw.Folder(folder, ignore="plate")
    model = uw.fit(data, split="all", store=tmp_path / "runs", **FIELDS)
    assert model.dataset.factor_names == ("kind",)
    (tmp_path / "new").mkdir()
    new = write(x[:3], "folder", tmp_path / "new")
    (new / "labels.csv").write_text("file,other\n00.png,1\n77.png,2")
    assert model.open(new).factor_names == ()
    np.testing.assert_allclose(model.encode(new), model.table().codes[:3], atol=1e-6)
    command = ("encode", model.run.digest, new, "--store", tmp_path / "runs", "--error")
    code, printed, err = unweave(*command)
    assert (code, len(printed.splitlines())) == (0, 4), err
    assert err.splitlines() == [
        "3 images of 6 x 7, grey",
        "values are scaled like the training data (bytes)",
    ]


def test_arrays_find_their_selection_and_miss_their_labels(tmp_path):
    x, kinds = CASES["counts"].values, np.arange(12) % 3
    np.savez(tmp_path / "x.npz", x=x, kind=kinds)
    source = uw.Arrays(tmp_path / "x.npz", factors_key="kind", scale="counts")
    model = uw.fit(source, split="all", store=tmp_path / "runs", **FIELDS)
    with pytest.warns(UserWarning, match=r"no labels.*data=from_array\(images, factors\)"):
        uw.load(model.folder, data=x)
    labelled = from_array(x, kinds, ["kind"], scale="counts")[0]
    assert np.array_equal(uw.load(model.folder, data=labelled).table().codes, model.table().codes)
    selected = Selected(source, (HeldOut({"kind": (2,)}),))
    model = uw.fit(selected, store=tmp_path / "runs", **FIELDS)
    again = uw.load(model.folder, data=Selected(labelled, selected.select))
    assert np.array_equal(again.table().codes, model.table().codes)
    assert len(again.table().codes) == 8


@pytest.mark.parametrize("stream", [None, True])
def test_a_split_has_one_fingerprint(tmp_path, stream, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    np.save(tmp_path / "x.npy", VECTORS)
    in_memory = from_array(VECTORS)[0]
    prints = set()
    for split in ("all", "train", "validation", "test"):
        arrays = uw.Arrays(tmp_path / "x.npy", split=split, stream=stream).load(CPU)
        memory = type(in_memory)(in_memory.digest, in_memory.shape, in_memory.dtype, split=split)
        assert arrays.fingerprint == memory.load(CPU).fingerprint
        prints.add(arrays.fingerprint)
    assert len(prints) == 4
    selections = (HeldOut({"kind": (2,)}),)
    np.savez(tmp_path / "x.npz", x=VECTORS, kind=np.arange(12) % 3)
    stored = uw.Arrays(tmp_path / "x.npz", factors_key="kind", stream=stream)
    labelled = from_array(VECTORS, np.arange(12) % 3, ["kind"])[0]
    one, two = (Selected(source, selections).load(CPU) for source in (stored, labelled))
    assert one.fingerprint == two.fingerprint != stored.load(CPU).fingerprint


def test_values_far_from_0_come_back_with_their_digits(tmp_path, unweave):
    """Times in seconds since 1970 that differ by some hundred, of which float32 resolves 128."""
    x = CASES["times"].values
    model = uw.fit(x, split="all", **FIELDS)
    np.testing.assert_allclose(model.observations(range(12)), x, rtol=0, atol=1e-3)
    z = np.array([[0.0, 0.0], [0.01, 0.0]])
    bounds = model.log_likelihood(x[:3], particles=5)
    back = model.log_likelihood(model.observations(range(3)), particles=5)
    np.testing.assert_allclose(back, bounds, atol=1e-4)
    decoded = model.decode(z)
    assert decoded.dtype == np.float64
    np.testing.assert_allclose(model.encode(decoded), model.encode(decoded.copy(order="F")))
    scaled = read_like(model.schema, decoded).numpy()
    np.testing.assert_allclose(model.schema.scaling.invert(scaled), decoded, rtol=0, atol=1e-3)
    model.save(tmp_path / "model.uw")
    np.save(tmp_path / "z.npy", z)
    out = tmp_path / "decoded.csv"
    assert unweave("decode", tmp_path / "model.uw", tmp_path / "z.npy", "--out", out)[0] == 0
    written = np.loadtxt(out, delimiter=",", skiprows=1)[:, 1:]
    np.testing.assert_allclose(written, decoded, rtol=0, atol=1e-3)


def test_values_of_another_kind_are_warned_of():
    x = VECTORS.copy()
    x[:, 1] = 7
    schema = from_array(x)[1].schema
    assert read_like(schema, x[:2])[:, 1].tolist() == [0, 0]
    other = x[:2].copy()
    other[1, 1] = 5000
    with pytest.warns(UserWarning, match="value 1 had the same value in all training data"):
        assert read_like(schema, other)[:, 1].tolist() == [0, 0]
    other = x[:2].copy()
    other[:, 3] += 1000
    with pytest.warns(UserWarning, match="beyond 20 standard deviations.*: value 3; check"):
        read_like(schema, other)
    bright = np.stack([CASES["deep"].values, CASES["deep"].values // 50], 1)
    schema = from_array(bright, axes="nchw")[1].schema
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_like(schema, bright)
    with pytest.warns(UserWarning, match="percentiles of the training.*: channel 1; check"):
        read_like(schema, bright[:, ::-1])  # within the range of the other channel


def test_fractions_of_the_range_of_integers_are_warned_of():
    images = CASES["deep"].values
    schema = from_array(images)[1].schema
    with pytest.warns(UserWarning, match=r"floats in \[0, 1\].*were uint16, up to 3\d+"):
        read_like(schema, images / 65535)
    read_like(schema, images.astype(float))  # in the same units


def test_an_array_that_is_gone_is_asked_for():
    model = uw.fit(rng.random((12, 4)), split="all", **FIELDS)
    text = pickle.dumps(model)
    del model
    gc.collect()
    with pytest.raises(
        ValueError, match=r"array in memory; give it again: load\(path, data=im.*save"
    ):
        pickle.loads(text).table()


def test_booleans_are_not_bytes():
    with pytest.raises(ValueError, match=r"scale=bytes expects integers in 0..255, got bool"):
        from_array(CASES["masks"].values, scale="bytes")


@pytest.mark.parametrize("name", ["grey", "colour", "grey-sd", "deep", "wide", "unit", "binary"])
def test_decoded_files_are_read_back_within_the_precision_of_their_type(name, tmp_path):
    case = CASES[name]
    spec, dataset = from_array(case.values, scale=case.scale)
    scaling = dataset.schema.scaling
    outputs = rng.uniform(0.05, 0.95, (12, *dataset.shape)).astype(np.float32)
    decoded = scaling.invert(outputs)
    write_images(tmp_path / "out", decoded, [str(n) for n in range(10, 22)], dataset.schema)
    back = scaling.invert(everything(open_like(tmp_path / "out", dataset.schema, spec)).numpy())
    steps = {"bytes": 1 / 255, "none": 1 / 255}.get(case.method, 1)
    step = 1e-5 if name == "wide" else steps  # floats keep their fractions
    np.testing.assert_allclose(back, decoded, rtol=0, atol=0.501 * step)


def test_finite_values_that_the_scaling_makes_infinite_are_not_called_infinite():
    _, dataset = from_array(rng.normal(size=(20, 2)) * 1e-30)
    schema = dataset.schema
    with pytest.raises(ValueError, match="become infinite when they are scaled like the data"):
        read_like(schema, np.full((3, 2), 1e30))
    with pytest.raises(ValueError, match="expected finite observations, got NaN or infinity"):
        read_like(schema, np.full((3, 2), np.nan))
