"""Find observations that are copies of others, so that all copies go to the same split."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from unweave.data.files.rows import MOST, Rows, blocks, row_bytes
from unweave.data.files.statistics import View


def first_copies(rows: Rows, arrange: View) -> NDArray[np.int64] | None:
    """Return the index of the first row that equals each row; None if all rows differ.

    Rows are compared by 128 bits of a hash of their values. Rows of more than 1 GiB in all are not
    compared.

    >>> from unweave.data.files.rows import InMemoryRows
    >>> first_copies(InMemoryRows(np.array([[1, 2], [0, 0], [1, 2]])), lambda block: block)
    array([0, 1, 0])
    """
    if rows.dtype.kind not in "biuf" or rows.shape[0] * row_bytes(rows) > MOST:
        return None
    seen: dict[bytes, int] = {}
    first = [seen.setdefault(each, n) for n, each in enumerate(_digests(rows, arrange))]
    return np.array(first, np.int64) if len(seen) < len(first) else None


def _digests(rows: Rows, arrange: View) -> list[bytes]:
    digests: list[bytes] = []
    for _, block in blocks(rows):
        values = np.ascontiguousarray(arrange(block)).reshape(len(block), -1)
        digests += [
            hashlib.blake2b(row.data, digest_size=16).digest() for row in values.view(np.uint8)
        ]
    return digests
