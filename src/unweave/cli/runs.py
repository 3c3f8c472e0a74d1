"""`unweave runs`, `unweave report` and `unweave cite`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    RowsOption,
    RunArgument,
    RunsArgument,
    StoreOption,
)
from unweave.core.console import err, out, plain_table
from unweave.core.notes import print_warnings
from unweave.core.parts import MissingPart

if TYPE_CHECKING:
    from unweave.training.run import Run
    from unweave.training.store import RunFolder


def runs_command(store: StoreOption = Path("runs")) -> None:
    """List the runs of a store: finished, running, stopped (resumable), failed or not started.

    Example:

      unweave runs --store runs
    """
    from unweave.training.store import Store

    folders = Store(store).folders()
    if not folders:
        out.print(f"{store} contains no runs yet; train one with `unweave train`")
        return
    table = plain_table("run", "status", "steps", "what", "seed", "distortion", "rate")
    for folder in folders:
        try:
            table.add_row(*_run_row(folder))
        except MissingPart as error:
            table.add_row(folder.path.name, folder.status)
            err.print(f"{folder.path.name}: {error}", soft_wrap=True, highlight=False)
        except ValueError as error:
            table.add_row(folder.path.name, "damaged")
            err.print(str(error), style="red", soft_wrap=True, highlight=False)
    out.print(table)


def report_command(
    names: RunsArgument,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    data: DataOption = None,
    rows: RowsOption = 10_000,
) -> None:
    """Write a self-contained page about each run: report.html in its folder.

    Example:

      unweave report 3f2a
    """
    from unweave.evaluation.loading import load
    from unweave.report import write_report
    from unweave.training.store import Store

    for model in load(Store(store).find_all(names), data=data, device=device):
        assert model.folder is not None
        write = partial(write_report, path=model.folder / "report.html", rows=rows)
        out.print(str(print_warnings(err, write, model)), soft_wrap=True, highlight=False)


def cite_command(name: RunArgument, store: StoreOption = Path("runs")) -> None:
    """Print BibTeX entries for everything a run uses and for the metrics it was scored with.

    Example:

      unweave cite 3f2a > paper.bib
    """
    from unweave.core.bibliography import citations
    from unweave.metrics.registry import metric_citations
    from unweave.training.store import Store

    folder = Store(store).find(name)
    for entry in (citations(folder.read_run()) | metric_citations(folder.metrics)).values():
        sys.stdout.write(entry + "\n\n")


def objective_text(run: Run) -> str:
    """Return the objective of a run with its divergence and weights, in a few words."""
    weights = ", ".join(
        f"{name} {weight:g}" if isinstance(weight, float) else f"{name} {weight}"
        for name, weight in run.weights.items()
    )
    divergence = getattr(run.objective, "divergence", None)
    kind = run.objective.kind + (f" with {divergence.kind}" if divergence else "")
    return f"{kind}, {weights}" if weights else kind


def final_terms(log: Sequence[dict[str, Any]]) -> list[str]:
    """Return distortion and rate at the end of a log; empty if the objective has none."""
    last = log[-1] if log else {}
    return [f"{last[name]:.2f}" if name in last else "" for name in ("distortion", "rate")]


def _run_row(folder: RunFolder) -> list[str]:
    from unweave.training.configuration import blocks_text
    from unweave.training.overrides import data_text

    run, log = folder.read_run(), folder.read_log()
    steps = f"{log[-1]['step'] if log else 0}/{run.steps}"
    what = f"{objective_text(run)}; {blocks_text(run.latent)}; {data_text(run.data)}"
    if splits := ", ".join(folder.scores):
        what += f"; scored on {splits}"
    return [folder.path.name, folder.status, steps, what, str(run.seed), *final_terms(log)]
