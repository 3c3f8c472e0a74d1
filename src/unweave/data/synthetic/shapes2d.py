"""Two-dimensional shapes: the dataset of dSprites, rendered exactly and on demand.

A pixel is on if its centre, transformed into the frame of the sprite, lies inside the shape:

    (u, v) = R(t) (pixel - centre) / scale,      lower(u) <= v <= upper(u)

Every line u = const meets each of the three shapes in one interval, so two functions of u describe
a shape. Rendering is integer arithmetic on tables that are computed once, on the CPU: a GPU draws
the same pixels, bit for bit. Lengths are in pixels of the original image, which is 64 wide.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from unweave import kernels
from unweave.core.spec import spec, tag
from unweave.data.dataset import Dataset, Schema
from unweave.data.lattice import Factor, Lattice
from unweave.kernels.sprite_geometry import SpriteGeometry

Shape = Literal["square", "ellipse", "heart"]
Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

# Fitted to 320 images of the original, see docs/data.md; all of them are reproduced exactly.
HALF_SIDE = 2457 / 256  # a multiple of the table step, so the table holds the edge exactly
SEMI_AXES = (12.7659, 7.21235)
HEART = (9.6, 0.6622, -1.44)  # half width, stretch along v, offset along v
HEART_SIDES = 150  # a polygon, as in the original: the best smooth curve misses 6 images

SYMMETRY = {"square": 4, "ellipse": 2, "heart": 1}  # order of the rotational symmetry

FIELD = 64  # side of an image
MARGIN = 16  # least distance of the centre of a sprite from the border
REACH = 14  # radius that contains every shape of scale 1; a corner of the square is at 13.6
SMALLEST = 0.5  # smallest scale

COEFFICIENT_BITS = 40  # fractional bits of the rotation coefficients (int64)
PLANE_BITS = 20  # fractional bits of u and v (int32: |u| stays far below 2^11)
TABLE_BITS = 12  # a table has 2^12 steps per unit of u
NEVER = 2**30  # above every v: the bound of an empty interval

# Pixels drawn at once. On a CPU the work stays in cache and below the size at which torch wakes its
# threads: their barriers cost more than they save, and up to 20 times that on a busy machine.
CHUNK_PIXELS = {"cpu": 2**15 - 1, "cuda": 2**24}


@spec
class Shapes2D:
    """Binary images of one shape with five factors: the lattice and images of dSprites.

    Colour 1 (white); shape; scale linspace(0.5, 1); orientation linspace(0, 2 pi); x and y
    linspace(0, 1). The last factor varies fastest. Since orientation includes both ends, its last
    class repeats the first; a square or an ellipse that is rotated onto itself also repeats. The
    dataset declares this (`periods`), and metrics take it into account. The default is the original
    dataset: 737,280 images of 64 x 64.  [Matthey2017]

    A single scale is 1, a single orientation 0 and a single position the centre. `side` renders the
    same dataset on a finer or coarser grid of pixels.
    """

    side: Annotated[int, Field(ge=16, le=256)] = 64
    """Height and width of the images in pixels."""
    shapes: tuple[Shape, ...] = ("square", "ellipse", "heart")
    """Shapes that are drawn."""
    scales: Annotated[int, Field(ge=1, le=1024)] = 6
    """Number of scales (sizes of the shape)."""
    orientations: Annotated[int, Field(ge=1, le=1024)] = 40
    """Number of orientations."""
    positions: Annotated[int, Field(ge=1, le=1024)] = 32
    """Number of positions along each axis."""
    kind: Literal["shapes2d"] = tag("shapes2d")

    def __post_init__(self) -> None:
        if not self.shapes or len(set(self.shapes)) < len(self.shapes):
            raise ValueError(
                f"expected shapes as distinct names out of square, ellipse, heart, got "
                f"{self.shapes}: name each shape once"
            )
        if self.orientations == 2:
            raise ValueError(
                "expected 1 or at least 3 orientations, got 2: these would be 0 and 2 pi, the same "
                "image twice"
            )

    @property
    def lattice(self) -> Lattice:
        """The factors with their values as in the original."""
        order = ("square", "ellipse", "heart")
        shape_values = tuple(1.0 + order.index(name) for name in self.shapes)
        shape = Factor("shape", len(self.shapes), "categorical", shape_values, self.shapes)
        angles = tuple(float(angle) for angle in spaced(0, 2 * math.pi, self.orientations, 0))
        steps = tuple(float(step) for step in spaced(0, 1, self.positions, 0.5))
        scales = tuple(float(scale) for scale in spaced(SMALLEST, 1, self.scales, 1))
        return Lattice(
            (
                Factor("colour", 1, "categorical", (1.0,), ("white",)),
                shape,
                Factor("scale", self.scales, "ordinal", scales),
                Factor("orientation", self.orientations, "cyclic", angles),
                Factor("x", self.positions, "ordinal", steps),
                Factor("y", self.positions, "ordinal", steps),
            ),
            self._periods(),
        )

    def _periods(self) -> dict[str, int | dict[str, list[int]]]:
        """Return the steps of orientation after which each shape repeats."""
        turn = self.orientations - 1  # a full turn, since both ends are included
        if turn == 0:
            return {}
        each = [turn // math.gcd(SYMMETRY[shape], turn) for shape in self.shapes]
        return {"orientation": each[0] if len(set(each)) == 1 else {"shape": each}}

    def load(self, device: torch.device) -> SpriteDataset:
        """Compute the tables and copy them to a device."""
        cosine, sine = rotations(self)
        lower, upper = tables(self.side, self.shapes)
        return SpriteDataset(
            Schema.on_lattice(self.lattice, (1, self.side, self.side)),
            device,
            side=self.side,
            cosine=cosine.to(device),
            sine=sine.to(device),
            lower=lower.to(device),
            upper=upper.to(device),
        )


@final
@dataclass(frozen=True, eq=False)
class SpriteDataset(Dataset):
    """The dataset of `Shapes2D`, rendered on demand.

    Only a window around the sprite is rendered; the rest of the image stays 0.
    """

    schema: Schema
    device: torch.device
    side: int
    # (scales * orientations,) int64: (cos t, sin t) / (scale * side * q) * 2^COEFFICIENT_BITS
    cosine: Tensor = field(repr=False)
    sine: Tensor = field(repr=False)
    # (shapes * steps,) int32: the bounds of v * 2^PLANE_BITS by shape and step of u
    lower: Tensor = field(repr=False)
    upper: Tensor = field(repr=False)

    def images(self, index: Tensor) -> Tensor:
        return self._draw(index.reshape(-1), torch.float32).view(*index.shape, *self.shape)

    def masks(self, index: Tensor) -> Tensor:
        """Draw images (n, 1, side, side) of bytes 0 and 255 by their indices (n,)."""
        return self._draw(index, torch.uint8).view(-1, *self.shape)

    def _draw(self, index: Tensor, dtype: torch.dtype) -> Tensor:
        """Draw images (n, side * side) in which pixels that are on have 1, or 255 as bytes."""
        if self.device.type == "cuda" and kernels.available():
            from unweave.kernels.sprites import draw

            tables = (self.cosine, self.sine, self.lower, self.upper)
            images: Tensor = draw(index.to(self.device), frame(self), *tables)
            return images if dtype == images.dtype else images.to(dtype).neg_()
        factors = self.factors(index)
        canvas = torch.zeros(len(factors), self.side**2, dtype=dtype, device=self.device)
        chunk = CHUNK_PIXELS.get(self.device.type, CHUNK_PIXELS["cuda"]) // self.width**2
        for start in range(0, len(factors), chunk):
            some = slice(start, start + chunk)
            self._draw_onto(factors[some], canvas[some])
        return canvas

    @property
    def width(self) -> int:
        """Width of a window that contains any sprite, wherever its centre lies in a pixel."""
        return 2 * REACH * self.side // FIELD + 1

    def _draw_onto(self, factors: Tensor, canvas: Tensor) -> None:
        """Draw sprites (n, 6) onto an empty canvas (n, side * side)."""
        _, shape, scale, orientation, *position = factors.unbind(-1)
        first, offset = self._window(torch.stack(position))
        turn = scale * self.factor_sizes[3] + orientation
        inside = self._inside(shape, self.cosine[turn], self.sine[turn], offset)
        columns, rows = first.unsqueeze(-1) + torch.arange(self.width, device=self.device)
        pixels = (rows * self.side).unsqueeze(-1) + columns.unsqueeze(-2)
        on = inside.flatten(1).to(canvas.dtype)
        canvas.scatter_(1, pixels.flatten(1), on.neg_() if canvas.dtype == torch.uint8 else on)

    def _window(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first pixel (2, n) and the offsets (2, n, width) of pixels from the centre.

        Pixel j has its centre at 64 (j + 1/2) / side, the sprite at 16 + 32 x with x = p / q:
        over the common denominator side * q both are integers.
        """
        q, middle = steps_between(self.factor_sizes[4])
        centre = self.side * (MARGIN * q + (FIELD - 2 * MARGIN) * position) + middle * self.side
        near = centre - REACH * self.side * q
        first = -((FIELD // 2 * q - near) // (FIELD * q))
        pixels = first.unsqueeze(-1) + torch.arange(self.width, device=self.device)
        return first, FIELD // 2 * q * (2 * pixels + 1) - centre.unsqueeze(-1)

    def _inside(self, shape: Tensor, cosine: Tensor, sine: Tensor, offset: Tensor) -> Tensor:
        """Return whether each pixel of a window (n, rows, columns) is inside the shape.

        u = (cos t dx - sin t dy) / scale,   v = (sin t dx + cos t dy) / scale
        Products are exact in int64 along rows and columns; only their sums fill the plane.
        """
        dx, dy = offset
        cosine, sine = cosine.unsqueeze(-1), sine.unsqueeze(-1)
        steps = self.lower.shape[0] // self.factor_sizes[1]
        origin = (shape * steps + steps // 2) << (PLANE_BITS - TABLE_BITS)
        u = (_plane(cosine * dx) + origin.unsqueeze(-1).int()).unsqueeze(-2)
        u = u - _plane(sine * dy).unsqueeze(-1)
        v = _plane(sine * dx).unsqueeze(-2) + _plane(cosine * dy).unsqueeze(-1)
        step = u.bitwise_right_shift_(PLANE_BITS - TABLE_BITS).flatten()
        lower = self.lower.index_select(0, step).view_as(v)
        upper = self.upper.index_select(0, step).view_as(v)
        return (v >= lower).logical_and_(v <= upper)


def frame(dataset: SpriteDataset) -> SpriteGeometry:
    """Return the integers that the kernel needs."""
    sizes, side = dataset.factor_sizes, dataset.side
    q, middle = steps_between(sizes[4])
    return SpriteGeometry(
        side=side,
        width=dataset.width,
        positions=sizes[4],
        orientations=sizes[3],
        scales=sizes[2],
        half=FIELD // 2 * q,
        field=FIELD * q,
        reach=REACH * side * q,
        spacing=side * (FIELD - 2 * MARGIN),
        origin=side * (MARGIN * q + middle),
        steps=dataset.lower.shape[0] // sizes[1],
        coarse=COEFFICIENT_BITS - PLANE_BITS,
        fine=PLANE_BITS - TABLE_BITS,
    )


def spaced(first: float, last: float, count: int, single: float) -> Floats:
    """Return `count` equally spaced values, both ends included; a single one is `single`."""
    return np.linspace(first, last, count) if count > 1 else np.array([float(single)])


def steps_between(positions: int) -> tuple[int, int]:
    """Return the number q of steps between positions, and the shift of a single position."""
    return (positions - 1, 0) if positions > 1 else (1, FIELD // 2 - MARGIN)


def rotations(dataset: Shapes2D) -> tuple[Tensor, Tensor]:
    """Compute cos(t) / scale and sin(t) / scale as integers, (scales * orientations,) each.

    The angle is reduced modulo a full turn first, so 2 pi gives the same bits as 0.
    """
    q, _ = steps_between(dataset.positions)
    turns = max(dataset.orientations - 1, 1)
    angle = 2 * math.pi * (np.arange(dataset.orientations) % turns) / turns
    scale = spaced(SMALLEST, 1, dataset.scales, 1)[:, None]
    size = 2.0**COEFFICIENT_BITS / (scale * dataset.side * q)
    cosine, sine = (_integers(curve(angle) * size, torch.int64) for curve in (np.cos, np.sin))
    return cosine, sine


@functools.lru_cache(maxsize=8)
def tables(side: int, shapes: tuple[Shape, ...]) -> tuple[Tensor, Tensor]:
    """Compute the bounds of v at the middle of every step of u, shape after shape."""
    # Distance of a corner of the window in the frame of the smallest sprite.
    reach = math.ceil(math.sqrt(2) * (REACH + FIELD / side) / SMALLEST) + 1
    u = (np.arange(2 * reach << TABLE_BITS) + 0.5) / 2**TABLE_BITS - reach
    bounds = [OUTLINES[name](u) for name in shapes]
    lower = np.concatenate([lower for lower, _ in bounds]) * 2**PLANE_BITS
    upper = np.concatenate([upper for _, upper in bounds]) * 2**PLANE_BITS
    return (
        _integers(np.nan_to_num(lower, nan=NEVER), torch.int32),
        _integers(np.nan_to_num(upper, nan=-NEVER), torch.int32),
    )


def square(u: Floats) -> Bounds:
    """Return the bounds of |u| <= r, |v| <= r: NaN where the line u = const misses it."""
    half = np.where(np.abs(u) <= HALF_SIDE, HALF_SIDE, np.nan)
    return -half, half


def ellipse(u: Floats) -> Bounds:
    """Return the bounds of (u / a)^2 + (v / b)^2 <= 1: |v| <= b sqrt(1 - (u / a)^2)."""
    a, b = SEMI_AXES
    half = b * np.sqrt(np.where(np.abs(u) <= a, 1 - (u / a) ** 2, np.nan))
    return -half, half


def heart(u: Floats) -> Bounds:
    """Return the bounds of the polygon through 150 points of the heart curve.

    u = a sin^3 s,   v = o - k (13 cos s - 5 cos 2s - 2 cos 3s - cos 4s)
    cos s > 0 is the upper side of the image (v points down), cos s < 0 the lower.
    """
    a, k, o = HEART
    s = 2 * math.pi * np.arange(HEART_SIDES) / HEART_SIDES
    x = a * np.sin(s) ** 3
    y = o - k * (13 * np.cos(s) - 5 * np.cos(2 * s) - 2 * np.cos(3 * s) - np.cos(4 * s))
    above = np.cos(s) > 0
    return _chain(u, x[above], y[above]), _chain(u, x[~above], y[~above])


OUTLINES: dict[str, Callable[[Floats], Bounds]] = {
    "square": square,
    "ellipse": ellipse,
    "heart": heart,
}


def _chain(u: Floats, x: Floats, y: Floats) -> Floats:
    """Interpolate the points (x, y) linearly; NaN beyond their ends."""
    order = np.argsort(x)
    return np.interp(u, x[order], y[order], left=np.nan, right=np.nan)


def _integers(values: Floats, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.rint(values).ravel()).to(dtype)


def _plane(product: Tensor) -> Tensor:
    """Round an exact product (int64) to the precision of the plane (int32)."""
    return (product >> (COEFFICIENT_BITS - PLANE_BITS)).int()
