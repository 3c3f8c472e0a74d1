"""Draw the sprites of `unweave.data.synthetic.shapes2d` in one kernel, bit for bit."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels.sprite_geometry import SpriteGeometry


@triton.jit
def _draw_kernel(
    index, cosine, sine, lower, upper, canvas, steps, half, field, reach, spacing, origin,
    SIDE: tl.constexpr, WIDTH: tl.constexpr, POSITIONS: tl.constexpr, TURNS: tl.constexpr,
    SCALES: tl.constexpr, COARSE: tl.constexpr, FINE: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(0).to(tl.int64)
    number = tl.load(index + image)
    py = number % POSITIONS
    px = number // POSITIONS % POSITIONS
    orientation = number // (POSITIONS * POSITIONS) % TURNS
    scale = number // (POSITIONS * POSITIONS * TURNS) % SCALES
    shape = number // (POSITIONS * POSITIONS * TURNS * SCALES)
    c = tl.load(cosine + scale * TURNS + orientation)
    s = tl.load(sine + scale * TURNS + orientation)
    pixel = (tl.program_id(1) * SIZE + tl.arange(0, SIZE)).to(tl.int64)
    row, column = pixel // SIDE, pixel % SIDE
    centre_x, centre_y = origin + spacing * px, origin + spacing * py
    first_x = (centre_x - reach - half + field - 1) // field
    first_y = (centre_y - reach - half + field - 1) // field
    inside = (column >= first_x) & (column < first_x + WIDTH)
    inside &= (row >= first_y) & (row < first_y + WIDTH)
    dx, dy = half * (2 * column + 1) - centre_x, half * (2 * row + 1) - centre_y
    start = ((shape * steps + steps // 2) << FINE).to(tl.int32)
    u = ((c * dx) >> COARSE).to(tl.int32) + start - ((s * dy) >> COARSE).to(tl.int32)
    v = ((s * dx) >> COARSE).to(tl.int32) + ((c * dy) >> COARSE).to(tl.int32)
    step = u >> FINE
    low = tl.load(lower + step, mask=inside, other=1)
    high = tl.load(upper + step, mask=inside, other=0)
    on = inside & (v >= low) & (v <= high)
    tl.store(canvas + image * SIDE * SIDE + pixel, on.to(tl.float32), mask=row < SIDE)


def draw(
    index: Tensor,
    geometry: SpriteGeometry,
    cosine: Tensor,
    sine: Tensor,
    lower: Tensor,
    upper: Tensor,
) -> Tensor:
    """Return images (n, side * side) of zeros and ones by their indices (n,)."""
    g, size = geometry, 1024
    canvas = torch.empty((len(index), g.side**2), device=index.device)
    grid = (len(index), triton.cdiv(g.side**2, size))  # only the first may exceed 65,535
    _draw_kernel[grid](
        index.contiguous(), cosine, sine, lower, upper, canvas, g.steps, g.half, g.field, g.reach,
        g.spacing, g.origin, g.side, g.width, g.positions, g.orientations, g.scales, g.coarse,
        g.fine, size,
    )  # fmt: skip
    return canvas
