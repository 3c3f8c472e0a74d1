"""`unweave methods`, `unweave metrics` and `unweave fields`."""

from collections.abc import Callable
from typing import Annotated

import typer

from unweave.core.console import out

_WIDEST = 100  # characters of a line
PageOption = Annotated[
    bool, typer.Option("--page", help="Print the documentation page of all of them, as Markdown.")
]


def methods_command(
    name: Annotated[str, typer.Argument(help="One method, such as factor-vae.")] = "",
    whole_page: PageOption = False,
) -> None:
    """List the objectives, latent blocks and other methods, or describe one.

    Examples:

      unweave methods

      unweave methods factor-vae

      unweave methods --page > methods.md
    """
    from unweave.catalogue.methods import method_list, method_page, page

    _print(name, whole_page, method_list, method_page, page)


def metrics_command(
    name: Annotated[str, typer.Argument(help="One metric, such as mig.")] = "",
    whole_page: PageOption = False,
) -> None:
    """List the metrics, or describe one: protocols, inputs, options and papers.

    Examples:

      unweave metrics

      unweave metrics mig

      unweave metrics --page > metrics.md
    """
    from unweave.catalogue.metrics import metric_list, metric_page, page

    _print(name, whole_page, metric_list, metric_page, page)


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
    """List the fields that `unweave train` takes, with default, range and meaning.

    Examples:

      unweave fields

      unweave fields objective=factor-vae
    """
    from unweave.catalogue.fields import listing

    out.write(listing(name, _width()))


def _print(
    name: str,
    whole_page: bool,
    listing: Callable[[int], str],
    describe: Callable[[str, int], str],
    page: Callable[[], str],
) -> None:
    """Print the list, one entry, or the page of everything."""
    if name and whole_page:
        raise ValueError(f"expected a name or --page, got both: leave out {name} or --page")
    if whole_page:
        out.write(page())
    else:
        out.write(describe(name, _width()) if name else listing(_width()))


def _width() -> int:
    return min(out.width, _WIDEST)
