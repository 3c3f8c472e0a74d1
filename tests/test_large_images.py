"""Folders of large images: memory and disk are bounded by bytes, not by the number of images."""

import shutil
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from byte_images import everything
from datasets import CPU
from unweave.data import Folder
from unweave.data.files import folder as folders, images

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 20, 24), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "kept"))
    (tmp_path / "in").mkdir()
    for number, each in enumerate(PIXELS):
        Image.fromarray(each).save(tmp_path / "in" / f"{number}.png")
    return tmp_path / "in"


@pytest.mark.parametrize(("size", "largest"), [(3 * 480, 3), (480, 1), (1, 1), (2**20, 7)])
def test_blocks_are_limited_by_their_bytes(folder, monkeypatch, size, largest):
    def write(file, shape, blocks):
        own = list(blocks)
        sizes.extend(map(len, own))
        return write_npy(file, shape, own)

    sizes, write_npy = [], folders.write_npy
    monkeypatch.setattr(folders, "_BYTES", size)
    monkeypatch.setattr(folders, "write_npy", write)
    dataset = Folder(folder, stream=True).load(CPU)
    assert (max(sizes), sum(sizes)) == (largest, 7)
    assert torch.equal(everything(dataset), everything(Folder(folder).load(CPU)))


@pytest.mark.parametrize("most", [1, 2])
def test_threads_decode_no_more_than_fits_at_once(folder, monkeypatch, most):
    """Of two images that fit, both are decoded at once; one that does not fit is decoded alone."""

    def decode(*arguments):
        with lock:
            decoding.append(None)
            seen.append(len(decoding))
        together.wait()
        with lock:
            decoding.pop()
        return page(*arguments)

    lock, decoding, seen, page = threading.Lock(), [], [], images._pillow_page
    together = threading.Barrier(most, timeout=60)
    monkeypatch.setattr(images, "_pillow_page", decode)
    monkeypatch.setattr(images, "DECODED_AT_ONCE", most * 4 * 480 - (most == 1))
    if most == 2:
        (folder / "6.png").unlink()
    Folder(folder).load(CPU)
    assert max(seen) == most


def test_a_lack_of_memory_is_not_a_broken_image(folder, monkeypatch):
    def decode(*_):
        raise MemoryError

    monkeypatch.setattr(images, "_pillow_page", decode)
    with pytest.raises(MemoryError):
        Folder(folder).load(CPU)


def test_an_image_that_can_be_read_the_second_time_is_named(folder, monkeypatch):
    def decode(*arguments):
        if not failed:
            failed.append(True)
            raise OSError("stale")
        return page(*arguments)

    failed, page = [], images._pillow_page
    monkeypatch.setattr(images, "_pillow_page", decode)
    with pytest.raises(ValueError, match=r"readable image, got .*\.png: stale"):
        Folder(folder).load(CPU)


def test_images_that_together_unpack_to_much_more_than_their_files_are_refused(tmp_path):
    for number in range(4):
        Image.new("RGB", (1300, 1300)).save(tmp_path / f"{number}.png")
    with pytest.raises(ValueError, match=r"zip bomb.*resize them with data\.size=64"):
        Folder(tmp_path).load(CPU)
    assert Folder(tmp_path, size=64).load(CPU).shape == (3, 64, 64)


def test_images_that_do_not_fit_on_the_disk_are_refused_before_they_are_decoded(
    folder, monkeypatch
):
    usage = shutil.disk_usage(folder)._replace(free=PIXELS.nbytes - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ValueError, match=r"3,360 bytes for 3,359 that are free.*data\.size=64"):
        Folder(folder, stream=True).load(CPU)
