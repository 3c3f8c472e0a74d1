"""The objective's weights at each step, worked out on the host for many steps at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.core.schedules import at
from unweave.training.flat_parameters import Tensors
from unweave.training.run import Run

_STEPS = 200  # steps whose weights are held on the device


class WeightTable:
    """The weights of every lane's objective and labels at the coming steps, on the device.

    A step reads its row of `values` (steps, weights, L), so schedules need no work on the host
    while recorded steps are replayed.
    """

    def __init__(self, runs: Sequence[Run], device: torch.device) -> None:
        self.last = runs[0].steps
        self.schedules = {name: [run.weights[name] for run in runs] for name in runs[0].weights}
        self.values = torch.empty((_STEPS, len(self.schedules), len(runs)), device=device)
        self._held = range(0)

    def seek(self, step: int) -> None:
        """Hold the weights of a step, and of those that follow it."""
        if step in self._held:
            return
        start = step - step % _STEPS
        self._held = range(start, start + _STEPS)
        schedules = self.schedules.values()
        rows = [
            [[at(weight, min(s, self.last)) for weight in lanes] for lanes in schedules]
            for s in self._held
        ]
        self.values.copy_(torch.tensor(rows).reshape(self.values.shape))

    def steps_left(self, step: int) -> int:
        """Return how many steps, this one included, can be taken before `seek` is due."""
        return self._held.stop - step

    def read(self, clock: Tensor, values: Tensor) -> Tensors:
        """Return each weight (L,) at the step that the clock (L,) shows, out of `self.values`."""
        row = values.index_select(0, clock[:1] % _STEPS)[0]
        return dict(zip(self.schedules, row, strict=True))

    def at(self, step: int) -> Tensors:
        """Compute each weight (L,) at any one step."""
        return {
            name: torch.tensor([at(weight, step) for weight in lanes], device=self.values.device)
            for name, lanes in self.schedules.items()
        }
