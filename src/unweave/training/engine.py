"""Take many training steps: one by one from Python, or on CUDA recorded once and replayed."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.training.compile import compile_if
from unweave.training.records import Row
from unweave.training.step import Lanes

_WARM_UP = 3  # steps from Python before one is recorded: libraries set up their caches in them


class Sums(NamedTuple):
    """The content of a record, which a worker process sends to its parent."""

    terms: list[str]
    sums: NDArray[np.float64]  # (terms, L)
    broken: NDArray[np.int64]  # (terms, L): the first step at which a term was not finite, or -1
    steps: int


class Record:
    """Sums of the terms since the last log row, and the first step at which each broke.

    Both are tensors on the device that keep their place in memory, so a recorded step can write to
    them.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.count = lanes, 0
        self.terms: list[str] = []
        self.sums = self.broken = torch.empty(0)  # (terms, L)
        self._add = compile_if(lanes.compiles, self._add_terms)

    def take_step(self) -> None:
        """Take a step of the lanes and add its terms."""
        means, shares = self.lanes.compute_step()
        self._allocate(list(means))
        self._add(self.sums, self.broken, self.lanes.clock, means, shares)

    def _allocate(self, terms: list[str]) -> None:
        if self.terms:
            return
        self.terms = terms
        shape = (len(terms), len(self.lanes.runs))
        self.sums = torch.zeros(shape, dtype=torch.float64, device=self.lanes.device)
        self.broken = torch.full(shape, -1, device=self.lanes.device)

    def _add_terms(
        self,
        sums: Tensor,
        broken: Tensor,
        clock: Tensor,
        means: Mapping[str, Tensor],
        shares: Mapping[str, Tensor],
    ) -> None:
        """Add the terms, and note this step where a share of the loss is not finite."""
        sums += torch.stack([means[name] for name in self.terms])
        stacked = torch.stack([shares[name] for name in self.terms])
        broken.copy_(torch.where((broken < 0) & ~stacked.isfinite(), clock - 1, broken))

    def export(self) -> Sums:
        """Return the content, for the record of another process."""
        return Sums(self.terms, self.sums.numpy(), self.broken.numpy(), self.count)

    def merge(self, later: Sums) -> None:
        """Add what another process recorded about later steps."""
        self._allocate(later.terms)
        self.sums += torch.from_numpy(later.sums)
        self.broken.copy_(torch.where(self.broken < 0, torch.from_numpy(later.broken), self.broken))
        self.count += later.steps

    def rows(self, step: int) -> list[Row]:
        """Return the mean of every term, one row for each lane."""
        means = (self.sums / self.count).T.tolist()
        return [{"step": step, **dict(zip(self.terms, lane, strict=True))} for lane in means]

    def failures(self) -> dict[int, Row]:
        """Return the step and the term that broke first, for every broken lane."""
        failures: dict[int, Row] = {}
        for term, steps in zip(self.terms, self.broken.tolist(), strict=True):
            for lane, step in enumerate(steps):
                if step >= 0 and (lane not in failures or step < failures[lane]["step"]):
                    failures[lane] = {"step": step, "term": term}
        return failures

    def clear(self) -> None:
        """Start a new row."""
        self.sums.zero_()
        self.broken.fill_(-1)
        self.count = 0


class Engine:
    """Takes many steps of lanes in a row.

    On CUDA a step is a few hundred small kernels, and launching them takes longer than running
    them. So after a few steps from Python, one step of all players and lanes is recorded as a CUDA
    graph, and further steps replay it. A replay uses the tensors of `Lanes` and `Record`, which
    stay where they are as long as the group trains, even if some of its lanes fail. Steps that
    several processes take together all come from Python.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.record = lanes, Record(lanes)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm_up_steps = 0

    def run(self, steps: int) -> None:
        """Take steps, and add their terms to the record."""
        while steps:
            for _ in range(ready := min(steps, self.lanes.prepare())):
                self.step()
                self.lanes.step += 1
            self.record.count += ready
            steps -= ready

    def step(self) -> None:
        """Take the step that the lanes are prepared for."""
        if self.lanes.device.type != "cuda" or self.lanes.processes.several:
            self.record.take_step()
            return
        if self._warm_up_steps < _WARM_UP:
            self._warm_up_steps += 1
            stream = torch.cuda.Stream()  # as in a recording, which has a stream of its own
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.record.take_step()
            torch.cuda.current_stream().wait_stream(stream)
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self.record.take_step()
        self._graph.replay()
