"""Data sets on the command line: which there are, fetching them, and whether they are whole.

`docs/datasets.md` is `page()`.
"""

from __future__ import annotations

import inspect
import io
import math
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import torch
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from unweave import spec
from unweave.bibliography import cited, entries
from unweave.console import (
    DeviceOption,
    FeaturesOption,
    StoreOption,
    WayOption,
    err,
    out,
    plain_table,
)
from unweave.data import (
    Arrays,
    Data,
    FileSet,
    Folder,
    InMemory,
    Published,
    in_classes,
    write_features,
)
from unweave.data.cache import data_folder
from unweave.data.fileset import About
from unweave.data.sources import Source, Told, fetch, wrong_with
from unweave.files import write_atomically
from unweave.fitted import load
from unweave.overrides import runs_from
from unweave.report import preview_sheet
from unweave.run import Run
from unweave.store import Store

data_app = typer.Typer(
    no_args_is_help=True, help="Data sets: list them, fetch, check and look at them."
)

NameArgument = Annotated[str, typer.Argument(help="A data set, as in `unweave data list`.")]
FieldsArgument = Annotated[
    list[str] | None, typer.Argument(help="Fields of it, as version=toy or part=test.")
]

_LONGEST = 120  # characters of the name of a file

_INTRODUCTION = """# Data sets

This page is made by `unweave data page` from the code.

`unweave data get NAME` fetches a set, and `unweave train data=NAME` trains on it; `data.part=test`
and other fields choose of it. Files lie in a folder of its name under that of the variable
`UNWEAVE_DATA`, or `~/.cache/unweave`. Files that are already somewhere can be put there by hand. A
download goes on where it stopped, and every file is compared with its published checksum; where
none is known to us, that of the first download is put down in `checksums.json`, and `unweave data
check NAME` compares with it from then on. Nothing is ever unpickled.

A download tries every address that is given here. **No more than one site is known to us of**
{alone}: if it is down, so is the set.

What cannot be read row by row (3D Shapes, which is packed, and pictures in archives) is unpacked
the first time, to a .npy file in the data folder; of dSprites that is 3 GB, of 3D Shapes 5.9 GB.
Sets of more than 1 GiB are then read [as they are needed](data.md#larger-than-memory).

Pictures are made by `unweave data preview`. They are here where we had images of the set and its
licence lets them be shown: as parts of dSprites, 3D Shapes and Fashion-MNIST under those licences,
and of MNIST under CC BY-SA 3.0. Of the licences, those of MPI3D and Fashion-MNIST were read where
their authors give them; that of MNIST is as Keras states it; **the others were not verified**.

Worlds that are drawn, and data of your own, are on [another page](data.md).
"""


@data_app.command(name="list")
def list_command() -> None:
    """List the data sets, and which of them are here.

    Example:

      unweave data list
    """
    table = plain_table("name", "images", "size", "factors", "here")
    for kind, cls in _published().items():
        about, here = cls.ABOUT, "no" if cls().missing else "yes"
        table.add_row(kind, f"{about.count:,}", _shape(about), _factors(about), here)
    out.print(table)
    drawn = ", ".join(_drawn())
    out.print(f"drawn, without files: {drawn}; your own: data=PATH", highlight=False)
    out.print(f"files lie in {data_folder()}", soft_wrap=True, highlight=False)


@data_app.command(name="info")
def info_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Say what is known of a data set: factors, files, checksums, licence, and how to cite it.

    Examples:

      unweave data info cars3d

      unweave data info mpi3d version=toy
    """
    made = _chosen(name, fields)
    files = made.sources if fields else made.ABOUT.sources
    sys.stdout.write(_described(name, type(made), files))


@data_app.command(name="get")
def get_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Fetch the files of a data set; stopped, the same command goes on.

    Examples:

      unweave data get mnist

      unweave data get mpi3d version=toy
    """
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
        out.print(f"{place}{_verdict(source)}", soft_wrap=True, highlight=False)


@data_app.command(name="check")
def check_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Compare the files of a data set with their checksums, and read them.

    Example:

      unweave data check mnist
    """
    made = _chosen(name, fields)
    found = [s for s in made.sources if s not in made.missing]
    problems = [p for source in found if (p := wrong_with(source, made.folder))]
    if problems:
        raise ValueError(f"{'; '.join(problems)}. Delete what is wrong and fetch it again")
    for source in found:
        out.print(f"{source.name}{_verdict(source)}", soft_wrap=True, highlight=False)
    world = made.load(torch.device("cpu"))
    out.print("; ".join(world.notes), soft_wrap=True, highlight=False)


@data_app.command(name="preview")
def preview_command(
    name: Annotated[str, typer.Argument(help="A data set, or a file or folder of your own.")],
    fields: Annotated[
        list[str] | None, typer.Argument(help="field=value of the data set; see the examples.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", help="The PNG; else it is named by what it shows.")
    ] = None,
    way: WayOption = None,
    features: FeaturesOption = None,
) -> None:
    """Draw observations at random and a walk along every factor; vectors as points.

    Examples:

      unweave data preview shapes3d

      unweave data preview shapes2d side=128 orientations=9 --out sprites.png

      unweave data preview photos/

      unweave data preview shapes3d --way held-out:floor_hue=0,wall_hue=0,part=held
    """
    assignments = [f"data={name}", *(f"data.{each}" for each in _named(fields))]
    runs = runs_from(assignments, None, way or [], features)
    if len(runs) != 1:
        raise ValueError(
            f"expected one data set, got {len(runs)} by lists of values: write a field that is a "
            """list as JSON, as in 'shapes=["heart"]'"""
        )
    world = runs[0].data.load(torch.device("cpu"))
    shown = [*_named(fields), *(way or []), *([] if features is None else [str(features)])]
    path = file or Path(f"{_file_name(name, shown)}-preview.png")
    picture, notes = preview_sheet(world)
    for note in (*world.notes, *notes):
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
    """Write the codes of a run's data, cut into classes, for --way to hold out combinations of.

    Examples:

      unweave data features 3f2a --classes 5

      unweave train data=mnist --features features.npz --way held-out:class=7,z3=4/class=0,z5=0
    """
    model = load(Store(store).find(name).path, device=device)
    table = model.table(rows=model.world.size)
    codes = in_classes(table.codes, classes)
    codes[:, table.discrete] = table.codes[:, table.discrete]
    names = [f"z{each}" if each[0].isdigit() else each for each in model.run.latent.names]
    write_features(file, codes, names)
    counts = ", ".join(f"{n} {size}" for n, size in zip(names, codes.max(0) + 1, strict=True))
    out.print(f"{file}: {len(codes):,} rows of {counts}", soft_wrap=True, highlight=False)


@data_app.command(name="page")
def page_command() -> None:
    """Print all that is known of all data sets, as Markdown.

    Example:

      unweave data page > datasets.md
    """
    sys.stdout.write(page())


def page() -> str:
    """All published data sets as Markdown."""
    rows = "".join(
        f"| [{kind}](#{kind}) | {cls.ABOUT.count:,} | {_shape(cls.ABOUT)} | "
        f"{_factors(cls.ABOUT)} | {cls.ABOUT.licence} |\n"
        for kind, cls in _published().items()
    )
    head = "| name | images | size | factors | licence |\n| --- | --- | --- | --- | --- |\n"
    parts = [_described(kind, cls, cls.ABOUT.sources, "## ") for kind, cls in _published().items()]
    alone = [cls.ABOUT.title for cls in _published().values() if len(_sites(cls.ABOUT)) == 1]
    introduction = _INTRODUCTION.format(alone=f"{', '.join(alone[:-1])} and {alone[-1]}")
    return "\n".join([introduction, head + rows, *parts])


def _published() -> dict[str, type[FileSet]]:
    found = spec.members(Published).items()
    return {kind: cls for kind, cls in found if issubclass(cls, FileSet)}


def _drawn() -> list[str]:
    """The data that are neither in published files nor the user's."""
    others = (FileSet, Arrays, Folder, InMemory)
    return [kind for kind, cls in spec.members(Data).items() if not issubclass(cls, others)]


def _described(kind: str, cls: type[FileSet], files: Sequence[Source], mark: str = "") -> str:
    about = cls.ABOUT
    doc = re.sub(r"\s*\[\w+\d{4}\]( \w+\. \d+)?\.", "", inspect.getdoc(cls) or "").rstrip()
    lines = [f"{mark}{kind}", "", f"{about.title}. {doc}", ""]
    if mark and about.picture:
        lines += [f"![{about.title}](figures/data_{kind}.png)", ""]
    lines += [
        f"- images: {about.count:,} of {_shape(about)}",
        f"- picture: {about.picture or _unseen(kind)}",
        f"- factors: {_factors(about)}",
        f"- licence: {about.licence}",
        f"- page: {about.page}",
    ]
    lines += [f"- needs: `pip install {about.needs}`"] if about.needs else []
    if about.hand:
        lines += [f"- by hand: {about.hand}"]
    if sites := _sites(about):
        lines += [f"- from: {', '.join(sites)}{'' if sites[1:] else ' alone, no other site known'}"]
    lines += [f"- files, in `{kind}/` of the data folder:"]
    for source in files:
        size = f", {source.size:,} bytes" if source.size else ""
        lines += [f"  - `{source.name}`{size}{_verdict(source)}"]
        lines += [f"    - {url}" for url in source.urls]
    keys = cited(inspect.getdoc(cls) or "")
    lines += ["", *(f"```bibtex\n{entries()[key]}\n```" for key in keys), ""]
    return "\n".join(lines)


def _unseen(kind: str) -> str:
    return f"after `unweave data get {kind}`, `unweave data preview {kind}`"


def _sites(about: About) -> list[str]:
    """The sites that files are from, which may have several addresses each."""
    urls = (url for source in about.sources for url in source.urls)
    hosts = (urlsplit(url).hostname or "" for url in urls)
    of_github = {"raw.githubusercontent.com": "github.com"}
    return list(dict.fromkeys(of_github.get(host, host) for host in hosts))


def _verdict(source: Source) -> str:
    """What a file is compared with."""
    if source.digest:
        return f", {source.digest}"
    return ", no published checksum known: that of the first download is kept and compared"


def _named(fields: list[str] | None) -> list[str]:
    """Fields of a data set, which may be written as those of a run are, with data. before them."""
    return [field.removeprefix("data.") for field in fields or []]


def _file_name(name: str, shown: Sequence[str]) -> str:
    """A name of a file that says which data are shown, and what of them.

    >>> _file_name("shapes2d", ["side=32", "held-out:shape=heart,x=0..15"])
    'shapes2d-side=32-held-out-shape=heart,x=0..15'
    """
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


def _chosen(name: str, fields: list[str] | None) -> FileSet:
    """The published data set of a name, with fields set."""
    known = spec.members(Published)
    if name not in known:
        others = [kind for kind in spec.members(Data) if kind not in known]
        drawn = " It needs no files." if name in others else ""
        raise ValueError(
            f"{name!r} is not a published data set.{drawn} {spec.nearest(name, known)}"
        )
    assignments = [f"data={name}", *(f"data.{field}" for field in _named(fields))]
    made = spec.override(Run, assignments).data
    assert isinstance(made, FileSet)
    return made


def _shape(about: About) -> str:
    channels, height, width = about.shape
    return f"{height} x {width}{' x 3' if channels == 3 else ''}"


def _factors(about: About) -> str:
    if about.lattice is None:
        return about.factors
    pairs = zip(about.lattice.names, about.lattice.sizes, strict=True)
    return ", ".join(f"{name} {size}" for name, size in pairs)


@contextmanager
def _bar(source: Source) -> Iterator[Told]:
    """A bar on a terminal; a line at every tenth of the way in a pipe."""
    if not err.is_terminal:
        yield _Lines(source.name)
        return
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
