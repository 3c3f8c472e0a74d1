"""Shapes2D in random colours, on noise and on a texture, none of which are factors.

The random content is a function of the seed and the index of the image, so that an image is always
the same, whichever others are drawn with it. All values are whole bytes, and eight of them are
painted at a time, as one word.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Seed, spec, tag
from unweave.data.dataset import Schema
from unweave.data.lattice import Lattice
from unweave.data.scaling import BYTES
from unweave.data.synthetic.renderer import RenderedDataset
from unweave.data.synthetic.shapes2d import Shapes2D

CANVAS = 256  # side of the seamless texture, of which every image shows a crop
NUMBERS = 2**15 - 1  # words or bytes that a CPU paints at once, see `renderer`
STARTS = 2**16  # offsets in a table of noise at which the noise of an image may start

_ONES = 0x0101010101010101  # a byte times this is a word of eight of them


@spec
class Scenery:
    """Sprites, and the seed of the random content of their images."""

    sprites: Shapes2D = Shapes2D()
    """The sprites that are drawn."""
    seed: Seed = 0
    """Seed of the random numbers."""

    @property
    def lattice(self) -> Lattice:
        """The lattice of the sprites."""
        return self.sprites.lattice


@spec
class ColourShapes2D(Scenery):
    """Color-dSprites: `Shapes2D` in a random colour on black.

    Each channel of the colour is uniform on [1/2, 1] and drawn for every image; the colour is not a
    factor.  [Locatello2019]
    """

    kind: Literal["shapes2d-colour"] = tag("shapes2d-colour")

    def load(self, device: torch.device) -> RenderedDataset:
        """Load the dataset on a device."""
        return _scene(
            self,
            device,
            lambda noise: (128 + noise.integers(128, (3,), "colour"),),
            lambda masks, levels: masks & _words(levels, masks),
        )


@spec
class NoisyShapes2D(Scenery):
    """Noisy-dSprites: `Shapes2D` in white on noise, every channel uniform on [0, 1].

    The noise of image i is a_s xor b_t, byte by byte: excerpts of two tables of random bytes that
    start at offsets s and t drawn for i. The bytes of an image are independent, and so are those of
    two images, unless both offsets of the two differ by the same d, smaller than the W words of an
    image: then one image repeats noise of the other, shifted by d. The probability of that is

    sum_{|d| < W} ((2^16 - |d|) / 2^32)^2 ~ 2 W / 2^32,   2^-20.4 for images of 64 x 64

    and that of identical noise (d = 0) is 2^-32.  [Locatello2019]
    """

    kind: Literal["shapes2d-noisy"] = tag("shapes2d-noisy")

    def load(self, device: torch.device) -> RenderedDataset:
        """Load the dataset on a device."""
        paint = functools.partial(
            _paint_noise, *tables(self.seed, 3 * self.sprites.side**2, device)
        )
        return _scene(self, device, _draw_starts, paint)


@spec
class TexturedShapes2D(Scenery):
    """`Shapes2D` on a random crop of a texture in a random tint; the shape inverts its colours.

    This is Scream-dSprites with a marbled texture of our own instead of the painting: the
    background is (texture + tint) / 2, and the shape is 1 minus that.  [Locatello2019]
    """

    kind: Literal["shapes2d-textured"] = tag("shapes2d-textured")

    def load(self, device: torch.device) -> RenderedDataset:
        """Load the dataset on a device."""
        side = self.sprites.side
        table = shifted_copies(texture(side), _word_type(side)).to(device)
        return _scene(self, device, _draw_crop, functools.partial(_paint_texture, table))


Draw = Callable[[Noise], tuple[Tensor, ...]]  # noise -> random tensors (n, ...) of n images
Paint = Callable[..., Tensor]  # masks (n, 1, P) and random tensors -> images (n, 3, P)


def _scene(scenery: Scenery, device: torch.device, draw: Draw, paint: Paint) -> RenderedDataset:
    """Return a dataset that paints sprites with random content.

    Painters see P words of eight bytes, or bytes if the side is not a multiple of eight.
    """
    sprites, side = scenery.sprites.load(device), scenery.sprites.side
    kind = _word_type(side)

    def prepare(index: Tensor) -> tuple[Tensor, ...]:
        # The seed is filled in on the device: a CUDA graph forbids copies to it.
        noise = Noise(torch.full_like(index, scenery.seed), index, "scenery", index.device)
        return sprites.masks(index).flatten(2).view(kind), *draw(noise)

    def painted(masks: Tensor, *random: Tensor) -> Tensor:
        return paint(masks, *random).view(torch.uint8).view(-1, 3, side, side)

    together = max(1, NUMBERS * kind.itemsize // (3 * side**2))
    schema = Schema.on_lattice(scenery.lattice, (3, side, side), scaling=BYTES)
    return RenderedDataset(schema, device, painted, prepare, together)


def _word_type(side: int) -> torch.dtype:
    return torch.int64 if side % 8 == 0 else torch.uint8


def _words(levels: Tensor, masks: Tensor) -> Tensor:
    """Repeat levels (n, 3), 0 to 255, for each pixel of an element of the masks, (n, 3, 1)."""
    return (levels * _ONES if masks.dtype == torch.int64 else levels.to(torch.uint8)).unsqueeze(-1)


def tables(seed: int, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Draw two tables of random words with at least `count` bytes after any start."""
    length = STARTS + -(-count // 8)
    words = Noise(seed, 0, "noise", "cpu").words(4 * length, "tables").view(2, length, 2)
    first, second = (words.to(torch.int32).view(torch.int64).squeeze(-1)).to(device)
    return first, second


def _draw_starts(noise: Noise) -> tuple[Tensor, ...]:
    return noise.integers(STARTS, (2,), "starts").unbind(-1)


def _paint_noise(a: Tensor, b: Tensor, masks: Tensor, s: Tensor, t: Tensor) -> Tensor:
    width = len(a) - STARTS
    excerpts = [
        table.as_strided((STARTS, width), (1, 1)).index_select(0, start)
        for table, start in ((a, s), (b, t))
    ]
    pixels = masks.shape[2] * masks.element_size()
    levels = excerpts[0].bitwise_xor_(excerpts[1]).view(torch.uint8)[:, : 3 * pixels]
    return levels.reshape(-1, 3, pixels).view(masks.dtype) | masks


def shifted_copies(canvas: Tensor, kind: torch.dtype) -> Tensor:
    """Stack copies of a texture (3, H, W) shifted by 0, 1, ... bytes: any crop is whole words."""
    return torch.stack([canvas.roll(-by, -1) for by in range(kind.itemsize)]).view(kind)


def _draw_crop(noise: Noise) -> tuple[Tensor, ...]:
    """Draw the row and column of a corner of the texture, and a tint."""
    row, column, *tint = noise.integers(2**16, (5,), "part").unbind(-1)
    return row % CANVAS, column % CANVAS, (129 * torch.stack(tint, -1)) >> 16


def _paint_texture(
    table: Tensor, masks: Tensor, row: Tensor, column: Tensor, tint: Tensor
) -> Tensor:
    shifts, _, height, width = table.shape
    side, across = height - CANVAS, CANVAS // shifts
    corner = (column % shifts * 3 * height + row) * width + column // shifts
    last = ((shifts - 1) * 3 * height + CANVAS) * width
    window = (3, side, width - across)
    crops = table.as_strided((last, *window), (1, height * width, width, 1))
    levels = crops.index_select(0, corner).flatten(2)
    # No byte exceeds 255, so none carries into the next.
    return levels.add_(_words(tint, masks)).bitwise_xor_(masks)  # 255 - b is b ^ 255


@functools.cache
def texture(more: int = 0) -> Tensor:
    """Compute marble (3, CANVAS + more, CANVAS + more) in bytes up to 127: waves bent by waves.

    v_c = 1/2 + 1/2 sin(2 pi (a_c . p) + 2 sin(2 pi (b_c . p) + sin(2 pi (d_c . p)))),
    where p is on the unit torus and all frequencies are integers, so it repeats without a seam.
    """
    turn = 2 * math.pi * (np.arange(CANVAS + more) % CANVAS) / CANVAS
    x, y = turn, turn[:, None]
    waves = [(2, 1, 1, -2, 3, 1), (1, -2, 2, 1, -1, 3), (-1, 2, 1, 2, 3, -2)]
    channels = [
        0.5 + 0.5 * np.sin(a * x + b * y + 2 * np.sin(c * x + d * y + np.sin(e * x + f * y)))
        for a, b, c, d, e, f in waves
    ]
    return torch.from_numpy(np.rint(127 * np.stack(channels))).to(torch.uint8)
