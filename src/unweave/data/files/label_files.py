"""Labels of the images in a folder: from a CSV file, or by subfolder."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from unweave.core.hints import count_noun, naming, nearest_path
from unweave.data.files.columns import csv_notes, list_some
from unweave.data.files.factors import FactorTable
from unweave.data.files.labels import MISSING_WORDS, LabelColumn
from unweave.data.files.tables import CsvFile, expand_columns

FACTORS = "factors.csv"
FOLDER = "folder"  # name of the factor of images in subfolders

_SUFFIXES = (".csv", ".tsv")
_AMBIGUOUS = -1  # the index of an image if a name stands for several
# Names of columns that hold files; they decide if the cells of several columns name images.
_FILE_NAMES = ("file", "filename", "file_name", "path", "filepath", "image", "img", "name")


def find_label_file(folder: str, given: str) -> str:
    """Return the absolute path of a file of labels: in the folder of images or the current one.

    A relative path is looked up in the folder first. If it exists in both places, both must hold
    the same.
    """
    inside, here = Path(folder, given), Path(given).absolute()
    if inside.is_file() and here.is_file() and inside.read_bytes() != here.read_bytes():
        raise ValueError(
            f"factors={given} could be {inside} or {here}, which differ: give the whole path"
        )
    return str(here if here.is_file() and not inside.is_file() else inside.absolute())


def read_labels(
    folder: Path, files: Sequence[Path], given: Path | None, ignore: str
) -> FactorTable:
    """Read the labels of images, whose names are their paths in the folder.

    Labels are those of the file `given`. By default, they are those of factors.csv or of the only
    CSV file in the folder; without one, the class of an image is its subfolder.

    Args:
        folder: the folder of images.
        files: the image of each observation; several may be of one file.
        given: the file of labels, if it was named.
        ignore: columns to ignore, as `expand_columns` reads them; "*" reads no file.
    """
    numbers = {file: number for number, file in enumerate(dict.fromkeys(files))}
    images = [file.relative_to(folder).as_posix() for file in numbers]
    tables = _csv_files(folder)
    if given is not None and not given.is_file():
        content = f"{folder} has {list_some([each.name for each in tables]) or 'no CSV file'}"
        raise ValueError(
            f"expected a CSV file of labels at {given}, got nothing there: {content}; "
            f"{nearest_path(given)}"
        )
    notes: list[str] = []
    columns: list[LabelColumn] = []
    wanted = ignore.strip() != "*"
    if wanted and (chosen := given or _usual_file(tables, notes)) is not None:
        with naming(chosen):
            columns = _read_columns(chosen, images, ignore, notes, required=given is not None)
    if not columns and given is None:
        columns = _by_subfolder(images, ignore, notes)
    table = FactorTable.from_columns(columns, len(images))
    labels = dataclasses.replace(
        table, row_names=tuple(images), notes=tuple(dict.fromkeys([*notes, *table.notes]))
    )
    return labels.take(np.array([numbers[file] for file in files]))


def _csv_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not path.name.startswith(".")
    )


def _usual_file(tables: Sequence[Path], notes: list[str]) -> Path | None:
    """Return factors.csv or the only CSV file; None, with a note, if there are others."""
    names = [table.name for table in tables]
    if FACTORS in names:
        return tables[names.index(FACTORS)]
    if len(tables) == 1:
        notes.append(f"labels are read from {names[0]}, the only CSV file in the folder")
        return tables[0]
    if tables:
        notes.append(
            f"no labels are read: the folder has {len(names)} CSV files, {list_some(names)}; "
            f"choose one with data.factors={names[0]}"
        )
    return None


def _read_columns(
    path: Path, images: Sequence[str], ignore: str, notes: list[str], required: bool
) -> list[LabelColumn]:
    """Read the columns of a file of labels in the order of the images.

    A file that names no image is an error if it is required; otherwise it is noted.
    """
    start = len(notes)
    table, places = CsvFile(path), _Places(images)
    if any(place is not None for place in places.match(table.names)):
        raise ValueError(
            f"{path}, line 1: expected the names of the columns, got those of images: add a first "
            "line such as file,class"
        )
    ignored = expand_columns(ignore, table.names, path) if ignore else []
    matched = {name: places.match(table.cells(name)) for name in table.names}
    file = _file_column(path, matched)
    if file is None and not required:
        notes.append(f"{path.name} names no image in the folder: it is not read")
        return []
    if file is None:
        shown = ", ".join(f"{name} {table.cells(name)[0]!r}" for name in table.names[:4])
        raise ValueError(
            f"expected a column of {path} that names images, such as {images[0]}, got none; its "
            f"first row has {shown}: add a column of file names"
        )
    row_of: dict[int, int] = {}
    for row, place in enumerate(matched[file]):
        if place is None:
            continue
        if place == _AMBIGUOUS:
            raise ValueError(
                f"{path}, line {table.line(row)}: expected the name of one image, got "
                f"{table.cells(file)[row]}, which several have: write its path in the folder"
            )
        if place in row_of:
            raise ValueError(
                f"{path}, line {table.line(row)}: {images[place]} is listed twice; remove one of "
                "them"
            )
        row_of[place] = row
    left_out = {file, *ignored}
    kept = [name for name in table.names if name not in left_out]
    if required and len(table.names) == 1:
        raise ValueError(
            f"expected labels besides the names of images in {path}, got the column {file} alone"
        )
    if ignored:
        notes.append(f"ignored: {list_some(ignored)}")
    if others := sum(place is None for place in matched[file]):
        name, are = ("names", "is") if others == 1 else ("name", "are")
        unused = f"{count_noun(others, 'row')} of {path.name}"
        notes.append(f"{unused} {name} no image in the folder and {are} ignored")
    if unlabelled := len(images) - len(row_of):
        first = next(image for place, image in enumerate(images) if place not in row_of)
        have = "has" if unlabelled == 1 else "have"
        notes.append(
            f"{unlabelled:,} of {len(images):,} images {have} no row in {path.name}, and no "
            f"labels; the first is {first}"
        )
    rows = [row_of.get(place) for place in range(len(images))]
    columns = []
    for name in kept:
        cells = table.cells(name)
        column = LabelColumn.from_cells(name, ["" if row is None else cells[row] for row in rows])
        if column.names_rows:
            notes.append(f"{column.describe()}: taken as names of the images, not as a factor")
            continue
        if where := table.first_text(name):
            notes.append(f"{path.name}, {where}; its classes are text")
        columns.append(column)
    notes += csv_notes(table, [])
    labels = list_some([column.name for column in columns]) or "none"
    notes.insert(start, f"{path.name}: column {file!r} names the images; labels: {labels}")
    return columns


def _file_column(path: Path, matched: dict[str, list[int | None]]) -> str | None:
    """Return the column whose cells name the most images; None if none does."""
    counts = {name: len({*places} - {None}) for name, places in matched.items()}
    most = max(counts.values())
    best = [name for name, count in counts.items() if count == most]
    named = [name for name in best if name.lower() in _FILE_NAMES]
    if not most or len(best) == 1 or len(named) == 1:
        return None if not most else (named or best)[0]
    raise ValueError(
        f"expected one column of {path} that names images, got {' and '.join(best)}: call the one "
        "that holds file names file"
    )


class _Places:
    """The indices of images by their paths, with or without extension and folders.

    A name that stands for several images, such as that of files in two folders, is ambiguous.
    """

    def __init__(self, images: Sequence[str]) -> None:
        paths = [PurePosixPath(image) for image in images]
        # From the most to the least exact: whole path, without extension, name, without extension.
        forms = (
            list(images),
            [path.with_suffix("").as_posix() for path in paths],
            [path.name for path in paths],
            [path.stem for path in paths],
        )
        self.exact = [dict(zip(form, range(len(form)), strict=True)) for form in forms]
        self.counts = [Counter(form) for form in forms]

    def match(self, cells: Sequence[str]) -> list[int | None]:
        """Return the index of the image that each cell names, None or _AMBIGUOUS."""
        return [self._place(cell.strip()) for cell in cells]

    def _place(self, cell: str) -> int | None:
        if cell in MISSING_WORDS:
            return None
        # The file may name the images from another folder on: strip leading folders.
        parts = cell.replace("\\", "/").removeprefix("./").split("/")
        for tail in ("/".join(parts[n:]) for n in range(len(parts))):
            for numbers, counts in zip(self.exact, self.counts, strict=True):
                if count := counts[tail]:
                    return numbers[tail] if count == 1 else _AMBIGUOUS
        return None


def _by_subfolder(images: Sequence[str], ignore: str, notes: list[str]) -> list[LabelColumn]:
    """Return the subfolder of each image as its class, if images lie in at least two."""
    folders = [PurePosixPath(image).parent.as_posix() for image in images]
    cells = ["" if folder == "." else folder for folder in folders]
    different = {*cells} - {""}
    if len(different) < 2 or (ignore and expand_columns(ignore, [FOLDER], Path("."), True)):
        return []
    if 2 * len(different) > len(images):
        notes.append(
            f"{len(different):,} subfolders for {len(images):,} images: not taken as classes"
        )
        return []
    notes.append(
        f"the class of an image is its subfolder: {list_some(sorted(different))} (factor {FOLDER})"
    )
    return [LabelColumn.from_cells(FOLDER, cells)]
