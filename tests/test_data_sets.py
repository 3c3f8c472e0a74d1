"""Published datasets: read out of small files in their own formats, and refused when wrong."""

import dataclasses
import gzip
import io
import pickle
import struct
import tarfile
import zlib
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from byte_images import everything
from datasets import CPU
from published_files import WRITERS
from unweave.core.spec import from_json, members, to_json
from unweave.data import Data, HeldOut, Published, PublishedSpec, Selected
from unweave.data.published import datasets as published_datasets, formats
from unweave.data.random_split import split_rows
from unweave.training.overrides import runs_from

SETS = members(Published)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr("unweave.data.published.base.verify", lambda *_: None)  # files of ours
    return tmp_path


@pytest.fixture
def small(place, monkeypatch):
    """Return a function that writes small files of a dataset and returns their content."""

    def written(kind):
        cls = SETS[kind]
        (place / kind).mkdir()
        lattice, images, factors = WRITERS[kind](place / kind)
        about = dataclasses.replace(cls.ABOUT, lattice=lattice, count=len(images))
        monkeypatch.setattr(cls, "ABOUT", about)
        if lattice is not None:
            factors = lattice.factors(torch.arange(lattice.size)).numpy()
        return cls, images, factors

    return written


def test_every_published_dataset_is_tested_here():
    assert set(SETS) == set(WRITERS)
    assert SETS.items() <= members(Data).items()
    assert all(issubclass(cls, PublishedSpec) for cls in SETS.values())


@pytest.mark.parametrize("kind", SETS)
def test_files_are_read(small, kind):
    cls, images, factors = small(kind)
    dataset = cls(split="all").load(CPU)
    assert dataset.size == len(images)
    expected = np.moveaxis(images, -1, 1) if images.ndim == 4 else images[:, None]
    tolerance = 0.02 if kind == "celeba" else 1e-6  # JPEG
    np.testing.assert_allclose(everything(dataset), expected / 255, atol=tolerance)
    assert dataset.factors(torch.arange(dataset.size)).tolist() == factors.tolist()
    # A second time, from what was unpacked.
    assert torch.equal(everything(cls(split="all").load(CPU)), everything(dataset))


@pytest.mark.parametrize("kind", SETS)
def test_every_lattice_enumerates_its_dataset(kind):
    about = SETS[kind].ABOUT
    assert about.lattice is None or about.lattice.size == about.count
    if about.lattice is not None:
        index = torch.randint(about.count, (1000,))
        assert torch.equal(about.lattice.index(about.lattice.factors(index)), index)


@pytest.mark.parametrize("kind", SETS)
def test_splits_are_disjoint_and_together_all(small, kind):
    cls, images, _ = small(kind)
    names = ("train", "test") if kind in ("smallnorb", "mnist", "fashion-mnist", "svhn") else (
        "train", "validation", "test")  # fmt: skip
    found = torch.cat([everything(cls(split=name).load(CPU)) for name in names]).flatten(1)
    whole = everything(cls(split="all").load(CPU)).flatten(1)
    assert len(found) == len(images)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, whole.tolist()))


@pytest.mark.parametrize("kind", ["smallnorb", "celeba", "mnist", "fashion-mnist", "svhn"])
def test_a_class_is_the_same_in_every_split_of_the_authors(small, kind):
    """Splits have different toys, and attributes or digits may be missing in one."""
    cls, _, _ = small(kind)

    def classes(split):
        dataset = cls(split=split).load(CPU)
        factors = dataset.factors(torch.arange(dataset.size)).tolist()
        pictures = everything(dataset).flatten(1).tolist()
        return dataset.factor_sizes, sorted(zip(pictures, factors, strict=True))

    sizes, whole = classes("all")
    splits = ("train", "validation", "test") if kind == "celeba" else ("train", "test")
    found = [classes(split) for split in splits]
    assert all(each == sizes for each, _ in found)
    assert sorted(row for _, rows in found for row in rows) == whole


@pytest.mark.parametrize("kind", ["mnist", "fashion-mnist", "svhn"])
@pytest.mark.parametrize("split", ["all", "train", "test"])
def test_a_digit_keeps_its_number_if_others_are_missing(small, kind, split):
    """The test split lacks 0 to 3, and the selection keeps only its sevens."""
    cls, images, digits = small(kind)
    rows = {"all": slice(0, 20), "train": slice(0, 14), "test": slice(14, 20)}[split]
    expected = images[rows][digits[rows, 0] == 7]
    few = HeldOut({"class": (0, "1..2")})
    data = Selected(cls(split=split), (few, HeldOut({"class": (7,)}, "held-out")))
    dataset = data.load(CPU)
    assert dataset.factor_sizes == (10,)
    assert dataset.factors(torch.arange(dataset.size)).tolist() == [[7]] * len(expected)
    pictures = np.moveaxis(expected, -1, 1) if expected.ndim == 4 else expected[:, None]
    np.testing.assert_allclose(everything(dataset), pictures / 255, atol=1e-6)


@pytest.mark.parametrize("kind", ["mnist", "fashion-mnist"])
def test_digits_at_another_side_are_interpolated_linearly(small, kind):
    cls, images, labels = small(kind)
    dataset = cls(side=32).load(CPU)  # the 14 for training
    assert dataset.shape == (1, 32, 32)
    assert dataset.factors(torch.arange(dataset.size)).tolist() == labels[:14].tolist()
    pictures = torch.from_numpy(images[:14, None] / 255)
    expected = torch.nn.functional.interpolate(pictures, (32, 32), mode="bilinear")
    assert (everything(dataset) - expected).abs().max() < 1.5 / 255  # rounded twice, as bytes


def test_classes_of_published_datasets_are_written_by_value(small):
    """Azimuths of SmallNORB have steps of two, and attributes of CelebA are -1 or 1."""
    cls, _, _ = small("smallnorb")
    selected = Selected(cls(), (HeldOut({"azimuth": (4,)}, "held-out"),)).load(CPU)
    assert {row[3] for row in selected.factors(torch.arange(selected.size)).tolist()} == {2}
    cls, _, factors = small("celeba")
    young = Selected(cls(), (HeldOut({"Young": (-1,)}, "held-out"),)).load(CPU)
    assert young.size == (factors[:, 1] == 0).sum()
    with pytest.raises(ValueError, match="its values are -1, 1"):
        Selected(cls(), (HeldOut({"Young": (0,)}),)).load(CPU)


def test_splits_share_class_numbers_and_periods(small):
    """A split has two of 12 images, and not every class."""
    cls, _, factors = small("dsprites")
    lattice = dataclasses.replace(cls.ABOUT.lattice, periods={"f2": 2})
    cls.ABOUT = dataclasses.replace(cls.ABOUT, lattice=lattice)
    for split in ("train", "validation", "test"):
        dataset = cls(split=split).load(CPU)
        rows = split_rows(split, len(factors))
        assert dataset.factors(torch.arange(dataset.size)).tolist() == factors[rows].tolist()
        assert dataset.factor_sizes == lattice.sizes
        assert dataset.periods == lattice.periods


@pytest.mark.parametrize("kind", SETS)
def test_a_spec_survives_json_and_the_command_line(kind):
    made = SETS[kind]()
    assert from_json(SETS[kind], to_json(made)) == made
    assert runs_from([f"data={kind}"])[0].data == made


@pytest.mark.parametrize("kind", SETS)
def test_a_missing_dataset_says_how_to_get_it(kind):
    with pytest.raises(ValueError, match=f"`unweave data get {kind}`"):
        SETS[kind]().load(CPU)


HARM = {
    "empty": lambda content: b"",
    "nonsense": lambda content: b"nonsense" * 40,
    "cut": lambda content: content[: len(content) // 3],
    "pickled": lambda content: pickle.dumps({"a": 1}),
}


@pytest.mark.parametrize("kind", SETS)
def test_a_damaged_file_is_named(small, kind):
    cls, _, _ = small(kind)
    for source, harm in product(cls(split="all").sources, HARM):
        path = cls().folder / source.name
        if not path.exists() or source.name == "list_eval_partition.txt":
            continue
        whole = path.read_bytes()
        path.write_bytes(HARM[harm](whole))
        if harm == "cut" and path.suffix == ".txt":
            path.write_bytes(whole[:-1])  # a table that ends in the middle of a row
            path.write_text(path.read_text().rsplit(maxsplit=1)[0])
        with pytest.raises(ValueError, match=path.name):
            cls(split="all").load(CPU)
        path.write_bytes(whole)
    assert cls(split="all").load(CPU).size


def test_another_number_of_observations_is_refused(small, monkeypatch):
    cls, _, _ = small("mpi3d")
    monkeypatch.setattr(cls, "ABOUT", dataclasses.replace(cls.ABOUT, count=10))
    with pytest.raises(ValueError, match=r"expected 10 observations of mpi3d in .*, got 12"):
        cls().load(CPU)


def test_a_table_without_a_row_for_an_image_is_refused(small):
    cls, _, _ = small("celeba")
    path = cls().folder / "list_eval_partition.txt"
    path.write_text(path.read_text().replace("000004.jpg 1\n", ""))
    with pytest.raises(ValueError, match=r"to which split 000004\.jpg belongs"):
        cls(split="train").load(CPU)


def test_names_in_archives_are_never_used_as_paths(small, place):
    cls, images, _ = small("3dchairs")
    path = cls().folder / "rendered_chairs.tar"
    with tarfile.open(path, "a") as file:
        for name, kind in (("../../evil.txt", tarfile.REGTYPE), ("link", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            file.addfile(info)
    assert cls().load(CPU).size == len(images)
    assert not (place.parent / "evil.txt").exists()
    assert not list(place.rglob("link"))


def test_an_image_bomb_is_named(small, monkeypatch):
    cls, _, _ = small("celeba")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"000001\.jpg.*ordinary size|ordinary size.*000001\.jpg"):
        cls().load(CPU)


def test_a_member_that_is_too_large_is_not_read(small, monkeypatch):
    monkeypatch.setattr("unweave.data.published.formats._LARGEST", 100)
    for kind, name in (("celeba", "img_align"), ("3dchairs", "rendered"), ("cars3d", "nips2015")):
        cls, _, _ = small(kind)
        with pytest.raises(ValueError, match=rf"{name}.* in it has .* bytes"):
            cls().load(CPU)


@pytest.mark.parametrize("kind", ["cars3d", "3dchairs"])  # a packed archive, and one that is not
@pytest.mark.parametrize("fact", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_bomb_in_the_metadata_of_a_member_is_not_read(small, kind, fact):
    cls, _, _ = small(kind)
    (path,) = (cls().folder / s.name for s in cls.ABOUT.sources if ".tar" in s.name)
    info = tarfile.TarInfo("x")
    info.type, info.size = fact, 2**21
    content = info.tobuf(tarfile.USTAR_FORMAT) + bytes(2**21)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    with pytest.raises(ValueError, match=rf"{path.name}.* 2,097,152 bytes of metadata"):
        cls().load(CPU)


@pytest.mark.parametrize("order", "<>")
def test_a_bomb_in_a_matlab_file_is_not_unpacked(tmp_path, monkeypatch, order):
    """The content of the array is 100 times as long as its shape says."""
    monkeypatch.setattr(formats, "BOMB", 2**19)

    def element(kind, content):
        return struct.pack(f"{order}II", kind, len(content)) + content.ljust(
            -len(content) // 8 * -8
        )

    flags, shape = struct.pack(f"{order}II", 9, 0), struct.pack(f"{order}2i", 100, 100)
    for times, message in ((100, "would unpack"), (1, None)):
        parts = ((6, flags), (5, shape), (1, b"im"), (2, bytes(times * 10_000)))
        packed = zlib.compress(element(14, b"".join(element(*part) for part in parts)))
        head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}HH", 0x0100, 0x4D49)
        file = tmp_path / "a.mat"
        file.write_bytes(head + struct.pack(f"{order}II", 15, len(packed)) + packed)
        if message is None:
            assert formats.read_mat(file, "im", 2, file).shape == (100, 100)
            continue
        for path in (file, io.BytesIO(file.read_bytes())):
            with pytest.raises(ValueError, match=rf"a\.mat.*{message}"):
                formats.read_mat(path, "im", 2, file)


def test_a_header_with_a_huge_shape_is_refused(small):
    cls, _, _ = small("mnist")
    head = bytes([0, 0, 8, 3]) + np.array([2**31, 2**20, 28], ">u4").tobytes()
    (cls().folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head))
    with pytest.raises(ValueError, match=r"train-images.*announces the shape"):
        cls().load(CPU)
    cls, _, _ = small("smallnorb")
    head = np.array([0x1E3D4C55, 4, 2**30, 2, 96, 96], "<i4").tobytes()
    (cls().folder / f"{published_datasets._NORB[0]}-dat.mat.gz").write_bytes(gzip.compress(head))
    with pytest.raises(ValueError, match="announces the shape"):
        cls().load(CPU)
