"""Shapes2D: its lattice, the pixels it draws, and what they depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unweave.core.noise import Noise
from unweave.core.spec import digest, from_json, to_json
from unweave.data import Lattice, Shapes2D
from unweave.data.lattice import Factor
from unweave.data.synthetic import shapes2d as module
from unweave.metrics import merge

CPU = torch.device("cpu")
SHAPES = ("square", "ellipse", "heart")
# A mismatch is borderline if the float64 outline is nearer to the pixel than this (in pixels).
BORDER = 1e-3


@pytest.fixture(scope="module")
def dataset():
    return Shapes2D().load(CPU)


def signed_distance(shape: str, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Approximate the distance to the outline, negative inside, independently of the library."""
    if shape == "square":
        return np.maximum(np.abs(u), np.abs(v)) - 2457 / 256
    if shape == "ellipse":
        a, b = 12.7659, 7.21235
        level = (u / a) ** 2 + (v / b) ** 2 - 1
        return level / (2 * np.hypot(u / a**2, v / b**2) + 1e-12)
    s = 2 * np.pi * np.arange(150) / 150
    x = 9.6 * np.sin(s) ** 3
    y = -0.6622 * (13 * np.cos(s) - 5 * np.cos(2 * s) - 2 * np.cos(3 * s) - np.cos(4 * s)) - 1.44
    return polygon(x, y, u, v)


def polygon(x: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Compute the signed distance to a polygon by parity of crossings and the nearest edge."""
    inside = np.zeros(u.shape, bool)
    nearest = np.full(u.shape, np.inf)
    for x0, y0, x1, y1 in zip(x, y, np.roll(x, -1), np.roll(y, -1), strict=True):
        crosses = (y0 > v) != (y1 > v)
        where = x0 + (x1 - x0) * (v - y0) / (y1 - y0 if y1 != y0 else 1)
        inside ^= crosses & (u < where)
        ex, ey = x1 - x0, y1 - y0
        t = np.clip(((u - x0) * ex + (v - y0) * ey) / (ex * ex + ey * ey), 0, 1)
        nearest = np.minimum(nearest, np.hypot(u - x0 - t * ex, v - y0 - t * ey))
    return np.where(inside, -nearest, nearest)


def brute_force(spec: Shapes2D, classes: list[int]) -> np.ndarray:
    """Compute the signed distance of every pixel of one image in float64 from the definition."""
    members = spec.lattice.members
    _, shape, scale, angle, x, y = (m.values[c] for m, c in zip(members, classes, strict=True))
    pixel = (np.arange(spec.side) + 0.5) * 64 / spec.side
    dx, dy = pixel[None, :] - (16 + 32 * x), pixel[:, None] - (16 + 32 * y)
    u = (math.cos(angle) * dx - math.sin(angle) * dy) / scale
    v = (math.sin(angle) * dx + math.cos(angle) * dy) / scale
    near = np.hypot(u, v) < 15  # every outline lies within 14 of its centre
    distance = np.full(near.shape, np.inf)
    distance[near] = signed_distance(SHAPES[int(shape) - 1], u[near], v[near])
    return distance


def runs(image: torch.Tensor) -> str:
    """Write the runs of pixels of an image as row:first-last."""
    found = []
    for i, row in enumerate(image.int().tolist()):
        ends = [j for j in range(1, len(row)) if row[j] != row[j - 1]]
        found += [f"{i}:{a}-{b - 1}" for a, b in zip(ends[::2], ends[1::2], strict=True)]
    return " ".join(found)


def test_the_default_is_the_lattice_of_dsprites(dataset):
    lattice = Shapes2D().lattice
    assert lattice.names == ("colour", "shape", "scale", "orientation", "x", "y")
    assert lattice.sizes == dataset.factor_sizes == (1, 3, 6, 40, 32, 32)
    assert lattice.size == dataset.size == 737_280
    assert dataset.shape == (1, 64, 64)
    assert dataset.bounded
    assert dataset.notes == ()
    values = {member.name: member.values for member in lattice.members}
    assert values["shape"] == (1.0, 2.0, 3.0)
    np.testing.assert_allclose(values["scale"], [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    np.testing.assert_allclose(values["orientation"][-1], 2 * np.pi)
    np.testing.assert_allclose(np.diff(values["x"]), 1 / 31)
    assert lattice.members[1].labels == SHAPES


def test_index_inverts_factors_on_the_whole_lattice(dataset):
    index = torch.arange(dataset.size)
    factors = dataset.factors(index)
    assert torch.equal(dataset.lattice.index(factors), index)
    assert factors[1].tolist() == [0, 0, 0, 0, 0, 1]
    assert factors[-1].tolist() == [0, 2, 5, 39, 31, 31]


@pytest.mark.parametrize(
    "spec",
    [
        Shapes2D(),
        Shapes2D(side=16),
        Shapes2D(side=47, positions=7),
        Shapes2D(side=32, orientations=1, positions=16),
        Shapes2D(side=256, positions=3, scales=2),
        Shapes2D(positions=1, scales=1),
    ],
    ids=str,
)
def test_pixels_are_those_of_a_brute_force_renderer(spec):
    loaded = spec.load(CPU)
    count = 12 if spec.side > 64 else 60
    factors = spec.lattice.draw(Noise(1), count)
    images = loaded.images(spec.lattice.index(factors))[:, 0].numpy() > 0
    wrong = 0
    for classes, image in zip(factors.tolist(), images, strict=True):
        distance = brute_force(spec, classes)
        differs = image != (distance <= 0)
        assert differs.sum() <= 1
        assert np.abs(distance[differs]).max(initial=0) < BORDER
        wrong += differs.sum()
    assert wrong <= 1 + count / 50


GOLDEN = {
    (0, 0, 1, 35, 3, 21): (
        "30:17-18 31:17-19 32:16-21 33:15-22 34:14-23 35:14-25 36:13-26 37:12-25 38:11-25 "
        "39:12-24 40:13-23 41:15-22 42:16-22 43:17-21 44:19-20"
    ),
    (0, 1, 0, 5, 16, 10): (
        "21:33-36 22:31-36 23:30-37 24:29-37 25:29-36 26:28-36 27:28-35 28:27-34 29:27-33 "
        "30:28-32 31:29-30"
    ),
    (0, 2, 0, 0, 0, 0): (
        "11:13-13 11:18-18 12:12-19 13:11-20 14:11-20 15:12-19 16:12-19 17:13-18 18:14-17 19:15-16"
    ),
    (0, 2, 5, 7, 31, 0): (
        "5:44-47 6:42-49 7:42-50 8:41-50 9:41-51 10:41-51 11:42-52 12:42-52 13:43-52 14:39-53 "
        "15:38-53 16:37-53 17:37-54 18:37-54 19:37-55 20:38-52 21:38-49 22:39-47"
    ),
}


@pytest.mark.parametrize("classes", GOLDEN, ids=str)
def test_golden_images(dataset, classes):
    image = dataset.images(dataset.lattice.index(torch.tensor(classes)))
    assert image.shape == (1, 64, 64)
    assert runs(image[0]) == GOLDEN[classes]


def test_the_upright_heart_points_down_and_is_symmetric():
    alone = Shapes2D(shapes=("heart",), orientations=1, positions=1, scales=1).load(CPU)
    image = alone.images(torch.tensor(0))[0]
    assert torch.equal(image, image.flip(-1))
    rows = image.sum(-1)
    occupied = rows.nonzero().flatten()
    assert rows[occupied[0]] > rows[occupied[-1]]
    assert image[occupied[0], 32] == 0  # the notch


@pytest.mark.parametrize("shape", range(3))
def test_first_and_last_orientation_show_the_same_image(dataset, shape):
    factors = dataset.lattice.draw(Noise(2), 64, {"shape": shape})
    first, last = factors.clone(), factors.clone()
    first[:, 3], last[:, 3] = 0, 39
    index = dataset.lattice.index
    assert torch.equal(dataset.images(index(first)), dataset.images(index(last)))


@pytest.mark.parametrize("name", ["shape", "scale", "orientation", "x", "y"])
def test_every_factor_changes_pixels(dataset, name):
    # The heart has no symmetry, and neighbouring classes differ at full scale.
    fixed = {"shape": 2, "scale": 5, "orientation": 4, "x": 9, "y": 21}
    sizes = dict(zip(dataset.factor_names, dataset.factor_sizes, strict=True))
    column = dataset.factor_names.index(name)
    classes = torch.arange(min(sizes[name], 39))  # orientation 39 repeats 0
    factors = dataset.lattice.draw(Noise(0), len(classes), fixed)
    factors[:, column] = classes
    images = dataset.images(dataset.lattice.index(factors)).flatten(1)
    assert len(images.unique(dim=0)) == len(classes)


def test_an_image_depends_on_its_index_alone(dataset):
    index = Noise(5).integers(dataset.size, (700,), "index")
    together = dataset.images(index)
    assert torch.equal(together.flip(0), dataset.images(index.flip(0)))
    alone = torch.stack([dataset.images(i) for i in index[:20]])
    assert torch.equal(together[:20], alone)
    assert torch.equal(dataset.images(index.view(7, 100)), together.view(7, 100, 1, 64, 64))
    assert torch.equal(dataset.images(index.int()), together)


def test_images_are_binary_float32_and_none_is_empty_or_cut_off(dataset):
    images = dataset.images(Noise(6).integers(dataset.size, (500,), "index"))
    assert images.dtype == torch.float32
    assert ((images == 0) | (images == 1)).all()
    assert images.sum((1, 2, 3)).min() > 50
    assert images[..., 0, :].sum() + images[..., -1, :].sum() == 0
    assert images[..., 0].sum() + images[..., -1].sum() == 0


def test_no_index_gives_no_images(dataset):
    assert dataset.images(torch.zeros(0, dtype=torch.int64)).shape == (0, 1, 64, 64)
    assert dataset.factors(torch.zeros(0, dtype=torch.int64)).shape == (0, 6)


@pytest.mark.parametrize("chunk", [900, 5000, 2**22])
def test_the_chunk_size_does_not_change_images(dataset, monkeypatch, chunk):
    index = torch.arange(0, dataset.size, 9973)
    expected = dataset.images(index)
    monkeypatch.setitem(module.CHUNK_PIXELS, "cpu", chunk)
    assert torch.equal(dataset.images(index), expected)


@pytest.mark.parametrize(
    ("side", "positions"), [(16, 2), (17, 13), (31, 1), (48, 2), (100, 13), (256, 2)]
)
def test_sprites_in_the_corners_are_drawn_at_any_resolution(side, positions):
    spec = Shapes2D(side=side, positions=positions, orientations=9, scales=2)
    loaded = spec.load(CPU)
    factors = spec.lattice.draw(Noise(0), 200 if side < 256 else 40)
    factors[:, 4:] = factors[:, 4:].clamp(max=1) * (positions - 1)
    images = loaded.images(spec.lattice.index(factors))
    reference = np.array([(brute_force(spec, f) <= 0).sum() for f in factors[:8].tolist()])
    np.testing.assert_allclose(images[:8].sum((1, 2, 3)), reference, atol=1)


def test_single_classes_take_their_neutral_value():
    values = {
        m.name: m.values for m in Shapes2D(scales=1, orientations=1, positions=1).lattice.members
    }
    assert values["scale"] == (1.0,)
    assert values["orientation"] == (0.0,)
    assert values["x"] == values["y"] == (0.5,)


def test_shapes_can_be_chosen_and_keep_their_order(dataset):
    chosen = Shapes2D(shapes=("heart", "square"))
    loaded = chosen.load(CPU)
    assert chosen.lattice.members[1].labels == ("heart", "square")
    assert chosen.lattice.members[1].values == (3.0, 1.0)
    here = torch.tensor([0, 0, 5, 7, 3, 4])
    there = torch.tensor([0, 2, 5, 7, 3, 4])
    assert torch.equal(
        loaded.images(chosen.lattice.index(here)), dataset.images(dataset.lattice.index(there))
    )


def test_a_finer_grid_shows_the_same_shapes():
    coarse, fine = Shapes2D(side=64).load(CPU), Shapes2D(side=192).load(CPU)
    index = Noise(3).integers(coarse.size, (40,), "index")
    # The middle pixel of every 3 x 3 has the centre of the coarse pixel.
    assert torch.equal(fine.images(index)[..., 1::3, 1::3], coarse.images(index))


def test_spec_survives_json_and_has_a_stable_identity():
    spec = Shapes2D(side=32, shapes=("heart",), positions=8)
    assert from_json(Shapes2D, to_json(spec)) == spec
    assert digest(spec) == digest(Shapes2D(side=32, shapes=("heart",), positions=8))
    assert digest(spec) != digest(Shapes2D())
    assert isinstance(spec.lattice, Lattice)


@pytest.mark.parametrize(
    "fields",
    [
        {"side": 15},
        {"side": 257},
        {"shapes": ()},
        {"shapes": ("heart", "heart")},
        {"shapes": ("circle",)},
        {"scales": 0},
        {"orientations": 0},
        {"orientations": 2},
        {"positions": 0},
        {"positions": 5000},
        {"colour": 3},
    ],
    ids=str,
)
def test_invalid_fields_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Shapes2D(**fields)
    with pytest.raises(ValueError, match=next(iter(fields))):
        from_json(Shapes2D, fields)


def test_indices_out_of_range_are_refused(dataset):
    with pytest.raises(ValueError, match="between 0 and 737279"):
        dataset.images(torch.tensor([737_280]))
    with pytest.raises(ValueError, match="between 0 and 737279"):
        dataset.factors(torch.tensor([-1]))
    with pytest.raises(ValueError, match="integers"):
        dataset.images(torch.tensor([0.5]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("side", [16, 50, 64, 128])
def test_a_gpu_draws_the_same_pixels(side):
    spec = Shapes2D(side=side)
    index = Noise(4).integers(spec.lattice.size, (20_000,), "index")
    here, there = spec.load(CPU), spec.load(torch.device("cuda"))
    for some in index.split(2000):
        assert torch.equal(here.images(some), there.images(some.cuda()).cpu())
        assert torch.equal(here.factors(some), there.factors(some).cpu())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_draws_any_number_of_images_at_once():
    there = Shapes2D(side=16).load(torch.device("cuda"))
    index = torch.arange(70_000, device="cuda")  # 65,535 is the most along some axes of a grid
    images = there.images(index)
    assert torch.equal(images[-5000:], there.images(index[-5000:]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_drawing_can_be_captured_in_a_cuda_graph():
    there = Shapes2D().load(torch.device("cuda"))
    index = torch.arange(0, there.size, 1000, device="cuda")
    expected = there.images(index)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = there.images(index)
    graph.replay()
    assert torch.equal(drawn, expected)


@pytest.mark.parametrize("orientations", [5, 13, 40, 41])
def test_images_are_equal_if_and_only_if_they_are_declared_equal(orientations):
    dataset = Shapes2D(orientations=orientations, positions=2, scales=2).load(torch.device("cpu"))
    index = torch.arange(dataset.size)
    factors = dataset.factors(index).numpy()
    same = merge(factors, dataset.lattice.periods, dataset.factor_names)
    images = [image.tobytes() for image in dataset.images(index).bool().numpy()]
    classes = [tuple(row) for row in same.tolist()]
    assert len(set(zip(images, classes, strict=True))) == len(set(classes)) < dataset.size
    if orientations != 40:  # where a square rotated by a quarter of a step looks the same
        assert len(set(images)) == len(set(classes))


def test_periods_of_dsprites():
    """A full turn has 39 steps, not a multiple of 2: a square at step 10 differs from step 0."""
    assert Shapes2D().lattice.periods == {"orientation": 39}
    assert Shapes2D(orientations=41).lattice.periods == {"orientation": {"shape": [10, 20, 40]}}
    assert Shapes2D(orientations=1).lattice.periods == {}
    with pytest.raises(ValueError, match="'turn' is not a factor here"):
        Lattice((Factor("a", 2),), {"turn": 2})
