"""Image files of more than 8 bits, of many channels and of many pages, as they are read."""

import dataclasses
import sys
import zlib

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from byte_images import BYTES, everything
from datasets import CPU
from unweave.catalogue.preview import preview_sheet
from unweave.data import Folder, StreamedDataset
from unweave.data.files.images import page_axes
from unweave.data.sources import from_path

rng = np.random.default_rng(0)
CELLS = rng.integers(200, 3000, (6, 20, 24)).astype(np.uint16)


def original(dataset):
    """All observations in the user's units."""
    return dataset.schema.scaling.invert(everything(dataset).numpy())


def unscaled(folder, **fields):
    return everything(Folder(folder, scale="none", **fields).load(CPU)).numpy()


def test_a_page_that_cannot_be_unpacked_is_named(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", CELLS.astype(np.uint32), compression="zlib")
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content.replace(zlib.compress(b"")[:2], b"\xff\xff"))
    with pytest.raises(ValueError, match=r"a\.tif.*Repair or remove"):
        Folder(tmp_path / "a.tif", axes="observations").load(CPU)


def test_nothing_that_tifffile_logs_of_a_damaged_file_is_printed(unweave, tmp_path, caplog):
    """The type of the second tag is none, and the text of a description would reach terminals."""
    tifffile.imwrite(tmp_path / "a.tif", CELLS[0].astype(np.uint32), description="\x1b[31m")
    content = bytearray((tmp_path / "a.tif").read_bytes())
    start = int.from_bytes(content[4:8], "little") + 2
    for tag in range(1, 12):
        content[start + 12 * tag + 2] = 99
    (tmp_path / "a.tif").write_bytes(content)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert len(file.pages) == 1
    assert caplog.records
    caplog.clear()
    code, _, err = unweave("data", "info", tmp_path / "a.tif")
    assert (code, err.count("error: "), caplog.records) == (2, 1, [])


@pytest.mark.parametrize("extension", ["png", "tif", "pgm"])
def test_sixteen_bits_are_kept(tmp_path, extension):
    for i, cell in enumerate(CELLS):
        Image.fromarray(cell).save(tmp_path / f"{i}.{extension}")
    dataset = Folder(tmp_path).load(CPU)
    assert (dataset.shape, dataset.bounded) == ((1, 20, 24), True)
    assert dataset.schema.scaling.method == "percentile"
    assert (everything(dataset).min(), everything(dataset).max()) == (0, 1)
    assert len(everything(dataset).unique()) > 0.99 * len(np.unique(CELLS))
    assert any("uint16 from 200 to 2999, scaled by percentiles" in n for n in dataset.notes)
    np.testing.assert_array_equal(unscaled(tmp_path)[:, 0], CELLS)
    preview_sheet(dataset)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "uint32", "int16"])
def test_other_numbers_are_kept(tmp_path, kind):
    values = (CELLS[0].astype(float) - (1000 if kind[0] in "if" else 0)).astype(kind)
    tifffile.imwrite(tmp_path / "a.tif", values)
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.schema.scaling.method == "percentile"
    np.testing.assert_array_equal(unscaled(tmp_path)[0, 0], values)


def test_floats_in_the_unit_interval_are_unchanged(tmp_path):
    values = rng.random((20, 24)).astype(np.float32)
    Image.fromarray(values).save(tmp_path / "a.tif")
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.schema.scaling.method == "none"
    np.testing.assert_array_equal(everything(dataset)[0, 0], values)


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_deep_images_are_resized_at_full_precision(tmp_path, fit):
    """A board of two grey levels is averaged; 16 bits give what floats give, rounded."""
    board = np.where(np.indices((8, 16)).sum(0) % 2, 1003, 3000)
    for name, kind in (("a", np.uint16), ("b", np.float32)):
        (tmp_path / name).mkdir()
        Image.fromarray(board.astype(kind)).save(tmp_path / name / "x.tif")
    fields = {"size": 4, "fit": fit}
    deep, floats = (unscaled(tmp_path / name, **fields)[0, 0] for name in "ab")
    assert np.abs(deep - floats).max() <= 0.5
    inner = floats[1:3] if fit == "pad" else floats
    assert np.abs(inner - board.mean()).max() < 250
    if fit == "pad":
        assert set(floats[[0, 3]].flat) == {1003}  # not 0, which would change the percentiles


@pytest.mark.parametrize("channels", [2, 3, 5, 13])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32"])
def test_pages_of_any_number_of_channels(tmp_path, channels, planar, kind):
    values = (CELLS[0] % 200 + 30 * np.arange(channels)[:, None, None] % 256).astype(kind)
    stored = np.moveaxis(values, 0, -1) if planar == "contig" else values
    colours = "rgb" if channels == 3 else "minisblack"
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric=colours, planarconfig=planar)
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.shape == (channels, 20, 24)
    assert len(dataset.schema.scaling.unit) == (1 if kind == "uint8" else channels)
    np.testing.assert_array_equal(unscaled(tmp_path)[0], values)
    preview_sheet(dataset)


def test_a_transparent_or_palette_tiff_is_an_ordinary_picture(tmp_path):
    colour = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    for i, mode in enumerate(("P", "LA", "RGBA", "CMYK", "1")):
        colour.convert(mode).save(tmp_path / f"{i}.tif")
    assert Folder(tmp_path).load(CPU).shape == (3, 8, 8)


IMAGEJ = "ImageJ=1.54f\nimages={}\n"


def stack(path, pages, description=None):
    """Write pages as Pillow does, with a description in the first."""
    images = [Image.fromarray(page) for page in pages]
    tags = {} if description is None else {270: description}
    images[0].save(path, save_all=True, append_images=images[1:], tiffinfo=tags)


class TestStacks:
    @pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
    def test_channels_of_imagej_are_channels(self, tmp_path, kind):
        pages = (CELLS % 251).astype(kind)
        stack(tmp_path / "a.tif", pages[:3], IMAGEJ.format(3) + "channels=3\nhyperstack=true\n")
        stack(tmp_path / "b.tif", pages[3:], IMAGEJ.format(3) + "channels=3\nhyperstack=true\n")
        dataset = Folder(tmp_path).load(CPU)
        assert (dataset.size, dataset.shape) == (2, (3, 20, 24))
        assert list(dataset.row_names) == ["a.tif", "b.tif"]
        note = "2 files of 3 pages: according to their metadata the pages are 3 channels"
        assert note in dataset.notes
        np.testing.assert_array_equal(unscaled(tmp_path), pages.reshape(2, 3, 20, 24))

    @pytest.mark.parametrize("metadata", ["imagej", "ome", "tifffile"])
    @pytest.mark.parametrize("axes", ["TCYX", "ZCYX"])
    def test_frames_and_slices_are_observations(self, tmp_path, metadata, axes):
        pages = CELLS.reshape(3, 2, 20, 24)
        options = {} if metadata == "tifffile" else {metadata: True}
        name = "a.ome.tif" if metadata == "ome" else "a.tif"
        fields = {"axes": axes}
        black = "minisblack"
        tifffile.imwrite(tmp_path / name, pages, metadata=fields, photometric=black, **options)
        dataset = Folder(tmp_path).load(CPU)
        assert list(dataset.row_names) == [f"{name}#1", f"{name}#2", f"{name}#3"]
        np.testing.assert_array_equal(unscaled(tmp_path), pages)
        other = "frames" if axes[0] == "T" else "slices"
        assert any(f"2 channels, 3 {other} (observations)" in note for note in dataset.notes)

    def test_channels_may_vary_slower_than_frames(self, tmp_path):
        pages = CELLS.reshape(2, 3, 20, 24)
        tifffile.imwrite(tmp_path / "a.ome.tif", pages, ome=True, metadata={"axes": "CTYX"})
        np.testing.assert_array_equal(unscaled(tmp_path), np.swapaxes(pages, 0, 1))

    @pytest.mark.parametrize("description", [None, "a cell", IMAGEJ.format(6) + "slices=6\n"])
    def test_pages_of_unknown_meaning_are_asked_about(self, tmp_path, description):
        stack(tmp_path / "a.tif", CELLS, description)
        with pytest.raises(
            ValueError, match=r"a\.tif, got 6 pages.*data\.axes=channels .* data\.axes=observations"
        ):
            Folder(tmp_path).load(CPU)
        np.testing.assert_array_equal(unscaled(tmp_path, axes="channels")[0], CELLS)
        np.testing.assert_array_equal(unscaled(tmp_path, axes="observations")[:, 0], CELLS)
        notes = Folder(tmp_path, axes="observations").load(CPU).notes
        assert "1 file of 6 pages: the pages are observations (axes=observations)" in notes

    def test_one_file_is_a_dataset_of_its_pages(self, tmp_path):
        stack(tmp_path / "movie.tif", CELLS)
        Image.fromarray(CELLS[0]).save(tmp_path / "other.tif")
        spec = dataclasses.replace(from_path(tmp_path / "movie.tif"), axes="observations")
        dataset = spec.load(CPU)
        assert list(dataset.row_names) == [f"movie.tif#{page}" for page in range(1, 7)]
        np.testing.assert_allclose(original(dataset)[:, 0], CELLS, rtol=0.02)

    def test_frames_of_an_animation_are_asked_about(self, tmp_path):
        frames = [Image.fromarray(pixels) for pixels in BYTES[:3]]
        frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
        with pytest.raises(ValueError, match="3 pages or frames"):
            Folder(tmp_path).load(CPU)
        dataset = Folder(tmp_path, axes="observations", channels=1).load(CPU)
        assert list(dataset.row_names) == ["a.gif#1", "a.gif#2", "a.gif#3"]
        np.testing.assert_allclose(everything(dataset)[:, 0], BYTES[:3] / 255, atol=0.01)

    def test_labels_of_a_file_are_those_of_its_pages(self, tmp_path):
        stack(tmp_path / "a.tif", CELLS[:4])
        stack(tmp_path / "b.tif", CELLS[4:])
        (tmp_path / "factors.csv").write_text("file,plate\nb.tif,two\na.tif,one\n")
        dataset = Folder(tmp_path, axes="observations").load(CPU)
        assert dataset.factors(torch.arange(6))[:, 0].tolist() == [0, 0, 0, 0, 1, 1]
        split = Folder(tmp_path, axes="observations", split="train").load(CPU)
        assert len(split.row_names) == split.size
        assert set(split.row_names) < set(dataset.row_names)

    def test_streamed_stacks_are_those_in_memory(self, tmp_path, monkeypatch):
        monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "kept"))
        monkeypatch.setattr("unweave.data.files.folder._PAGES", 2)
        monkeypatch.setattr("unweave.data.files.folder.AT_ONCE", 3)
        (tmp_path / "in").mkdir()
        stack(tmp_path / "in" / "a.tif", CELLS[:5])
        stack(tmp_path / "in" / "b.tif", CELLS[5:])
        held, streamed = (
            Folder(tmp_path / "in", axes="observations", stream=stream).load(CPU)
            for stream in (False, True)
        )
        assert isinstance(streamed, StreamedDataset)
        assert held.schema.scaling == streamed.schema.scaling
        assert torch.equal(everything(held), everything(streamed))
        assert held.row_names == streamed.row_names

    @pytest.mark.parametrize(
        ("description", "pages"),
        [
            ("ImageJ=1\nimages=6\nchannels=4\nhyperstack=true", 6),
            ('<OME><Image><Pixels SizeC="2" SizeZ="1" SizeT="2" /></Image></OME>', 6),
            ('<Pixels SizeC="2"/><Pixels SizeC="2"/>', 2),
            ('{"shape": [6, 20, 24]}', 6),
            ('{"shape": 6, "axes": "TYX"}', 6),
            ("{nonsense", 2),
        ],
    )
    def test_contradictory_metadata_say_nothing(self, description, pages):
        assert page_axes(description, pages) is None


class TestRefused:
    def refused(self, folder, message, **fields):
        with pytest.raises(ValueError, match=message):
            Folder(folder, **fields).load(CPU)

    def test_images_of_different_depths_are_named(self, tmp_path):
        Image.fromarray(CELLS[0]).save(tmp_path / "a.tif")
        Image.fromarray(BYTES[0]).save(tmp_path / "b.png")
        self.refused(tmp_path, r"one depth, got uint16 in .*a\.tif and uint8 in .*b\.png")

    def test_images_of_different_numbers_of_channels_are_named(self, tmp_path):
        for count in (1, 3):
            tifffile.imwrite(tmp_path / f"{count}.tif", np.zeros((8, 9, count), np.uint16))
        self.refused(tmp_path, r"channels in all images, got 1 in .*1\.tif and 3 in .*3\.tif")
        self.refused(tmp_path, "same number of channels", axes="observations")

    def test_stacks_of_different_numbers_of_channels_are_named(self, tmp_path):
        stack(tmp_path / "a.tif", CELLS[:2])
        stack(tmp_path / "b.tif", CELLS[:3])
        self.refused(tmp_path, r"got 2 pages in .*a\.tif and 3 in .*b\.tif", axes="channels")

    def test_deep_images_are_not_converted_to_other_channels(self, tmp_path):
        Image.fromarray(CELLS[0]).save(tmp_path / "a.tif")
        self.refused(tmp_path, "expected channels=1, as the images have, got 3", channels=3)
        Image.fromarray(BYTES[0]).save(tmp_path / "a.tif")
        self.refused(tmp_path, r"channels of 1, 3, 4 \(grey, RGB or RGBA\).*got 2", channels=2)

    @pytest.mark.parametrize("name", ["a.png", "a.ppm"])
    def test_colours_of_sixteen_bits_that_cannot_be_read_are_named(self, tmp_path, name):
        content = {"a.png": SIXTEEN_BIT_PNG, "a.ppm": b"P6 1 1 65535 " + bytes(range(6))}[name]
        (tmp_path / name).write_bytes(content)
        self.refused(tmp_path, rf"{name} with 16 bits per colour.*data\.scale=bytes")
        assert Folder(tmp_path, scale="bytes").load(CPU).shape == (3, 1, 1)

    def test_pages_of_different_sizes_are_named(self, tmp_path):
        stack(tmp_path / "a.tif", [CELLS[0], CELLS[1, :4]])
        self.refused(tmp_path, r"a\.tif: its page 2 has another size", axes="observations")

    def test_a_stack_with_missing_pages_is_named(self, tmp_path):
        description = IMAGEJ.format(900) + "slices=900\n"
        stack(tmp_path / "a.tif", CELLS[:1], description)
        self.refused(tmp_path, r"a\.tif: it describes 900 images but lists 1")

    def test_a_bomb_is_not_decoded(self, tmp_path, monkeypatch):
        values = np.zeros((400, 400, 5), np.uint16)
        tifffile.imwrite(tmp_path / "a.tif", values, compression="zlib", planarconfig="contig")
        monkeypatch.setattr("unweave.data.files.rows.BOMB", 2**18)
        self.refused(tmp_path, r"a\.tif.*zip bomb")

    def test_frames_that_are_only_announced_are_not_listed(self, tmp_path):
        Image.fromarray(BYTES[0]).save(tmp_path / "a.png")
        whole = (tmp_path / "a.png").read_bytes()
        frames = png_chunk(b"acTL", (2**31).to_bytes(4, "big") + bytes(4))
        (tmp_path / "a.png").write_bytes(whole[:33] + frames + whole[33:])
        self.refused(tmp_path, r"a\.png.*zip bomb")

    def test_a_missing_library_is_named(self, tmp_path, monkeypatch):
        values = np.zeros((8, 9, 5), np.uint16)
        tifffile.imwrite(tmp_path / "a.tif", values, planarconfig="contig")
        monkeypatch.setitem(sys.modules, "tifffile", None)
        self.refused(tmp_path, r"a\.tif is a file of TIFF.*pip install tifffile")


def png_chunk(name, data):
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def sixteen_bit_png():
    """A PNG file of one pixel with three colours of 16 bits, which Pillow does not write."""
    header = (1).to_bytes(4, "big") * 2 + bytes([16, 2, 0, 0, 0])
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(7))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


SIXTEEN_BIT_PNG = sixteen_bit_png()
