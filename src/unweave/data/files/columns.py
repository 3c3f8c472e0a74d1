"""Decide which columns of a table are observations, factors, and names of the rows."""

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from unweave.core.hints import count_noun
from unweave.data.files.array_file import TableFile
from unweave.data.files.factors import FactorTable
from unweave.data.files.frames import Frame
from unweave.data.files.interpretation import are_spectra
from unweave.data.files.labels import LabelColumn, is_identifier_name
from unweave.data.files.tables import CsvFile, expand_columns, join_columns

_LISTED = 8  # names that are listed in a note
_PATTERN = 3  # names that have to share a pattern
_DIGITS = "0123456789"
_SEPARATOR = re.compile(r"[\W_]\Z")


class TableColumns(NamedTuple):
    """The columns of observations, and the factors and names of the rows."""

    observed: list[str]
    factors: FactorTable


def choose_columns(
    file: TableFile, key: str | Sequence[str] | None, factors_key: str | None, ignore: str
) -> TableColumns:
    """Choose the columns of a table, with notes on those that were not named.

    By default columns of numbers are observations. Of the columns of text, those that hardly repeat
    name the rows, and the others are factors. If `key` or `factors_key` names columns, only these
    are observations or factors; "" names no factors. As text, `key` may have ranges and globs.
    """
    names, path = file.names, file.path
    ignored = set(expand_columns(ignore, names, path)) if ignore else set()
    named = expand_columns(key, names, path) if key and isinstance(key, str) else key or []
    observed = [name for name in named if name not in ignored]
    chosen = expand_columns(factors_key, names, path) if factors_key else []
    labels = [file.labels(name) for name in chosen]
    notes = csv_notes(file, chosen)
    row_names: tuple[str, ...] = ()
    unread = []
    decided = {*ignored, *observed, *chosen}
    for name in names:
        if name in decided:
            continue
        text = file.is_text(name)
        column = file.labels(name) if text or is_identifier_name(name) else None
        if column is not None and column.names_rows:
            notes.append(column.named_rows_note())
            row_names = row_names or column.row_names
        elif column is not None and text and factors_key is None:
            labels.append(column)
            repeats = f"text that repeats ({_class_list(column)}): taken as a factor"
            notes += [f"{column.describe()}, {repeats}"] if len(column.values) else []
        elif not text and not key:
            observed.append(name)
        else:
            unread.append(name)
    if not observed:
        ways = "" if isinstance(file, Frame) else " with data.key"
        raise ValueError(
            f"expected columns of numbers in {path}, got {list_some(names)}: choose columns of "
            f"numbers{ways}"
        )
    odd = [] if key else unlike_names(observed)
    if odd or len(observed) < len(names):
        own = [column.name for column in labels]
        usual = set(observed) - set(odd)
        spoils = are_spectra([n for n in observed if n in usual]) and not are_spectra(observed)
        hint = f"; {_odd_note(odd, own, spoils, isinstance(file, Frame))}" if odd else ""
        notes.insert(0, f"{observations_note(observed)}{hint}")
    if ignored:
        notes.append(f"ignored: {list_some([name for name in names if name in ignored])}")
    if unread:
        notes.append(f"not read: {list_some(unread)}")
    table = FactorTable.from_columns(labels, file.count)
    described = {column.describe() for column in labels if not column.continuous}
    classes = [each for each in labels if each.name in table.names and not each.continuous]
    notes += [f"{c.describe()} ({_class_list(c)})" for c in classes if c.name in chosen]
    notes += [note for note in table.notes if note not in described]
    return TableColumns(
        observed,
        dataclasses.replace(table, row_names=row_names or table.row_names, notes=tuple(notes)),
    )


def observations_note(columns: Sequence[str]) -> str:
    """Say which columns are observations.

    >>> observations_note(["u"]), observations_note(["u", "v"])
    ('1 column has the observations: u', '2 columns are observations: u, v')
    """
    does = "has the observations" if len(columns) == 1 else "are observations"
    return f"{count_noun(len(columns), 'column')} {does}: {list_some(columns)}"


def list_some(names: Sequence[str]) -> str:
    """List names, or the first few and the last if there are many.

    >>> list_some([str(n) for n in range(400, 1000, 5)])
    '400, 405, 410, ..., 995 (120)'
    """
    if len(names) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ..., {names[-1]} ({len(names):,})"


def unlike_names(names: Sequence[str]) -> list[str]:
    """Return the names that do not follow the pattern of the others, a text and a number.

    At least half of the names have to follow a pattern that three or more share.

    >>> unlike_names(["G0", "G1", "leiden", "G2"]), unlike_names(["400", "405.5", "410", "site"])
    (['leiden'], ['site'])
    >>> unlike_names(["height", "weight", "age"])
    []
    """
    stems = [_stem(name) for name in names]
    counts = Counter(stem for stem in stems if stem is not None)
    pairs = zip(names, stems, strict=True)
    odd = [name for name, stem in pairs if stem is None or counts[stem] < _PATTERN]
    return odd if 2 * len(odd) <= len(names) else []


def _stem(name: str) -> str | None:
    """Return the text before the number that a name ends with; None if it has no number.

    >>> _stem("G12"), _stem("dose_2.5"), _stem("405"), _stem("site")
    ('G', 'dose', '', None)
    """
    stem = name.rstrip(_DIGITS)
    if stem == name:
        return None
    if stem.endswith((".", ",")) and stem[:-1].rstrip(_DIGITS) != stem[:-1]:
        stem = stem[:-1].rstrip(_DIGITS)
    return _SEPARATOR.sub("", stem)


def _odd_note(odd: Sequence[str], labels: Sequence[str], spoils: bool, in_memory: bool) -> str:
    """Point out columns unlike the others, and how to drop them or make them labels.

    `labels` are the columns that are labels already; the hint lists the new ones with them.
    `spoils` says whether the others would be read as spectra without them.
    """
    whose, it = ("whose name is", "it") if len(odd) == 1 else ("whose names are", "them")
    label = "a label" if len(odd) == 1 else "labels"
    shown = join_columns(odd) if len(odd) <= _LISTED else "NAMES"
    factors = ",".join([*([join_columns(labels)] if labels else []), shown])
    ways = (
        f"leave {it} out with data.ignore={shown}, or make {it} {label} with "
        f"data.factors_key={factors}"
    )
    if in_memory:
        ways = f"leave {it} out of the table, or pass {it} as {label}, from_array(table, factors)"
    spectra = f" (without {it}, the columns would be read as spectra, which share one scale)"
    return f"among them {list_some(odd)}, {whose} unlike the others{spectra * spoils}: {ways}"


def _class_list(column: LabelColumn) -> str:
    return list_some([str(label) for label in column.labels])


def csv_notes(file: TableFile, factors: Sequence[str]) -> list[str]:
    """Note how the names and numbers of a CSV file are read, and text among those of a factor."""
    if not isinstance(file, CsvFile):
        return []
    numbered = "the first line, which numbers the columns, is read as their names"
    unnamed = "the first line has only numbers and is read as an observation: columns have no names"
    mixed = [where for column in factors if (where := file.first_text(column))]
    return [
        *[numbered] * file.numbered,
        *[unnamed] * file.unnamed,
        *_decimal_notes(file),
        *(f"{where}; its classes are text" for where in mixed),
    ]


def _decimal_notes(file: CsvFile) -> list[str]:
    notes = []
    if columns := file.decimal_commas:
        notes.append(f"decimal commas are read as points in {list_some(columns)}")
    for columns, sign, how in (
        (file.doubtful_commas, "commas", "text"),
        (file.doubtful_points, "points", "numbers with decimal points"),
    ):
        if columns:
            notes.append(
                f"{list_some(columns)}: {sign} may be decimal or separate thousands; read as {how}:"
                " write numbers in one way, such as 1234.5"
            )
    return notes
