"""How steps are taken: one after another from Python, or on CUDA recorded once and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.training.compile import fused
from unweave.training.lanes import Lanes

Row = dict[str, Any]
# Names of the terms, their sums, the steps at which they broke, and how many steps there were.
Told = tuple[list[str], NDArray[np.float64], NDArray[np.int64], int]

_WARM_UP = 3  # steps from Python before one is recorded, which set up what libraries keep


class Record:
    """Sums of the terms since the last row of the log, and the first step at which one broke.

    All of it is on the device, in tensors that stay where they are.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.count = lanes, 0
        self.names: list[str] = []  # of the terms
        self.sums = self.broken = torch.empty(0)  # (terms, L)
        self._take = fused(self._taken, lanes.compiles)

    def add(self) -> None:
        """Take a step, and take in its terms and their shares of the loss, (L,)."""
        values, weighted = self.lanes.move()
        self._name(list(values))
        self._take(self.sums, self.broken, self.lanes.clock, values, weighted)

    def _name(self, names: list[str]) -> None:
        if self.names:
            return
        self.names = names
        shape = (len(self.names), len(self.lanes.runs))
        self.sums = torch.zeros(shape, dtype=torch.float64, device=self.lanes.device)
        self.broken = torch.full(shape, -1, device=self.lanes.device)

    def tell(self) -> Told:
        """All there is, for a record in another process to take in."""
        return self.names, self.sums.numpy(), self.broken.numpy(), self.count

    def join(self, told: Told) -> None:
        """Take in what another record tells of later steps."""
        names, sums, broken, count = told
        self._name(names)
        self.sums += torch.from_numpy(sums)
        self.broken.copy_(torch.where(self.broken < 0, torch.from_numpy(broken), self.broken))
        self.count += count

    def _taken(
        self,
        sums: Tensor,
        broken: Tensor,
        clock: Tensor,
        values: Mapping[str, Tensor],
        weighted: Mapping[str, Tensor],
    ) -> None:
        """Add the values to the sums, and put down the step where a share is not finite."""
        sums += torch.stack([values[name] for name in self.names])
        shares = torch.stack([weighted[name] for name in self.names])
        broken.copy_(torch.where((broken < 0) & ~shares.isfinite(), clock - 1, broken))

    def rows(self, step: int) -> list[Row]:
        """The mean of every term in each lane."""
        means = (self.sums / self.count).T.tolist()
        return [{"step": step, **dict(zip(self.names, lane, strict=True))} for lane in means]

    def failures(self) -> dict[int, Row]:
        """For every broken lane, the step and the term that broke first."""
        found: dict[int, Row] = {}
        for name, steps in zip(self.names, self.broken.tolist(), strict=True):
            for lane, step in enumerate(steps):
                if step >= 0 and (lane not in found or step < found[lane]["step"]):
                    found[lane] = {"step": step, "term": name}
        return found

    def clear(self) -> None:
        """Begin a new row."""
        self.sums.zero_()
        self.broken.fill_(-1)
        self.count = 0


class Engine:
    """Takes many steps of lanes between two looks of the host.

    On CUDA a step is a few hundred small kernels whose launches take longer than their work. So
    the first steps are taken from Python, one more is recorded as a CUDA graph, both players and
    all lanes in it, and from then on steps are replays. A replay reads and writes the tensors that
    `Lanes` and the record hold; where lanes are dropped these change, and a new engine is made.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.record = lanes, Record(lanes)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def run(self, steps: int) -> None:
        """Take steps, and add their terms to the record."""
        while steps:
            for _ in range(ready := min(steps, self.lanes.prepare())):
                self.step()
                self.lanes.step += 1
            self.record.count += ready
            steps -= ready

    def step(self) -> None:
        """Take the step that `Lanes` is ready for, which counts it."""
        if self.lanes.device.type != "cuda":
            self.record.add()
            return
        if self._taken < _WARM_UP:
            self._taken += 1
            # As in a recording, where work is on a stream of its own.
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.record.add()
            torch.cuda.current_stream().wait_stream(stream)
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self.record.add()
        self._graph.replay()
