"""`unweave data preview`: a picture of a data set."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import torch
import typer

from unweave.files import write_atomically
from unweave.overrides import runs_from
from unweave.report import preview_sheet


def preview_command(
    name: Annotated[str, typer.Argument(help="A data set, or a file or folder of your own.")],
    fields: Annotated[
        list[str] | None, typer.Argument(help="field=value of the data set; see the examples.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The PNG to write; NAME-preview.png by default.")
    ] = None,
) -> None:
    """Draw observations at random and a walk along every factor.

    Examples:

      unweave data preview shapes3d

      unweave data preview shapes2d side=128 orientations=9 --out sprites.png

      unweave data preview photos/
    """
    runs = runs_from([f"data={name}", *(f"data.{field}" for field in fields or [])])
    if len(runs) != 1:
        raise ValueError(
            f"expected one data set, got {len(runs)} by lists of values: write a field that is a "
            """list as JSON, as in 'shapes=["heart"]'"""
        )
    data = runs[0].data
    path = out or Path(f"{data.kind}-preview.png")
    picture = preview_sheet(data.load(torch.device("cpu")))
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    write_atomically(path, content.getvalue())
    typer.echo(path)
