"""Which observations a step sees: a pure function of (seed, step), read on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data import Dataset, StreamedDataset
from unweave.data.files.streaming import Window

_KEYS_AT_ONCE = 4_000_000  # sorts about 300 MB of keys and counters at a time


class Sampler:
    """Batches without replacement: every epoch is a new permutation of the data set.

    Each turn of a game has permutations of its own, so a second batch is independent of the first.
    What an epoch has left over (fewer than a batch) waits for the next one.

    A dataset larger than memory is permuted window by window (see `data/streamed.py`), and the
    observations of the window at hand are on the device.
    """

    def __init__(self, seeds: Tensor, dataset: Dataset, batch_size: int, updates: int = 1) -> None:
        self.seeds, self.dataset, self.size, self.batch = seeds, dataset, dataset.size, batch_size
        self.per_epoch = self.size // batch_size
        self.feed = (
            Feed(dataset, batch_size, seeds.device)
            if isinstance(dataset, StreamedDataset)
            else None
        )
        # int32 halves the memory of what is 737,280 numbers a lane for 2D Shapes.
        shape = (updates, len(seeds), self.size)
        self.orders = torch.empty(shape, dtype=torch.int32, device=seeds.device)
        self._epoch: int | None = None

    def left(self, step: int) -> int:
        """How many steps can be read from here on, this one included, until an epoch ends.

        Or the window at hand ends.
        """
        done = step % self.per_epoch
        left = self.per_epoch - done
        return min(left, self.feed.steps - done % self.feed.steps) if self.feed else left

    def turn_to(self, step: int) -> None:
        """Make the permutations of a step's epoch those that are read, and its window too."""
        epoch, done = divmod(step, self.per_epoch)
        if self.feed:
            self.feed.turn_to(epoch, done)
        if self._epoch == epoch:
            return
        lanes = max(1, _KEYS_AT_ONCE // self.size)
        for turn, order in enumerate(self.orders):
            for seeds, part in zip(self.seeds.split(lanes), order.split(lanes), strict=True):
                noise = Noise(seeds, epoch, f"turn{turn}", seeds.device)
                part.copy_(self._order(noise, epoch))
        self._epoch = epoch

    def _order(self, noise: Noise, epoch: int) -> Tensor:
        """Permutations of an epoch, one for each seed of the noise, (L, N)."""
        if self.feed is None:
            return noise.permutation(self.size, "epoch")
        sequence = self.feed.sequence(epoch)
        rows = self.feed.rows
        whole = self.size // rows
        within = noise.permutation(rows, "window", whole)
        first = torch.arange(whole, device=sequence.device) * rows
        rest = noise.permutation(self.size - whole * rows, "last") + whole * rows
        places = torch.cat([(within + first.unsqueeze(-1)).flatten(-2), rest], -1)
        return sequence[places]

    def images(self, index: Tensor) -> Tensor:
        """Observations (L, B, *shape) of a step that was turned to, by their numbers (L, B)."""
        return self.feed.images(index) if self.feed else self.dataset.images(index)

    def indices(self, clock: Tensor, orders: Tensor) -> Tensor:
        """Numbers (T, L, B) of the observations that every lane sees in the updates of the step ().

        The step is of the epoch that was last turned to; `orders` are the sampler's own.
        """
        start = clock % self.per_epoch * self.batch
        place = start + torch.arange(self.batch, device=clock.device)
        return orders.index_select(2, place).long()


class Feed:
    """The window of a streamed dataset that steps at hand draw from, on the device.

    On CUDA it is copied to the same memory every time (`fixed`), where recorded steps read it.
    """

    def __init__(
        self,
        dataset: StreamedDataset,
        batch_size: int,
        device: torch.device,
        fixed: bool | None = None,
    ) -> None:
        self.dataset, self.device = dataset, device
        self.fixed = device.type != "cpu" if fixed is None else fixed
        self.rows = dataset.window(batch_size)
        self.steps = max(1, self.rows // batch_size)
        # Places from which on an epoch has no whole batch left.
        self._last = dataset.size // batch_size * batch_size
        self._at: tuple[int, int] | None = None
        self._data = self._begins = torch.empty(0)

    def sequence(self, epoch: int) -> Tensor:
        """The observations in the order in which their chunks come, (N,)."""
        chunk = self.dataset.chunk
        starts = self.dataset.windows.chunks(epoch).to(self.device) * chunk
        rows = (starts.unsqueeze(-1) + torch.arange(chunk, device=self.device)).flatten()
        return rows[rows < self.dataset.size]

    def turn_to(self, epoch: int, step: int) -> None:
        """Have the window of a step of an epoch at hand, and the next one be read."""
        window = step // self.steps
        if self._at == (epoch, window):
            return
        windows = self.dataset.windows
        found = windows.get(epoch, *self._ends(window))
        following = (
            (epoch, window + 1) if self._ends(window + 1)[0] < self._last else (epoch + 1, 0)
        )
        windows.ahead(following[0], *self._ends(following[1]))
        if self.fixed:
            self._copy(found)
        else:
            self._data, self._begins = found
        self._at = (epoch, window)

    def _copy(self, window: Window) -> None:
        if self._at is None:
            shape = (self.rows, *self.dataset.shape)
            self._data = torch.empty(shape, dtype=window.data.dtype, device=self.device)
            self._begins = torch.empty_like(window.begins, device=self.device)
        self._data[: len(window.data)].copy_(window.data, non_blocking=True)
        self._begins.copy_(window.begins, non_blocking=True)

    def _ends(self, window: int) -> tuple[int, int]:
        """Places of an epoch at which a window begins and ends."""
        return window * self.rows, min((window + 1) * self.rows, self.dataset.size)

    def images(self, index: Tensor) -> Tensor:
        """Observations by their numbers; before the first window is at hand, from the file."""
        if self._at is None:
            return self.dataset.images(index)
        place = self._begins[index // self.dataset.chunk] + index % self.dataset.chunk
        return self._data[place].to(torch.float32) * self.dataset.interpretation.unit
