"""Which observations a step sees: a pure function of (seed, step)."""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.noise import Noise

_KEYS_AT_ONCE = 4_000_000  # sorts about 300 MB of keys and counters at a time


class Sampler:
    """Batches without replacement: every epoch is a new permutation of the data set.

    Each turn of a game has permutations of its own, so a second batch is independent of the first.
    What an epoch has left over (fewer than a batch) waits for the next one.
    """

    def __init__(self, seeds: Tensor, dataset_size: int, batch_size: int) -> None:
        self.seeds, self.size, self.batch = seeds, dataset_size, batch_size
        self.per_epoch = dataset_size // batch_size
        self._orders: dict[int, tuple[int, Tensor]] = {}

    def indices(self, step: int, turn: int) -> Tensor:
        """Indices (L, B) of the observations that every lane sees in a turn of a step."""
        epoch, position = divmod(step, self.per_epoch)
        start = position * self.batch
        return self._order(epoch, turn)[:, start : start + self.batch].long()

    def _order(self, epoch: int, turn: int) -> Tensor:
        """The permutations (L, N) of an epoch, kept until the next one begins."""
        known = self._orders.get(turn)
        if known is None or known[0] != epoch:
            lanes = max(1, _KEYS_AT_ONCE // self.size)
            orders = [
                Noise(seeds, epoch, f"turn{turn}", seeds.device).permutation(self.size, "epoch")
                for seeds in self.seeds.split(lanes)
            ]
            # int32 halves the memory of what is 737,280 numbers a lane for 2D Shapes.
            known = self._orders[turn] = (epoch, torch.cat(orders).to(torch.int32))
        return known[1]
