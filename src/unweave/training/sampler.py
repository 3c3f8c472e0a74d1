"""Which observations a step sees: a pure function of (seed, step), read on the device."""

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

    def __init__(self, seeds: Tensor, dataset_size: int, batch_size: int, turns: int = 1) -> None:
        self.seeds, self.size, self.batch = seeds, dataset_size, batch_size
        self.per_epoch = dataset_size // batch_size
        # int32 halves the memory of what is 737,280 numbers a lane for 2D Shapes.
        shape = (turns, len(seeds), dataset_size)
        self.orders = torch.empty(shape, dtype=torch.int32, device=seeds.device)
        self._epoch: int | None = None

    def left(self, step: int) -> int:
        """How many steps can be read from here on, this one included, until an epoch ends."""
        return self.per_epoch - step % self.per_epoch

    def turn_to(self, step: int) -> None:
        """Make the permutations of a step's epoch those that are read."""
        if self._epoch == (epoch := step // self.per_epoch):
            return
        lanes = max(1, _KEYS_AT_ONCE // self.size)
        for turn, order in enumerate(self.orders):
            for seeds, part in zip(self.seeds.split(lanes), order.split(lanes), strict=True):
                noise = Noise(seeds, epoch, f"turn{turn}", seeds.device)
                part.copy_(noise.permutation(self.size, "epoch"))
        self._epoch = epoch

    def indices(self, clock: Tensor, orders: Tensor) -> Tensor:
        """Numbers (T, L, B) of the observations that every lane sees in the turns of the step ().

        The step is of the epoch that was last turned to; `orders` are the sampler's own.
        """
        start = clock % self.per_epoch * self.batch
        place = start + torch.arange(self.batch, device=clock.device)
        return orders.index_select(2, place).long()
