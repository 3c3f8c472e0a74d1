"""Three-dimensional shapes: the dataset of 3D Shapes, rendered on demand.

A room with four equal walls and no ceiling, a spotlight above it, and a camera that circles the
object in the centre. The light on every surface is

    s = ambient + head max(0, n . -forward) + spot max(0, n . l) (l . up)^10,

where n is the normal and l the direction to the spotlight; the last term is missing in the shadow
of the object, and a gloss adds white to the lit side of the object. A pixel is the mean of four
rays.

Everything that depends on scale, shape and orientation is computed once, on the CPU, as tables of
integers: how much of a pixel each material covers, and how bright it is there. An image is a table
multiplied by three hues, in integers, so that a GPU draws the same bytes. Lengths are in units in
which the camera is at a distance of 4 from the axis of the object.
"""

import functools
import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from unweave.core.spec import spec, tag
from unweave.data.dataset import Schema
from unweave.data.lattice import Factor, Lattice
from unweave.data.scaling import BYTES
from unweave.data.synthetic.renderer import RenderedDataset

Solid = Literal["cube", "cylinder", "sphere", "capsule"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int16]

# Fitted to images of the original, see docs/data.md.
CAMERA = (4.0, 1.2217)  # distance from the axis, height; it looks straight ahead
VIEW = math.radians(50)  # angle of view
ROOM = (5.802, 3.264)  # from the axis to each wall, height of the walls
BASE = 0.022  # height of the object above the floor
SIZES = {  # half width or radius, height, at scale 1
    "cube": (0.5571, 1.1587),
    "cylinder": (0.5976, 1.2107),
    "sphere": (0.6768, 1.3536),
    "capsule": (0.5182, 2.105),
}
REACH = 0.8  # radius that contains every object of scale 1
SPOTLIGHT = (-2.5785, 0.6878, 13.36)
FOCUS = 10  # how fast the spotlight falls off away from its axis
# Ambient, head and spot light of floor, walls and object.
LIGHT = ((0.338, 0.0, 0.921), (0.353, 0.565, 0.96), (0.36, 0.59, 0.96))
GLOSS = 0.1
SKY = (153, 226, 249)
# Stains: distance along a wall, first one, height; half length, half width, share of light
STAIN = (3.29, 0.25, 1.68, 0.75, 0.3, 0.07)

RAYS = ((0.125, 0.375), (0.375, -0.125), (-0.125, -0.375), (-0.375, 0.125))  # in a pixel
HUES = 10
STEPS = 5  # the channels of ten saturated hues are multiples of 1/5
BYTE = 80  # value of a byte in the tables: 255 * BYTE fits int16 and is a multiple of STEPS
FLOOR, WALL, OBJECT, NOTHING = range(4)  # materials


@spec
class Shapes3D:
    """Colour images of one solid in a room with six factors: the lattice of 3D Shapes.

    Floor hue 10, wall hue 10, object hue 10 (0, 0.1, ..., 0.9); scale linspace(0.75, 1.25); shape;
    orientation linspace(-30, 30) degrees. The last factor varies fastest. The default is the
    original lattice: 480,000 RGB images of 64 x 64. The images are close to the original ones, but
    not equal.  [Shapes2018]

    A single scale is 1 and a single orientation 0. `side` renders the same dataset at another
    resolution.
    """

    side: Annotated[int, Field(ge=16, le=128)] = 64
    """Height and width of the images in pixels."""
    scales: Annotated[int, Field(ge=1, le=64)] = 8
    """Number of scales (sizes of the shape)."""
    shapes: tuple[Solid, ...] = ("cube", "cylinder", "sphere", "capsule")
    """Shapes that are drawn."""
    orientations: Annotated[int, Field(ge=1, le=64)] = 15
    """Number of orientations."""
    kind: Literal["shapes3d"] = tag("shapes3d")

    def __post_init__(self) -> None:
        if not self.shapes or len(set(self.shapes)) < len(self.shapes):
            raise ValueError(
                f"expected shapes as distinct names out of {', '.join(SIZES)}, got {self.shapes}: "
                "name each shape once"
            )

    @property
    def lattice(self) -> Lattice:
        """The factors with their values."""
        hues = tuple(hue / HUES for hue in range(HUES))
        numbers = tuple(float(list(SIZES).index(name)) for name in self.shapes)
        return Lattice(
            (
                Factor("floor_hue", HUES, "cyclic", hues),
                Factor("wall_hue", HUES, "cyclic", hues),
                Factor("object_hue", HUES, "cyclic", hues),
                Factor("scale", self.scales, "ordinal", _spaced(0.75, 1.25, self.scales)),
                Factor("shape", len(self.shapes), "categorical", numbers, self.shapes),
                Factor("orientation", self.orientations, "ordinal", self._angles),
            )
        )

    @property
    def _angles(self) -> tuple[float, ...]:
        return _spaced(-30, 30, self.orientations)

    def load(self, device: torch.device) -> RenderedDataset:
        """Compute the tables and copy them to a device."""
        tables = torch.from_numpy(scenes(self)).to(device)
        sky = torch.tensor(SKY, dtype=torch.int16) * (BYTE // len(RAYS))  # in a quarter of a pixel
        paint = functools.partial(
            paint_scenes, tables, colours().to(device), sky.view(3, 1, 1).to(device)
        )
        schema = Schema.on_lattice(self.lattice, (3, self.side, self.side), scaling=BYTES)
        return RenderedDataset(schema, device, paint)


def paint_scenes(tables: Tensor, palette: Tensor, sky: Tensor, index: Tensor) -> Tensor:
    """Paint bytes (n, 3, side, side) by their indices (n,), from tables (8, scenes, side, side).

    value = sum over materials of min(cover, brightness * hue + gloss), plus the share of the sky
    """
    scenes = tables.shape[1]
    number, hues = index % scenes, index // scenes
    open_sky, *covers, gloss = (
        table.index_select(0, number).unsqueeze(1) for table in tables.unbind()
    )
    image = open_sky * sky
    for material, over in ((FLOOR, HUES**2), (WALL, HUES), (OBJECT, 1)):
        hue = palette.index_select(0, hues // over % HUES).view(-1, 3, 1, 1)
        value = covers[2 * material + 1] * hue
        if material == OBJECT:
            value += gloss
        image += torch.minimum(covers[2 * material], value)
    # Whole bytes, as in files. Products with constants round in the same way everywhere;
    # torch.round would wake threads, see `renderer`.
    return image.to(torch.float32).mul_(1 / BYTE).add_(0.5).to(torch.uint8)


def colours() -> Tensor:
    """Return the channels (10, 3) of the hues 0, 0.1, ..., in fifths, as int16.

    red = clip(|6 h - 3| - 1),   green = clip(2 - |6 h - 2|),   blue = clip(2 - |6 h - 4|)
    """
    tenths = torch.arange(HUES)[:, None] * 6  # 6 h in tenths
    centre, sign = torch.tensor([30, 20, 40]), torch.tensor([1, -1, -1])
    ramps = sign * (tenths - centre).abs() + torch.tensor([-10, 20, 20])
    return (ramps.clamp(0, 10) * STEPS // 10).to(torch.int16)


def _spaced(first: float, last: float, count: int) -> tuple[float, ...]:
    """Return equally spaced values, both ends included; a single one is the middle."""
    if count == 1:
        return ((first + last) / 2,)
    return tuple(float(value) for value in np.linspace(first, last, count))


class Rays(NamedTuple):
    """Half-lines from points (..., 3) along directions (..., 3)."""

    start: Floats
    along: Floats

    def at(self, distance: Floats) -> Floats:
        """Return the points at distances, in units of the directions."""
        return self.start + distance[..., None] * self.along


class Hit(NamedTuple):
    """Where rays meet a surface: distances, infinite if they miss it, and normals."""

    distance: Floats
    normal: Floats


class View(NamedTuple):
    """The empty room as seen from one orientation, ray by ray (n,)."""

    rays: Rays
    forward: Floats
    material: NDArray[np.int64]
    distance: Floats
    shade: Floats
    shadow: Floats  # the shade without the spotlight
    floor: NDArray[np.int64]  # indices of the rays that end on the floor
    upwards: Rays  # from there to the spotlight


@functools.lru_cache(maxsize=2)
def scenes(dataset: Shapes3D) -> Integers:
    """Compute tables (8, scales * shapes * orientations, side, side) of int16.

    The eight planes are the sky in quarters of a pixel; cover and brightness of floor, walls and
    object, where a cover of 255 BYTE is the whole pixel and brightness is in units of STEPS; and
    gloss.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # rays that miss
        views = [room(dataset.side, math.radians(angle)) for angle in dataset._angles]
        scales = _spaced(0.75, 1.25, dataset.scales)
        tables = [
            planes(view, shape, scale)
            for scale in scales
            for shape in dataset.shapes
            for view in views
        ]
    return np.stack(tables, 1).reshape(8, -1, dataset.side, dataset.side)


def room(side: int, angle: float) -> View:
    """Trace the rays of the empty room, seen from an angle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    forward = np.array([-sine, cosine, 0.0])
    right, up = np.array([cosine, sine, 0.0]), np.array([0.0, 0.0, 1.0])
    pixel = np.arange(side) + 0.5 - side / 2
    offsets = np.array(RAYS)
    focal = side / 2 / math.tan(VIEW / 2)
    rows, columns, _ = np.broadcast_arrays(
        pixel[:, None, None] + offsets[:, 1], pixel[:, None] + offsets[:, 0], pixel[:, None, None]
    )
    across, down = columns.reshape(-1, 1) / focal, rows.reshape(-1, 1) / focal
    distance, height = CAMERA
    start = -distance * forward + height * up
    rays = Rays(start, forward + across * right - down * up)
    floor, walls = _floor(rays), _walls(rays)
    nearer = np.where(floor.distance < walls.distance, FLOOR, WALL)
    reached = np.minimum(floor.distance, walls.distance)
    material = np.where(np.isfinite(reached), nearer, NOTHING)
    point = rays.at(np.where(np.isfinite(reached), reached, 0.0))
    normal = np.where((material == FLOOR)[:, None], floor.normal, walls.normal)
    clean = 1 - STAIN[-1] * _stain(point, normal) * (material == WALL)
    ambient, head, spot = np.array([*LIGHT[:OBJECT], LIGHT[FLOOR], (0, 0, 0)])[
        np.where(material == NOTHING, 3, material)
    ].T
    still = ambient + head * np.maximum(-(normal @ forward), 0)
    light = spot * _spotlight(point, normal)
    ground = np.flatnonzero(material == FLOOR)
    upwards = Rays(point[ground], np.array(SPOTLIGHT) - point[ground])
    shade, shadow = (still + light) * clean, still * clean
    return View(rays, forward, material, reached, shade, shadow, ground, upwards)


def planes(view: View, shape: str, scale: float) -> Integers:
    """Compute the tables (8, rays / 4) of one object in a room."""
    material, shade = view.material.copy(), view.shade.copy()
    gloss = np.zeros_like(shade)
    _cast_shadow(view, shade, shape, scale)
    near = np.flatnonzero(_passes(view.rays, REACH * scale))
    hit = _object(Rays(view.rays.start, view.rays.along[near]), shape, scale)
    seen = hit.distance < view.distance[near]
    near, normal = near[seen], hit.normal[seen]
    point = Rays(view.rays.start, view.rays.along[near]).at(hit.distance[seen])
    ambient, head, spot = LIGHT[OBJECT]
    material[near] = OBJECT
    lit = _spotlight(point, normal)
    shade[near] = ambient + head * np.maximum(-(normal @ view.forward), 0) + spot * lit
    gloss[near] = GLOSS * (lit > 0)
    return _integers(material, shade, gloss)


def _integers(material: NDArray[np.int64], shade: Floats, gloss: Floats) -> Integers:
    """Sum over the rays of every pixel, in the integer units of the tables."""
    quarter = 255 * BYTE // len(RAYS)

    def summed(values: Floats, unit: float) -> Floats:
        total: Floats = np.rint(values.reshape(-1, len(RAYS)) @ np.full(len(RAYS), unit))
        return total

    sums = [summed(material == NOTHING, 1)]
    for each in (FLOOR, WALL, OBJECT):
        mine = material == each
        sums += [summed(mine, quarter), summed(mine * shade, quarter / STEPS)]
    return np.stack([*sums, summed(gloss, quarter)]).astype(np.int16)


def _cast_shadow(view: View, shade: Floats, shape: str, scale: float) -> None:
    """Darken the floor where the object blocks the spotlight."""
    near = _passes(view.upwards, REACH * scale)
    rays = Rays(view.upwards.start[near], view.upwards.along[near])
    dark = view.floor[near][_object(rays, shape, scale).distance < 1]
    shade[dark] = view.shadow[dark]


def _passes(rays: Rays, reach: float) -> NDArray[np.bool_]:
    """Return which rays come near the vertical axis: |x dy - y dx| <= reach |(dx, dy)|."""
    x, y = rays.start[..., 0], rays.start[..., 1]
    dx, dy = rays.along[..., 0], rays.along[..., 1]
    return np.abs(x * dy - y * dx) <= reach * np.hypot(dx, dy)


def _spotlight(point: Floats, normal: Floats) -> Floats:
    """Compute max(0, n . l) (l . up)^10, l the unit vector from a point to the spotlight."""
    towards = np.array(SPOTLIGHT) - point
    towards /= np.sqrt(_dot(towards, towards))[..., None]
    return np.maximum(_dot(normal, towards), 0) * towards[..., 2] ** FOCUS


def _stain(point: Floats, normal: Floats) -> Floats:
    """Compute the slanted stains of the walls, 0 to 1, at points with normals (n, 3)."""
    every, first, height, half_length, half_width, _ = STAIN
    # Along the wall, to the right as seen from the room.
    along = normal[:, 0] * point[:, 1] - normal[:, 1] * point[:, 0]
    u = (along - first + every / 2) % every - every / 2
    v = point[:, 2] - height
    length, width = 0.55 * u - 0.835 * v, 0.835 * u + 0.55 * v
    return np.clip(2 - 2 * ((length / half_length) ** 2 + (width / half_width) ** 2), 0, 1)


def _floor(rays: Rays) -> Hit:
    distance = -rays.start[..., 2] / rays.along[..., 2]
    return Hit(np.where(distance > 0, distance, np.inf), np.array([0.0, 0.0, 1.0]))


def _walls(rays: Rays) -> Hit:
    """Intersect rays with the four walls from inside; they are open above their height."""
    reach, height = ROOM
    sign = np.sign(rays.along[:, :2])
    each = (sign * reach - rays.start[:2]) / rays.along[:, :2]
    axis = each.argmin(1)
    normal = np.zeros_like(rays.along)
    rows = np.arange(len(axis))
    normal[rows, axis] = -sign[rows, axis]
    distance = each[rows, axis]
    over = rays.at(distance)[:, 2] > height
    return Hit(np.where(over, np.inf, distance), normal)


def _object(rays: Rays, shape: str, scale: float) -> Hit:
    """Intersect rays with an object in the centre of the room."""
    start = rays.start - np.array([0.0, 0.0, BASE])
    rays = Rays(np.broadcast_to(start, rays.along.shape), rays.along)
    width, height = (scale * length for length in SIZES[shape])
    if shape == "cube":
        return _box(rays, width, height)
    if shape == "sphere":
        return _ball(rays, width, width)
    if shape == "cylinder":
        return _nearest(_tube(rays, width, 0, height), _lid(rays, width, height))
    ends = (width, height - width)
    return _nearest(_tube(rays, width, *ends), *(_ball(rays, end, width) for end in ends))


def _nearest(*hits: Hit) -> Hit:
    first, *others = hits
    for other in others:
        closer = other.distance < first.distance
        normal = np.where(closer[:, None], other.normal, first.normal)
        first = Hit(np.minimum(first.distance, other.distance), normal)
    return first


def _box(rays: Rays, half: float, height: float) -> Hit:
    """Intersect rays with a box: they are inside between the last entry and the first exit."""
    low, high = np.array([-half, -half, 0.0]), np.array([half, half, height])
    ends = np.stack([(low - rays.start) / rays.along, (high - rays.start) / rays.along])
    enter, leave = ends.min(0), ends.max(0)
    axis, rows = enter.argmax(1), np.arange(len(enter))
    distance = enter[rows, axis]
    normal = np.zeros_like(rays.along)
    normal[rows, axis] = -np.sign(rays.along[rows, axis])
    return _front(distance, distance <= leave.min(1), normal)


def _ball(rays: Rays, centre: float, radius: float) -> Hit:
    """Intersect rays with a ball on the axis: |start + t along - centre|^2 = radius^2."""
    start = rays.start - np.array([0.0, 0.0, centre])
    distance = _root(start, rays.along, radius)
    return _front(distance, distance > 0, Rays(start, rays.along).at(distance) / radius)


def _tube(rays: Rays, radius: float, low: float, high: float) -> Hit:
    """Intersect rays with the side of an upright cylinder."""
    distance = _root(rays.start[:, :2], rays.along[:, :2], radius)
    point = rays.at(distance)
    within = (point[:, 2] >= low) & (point[:, 2] <= high)
    return _front(distance, within, point * np.array([1.0, 1.0, 0.0]) / radius)


def _lid(rays: Rays, radius: float, height: float) -> Hit:
    """Intersect rays with the top of an upright cylinder."""
    distance = (height - rays.start[:, 2]) / rays.along[:, 2]
    point = rays.at(distance)
    within = np.hypot(point[:, 0], point[:, 1]) <= radius
    up = np.broadcast_to(np.array([0.0, 0.0, 1.0]), point.shape)
    return _front(distance, within, up)


def _dot(a: Floats, b: Floats) -> Floats:
    product: Floats = np.einsum("...i,...i->...", a, b)
    return product


def _root(start: Floats, along: Floats, radius: float) -> Floats:
    """Return the smaller t with |start + t along| = radius, or NaN."""
    a, b, c = _dot(along, along), _dot(start, along), _dot(start, start) - radius**2
    return (-b - np.sqrt(b * b - a * c)) / a


def _front(distance: Floats, met: NDArray[np.bool_], normal: Floats) -> Hit:
    """Return hits of surfaces in front of the rays, and misses elsewhere."""
    return Hit(np.where(met & (distance > 0), distance, np.inf), normal)
