"""One column of labels: which are missing, and whether they are classes, numbers or names."""

import itertools
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import count_noun
from unweave.data.dataset import MISSING
from unweave.data.files.rows import Array

MISSING_WORDS = frozenset(
    ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "null", "NULL", "-", "?")
)
LABEL_WORDS = ("label", "labels", "target", "targets", "y", "class", "classes")  # for factors

_MOST_CLASSES = 50  # real numbers with more values are continuous, however often they repeat
_BINS = 20  # integers with at most as many values are classes, however rarely they repeat
_LEAST_NAMES = 4  # rows from which a column can be recognised as names of the rows
_NAMES = 0.9  # share of different texts above which they are names
_ID = re.compile(r"(?i:(^|.*[\W_])(id|idx|index|row|nr|no))|.*[a-z](ID|Id)")


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """The labels of N observations in one column, of which some may be missing.

    `continuous` says whether they are numbers; otherwise they are classes. Real numbers are
    continuous if their values come less than twice on average or are more than 50. In a table,
    whole numbers are continuous if they come less than twice and have more than 20 values; in an
    array they are classes.
    """

    name: str
    values: Array = field(repr=False)  # (M,) the labels that are known
    known: NDArray[np.bool_] = field(repr=False)  # (N,)
    continuous: bool

    @classmethod
    def from_cells(cls, name: str, cells: Sequence[str]) -> Self:
        """Read the cells of a text file: integers, otherwise numbers if possible, or text.

        >>> LabelColumn.from_cells("dose", ["10", "NA", "2.5", ""]).values
        array([10. ,  2.5])
        """
        texts = [cell.strip() for cell in cells]
        known = np.array([text not in MISSING_WORDS for text in texts], dtype=np.bool_)
        values = column_values(list(itertools.compress(texts, known)))
        return cls(name, values, known, _are_real(values) or _are_many(values))

    @classmethod
    def from_array(cls, name: str, array: Array, in_table: bool = False) -> Self:
        """Read an array (N,): NaN, None, masked entries and the missing words are missing.

        `in_table` says whether it is a column of a table.
        """
        if array.dtype.kind not in "biufUSO":
            raise ValueError(
                f"expected factors as integers or text, got {array.dtype}: convert them"
            )
        known = ~np.ma.getmaskarray(array)
        plain = np.ma.getdata(array)
        if plain.dtype.kind == "f":
            known &= ~np.isnan(plain)
        elif plain.dtype.kind in "USO":
            known &= np.array([_is_known(value) for value in plain.tolist()], dtype=np.bool_)
        values = plain[known]
        if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
            values = np.array(values.tolist())
        return cls(name, values, known, _are_real(values) or (in_table and _are_many(values)))

    @property
    def text(self) -> bool:
        """Whether the labels are text."""
        return self.values.dtype.kind in "USO"

    @property
    def missing(self) -> int:
        """The number of missing labels."""
        return len(self.known) - len(self.values)

    @property
    def names_rows(self) -> bool:
        """Whether the labels name the rows: text that hardly repeats, or numbered identifiers.

        Integers name the rows if they all differ and the name of the column says so: id, sample_id,
        index, row, nr.
        """
        count, different = len(self.values), len(self._unique[0])
        if count < _LEAST_NAMES or self.values.dtype.kind not in "USOiu":
            return False
        if self.text:
            return different > _NAMES * count
        return different == count and is_identifier_name(self.name)

    @property
    def is_identifier(self) -> bool:
        """Whether the labels are text that hardly repeats, with more values than classes have."""
        return self.text and self.names_rows and len(self._unique[0]) > _BINS

    @property
    def row_names(self) -> tuple[str, ...]:
        """The labels as names of the rows; () if some are missing."""
        return () if self.missing else tuple(str(_label(value)) for value in self.values)

    @property
    def labels(self) -> tuple[str | float, ...]:
        """The different labels in their order."""
        return tuple(map(_label, self._unique[0]))

    @property
    def codes(self) -> NDArray[np.int64]:
        """The index of each label among the different ones, or MISSING, (N,)."""
        codes = np.full(len(self.known), MISSING, np.int64)
        codes[self.known] = self._unique[1].reshape(-1)
        return codes

    def describe(self) -> str:
        """Describe the labels.

        >>> LabelColumn.from_cells("size", ["0.5", "", "1.75"]).describe()
        'size: 2 numbers from 0.5 to 1.75, 1 missing'
        """
        labels = self.labels
        what = count_noun(len(labels), "class")
        if self.names_rows:
            kind = "texts" if self.text else "integers"
            what = f"{len(labels):,} different {kind} in {len(self.values):,} rows"
        elif self.continuous:
            what = f"{count_noun(len(self.values), 'number')} from {labels[0]} to {labels[-1]}"
        return f"{self.name}: {what}" + (f", {self.missing:,} missing" if self.missing else "")

    def named_rows_note(self) -> str:
        """Say that the labels name the rows."""
        return f"{self.describe()}: taken as names of the rows, not as a factor"

    @cached_property
    def _unique(self) -> tuple[Array, Array]:
        values, codes = np.unique(self.values, return_inverse=True)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.flatnonzero(self.known)[~np.isfinite(self.values)][0])
            raise ValueError(
                f"expected finite labels of {self.name}, got infinity, first in row {row}: remove "
                "or replace it"
            )
        return values, codes


def is_identifier_name(name: str) -> bool:
    """Return whether the name of a column says that it numbers or identifies the rows.

    >>> [name for name in ("id", "sample_id", "CellID", "row", "width") if is_identifier_name(name)]
    ['id', 'sample_id', 'CellID', 'row']
    """
    return _ID.fullmatch(name) is not None


def column_values(texts: Sequence[str]) -> Array:
    """Convert a column to integers if all cells are, otherwise to numbers if possible, or text.

    Text is an array of objects: in an array of strings every cell takes the memory of the longest.
    """
    for kind, read in ((np.int64, int), (np.float64, float)):
        with suppress(ValueError, OverflowError):
            return np.fromiter(map(read, texts), kind, len(texts))
    return np.array(texts, dtype=object)


def _is_known(value: Any) -> bool:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value.strip() not in MISSING_WORDS
    return value is not None and value == value  # NaN differs from itself


def _hardly_repeat(values: Array) -> bool:
    """Return whether values come less than twice on average."""
    return 2 * len(np.unique(values)) > len(values)


def _are_real(values: Array) -> bool:
    """Return whether values are real numbers that are to be taken as such, not as classes."""
    if values.dtype.kind != "f" or not (values != np.rint(values)).any():
        return False
    return _hardly_repeat(values) or len(np.unique(values)) > _MOST_CLASSES


def _are_many(values: Array) -> bool:
    """Return whether values are whole numbers that are too many, and too rare, to be classes."""
    if values.dtype.kind not in "iuf" or (values != np.rint(values)).any():
        return False
    return len(np.unique(values)) > _BINS and _hardly_repeat(values)


def _label(value: Any) -> str | float:
    """Return a label as text, an integer, or the shortest decimal number."""
    if isinstance(value, str | bytes):
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    number = float(str(value)) if value.dtype.kind == "f" else int(value)
    return int(number) if abs(number) < 2**53 and number == int(number) else number
