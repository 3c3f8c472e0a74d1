"""`unweave data`: list, describe, download, verify and preview datasets."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import (
    DeviceOption,
    FeaturesOption,
    OverwriteOption,
    RunArgument,
    SelectOption,
    StoreOption,
)
from unweave.core.console import err, out
from unweave.core.files import write_atomically
from unweave.core.notes import print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE, check_output, png_bytes
from unweave.core.progress import ProgressDisplay

if TYPE_CHECKING:
    from unweave.data import Data, PublishedSpec

data_app = typer.Typer(
    no_args_is_help=True, help="List, describe, download, verify and preview datasets."
)

AnyNameArgument = Annotated[str, typer.Argument(help="A dataset, or a file or folder of your own.")]
NameArgument = Annotated[str, typer.Argument(help="A dataset, as in `unweave data list`.")]
FieldsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Fields of the dataset, such as version=toy or split=test."),
]

_LONGEST = 120  # characters of a file name


@data_app.command(name="list")
def list_command() -> None:
    """List all datasets, and say which are downloaded.

    Example:

      unweave data list
    """
    from unweave.catalogue import data as data_page
    from unweave.data.cache import data_folder

    rows = []
    for kind, cls in data_page.published().items():
        about, downloaded = cls.ABOUT, "no" if cls().missing else "yes"
        size, factors = data_page.size_text(about.shape), data_page.factors_text(about)
        rows.append([kind, f"{about.count:,}", size, factors, downloaded])
    out.print_table(["name", "images", "size", "factors", "downloaded"], rows)
    rendered = ", ".join(data_page.rendered())
    out.print(f"without files: {rendered}; your own data: data=PATH")
    out.print(f"data folder: {data_folder()}", soft_wrap=True)


@data_app.command(name="info")
def info_command(
    name: AnyNameArgument,
    fields: FieldsArgument = None,
    select: SelectOption = None,
    features: FeaturesOption = None,
) -> None:
    """Describe a dataset: number and size of images, factors, and how it is read.

    For a published dataset, the command also lists files, checksums and licence, even before the
    download.

    Examples:

      unweave data info cars3d

      unweave data info mpi3d version=toy

      unweave data info shapes2d orientations=9 --select subset:count=5000

      unweave data info photos/

      unweave data info table.csv key=height,weight factors_key=group
    """
    import torch

    from unweave.catalogue.data import describe_dataset, describe_published
    from unweave.data import PublishedSpec

    data = _data(name, fields, select, features)
    if isinstance(data, PublishedSpec):
        files = data.sources if fields else data.ABOUT.sources
        out.write(describe_published(name, type(data), files))
    else:
        out.write(describe_dataset(data, data.load(torch.device("cpu"))))


@data_app.command(name="get")
def get_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Download the files of a dataset; rerun the command to resume.

    Examples:

      unweave data get mnist

      unweave data get mpi3d version=toy
    """
    from unweave.catalogue.data import checksum_text
    from unweave.data.published.download import fetch

    dataset = _published(name, fields)
    if dataset.missing and dataset.ABOUT.hand:
        names = ", ".join(source.name for source in dataset.missing)
        raise ValueError(
            f"{name} has to be downloaded manually. {dataset.ABOUT.hand} Then put into "
            f"{dataset.folder}: {names}. `unweave data check {name}` verifies them"
        )
    for source in dataset.sources:
        with ProgressDisplay(err, {source.name: source.size}, in_bytes=True) as display:
            show = partial(display.update, source.name)
            path = print_warnings(err, fetch, source, dataset.folder, show)
        out.print(f"{path}{checksum_text(source)}", soft_wrap=True)


@data_app.command(name="check")
def check_command(name: NameArgument, fields: FieldsArgument = None) -> None:
    """Compare the files of a dataset with their checksums, and read them.

    Example:

      unweave data check mnist
    """
    import torch

    from unweave.catalogue.data import checksum_text
    from unweave.data.published.download import find_problem

    spec = _published(name, fields)
    present = [source for source in spec.sources if source not in spec.missing]
    problems = [p for source in present if (p := find_problem(source, spec.folder))]
    if problems:
        raise ValueError(f"{'; '.join(problems)}. Delete these files and download them again")
    for source in present:
        out.print(f"{source.name}{checksum_text(source)}", soft_wrap=True)
    dataset = spec.load(torch.device("cpu"))
    out.print("; ".join(dataset.notes), soft_wrap=True)


@data_app.command(name="preview")
def preview_command(
    name: AnyNameArgument,
    fields: FieldsArgument = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="PNG file to write (by default named after the data)."),
    ] = None,
    overwrite: OverwriteOption = False,
    select: SelectOption = None,
    features: FeaturesOption = None,
) -> None:
    """Draw random observations and a traversal of every factor; vectors are drawn as points.

    Examples:

      unweave data preview shapes3d

      unweave data preview shapes2d side=128 orientations=9 --out sprites.png

      unweave data preview photos/

      unweave data preview shapes3d --select held-out:floor_hue=0,wall_hue=0,split=held-out
    """
    import torch

    from unweave.catalogue.preview import preview_sheet

    shown = [*_bare(fields), *(select or []), *([] if features is None else [str(features)])]
    path = file or Path(f"{_file_name(name, shown)}-preview.png")
    check_output(path, "--out", overwrite, (".png",))
    dataset = _data(name, fields, select, features).load(torch.device("cpu"))
    picture, notes = preview_sheet(dataset)
    print_notes(err, (*dataset.notes, *notes))
    write_atomically(path, png_bytes(picture))
    print_notes(out, [str(path)])


@data_app.command(name="features")
def features_command(
    name: RunArgument,
    classes: Annotated[
        int, typer.Option(min=2, help="Number of classes per latent dimension.")
    ] = 5,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    file: Annotated[Path, typer.Option("--out", help="File to write.")] = Path("features.npz"),
    overwrite: OverwriteOption = False,
) -> None:
    """Bin the codes of a run's data into classes, to hold out combinations with --select.

    Examples:

      unweave data features 3f2a --classes 5

      unweave train data=mnist --features features.npz --select held-out:class=7,z3=4/class=0,z5=0
    """
    from unweave.data import in_classes, write_features
    from unweave.evaluation.codes import variable_names
    from unweave.evaluation.loading import load
    from unweave.training.store import Store

    check_output(file, "--out", overwrite, (".npz",))
    model = load(Store(store).find(name).path, device=device)
    table = model.table(rows=model.dataset.size)
    codes = in_classes(table.codes, classes)
    codes[:, table.discrete] = table.codes[:, table.discrete]
    names = variable_names(model.run.latent)
    write_features(file, codes, names)
    counts = ", ".join(f"{n} {size}" for n, size in zip(names, codes.max(0) + 1, strict=True))
    out.print(f"{file}: {len(codes):,} rows of {counts}", soft_wrap=True)


@data_app.command(name="page")
def page_command(
    pictures: Annotated[str | None, typer.Option(help="Folder of pictures to include.")] = None,
) -> None:
    """Describe all published datasets in Markdown.

    Example:

      unweave data page > datasets.md
    """
    from unweave.catalogue.data import page

    out.write(page(pictures))


def _bare(fields: list[str] | None) -> list[str]:
    """Return fields of a dataset without the prefix data., which is optional."""
    return [field.removeprefix("data.") for field in fields or []]


def _file_name(name: str, shown: Sequence[str]) -> str:
    """Return a file name that identifies the data and their fields.

    >>> _file_name("shapes2d", ["side=32", "held-out:shape=heart,x=0..15"])
    'shapes2d-side=32-held-out-shape=heart,x=0..15'
    """
    from unweave.core import spec
    from unweave.data import Data

    path = Path(name)
    if name not in spec.members(Data):
        path = path.absolute().resolve()
        if path.is_relative_to(Path.cwd()) and path != Path.cwd():
            path = path.relative_to(Path.cwd())
    words = [re.sub(r"[^\w.,=+]+", "-", word).strip("-.") for word in (str(path), *shown)]
    text = "-".join(words)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}-{zlib.crc32(text.encode()):08x}"
    return text


def _data(
    name: str, fields: list[str] | None, select: list[str] | None, features: Path | None
) -> Data:
    """Return the data spec for a name or path, with its fields and selections."""
    from unweave.training.overrides import runs_from

    assignments = [f"data={name}", *(f"data.{each}" for each in _bare(fields))]
    runs = runs_from(assignments, None, select or [], features)
    if len(runs) != 1:
        raise ValueError(
            f"expected one dataset, got {len(runs)} from lists of values: write a field that is a "
            """list as JSON, as in 'shapes=["heart"]'"""
        )
    return runs[0].data


def _published(name: str, fields: list[str] | None) -> PublishedSpec:
    """Return the spec of a published dataset, with its fields."""
    from unweave.core import spec
    from unweave.core.assignments import override
    from unweave.core.hints import nearest
    from unweave.data import Data, Published, PublishedSpec
    from unweave.training.run import Run

    known = spec.members(Published)
    if name not in known:
        if name in spec.members(Data):
            raise ValueError(f"{name} needs no download: give it as data={name}")
        raise ValueError(f"{name!r} is not a published dataset. {nearest(name, known)}")
    assignments = [f"data={name}", *(f"data.{field}" for field in _bare(fields))]
    data = override(Run, assignments).data
    assert isinstance(data, PublishedSpec)
    return data
