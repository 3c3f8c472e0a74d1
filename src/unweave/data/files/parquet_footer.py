"""The footer of a Parquet file: how many rows and values its row groups hold.

pyarrow has them too, but ends the process with an abort if what a footer says about a column is
contradictory (`RowGroupMetaData.column`). So the counts, which are needed before anything is
decoded, are read here. The footer is a struct in Thrift's compact protocol, whose fields have
numbers; `parquet.thrift` of the format says what they mean.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_TAIL = 8  # bytes after the footer: its length, and the magic number
_DEEPEST = 32  # structs and lists in each other; a footer has six

# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = (
    1, 2, 3, 6, 7, 8, 9, 10, 11, 12,
)  # fmt: skip

# Numbers of fields: of the file, of a row group, of a column chunk, and of its metadata.
_ROW_GROUPS = 4
_CHUNKS, _ROWS = 1, 3
_METADATA = 3
_PATH, _VALUES = 3, 5
# Fields that are read, and those of the structs in them; all others are skipped.
_READ: dict[int, Any] = {
    _ROW_GROUPS: {_CHUNKS: {_METADATA: {_PATH: {}, _VALUES: {}}}, _ROWS: {}},
}


class RowGroup(NamedTuple):
    """The number of rows of a row group, and of values of its columns by their paths."""

    rows: int
    values: tuple[tuple[str, int], ...]


def read_row_groups(path: Path) -> list[RowGroup]:
    """Return what the footer of a Parquet file says; a ValueError if it cannot be read."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - _TAIL))
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > end - _TAIL:
            raise ValueError("its footer is damaged")
        file.seek(end - _TAIL - length)
        footer = file.read(length)
    try:
        return [_row_group(each) for each in _Reader(footer).struct(_READ)[_ROW_GROUPS]]
    except (KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError):
        raise ValueError("its footer is damaged") from None


def _row_group(fields: dict[int, Any]) -> RowGroup:
    chunks = [chunk[_METADATA] for chunk in fields[_CHUNKS]]
    values = [(b".".join(each[_PATH]).decode(), each[_VALUES]) for each in chunks]
    rows = fields[_ROWS]
    if min([rows, *(count for _, count in values)]) < 0:
        raise ValueError("its footer has negative counts")
    return RowGroup(rows, tuple(values))


class _Reader:
    """Values in Thrift's compact protocol. An IndexError says that the content is cut off."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, read: dict[int, Any], depth: int = 0) -> dict[int, Any]:
        """Read some fields of a struct by their numbers, and skip the others."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            if number in read:
                fields[number] = self._value(kind, read[number], depth + 1)
            elif kind > _FALSE:  # a truth value of a field is in its head
                self._skip(kind, depth + 1)
        return fields

    def _value(self, kind: int, read: dict[int, Any], depth: int) -> Any:
        if _BYTE < kind <= _I64:
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _LIST:
            each, count = self._list()
            return [self._value(each, read, depth + 1) for _ in range(count)]
        if kind == _STRUCT and depth <= _DEEPEST:
            return self.struct(read, depth)
        raise TypeError

    def _skip(self, kind: int, depth: int) -> None:
        """Skip a value without making an object of it, as nearly all of a footer is skipped."""
        content = self.content
        if _BYTE < kind <= _I64:
            while content[self.place] > 127:
                self.place += 1
            self.place += 1
        elif kind == _BINARY:
            self._bytes(self._varint())
        elif kind in (_TRUE, _FALSE, _BYTE):  # in lists, a truth value is a byte
            self._byte()
        elif kind == _DOUBLE:
            self._bytes(8)
        elif depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        elif kind == _STRUCT:
            while head := content[self.place]:
                self.place += 1
                if head < 16:
                    self._varint()
                if head & 15 > _FALSE:
                    self._skip(head & 15, depth + 1)
            self.place += 1
        elif kind in (_LIST, _SET):
            each, count = self._list()
            for _ in range(count):
                self._skip(each, depth + 1)
        elif kind == _MAP:
            count = self._at_most(self._varint())
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, depth + 1)
                self._skip(kinds & 15, depth + 1)
        else:
            raise ValueError("its footer has a value of an unknown type")

    def _list(self) -> tuple[int, int]:
        """Read the type and the number of the values of a list."""
        head = self._byte()
        return head & 15, self._at_most(head >> 4 if head >> 4 < 15 else self._varint())

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, count: int) -> bytes:
        self.place += self._at_most(count)
        return self.content[self.place - count : self.place]

    def _integer(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)  # zigzag: 0, -1, 1, -2, ...

    def _varint(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            if (shift := shift + 7) > 63:
                raise ValueError("its footer has a number that is too long")

    def _at_most(self, count: int) -> int:
        """Return a count of values, each of which takes at least a byte."""
        if count > len(self.content) - self.place:
            raise IndexError
        return count
