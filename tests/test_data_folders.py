"""Folders of pictures as data, as they are read, or refused by name."""

import numpy as np
import pytest
import torch
from PIL import Image

from byte_images import BYTES, everything
from datasets import CPU
from unweave.core.spec import from_json, to_json
from unweave.data import Folder, StreamedDataset
from unweave.networks import Conv
from unweave.training.run import default_network

COLOUR = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def save(folder, name, pixels, mode=None, **options):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(path, **options)


class TestFolder:
    def test_grey_images_of_equal_size_are_unchanged(self, tmp_path):
        for i, pixels in enumerate(BYTES):
            save(tmp_path, f"{'ab'[i % 2]}/{i}.png", pixels)
        (tmp_path / "readme.txt").write_text("no picture")
        (tmp_path / ".hidden.png").write_text("no picture")
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (1, 5, 7)
        assert dataset.row_names == tuple(f"{'ab'[i % 2]}/{i}.png" for i in (0, 2, 4, 1, 3, 5))
        notes = ("6 images of 5 x 7, grey", "uint8 from 0 to 255 divided by 255")
        assert dataset.notes[1:] == notes  # the first is on the subfolders
        assert dataset.bounded
        assert dataset.lattice is None
        order = [0, 2, 4, 1, 3, 5]  # a/0, a/2, a/4, b/1, ...
        np.testing.assert_allclose(everything(dataset)[:, 0], BYTES[order] / 255, rtol=1e-6)

    def test_the_spec_survives_json(self):
        for spec in (Folder("a/b"), Folder("a", 32), Folder("a", (8, 9), 3)):
            assert from_json(Folder, to_json(spec)) == spec

    @pytest.mark.parametrize("extension", ["bmp", "gif", "jpg", "png", "ppm", "tif", "webp"])
    def test_common_formats(self, tmp_path, extension):
        save(tmp_path, f"a.{extension.upper()}", COLOUR)
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (3, 5, 7)

    def test_colours_come_channel_first(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        images = everything(Folder(tmp_path).load(CPU))
        np.testing.assert_allclose(images[0], np.moveaxis(COLOUR, -1, 0) / 255, rtol=1e-6)

    def test_mixed_sizes_become_64_by_64_and_say_so(self, tmp_path):
        save(tmp_path, "a.png", np.full((100, 200), 80, np.uint8))
        save(tmp_path, "b.png", np.full((30, 20), 80, np.uint8))
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (1, 64, 64)
        assert "2 sizes: resized to 64 x 64" in dataset.notes[1]
        assert "2 of 2 images are not square, and are cropped" in dataset.notes[2]
        torch.testing.assert_close(everything(dataset), torch.full((2, 1, 64, 64), 80 / 255))

    @pytest.mark.parametrize(
        ("sides", "size"), [((16, 20, 24), 24), ((5, 9), 16), ((30, 32), 32), ((20, 33), None)]
    )
    def test_enlarging_all_images_is_said_to_be_slower(self, tmp_path, sides, size):
        for side in sides:
            save(tmp_path, f"{side}.png", COLOUR[:1, :1].repeat(side, 0).repeat(side, 1))
        (note,) = [each for each in Folder(tmp_path).load(CPU).notes if "resized" in each]
        assert (f"and adds no detail; data.size={size} trains faster" in note) == bool(size)
        if size:
            dataset = Folder(tmp_path, size).load(CPU)
            assert not any("trains faster" in each for each in dataset.notes)
            network = default_network(Folder(tmp_path, size), dataset.shape)
            assert isinstance(network, Conv)

    def test_images_are_cropped_in_the_centre_and_averaged(self, tmp_path):
        pixels = np.zeros((8, 24), np.uint8)
        pixels[:, 8:16] = np.indices((8, 8)).sum(0) % 2 * 200  # a board in the central square
        pixels[:, :8] = 255
        save(tmp_path, "a.png", pixels)
        dataset = Folder(tmp_path, size=2).load(CPU)
        torch.testing.assert_close(
            everything(dataset), torch.full((1, 1, 2, 2), 100 / 255), atol=0.1, rtol=0
        )
        assert Folder(tmp_path, size=(4, 6)).load(CPU).shape == (1, 4, 6)

    @pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
    def test_images_of_another_aspect_ratio_are_cropped_padded_or_stretched(self, tmp_path, fit):
        """An image twice as wide as high becomes square by linear interpolation between pixels."""
        wide = np.array([[0, 32, 112, 240], [80, 112, 208, 48]], np.uint8)
        save(tmp_path, "a.png", wide)
        dataset = Folder(tmp_path, size=4, fit=fit).load(CPU)
        up = np.array([[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]])  # 2 pixels to 4, bilinear
        middle = np.array([[1, 3, 0, 0], [0, 3, 1, 0], [0, 1, 3, 0], [0, 0, 3, 1]]) / 4
        expected = {
            "crop": up @ wide @ middle.T,
            "pad": np.pad(wide, ((1, 1), (0, 0))),
            "stretch": up @ wide,
        }[fit]
        torch.testing.assert_close(everything(dataset)[0, 0] * 255, torch.tensor(expected).float())
        change = {"crop": "cropped", "pad": "padded", "stretch": "stretched"}[fit]
        assert any(f"images are not square, and are {change}" in note for note in dataset.notes)
        unchanged = Folder(tmp_path, size=(4, 8), fit=fit).load(CPU)
        assert not any("aspect" in note for note in unchanged.notes)

    def test_padding_is_black_or_transparent_and_centred(self, tmp_path):
        """A line of pixels is resized to a line that is one pixel wide, however long it is."""
        save(tmp_path, "a.png", np.full((4, 1, 3), 200, np.uint8))
        save(tmp_path, "b.png", np.full((900, 1, 3), 200, np.uint8))
        lines = everything(Folder(tmp_path, size=4, fit="pad", channels=4).load(CPU)) * 255
        expected = torch.zeros(4, 4, 4)
        expected[:3, :, 1], expected[3, :, 1] = 200, 255
        torch.testing.assert_close(lines, expected.expand(2, 4, 4, 4))
        black = everything(Folder(tmp_path, size=4, fit="pad").load(CPU)) * 255
        torch.testing.assert_close(black, expected[:3].expand(2, 3, 4, 4))

    def test_mixed_modes_become_colour_and_say_so(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        save(tmp_path, "b.png", BYTES[0])
        save(tmp_path, "c.png", COLOUR, "P")
        save(tmp_path, "d.jpg", COLOUR, "CMYK")
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (3, 5, 7)
        assert "1 of 4 images are grey" in dataset.notes[1]
        assert torch.equal(everything(dataset)[1, 0], everything(dataset)[1, 2])

    def test_the_number_of_channels_can_be_chosen(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        for channels in (1, 3, 4):
            assert Folder(tmp_path, channels=channels).load(CPU).shape == (channels, 5, 7)

    def test_transparency_is_laid_on_white_or_kept(self, tmp_path):
        pixels = np.zeros((4, 4, 4), np.uint8)
        pixels[:2, :, 3] = 255  # black above, nothing below
        save(tmp_path, "a.png", pixels)
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (3, 4, 4)
        assert "1 transparent images blended onto white" in dataset.notes[1]
        assert everything(dataset)[0, :, :2].max() == 0
        assert everything(dataset)[0, :, 2:].min() == 1
        kept = Folder(tmp_path, channels=4).load(CPU)
        assert not any("white" in note for note in kept.notes)
        assert everything(kept)[0, 3].unique().tolist() == [0, 1]

    def test_transparent_grey_stays_grey(self, tmp_path):
        save(tmp_path, "a.png", Image.new("LA", (4, 4), (0, 0)))
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (1, 4, 4)
        assert everything(dataset).min() == 1

    def test_a_palette_with_transparency_is_laid_on_white(self, tmp_path):
        image = Image.new("P", (4, 4), 0)
        image.putpalette([0, 0, 0, 255, 0, 0])
        save(tmp_path, "a.png", image, transparency=0)
        assert everything(Folder(tmp_path).load(CPU)).min() == 1

    def test_binary_images_stay_binary(self, tmp_path):
        save(tmp_path, "a.png", BYTES[0] > 100)
        images = everything(Folder(tmp_path).load(CPU))
        np.testing.assert_array_equal(images[0, 0], BYTES[0] > 100)

    def test_the_exif_orientation_is_applied(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        save(tmp_path, "a.png", COLOUR, exif=exif)
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.shape == (3, 7, 5)
        expected = np.rot90(COLOUR, -1)
        np.testing.assert_allclose(
            everything(dataset)[0], np.moveaxis(expected, -1, 0) / 255, rtol=1e-6
        )

    def test_factors_come_from_a_csv_file(self, tmp_path):
        for i, pixels in enumerate(BYTES[:4]):
            save(tmp_path, f"{i}.png", pixels)
        rows = ["3.png,red,10", "0.png,blue,9.5", "1.png,red,9.5", "2.png,blue,10", "9.png,red,1"]
        (tmp_path / "factors.csv").write_text("\n".join(["file,colour,size", *rows]))
        dataset = Folder(tmp_path).load(CPU)
        assert dataset.factor_names == ("colour", "size")
        codes = dataset.factors(torch.arange(4)).tolist()
        assert codes == [[0, 0], [1, 0], [0, 1], [1, 1]]  # numbers by their size, not as text
        assert any("1 row of factors.csv names no image" in note for note in dataset.notes)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "a line of names and lines of values"),
            ("file,colour\n7.png,red", r"a column of .* that names images, such as 0\.png"),
            ("file,colour\n0.png,red\n1.png", "line 3: expected 2 values"),
            ("0.png,red\n1.png,blue", "line 1: expected the names of the columns"),
            ("file\n0.png\n1.png", "the column file alone"),
            ("file,a,a\n0.png,1,1\n1.png,1,2", "distinct names in .*, got a more than once"),
            ("file,a\n0.png,0.5\n1.png,inf", "finite labels of a, got infinity, first in row 1"),
            ("file,a\n0.png,1\n\n1.png,2\n0.png,2", r"line 5: 0\.png is listed twice"),
            ('file,colour\n0.png,"red\n1.png,blue', "CSV"),
        ],
    )
    def test_bad_factors_are_named(self, tmp_path, text, message):
        save(tmp_path, "0.png", BYTES[0])
        save(tmp_path, "1.png", BYTES[1])
        (tmp_path / "about.csv").write_text(text)
        with pytest.raises(ValueError, match=message):
            Folder(tmp_path, factors=tmp_path / "about.csv").load(CPU)

    def test_a_large_folder_is_decoded_once_to_a_file(self, tmp_path, monkeypatch):
        monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "kept"))
        for i, pixels in enumerate(BYTES):
            save(tmp_path / "pictures", f"{i}.png", pixels)
        held = Folder(tmp_path / "pictures", split="train").load(CPU)
        spec = Folder(tmp_path / "pictures", split="train", stream=True)
        dataset = spec.load(CPU)
        assert isinstance(dataset, StreamedDataset)
        assert torch.equal(everything(dataset), everything(held))
        with monkeypatch.context() as without:
            without.setattr("unweave.data.files.folder.read_pages", pytest.fail)
            assert torch.equal(everything(spec.load(CPU)), everything(held))
        padded, cut = (
            Folder(tmp_path / "pictures", size=8, fit=fit, stream=True).load(CPU)
            for fit in ("pad", "crop")
        )
        assert not torch.equal(everything(padded), everything(cut))
        for i, pixels in enumerate(BYTES):
            save(tmp_path / "pictures", f"{i}.png", 255 - pixels)
        assert spec.load(CPU).fingerprint != dataset.fingerprint

    def test_bad_folders_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="check the path"):
            Folder(tmp_path / "none").load(CPU)
        with pytest.raises(ValueError, match="known extensions"):
            Folder(tmp_path).load(CPU)

    @pytest.mark.parametrize("content", [b"", b"nonsense"])
    def test_an_unreadable_image_is_named(self, tmp_path, content):
        save(tmp_path, "a.png", COLOUR)
        (tmp_path / "bad.jpg").write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.jpg.*Repair or remove"):
            Folder(tmp_path).load(CPU)

    def test_a_truncated_image_is_named(self, tmp_path):
        save(tmp_path, "bad.png", np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))
        whole = (tmp_path / "bad.png").read_bytes()
        (tmp_path / "bad.png").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=r"bad\.png.*Repair or remove"):
            Folder(tmp_path).load(CPU)

    def test_all_unreadable_images_are_named_at_once(self, tmp_path):
        """Whether their headers or only their pixels are broken; the first few of many."""
        noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
        for number in range(8):
            save(tmp_path, f"{number}.png", noise)
        whole = (tmp_path / "0.png").read_bytes()
        for name, content in {"2": b"nonsense", "5": whole[: len(whole) // 2], "6": b""}.items():
            (tmp_path / f"{name}.png").write_bytes(content)
        with pytest.raises(
            ValueError, match=r"3 of 8 files .*, \S+/2\.png, \S+/5\.png, \S+/6\.png"
        ):
            Folder(tmp_path).load(CPU)
        for number in range(7):
            (tmp_path / f"{number}.png").write_bytes(b"nonsense")
        with pytest.raises(ValueError, match=r"7 of 8 files .*/4\.png, \.\.\.: repair or remove"):
            Folder(tmp_path).load(CPU)

    def test_resized_images_are_noted(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        height, width = COLOUR.shape[:2]
        note = f"the images have {height} x {width} pixels: resized to 5 x 5"
        assert note in Folder(tmp_path, size=5).load(CPU).notes
        same = Folder(tmp_path, size=(height, width)).load(CPU).notes
        assert not any("resized" in each for each in same)

    @pytest.mark.parametrize("limit", [60, 20])  # Pillow warns above it and raises above twice it
    def test_a_decompression_bomb_is_named(self, tmp_path, monkeypatch, limit):
        save(tmp_path, "bomb.png", np.zeros((10, 10), np.uint8))
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"bomb\.png.*Scale it down"):
            Folder(tmp_path).load(CPU)

    @pytest.mark.parametrize("fields", [{"size": 0}, {"size": (3, 0)}, {"channels": 0}], ids=str)
    def test_invalid_fields_are_refused(self, fields):
        with pytest.raises(ValueError, match=next(iter(fields))):
            Folder("a", **fields)
