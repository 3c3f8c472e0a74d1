"""Data on the command line: which there are, what they are, fetching them, looking at them."""

from __future__ import annotations

import io
import math
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.core.console import (
    DeviceOption,
    FeaturesOption,
    SelectOption,
    StoreOption,
    err,
    out,
    plain_table,
)
from unweave.core.files import write_atomically

if TYPE_CHECKING:
    from unweave.data import Data, FileSet
    from unweave.data.published.download import Source, Told

data_app = typer.Typer(
    no_args_is_help=True, help="Data sets: list them, fetch, check and look at them."
)

AnyNameArgument = Annotated[
    str, typer.Argument(help="A data set, or a file or folder of your own.")
]
NameArgument = Annotated[str, typer.Argument(help="A data set, as in `unweave data list`.")]
FieldsArgument = Annotated[
    list[str] | None, typer.Argument(help="Fields of it, as version=toy or split=test.")
]

_LONGEST = 120  # characters of the name of a file


@data_app.command(name="list")
def list_command() -> None:
    """List the data sets, and which of them are here.

    Example:

      unweave data list
    """
    from unweave.catalogue import data as data_page
    from unweave.data.published.cache import data_folder

    table = plain_table("name", "images", "size", "factors", "here")
    for kind, cls in data_page.published().items():
        about, here = cls.ABOUT, "no" if cls().missing else "yes"
        size, factors = data_page.size_text(about.shape), data_page.factors_text(about)
        table.add_row(kind, f"{about.count:,}", size, factors, here)
    out.print(table)
    drawn = ", ".join(data_page.drawn())
    out.print(f"drawn, without files: {drawn}; your own: data=PATH", highlight=False)
    out.print(f"files lie in {data_folder()}", soft_wrap=True, highlight=False)


@data_app.command(name="info")
def info_command(
    name: AnyNameArgument,
    fields: FieldsArgument = None,
    select: SelectOption = None,
    features: FeaturesOption = None,
) -> None:
    """Say what data are: how many, of which size, their factors, and how they are read.

    Of a published set also its files, checksums and licence, whether or not it is here.

    Examples:

      unweave data info cars3d

      unweave data info mpi3d version=toy

      unweave data info shapes2d orientations=9 --select subset:count=5000

      unweave data info photos/

      unweave data info table.csv key=height,weight factors_key=group
    """
    import torch

    from unweave.catalogue.data import described, described_dataset
    from unweave.data import FileSet

    data = _one(name, fields, select, features)
    if isinstance(data, FileSet):
        files = data.sources if fields else data.ABOUT.sources
        sys.stdout.write(described(name, type(data), files))
    else:
        sys.stdout.write(described_dataset(data, data.load(torch.device("cpu"))))


@data_app.command(name="get")
def get_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Fetch the files of a data set; stopped, the same command goes on.

    Examples:

      unweave data get mnist

      unweave data get mpi3d version=toy
    """
    from unweave.catalogue.data import verdict
    from unweave.data.published.download import fetch

    made = _chosen(name, fields)
    if made.missing and made.ABOUT.hand:
        names = ", ".join(source.name for source in made.missing)
        raise ValueError(
            f"{name} has to be fetched by hand. {made.ABOUT.hand} Then put into {made.folder}: "
            f"{names}. `unweave data check {name}` says whether they are right"
        )
    for source in made.sources:
        with _bar(source) as told:
            place = fetch(source, made.folder, told)
        out.print(f"{place}{verdict(source)}", soft_wrap=True, highlight=False)


@data_app.command(name="check")
def check_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Compare the files of a data set with their checksums, and read them.

    Example:

      unweave data check mnist
    """
    import torch

    from unweave.catalogue.data import verdict
    from unweave.data.published.download import wrong_with

    made = _chosen(name, fields)
    found = [s for s in made.sources if s not in made.missing]
    problems = [p for source in found if (p := wrong_with(source, made.folder))]
    if problems:
        raise ValueError(f"{'; '.join(problems)}. Delete what is wrong and fetch it again")
    for source in found:
        out.print(f"{source.name}{verdict(source)}", soft_wrap=True, highlight=False)
    dataset = made.load(torch.device("cpu"))
    out.print("; ".join(dataset.notes), soft_wrap=True, highlight=False)


@data_app.command(name="preview")
def preview_command(
    name: AnyNameArgument,
    fields: FieldsArgument = None,
    file: Annotated[
        Path | None, typer.Option("--out", help="The PNG; else it is named by what it shows.")
    ] = None,
    select: SelectOption = None,
    features: FeaturesOption = None,
) -> None:
    """Draw observations at random and a walk along every factor; vectors as points.

    Examples:

      unweave data preview shapes3d

      unweave data preview shapes2d side=128 orientations=9 --out sprites.png

      unweave data preview photos/

      unweave data preview shapes3d --select held-out:floor_hue=0,wall_hue=0,split=held-out
    """
    import torch

    from unweave.report import preview_sheet

    dataset = _one(name, fields, select, features).load(torch.device("cpu"))
    shown = [*_named(fields), *(select or []), *([] if features is None else [str(features)])]
    path = file or Path(f"{_file_name(name, shown)}-preview.png")
    picture, notes = preview_sheet(dataset)
    for note in (*dataset.notes, *notes):
        err.print(note, highlight=False)
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    write_atomically(path, content.getvalue())
    typer.echo(path)


@data_app.command(name="features")
def features_command(
    name: Annotated[str, typer.Argument(help="A run.")],
    classes: Annotated[int, typer.Option(min=2, help="Of every variable, by quantiles.")] = 5,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    file: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("features.npz"),
) -> None:
    """Write the codes of a run's data, cut into classes, for --select to hold out combinations of.

    Examples:

      unweave data features 3f2a --classes 5

      unweave train data=mnist --features features.npz --select held-out:class=7,z3=4/class=0,z5=0
    """
    from unweave.data import in_classes, write_features
    from unweave.evaluation.model import load
    from unweave.training.store import Store

    model = load(Store(store).find(name).path, device=device)
    table = model.table(rows=model.dataset.size)
    codes = in_classes(table.codes, classes)
    codes[:, table.discrete] = table.codes[:, table.discrete]
    names = [f"z{each}" if each[0].isdigit() else each for each in model.run.latent.names]
    write_features(file, codes, names)
    counts = ", ".join(f"{n} {size}" for n, size in zip(names, codes.max(0) + 1, strict=True))
    out.print(f"{file}: {len(codes):,} rows of {counts}", soft_wrap=True, highlight=False)


@data_app.command(name="page")
def page_command(
    pictures: Annotated[
        str | None, typer.Option(help="Folder of their pictures beside the page; else none.")
    ] = None,
) -> None:
    """Print all that is known of all data sets, as Markdown.

    Example:

      unweave data page > datasets.md
    """
    from unweave.catalogue.data import page

    sys.stdout.write(page(pictures))


def _named(fields: list[str] | None) -> list[str]:
    """Fields of a data set, which may be written as those of a run are, with data. before them."""
    return [field.removeprefix("data.") for field in fields or []]


def _file_name(name: str, shown: Sequence[str]) -> str:
    """A name of a file that says which data are shown, and what of them.

    >>> _file_name("shapes2d", ["side=32", "held-out:shape=heart,x=0..15"])
    'shapes2d-side=32-held-out-shape=heart,x=0..15'
    """
    from unweave.core import spec
    from unweave.data import Data

    place = Path(name)
    if name not in spec.members(Data):
        here = place.absolute().resolve()
        inside = here.is_relative_to(Path.cwd()) and here != Path.cwd()
        place = here.relative_to(Path.cwd()) if inside else here
    words = [re.sub(r"[^\w.,=+]+", "-", word).strip("-.") for word in (str(place), *shown)]
    text = "-".join(words)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}-{zlib.crc32(text.encode()):08x}"
    return text


def _one(
    name: str, fields: list[str] | None, select: list[str] | None, features: Path | None
) -> Data:
    """The data of a name or path, with fields set, reduced to a selection."""
    from unweave.training.overrides import runs_from

    assignments = [f"data={name}", *(f"data.{each}" for each in _named(fields))]
    runs = runs_from(assignments, None, select or [], features)
    if len(runs) != 1:
        raise ValueError(
            f"expected one data set, got {len(runs)} by lists of values: write a field that is a "
            """list as JSON, as in 'shapes=["heart"]'"""
        )
    return runs[0].data


def _chosen(name: str, fields: list[str] | None) -> FileSet:
    """The published data set of a name, with fields set."""
    from unweave.core import spec
    from unweave.core.hints import nearest
    from unweave.data import Data, FileSet, Published
    from unweave.training.run import Run

    known = spec.members(Published)
    if name not in known:
        others = [kind for kind in spec.members(Data) if kind not in known]
        drawn = " It needs no files." if name in others else ""
        raise ValueError(f"{name!r} is not a published data set.{drawn} {nearest(name, known)}")
    assignments = [f"data={name}", *(f"data.{field}" for field in _named(fields))]
    made = spec.override(Run, assignments).data
    assert isinstance(made, FileSet)
    return made


@contextmanager
def _bar(source: Source) -> Iterator[Told]:
    """A bar on a terminal; a line at every tenth of the way in a pipe."""
    if not err.is_terminal:
        yield _Lines(source.name)
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(source.name, total=source.size)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Lines:
    """Tells how far a download is, in lines."""

    def __init__(self, name: str) -> None:
        self.name, self.last = name, -math.inf

    def __call__(self, done: int, total: int | None) -> None:
        tenth = done * 10 // total if total else done // 2**28
        if tenth > self.last:
            self.last = tenth
            end = f" of {total:,}" if total else ""
            err.print(f"{self.name}: {done:,}{end} bytes", highlight=False)
