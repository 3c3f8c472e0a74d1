"""The demo."""

from unweave.data import Shapes2D
from unweave.run import Run


def demo_run(seed: int) -> Run:
    return Run(data=Shapes2D(side=32), seed=seed, steps=100)
