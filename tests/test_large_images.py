"""Folders of large images: memory and disk are bounded by bytes, not by the number of images."""

import io
import shutil
import struct
import threading
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from PIL import Image, ImageFile, ImageOps

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


def chunk(kind, content=b""):
    check = zlib.crc32(kind + content)
    return len(content).to_bytes(4, "big") + kind + content + check.to_bytes(4, "big")


@pytest.fixture
def undecoded(monkeypatch):
    """Let every image fail when it is decoded."""
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("decoded"))


ROTATED = Image.Exif()
ROTATED[0x0112] = 6


@pytest.mark.parametrize(
    ("extension", "options"),
    [("png", {}), ("png", {"save_all": True, "append_images": [Image.new("L", (24, 20), 9)]}),
     ("jpg", {}), ("webp", {}), ("tif", {}), ("bmp", {}), ("ppm", {}), ("gif", {})],
)  # fmt: skip
def test_nothing_is_decoded_to_read_headers(tmp_path, undecoded, extension, options):
    file = tmp_path / f"a.{extension}"
    rotates = extension in ("png", "jpg", "webp", "tif")
    Image.fromarray(PIXELS[0]).save(file, **options, **({"exif": ROTATED} if rotates else {}))
    assert images.read_header(file).size == ((24, 20) if rotates else (20, 24))


@pytest.mark.parametrize("compression", ["raw", "tiff_adobe_deflate"])
@pytest.mark.parametrize("extension", ["tif", "png"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations_are_those_of_the_standard(tmp_path, extension, orientation, compression):
    """TIFF 6.0, p. 36, and Exif: where the rows and columns of the file are in the image."""
    exif, rows = Image.Exif(), PIXELS[0]
    exif[0x0112] = orientation
    Image.fromarray(rows).save(tmp_path / f"a.{extension}", exif=exif, compression=compression)
    expected = rows.T if orientation > 4 else rows
    down, right = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    expected = expected[:: -1 if down else 1, :: -1 if right else 1]
    found = everything(Folder(tmp_path, scale="none").load(CPU)).numpy()
    np.testing.assert_array_equal(found[0, 0], expected)


def chunks(*parts):
    """A PNG file of 2 x 3 pixels; `...` among the chunks stands for its pixels."""
    pixels = chunk(b"IDAT", zlib.compress(bytes(9)))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 3, 8, 0, 0, 0, 0))
    inner = b"".join(pixels if each is ... else chunk(*each) for each in parts)
    return b"\x89PNG\r\n\x1a\n" + head + inner + chunk(b"IEND")


EXIF = ROTATED.tobytes()
UPRIGHT = EXIF[6:].replace(b"\x06\0\0\0", b"\x01\0\0\0").replace(b"\0\x06", b"\0\x01")
RAW = f"Raw profile type exif\0\nexif\n{len(EXIF)}\n{EXIF.hex()}".encode()
PACKED = RAW.partition(b"\0")[0] + b"\0\0" + zlib.compress(RAW.partition(b"\0")[2])
XMP = b'XML:com.adobe.xmp\0\0\0\0\0<rdf tiff:Orientation="6"/>'
ANIMATED = (b"acTL", struct.pack(">II", 2, 0))
FRAME = (b"fcTL", struct.pack(">IIIIIHHBB", 0, 2, 3, 0, 0, 1, 9, 0, 0))
METADATA = st.lists(
    st.sampled_from(
        [(b"eXIf", EXIF[6:]), (b"eXIf", UPRIGHT), (b"zTXt", PACKED), (b"tEXt", RAW),
         (b"tEXt", b"Title\0x"), (b"iTXt", XMP), (b"tIME", bytes(7)), (b"prVt", b"x")]
    ),
    max_size=3,
)  # fmt: skip


@given(METADATA, METADATA, METADATA, st.booleans())
@example([], [(b"eXIf", EXIF[6:])], [], False)
@example([], [], [(b"eXIf", EXIF[6:])], True)
@settings(max_examples=100, deadline=None)
def test_the_orientation_is_that_of_a_decoded_png(before, after, later, animated):
    frames = [FRAME, *later] if animated else []
    content = chunks(*[ANIMATED] * animated, *before, ..., *after, *frames)
    with Image.open(io.BytesIO(content)) as image:
        expected = ImageOps.exif_transpose(image).size
    with Image.open(io.BytesIO(content)) as image:
        assert images._header(image).size == expected[::-1]


def test_metadata_with_a_wrong_checksum_are_read(tmp_path):
    content = chunks(..., (b"eXIf", EXIF[6:]))
    start = content.index(b"eXIf") + 4 + len(EXIF[6:])
    (tmp_path / "a.png").write_bytes(content[:start] + bytes(4) + content[start + 4 :])
    assert images.read_header(tmp_path / "a.png").size == (2, 3)


def test_a_chunk_that_claims_to_be_huge_takes_no_memory(tmp_path):
    """Metadata of a PNG of 100 bytes were given the two gigabytes that its header claims."""
    content = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(content, "PNG")
    start = content.getvalue().index(b"IEND") - 4
    claimed = struct.pack(">I", 2**31 - 16) + b"tEXtabc"
    (tmp_path / "x.png").write_bytes(content.getvalue()[:start] + claimed)
    tracemalloc.start()
    try:
        header = images.read_header(tmp_path / "x.png")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert header.size == PIXELS[0].shape


@pytest.mark.parametrize("broken", [False, True])
def test_large_images_are_refused_before_any_is_decoded(tmp_path, undecoded, unweave, broken):
    blank = io.BytesIO()
    Image.new("L", (9000, 9000)).save(blank, "png")
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(blank.getvalue())
    if broken:
        (tmp_path / "1.png").write_bytes(b"")
    code, _, err = unweave("data", "info", tmp_path)
    assert (code, "1.png" in err, "zip bomb" in err) == (2, broken, not broken)


def test_images_that_do_not_fit_on_the_disk_are_refused_before_they_are_decoded(
    folder, monkeypatch
):
    usage = shutil.disk_usage(folder)._replace(free=PIXELS.nbytes - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ValueError, match=r"3,360 bytes for 3,359 that are free.*data\.size=64"):
        Folder(folder, stream=True).load(CPU)
