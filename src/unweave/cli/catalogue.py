"""`unweave methods`, `unweave metrics` and `unweave fields`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unweave.core.console import out

_WIDEST = 100  # characters of a line


def methods_command(
    name: Annotated[str, typer.Argument(help="One method, such as factor-vae.")] = "",
) -> None:
    """Describe one method, or print all of them, their papers, and what combines.

    Examples:

      unweave methods factor-vae

      unweave methods > methods.md
    """
    from unweave.catalogue.methods import method_page, page

    sys.stdout.write(method_page(name, _width()) if name else page())


def metrics_command(
    name: Annotated[str, typer.Argument(help="One metric, such as mig.")] = "",
) -> None:
    """Describe one metric, or print all: protocols, inputs, papers, differences from namesakes.

    Examples:

      unweave metrics mig

      unweave metrics > metrics.md
    """
    from unweave.catalogue.metrics import metric_page, page

    sys.stdout.write(metric_page(name, _width()) if name else page())


def fields_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[FIELD]",
            help="A field, such as optimiser, or one of its choices, such as objective=factor-vae "
            "(by default all fields of a run).",
        ),
    ] = "",
) -> None:
    """List fields that `unweave train` takes: default, range and meaning of each.

    Examples:

      unweave fields

      unweave fields objective=factor-vae
    """
    from unweave.catalogue.fields import listing

    sys.stdout.write(listing(name, _width()))


def _width() -> int:
    return min(out.width, _WIDEST)
