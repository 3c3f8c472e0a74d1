"""`unweave encode` and `unweave decode`: use a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import DeviceOption, OverwriteOption, StoreOption
from unweave.core.console import err, out as printed
from unweave.core.notes import print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE, check_output, npz_bytes

if TYPE_CHECKING:
    from unweave.evaluation.codes import CodeTable
    from unweave.evaluation.model import FittedModel

ModelArgument = Annotated[
    str,
    typer.Argument(
        help="A run, given by digest, start of a digest, or folder; or a file from model.save."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(help="File to write (by default CSV to standard output).")
]


def encode_command(
    name: ModelArgument,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of images, or a file of arrays (by default the data of the run)."
        ),
    ] = None,
    out: OutOption = None,
    scales: Annotated[
        bool, typer.Option("--scales", help="Add the standard deviations of q(z|x).")
    ] = False,
    error: Annotated[
        bool,
        typer.Option(
            "--error",
            help="Add the root mean squared error of each reconstruction, in units of the data.",
        ),
    ] = False,
    overwrite: OverwriteOption = False,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
) -> None:
    """Encode observations: write the means of q(z|x), with names of rows and columns.

    New observations are read like the training data: images get the same size and channels, columns
    of a table are found by name, and values are scaled in the same way. The extension of --out
    chooses the format: .csv, .npz (codes, scales, error, row_names, code_names) or .npy (only
    codes).

    Examples:

      unweave encode 3f2a photos/ --out codes.csv

      unweave encode model.uw spectra.csv --scales --error --out codes.npz

      unweave encode 3f2a     (its own data, to standard output)
    """
    check_output(out, "--out", overwrite, (".csv", ".npz", ".npy"))
    model = load_model(name, store, device)
    from unweave.evaluation.codes import encode_table

    dataset = print_warnings(err, lambda: model.dataset if path is None else model.open(path))
    if path is not None:
        scaled = f"values are scaled like the training data ({model.schema.scaling.method})"
        print_notes(err, [*dataset.notes, scaled])
    _write_codes(print_warnings(err, encode_table, model, dataset, scales, error), out)


def decode_command(
    name: ModelArgument,
    path: Annotated[
        Path, typer.Argument(help="Codes: a .csv, .npz or .npy file as `unweave encode` writes.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for images, .csv file for vectors, or .npy file for both (by default "
            "vectors go to standard output)."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
) -> None:
    """Decode codes to observations in the units of the data.

    Columns of a CSV file are found by name; other columns are ignored. Images are written as PNG,
    or as TIFF if their values are not those of 8-bit images. Vectors are written as CSV.

    Examples:

      unweave decode 3f2a codes.csv --out decoded/

      unweave decode model.uw codes.npz --out spectra.csv
    """
    import numpy as np

    from unweave.core.files import atomically

    model = load_model(name, store, device)
    image = len(model.schema.shape) == 3
    if image and out is None:
        raise ValueError("expected a folder for the images, got none: give --out FOLDER")
    array = out is not None and out.suffix.lower() == ".npy"
    known = (".npy",) if image else (".csv", ".npy")
    check_output(out, "--out", overwrite, known, folder=image)
    from unweave.data.files.write import write_images
    from unweave.evaluation.codes import read_codes

    codes, names = read_codes(path, model)
    decoded = model.decode(codes)
    if array:
        assert out is not None
        with atomically(out) as file:
            np.save(file, decoded)
    elif image:
        assert out is not None
        write_images(out, decoded, names, model.schema)
    else:
        columns = model.schema.value_names or [f"value {n}" for n in range(decoded.shape[1])]
        _write_rows(
            out, ["name", *columns], [[n, *row] for n, row in zip(names, decoded, strict=True)]
        )
    if out is not None:
        print_notes(err, [f"wrote {len(decoded):,} observations to {out}"])


def load_model(name: str, store: Path, device: str) -> FittedModel:
    """Load a model from a file, or from a run that is found as other commands find it."""
    from unweave.evaluation.loading import load
    from unweave.training.store import Store

    path = Path(name) if Path(name).is_file() else Store(store).find(name).path
    return print_warnings(err, lambda: load(path, device=device))


def _write_codes(table: CodeTable, out: Path | None) -> None:
    import numpy as np

    from unweave.core.files import atomically

    if out is None or out.suffix.lower() == ".csv":
        _write_rows(out, *table.csv())
    else:
        with atomically(out) as file:
            if out.suffix.lower() == ".npy":
                np.save(file, table.codes)
            else:
                file.write(npz_bytes(table.arrays()))
    if out is not None:
        print_notes(err, [f"wrote {len(table.codes):,} codes to {out}"])


def _write_rows(out: Path | None, header: list[str], rows: list[list[object]]) -> None:
    from unweave.core.files import write_atomically
    from unweave.core.text import csv_text
    from unweave.data.files.write import csv_cell

    text = csv_text(header, ([csv_cell(value) for value in row] for row in rows))
    if out is None:
        printed.write(text)
    else:
        write_atomically(out, text.encode())
