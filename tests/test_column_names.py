"""Columns of a table by their names, ranges and globs."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from datasets import CPU
from unweave.data import Arrays
from unweave.data.files.tables import expand_columns, join_columns
from unweave.training.overrides import runs_from

KNOWN = ["sample", *(str(each) for each in range(400, 1000, 5)), "geneA", "geneB", "a,b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("400..410", ["400", "405", "410"]),
        ("402..411", ["405", "410"]),
        ("990..geneA", ["990", "995", "geneA"]),
        ("gene*", ["geneA", "geneB"]),
        ("gene?,sample", ["geneA", "geneB", "sample"]),
        ("4[01]0", ["400", "410"]),
        ("400,400..405", ["400", "405"]),
        ("a,b", ["a,b"]),
        ("*..*", None),
        ("gene", None),
        ("1000..2000", None),
        ("geneB..geneA", None),
    ],
)
def test_columns_are_named_by_ranges_and_globs(tmp_path, text, expected):
    if expected is None:
        with pytest.raises(ValueError, match="has no column"):
            expand_columns(text, KNOWN, tmp_path)
    else:
        assert expand_columns(text, KNOWN, tmp_path) == expected


@given(st.lists(st.text(max_size=5), min_size=1, unique=True))
def test_names_that_are_joined_are_read_as_these_names(names):
    assert expand_columns(join_columns(names), names, Path("table.csv")) == names


def test_a_line_break_outside_of_quotes_is_explained():
    with pytest.raises(ValueError, match="put a name with a line break in quotes"):
        expand_columns("u,a\nb", ["u", "a\nb"], Path("table.csv"))


def test_an_unknown_column_lists_the_few_nearest(tmp_path):
    names = [f"gene{n}" for n in range(2_000)]
    rows = [",".join(names), *[",".join(["1.5"] * 2_000)] * 3]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    with pytest.raises(
        ValueError, match=r"did you mean 'gene12'\? Near it: gene\d+.*2,000"
    ) as info:
        Arrays(tmp_path / "t.csv", "gen12").load(CPU)
    assert len(str(info.value)) < 250 + len(str(tmp_path))


def test_columns_on_the_command_line_are_text():
    for text in ("995", "400..900", "a,b", "gene*", "1.5", '"a,b",c'):
        (run,) = runs_from(
            ["data=arrays", "data.path=t.csv", f"data.key={text}", f"data.ignore={text}"]
        )
        assert (run.data.key, run.data.ignore) == (text, text)
