"""`unweave status`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import OverwriteOption, StoreOption
from unweave.core import files
from unweave.core.console import err, out
from unweave.core.outputs import DEFAULT_STORE

if TYPE_CHECKING:
    from markupsafe import Markup

    from unweave.training.status import StoreStatus

_MOST = 20  # rows of a table
_RELOAD = '<meta http-equiv="refresh" content="{:g}">'  # seconds
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="unweave {version}">
{reload}<meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui,sans-serif;margin:2rem}}
caption{{font-weight:600}}th{{font-weight:600}}table{{margin:1rem 0}}
</style></head><body><h1>{title}</h1>{lines}{tables}<p>as of {time}</p></body></html>
"""


def status_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print what workers logged about this run (by default, the status of all runs)."
        ),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the status to an HTML file instead of printing it. With --every, the page "
            "is updated and reloads itself."
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86_400,
            help="Seconds between two updates, until all runs are done (by default show it once).",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Show the progress of runs: how many are done, speed, workers and failures.

    Everything is read from the store, so this works on any machine that can read it. If you name a
    run, the command prints what the workers of `--on` logged about it.

    Examples:

      unweave status --store /shared/runs

      unweave status --html status.html --every 10

      unweave status 3f2a
    """
    from unweave.core.outputs import check_output
    from unweave.training.status import read_status

    if name is not None:
        _print_log(name, store)
        return
    check_output(html, "--html", overwrite, (".html", ".htm"))
    announced = False
    while True:
        status = read_status(store)
        if html is not None:
            _write_page(html, status, store, every if status.steps_left else None)
            if not announced:
                err.print(f"wrote {html}")
                announced = True
        elif json_output:
            out.write(json.dumps(status.to_json(), indent=2) + "\n")
        else:
            _print(status, store)
        if every is None or not status.steps_left:
            return
        time.sleep(every)


def _print(status: StoreStatus, store: Path) -> None:
    from unweave.training.status import status_lines

    if not status.runs:
        out.print(f"{files.disk.name(store)} contains no runs yet; train one with `unweave train`")
        return
    for line in status_lines(status):
        out.print(line, soft_wrap=True)
    for columns, rows in _tables(status):
        out.print_table(columns, rows[:_MOST])
        if len(rows) > _MOST:
            out.print(f"{_MOST} of {len(rows)} are shown; --json prints all")


def _tables(status: StoreStatus) -> list[tuple[list[str], list[list[str]]]]:
    """Return the columns and rows of the tables of workers and of failures, without empty ones."""
    workers = [
        [
            f"{each.host} {each.pid}",
            each.device,
            f"{each.step:,}/{each.steps:,}" if each.steps else "",
            f"{each.steps_per_second:,.1f}" if each.steps else "",
            f"{each.heartbeat:.0f} s ago",
            f"{len(each.runs)}: {', '.join(each.runs[:3])}{', ...' * (len(each.runs) > 3)}"
            if each.runs
            else f"{each.submitted:,} submitted" * bool(each.submitted) or "idle",
        ]
        for each in status.workers
    ]
    failures = [[each.run, each.status, each.reason] for each in status.runs if each.reason]
    found = [
        (["worker", "device", "step", "steps/s", "heartbeat", "runs"], workers),
        (["run", "status", "what"], failures),
    ]
    return [(columns, rows) for columns, rows in found if rows]


def _write_page(path: Path, status: StoreStatus, store: Path, reload: float | None) -> None:
    """Write the status as one HTML file, which reloads itself as often as it is rewritten."""
    from markupsafe import Markup

    import unweave
    from unweave.core.files import write_atomically
    from unweave.core.html import html_table
    from unweave.core.text import visible
    from unweave.training.status import status_lines

    lines = [Markup("<p>{}</p>").format(visible(line)) for line in status_lines(status)]
    tables = [html_table(columns, rows) for columns, rows in _tables(status)]
    page: Markup = Markup(_PAGE).format(
        version=unweave.__version__,
        reload=Markup(_RELOAD).format(reload) if reload else "",
        title=visible(f"Runs in {store}"),
        lines=Markup("").join(lines),
        tables=Markup("").join(tables),
        time=time.strftime("%Y-%m-%d %H:%M:%S"),
    )
    write_atomically(path, page.encode())


def _print_log(name: str, store: Path) -> None:
    """Print what workers logged about a run."""
    from unweave.training.status import worker_log
    from unweave.training.store import Store

    run = Store(store).find(name).digest
    if not (log := worker_log(store, run)):
        raise ValueError(
            f"run {run} was not trained by a worker, so it has no worker log: its progress was "
            "printed by the command that trained it; its terms are in log.jsonl in its folder"
        )
    out.write(log)
