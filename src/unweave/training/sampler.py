"""Which observations a step sees: a function of seed and step, read on the device."""

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data import Dataset, StreamedDataset
from unweave.data.files.streaming import Window

_KEYS_AT_ONCE = 4_000_000  # sort keys of the permutations made at once: about 300 MB


class Sampler:
    """Batches without replacement: every epoch is a new permutation of the dataset.

    Every update of a step has permutations of its own, so its batch is independent of the others.
    An epoch drops the observations left over after its last full batch.

    A dataset larger than memory is permuted window by window (see `data/files/streaming.py`).
    """

    def __init__(self, seeds: Tensor, dataset: Dataset, batch_size: int, updates: int = 1) -> None:
        self.seeds, self.dataset, self.size, self.batch = seeds, dataset, dataset.size, batch_size
        self.per_epoch = self.size // batch_size
        self.feed = (
            Feed(dataset, batch_size, seeds.device)
            if isinstance(dataset, StreamedDataset)
            else None
        )
        shape = (updates, len(seeds), self.size)  # 737,280 indices a lane for 2D Shapes
        self.orders = torch.empty(shape, dtype=torch.int32, device=seeds.device)
        self._epoch: int | None = None

    def steps_left(self, step: int) -> int:
        """Return how many steps, this one included, can be taken before `seek` is due."""
        done = step % self.per_epoch
        left = self.per_epoch - done
        return min(left, self.feed.steps - done % self.feed.steps) if self.feed else left

    def seek(self, step: int) -> None:
        """Hold the permutations of a step's epoch, and its window of a streamed dataset."""
        epoch, done = divmod(step, self.per_epoch)
        if self.feed:
            self.feed.seek(epoch, done)
        if self._epoch == epoch:
            return
        lanes = max(1, _KEYS_AT_ONCE // self.size)
        for update, order in enumerate(self.orders):
            for seeds, part in zip(self.seeds.split(lanes), order.split(lanes), strict=True):
                noise = Noise(seeds, epoch, f"turn{update}", seeds.device)
                part.copy_(self._order(noise, epoch))
        self._epoch = epoch

    def _order(self, noise: Noise, epoch: int) -> Tensor:
        """Draw permutations of an epoch, one for each seed of the noise, (L, N)."""
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
        """Return observations (L, B, *shape) of the current step by their indices (L, B)."""
        return self.feed.images(index) if self.feed else self.dataset.images(index)

    def indices(self, clock: Tensor, orders: Tensor) -> Tensor:
        """Return the observations (U, L, B) that the updates of a step () see in every lane.

        The step belongs to the epoch of the last `seek`; `orders` are the sampler's own.
        """
        start = clock % self.per_epoch * self.batch
        place = start + torch.arange(self.batch, device=clock.device)
        return orders.index_select(2, place).long()


class Feed:
    """The window of a streamed dataset that the current steps draw from, on the device.

    If `fixed` (by default on CUDA), every window is copied to the same memory, where recorded steps
    read it.
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
        self._last = dataset.size // batch_size * batch_size  # the end of the last full batch
        self._at: tuple[int, int] | None = None
        self._data = self._begins = torch.empty(0)

    def sequence(self, epoch: int) -> Tensor:
        """Return the observations (N,) in the order in which their chunks are read."""
        chunk = self.dataset.chunk
        starts = self.dataset.windows.chunks(epoch).to(self.device) * chunk
        rows = (starts.unsqueeze(-1) + torch.arange(chunk, device=self.device)).flatten()
        return rows[rows < self.dataset.size]

    def seek(self, epoch: int, step: int) -> None:
        """Hold the window of a step of an epoch, and start to read the next one."""
        window = step // self.steps
        if self._at == (epoch, window):
            return
        windows = self.dataset.windows
        current = windows.get(epoch, *self._ends(window))
        following = (
            (epoch, window + 1) if self._ends(window + 1)[0] < self._last else (epoch + 1, 0)
        )
        windows.ahead(following[0], *self._ends(following[1]))
        if self.fixed:
            self._copy(current)
        else:
            self._data, self._begins = current
        self._at = (epoch, window)

    def _copy(self, window: Window) -> None:
        if self._at is None:
            shape = (self.rows, *self.dataset.shape)
            self._data = torch.empty(shape, dtype=window.data.dtype, device=self.device)
            self._begins = torch.empty_like(window.begins, device=self.device)
        self._data[: len(window.data)].copy_(window.data, non_blocking=True)
        self._begins.copy_(window.begins, non_blocking=True)

    def _ends(self, window: int) -> tuple[int, int]:
        """Return the places in an epoch at which a window starts and ends."""
        return window * self.rows, min((window + 1) * self.rows, self.dataset.size)

    def images(self, index: Tensor) -> Tensor:
        """Return observations by their indices; before the first `seek`, from the file."""
        if self._at is None:
            return self.dataset.images(index)
        place = self._begins[index // self.dataset.chunk] + index % self.dataset.chunk
        return self._data[place].to(torch.float32) * self.dataset.interpretation.unit
