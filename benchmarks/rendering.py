"""How fast datasets are drawn, against a loop that draws one picture after the other.

python benchmarks/rendering.py [--device cuda] [--batch 1024]

The loops are what one would write first: of shapes2d, every pixel of a picture by its formula in
NumPy; of shapes3d, the rays of a picture cast anew. Both draw the same pictures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from unweave.core.noise import Noise
from unweave.data import (
    Blobs,
    ColourShapes2D,
    Dataset,
    NoisyShapes2D,
    Shapes2D,
    Shapes3D,
    TexturedShapes2D,
)
from unweave.data.synthetic import shapes2d, shapes3d


def sprite(classes: list[int]) -> np.ndarray:
    """One picture of Shapes2D in float64."""
    spec = Shapes2D()
    values = [f.values[c] for f, c in zip(spec.lattice.members, classes, strict=True)]
    _, shape, scale, angle, x, y = values
    pixel = np.arange(64) + 0.5
    dx, dy = pixel - (16 + 32 * x), pixel[:, None] - (16 + 32 * y)
    u = (np.cos(angle) * dx - np.sin(angle) * dy) / scale
    v = (np.sin(angle) * dx + np.cos(angle) * dy) / scale
    lower, upper = shapes2d.OUTLINES[spec.shapes[int(shape) - 1]](u)
    return (v >= lower) & (v <= upper)


def scene(classes: list[int]) -> np.ndarray:
    """The tables of one picture of Shapes3D."""
    spec = Shapes3D()
    scale, shape, orientation = classes[3:]
    members = spec.lattice.members
    with np.errstate(all="ignore"):
        view = shapes3d.room(64, np.radians(members[5].values[orientation]))
        return shapes3d.planes(view, spec.shapes[shape], members[3].values[scale])


def rate(draw: Callable[[], object], count: int, device: torch.device, seconds: float) -> float:
    """Pictures in a second, the best of several tries."""
    best, stop = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < stop or not best:
        start = time.perf_counter()
        draw()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = max(best, count / (time.perf_counter() - start))
    return best


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    device = torch.device(options.device)
    loops: dict[str, Callable[[list[int]], np.ndarray]] = {"shapes2d": sprite, "shapes3d": scene}
    print(f"{'dataset':20}{'images/s':>12}{'loop':>10}{'ratio':>8}{'load s':>8}")
    for spec in (
        Shapes2D(),
        ColourShapes2D(),
        NoisyShapes2D(),
        TexturedShapes2D(),
        Shapes3D(),
        Blobs(side=64),
    ):
        start = time.perf_counter()
        dataset: Dataset = spec.load(device)
        loaded = time.perf_counter() - start
        index = Noise(0, 0, "", device).integers(dataset.size, (options.batch,), "index")
        fast = rate(lambda w=dataset, i=index: w.images(i), options.batch, device, options.seconds)
        line = f"{spec.kind:20}{fast:12,.0f}"
        if loop := loops.get(spec.kind):
            some = dataset.factors(index[:32]).tolist()
            slow = rate(
                lambda draw=loop, all=some: [draw(each) for each in all],
                32,
                device,
                options.seconds,
            )
            line += f"{slow:10,.0f}{fast / slow:8,.0f}"
        else:
            line += " " * 18
        print(f"{line}{loaded:8.2f}", flush=True)


if __name__ == "__main__":
    main()
