"""Datasets larger than memory: rows of a file, read in windows of some hundred megabytes.

How they are shuffled: adjacent rows of the file form chunks of about a megabyte. Every epoch visits
all chunks in a random order that is the same for all seeds. A window holds as many of these rows as
fit into 256 MB, and batches draw its rows without replacement in an order that depends on the seed.
So a batch is a uniform sample of its window, not of the whole file; every row is seen once per
epoch; and the order is a function of (seed, epoch), so a resumed run sees the same batches.
"""

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data.dataset import CPU, DatasetWithCodes, Schema
from unweave.data.files.interpretation import Interpretation
from unweave.data.files.rows import Rows, row_bytes
from unweave.data.lattice import check_indices

CHUNK = 2**20  # bytes read at once
WINDOW = 2**28  # bytes that batches are drawn from
FEW = 16  # chunks per window below which shuffling is poor
_KEPT = 3  # windows in memory: the current one, the next, and the previous for lanes behind


class Window(NamedTuple):
    """Rows of the file in memory, and the place of each chunk."""

    data: Tensor  # (n, *shape) as stored, in host memory
    begins: Tensor  # (chunks,) int64: row r is at begins[r // chunk] + r % chunk


class Windows:
    """The windows of an epoch, which a thread reads ahead."""

    def __init__(
        self, rows: Rows, interpretation: Interpretation, chunk: int, pinned: bool
    ) -> None:
        self.rows, self.interpretation = rows, interpretation
        self.chunk, self.pinned = chunk, pinned
        self._lock = threading.Lock()
        self._windows: OrderedDict[tuple[int, int, int], Future[Window]] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, "windows")

    def get(self, epoch: int, start: int, stop: int) -> Window:
        """Return the rows at places start to stop of an epoch; wait until they are read."""
        return self.ahead(epoch, start, stop).result()

    def ahead(self, epoch: int, start: int, stop: int) -> Future[Window]:
        """Start reading the rows at places start to stop of an epoch."""
        key = (epoch, start, stop)
        with self._lock:
            if key not in self._windows:
                self._windows[key] = self._pool.submit(self._read, *key)
                while len(self._windows) > _KEPT:
                    self._windows.popitem(last=False)
            self._windows.move_to_end(key)
            return self._windows[key]

    def chunks(self, epoch: int) -> Tensor:
        """Return the order of the chunks in an epoch, the same for every seed."""
        count = -(-self.rows.shape[0] // self.chunk)
        return Noise(0, epoch, "chunks", "cpu").permutation(count, "order")

    def _read(self, epoch: int, start: int, stop: int) -> Window:
        order = self.chunks(epoch).numpy()
        size = self.rows.shape[0]
        lengths = np.minimum(self.chunk, size - order * self.chunk)
        ends = np.cumsum(lengths)
        begins = torch.empty(len(order), dtype=torch.int64)
        begins[torch.from_numpy(order)] = torch.from_numpy(ends - lengths - start)
        data = torch.empty(
            (stop - start, *self.interpretation.shape),
            dtype=self.interpretation(self.rows.read(0, 0)).dtype,
            pin_memory=self.pinned,
        )
        touched = np.nonzero((ends > start) & (ends - lengths < stop))[0]
        for place in touched.tolist():
            first = int(order[place]) * self.chunk
            begin = int(ends[place] - lengths[place])
            low, high = max(start, begin), min(stop, int(ends[place]))
            block = self.rows.read(first + low - begin, first + high - begin)
            data[low - start : high - start] = self.interpretation(block)
        return Window(data, begins)


@final
@dataclass(frozen=True, eq=False)
class StreamedDataset(DatasetWithCodes):
    """A dataset that is read from its file in pieces.

    `images` reads any observations; training draws from `windows`, which are read ahead.
    """

    schema: Schema
    rows: Rows = field(repr=False)
    interpretation: Interpretation
    codes: Tensor = field(repr=False)
    checksum: str
    device: torch.device = CPU
    row_names: Sequence[str] = field(default=(), repr=False)
    first: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def chunk(self) -> int:
        """Rows that are read at once: about a megabyte, and whole grains of the file."""
        return chunk_rows(self.rows)

    def window(self, batch: int) -> int:
        """Return the rows per window for a batch size: all rows, or as many batches as fit."""
        fitting = WINDOW // max(1, row_bytes(self.rows))
        return (
            self.size if fitting >= self.size else min(self.size, max(1, fitting // batch) * batch)
        )

    @cached_property
    def windows(self) -> Windows:
        """The windows that training draws batches from."""
        return Windows(self.rows, self.interpretation, self.chunk, self.device.type == "cuda")

    @property
    def fingerprint(self) -> str:
        return self.checksum

    def to(self, device: torch.device) -> Self:
        """Return the dataset for networks on another device."""
        return dataclasses.replace(self, device=device, codes=self.codes.to(device))

    def images(self, index: Tensor) -> Tensor:
        index = check_indices(index.cpu(), self.size, "indices of the data")
        numbers, places = np.unique(index.numpy().reshape(-1), return_inverse=True)
        stored = self.interpretation(self.rows.take(numbers))[torch.from_numpy(places.reshape(-1))]
        values = stored.to(self.device).to(torch.float32) * self.interpretation.unit
        return values.reshape(*index.shape, *self.shape)


def chunk_rows(rows: Rows) -> int:
    """Return the number of rows that are read at once."""
    wanted = max(1, CHUNK // max(1, row_bytes(rows)))
    return min(rows.shape[0], -(-wanted // rows.grain) * rows.grain)


def streaming_notes(rows: Rows) -> list[str]:
    """Tell the user how the data are streamed, and if they are poorly shuffled."""
    size, each, chunk = rows.shape[0], max(1, row_bytes(rows)), chunk_rows(rows)
    window = max(1, WINDOW // each)
    note = f"{size * each / 2**20:,.0f} MB are streamed from the file"
    if window >= size:
        return [note]
    note += f"; batches are drawn from windows of {window:,} observations, chunks of {chunk:,}"
    if window // chunk >= FEW:
        return [note]
    advice = "the file stores many rows together, so they are poorly shuffled: save it in smaller"
    return [note, f"{advice} chunks"]
