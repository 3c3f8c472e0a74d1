"""Tables as data: columns of Parquet and CSV files, as they are read, or refused by name."""

import datetime
import decimal
import gc
import os
import re
import time
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from byte_images import everything
from datasets import CPU
from unweave.data import Arrays, from_array
from unweave.data.files import tables
from unweave.data.files.columns import unlike_names
from unweave.metrics.table_files import read_files


def test_parquet_columns_are_vectors_and_factors(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"u": [0.5, 1.5, 2.5], "v": [1, 2, 3], "colour": ["red", "blue", "red"]}
    pq.write_table(pa.table(columns), path)
    dataset = Arrays(path, factors_key="colour", scale="none").load(CPU)
    assert everything(dataset).tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert dataset.factors(torch.arange(3)).tolist() == [[1], [0], [1]]
    assert dataset.factor_names == ("colour",)
    with pytest.raises(ValueError, match="did you mean 'colour'"):
        Arrays(path, factors_key="color").load(CPU)
    pq.write_table(pa.table({"u": [0.5, None, 2.5]}), path)
    with pytest.raises(ValueError, match="row 1, column 'u': expected a number, got none; 1 value"):
        Arrays(path).load(CPU)
    pq.write_table(pa.table({"u": [[0.5], [1.0, 2.0]]}), path)
    with pytest.raises(ValueError, match="lists of numbers of equal length"):
        Arrays(path).load(CPU)


@pytest.mark.parametrize("part", [",", ";", "\t"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_of_tables_are_standardised(tmp_path, suffix, part):
    """Integers of a table are not bytes; factors are text, integers or repeated numbers."""
    path = tmp_path / f"a.{suffix}"
    columns = {
        "age": [30, 255, 7, 90],
        "height": [1.5, 1.75, 0.5, 1.8],
        "colour": ["red", "blue", "red", "red"],
        "dose": [0.5, 10.0, 0.5, 10.0],
    }
    if suffix == "csv":
        lines = [columns, *zip(*columns.values(), strict=True)]
        path.write_text("\n".join(part.join(map(str, line)) for line in lines))
    else:
        pq.write_table(pa.table(columns), path)
    dataset = Arrays(path, factors_key="colour, dose").load(CPU)
    numbers = np.array([columns["age"], columns["height"]]).T
    standard = (numbers - numbers.mean(0)) / numbers.std(0)
    np.testing.assert_allclose(everything(dataset), standard, rtol=1e-5)
    inverted = dataset.schema.scaling.invert(everything(dataset).numpy())
    np.testing.assert_allclose(inverted, numbers, rtol=1e-5)
    (mean, _), (spread, _) = numbers.mean(0), numbers.std(0)
    assert any(f"{mean:.4g} and {spread:.4g} in age, " in note for note in dataset.notes)
    assert dataset.factors(torch.arange(4)).tolist() == [[1, 0], [0, 1], [1, 0], [1, 1]]
    assert dataset.factor_names == ("colour", "dose")
    assert not dataset.bounded
    with pytest.raises(ValueError, match="vectors of int64 from 7 to 255: say what they are"):
        Arrays(path, key="age").load(CPU)
    ages = Arrays(path, key="age", scale="counts").load(CPU)
    assert everything(ages).tolist() == [[30], [255], [7], [90]]
    with pytest.raises(
        ValueError, match=r"text in colour: choose others.*data\.factors_key=colour"
    ):
        Arrays(path, "age,colour").load(CPU)
    assert Arrays(path).load(CPU).factor_names == ("colour",)
    heights = Arrays(path, "dose", "height").load(CPU)
    assert heights.schema.continuous == ("height",)
    assert heights.factor_labels == ((0.5, 1.5, 1.75, 1.8),)


def test_a_table_of_numbers_needs_no_names(tmp_path):
    numbers = np.array([[0.1, 2], [0.3, 4], [0.5, 6]])
    np.savetxt(tmp_path / "a.csv", numbers, delimiter=",")
    spec = Arrays(tmp_path / "a.csv", key="column0", factors_key="column1", scale="none")
    dataset = spec.load(CPU)
    np.testing.assert_allclose(everything(dataset), numbers[:, :1], rtol=1e-6)
    (tmp_path / "a.csv").write_text("u,v\n1,2\n")
    with pytest.raises(ValueError, match=r"no column 'w'.*the choices are u, v"):
        Arrays(tmp_path / "a.csv", key="w").load(CPU)


CELLS = {
    "text": ("u,v\n1,2\n3,4\n5,n/a\n", "line 4, column 'v': expected a number, got 'n/a'"),
    "quoted lines": (
        'u,v,w\n1,2,"a\nb"\n3,x,c\n',
        "line 4, column 'v': expected a number, got 'x'",
    ),
    "without names": ("1,2\n3,?\n", "line 2, column 'column1': expected a number, got '?'"),
    "nan": ("u,v\n1,2\nnan,4\n", "line 3, column 'u': expected a number, got 'nan'"),
    "infinity": ("u,v\n1,2\n5,-inf\n", "line 3, column 'v': expected a number, got '-inf'"),
    "missing": ("u,v\n1,2\n\n3,\n", "line 4, column 'v': expected a number, got an empty cell"),
    "blank": ("u;v\n1; \n", "line 2, column 'v': expected a number, got an empty cell"),
    "short": ("u,v\n1,2\n3\n", "line 3: expected 2 values as in its first line, got 1"),
    "long": ("u,v\n1,2,3\n", "line 2: expected 2 values as in its first line, got 3"),
    "no name": ("u,,v\n0,1,2\n", "line 1: expected a name for every column, got none for column 2"),
}


@pytest.mark.parametrize(("text", "message"), CELLS.values(), ids=CELLS)
def test_a_bad_cell_of_a_table_is_named_by_line_and_column(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}, {message}")):
        Arrays(path, factors_key="w" if "w" in text else None).load(CPU)


def test_text_among_numbers_of_a_factor_is_noted(tmp_path):
    (tmp_path / "a.csv").write_text("u,size\n1,2\n3.5,10\n5,big\n")
    dataset = Arrays(tmp_path / "a.csv", factors_key="size").load(CPU)
    assert dataset.factor_labels == (("10", "2", "big"),)
    note = "line 4, column 'size': expected a number, got 'big'; its classes are text"
    assert note in dataset.notes


def test_lists_of_text_are_refused(tmp_path):
    table = {"t": [["a", "b"], ["c", "d"]], "u": [[1, 2], [3, 4]], "v": ["e", "f"]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    for keys in (("t",), ("u", "t"), ("u,t",)):
        with pytest.raises(ValueError, match=r"in column 't', got list.*string"):
            Arrays(tmp_path / "a.parquet", *keys).load(CPU)
    with pytest.raises(ValueError, match="text in u, v: choose others"):
        Arrays(tmp_path / "a.parquet", "u,v").load(CPU)


def test_a_first_line_that_numbers_the_columns_names_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0,1,2\n5,6,7\n8,9,10\n")
    dataset = Arrays(path, factors_key="1", scale="none").load(CPU)
    assert everything(dataset).tolist() == [[5, 7], [8, 10]]
    assert dataset.factor_names == ("1",)
    assert any("numbers the columns" in note for note in dataset.notes)
    path.write_text("0,1,3\n5,6,7\n")
    assert everything(Arrays(path, scale="none").load(CPU)).tolist() == [[0, 1, 3], [5, 6, 7]]
    path.write_text("0\n1\n")  # one column of numbers
    assert everything(Arrays(path).load(CPU)).tolist() == [[0], [1]]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_of_columns_are_distinct_and_may_have_commas(tmp_path, suffix):
    def written(names):
        path = tmp_path / f"a.{suffix}"
        if suffix == "csv":
            quoted = ",".join(f'"{name}"' for name in names)
            path.write_text(f"{quoted}\n1,2,0\n3,4,0\n")
        else:
            pq.write_table(pa.table([[1, 3], [2, 4], [0, 0]], names=names), path)
        return path

    path = written(["a,b", "c", "d"])
    assert everything(Arrays(path, scale="none").load(CPU)).tolist() == [[1, 2, 0], [3, 4, 0]]
    dataset = Arrays(path, key='c, "a,b"', factors_key="d", scale="none").load(CPU)
    assert everything(dataset).tolist() == [[2, 1], [4, 3]]
    for key in ("a,b", '"a,b"'):
        spec = Arrays(path, key="c", factors_key=key, scale="none")
        assert spec.load(CPU).factor_names == ("a,b",)
    with pytest.raises(ValueError, match=r"distinct names in .*, got a more than once"):
        Arrays(written(["a", "a", "b"])).load(CPU)


def test_a_csv_file_is_parsed_once(tmp_path, monkeypatch):
    seen = []
    parsed = tables.read_csv
    monkeypatch.setattr(tables, "read_csv", lambda path: seen.append(path) or parsed(path))
    (tmp_path / "a.csv").write_text("a,b,c\n1.5,2,0\n3,4,1\n")
    Arrays(tmp_path / "a.csv", factors_key="c").load(CPU)
    assert len(seen) == 1


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int8(), pa.uint16(), pa.int64()], ids=str)
def test_integers_of_tables_are_asked_about(tmp_path, kind):
    table = {"a": pa.array([1, 2, 100], kind), "b": pa.array([3, 0, 5], kind)}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=f"a.parquet: .*vectors of {kind} from 0 to 100: say"):
        Arrays(tmp_path / "a.parquet").load(CPU)
    dataset = Arrays(tmp_path / "a.parquet", scale="counts").load(CPU)
    assert everything(dataset).tolist() == [[1, 3], [2, 0], [100, 5]]


def test_a_bomb_in_the_lists_of_parquet_is_not_read(tmp_path, monkeypatch):
    """A single row with a long list is as large as many rows, whichever is asked for."""
    monkeypatch.setattr("unweave.data.files.rows.BOMB", 2**20)
    long = pa.ListArray.from_arrays(pa.array([0, 10**6], pa.int32()), np.zeros(10**6, np.int32))
    pq.write_table(pa.table({"a": long, "a.b": [1]}), tmp_path / "a.parquet")
    for key in ("a", "a.b"):
        with pytest.raises(ValueError, match="zip bomb"):
            Arrays(tmp_path / "a.parquet", key=key).load(CPU)


@pytest.mark.parametrize("kind", [pa.int8(), pa.string(), pa.large_string()])
def test_a_bomb_in_the_labels_of_parquet_is_not_read(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("unweave.data.files.rows.BOMB", 2**19)
    word = pa.array(["1" if kind == pa.int8() else "x" * 100]).cast(kind)
    labels = pa.DictionaryArray.from_arrays(np.zeros(2**17, np.int8), word).cast(kind)
    pq.write_table(pa.table({"a": labels}), tmp_path / "a.parquet")
    for read in (tables.ParquetFile.labels, tables.ParquetFile.rows):
        with pytest.raises(ValueError, match="zip bomb"):
            read(tables.ParquetFile(tmp_path / "a.parquet"), "a")


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("named", [True, False])
def test_decimal_commas_are_read_as_points(tmp_path, delimiter, named):
    rows = [["23,25", "1", "-0,5"], ["1.234,5", "2,5", "1,5e-3"], ["1.234", "3", ",25"]]
    lines = [*[["u", "v", "w"]] * named, *rows]
    (tmp_path / "a.csv").write_text("\n".join(map(delimiter.join, lines)))
    dataset = Arrays(tmp_path / "a.csv", scale="none").load(CPU)
    numbers = np.array([[23.25, 1, -0.5], [1234.5, 2.5, 0.0015], [1234, 3, 0.25]])
    np.testing.assert_allclose(everything(dataset), numbers, rtol=1e-6)
    names = "u, v, w" if named else "column0, column1, column2"
    assert f"decimal commas are read as points in {names}" in dataset.notes
    factor = dataset.schema.value_names[1]
    labels = Arrays(tmp_path / "a.csv", factors_key=factor).load(CPU).factor_labels
    assert labels == ((1, 2.5, 3),)


def test_commas_that_may_separate_thousands_are_not_guessed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("u;v;w\n1;1.234;1.234\n2,5;23,25;5\n")
    dataset = Arrays(path, scale="none").load(CPU)
    assert dataset.factor_names == ("v",)
    np.testing.assert_allclose(everything(dataset), [[1, 1.234], [2.5, 5]], rtol=1e-6)
    doubt = "may be decimal or separate thousands; read as"
    assert any(note.startswith(f"v: commas {doubt} text:") for note in dataset.notes)
    points = f"w: points {doubt} numbers with decimal points:"
    assert any(note.startswith(points) for note in dataset.notes)
    path.write_text("u\tv\n1\t1,234\n2\t5,678\n")  # as English spreadsheets write 1234
    dataset = Arrays(path, scale="none").load(CPU)
    assert everything(dataset).tolist() == [[1], [2]]
    assert any(note.startswith(f"v: commas {doubt} text:") for note in dataset.notes)
    path.write_text("u\tv\n1,5\t1,234\n2\t5,678\n")  # the first column decides
    dataset = Arrays(path, scale="none").load(CPU)
    np.testing.assert_allclose(everything(dataset), [[1.5, 1.234], [2, 5.678]], rtol=1e-6)
    path.write_text('u,v\n1,"2,5"\n2,"3,5"\n')  # commas separate the values
    assert Arrays(path, scale="none").load(CPU).factor_labels == (("2,5", "3,5"),)


def test_a_bad_cell_among_decimal_commas_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("u;v\n1,5;2\n2,5;3\nbad;4\n")
    with pytest.raises(ValueError, match="line 4, column 'u': expected a number, got 'bad'"):
        Arrays(tmp_path / "a.csv").load(CPU)


def test_a_csv_file_that_grows_is_read_as_it_was(tmp_path, monkeypatch):
    """Reading to the end never ended if another program wrote faster than lines are parsed."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,4\n")

    def grow(number):
        facts = fstat(number)
        path.write_text(path.read_text() + "5,6\n")
        return facts

    fstat = os.fstat
    monkeypatch.setattr("unweave.core.files.os.fstat", grow)
    assert [*map(list, tables.read_csv(path).columns)] == [["1", "3"], ["2", "4"]]


def test_the_cells_of_a_narrow_table_take_a_few_times_the_size_of_the_file(tmp_path, monkeypatch):
    """In blocks whose size does not divide the number of rows; lists of texts take 40 times."""
    monkeypatch.setattr("unweave.data.files.csv_text._MOST_ROWS", 1000)
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{n % 9},é\n" for n in range(10_500)))
    tracemalloc.start()
    try:
        table = tables.read_csv(tmp_path / "a.csv")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 6 * (tmp_path / "a.csv").stat().st_size
    digits, accents = table.columns
    assert list(digits) == [str(n % 9) for n in range(10_500)]
    assert (digits[1000], digits[-1], digits[998:1002]) == ("1", "5", ["8", "0", "1", "2"])
    assert set(accents) == {"é"}
    assert list(table.lines) == list(range(2, 10_502))


@pytest.mark.parametrize(("rows", "columns"), [(40_000, 2), (40, 20_000)])
def test_garbage_is_hardly_collected_while_a_csv_file_is_read(tmp_path, rows, columns):
    """Each time, Python looks at all objects of all modules, which took most of the time."""
    line = ",".join(["0.5"] * columns)
    (tmp_path / "a.csv").write_text("\n".join([",".join(map(str, range(columns))), *[line] * rows]))
    runs, thresholds = [], gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note := lambda phase, facts: runs.append(facts["generation"]))
    gc.set_threshold(700, 10, 10)  # Python's own
    try:
        assert len(tables.read_csv(tmp_path / "a.csv").lines) == rows
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert sum(generation > 0 for generation in runs) < 10


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_lines_are_numbered_as_in_the_file(tmp_path, quote):
    """Blank lines, every end of a line, and line breaks in quotes count."""
    text = f"a,b\r\n1,2\r\r\r3,{quote}4{quote if quote == chr(34) else ''}\n\n5,6"
    (tmp_path / "a.csv").write_text(text, newline="")
    assert [*tables.read_csv(tmp_path / "a.csv").lines] == [2, 5, 7]
    if quote == '"':
        (tmp_path / "a.csv").write_text('a,b\n"1\r\n\n",2\n3,4', newline="")
        assert [*tables.read_csv(tmp_path / "a.csv").lines] == [4, 5]


def test_a_csv_file_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("u,ort\n1,Köln\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"line 2: .*: save it as UTF-8 .*Latin-1.*'1,Köln'"):
        Arrays(path).load(CPU)
    path.write_bytes("u,ort\n1,Köln\n".encode("utf-16"))
    with pytest.raises(ValueError, match="got UTF-16: save it as UTF-8"):
        Arrays(path).load(CPU)
    path.write_bytes("u,ort\n1,Köln\n2,Köln\n".encode("utf-8-sig"))
    assert Arrays(path, scale="none").load(CPU).factor_labels == (("Köln",),)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_missing_values_are_counted_and_the_first_is_named(tmp_path, suffix):
    """Five values of three rows and three columns, one of them a column of integers."""
    path = tmp_path / f"a.{suffix}"
    table = {
        "u": [0.5, 1.5, None, 2.5, None],
        "v": [1.5, 2.5, None, 3.5, 4.5],
        "w": [1, None, 3, 4, None],
        "x": [1.5, 2, 3, 4, 5],
    }
    if suffix == "csv":
        rows = zip(*table.values(), strict=True)
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
        path.write_text("\n".join([",".join(table), *lines]))
        first = "line 3, column 'w': expected a number, got an empty cell; "
    elif suffix == "parquet":
        pq.write_table(pa.table(table), path, row_group_size=2)
        first = "row 1, column 'w': expected a number, got none; "
    else:
        np.save(path, np.array(list(table.values()), np.float64).T)
        first = "first in observation 1, value 2; "
    names = "value 0, value 1, value 2" if suffix == "npy" else "u, v, w"
    counts = f"5 values in 3 rows and 3 columns ({names}) are missing"
    with pytest.raises(ValueError, match=re.escape(first + counts)) as caught:
        Arrays(path).load(CPU)
    assert ("data.ignore=u,v,w" in str(caught.value)) == (suffix != "npy")
    assert ("labels, set data.factors_key=u,v,w" in str(caught.value)) == (suffix != "npy")
    if suffix != "npy":
        assert Arrays(path, ignore="u,v,w").load(CPU).size == 5


def test_values_of_images_that_are_not_finite_are_counted():
    images = np.random.default_rng(0).normal(size=(5, 8, 9))
    images[2, 3, 4] = np.nan
    images[4, 0, :2] = np.inf
    where = "observation 2, channel 0, at row 3 and column 4; 3 values of 2 images are not finite"
    with pytest.raises(ValueError, match=where):
        from_array(images)


def test_a_column_unlike_its_neighbours_is_named(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 60))
    names = [f"G{n}" for n in range(60)]
    names.insert(30, "leiden")
    cells = np.insert(rows.astype(object), 30, np.arange(20) % 5, axis=1)
    lines = [",".join(map(str, row)) for row in cells]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *lines]))
    dataset = Arrays(tmp_path / "a.csv").load(CPU)
    advice = "data.ignore=leiden, or make it a label with data.factors_key=leiden"
    assert "among them leiden, whose name is unlike the others" in dataset.notes[0]
    assert advice in dataset.notes[0]
    with_group = [f"{'ab'[n % 2]},{line}" for n, line in enumerate(lines)]
    (tmp_path / "b.csv").write_text("\n".join([",".join(["group", *names]), *with_group]))
    labelled = Arrays(tmp_path / "b.csv").load(CPU)
    assert "make it a label with data.factors_key=group,leiden" in labelled.notes[0]
    for fields in ({"ignore": "leiden"}, {"factors_key": "leiden"}, {"key": "G*"}):
        notes = Arrays(tmp_path / "a.csv", **fields).load(CPU).notes
        assert not any("unlike" in note for note in notes)


def test_every_named_factor_is_described(tmp_path):
    lines = [f"{n}.5,{'ab'[n % 2]},{n + 0.25}" for n in range(6)]
    (tmp_path / "a.csv").write_text("\n".join(["u,operator,dilution", *lines]))
    notes = Arrays(tmp_path / "a.csv", factors_key="operator,dilution").load(CPU).notes
    assert "operator: 2 classes (a, b)" in notes
    assert "dilution: 6 numbers from 0.25 to 5.25" in notes


def test_dates_of_parquet_are_text_and_decimals_numbers(tmp_path):
    path = tmp_path / "a.parquet"
    days = [datetime.date(2024, 5, 1 + n // 3) for n in range(6)]
    times = [datetime.datetime(2024, 5, 1, 12, n) for n in range(6)]
    prices = [decimal.Decimal(n) / 4 for n in range(6)]
    table = {
        "u": np.arange(6) / 2,
        "price": prices,
        "day": days,
        "taken": times,
        "gone": [None] * 6,
    }
    pq.write_table(pa.table(table), path)
    dataset = Arrays(path, scale="none").load(CPU)
    assert everything(dataset).tolist() == [[n / 2, n / 4] for n in range(6)]
    assert dataset.factor_names == ("day",)
    assert dataset.factor_labels == (("2024-05-01", "2024-05-02"),)
    assert dataset.row_names[1].startswith("2024-05-01 12:01:00")
    assert any(note.startswith("taken: 6 different texts") for note in dataset.notes)
    with pytest.raises(ValueError, match=r"text in day: choose others.*factors_key=day"):
        Arrays(path, "u,day").load(CPU)
    assert Arrays(path, "u", "price", scale="none").load(CPU).schema.continuous == ("price",)
    table["nested"] = [{"a": n} for n in range(6)]
    pq.write_table(pa.table(table), path)
    with pytest.raises(ValueError, match=r"'nested' of struct.*with data\.ignore=nested"):
        Arrays(path).load(CPU)
    assert Arrays(path, ignore="nested,price").load(CPU).shape == (1,)


def cpu_seconds(function, *arguments):
    before = time.process_time()
    function(*arguments)
    return time.process_time() - before


@pytest.mark.filterwarnings("ignore:rows of")
def test_time_grows_with_the_columns_and_not_with_their_square(tmp_path):
    (tmp_path / "codes.csv").write_text("z\n0.5\n1.5\n")

    def to_read(count):
        lines = [f"c{n}" for n in range(count)], ["0"] * count, ["1"] * count
        path = tmp_path / f"{count}.csv"
        path.write_text("\n".join(map(",".join, lines)))
        return cpu_seconds(read_files, tmp_path / "codes.csv", path, "", "")

    def to_name(length):
        return cpu_seconds(unlike_names, ["c1", "c2", "1" * length + "c"])

    to_read(1)  # imports what it needs
    assert to_read(20_000) < 8 * to_read(5_000)
    assert to_name(200_000) < 8 * to_name(50_000) + 0.05


def test_one_long_cell_takes_its_own_memory_only(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "\n".join(["x,note", *(f"{n}.5,a" for n in range(3000)), "0.5," + "b" * 30_000])
    )
    tracemalloc.start()
    dataset = Arrays(path).load(CPU)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dataset.factor_labels == (("a", "b" * 30_000),)
    assert peak < 10 * 2**20  # an array of strings takes 360 MB
