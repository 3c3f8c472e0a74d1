"""Shapes2D in colour, on noise and on a texture: what a picture shows besides its factors.

What is not a factor is drawn from the number of the picture alone, so that a picture is the same
whenever, wherever and with whichever others it is drawn. All values are whole bytes, and eight of
them are painted at a time, as one word.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Seed, spec, tag
from unweave.data.drawn.renderer import Rendered
from unweave.data.drawn.shapes2d import Shapes2D
from unweave.data.lattice import Lattice

CANVAS = 256  # side of the texture, of which every picture shows a part; it repeats without a seam
NUMBERS = 2**15 - 1  # words or bytes that a CPU paints at once, see `rendered`
STARTS = 2**16  # places in a table of noise at which a picture may begin

_ONES = 0x0101010101010101  # a byte times this is a word of eight of them


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
        """The dataset on a device."""
        return _scene(self, device, _colour, _in_colour)


@spec
class NoisyShapes2D(Scenery):
    """Noisy-dSprites: `Shapes2D` in white on noise, every channel uniform on [0, 1].

    The noise of picture i is a_s xor b_t, byte by byte: parts of two tables of random bytes, which
    begin at places s and t that are drawn for i. Bytes of a picture are independent, and so are
    those of two pictures unless s and t of the two differ by the same d of less than the W words
    of a picture: then one shows a part of the other's noise, moved by d. The chance of that is

    sum_{|d| < W} ((2^16 - |d|) / 2^32)^2 ~ 2 W / 2^32,   2^-20.4 for pictures of 64 x 64

    and that of the same noise (d = 0) 2^-32.  [Locatello2019]
    """

    kind: Literal["shapes2d-noisy"] = tag("shapes2d-noisy")

    def load(self, device: torch.device) -> Rendered:
        """The dataset on a device."""
        paint = functools.partial(_on_noise, *tables(self.seed, 3 * self.sprites.side**2, device))
        return _scene(self, device, _starts, paint)


@spec
class TexturedShapes2D(Scenery):
    """`Shapes2D` on a random part of a texture in a random tint; the shape inverts its colours.

    As Scream-dSprites, with a marbled texture of our own in the place of the painting: the
    background is (texture + tint) / 2 and the shape 1 minus that.  [Locatello2019]
    """

    kind: Literal["shapes2d-textured"] = tag("shapes2d-textured")

    def load(self, device: torch.device) -> Rendered:
        """The dataset on a device."""
        side = self.sprites.side
        table = shifted(texture(side), _kind(side)).to(device)
        return _scene(self, device, _part, functools.partial(_on_texture, table))


Draw = Callable[[Noise], tuple[Tensor, ...]]  # what is random of pictures (n,), as tensors (n, ...)
Paint = Callable[..., Tensor]  # masks (n, 1, P) and what is random -> pictures (n, 3, P)


def _scene(scenery: Scenery, device: torch.device, draw: Draw, paint: Paint) -> Rendered:
    """Sprites painted by their numbers.

    Painters see P pixels as words of eight bytes, or as bytes where the side has no whole words.
    """
    sprites, side = scenery.sprites.load(device), scenery.sprites.side
    kind = _kind(side)

    def prepare(index: Tensor) -> tuple[Tensor, ...]:
        # The seed is filled in on the device: nothing is copied to it, which a CUDA graph forbids.
        noise = Noise(torch.full_like(index, scenery.seed), index, "scenery", index.device)
        return sprites.masks(index).flatten(2).view(kind), *draw(noise)

    def painted(masks: Tensor, *random: Tensor) -> Tensor:
        return paint(masks, *random).view(torch.uint8).view(-1, 3, side, side)

    together = max(1, NUMBERS * kind.itemsize // (3 * side**2))
    shape = (3, side, side)
    return Rendered(
        sprites.lattice, device, shape, painted, prepare, together, integer_unit=1 / 255
    )


def _kind(side: int) -> torch.dtype:
    """What painters paint with."""
    return torch.int64 if side % 8 == 0 else torch.uint8


def _words(levels: Tensor, masks: Tensor) -> Tensor:
    """Levels (n, 3), 0 to 255, over as many pixels as an element of the masks has, (n, 3, 1)."""
    return (levels * _ONES if masks.dtype == torch.int64 else levels.to(torch.uint8)).unsqueeze(-1)


def _colour(noise: Noise) -> tuple[Tensor, ...]:
    return (128 + noise.integers(128, (3,), "colour"),)


def _in_colour(masks: Tensor, levels: Tensor) -> Tensor:
    return masks & _words(levels, masks)


def tables(seed: int, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Two tables of random words of eight bytes, of which any part has `count` bytes and more."""
    length = STARTS + -(-count // 8)
    words = Noise(seed, 0, "noise", "cpu").words(4 * length, "tables").view(2, length, 2)
    first, second = (words.to(torch.int32).view(torch.int64).squeeze(-1)).to(device)
    return first, second


def _starts(noise: Noise) -> tuple[Tensor, ...]:
    return noise.integers(STARTS, (2,), "starts").unbind(-1)


def _on_noise(a: Tensor, b: Tensor, masks: Tensor, s: Tensor, t: Tensor) -> Tensor:
    width = len(a) - STARTS
    parts = [
        table.as_strided((STARTS, width), (1, 1)).index_select(0, start)
        for table, start in ((a, s), (b, t))
    ]
    pixels = masks.shape[2] * masks.element_size()
    levels = parts[0].bitwise_xor_(parts[1]).view(torch.uint8)[:, : 3 * pixels]
    return levels.reshape(-1, 3, pixels).view(masks.dtype) | masks


def shifted(canvas: Tensor, kind: torch.dtype) -> Tensor:
    """A texture (3, H, W) from each of its first columns on, so that any part is whole words."""
    return torch.stack([canvas.roll(-by, -1) for by in range(kind.itemsize)]).view(kind)


def _part(noise: Noise) -> tuple[Tensor, ...]:
    """A corner of the texture, row and column, and a tint."""
    row, column, *tint = noise.integers(2**16, (5,), "part").unbind(-1)
    return row % CANVAS, column % CANVAS, (129 * torch.stack(tint, -1)) >> 16


def _on_texture(table: Tensor, masks: Tensor, row: Tensor, column: Tensor, tint: Tensor) -> Tensor:
    shifts, _, height, width = table.shape
    side, across = height - CANVAS, CANVAS // shifts
    corner = (column % shifts * 3 * height + row) * width + column // shifts
    last = ((shifts - 1) * 3 * height + CANVAS) * width
    window = (3, side, width - across)
    parts = table.as_strided((last, *window), (1, height * width, width, 1))
    levels = parts.index_select(0, corner).flatten(2)
    # No byte passes 255, so that none carries into the next.
    return levels.add_(_words(tint, masks)).bitwise_xor_(masks)  # 255 - b is b ^ 255


@functools.cache
def texture(more: int = 0) -> Tensor:
    """Marble, (3, CANVAS + more, CANVAS + more) bytes of at most 127: waves bent by other waves.

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
    return torch.from_numpy(np.rint(127 * np.stack(channels))).to(torch.uint8)
