"""Shapes2D in colour, on noise and on a texture: what a picture shows besides its factors.

What is not a factor is drawn from the number of the picture alone, so that a picture is the same
whenever, wherever and with whichever others it is drawn. All values are whole bytes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unweave.data.lattice import Lattice
from unweave.data.rendered import Rendered
from unweave.data.shapes2d import Shapes2D
from unweave.noise import Noise
from unweave.spec import spec, tag

Seed = Annotated[int, Field(ge=0, lt=2**63)]

NUMBERS = 2**15 - 1  # pixels whose noise is drawn at once on a CPU, see `rendered`
CANVAS = 256  # side of the texture, of which every picture shows a part; it repeats without a seam


@spec
class Scenery:
    """Sprites, and the seed of what else a picture shows."""

    sprites: Shapes2D = Shapes2D()
    seed: Seed = 0

    @property
    def lattice(self) -> Lattice:
        """That of the sprites."""
        return self.sprites.lattice


@spec
class ColourShapes2D(Scenery):
    """Color-dSprites: `Shapes2D` whose shape has a random colour on black.

    Each channel of the colour is uniform on [1/2, 1]. The colour is no factor: it is drawn anew
    for every picture.  [Locatello2019]
    """

    kind: Literal["shapes2d-colour"] = tag("shapes2d-colour")

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        return _scene(self.sprites, device, self.seed, _colour, torch.mul)


@spec
class NoisyShapes2D(Scenery):
    """Noisy-dSprites: `Shapes2D` in white on noise, every channel uniform on [0, 1].

    The noise is drawn anew for every picture.  [Locatello2019]
    """

    kind: Literal["shapes2d-noisy"] = tag("shapes2d-noisy")

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        pixels = self.sprites.side**2
        draw = functools.partial(_background, 3 * pixels)
        together = max(1, NUMBERS // pixels)
        return _scene(self.sprites, device, self.seed, draw, _on_noise, together)


@spec
class TexturedShapes2D(Scenery):
    """`Shapes2D` on a random part of a texture in a random tint; the shape inverts its colours.

    As Scream-dSprites, with a marbled texture of our own in the place of the painting: the
    background is (texture + tint) / 2 and the shape 1 minus that.  [Locatello2019]
    """

    kind: Literal["shapes2d-textured"] = tag("shapes2d-textured")

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        paint = functools.partial(_on_texture, texture(self.sprites.side).to(device))
        return _scene(self.sprites, device, self.seed, _part, paint)


Draw = Callable[[Noise], tuple[Tensor, ...]]  # what is random of pictures (n,), as tensors (n, ...)
Paint = Callable[..., Tensor]  # sprites (n, 1, side, side) and what is random -> pictures


def _scene(
    sprites: Shapes2D,
    device: torch.device,
    seed: int,
    draw: Draw,
    paint: Paint,
    together: int | None = None,
) -> Rendered:
    """Sprites painted by their numbers."""
    world = sprites.load(device)

    def prepare(index: Tensor) -> tuple[Tensor, ...]:
        # The seed is filled in on the device: nothing is copied to it, which a CUDA graph forbids.
        noise = Noise(torch.full_like(index, seed), index, "scenery", index.device)
        return world.images(index), *draw(noise)

    shape = (3, sprites.side, sprites.side)
    return Rendered(sprites.lattice, device, shape, paint, prepare, together, integer_unit=1 / 255)


def _values(levels: Tensor) -> Tensor:
    """Bytes as numbers in [0, 1]."""
    return levels.to(torch.float32).mul_(1 / 255)


def _colour(noise: Noise) -> tuple[Tensor, ...]:
    return (_values(127 + noise.integers(129, (3, 1, 1), "colour")),)


def _background(count: int, noise: Noise) -> tuple[Tensor, ...]:
    """Random bytes, (n, count): the four of each word."""
    words = noise.words(-(-count // 4), "background").to(torch.int32).contiguous()
    return (words.view(torch.uint8)[:, :count],)


def _on_noise(sprites: Tensor, levels: Tensor) -> Tensor:
    return torch.maximum(_values(levels).view(-1, 3, *sprites.shape[2:]), sprites)


def _part(noise: Noise) -> tuple[Tensor, ...]:
    """A corner of the texture and a tint."""
    corner = noise.integers(CANVAS, (2,), "corner")
    return corner, noise.integers(256, (3, 1, 1), "tint").to(torch.int16)


def _on_texture(canvas: Tensor, sprites: Tensor, corner: Tensor, tint: Tensor) -> Tensor:
    side = sprites.shape[-1]
    steps = torch.arange(side, device=corner.device)
    rows, columns = (corner.unsqueeze(-1) + steps).unbind(1)
    place = (rows * canvas.shape[-1]).unsqueeze(2) + columns.unsqueeze(1)
    parts = canvas.flatten(1).index_select(1, place.flatten()).view(3, *place.shape)
    levels = (parts.movedim(0, 1) + tint).bitwise_right_shift_(1)
    return _values(levels.bitwise_xor_(sprites.to(torch.int16).mul_(255)))  # 255 - b is b ^ 255


@functools.cache
def texture(more: int = 0) -> Tensor:
    """Marble, (3, CANVAS + more, CANVAS + more) bytes as int16: waves bent by other waves.

    v_c = 1/2 + 1/2 sin(2 pi (a_c . p) + 2 sin(2 pi (b_c . p) + sin(2 pi (d_c . p)))),
    p on the unit torus and all frequencies whole, so that it repeats without a seam.
    """
    turn = 2 * math.pi * (np.arange(CANVAS + more) % CANVAS) / CANVAS
    x, y = turn, turn[:, None]
    waves = [(2, 1, 1, -2, 3, 1), (1, -2, 2, 1, -1, 3), (-1, 2, 1, 2, 3, -2)]
    channels = [
        0.5 + 0.5 * np.sin(a * x + b * y + 2 * np.sin(c * x + d * y + np.sin(e * x + f * y)))
        for a, b, c, d, e, f in waves
    ]
    return torch.from_numpy(np.rint(255 * np.stack(channels))).to(torch.int16)
