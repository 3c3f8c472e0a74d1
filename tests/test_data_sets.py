"""Published data sets: read out of small files in their own formats, and refused when wrong."""

import dataclasses
import gzip
import io
import pickle
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image

from byte_images import everything
from unweave.data import Data, FileSet, Published, sets
from unweave.data.lattice import Factor, Lattice
from unweave.overrides import runs_from
from unweave.spec import from_json, members, to_json
from worlds import CPU

RNG = np.random.default_rng(0)
SETS = members(Published)


def smooth(*shape):
    """Pictures (..., H, W, 3) that survive compression and scaling: one colour each."""
    return np.broadcast_to(RNG.integers(0, 256, (*shape[:-3], 1, 1, 3), dtype=np.uint8), shape)


def factors_of(*sizes):
    return Lattice(tuple(Factor(f"f{k}", size) for k, size in enumerate(sizes)))


def png(pixels):
    content = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(content, "png")
    return content.getvalue()


def tar(path, members, mode="w"):
    with tarfile.open(path, mode) as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def mat(**arrays):
    content = io.BytesIO()
    scipy.io.savemat(content, arrays, do_compression=True)
    return content.getvalue()


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def norb(array):
    kind = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[str(array.dtype)]
    sizes = [*array.shape, *[1] * (3 - array.ndim)]
    return gzip.compress(np.array([kind, array.ndim, *sizes], "<i4").tobytes() + array.tobytes())


# Each writes the files of a data set into a folder and gives its lattice if it has one, and the
# pictures (N, H, W) or (N, H, W, 3) and factors (N, K) to be found.


def dsprites(folder):
    images = RNG.integers(0, 2, (12, 64, 64), dtype=np.uint8)
    pickled = np.array({"a": 1}, dtype=object)
    np.savez_compressed(folder / sets._SPRITES, metadata=pickled, imgs=images)
    return factors_of(1, 3, 4), images * 255, None


def shapes3d(folder):
    images = smooth(12, 64, 64, 3)
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        file.create_dataset("images", data=images, compression="gzip", chunks=(5, 8, 64, 1))
        file.create_dataset("labels", data=np.zeros((12, 6)))
    return factors_of(3, 4), images, None


def mpi3d(folder):
    images = smooth(12, 64, 64, 3)
    np.savez(folder / "mpi3d_real.npz", images=images)
    return factors_of(6, 2), images, None


def cars3d(folder):
    cars = smooth(3, 4, 2, 128, 128, 3)  # car, side, height
    files = {
        f"data/cars/car_{n:03d}_mesh.mat": mat(
            im=cars[n].transpose(2, 3, 4, 0, 1), mask=np.zeros((2, 2))
        )
        for n in (2, 0, 1)
    }
    tar(folder / "nips2015-analogy-data.tar.gz", {"data/cars/list.txt": b"", **files}, "w:gz")
    images = cars.transpose(2, 1, 0, 3, 4, 5).reshape(-1, 128, 128, 3)
    return factors_of(2, 4, 3), images[:, ::2, ::2], None


def smallnorb(folder):
    grid = np.array(list(np.ndindex(2, 4, 3)))  # category, instance, azimuth
    table = np.column_stack([grid[:, :2], 0 * grid[:, 0], 2 * grid[:, 2], 0 * grid[:, 0]])
    images = np.broadcast_to(RNG.integers(0, 256, (24, 1, 1), dtype=np.uint8), (24, 96, 96))
    for half, name in enumerate(sets._NORB):
        rows = RNG.permutation(np.nonzero(grid[:, 1] % 2 == half)[0])
        pairs = np.stack([images[rows], 255 - images[rows]], 1)
        (folder / f"{name}-dat.mat.gz").write_bytes(norb(pairs))
        (folder / f"{name}-cat.mat.gz").write_bytes(norb(table[rows, 0].astype(np.int32)))
        (folder / f"{name}-info.mat.gz").write_bytes(norb(table[rows, 1:].astype(np.int32)))
    factors = np.column_stack([grid[:, :2], 0 * grid[:, 0], grid[:, 2], 0 * grid[:, 0]])
    return None, images[:, :64, :64], factors


def chairs3d(folder):
    images = smooth(2, 2, 3, 100, 100, 3)
    names = np.ndindex(2, 2, 3)
    files = {
        f"rendered_chairs/{'ab'[c]}/renders/image_{n:03d}_p0{e + 2}0_t0{t}0_r096.png": png(
            images[c, e, t]
        )
        for n, (c, e, t) in enumerate(names)
    }
    shuffled = dict(sorted(files.items(), key=lambda item: hash(item[1])))
    tar(folder / "rendered_chairs.tar", {**shuffled, "rendered_chairs/all_chair_names.mat": b"x"})
    return factors_of(2, 2, 3), images.reshape(-1, 100, 100, 3)[:, :64, :64], None


def faces3d(folder):
    images = RNG.integers(0, 256, (2, 3, 2, 2, 64, 64), dtype=np.uint8)
    np.save(folder / "3dfaces.npy", images)
    return factors_of(2, 3, 2, 2), images.reshape(-1, 64, 64), None


def celeba(folder):
    images = smooth(6, 218, 178, 3).copy()
    images[:, :35] = images[:, -35:] = 0  # what the crop of 148 leaves out
    images[:, :, :15] = images[:, :, -15:] = 0
    names = [f"{n + 1:06d}.jpg" for n in range(6)]
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as file:
        for name, image in zip(names, images, strict=True):
            content = io.BytesIO()
            Image.fromarray(image).save(content, "jpeg", quality=98, subsampling=0)
            file.writestr(f"img_align_celeba/{name}", content.getvalue())
    signs = np.where(np.arange(12).reshape(6, 2) % 3, 1, -1)
    lines = [f"{name}  {a}  {b}" for name, (a, b) in zip(names, signs, strict=True)]
    head = "6\n5_o_Clock_Shadow Young \n"
    (folder / "list_attr_celeba.txt").write_text(head + "\n".join(lines) + "\n")
    parts = [f"{name} {part}" for name, part in zip(names, "000122", strict=True)]
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return None, images[:, 70:134, 50:114], (signs + 1) // 2


def digits(folder):
    images = RNG.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    labels = (np.arange(20) % 10).astype(np.uint8)
    for name, rows in (("train", slice(0, 14)), ("t10k", slice(14, 20))):
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(images[rows]))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(labels[rows]))
    return None, images, labels[:, None]


def svhn(folder):
    images = RNG.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(20) % 10
    for name, rows in (("train", slice(0, 14)), ("test", slice(14, 20))):
        coded = np.where(labels[rows] == 0, 10, labels[rows]).astype(np.uint8)
        content = mat(X=images[rows].transpose(1, 2, 3, 0), y=coded[:, None])
        (folder / f"{name}_32x32.mat").write_bytes(content)
    return None, images, labels[:, None]


WRITERS = {
    "dsprites": dsprites, "3dshapes": shapes3d, "mpi3d": mpi3d, "cars3d": cars3d,
    "smallnorb": smallnorb, "3dchairs": chairs3d, "3dfaces": faces3d, "celeba": celeba,
    "mnist": digits, "fashion-mnist": digits, "svhn": svhn,
}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(place, monkeypatch):
    """Writes the small files of a data set, and gives what they hold."""

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


def test_every_published_set_is_data_and_has_a_writer_here():
    assert set(SETS) == set(WRITERS)
    assert SETS.items() <= members(Data).items()
    assert all(issubclass(cls, FileSet) for cls in SETS.values())


@pytest.mark.parametrize("kind", SETS)
def test_what_the_files_hold_is_read(small, kind):
    cls, images, factors = small(kind)
    world = cls(part="all").load(CPU)
    assert world.size == len(images)
    expected = np.moveaxis(images, -1, 1) if images.ndim == 4 else images[:, None]
    tolerance = 0.02 if kind == "celeba" else 1e-6  # JPEG
    np.testing.assert_allclose(everything(world), expected / 255, atol=tolerance)
    assert world.factors(torch.arange(world.size)).tolist() == factors.tolist()
    # A second time, from what was unpacked.
    assert torch.equal(everything(cls(part="all").load(CPU)), everything(world))


@pytest.mark.parametrize("kind", SETS)
def test_every_lattice_enumerates_its_set(kind):
    about = SETS[kind].ABOUT
    assert about.lattice is None or about.lattice.size == about.count
    if about.lattice is not None:
        index = torch.randint(about.count, (1000,))
        assert torch.equal(about.lattice.index(about.lattice.factors(index)), index)


@pytest.mark.parametrize("kind", SETS)
def test_parts_are_disjoint_and_together_all(small, kind):
    cls, images, _ = small(kind)
    names = ("train", "test") if kind in ("smallnorb", "mnist", "fashion-mnist", "svhn") else (
        "train", "validation", "test")  # fmt: skip
    found = torch.cat([everything(cls(part=name).load(CPU)) for name in names]).flatten(1)
    whole = everything(cls(part="all").load(CPU)).flatten(1)
    assert len(found) == len(images)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, whole.tolist()))


@pytest.mark.parametrize("kind", SETS)
def test_a_spec_survives_json_and_the_command_line(kind):
    made = SETS[kind]()
    assert from_json(SETS[kind], to_json(made)) == made
    assert runs_from([f"data={kind}"])[0].data == made


@pytest.mark.parametrize("kind", SETS)
def test_a_set_that_is_not_there_says_how_to_get_it(kind):
    with pytest.raises(ValueError, match=f"`unweave data get {kind}`"):
        SETS[kind]().load(CPU)


HARM = {
    "empty": lambda content: b"",
    "nonsense": lambda content: b"nonsense" * 40,
    "cut": lambda content: content[: len(content) // 3],
    "pickled": lambda content: pickle.dumps({"a": 1}),
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("kind", SETS)
def test_a_damaged_file_is_named(small, kind, harm):
    cls, _, _ = small(kind)
    for source in cls(part="all").sources:
        path = cls().folder / source.name
        if not path.exists() or source.name == "list_eval_partition.txt":
            continue
        whole = path.read_bytes()
        path.write_bytes(HARM[harm](whole))
        if harm == "cut" and path.suffix == ".txt":
            path.write_bytes(whole[:-1])  # a table that ends in the middle of a row
            path.write_text(path.read_text().rsplit(maxsplit=1)[0])
        with pytest.raises(ValueError, match=path.name):
            cls(part="all").load(CPU)
        path.write_bytes(whole)
    assert cls(part="all").load(CPU).size


def test_another_number_of_observations_is_refused(small, monkeypatch):
    cls, _, _ = small("mpi3d")
    monkeypatch.setattr(cls, "ABOUT", dataclasses.replace(cls.ABOUT, count=10))
    with pytest.raises(ValueError, match="expected 10 observations in the files of mpi3d, got 12"):
        cls().load(CPU)


def test_a_table_that_does_not_know_a_picture_is_refused(small):
    cls, _, _ = small("celeba")
    path = cls().folder / "list_eval_partition.txt"
    path.write_text(path.read_text().replace("000004.jpg 1\n", ""))
    with pytest.raises(ValueError, match=r"to which part 000004\.jpg belongs"):
        cls(part="train").load(CPU)


def test_names_in_archives_are_never_places(small, place):
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


def test_a_picture_that_is_a_bomb_is_named(small, monkeypatch):
    cls, _, _ = small("celeba")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"000001\.jpg.*ordinary size|ordinary size.*000001\.jpg"):
        cls().load(CPU)


def test_a_member_that_is_too_large_is_not_read(small, monkeypatch):
    monkeypatch.setattr("unweave.data.formats._LARGEST", 100)
    for kind, name in (("celeba", "img_align"), ("3dchairs", "rendered"), ("cars3d", "nips2015")):
        cls, _, _ = small(kind)
        with pytest.raises(ValueError, match=rf"{name}.* in it has .* bytes"):
            cls().load(CPU)


def test_a_header_that_claims_to_be_huge_is_not_believed(small):
    cls, _, _ = small("mnist")
    head = bytes([0, 0, 8, 3]) + np.array([2**31, 2**20, 28], ">u4").tobytes()
    (cls().folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head))
    with pytest.raises(ValueError, match=r"train-images.*its shape is"):
        cls().load(CPU)
    cls, _, _ = small("smallnorb")
    head = np.array([0x1E3D4C55, 4, 2**30, 2, 96, 96], "<i4").tobytes()
    (cls().folder / f"{sets._NORB[0]}-dat.mat.gz").write_bytes(gzip.compress(head))
    with pytest.raises(ValueError, match="its shape is"):
        cls().load(CPU)
