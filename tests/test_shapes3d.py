"""Shapes3D: the lattice of 3D Shapes, and images that obey the geometry of the room."""

import colorsys

import numpy as np
import pytest
import torch

from datasets import CPU
from unweave.data import Shapes3D
from unweave.data.synthetic import shapes3d as module

HUES = [colorsys.hsv_to_rgb(k / 10, 1, 1) for k in range(10)]


@pytest.fixture(scope="module")
def dataset():
    """Two of the eight scales, to compute fewer tables."""
    return Shapes3D(scales=2).load(CPU)


def picture(dataset, *classes):
    """Bytes (64, 64, 3) of one combination."""
    image = dataset.images(dataset.lattice.index(torch.tensor(classes)))
    return (image * 255).round().int().movedim(0, -1).numpy()


def test_the_default_is_the_lattice_of_3d_shapes():
    lattice = Shapes3D().lattice
    names = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert lattice.names == names
    assert lattice.sizes == (10, 10, 10, 8, 4, 15)
    assert lattice.size == 480_000
    members = {factor.name: factor for factor in lattice.members}
    np.testing.assert_allclose(members["scale"].values, np.linspace(0.75, 1.25, 8))
    np.testing.assert_allclose(members["orientation"].values, np.linspace(-30, 30, 15))
    assert members["shape"].labels == ("cube", "cylinder", "sphere", "capsule")
    assert lattice.factors(torch.tensor(1)).tolist() == [0, 0, 0, 0, 0, 1]


def test_hues_are_those_of_the_colour_circle():
    np.testing.assert_allclose(module.colours() / 5, HUES, atol=1e-6)


def test_values_are_whole_bytes_and_the_sky_is_the_original(dataset):
    assert dataset.shape == (3, 64, 64)
    image = dataset.images(torch.tensor([0, 43_210, 119_999])) * 255
    np.testing.assert_allclose(image, image.round(), atol=1e-4)
    assert (picture(dataset, 3, 4, 5, 0, 0, 7)[0] == module.SKY).all()


def test_integer_images_match_the_formula_in_floats():
    """Light and hue of each of four rays, clipped, then averaged."""
    spec = Shapes3D(side=24, scales=1, shapes=("capsule",), orientations=1)
    view = module.room(24, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        planes = module.planes(view, "capsule", 1.0).reshape(8, 24, 24) / (255 * module.BYTE)
    sky, *covers, gloss = planes
    sky = sky * 255 * module.BYTE / 4
    expected = sky[..., None] * np.array(module.SKY) / 255
    for k, hue in enumerate((1, 4, 8)):
        cover, bright = covers[2 * k], covers[2 * k + 1] * 5
        extra = gloss if k == 2 else 0 * gloss
        value = bright[..., None] * np.array(HUES[hue]) + extra[..., None]
        expected += np.minimum(cover[..., None], value)
    np.testing.assert_allclose(covers[0] + covers[2] + covers[4] + sky, 1, atol=1e-3)
    found = spec.load(CPU).images(spec.lattice.index(torch.tensor([1, 4, 8, 0, 0, 0])))
    np.testing.assert_allclose(found.movedim(0, -1), expected, atol=0.5 / 255 + 1e-6)


def covers(shape, scale=1.0, angle=0.0, side=64):
    """Return which pixels show the object."""
    with np.errstate(divide="ignore", invalid="ignore"):
        planes = module.planes(module.room(side, angle), shape, scale)
    return planes[5].reshape(side, side) > 0


@pytest.mark.parametrize("shape", module.SIZES)
def test_objects_project_to_the_size_of_their_outline(shape):
    """A point at distance d, height h and lateral offset w projects to f w / d, f (h_0 - h) / d.

    The outline of a round object follows from its tangents; the top of every object lies between
    the projections of its nearest and farthest point.
    """
    seen = covers(shape, side=128)
    width, height = module.SIZES[shape]
    distance, eye = module.CAMERA
    focal = 64 / np.tan(module.VIEW / 2)
    columns = np.flatnonzero(seen.any(0))
    wide = columns[-1] - columns[0] + 1
    if shape == "cube":
        expected = 2 * focal * width / (distance - width)
    else:  # tangents to a circle
        expected = 2 * focal * width / np.sqrt(distance**2 - width**2)
    assert wide == pytest.approx(expected, abs=2.5)
    assert columns[0] + columns[-1] == 127
    top = 64 - focal * (module.BASE + height - eye) / (distance - width)
    far = 64 - focal * (module.BASE + height - eye) / (distance + width)
    first = np.flatnonzero(seen.any(1))[0]
    assert min(top, far) - 2 <= first <= max(top, far) + 2


def test_round_objects_look_the_same_from_all_sides():
    for shape in ("sphere", "capsule", "cylinder"):
        one, two = covers(shape, angle=0.0), covers(shape, angle=0.4)
        assert (one != two).sum() <= 2
    assert (covers("cube", angle=0.0) != covers("cube", angle=0.4)).sum() > 20
    assert (covers("sphere", 1.25) & ~covers("sphere", 0.75)).sum() > 100
    assert not (covers("sphere", 0.75) & ~covers("sphere", 1.25))[:45].any()


def test_the_corner_of_the_room_moves_with_the_orientation(dataset):
    """It projects to f (-r cos a + r sin a) / (d + r sin a + r cos a) from the centre."""
    reach, distance = module.ROOM[0], module.CAMERA[0]
    focal = 32 / np.tan(module.VIEW / 2)
    for orientation in (11, 12, 13, 14):
        angle = np.radians(dataset.lattice.members[-1].values[orientation])
        across = -reach * np.cos(angle) + reach * np.sin(angle)
        depth = distance + reach * np.sin(angle) + reach * np.cos(angle)
        expected = 32 + focal * across / depth
        row = picture(dataset, 0, 6, 3, 0, 0, orientation)[22, :, 2]  # blue, above the cube
        assert np.abs(np.diff(row)).argmax() + 1 == pytest.approx(expected, abs=1)


def test_shadows_are_dark_and_lie_away_from_the_light(dataset):
    image = picture(dataset, 0, 5, 3, 1, 3, 7)
    red = image[50:, :, 0] * (image[50:, :, 1] == 0)
    dark = (red > 60) & (red < 110)
    columns = np.flatnonzero(dark.any(0))
    assert dark.sum() > 80
    assert columns.mean() > 34  # the light is on the left
    lit = (red > 150).sum()
    assert lit > dark.sum()


def test_each_hue_colours_its_own_surface_and_no_other(dataset):
    base = (0, 0, 0, 1, 2, 3)
    regions = []
    for column in range(3):
        classes = list(base)
        classes[column] = 4
        regions.append((picture(dataset, *classes) != picture(dataset, *base)).any(-1))
    floor, wall, thing = regions
    assert not (floor & wall)[:30].any()
    assert thing.sum() > 300
    assert (floor & wall & thing).sum() < 20  # edges show two materials, corners three
    assert floor[-3:].all()


@pytest.mark.parametrize("fields", [{"side": 8}, {"shapes": ("cone",)}, {"shapes": ()}], ids=str)
def test_invalid_fields_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Shapes3D(**fields)
