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

CANVAS = 256  # side of the texture, of which every picture shows a part; it repeats without a seam


@spec
class ColourShapes2D:
    """Color-dSprites: `Shapes2D` whose shape has a random colour on black.

    Each channel of the colour is uniform on [1/2, 1]. The colour is no factor: it is drawn anew
    for every picture.  [Locatello2019]
    """

    sprites: Shapes2D = Shapes2D()
    seed: Seed = 0
    kind: Literal["shapes2d-colour"] = tag("shapes2d-colour")

    @property
    def lattice(self) -> Lattice:
        """That of the sprites."""
        return self.sprites.lattice

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        return _scene(self.sprites, device, functools.partial(_coloured, self.seed))


@spec
class NoisyShapes2D:
    """Noisy-dSprites: `Shapes2D` in white on noise, every channel uniform on [0, 1].

    The noise is drawn anew for every picture.  [Locatello2019]
    """

    sprites: Shapes2D = Shapes2D()
    seed: Seed = 0
    kind: Literal["shapes2d-noisy"] = tag("shapes2d-noisy")

    @property
    def lattice(self) -> Lattice:
        """That of the sprites."""
        return self.sprites.lattice

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        return _scene(self.sprites, device, functools.partial(_noisy, self.seed))


@spec
class TexturedShapes2D:
    """`Shapes2D` on a random part of a texture in a random tint; the shape inverts its colours.

    As Scream-dSprites, with a marbled texture of our own in the place of the painting: the
    background is (texture + tint) / 2 and the shape 1 minus that.  [Locatello2019]
    """

    sprites: Shapes2D = Shapes2D()
    seed: Seed = 0
    kind: Literal["shapes2d-textured"] = tag("shapes2d-textured")

    @property
    def lattice(self) -> Lattice:
        """That of the sprites."""
        return self.sprites.lattice

    def load(self, device: torch.device) -> Rendered:
        """The world on a device."""
        paint = functools.partial(_textured, texture().to(device), self.seed)
        return _scene(self.sprites, device, paint)


Paint = Callable[[Tensor, Tensor], Tensor]  # sprites (n, 1, side, side), numbers -> bytes


def _scene(sprites: Shapes2D, device: torch.device, paint: Paint) -> Rendered:
    """Sprites painted by their numbers."""
    world = sprites.load(device)

    def draw(index: Tensor) -> Tensor:
        return paint(world.images(index), index).to(torch.float32) * (1 / 255)

    shape = (3, sprites.side, sprites.side)
    return Rendered(sprites.lattice, shape, device, draw, integer_unit=1 / 255)


def _noise(seed: int, index: Tensor) -> Noise:
    """A source of random numbers for every picture."""
    # The seed is filled in on the device: nothing is copied to it, which a CUDA graph forbids.
    return Noise(torch.full_like(index, seed), index, "scenery", index.device)


def _coloured(seed: int, sprites: Tensor, index: Tensor) -> Tensor:
    channels = 127 + _noise(seed, index).integers(129, (3,), "colour")
    return sprites.to(torch.int16) * channels.to(torch.int16).view(-1, 3, 1, 1)


def _noisy(seed: int, sprites: Tensor, index: Tensor) -> Tensor:
    count = 3 * sprites.shape[-1] ** 2
    words = _noise(seed, index).words(-(-count // 4), "background")
    shifts = torch.arange(0, 32, 8, device=words.device)
    noise = (words.unsqueeze(-1) >> shifts).bitwise_and_(255).flatten(1)[:, :count]
    background = noise.to(torch.int16).view(-1, 3, *sprites.shape[2:])
    return torch.maximum(background, sprites.to(torch.int16) * 255)


def _textured(canvas: Tensor, seed: int, sprites: Tensor, index: Tensor) -> Tensor:
    noise, side = _noise(seed, index), sprites.shape[-1]
    corner = noise.integers(CANVAS, (2, 1), "corner")
    rows, columns = ((corner + torch.arange(side, device=index.device)) % CANVAS).unbind(1)
    place = rows.unsqueeze(2) * CANVAS + columns.unsqueeze(1)
    part = canvas.index_select(1, place.flatten()).view(3, *place.shape).movedim(0, 1)
    tint = noise.integers(256, (3, 1, 1), "tint").to(torch.int16)
    background = (part + tint) >> 1
    return torch.where(sprites > 0, 255 - background, background)


@functools.cache
def texture() -> Tensor:
    """Marble, (3, CANVAS^2) bytes as int16: waves whose phase is bent by other waves.

    v_c = 1/2 + 1/2 sin(2 pi (a_c . p) + 2 sin(2 pi (b_c . p) + sin(2 pi (d_c . p)))),
    p on the unit torus and all frequencies whole, so that it repeats without a seam.
    """
    turn = 2 * math.pi * np.arange(CANVAS) / CANVAS
    x, y = turn, turn[:, None]
    waves = [(3, 2, 2, -4, 5, 3), (2, -3, 4, 2, -3, 6), (-2, 3, 3, 3, 6, -4)]
    channels = [
        0.5 + 0.5 * np.sin(a * x + b * y + 2 * np.sin(c * x + d * y + np.sin(e * x + f * y)))
        for a, b, c, d, e, f in waves
    ]
    return torch.from_numpy(np.rint(255 * np.stack(channels)).reshape(3, -1)).to(torch.int16)
