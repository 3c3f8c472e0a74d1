"""Small files in the formats of the published datasets, and their content."""

import gzip
import io
import tarfile
import zipfile

import h5py
import numpy as np
import scipy.io
from PIL import Image

from unweave.data.lattice import Factor, Lattice
from unweave.data.published import datasets

RNG = np.random.default_rng(0)


def smooth(*shape):
    """Draw images (..., H, W, 3) of one colour each, which survive compression and scaling."""
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


# Each function writes the files of a dataset into a folder and returns its lattice, if it has one,
# and the images (N, H, W) or (N, H, W, 3) and factors (N, K) to expect.


def dsprites(folder):
    images = RNG.integers(0, 2, (12, 64, 64), dtype=np.uint8)
    pickled = np.array({"a": 1}, dtype=object)
    (source,) = datasets.DSprites.ABOUT.sources
    np.savez_compressed(folder / source.name, metadata=pickled, imgs=images)
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
    cars = smooth(3, 4, 2, 128, 128, 3)  # car, azimuth, elevation
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
    for half, name in enumerate(datasets._NORB):
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
    images[:, :35] = images[:, -35:] = 0  # outside the crop of 148
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
    splits = [f"{name} {split}" for name, split in zip(names, "000122", strict=True)]
    (folder / "list_eval_partition.txt").write_text("\n".join(splits) + "\n")
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
