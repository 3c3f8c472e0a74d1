"""Models that travel: without their data, in one file, through pickle, and in the user's units."""

import copy
import csv
import json
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from datasets import CRITIC, LATENTS, MIXED, SMALL
from unweave.core.spec import tag
from unweave.data.dataset import ArrayDataset, Schema
from unweave.data.scaling import BYTES, Scaling
from unweave.evaluation.codes import code_names
from unweave.training.records import record_to_bytes

FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, progress=False)


@pytest.fixture
def photos(tmp_path):
    """Forty photos of different sizes, with labels."""
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    folder.mkdir()
    for number in range(40):
        pixels = rng.integers(0, 256, (10 + number % 3, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    write_labels(folder, [number % 4 for number in range(40)])
    return folder


def write_labels(folder, labels):
    lines = ["file,kind", *(f"{n:02d}.png,{label}" for n, label in enumerate(labels))]
    (folder / "factors.csv").write_text("\n".join(lines))


def fit_photos(photos, store, **more):
    return uw.fit(uw.Folder(photos, size=8), store=store, **(FIELDS | {"steps": 5} | more))


# ---- without the data


def test_a_run_is_used_without_its_data_and_says_what_needs_them(photos, tmp_path):
    model = fit_photos(photos, tmp_path / "runs")
    x = model.observations([3, 5])
    codes, samples = model.encode(x), model.sample(2)
    photos.rename(tmp_path / "elsewhere")
    alone = uw.load(model.folder)
    assert np.array_equal(alone.encode(x), codes)
    assert np.array_equal(alone.reconstruct(x), model.reconstruct(x))
    assert np.array_equal(alone.sample(2), samples)
    assert len(alone.traverse(x[:1])) == 3
    assert alone.schema.shape == (3, 8, 8)
    assert alone.schema.factor_names == ("kind",)
    assert "beta-vae" in repr(alone)
    for measure in (alone.table, alone.rows, lambda: alone.observations([0]), alone.summary):
        with pytest.raises(
            ValueError,
            match=r"cannot be loaded.*give their path: --data PATH, or data=PATH in Python",
        ):
            measure()


def test_data_are_compared_by_content_and_not_by_path(photos, tmp_path):
    model = fit_photos(photos, tmp_path / "runs")
    table = model.table()
    place = tmp_path / "new" / "place"
    shutil.copytree(photos, place)
    shutil.rmtree(photos)
    moved = uw.load(model.folder, data=place)
    assert np.array_equal(moved.table().codes, table.codes)
    assert np.array_equal(moved.table().factors, table.factors)
    pixels = np.asarray(Image.open(place / "07.png")).copy()
    pixels[2, 2] ^= 128
    Image.fromarray(pixels).save(place / "07.png")
    with pytest.raises(ValueError, match="trained on other data: expected 40 observations"):
        uw.load(model.folder, data=place)
    with pytest.raises(ValueError, match="trained on other data"):
        uw.load(model.folder, data=SMALL)


def test_an_array_and_its_file_are_the_same_data(tmp_path):
    x = np.random.default_rng(0).random((40, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "link.npy").symlink_to(tmp_path / "x.npy")
    model = uw.fit(tmp_path / "x.npy", steps=3, store=tmp_path / "runs", **FIELDS)
    codes = model.table().codes
    for data in (tmp_path / "link.npy", x, uw.Arrays(tmp_path / "x.npy")):
        assert np.array_equal(uw.load(model.folder, data=data).table().codes, codes)
    in_memory = uw.fit(x, steps=3, store=tmp_path / "runs", **FIELDS)
    folder = in_memory.folder
    again = uw.load(folder, data=tmp_path / "x.npy")
    assert np.array_equal(again.table().codes, in_memory.table().codes)
    with pytest.raises(ValueError, match="trained on other data"):
        uw.load(folder, data=x + 1)


def test_corrected_labels_are_not_other_data(photos, tmp_path):
    model = fit_photos(photos, tmp_path / "runs")
    write_labels(photos, [number % 5 for number in range(40)])
    again = uw.load(model.folder)
    with pytest.warns(UserWarning, match="labels have changed since training; scores use the new"):
        table = again.table()
    assert np.array_equal(table.codes, model.table().codes)
    assert table.factor_sizes == (5,)
    assert fit_photos(photos, tmp_path / "runs").log == model.log  # finished, not trained again


def test_a_run_that_learns_from_labels_refuses_others(photos, tmp_path):
    fields = dict(latent=uw.Product(sort=uw.Categorical(4), style=uw.Gaussian(2)))
    labels = (uw.Label(factor="kind", block="sort"),)
    fit_photos(photos, tmp_path / "runs", labels=labels, **fields)
    write_labels(photos, [(number + 1) % 4 for number in range(40)])
    with pytest.raises(ValueError, match="labels, from which it learns, have changed"):
        fit_photos(photos, tmp_path / "runs", labels=labels, **fields)


def test_no_message_advises_to_delete_a_folder():
    source = Path(uw.__file__).parent
    found = [
        f"{path.name}: {line.strip()}"
        for folder in ("training", "evaluation", "cli", "report")
        for path in (source / folder).glob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(?i)\bdelete\b", line)
        and "folder" in line
        and "files." not in line
        and '"""' not in line
        and "import" not in line
    ]
    assert not found


# ---- one file


@pytest.mark.parametrize("latent", [LATENTS[0], MIXED])
@pytest.mark.parametrize("objective", [uw.BetaVAE(), uw.FactorVAE(critic=CRITIC)])
def test_a_model_in_one_file_is_the_same(tmp_path, objective, latent):
    model = uw.fit(SMALL, steps=5, **(FIELDS | {"objective": objective, "latent": latent}))
    model.save(tmp_path / "model.uw")
    again = uw.load(tmp_path / "model.uw")
    x = model.observations([1, 2, 3])
    assert np.array_equal(again.encode(x), model.encode(x))
    assert np.array_equal(again.sample(3), model.sample(3))
    assert np.array_equal(again.table(50).codes, model.table(50).codes)
    assert (again.run, again.log, again.folder) == (model.run, model.log, None)
    again.save(tmp_path / "again.uw")
    assert (tmp_path / "again.uw").read_bytes() == (tmp_path / "model.uw").read_bytes()


def test_a_file_that_is_no_model_is_one_clear_line(tmp_path):
    model, path = uw.fit(SMALL, steps=2, **FIELDS), tmp_path / "model.uw"
    model.save(path)
    content = path.read_bytes()
    place = content.index(b"weights.safetensors")
    damaged = {
        "truncated": content[:-100],
        "flipped": content[: place + 5000] + b"?" + content[place + 5001 :],
        "empty": b"",
        "text": b"not a model",
    }
    for damage in damaged.values():
        path.write_bytes(damage)
        with pytest.raises(ValueError, match=r"model\.uw cannot be read"):
            uw.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "something else")
    with pytest.raises(ValueError, match=r"run\.json.*expected a model"):
        uw.load(path)
    with pytest.raises(ValueError, match="expected the path of a file"):
        model.save(tmp_path)


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0])
def test_a_model_with_an_impossible_scaling_is_refused_by_its_name(tmp_path, number):
    path = tmp_path / "model.uw"
    uw.fit(np.random.default_rng(0).random((30, 6)), steps=2, **FIELDS).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(parts["data.json"])
    run = content.pop("seal")["run"]
    content["schema"]["scaling"]["unit"][0] = number
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in (
            parts | {"data.json": record_to_bytes("data.json", run, content)}
        ).items():
            archive.writestr(name, part)
    with pytest.raises(ValueError, match=r"model\.uw cannot be read .*units of at least 0"):
        uw.load(path)


# ---- copies


def test_pickled_and_copied_models_have_the_same_codes(tmp_path):
    model = uw.fit(np.random.default_rng(0).random((30, 6)), steps=3, **FIELDS)
    x = model.observations(range(10))
    pickled = pickle.dumps(model)
    assert b"ArrayDataset" not in pickled
    for again in (pickle.loads(pickled), copy.copy(model), copy.deepcopy(model)):
        assert np.array_equal(again.encode(x), model.encode(x))
        assert np.array_equal(again.table().codes, model.table().codes)
    (tmp_path / "model.pickle").write_bytes(pickled)
    np.save(tmp_path / "x.npy", x)
    program = """
import pickle, sys, numpy as np
model = pickle.load(open("model.pickle", "rb"))
np.save("codes.npy", model.encode(np.load("x.npy")))
try:
    model.table()
except ValueError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "which were an array in memory; give it again" in run.stdout
    assert np.array_equal(np.load(tmp_path / "codes.npy"), model.encode(x))


# ---- units

METHODS = Literal["none", "bytes", "percentile", "standardise", "common", "counts"]


@uw.spec
class Measured:
    """Vectors of four values, or images of two channels, scaled by a method."""

    method: METHODS = "none"
    images: bool = False
    kind: Literal["test_models:Measured"] = tag("test_models:Measured")

    def raw(self):
        rng = np.random.default_rng(0)
        shape = (60, 2, 4, 4) if self.images else (60, 4)
        if self.method == "bytes":
            return rng.random(shape).astype(np.float32)
        if self.method == "counts":
            return rng.integers(0, 50, shape).astype(np.float32)
        values = rng.uniform(-1, 1, shape)
        return (values * 300 + 1000 if self.scaled else values).astype(np.float32)

    @property
    def scaled(self):
        return self.method in ("percentile", "standardise", "common")

    def load(self, device):
        count = 2 if self.images else 4
        scaling = {
            "bytes": BYTES,
            "percentile": Scaling("percentile", (700.0,) * count, (1 / 600,) * count),
            "standardise": Scaling("standardise", (990.0,) * count, (1 / 200,) * count),
            "common": Scaling("common", tuple(range(900, 900 + count)), (1 / 200,) * count),
        }.get(self.method, Scaling(self.method))
        raw = self.raw()
        bounded = self.method in ("bytes", "percentile")
        schema = Schema(60, raw.shape[1:], bounded=bounded, scaling=scaling)
        codes = torch.zeros(60, 0, dtype=torch.int64)
        return ArrayDataset(schema, scaling.apply(raw), codes, device=device)


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("method", METHODS.__args__)
def test_observations_go_in_and_come_out_in_the_users_units(method, images, tmp_path):
    data = Measured(method, images)
    raw = data.raw()
    model = uw.fit(data, steps=3, likelihood=uw.likelihoods.Gaussian(), **FIELDS)
    scaling, index = model.schema.scaling, model.rows()
    assert np.allclose(model.observations(index), raw, rtol=1e-5, atol=1e-5)
    codes = model.table().codes
    assert np.allclose(model.encode(model.observations(index)), codes, atol=2e-4)
    assert np.allclose(model.encode(raw), codes, atol=2e-4)
    model.save(tmp_path / "model.uw")
    assert np.array_equal(uw.load(tmp_path / "model.uw").encode(raw), model.encode(raw))

    def decoded(z):
        return model.trained.alone(0, lambda nets: nets.model.decode(torch.from_numpy(z)).mean)

    expected = scaling.invert(decoded(model.encode(raw)).numpy())
    assert np.allclose(model.reconstruct(raw), expected, rtol=1e-6)
    (first, *_), values = model.traverse(raw[:1], values=[0.5]), model.encode(raw[:1])
    values[0, 0] = 0.5
    assert np.allclose(first, scaling.invert(decoded(values).numpy()), rtol=1e-5)
    if data.scaled:  # far from what the networks see
        for found in (model.reconstruct(raw), model.sample(20), first):
            assert 50 < found.min() < found.max() < 1950
    assert np.isfinite(model.log_likelihood(raw[:2], particles=5)).all()


def test_values_far_beyond_the_percentiles_are_warned_of():
    """Images of 8 bits have a meaning of their own for a model of 16-bit images."""
    model = uw.fit(Measured("percentile", images=True), steps=2, **FIELDS)
    model.encode(model.observations(range(5)))
    with pytest.warns(UserWarning, match="more than half of the values lie beyond"):
        model.encode(np.full((3, 2, 4, 4), 255, np.uint8))


# ---- commands


def test_encode_writes_names_and_reads_like_the_training(photos, tmp_path, unweave):
    model = fit_photos(photos, tmp_path / "runs")
    new, out = tmp_path / "new", tmp_path / "codes.csv"
    new.mkdir()
    for number in range(3):
        shutil.copy(photos / f"{number:02d}.png", new / f"{number}.png")
    digest = model.run.digest
    command = ["encode", digest, new, "--store", tmp_path / "runs", "--out", out]
    code, _, err = unweave(*command, "--scales", "--error")
    assert code == 0, err
    assert "3 images of 8 x 8" in err
    header, *rows = csv.reader(out.read_text().splitlines())
    assert header == ["name", "z0", "z1", "z2", "z0.sd", "z1.sd", "z2.sd", "rmse"]
    opened = model.open(new)
    assert [row[0] for row in rows] == list(opened.row_names or ["0", "1", "2"])
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    table = model.table()
    assert np.allclose(values[:, :3], table.codes[:3], atol=1e-6)
    assert np.allclose(values[:, 3:6], table.scales[:3], atol=1e-6)
    x = model.observations([0, 1, 2])
    rmse = np.sqrt(np.square(x - model.reconstruct(x)).reshape(3, -1).mean(1))
    assert np.allclose(values[:, 6], rmse, atol=1e-5)
    assert np.array_equal(model.encode(new), model.encode(str(new)))
    assert np.allclose(model.encode(new), values[:, :3], atol=1e-6)

    code, _, err = unweave(*command)
    assert (code, "choose another --out" in err) == (2, True)
    assert unweave(*command, "--overwrite")[0] == 0
    model.save(tmp_path / "model.uw")
    arrays = tmp_path / "codes.npz"
    assert unweave("encode", tmp_path / "model.uw", new, "--out", arrays)[0] == 0
    with np.load(arrays) as file:
        assert np.allclose(file["codes"], values[:, :3], atol=1e-6)
        assert file["code_names"].tolist() == ["z0", "z1", "z2"]
    code, printed, _ = unweave("encode", digest, "--store", tmp_path / "runs")
    assert (code, len(printed.splitlines())) == (0, 41)  # its own data
    decoded = tmp_path / "decoded"
    for source in (out, arrays):
        shutil.rmtree(decoded, ignore_errors=True)
        unweave("decode", digest, source, "--store", tmp_path / "runs", "--out", decoded)
        pixels = [np.asarray(Image.open(path)) for path in sorted(decoded.iterdir())]
        expected = np.moveaxis(model.reconstruct(x), 1, -1)
        assert np.abs(np.stack(pixels) / 255 - expected).max() < 0.5 / 255 + 1e-5


def test_tables_are_matched_by_the_names_of_columns(tmp_path, unweave):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3)).round(3)
    lines = [",".join(map(str, row)) for row in x.tolist()]
    (tmp_path / "x.csv").write_text("\n".join(["red,green,blue", *lines]))
    model = uw.fit(tmp_path / "x.csv", steps=3, store=tmp_path / "runs", split="all", **FIELDS)
    shuffled = [f"{b},note,{r},{g}" for r, g, b in x[:4].tolist()]
    (tmp_path / "new.csv").write_text("\n".join(["blue,remark,red,green", *shuffled]))
    assert np.allclose(model.encode(tmp_path / "new.csv"), model.table().codes[:4], atol=1e-6)
    (tmp_path / "less.csv").write_text("red,green\n1,2\n3,4")
    with pytest.raises(ValueError, match=r"less\.csv has no column 'blue'"):
        model.encode(tmp_path / "less.csv")
    with pytest.raises(ValueError, match="the model was trained on vectors"):
        model.encode(tmp_path)
    out = tmp_path / "decoded.csv"
    np.save(tmp_path / "codes.npy", model.encode(tmp_path / "new.csv"))
    command = ["decode", model.run.digest, tmp_path / "codes.npy", "--store", tmp_path / "runs"]
    assert unweave(*command, "--out", out)[0] == 0
    header, *rows = csv.reader(out.read_text().splitlines())
    assert header == ["name", "red", "green", "blue"]
    unnamed = uw.fit(x, steps=3, store=tmp_path / "runs", split="all", **FIELDS)
    command[1] = unnamed.run.digest
    assert unweave(*command, "--out", tmp_path / "unnamed.csv")[0] == 0
    first = (tmp_path / "unnamed.csv").read_text().splitlines()[0]
    assert first == "name,value 0,value 1,value 2"
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert np.allclose(values, model.reconstruct(x[:4]), atol=1e-5)


def test_code_names_name_every_dimension():
    tree = uw.Product(style=uw.Gaussian(2), digit=uw.Categorical(3))
    assert code_names(tree) == ["style.0", "style.1", "digit[0]", "digit[1]", "digit[2]"]
    for latent in LATENTS:
        assert len(set(code_names(latent))) == latent.size


@pytest.mark.parametrize("method", ["percentile", "standardise"])
@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_decoded_images_keep_16_bits_and_floats(tmp_path, unweave, method, kind):
    images = Measured(method, images=True).raw().astype(kind)
    data = uw.data.from_array(images, scale=method, axes="nchw")[0]
    model = uw.fit(data, steps=2, **FIELDS)
    model.save(tmp_path / "model.uw")
    np.save(tmp_path / "codes.npy", np.zeros((2, 3)))
    out = tmp_path / "images"
    code, _, err = unweave("decode", tmp_path / "model.uw", tmp_path / "codes.npy", "--out", out)
    assert code == 0, err
    pages = []
    with Image.open(out / "0.tif") as image:
        for channel in range(2):
            image.seek(channel)
            pages.append(np.asarray(image).astype(np.float64))
        assert image.mode == ("I;16" if kind is np.uint16 else "F")
    expected = model.decode(np.zeros((1, 3)))[0]
    assert np.abs(np.stack(pages) - expected).max() <= (0.5 if kind is np.uint16 else 1e-3)


def test_names_of_files_cannot_lead_out_of_the_folder(tmp_path, unweave):
    """On no system: Windows takes backslashes, drives and names of other machines, too."""
    model = uw.fit(SMALL, steps=2, **FIELDS)
    model.save(tmp_path / "model.uw")
    command = ["decode", tmp_path / "model.uw", tmp_path / "codes.csv", "--out", tmp_path / "out"]
    for name in ("../../evil", "/evil", r"..\..\evil", r"a\..\..\evil", r"C:\evil", "C:evil",
                 r"\evil", r"\\server\share\evil", "//server/share/evil"):  # fmt: skip
        (tmp_path / "codes.csv").write_text(f"name,z0,z1,z2\n{name},0,0,0\n")
        code, _, err = unweave(*command)
        assert (code, "names of files within a folder" in err) == (2, True), name
    (tmp_path / "codes.csv").write_text("name,z0,z1,z2\na/b: c..d,0,0,0\n")
    assert unweave(*command)[0] == 0


@pytest.mark.parametrize("command", ["report", "evaluate", "compare", "cite"])
def test_commands_that_need_a_run_folder_say_so_of_a_model_file(tmp_path, unweave, command):
    path = tmp_path / "model.uw"
    uw.fit(SMALL, steps=2, **FIELDS).save(path)
    code, _, err = unweave(command, path, "--store", tmp_path)
    assert code == 2
    assert "expected the folder of a run" in " ".join(err.split())
    assert "uw.load(" in err
