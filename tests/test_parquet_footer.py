"""The footer of a Parquet file, against what pyarrow says, and damaged at every byte."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unweave.data.files.parquet_footer import _Reader, read_row_groups

TABLE = pa.table(
    {
        "number": np.arange(20.0),
        "word": [f"{n % 3}" for n in range(20)],
        "list": [[float(n)] * 3 for n in range(20)],
        "map": pa.array([[("a", n)] for n in range(20)], pa.map_(pa.string(), pa.int64())),
        "struct": [{"x": n, "y": None} for n in range(20)],
        **{f"column{n}": [True] * 20 for n in range(20)},
    }
)


@pytest.mark.parametrize("options", [{}, {"row_group_size": 7}, {"write_statistics": False},
                                     {"write_page_index": True}, {"version": "1.0"}])  # fmt: skip
def test_counts_are_those_of_pyarrow(tmp_path, options):
    pq.write_table(TABLE, tmp_path / "a.parquet", **options)
    metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
    found = read_row_groups(tmp_path / "a.parquet")
    assert len(found) == metadata.num_row_groups
    for number, group in enumerate(found):
        theirs = metadata.row_group(number)
        chunks = [theirs.column(place) for place in range(theirs.num_columns)]
        assert group.rows == theirs.num_rows
        assert list(group.values) == [(each.path_in_schema, each.num_values) for each in chunks]


def test_only_counts_are_read(tmp_path, monkeypatch):
    """All other numbers, nearly all of a footer, are skipped."""
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=2)
    read, plain = [], _Reader._integer
    monkeypatch.setattr(_Reader, "_integer", lambda self: read.append(plain(self)) or read[-1])
    groups = read_row_groups(tmp_path / "a.parquet")
    assert sorted(read) == sorted(
        number for group in groups for number in (group.rows, *(each[1] for each in group.values))
    )


def test_damaged_footers_are_read_or_refused(tmp_path):
    pq.write_table(TABLE.select(["number", "list"]), tmp_path / "a.parquet")
    content, rng = (tmp_path / "a.parquet").read_bytes(), random.Random(0)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    errors = []
    for place in range(start, len(content)):
        damaged = bytearray(content)
        damaged[place] = rng.choice([0, 0xFF, 0x9C, damaged[place] ^ 1 << rng.randrange(8)])
        (tmp_path / "a.parquet").write_bytes(damaged)
        try:
            read_row_groups(tmp_path / "a.parquet")
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 100
    assert all(error.startswith("its footer") for error in errors)
    for size in (0, 3, 8, start, len(content) - 1):
        (tmp_path / "a.parquet").write_bytes(content[:size])
        with pytest.raises(ValueError, match="footer"):
            read_row_groups(tmp_path / "a.parquet")
