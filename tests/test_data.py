"""Laws of the lattice, and every way data can come in or be refused."""

from __future__ import annotations

import gc
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from unweave.data import (
    Arrays,
    Data,
    Factor,
    Folder,
    InMemory,
    Lattice,
    Shapes2D,
    from_array,
    principal_variances,
)
from unweave.data.world import Stored
from unweave.noise import Noise
from unweave.spec import digest, from_json, members, to_json

CPU = torch.device("cpu")
BYTES = np.random.default_rng(0).integers(0, 256, (6, 5, 7), dtype=np.uint8)
BYTES[0, 0, 0], BYTES[0, 0, 1] = 0, 255

LATTICES = [
    Lattice((Factor("a", 1),)),
    Lattice((Factor("a", 3), Factor("b", 1), Factor("c", 5))),
    Lattice((Factor("a", 2), Factor("b", 7), Factor("c", 4), Factor("d", 3))),
]


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: str(lattice.sizes))
class TestLattice:
    def test_index_and_factors_are_inverse(self, lattice):
        index = torch.arange(lattice.size)
        factors = lattice.factors(index)
        assert factors.shape == (lattice.size, len(lattice.sizes))
        assert torch.equal(lattice.index(factors), index)
        assert len(factors.unique(dim=0)) == lattice.size

    def test_the_order_is_that_of_numpy(self, lattice):
        index = np.arange(lattice.size)
        expected = np.stack(np.unravel_index(index, lattice.sizes), -1)
        assert lattice.factors(torch.tensor(index)).tolist() == expected.tolist()

    def test_any_leading_shape(self, lattice):
        index = torch.arange(lattice.size).expand(2, 3, -1)
        factors = lattice.factors(index)
        assert factors.shape == (2, 3, lattice.size, len(lattice.sizes))
        assert torch.equal(lattice.index(factors), index)

    def test_draws_lie_on_the_lattice_and_are_a_function_of_the_noise(self, lattice):
        factors = lattice.draw(Noise(3), 500)
        assert factors.shape == (500, len(lattice.sizes))
        assert torch.equal(factors, lattice.draw(Noise(3), 500))
        assert torch.equal(lattice.factors(lattice.index(factors)), factors)

    def test_fixing_a_factor_leaves_the_others_as_they_are(self, lattice):
        free = lattice.draw(Noise(4), 100)
        for k, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
            held = lattice.draw(Noise(4), 100, {name: size - 1})
            others = [j for j in range(len(lattice.sizes)) if j != k]
            assert (held[:, k] == size - 1).all()
            assert torch.equal(held[:, others], free[:, others])


def test_draws_are_uniform_and_independent():
    lattice = Lattice((Factor("a", 3), Factor("b", 4)))
    counts = lattice.index(lattice.draw(Noise(0), 24_000)).bincount(minlength=12)
    expected = 2000
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 31.3  # 0.999 quantile at 11 degrees of freedom


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Factor("", 3), "name"),
        (lambda: Factor("a", 0), "at least 1 class"),
        (lambda: Factor("a", 2, "circular"), "cyclic"),
        (lambda: Factor("a", 2, values=(1.0,)), "expected 2 values"),
        (lambda: Factor("a", 2, labels=("p", "q", "r")), "expected 2 labels"),
        (lambda: Lattice(()), "at least one factor"),
        (lambda: Lattice((Factor("a", 2), Factor("a", 2))), "distinct names"),
        (lambda: Lattice((Factor("a", 2**31), Factor("b", 2**31))), "fewer than 2\\^62"),
        (lambda: LATTICES[1].index(torch.tensor([[0, 0]])), "one column for each factor"),
        (lambda: LATTICES[1].index(torch.tensor(0)), "one column for each factor"),
        (lambda: LATTICES[1].index(torch.tensor([[3, 0, 0]])), "'a' between 0 and 2"),
        (lambda: LATTICES[1].index(torch.tensor([[0.0, 0, 0]])), "integers"),
        (lambda: LATTICES[1].factors(torch.tensor([15])), "between 0 and 14"),
        (lambda: LATTICES[1].factors(torch.tensor([-1])), "between 0 and 14"),
        (lambda: LATTICES[1].draw(Noise(0), 2, {"d": 0}), "not a factor"),
        (lambda: LATTICES[1].draw(Noise(0), 2, {"c": 5}), "between 0 and 4"),
    ],
)
def test_a_lattice_refuses_what_is_not_on_it(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_union_names_its_members():
    assert members(Data) == {
        "shapes2d": Shapes2D,
        "arrays": Arrays,
        "folder": Folder,
        "memory": InMemory,
    }


def load(images, **extra):
    return from_array(images, **extra)[1]


def everything(world):
    return world.images(torch.arange(world.size))


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((6, 5, 7), (1, 5, 7)),
        ((6, 5, 7, 1), (1, 5, 7)),
        ((6, 5, 7, 3), (3, 5, 7)),
        ((6, 5, 7, 4), (4, 5, 7)),
        ((6, 1, 5, 7), (1, 5, 7)),
        ((6, 3, 5, 7), (3, 5, 7)),
        ((6, 1, 4, 4), (1, 4, 4)),  # two readings: the square picture wins
        ((6, 4, 4, 1), (1, 4, 4)),
        ((6, 3, 3, 3), (3, 3, 3)),  # two equally square readings: channels last
        ((6, 9), (9,)),
        ((6, 1), (1,)),
    ],
    ids=str,
)
def test_axes_are_understood(given, shape):
    images = np.arange(np.prod(given), dtype=np.float32).reshape(given)
    world = load(images)
    assert world.size == 6
    assert world.shape == shape
    last = len(given) == 4 and shape == (given[3], *given[1:3])
    expected = np.moveaxis(images, -1, 1) if last else images
    np.testing.assert_array_equal(everything(world), expected.reshape(6, *shape))
    two_ways = len(given) == 4 and given[1] in (1, 3, 4) and given[3] in (1, 3, 4)
    assert any("two ways" in note for note in world.notes) == two_ways


def test_bytes_stay_bytes_and_become_floats_in_the_unit_interval():
    world = load(BYTES)
    assert world.data.dtype == torch.uint8
    images = everything(world)
    assert images.dtype == torch.float32
    assert world.bounded
    assert images.min() == 0
    assert images.max() == 1
    np.testing.assert_allclose(images[:, 0], BYTES / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("images", "expected", "bounded"),
    [
        (BYTES > 100, BYTES > 100, True),
        ((BYTES > 100).astype(np.uint8), BYTES > 100, True),
        ((BYTES > 100).astype(np.int64), BYTES > 100, True),
        (BYTES.astype(np.int64), BYTES / 255, True),
        (BYTES.astype(np.uint16) * 257, BYTES / 255, True),
        (BYTES.astype(">u2") * 257, BYTES / 255, True),
        (BYTES / 255, BYTES / 255, True),
        ((BYTES / 255).astype(np.float16), (BYTES / 255).astype(np.float16), True),
        (BYTES.astype(">f8"), BYTES, False),
        (BYTES / 255 - 0.5, BYTES / 255 - 0.5, False),
    ],
    ids=["bool", "0-1 bytes", "0-1 int", "int", "uint16", ">u2", "float", "half", ">f8", "signed"],
)
def test_types_are_understood(images, expected, bounded):
    world = load(images)
    assert world.bounded is bounded
    assert all("Bernoulli" in note for note in world.notes) or bounded
    np.testing.assert_allclose(everything(world)[:, 0], expected, atol=1e-6)


def nan_image():
    images = np.zeros((4, 5, 5))
    images[2, 1, 1] = np.nan
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros(5), "reshape"),
        (np.zeros((2, 3, 4, 5, 6)), "reshape"),
        (np.zeros((2, 5, 6, 7)), "move the channels"),
        (np.zeros((0, 5, 5)), "at least one observation"),
        (np.zeros((3, 0)), "at least one observation"),
        (nan_image(), "observation 2"),
        (np.full((2, 4, 4), np.inf), "infinity"),
        (np.full((2, 4, 4), 1e300), "infinity"),
        (np.full((2, 4, 4), None), "object"),
        (np.full((2, 4, 4), 1j), "complex"),
        (np.full((2, 4), "a"), "astype"),
        (np.full((2, 4), -1), "from -1 to -1"),
        (np.full((2, 4), 256), "floats"),
        ([[1.0, 2.0], [3.0]], "regular array"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_observations_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        load(images)


def test_factors_are_recoded_column_by_column():
    factors = np.array([[5, 0], [9, 0], [5, 1], [7, 0], [5, 0], [9, 1]])
    world = load(BYTES, factors=factors)
    assert world.factor_names == ("factor0", "factor1")
    assert world.factor_sizes == (3, 2)
    assert world.factors(torch.arange(6))[:, 0].tolist() == [0, 2, 0, 1, 0, 2]
    assert world.factors(torch.tensor([[0, 1], [2, 3]])).shape == (2, 2, 2)
    assert world.lattice is None


def test_a_full_enumeration_in_order_is_a_lattice():
    factors = np.stack(np.unravel_index(np.arange(6), (2, 3)), -1)
    world = load(BYTES, factors=factors + 10, names=("big", "small"))
    assert world.lattice == Lattice((Factor("big", 2), Factor("small", 3)))
    assert load(BYTES, factors=factors[::-1]).lattice is None


def test_one_column_of_labels_is_one_factor_and_none_is_none():
    assert load(BYTES, factors=np.array([0, 1, 0, 1, 0, 2])).factor_sizes == (3,)
    world = load(BYTES)
    assert world.factor_names == world.factor_sizes == ()
    assert world.factors(torch.arange(4)).shape == (4, 0)


@pytest.mark.parametrize(
    ("factors", "names", "message"),
    [
        (np.zeros((5, 2), int), None, "one row for each"),
        (np.zeros((6, 2, 2), int), None, "one row for each"),
        (np.zeros((6, 0), int), None, "one row for each"),
        (np.zeros((6, 2)), None, "return_inverse"),
        (np.zeros((6, 2), int), ("a",), "2 distinct factor names"),
        (np.zeros((6, 2), int), ("a", "a"), "2 distinct factor names"),
    ],
)
def test_bad_factors_are_refused(factors, names, message):
    with pytest.raises(ValueError, match=message):
        load(BYTES, factors=factors, names=names)


def test_indices_are_checked_and_take_any_shape():
    world = load(BYTES)
    assert world.images(torch.tensor(2)).shape == (1, 5, 7)
    assert world.images(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 1, 5, 7)
    assert world.images(torch.zeros(0, dtype=torch.int64)).shape == (0, 1, 5, 7)
    for call in (world.images, world.factors):
        with pytest.raises(ValueError, match="between 0 and 5"):
            call(torch.tensor([6]))


class TestInMemory:
    def test_the_spec_identifies_the_content(self):
        spec, world = from_array(BYTES)
        assert (spec.shape, spec.dtype) == ((6, 5, 7), "uint8")
        assert spec == from_array(BYTES.copy())[0]
        assert from_json(InMemory, to_json(spec)) == spec
        assert torch.equal(everything(spec.load(CPU)), everything(world))
        different = [
            from_array(BYTES.astype(np.int64))[0],
            from_array(BYTES.reshape(6, 7, 5))[0],
            from_array(BYTES, np.arange(6))[0],
            from_array(BYTES, np.arange(6), ["name"])[0],
        ]
        assert len({spec, *different}) == 5
        assert len({digest(each) for each in (spec, *different)}) == 5

    def test_the_array_is_held_while_the_spec_is(self):
        images = np.random.default_rng(8).random((3, 4))
        spec, _ = from_array(images)
        content = to_json(spec)
        from_array(images)  # a second, short-lived binding of the same content
        gc.collect()
        assert from_json(InMemory, content).load(CPU).size == 3
        del spec
        gc.collect()
        with pytest.raises(ValueError, match="call from_array"):
            from_json(InMemory, content).load(CPU)

    def test_what_happens_to_the_array_later_changes_nothing(self):
        images = np.zeros((3, 4), np.float32)
        spec, world = from_array(images)
        images += 1
        assert everything(world).max() == everything(spec.load(CPU)).max() == 0

    def test_tensors_and_lists_are_arrays(self):
        assert torch.equal(everything(load(torch.tensor(BYTES))), everything(load(BYTES)))
        assert load([[0.0, 1.0], [0.5, 0.5]], device="cpu").shape == (2,)

    def test_a_digest_has_to_be_one(self):
        with pytest.raises(ValueError, match="digest"):
            InMemory(digest="abc", shape=(1, 2), dtype="uint8")


class TestArrays:
    def test_npy(self, tmp_path):
        np.save(tmp_path / "a.npy", BYTES)
        spec = Arrays(tmp_path / "a.npy")
        assert spec == Arrays(str(tmp_path / "a.npy")) == from_json(Arrays, to_json(spec))
        world = spec.load(CPU)
        assert isinstance(world, Stored)
        np.testing.assert_allclose(everything(world)[:, 0], BYTES / 255, rtol=1e-6)

    def test_npz_with_factors_and_names(self, tmp_path):
        factors = np.stack(np.unravel_index(np.arange(6), (2, 3)), -1)
        path = tmp_path / "a.npz"
        np.savez(path, pictures=BYTES, classes=factors, factor_names=["up", "down"])
        world = Arrays(path, "pictures", "classes").load(CPU)
        assert world.factor_names == ("up", "down")
        assert world.factors(torch.arange(6)).tolist() == factors.tolist()
        assert world.lattice is not None
        without = Arrays(path, key="pictures").load(CPU)
        assert without.factor_names == ()
        assert "classes" in without.notes[0]

    @pytest.mark.parametrize("key", ["imgs", "images", "x", "data"])
    def test_usual_keys_are_found(self, tmp_path, key):
        np.savez(tmp_path / "a.npz", **{key: BYTES, "another": np.zeros(3)})
        assert Arrays(tmp_path / "a.npz").load(CPU).shape == (1, 5, 7)

    def test_a_lone_array_needs_no_key(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", whatever=BYTES)
        assert Arrays(tmp_path / "a.npz").load(CPU).notes == ()

    def test_a_pickle_beside_the_array_is_left_alone(self, tmp_path):
        # As in the file of dSprites, whose metadata is pickled.
        np.savez(tmp_path / "a.npz", imgs=BYTES, metadata=np.array({"a": 1}, dtype=object))
        assert Arrays(tmp_path / "a.npz").load(CPU).size == 6
        with pytest.raises(ValueError, match="pickled"):
            Arrays(tmp_path / "a.npz", key="metadata").load(CPU)

    def test_bad_files_are_refused(self, tmp_path):
        def refused(message, *args, content=None, name="a.npz"):
            path = tmp_path / name
            if content is not None:
                content(path)
            with pytest.raises(ValueError, match=message):
                Arrays(path, *args).load(CPU)

        refused("check the path", name="none.npz")
        refused("choose it with key", content=lambda p: np.savez(p, a=BYTES, b=BYTES))
        refused("did you mean 'a'", "aa")
        refused("no array 'c'", "a", "c")
        refused("choose it with key", content=lambda p: np.savez(p))
        refused("pickled", content=lambda p: p.write_bytes(b"nonsense"))
        refused("save it again", content=lambda p: p.write_bytes(b""))
        refused("save it again", content=lambda p: p.write_bytes(b"PK\x03\x04nonsense"))
        refused("pickled", content=lambda p: np.save(p, np.array([None])), name="o.npy")
        refused("save it again", content=lambda p: p.write_bytes(b"\x93NUMPY\x01"), name="b.npy")
        refused("without keys", "a", content=lambda p: np.save(p, BYTES), name="c.npy")
        refused("c.npy: expected observations", content=lambda p: np.save(p, [1.0]), name="c.npy")

    def test_a_damaged_member_is_refused(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr("imgs.npy", b"\x93NUMPY\x01\x00")
        with pytest.raises(ValueError, match=r"'imgs' of .* save it again"):
            Arrays(tmp_path / "a.npz").load(CPU)


def save(folder, name, pixels, mode=None, **options):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(path, **options)


COLOUR = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)


class TestFolder:
    def test_grey_pictures_of_one_size_are_kept(self, tmp_path):
        for i, pixels in enumerate(BYTES):
            save(tmp_path, f"{'ab'[i % 2]}/{i}.png", pixels)
        (tmp_path / "readme.txt").write_text("no picture")
        (tmp_path / ".hidden.png").write_text("no picture")
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (1, 5, 7)
        assert world.notes == ()
        assert world.bounded
        assert world.lattice is None
        order = [0, 2, 4, 1, 3, 5]  # a/0, a/2, a/4, b/1, ...
        np.testing.assert_allclose(everything(world)[:, 0], BYTES[order] / 255, rtol=1e-6)

    def test_the_spec_survives_json(self):
        for spec in (Folder("a/b"), Folder("a", 32), Folder("a", (8, 9), 3)):
            assert from_json(Folder, to_json(spec)) == spec

    @pytest.mark.parametrize("extension", ["bmp", "gif", "jpg", "png", "ppm", "tif", "webp"])
    def test_common_formats(self, tmp_path, extension):
        save(tmp_path, f"a.{extension.upper()}", COLOUR)
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (3, 5, 7)

    def test_colours_come_channel_first(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        images = everything(Folder(tmp_path).load(CPU))
        np.testing.assert_allclose(images[0], np.moveaxis(COLOUR, -1, 0) / 255, rtol=1e-6)

    def test_mixed_sizes_become_64_by_64_and_say_so(self, tmp_path):
        save(tmp_path, "a.png", np.full((100, 200), 80, np.uint8))
        save(tmp_path, "b.png", np.full((30, 20), 80, np.uint8))
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (1, 64, 64)
        assert "2 sizes" in world.notes[0]
        torch.testing.assert_close(everything(world), torch.full((2, 1, 64, 64), 80 / 255))

    def test_pictures_are_cut_in_the_centre_and_averaged(self, tmp_path):
        pixels = np.zeros((8, 24), np.uint8)
        pixels[:, 8:16] = np.indices((8, 8)).sum(0) % 2 * 200  # a board in the central square
        pixels[:, :8] = 255
        save(tmp_path, "a.png", pixels)
        world = Folder(tmp_path, size=2).load(CPU)
        assert world.notes == ()
        torch.testing.assert_close(
            everything(world), torch.full((1, 1, 2, 2), 100 / 255), atol=0.1, rtol=0
        )
        assert Folder(tmp_path, size=(4, 6)).load(CPU).shape == (1, 4, 6)

    def test_mixed_modes_become_colour_and_say_so(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        save(tmp_path, "b.png", BYTES[0])
        save(tmp_path, "c.png", COLOUR, "P")
        save(tmp_path, "d.jpg", COLOUR, "CMYK")
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (3, 5, 7)
        assert "1 grey pictures among 4" in world.notes[0]
        assert torch.equal(everything(world)[1, 0], everything(world)[1, 2])

    def test_channels_can_be_asked_for(self, tmp_path):
        save(tmp_path, "a.png", COLOUR)
        for channels in (1, 3, 4):
            assert Folder(tmp_path, channels=channels).load(CPU).shape == (channels, 5, 7)

    def test_transparency_is_laid_on_white_or_kept(self, tmp_path):
        pixels = np.zeros((4, 4, 4), np.uint8)
        pixels[:2, :, 3] = 255  # black above, nothing below
        save(tmp_path, "a.png", pixels)
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (3, 4, 4)
        assert "transparency" in world.notes[0]
        assert everything(world)[0, :, :2].max() == 0
        assert everything(world)[0, :, 2:].min() == 1
        kept = Folder(tmp_path, channels=4).load(CPU)
        assert kept.notes == ()
        assert everything(kept)[0, 3].unique().tolist() == [0, 1]

    def test_transparent_grey_stays_grey(self, tmp_path):
        save(tmp_path, "a.png", Image.new("LA", (4, 4), (0, 0)))
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (1, 4, 4)
        assert everything(world).min() == 1

    def test_a_palette_with_transparency_is_laid_on_white(self, tmp_path):
        image = Image.new("P", (4, 4), 0)
        image.putpalette([0, 0, 0, 255, 0, 0])
        save(tmp_path, "a.png", image, transparency=0)
        assert everything(Folder(tmp_path).load(CPU)).min() == 1

    def test_binary_pictures_are_binary(self, tmp_path):
        save(tmp_path, "a.png", BYTES[0] > 100)
        images = everything(Folder(tmp_path).load(CPU))
        np.testing.assert_array_equal(images[0, 0], BYTES[0] > 100)

    @pytest.mark.parametrize("extension", ["png", "tif", "pgm"])
    def test_sixteen_bits_become_eight_and_say_so(self, tmp_path, extension):
        save(tmp_path, f"a.{extension}", BYTES[0].astype(np.uint16) * 257)
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (1, 5, 7)
        assert "16 bits" in world.notes[0]
        np.testing.assert_allclose(everything(world)[0, 0], BYTES[0] / 255, atol=1e-6)

    def test_a_camera_held_sideways_is_heeded(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        save(tmp_path, "a.png", COLOUR, exif=exif)
        world = Folder(tmp_path).load(CPU)
        assert world.shape == (3, 7, 5)
        expected = np.rot90(COLOUR, -1)
        np.testing.assert_allclose(
            everything(world)[0], np.moveaxis(expected, -1, 0) / 255, rtol=1e-6
        )

    def test_bad_folders_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="check the path"):
            Folder(tmp_path / "none").load(CPU)
        with pytest.raises(ValueError, match="known extensions"):
            Folder(tmp_path).load(CPU)

    @pytest.mark.parametrize("content", [b"", b"nonsense"])
    def test_a_picture_that_does_not_open_is_named(self, tmp_path, content):
        save(tmp_path, "a.png", COLOUR)
        (tmp_path / "bad.jpg").write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.jpg.*Repair or remove"):
            Folder(tmp_path).load(CPU)

    def test_a_picture_cut_short_is_named(self, tmp_path):
        save(tmp_path, "bad.png", np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))
        whole = (tmp_path / "bad.png").read_bytes()
        (tmp_path / "bad.png").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=r"bad\.png.*Repair or remove"):
            Folder(tmp_path).load(CPU)

    @pytest.mark.parametrize("limit", [60, 20])  # Pillow warns above it, refuses above twice it
    def test_a_decompression_bomb_is_named(self, tmp_path, monkeypatch, limit):
        save(tmp_path, "bomb.png", np.zeros((10, 10), np.uint8))
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"bomb\.png.*Scale it down"):
            Folder(tmp_path).load(CPU)

    def test_floating_point_and_deeper_pictures_are_sent_to_arrays(self, tmp_path):
        save(tmp_path, "a.tif", np.zeros((4, 4), np.float32))
        with pytest.raises(ValueError, match=r"a\.tif with floating-point.*Arrays"):
            Folder(tmp_path).load(CPU)
        save(tmp_path, "a.tif", np.full((4, 4), 70_000, np.int32))
        with pytest.raises(ValueError, match=r"a\.tif with values from 70000.*Arrays"):
            Folder(tmp_path).load(CPU)

    @pytest.mark.parametrize("fields", [{"size": 0}, {"size": (3, 0)}, {"channels": 2}], ids=str)
    def test_impossible_wishes_are_refused(self, fields):
        with pytest.raises(ValueError, match=next(iter(fields))):
            Folder("a", **fields)


@pytest.mark.parametrize("shape", [(300, 20), (15, 40), (50, 3, 4, 5)])
def test_principal_variances_are_those_of_the_covariance(shape):
    """Largest first and centred: a release of the field takes components 20 to 11, uncentred."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    x = x * np.linspace(1, 3, shape[-1], dtype=np.float32) + 5
    _, world = from_array(x, device=torch.device("cpu"))
    flat = world.images(torch.arange(len(x))).flatten(1).double().numpy()
    expected = np.linalg.eigvalsh(np.cov(flat.T, bias=True))[::-1][:10]
    assert principal_variances(world, 10) == pytest.approx(expected, rel=1e-4)


def test_directions_without_variance_are_zero():
    x = np.zeros((30, 6), np.float32)
    x[:, 0], x[:, 3] = np.arange(30), np.arange(30) % 2
    _, world = from_array(x, device=torch.device("cpu"))
    found = principal_variances(world, 8)
    assert len(found) == 8
    assert sum(value > 0 for value in found) == 2
    with pytest.raises(ValueError, match=r"use latent\.size=2 or less"):
        uw.Run(latent=uw.Gaussian(3, variances="pca"), batch_size=4).resolve(world)
    run = uw.Run(latent=uw.Gaussian(2, variances="pca"), batch_size=4).resolve(world)
    assert sum(run.latent.variances) == pytest.approx(2, rel=1e-5)
    assert run.resolve(world) == run  # resolved once, it stays
