"""Runs on the command line: trained together, what came of them, and what a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unweave.core import spec
from unweave.core.console import err, out, plain_table
from unweave.core.notes import print_notes
from unweave.training import Outcome, Precision, notes, pick_device, train
from unweave.training.progress import ConsoleProgress, failure_text
from unweave.training.recipe import blocks_of, data_text
from unweave.training.run import Run
from unweave.training.store import RunFolder, Store

if TYPE_CHECKING:
    from unweave.evaluation.monitor import Measure


def train_all(
    runs: list[Run],
    store: Store,
    device: str,
    seconds: float,
    precision: Precision = "fp32",
    measure: Measure | None = None,
) -> list[Outcome]:
    """Train runs, those over the same data on one loading of it."""
    from unweave.evaluation.fit import unmeasured
    from unweave.evaluation.monitor import (
        monitor_of,  # loads the metrics, which `unweave runs` does without
    )

    outcomes: list[Outcome] = []
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        by_data.setdefault(spec.digest(run.data), []).append(run)
    for group in by_data.values():
        dataset = group[0].data.load(pick_device(device))
        resolved = [run.resolve(dataset) for run in group]
        print_notes(err, notes(resolved, dataset))
        monitor = monitor_of(measure, resolved, dataset)
        if measure:
            err.print(
                f"measuring {', '.join(measure.metrics)} every {measure.every:,} steps, into "
                "measures.jsonl of each run",
                highlight=False,
                markup=False,
            )
        outcomes += train(
            resolved, dataset, store, ConsoleProgress(err), seconds, precision, monitor
        )
    if measure and any(o.weights is not None and not o.measures for o in outcomes):
        err.print(f"note: {unmeasured(store.root)}", highlight=False, markup=False)
    return outcomes


def show_outcomes(outcomes: list[Outcome], store: Store) -> None:
    """A table of what came of training, and what to do next."""
    table = plain_table("folder", "objective", "seed", "distortion", "rate")
    for outcome in outcomes:
        run, folder = outcome.run, store.folder(outcome.run)
        if outcome.failure:
            err.print(failure_text(run, outcome.failure), style="red", soft_wrap=True)
            continue
        about = [str(folder.path), _objective(run), str(run.seed)]
        table.add_row(*about, *_terms(outcome.log[-1]))
    if table.row_count:
        out.print(table)
    good = [outcome.run.digest for outcome in outcomes if not outcome.failure]
    if good:
        more = f"  (and so on, {len(good)} runs)" if len(good) > 1 else ""
        out.print(f"next: unweave report {good[0]} --store {store.root}{more}", highlight=False)


def show_runs(store: Store) -> None:
    """A table of the runs of a store: how far each is, what it is, and on which data."""
    folders = store.folders()
    if not folders:
        out.print(f"{store.root} holds no runs yet; `unweave train` makes one")
        return
    table = plain_table("run", "status", "steps", "what", "seed", "distortion", "rate")
    for folder in folders:
        try:
            table.add_row(*_run_row(folder))
        except ValueError as error:
            table.add_row(folder.path.name, "damaged")
            err.print(str(error), style="red", soft_wrap=True, highlight=False)
    out.print(table)


def _objective(run: Run) -> str:
    weights = ", ".join(f"{name} {_short(value)}" for name, value in run.weights.items())
    divergence = getattr(run.objective, "divergence", None)
    kind = run.objective.kind + (f" with {divergence.kind}" if divergence else "")
    return f"{kind}, {weights}" if weights else kind


def _short(weight: object) -> str:
    return f"{weight:g}" if isinstance(weight, float) else str(weight)


def _run_row(folder: RunFolder) -> list[str]:
    run = folder.read_run()
    log = folder.read_log()
    last = log[-1] if log else {"step": 0}
    steps = f"{last['step']}/{run.steps}"
    what = f"{_objective(run)}; {blocks_of(run.latent)}; {data_text(run.data)}"
    return [folder.path.name, folder.status, steps, what, str(run.seed), *_terms(last)]


def _terms(row: dict[str, Any]) -> list[str]:
    """Distortion and rate of a row of the log, of an objective that has them."""
    return [f"{row[name]:.2f}" if name in row else "" for name in ("distortion", "rate")]
