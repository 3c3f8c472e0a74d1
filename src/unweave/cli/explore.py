"""`unweave share` and `unweave explore`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unweave.cli.options import DataOption, DeviceOption, OverwriteOption, RunsArgument, StoreOption
from unweave.core.console import err, out
from unweave.core.notes import capture_warnings, print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE, check_output

if TYPE_CHECKING:
    from unweave.evaluation.model import FittedModel
    from unweave.explorer.embedding import Method


def share_command(
    names: RunsArgument,
    output: Annotated[Path, typer.Option("--out", help="The file to write.")],
    title: Annotated[
        str | None,
        typer.Option(help="Title of the page (by default it names the objective and the data)."),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=2, help="Number of observations of each run to encode and plot.")
    ] = 10_000,
    thumbnails: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of observations also shown as images or curves; these make up most of "
            "the file.",
        ),
    ] = 2_000,
    embedding: Annotated[
        str | None,
        typer.Option(
            help="Also draw the codes in a plane by umap or pacmap, which need extra packages (by "
            "default principal components only)."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    data: DataOption = None,
) -> None:
    """Write one page in which anyone can explore runs, offline and without Python.

    The page contains the encoders and decoders, which run in the browser, and observations from the
    data with their codes. Do not share it if the data are confidential. It makes no network
    requests.

    Examples:

      unweave share 3f2a --out page.html

      unweave share 3f2a 81c0 --out both.html --title "Two seeds"

      unweave share 3f2a --out page.html --rows 20000 --embedding umap
    """
    from rich.filesize import decimal

    from unweave.evaluation.loading import load
    from unweave.explorer.share import share
    from unweave.training.store import Store

    check_output(output, "--out", overwrite)
    models = load(Store(store).find_all(names), data=data, device=device)
    write = partial(
        share,
        models,
        output,
        title=title,
        rows=rows,
        thumbnails=thumbnails,
        embedding=cast("Method | None", embedding),
    )
    path = print_warnings(err, write)
    size = decimal(path.stat().st_size)
    out.print(
        f"{path}, {size}: open it in a browser; it needs no network",
        soft_wrap=True,
    )


def explore_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, given by digest, start of a digest, or folder (by default all runs of the "
            "store)."
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Follow runs that are training: show new curves and checkpoints."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 chooses a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address without opening it.")
    ] = False,
    device: DeviceOption = "auto",
    data: DataOption = None,
) -> None:
    """Explore runs in the browser: move their latent variables, and see where the data lie.

    A server on this machine serves the page until you press Ctrl-C. Other machines cannot reach it.

    Examples:

      unweave explore

      unweave explore 3f2a 81c0

      unweave explore --watch --store runs
    """
    from unweave.evaluation.loading import loader
    from unweave.explorer.explore import serve, store_library

    load = loader(data=data, device=device)
    serve(store_library(store, watch, names or (), load), port, not no_browser)


def write_explorer(model: FittedModel) -> Path | None:
    """Write explorer.html into the folder of a run, or print why there is none."""
    from unweave.explorer.share import share
    from unweave.training.leases import FolderInUse

    assert model.folder is not None
    try:
        path, _ = capture_warnings(share, model, model.folder / "explorer.html")
    except FolderInUse:
        raise
    except ValueError as error:
        print_notes(err, [f"no explorer.html for run {model.run.digest}: {error}"])
        return None
    return path
