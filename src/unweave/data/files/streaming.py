"""A dataset larger than memory: rows of a file, of which some hundred megabytes are at hand.

How it is shuffled. Rows that lie side by side in the file form chunks of about a megabyte. An epoch
passes through all chunks in a random order, the same for all seeds. A window is so many of these
rows as fit into 256 MB; its rows are drawn without replacement in an order of the seed's own. So a
batch is a uniform sample of its window, not of the whole file; every row is seen once in an epoch,
and the order is a function of (seed, epoch): resumed, it is the same.
"""

from __future__ import annotations

import dataclasses
import threading
import zlib
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data.files.reading import Reading
from unweave.data.files.rows import Rows, width
from unweave.data.lattice import Labels, Lattice, Periods, checked

CHUNK = 2**20  # bytes read in one piece
WINDOW = 2**28  # bytes that batches are drawn from
FEW = 16  # chunks to a window, below which shuffling is poor
_KEPT = 3  # windows in memory: that in use, the next, and the last of a lane that is behind


class Window(NamedTuple):
    """Rows of the file in memory, and where each chunk of them begins."""

    data: Tensor  # (n, *shape), as stored, on the host
    begins: Tensor  # (chunks,) int64: row r is at begins[r // chunk] + r % chunk


class Windows:
    """The windows of an epoch, read by a thread of their own before they are needed."""

    def __init__(self, rows: Rows, reading: Reading, chunk: int, pinned: bool) -> None:
        self.rows, self.reading, self.chunk, self.pinned = rows, reading, chunk, pinned
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[int, int, int], Future[Window]] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, "windows")

    def get(self, epoch: int, start: int, stop: int) -> Window:
        """The rows at places start to stop of an epoch, once they are there."""
        return self._begun(epoch, start, stop).result()

    def ahead(self, epoch: int, start: int, stop: int) -> None:
        """Begin to read rows."""
        self._begun(epoch, start, stop)

    def _begun(self, epoch: int, start: int, stop: int) -> Future[Window]:
        key = (epoch, start, stop)
        with self._lock:
            if key not in self._held:
                self._held[key] = self._pool.submit(self._read, *key)
                while len(self._held) > _KEPT:
                    self._held.popitem(last=False)
            self._held.move_to_end(key)
            return self._held[key]

    def chunks(self, epoch: int) -> Tensor:
        """The chunks in the order of an epoch, the same for every seed."""
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
            (stop - start, *self.reading.shape),
            dtype=self.reading(self.rows.read(0, 0)).dtype,
            pin_memory=self.pinned,
        )
        touched = np.nonzero((ends > start) & (ends - lengths < stop))[0]
        for place in touched.tolist():
            first = int(order[place]) * self.chunk
            begin = int(ends[place] - lengths[place])
            low, high = max(start, begin), min(stop, int(ends[place]))
            block = self.rows.read(first + low - begin, first + high - begin)
            data[low - start : high - start] = self.reading(block)
        return Window(data, begins)


@final
@dataclass(frozen=True, eq=False)
class Streamed:
    """A dataset that is read from its file as it is needed.

    `images` reads any observations; training draws from `windows`, read ahead.
    """

    rows: Rows = field(repr=False)
    reading: Reading
    codes: Tensor = field(repr=False)  # (N, K) int64, K = 0 where the factors are unknown
    factor_names: tuple[str, ...]
    factor_sizes: tuple[int, ...]
    factor_labels: Labels
    lattice: Lattice | None
    periods: Periods
    notes: tuple[str, ...]
    checksum: int
    device: torch.device
    value_names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of observations."""
        return self.rows.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.reading.shape

    @property
    def bounded(self) -> bool:
        """Whether all values lie in [0, 1]."""
        return self.reading.bounded

    @property
    def integer_unit(self) -> float:
        """What an integer 1 stands for."""
        return self.reading.integer_unit

    @property
    def chunk(self) -> int:
        """Rows that are read in one piece: about a megabyte, and whole grains of the file."""
        return chunk_of(self.rows)

    def window(self, batch: int) -> int:
        """Rows that batches of a size are drawn from: all, or as many batches as fit."""
        fitting = WINDOW // max(1, width(self.rows))
        return (
            self.size if fitting >= self.size else min(self.size, max(1, fitting // batch) * batch)
        )

    @cached_property
    def windows(self) -> Windows:
        """What training draws from."""
        return Windows(self.rows, self.reading, self.chunk, self.device.type == "cuda")

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all observations and factors."""
        return f"{self.checksum:08x}{zlib.crc32(self.codes.cpu().numpy().data):08x}"

    def to(self, device: torch.device) -> Streamed:
        """The same dataset for networks on another device."""
        return dataclasses.replace(self, device=device, codes=self.codes.to(device))

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...), read from the file now."""
        index = checked(index.cpu(), self.size, "indices of the data")
        numbers, places = np.unique(index.numpy().reshape(-1), return_inverse=True)
        stored = self.reading(self.rows.take(numbers))[torch.from_numpy(places.reshape(-1))]
        values = stored.to(self.device).to(torch.float32) * self.reading.unit
        return values.reshape(*index.shape, *self.shape)

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K) by the numbers (...)."""
        index = checked(index, self.size, "indices of the data").to(self.device)
        return self.codes[index]


def chunk_of(rows: Rows) -> int:
    """Rows that are read in one piece."""
    wanted = max(1, CHUNK // max(1, width(rows)))
    return min(rows.shape[0], -(-wanted // rows.grain) * rows.grain)


def how_shuffled(rows: Rows) -> list[str]:
    """What a user should know of data that are read as they are needed."""
    size, each, chunk = rows.shape[0], max(1, width(rows)), chunk_of(rows)
    window = max(1, WINDOW // each)
    read = f"{size * each / 2**20:,.0f} MB are read from the file as they are needed"
    if window >= size:
        return [read]
    said = f"{read}; batches are drawn from windows of {window:,} observations, chunks of {chunk:,}"
    if window // chunk >= FEW:
        return [said]
    return [said, "the file keeps many rows together, so they are shuffled poorly: save it anew"]
