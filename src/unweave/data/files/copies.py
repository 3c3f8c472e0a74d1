"""Find observations that are copies of others, so that all copies go to the same split."""

import numpy as np
from numpy.typing import NDArray

from unweave.data.files.rows import MOST, Array, Rows, blocks, row_bytes
from unweave.data.files.statistics import View


def are_compared(rows: Rows) -> bool:
    """Return whether rows are compared: numbers of at most 1 GiB in all."""
    return rows.dtype.kind in "biuf" and rows.shape[0] * row_bytes(rows) <= MOST


def first_copies(rows: Rows, arrange: View) -> NDArray[np.int64] | None:
    """Return the index of the first row that equals each row; None if all rows differ.

    Rows are compared by two checksums of 64 bits. Those of too many bytes are not compared.

    >>> from unweave.data.files.rows import InMemoryRows
    >>> first_copies(InMemoryRows(np.array([[1, 2], [0, 0], [1, 2]])), lambda block: block)
    array([0, 1, 0])
    """
    if not are_compared(rows):
        return None
    checksums = np.empty((2, rows.shape[0]), np.uint64)
    for start, block in blocks(rows):
        checksums[:, start : start + len(block)] = _checksums(arrange(block))
    ordered = np.sort(checksums[0])
    if (ordered[1:] != ordered[:-1]).all():
        return None
    order = np.argsort(checksums[0])
    one, two = _changes(checksums, order)
    if (two & ~one).any():  # rows that differ have the same first checksum
        order = np.lexsort(checksums)
        one, two = _changes(checksums, order)
    starts = np.flatnonzero(one | two)
    if len(starts) == len(order):
        return None
    first = np.empty(len(order), np.int64)
    copies = np.diff(starts, append=len(order))
    first[order] = np.minimum.reduceat(order, starts).repeat(copies)
    return first


def _changes(checksums: Array, order: Array) -> list[NDArray[np.bool_]]:
    """Return for each checksum where it differs from the one before, in an order of the rows."""
    ordered = (each[order] for each in checksums)
    return [np.concatenate([[True], each[1:] != each[:-1]]) for each in ordered]


def _checksums(block: Array) -> NDArray[np.uint64]:
    """Return two checksums of each row, (2, n): sums of its words, multiplied by random numbers.

    The words have 32 bits and the sums 64, so that two rows have the same pair of checksums with a
    probability of at most 2^-66, however few of their bits differ.
    """
    bytes_ = np.ascontiguousarray(block).reshape(len(block), -1).view(np.uint8)
    padded = np.pad(bytes_, ((0, 0), (0, -bytes_.shape[1] % 4))) if bytes_.shape[1] % 4 else bytes_
    words = padded.view(np.uint32).astype(np.uint64)
    keys = np.random.default_rng(0).integers(2**64 - 1, size=(2, words.shape[1]), dtype=np.uint64)
    return np.stack([words @ key for key in keys])
