"""Tables in memory with named columns are read as the same table in a CSV file."""

import dataclasses
import datetime

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import torch

import unweave as uw
from unweave.data import from_array
from unweave.data.files.frames import is_frame
from unweave.data.splits import with_split

CPU = torch.device("cpu")
LIBRARIES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pyarrow.table}
WAVELENGTHS = [str(400 + 5 * n) for n in range(12)]


class Frame:
    """The part of a DataFrame that is used: columns by name, which NumPy can read."""

    def __init__(self, columns):
        self.data = columns

    @property
    def columns(self):
        return list(self.data)

    def __getitem__(self, key):
        if isinstance(key, list):
            return Frame({name: self.data[name] for name in key})
        return self.data[key]

    def __len__(self):
        return len(next(iter(self.data.values())))

    def renamed(self, function):
        return Frame({function(name): values for name, values in self.data.items()})

    def to_csv(self, path):
        rows = zip(*self.data.values(), strict=True)
        path.write_text("\n".join([",".join(map(str, self.columns)), *map(_line, rows)]))
        return path


def _line(row):
    return ",".join("" if value is None else str(value) for value in row)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12)) * np.linspace(0.1, 2, 12)
    return Frame(
        {
            "sample": np.array([f"S{n}" for n in range(60)], object),
            **{name: x[:, n] for n, name in enumerate(WAVELENGTHS)},
            "operator": np.array(["anna", "ben", None] * 20, object),
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return uw.fit(table[WAVELENGTHS], steps=3, progress=False, network=uw.MLP(hidden=(8,)))


def test_a_table_is_read_as_the_same_csv_file(table, tmp_path):
    file = uw.Arrays(table.to_csv(tmp_path / "a.csv")).load(CPU)
    _, dataset = from_array(table)
    assert dataset.schema == file.schema
    assert dataset.row_names == file.row_names
    assert torch.equal(dataset.data, file.data)
    assert torch.equal(dataset.codes, file.codes)
    assert dataset.fingerprint == file.fingerprint
    assert dataset.labels_fingerprint == file.labels_fingerprint
    assert dataset.schema.scaling.method == "common"
    assert any("operator: 2 classes" in note for note in dataset.notes)


def test_names_and_labels_are_part_of_what_identifies_a_table(table):
    spectra, _ = from_array(table[WAVELENGTHS])
    other, _ = from_array(table[WAVELENGTHS].renamed(lambda name: f"x{name}"))
    labelled, _ = from_array(table)
    values = np.stack([table[name] for name in WAVELENGTHS], 1)
    array, dataset = from_array(values)
    assert len({each.digest for each in (spectra, other, labelled, array)}) == 4
    assert dataset.schema.value_names == ()


def test_encode_finds_columns_by_name(model, table):
    expected = model.encode(table[WAVELENGTHS])
    values = np.stack([table[name] for name in WAVELENGTHS], 1)
    assert np.array_equal(model.encode(values), expected)
    assert np.array_equal(model.encode(table[WAVELENGTHS[::-1]]), expected)
    assert np.array_equal(model.encode(table), expected)  # others are ignored
    for kind in (int, float):
        assert np.array_equal(model.encode(table[WAVELENGTHS].renamed(kind)), expected)
    with pytest.raises(ValueError, match=r"but the table has no column '400', '405'$"):
        model.encode(table[WAVELENGTHS[2:]])


def test_encode_finds_columns_of_a_file_by_the_value_of_their_names(model, table, tmp_path):
    expected = model.encode(table[WAVELENGTHS])
    written = table[["sample", *WAVELENGTHS[::-1]]].renamed(
        lambda name: name if name == "sample" else f"{float(name):.1f}"
    )
    assert np.allclose(model.encode(written.to_csv(tmp_path / "a.csv")), expected, atol=1e-6)


def test_labels_may_be_a_table_or_a_column(table):
    values = np.stack([table[name] for name in WAVELENGTHS], 1)
    _, dataset = from_array(values, table[["operator", "400"]])
    assert dataset.factor_names == ("operator", "400")
    assert dataset.schema.continuous == ("400",)
    _, dataset = from_array(table, table[["400"]])  # text is no factor beside those that are given
    assert dataset.factor_names == ("400",)
    assert "not read: operator" in dataset.notes
    assert dataset.row_names[1] == "S1"
    with pytest.raises(ValueError, match="one row for each observation"):
        from_array(table[WAVELENGTHS], np.zeros(59, int))


def test_missing_numbers_and_tables_of_text_are_refused_by_name(table):
    values = table["405"].copy()
    values[7] = np.nan
    broken = Frame({**table.data, "405": values})
    with pytest.raises(ValueError, match=r"the table, row 7, column '405': expected a number"):
        from_array(broken)
    with pytest.raises(ValueError, match="expected columns of numbers in the table, got sample"):
        from_array(table[["sample", "operator"]])
    with pytest.raises(ValueError, match="distinct names in the table, got 400"):
        from_array(Frame({"400": values, 400: values}))


def test_columns_of_objects_are_read_by_their_text():
    class Missing:
        """As the missing value of pandas: it has no truth value."""

        def __str__(self):
            return "<NA>"

        def __eq__(self, other):
            raise TypeError

        __hash__ = None

    numbers = np.array([1.5, 2, 3, 4] * 5, object)
    labels = np.array(["a", None, "b", Missing()] * 5, object)
    times = np.array(["2024-01-01", "NaT"] * 10, "datetime64[D]")
    _, dataset = from_array(Frame({"u": numbers, "v": numbers, "kind": labels, "day": times}))
    assert dataset.schema.value_names == ("u", "v")
    assert dataset.factor_labels == (("a", "b"), ("2024-01-01",))


def test_an_arrow_table_is_read_by_the_names_of_its_columns():
    arrow = pyarrow.table({"u": [0.5, 1.5, 2.5], "v": [1.0, 0.0, 3.0]})
    assert is_frame(arrow)
    _, dataset = from_array(arrow)
    assert dataset.schema.value_names == ("u", "v")


def test_a_column_that_spoils_spectra_is_named(table, tmp_path):
    spoilt = Frame({**table[WAVELENGTHS].data, "conc": np.random.default_rng(0).uniform(size=60)})
    for dataset in (
        from_array(spoilt)[1],
        uw.Arrays(spoilt.to_csv(tmp_path / "a.csv")).load(CPU),
    ):
        assert dataset.schema.scaling.method == "standardise"
        (note,) = [note for note in dataset.notes if "among them conc" in note]
        assert "without it, the columns would be read as spectra, which share one scale" in note
    assert "data.ignore=conc" in note


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


def written(columns, folder):
    """The same table as a CSV and as a Parquet file."""
    pandas.DataFrame(columns).to_csv(folder / "a.csv", index=False)
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return [uw.Arrays(folder / f"a.{suffix}") for suffix in ("csv", "parquet")]


@pytest.mark.parametrize(
    "names",
    [("u", " v "), ("Weight\n(kg)", "v"), ("a\r\nb", 'say "v"'), ("a", "b", "a,b")],
)
def test_columns_are_found_whatever_their_names_are(names, library, tmp_path):
    values = np.random.default_rng(0).normal(size=(20, len(names)))
    columns = dict(zip(names, values.T.tolist(), strict=True))
    if "a,b" in names:
        columns["a,b"] = ["x", "y"] * 10
    observed = [name for name in names if name != "a,b"]
    for dataset in (
        from_array(library(columns))[1],
        *(each.load(CPU) for each in written(columns, tmp_path)),
    ):
        assert [name.strip() for name in dataset.schema.value_names] == [*map(str.strip, observed)]
        found = dataset.schema.scaling.invert(dataset.images(torch.arange(20)).numpy())
        assert np.allclose(found, values[:, : len(observed)], atol=1e-5)
    model = uw.fit(library(columns), steps=2, progress=False, network=uw.MLP(hidden=(4,)))
    expected = model.encode(values[:, : len(observed)])
    for new in (library(columns), tmp_path / "a.csv", tmp_path / "a.parquet"):
        assert np.allclose(model.encode(new), expected, atol=1e-5)


@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame])
def test_labels_in_one_column_are_those_of_a_table_of_that_column(library):
    count = 60
    columns = {
        "age": list(range(0, 7 * count, 7)),
        "site": (["a", "b", None] * 20),
        "day": [datetime.date(2024, 1, 1 + n % 3) for n in range(count)],
        "ill": [n % 2 == 0 for n in range(count)],
    }
    table, x = library(columns), np.random.default_rng(0).normal(size=(count, 3))
    for name in columns:
        (one, alone), (whole, frame) = from_array(x, table[name]), from_array(x, table[[name]])
        assert alone.schema == frame.schema
        assert torch.equal(alone.codes, frame.codes)
        assert one == whole
        _, renamed = from_array(x, table[name], ["label"])
        assert renamed.factor_names == ("label",)
        assert torch.equal(renamed.codes, frame.codes)
        assert renamed.schema.continuous == (("label",) if name == "age" else ())
    assert alone.factor_labels == (("False", "True"),)
    with pytest.raises(ValueError, match="expected 1 distinct factor names"):
        from_array(x, table["site"], ["a", "b"])


@pytest.mark.parametrize("library", [pandas, polars])
def test_a_column_without_a_name_is_factor0(library):
    labels = library.Series([0, 1] * 10)
    assert from_array(np.eye(20), labels)[1].factor_names == ("factor0",)


def test_text_of_pandas_with_missing_values_is_read_as_labels():
    labels = pandas.Series(["a", None] * 10, name="site", dtype="string")
    _, dataset = from_array(np.eye(20), labels)
    assert dataset.factor_labels == (("a",),)
    assert dataset.factors(torch.tensor([0, 1])).tolist() == [[0], [-1]]


def test_truth_values_are_a_factor_unless_they_are_asked_for(library, tmp_path):
    columns = {"u": [0.5, 1.0, 2.0, 4.0], "ill": [True, False, True, True]}
    _, dataset = from_array(library(columns))
    files = written(columns, tmp_path)
    for each in (dataset, *(file.load(CPU) for file in files)):
        assert each.schema.value_names == ("u",)
        assert each.factor_names == ("ill",)
        assert each.factor_labels == (("False", "True"),)
        assert each.codes.tolist() == [[1], [0], [1], [1]]
    chosen = dataclasses.replace(files[1], key="u,ill").load(CPU)
    assert chosen.schema.value_names == ("u", "ill")


def test_columns_of_lists_are_vectors_as_in_parquet_files(library, tmp_path):
    columns = {"embedding": [[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]], "u": [0.5, 1.0, 2.0]}
    _, dataset = from_array(library(columns))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    file = uw.Arrays(tmp_path / "a.parquet").load(CPU)
    assert dataset.shape == (3,)
    assert torch.equal(dataset.data, file.data)
    for wrong in ([[1.0, 2.0], [3.0], [0.0, 1.0]], [["a"], ["b"], ["c"]], [[1.0], None, [2.0]]):
        with pytest.raises(ValueError, match=r"lists of numbers of equal length, in column 'e'"):
            from_array(library({"e": wrong, "u": columns["u"]}))
    with pytest.raises(ValueError, match="expected one label for each row in column 'embedding'"):
        from_array(np.eye(3), library(columns))


def test_one_of_something_is_singular(library):
    columns = {"u": [0.5, 1.0, 2.0, 4.0], "site": ["a"] * 4}
    _, dataset = from_array(library(columns), library({"mm": [0.5, None, None, None]}))
    assert "1 column has the observations: u" in dataset.notes
    assert "mm: 1 number from 0.5 to 0.5, 3 missing" in dataset.notes
    assert "4 vectors of 1 number" in dataset.notes
    _, dataset = from_array(library(columns))
    assert any(note.startswith("site: 1 class,") for note in dataset.notes)


def test_every_column_is_read_once(monkeypatch, table):
    read = []
    monkeypatch.setattr(Frame, "__getitem__", lambda self, key: read.append(key) or self.data[key])
    from_array(table)
    assert sorted(read) == sorted(table.columns)


def test_names_of_rows_are_those_of_the_table_of_the_spec(table):
    names = [f"T{n}" for n in range(60)]
    plain, _ = from_array(table[WAVELENGTHS])
    named, _ = from_array(table[["sample", *WAVELENGTHS]])
    others, _ = from_array(Frame({"sample": np.array(names, object), **table[WAVELENGTHS].data}))
    assert plain == named == others  # they are the same observations
    for spec, expected in ((plain, ""), (named, "S"), (others, "T")):
        for split in (spec, with_split(spec, "train"), with_split(spec, "test")):
            assert {name[0] for name in split.load(CPU).row_names} == set(expected)


def test_missing_cells_of_a_table_in_memory_are_answered_in_its_own_words():
    """They were answered with the code that removes rows of an array."""
    frame = pandas.DataFrame({"u": [1.5, None, 2.5], "v": [0.5, 1.5, 3.5]})
    with pytest.raises(ValueError, match=r"remove the row, as in table\.dropna\(\)"):
        from_array(frame)
    assert from_array(frame.dropna())[1].size == 2
