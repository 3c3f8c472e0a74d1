"""Labels as scientists have them: gaps, numbers, identifiers, file names in any form."""

import itertools
import random

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from datasets import CPU
from unweave.data import MISSING, Arrays, Folder, from_array
from unweave.data.files.label_files import find_label_file, read_labels
from unweave.data.files.labels import MISSING_WORDS, LabelColumn
from unweave.training.overrides import runs_from

NAMES = ["a/one.png", "a/two.png", "b/three.jpg", "four.png"]


def photos(folder, names=NAMES):
    """Save an image of a grey level for each name."""
    for level, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), level).save(path)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def labels_of(dataset, name):
    """Return the label of each observation, None if it is missing."""
    column = dataset.schema.column(name)
    values = dataset.factor_labels[column]
    codes = dataset.factors(torch.arange(dataset.size))[:, column].tolist()
    return [None if code == MISSING else values[code] for code in codes]


def by_image(dataset, name):
    return dict(zip(dataset.row_names, labels_of(dataset, name), strict=True))


COLOURS = dict(zip(sorted(NAMES), ("red", "blue", "red", "blue"), strict=True))


@pytest.mark.parametrize(
    "form",
    [
        lambda name: name,
        lambda name: name.rpartition(".")[0],
        lambda name: name.rpartition("/")[2],
        lambda name: name.rpartition("/")[2].rpartition(".")[0],
        lambda name: f"photos/{name}",
        lambda name: f"./{name}",
        lambda name: "C:\\data\\" + name.replace("/", "\\"),
        lambda name: f" {name} ",
    ],
    ids=["path", "no extension", "name", "stem", "outer", "dot", "windows", "spaces"],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_file_column_is_found_by_its_cells(tmp_path, form, place):
    photos(tmp_path)
    lines = [["colour", "size"], *([COLOURS[name], str(n % 2)] for n, name in enumerate(NAMES))]
    for line, cell in zip(lines, ["whatever", *map(form, NAMES)], strict=True):
        line.insert(place, cell)
    write(tmp_path / "labels.csv", *map(",".join, lines))
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.factor_names == ("colour", "size")
    assert by_image(dataset, "colour") == COLOURS
    assert dataset.notes[0] == "labels are read from labels.csv, the only CSV file in the folder"
    assert (
        dataset.notes[1] == "labels.csv: column 'whatever' names the images; labels: colour, size"
    )


def test_observations_of_one_file_share_its_labels(tmp_path):
    photos(tmp_path, ["a.png", "b.png"])
    write(tmp_path / "labels.csv", "file,kind", "a,x", "b,y")
    table = read_labels(tmp_path, [tmp_path / f"{name}.png" for name in "aaabb"], None, "")
    assert table.codes[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert table.row_names == ("a.png", "a.png", "a.png", "b.png", "b.png")


def test_rows_and_images_without_each_other_are_noted(tmp_path):
    photos(tmp_path)
    write(
        tmp_path / "labels.csv", "file,colour", "a/one,red", "four,red", "five,blue", "a/two,blue"
    )
    dataset = Folder(tmp_path).load(CPU)
    assert by_image(dataset, "colour") == {
        "a/one.png": "red", "a/two.png": "blue", "b/three.jpg": None, "four.png": "red",
    }  # fmt: skip
    assert "1 row of labels.csv names no image in the folder and is ignored" in dataset.notes
    unlabelled = "1 of 4 images has no row in labels.csv, and no labels; the first is b/three.jpg"
    assert unlabelled in dataset.notes
    assert "colour: 2 classes, 1 missing" in dataset.notes


@pytest.mark.parametrize("word", sorted(MISSING_WORDS))
def test_missing_cells_are_missing_in_every_kind_of_column(word):
    numbers = LabelColumn.from_cells("n", ["3", word, "10", "3"])
    assert (numbers.labels, numbers.codes.tolist()) == ((3, 10), [0, MISSING, 1, 0])
    real = LabelColumn.from_cells("r", ["0.5", "1.5", f" {word} "])
    assert real.continuous
    assert (real.labels, real.codes.tolist()) == ((0.5, 1.5), [0, 1, MISSING])
    text = LabelColumn.from_cells("t", [word, "red", "Na", "red"])  # sodium is not missing
    assert (text.labels, text.codes.tolist()) == (("Na", "red"), [MISSING, 1, 0, 1])


def test_numbers_are_classes_if_they_repeat():
    few = LabelColumn.from_cells("dose", ["0.1", "10", "0.1", "10"])
    assert not few.continuous
    assert LabelColumn.from_cells("x", [f"{n / 7:.3f}" for n in range(300)] * 4).continuous
    counts = [str(n * 13 % 499) for n in range(100)]
    assert LabelColumn.from_cells("area", counts).continuous  # integers that hardly repeat
    assert not LabelColumn.from_cells("age", [str(n % 30) for n in range(100)]).continuous
    assert not LabelColumn.from_array("class", np.arange(100)).continuous
    assert LabelColumn.from_array("x", np.arange(100) / 3).continuous


def test_large_integers_with_gaps_stay_distinct():
    column = LabelColumn.from_cells("n", [str(2**60), str(2**60 + 1), "", str(2**60)])
    assert column.labels == (2**60, 2**60 + 1)
    assert column.codes.tolist() == [0, 1, MISSING, 0]


def test_a_continuous_column_has_ranks_as_classes_and_its_values_as_labels(tmp_path):
    photos(tmp_path)
    write(tmp_path / "l.csv", "f,mm", "four,30.25", "a/one,89.5", "a/two,NA", "b/three,-2")
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.schema.continuous == ("mm",)
    assert dataset.factor_labels == ((-2, 30.25, 89.5),)
    assert dataset.factors(torch.arange(4))[:, 0].tolist() == [2, MISSING, 0, 1]
    assert "mm: 3 numbers from -2 to 89.5, 1 missing" in dataset.notes
    assert dataset.lattice is None


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_and_columns_does_not_matter(tmp_path, seed):
    rng, names = random.Random(seed), [f"{n:02}.png" for n in range(30)]
    photos(tmp_path, names)
    columns = {
        "file": names,
        "mm": [f"{rng.random():.4f}" if rng.random() < 0.8 else "" for _ in names],
        "kind": [rng.choice(["x", "y", "NA"]) for _ in names],
        "row": [str(n) for n in range(30)],
        "id": [f"s{n}" for n in range(30)],
    }
    results = []
    for shuffled in (False, True):
        heads, rows = list(columns), list(range(30))
        if shuffled:
            rng.shuffle(heads)
            rng.shuffle(rows)
        lines = [heads, *([columns[name][row] for name in heads] for row in rows)]
        write(tmp_path / "labels.csv", *map(",".join, lines))
        dataset = Folder(tmp_path).load(CPU)
        results.append({name: by_image(dataset, name) for name in dataset.factor_names})
        assert set(dataset.factor_names) == {"mm", "kind"}
    assert results[0] == results[1]


def test_identifiers_are_set_aside_and_name_the_rows_of_tables(tmp_path):
    lines = [f"S-{n:03},{'ab'[n % 2]},{n},{n * 7 % 50 / 2},{n / 3}" for n in range(50)]
    write(tmp_path / "t.csv", "sample,site,id,u,v", *lines)
    dataset = Arrays(tmp_path / "t.csv").load(CPU)
    assert dataset.row_names == tuple(f"S-{n:03}" for n in range(50))
    assert dataset.factor_names == ("site",)
    assert dataset.schema.value_names == ("u", "v")
    for note in (
        "sample: 50 different texts in 50 rows: taken as names of the rows, not as a factor",
        "id: 50 different integers in 50 rows: taken as names of the rows, not as a factor",
        "site: 2 classes, text that repeats (a, b): taken as a factor",
        "2 columns are observations: u, v",
    ):
        assert note in dataset.notes
    test = Arrays(tmp_path / "t.csv", split="test").load(CPU)
    assert len(test.row_names) == test.size == 5
    assert (test.images(torch.arange(5))[:, 1].diff() > 0).all()  # both in the order of the file
    assert test.row_names == tuple(sorted(test.row_names))
    # Numbers that are named are read, whatever they look like.
    chosen = Arrays(tmp_path / "t.csv", "id,u", "v").load(CPU)
    assert chosen.factor_names == ("v",)
    assert chosen.schema.continuous == ("v",)
    assert chosen.schema.value_names == ("id", "u")
    assert chosen.row_names == tuple(f"S-{n:03}" for n in range(50))
    assert "not read: site" in chosen.notes


def test_names_of_rows_are_no_factor_even_if_they_are_asked_for(tmp_path):
    """One of 397 distinct texts in 400 rows used to become a factor of 397 classes."""
    samples = np.array([f"S-{n % 397:03}" for n in range(400)])
    sites, x = (
        np.where(np.arange(400) % 2, "a", "b"),
        np.random.default_rng(0).normal(size=(400, 2)),
    )
    lines = [f"{a},{b},{u},{v}" for a, b, (u, v) in zip(samples, sites, x, strict=True)]
    write(tmp_path / "t.csv", "sample,site,u,v", *lines)
    np.savez(tmp_path / "a.npz", x=x, sample=samples)
    frame = pandas.DataFrame({"sample": samples, "site": sites})
    read = {
        ("site",): [
            Arrays(tmp_path / "t.csv", factors_key="sample,site").load(CPU),
            from_array(x, frame)[1],
            from_array(x, np.stack([samples, sites], 1), ["sample", "site"])[1],
        ],
        (): [
            Arrays(tmp_path / "t.csv", factors_key="sample", ignore="site").load(CPU),
            Arrays(tmp_path / "a.npz", "x", "sample").load(CPU),
        ],
    }
    left_out = (
        "sample: 397 different texts in 400 rows: taken as names of the rows, not as a factor"
    )
    for names, datasets in read.items():
        for dataset in datasets:
            assert dataset.factor_names == names
            assert dataset.row_names == tuple(samples)
            assert list(dataset.notes).count(left_out) == 1


def test_nearly_distinct_text_is_an_identifier_and_gaps_name_no_rows(tmp_path):
    lines = [f"{'' if n == 3 else f'S{n // 2 * 2 if n < 2 else n}'},{n + 0.5}" for n in range(50)]
    write(tmp_path / "t.csv", "sample,u", *lines)
    dataset = Arrays(tmp_path / "t.csv").load(CPU)
    assert (dataset.factor_names, dataset.row_names) == ((), ())
    assert "sample: 48 different texts in 49 rows, 1 missing" in " ".join(dataset.notes)


def test_an_unnamed_first_column_names_the_rows(tmp_path):
    """pandas and R write the names of the rows this way."""
    write(tmp_path / "t.csv", ",gene0,gene1", *(f"cell{n},{n + 0.5},{n}" for n in range(6)))
    dataset = Arrays(tmp_path / "t.csv").load(CPU)
    assert dataset.row_names[:2] == ("cell0", "cell1")
    assert dataset.schema.value_names == ("gene0", "gene1")
    write(tmp_path / "t.csv", ",gene0", *(f"{n},{3 * n + 0.5}" for n in range(6)))
    dataset = Arrays(tmp_path / "t.csv").load(CPU)
    assert dataset.row_names == tuple("012345")
    assert dataset.shape == (1,)
    assert (dataset.images(torch.arange(6)).diff(dim=0) > 0).all()


def test_columns_of_parquet_are_chosen_like_those_of_csv(tmp_path):
    table = {
        "sample": [f"S{n}" for n in range(8)],
        "site": ["a", None, "b", "a", "b", "", "a", "b"],
        "dose": [0.5, None, 2.5, 3.5, float("nan"), 5.5, 6.5, 7.5],
        "u": [n + 0.5 for n in range(8)],
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    dataset = Arrays(tmp_path / "t.parquet", "u").load(CPU)
    assert dataset.row_names == tuple(table["sample"])
    assert labels_of(dataset, "site") == ["a", None, "b", "a", "b", None, "a", "b"]
    doses = Arrays(tmp_path / "t.parquet", "u", "dose").load(CPU)
    assert labels_of(doses, "dose") == [0.5, None, 2.5, 3.5, None, 5.5, 6.5, 7.5]
    assert doses.schema.continuous == ("dose",)


def test_numbers_are_classes_or_continuous_alike_in_csv_and_parquet(tmp_path):
    count = 60
    columns = {
        "x": np.linspace(0, 1, count).tolist(),
        "weight": list(range(100, 100 + count)),
        "holes": [None if n == 7 else n for n in range(count)],
        "kind": [n % 4 for n in range(count)],
        "size": [n / 7 for n in range(count)],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    lines = (
        ",".join("" if value is None else str(value) for value in row)
        for row in zip(*columns.values(), strict=True)
    )
    (tmp_path / "t.csv").write_text("\n".join([",".join(columns), *lines]))
    factors = "weight,holes,kind,size"
    one, two = (Arrays(tmp_path / f"t.{e}", "x", factors).load(CPU) for e in ("csv", "parquet"))
    assert one.schema.continuous == two.schema.continuous == ("weight", "holes", "size")
    assert one.labels_fingerprint == two.labels_fingerprint
    assert one.fingerprint == two.fingerprint


def test_a_categorical_column_of_parquet_is_text(tmp_path):
    site = pa.array(["a", None, "b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"site": site, "u": [1.5, 2, 3, 4]}), tmp_path / "t.parquet")
    assert labels_of(Arrays(tmp_path / "t.parquet").load(CPU), "site") == ["a", None, "b", "a"]


def test_a_first_line_of_numbers_is_noted(tmp_path):
    write(tmp_path / "t.csv", "400,405", "0.5,0.25", "0.75,1")
    dataset = Arrays(tmp_path / "t.csv").load(CPU)
    assert dataset.size == 3
    assert any(
        "first line has only numbers and is read as an observation" in n for n in dataset.notes
    )
    write(tmp_path / "t.csv", "a,b", "0.5,0.25")
    assert not any("first line" in note for note in Arrays(tmp_path / "t.csv").load(CPU).notes)


def test_the_fingerprint_of_labels_follows_their_values():
    """Doubled numbers have the same ranks, and renamed classes the same numbers."""
    images, numbers = np.eye(4), np.array([0.5, 1.25, 2.5, 4])
    prints = [
        from_array(images, factors, names)[1].labels_fingerprint
        for factors in (numbers, 2 * numbers, np.array(list("abcd")), np.array(list("abce")))
        for names in (["x"], ["y"])
    ]
    assert len(set(prints)) == 8
    assert len({from_array(images, each)[1].fingerprint for each in (numbers, None)}) == 1


def test_arrays_of_objects_are_identified_by_their_content():
    """Not by the addresses of the objects."""
    one, two = (np.array([f"a{n}" for n in range(3)] + [None], dtype=object) for _ in range(2))
    assert from_array(np.eye(4), one)[0].digest == from_array(np.eye(4), two)[0].digest


def test_labels_in_arrays_may_be_missing():
    factors = np.array([[0, 0.5], [np.nan, 1.25], [1, np.nan], [0, 3.5]])
    _, dataset = from_array(np.eye(4), factors, ["kind", "mm"])
    assert labels_of(dataset, "kind") == [0, None, 1, 0]
    assert labels_of(dataset, "mm") == [0.5, 1.25, None, 3.5]
    assert dataset.schema.continuous == ("mm",)
    assert "kind: 2 classes, 1 missing" in dataset.notes
    _, words = from_array(np.eye(3), np.array(["red", "", "blue"]))
    assert labels_of(words, "factor0") == ["red", None, "blue"]


def test_ignored_columns_are_not_read(tmp_path):
    photos(tmp_path)
    lines = [f"{name},{n},{n % 2},{n % 2}" for n, name in enumerate(NAMES)]
    write(tmp_path / "labels.csv", "file,plate1,plate2,kind", *lines)
    assert Folder(tmp_path, ignore="plate*").load(CPU).factor_names == ("kind",)
    assert Folder(tmp_path, ignore="*").load(CPU).factor_names == ()
    with pytest.raises(ValueError, match="did you mean 'kind'"):
        Folder(tmp_path, ignore="kinds").load(CPU)
    (tmp_path / "labels.csv").unlink()
    write(
        tmp_path / "t.csv", "sample,plate1,u,v", *(f"s{n},{n + 0.5},{n / 4},{-n}" for n in range(5))
    )
    dataset = Arrays(tmp_path / "t.csv", ignore="sample,plate*").load(CPU)
    assert (dataset.schema.value_names, dataset.row_names) == (("u", "v"), ())
    assert "ignored: sample, plate1" in dataset.notes
    assert Arrays(tmp_path / "t.csv", "plate1..v", ignore="u").load(CPU).shape == (2,)
    np.savez(tmp_path / "a.npz", x=np.eye(3))
    with pytest.raises(ValueError, match="leave ignore out"):
        Arrays(tmp_path / "a.npz", ignore="u").load(CPU)


def test_several_csv_files_are_asked_about(tmp_path):
    photos(tmp_path / "in", ["0.png", "1.png"])
    folder = tmp_path / "in"
    write(folder / "b.csv", "file,kind", "0,x", "1,y")
    write(folder / "a.csv", "file,size", "0,3", "1,4")
    dataset = Folder(folder).load(CPU)
    assert dataset.factor_names == ()
    note = "the folder has 2 CSV files, a.csv, b.csv; choose one with data.factors=a.csv"
    assert any(note in each for each in dataset.notes)
    assert Folder(folder, factors="b.csv").load(CPU).factor_names == ("kind",)
    write(folder / "factors.csv", "file,best", "0,1", "1,2")
    assert Folder(folder).load(CPU).factor_names == ("best",)


def test_a_relative_file_of_labels_is_looked_up_in_the_folder_first(tmp_path, monkeypatch):
    photos(tmp_path / "in", ["0.png", "1.png"])
    monkeypatch.chdir(tmp_path)
    inside, here = tmp_path / "in" / "labels.csv", tmp_path / "labels.csv"
    write(here, "file,kind", "0,x", "1,y")
    assert Folder("in", factors="labels.csv").factors == str(here)
    write(inside, "file,kind", "0,x", "1,y")
    assert Folder("in", factors="labels.csv").factors == str(inside)
    write(inside, "file,other", "0,x", "1,y")
    with pytest.raises(ValueError, match="which differ: give the whole path"):
        find_label_file("in", "labels.csv")
    spec = Folder("in", factors=here)
    assert spec.load(CPU).factor_names == ("kind",)
    with pytest.raises(ValueError, match=r"nothing there: .*in has labels\.csv; did you mean"):
        Folder("in", factors="label.csv").load(CPU)


def test_a_name_that_several_images_have_is_refused(tmp_path):
    photos(tmp_path, ["a/0.png", "b/0.png", "b/1.png"])
    write(tmp_path / "labels.csv", "file,kind", "1,x", "0,y")
    with pytest.raises(ValueError, match=r"line 3: expected the name of one image, got 0, which"):
        Folder(tmp_path).load(CPU)
    write(tmp_path / "labels.csv", "file,kind", "b/1,x", "a/0,y", "b/0,x")
    assert by_image(Folder(tmp_path).load(CPU), "kind") == {
        "a/0.png": "y", "b/0.png": "x", "b/1.png": "x",
    }  # fmt: skip


def test_two_columns_that_name_all_images_need_a_name(tmp_path):
    photos(tmp_path, [f"{n}.png" for n in range(4)])
    rows = [f"{n},{3 - n}" for n in range(4)]
    write(tmp_path / "labels.csv", "level,image", *rows)
    assert labels_of(Folder(tmp_path).load(CPU), "level") == [3, 2, 1, 0]
    write(tmp_path / "labels.csv", "level,rank", *rows)
    with pytest.raises(ValueError, match="got level and rank: call the one that holds file names"):
        Folder(tmp_path).load(CPU)


def test_images_in_subfolders_have_them_as_classes(tmp_path):
    names = [f"{kind}/{n}.png" for kind, n in itertools.product(("cat", "dog"), range(3))]
    photos(tmp_path, [*names, "0.png"])
    dataset = Folder(tmp_path).load(CPU)
    assert labels_of(dataset, "folder") == [None, *["cat"] * 3, *["dog"] * 3]
    note = "the class of an image is its subfolder: cat, dog (factor folder)"
    assert note in dataset.notes
    assert Folder(tmp_path, ignore="folder").load(CPU).factor_names == ()


def test_a_subfolder_for_each_image_is_no_class(tmp_path):
    photos(tmp_path, [f"{n}/x.png" for n in range(5)])
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.factor_names == ()
    assert "5 subfolders for 5 images: not taken as classes" in dataset.notes


def test_a_csv_file_that_names_no_image_is_left_alone(tmp_path):
    photos(tmp_path, ["x.png", "y.png"])
    write(tmp_path / "results.csv", "step,loss", "1,0.5", "2,0.25")
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.factor_names == ()
    assert "results.csv names no image in the folder: it is not read" in dataset.notes


def test_labels_with_decimal_commas_are_numbers(tmp_path):
    photos(tmp_path)
    doses = [f"{n},25" for n in range(len(NAMES))]
    rows = [f"{name};{dose}" for name, dose in zip(NAMES, doses, strict=True)]
    write(tmp_path / "factors.csv", "file;dose", *rows)
    dataset = Folder(tmp_path).load(CPU)
    assert dataset.schema.continuous == ("dose",)
    assert dataset.factor_labels[0] == tuple(n + 0.25 for n in range(len(NAMES)))
    assert "decimal commas are read as points in dose" in dataset.notes


@pytest.mark.parametrize(
    ("kind", "word", "field"),
    [("arrays", "labels", "factors_key"), ("arrays", "y", "factors_key"),
     ("arrays", "columns", "key"), ("arrays", "x", "key"), ("arrays", "features", "key"),
     ("folder", "labels", "factors"), ("folder", "targets", "factors"),
     ("folder", "factors_key", "factors")],
)  # fmt: skip
def test_words_for_labels_and_columns_lead_to_the_field(kind, word, field):
    with pytest.raises(
        ValueError, match=f"'{word}' is not a field of .*: it is called data.{field}$"
    ):
        runs_from([f"data={kind}", "data.path=a", f"data.{word}=b"])
