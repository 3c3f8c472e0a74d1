"""`unweave train`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import (
    AssignmentsArgument,
    CheckpointSecondsOption,
    DeviceOption,
    FeaturesOption,
    FromOption,
    GridOption,
    LanesOption,
    OnOption,
    PrecisionOption,
    RetryFailedOption,
    SelectOption,
    StoreOption,
)
from unweave.core import files, torchrun
from unweave.core.console import err, out
from unweave.core.hints import count_noun
from unweave.core.notes import print_warnings
from unweave.core.outputs import DEFAULT_STORE
from unweave.core.parallel import usable_cores
from unweave.core.parts import own_modules, unannounced

if TYPE_CHECKING:
    from unweave.training import Outcome
    from unweave.training.own_data import Datasets
    from unweave.training.run import Run
    from unweave.training.store import Store

_MOST_NAMED = 8  # runs that the suggested command names one by one


def train_command(
    assignments: AssignmentsArgument = None,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    select: SelectOption = None,
    features: FeaturesOption = None,
    source: FromOption = None,
    grid: GridOption = False,
    checkpoint_seconds: CheckpointSecondsOption = 30.0,
    threads: Annotated[
        int,
        typer.Option(
            min=0,
            max=1024,
            help="Number of CPU threads; 0 uses all available cores. If other programs keep the "
            "machine busy, 1 is often faster.",
        ),
    ] = 0,
    precision: PrecisionOption = "fp32",
    measure: Annotated[
        str,
        typer.Option(
            help="Metrics to compute during training, besides the terms of the objective, such as "
            "mig,total_correlation."
        ),
    ] = "",
    measure_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps between measurements (by default 10,000 if --measure is given)."
        ),
    ] = None,
    measure_rows: Annotated[
        int, typer.Option(min=2, help="Number of observations to measure on.")
    ] = 10_000,
    on: OnOption = "local",
    lanes: LanesOption = None,
    retry_failed: RetryFailedOption = False,
) -> None:
    """Train runs; if interrupted, the same command resumes from the last checkpoint.

    Settings are field=value. A range (seed=0..9) or a list (objective.beta=1,4) trains one run for
    each combination, and runs that differ only in seed and weights train side by side. If the store
    has the same run with fewer steps, that run is continued.

    Examples:

      unweave train objective=factor-vae objective.gamma=35 latent.size=10 data=shapes2d seed=3

      unweave train data=photos/ steps=20000

      unweave train seed=0..9 objective.beta=1,4     (20 runs, trained side by side)

      unweave train latent=product latent.style=gaussian latent.style.size=8 latent.place=gaussian

      unweave train data=shapes2d --select held-out:shape=heart,x=0..15 --select subset:count=50000

      unweave train --from kim2018/shapes2d-factor-vae --grid     (`unweave presets` lists others)

      unweave train seed=0..99 --store /shared/runs --on ray:address=auto     (many machines)

      unweave train --measure-every 5000 --measure factor_vae_score/kim2018,total_correlation

      torchrun --standalone --nproc-per-node 2 -m unweave train data=photos/     (on two GPUs)
    """
    from unweave.evaluation.fit import train_runs
    from unweave.evaluation.monitor import TERMS, Measure
    from unweave.evaluation.tasks import ThisProcess
    from unweave.executors import executor_from
    from unweave.metrics.model_metrics import split_names
    from unweave.training.own_data import Datasets
    from unweave.training.precision import check_precision
    from unweave.training.processes import join
    from unweave.training.progress import ConsoleProgress
    from unweave.training.store import Store

    if torchrun.launched() and (on != "local" or lanes or retry_failed):
        raise ValueError(
            "torchrun trains one run after the other in all of its processes; leave --on, --lanes "
            "and --retry-failed out, or use them without torchrun"
        )
    executor = ThisProcess() if torchrun.launched() else executor_from(on, lanes)
    use_threads(threads)
    processes, own_device = join(executor.load_on(device))
    datasets = Datasets(own_device)
    runs = read_runs(assignments, source, grid, datasets, select, features)
    plan = None
    if measure or measure_every:
        plan = Measure(measure_every or 10_000, (TERMS, *split_names(measure)), measure_rows)
        err.print(
            f"measuring {', '.join(plan.metrics)} every {count_noun(plan.every, 'step')}, written "
            "to measures.jsonl of each run",
        )
    if not assignments and not source:
        err.print(
            "no settings were given, so this trains the default run; for your own data, write "
            "data=PATH; `unweave train --help` has examples",
            soft_wrap=True,
        )
    run_store = Store(store)
    outcomes = train_runs(
        runs,
        datasets,
        run_store,
        ConsoleProgress(err),
        err,
        checkpoint_seconds,
        check_precision(precision),
        plan,
        on=executor,
        device=device,
        threads=threads,
        retry_failed=retry_failed,
        processes=processes,
    )
    if processes.is_first:
        print_outcomes(outcomes, run_store, datasets)
    if any(outcome.failure for outcome in outcomes):
        raise typer.Exit(1)


def read_runs(
    assignments: list[str] | None,
    source: str | None,
    grid: bool,
    datasets: Datasets,
    select: list[str] | None = None,
    features: Path | None = None,
) -> list[Run]:
    """Return the runs that assignments, `--from`, `--grid` and `--select` describe."""
    from unweave.presets import base_of, preset
    from unweave.training.overrides import runs_from

    if grid and not source:
        raise ValueError("--grid needs a preset, as in --from kim2018/shapes2d-factor-vae --grid")
    base = base_of(source) if source else None
    given = preset(source or "").arguments(assignments or []) if grid else assignments or []
    return print_warnings(err, lambda: runs_from(given, base, select or [], features, datasets))


def print_outcomes(outcomes: list[Outcome], store: Store, datasets: Datasets) -> None:
    """Print a table of the trained runs, the failures, and the command to run next.

    An objective that all runs share is left out, so that the table fits 80 columns.
    """
    from unweave.evaluation.overfitting import overfit_warning
    from unweave.evaluation.unfinished import Unfinished, unfinished_note
    from unweave.evaluation.validation import final_loss
    from unweave.training.final_terms import mean_terms
    from unweave.training.progress import failure_text
    from unweave.training.run_text import objective_text

    losses = [final_loss(outcome.measures) for outcome in outcomes]
    validated = any(losses)
    held_out = ["held-out", "R^2"] if validated else []
    objectives = {objective_text(outcome.run) for outcome in outcomes}
    what = ["objective"] if len(objectives) > 1 else []
    rows = []
    for outcome, loss in zip(outcomes, losses, strict=True):
        run, folder = outcome.run, store.folder(outcome.run)
        if outcome.failure:
            err.print(failure_text(run, outcome.failure), style="red", soft_wrap=True)
        else:
            objective = [objective_text(run)] if what else []
            shown = [f"{loss.total:.2f}", f"{loss.r2:.2f}"] if loss else [""] * len(held_out)
            end = mean_terms(outcome.log_end)
            terms = [f"{end[name]:.2f}" if name in end else "" for name in ("distortion", "rate")]
            rows.append([files.disk.name(folder.path), *objective, str(run.seed), *terms, *shown])
    if rows:
        out.print_table(["folder", *what, "seed", "distortion", "rate", *held_out], rows)
    if rows:
        out.print("distortion, rate: means over training batches at the end of training")
    if validated:
        out.print(
            "held-out: loss (distortion + rate) on the validation split; R^2: share of its "
            "variance that is explained",
        )
    # Extreme values, of which a warning was printed, have to be corrected first.
    judged = [each for each in outcomes if not datasets.load(each.run.data).schema.extremes]
    if overfits := overfit_warning(judged):
        err.print(overfits, style="bold yellow", soft_wrap=True)

    def describe(outcome: Outcome, found: Unfinished) -> str:
        run = outcome.run
        return found.describe_stored(run, store.folder(run), datasets.load(run.data))

    if early := unfinished_note(judged, describe):
        err.print(f"NOTE: {early}", style="yellow", soft_wrap=True)
    trained = [outcome for outcome in outcomes if not outcome.failure]
    if trained:
        best, why = best_outcome(trained)
        modules = unannounced(own_modules([best.run]))
        imports = "".join(f"--import {shlex.quote(module)} " for module in modules)
        place = shlex.quote(files.disk.name(store.root))
        commands = [f"report {best.run.digest} --store {place}{why}"]
        if len(trained) > 1:
            named = " ".join(outcome.run.digest for outcome in trained)
            remote = files.disk.name(store.root) != str(store.root)  # no shell lists its runs
            every = named if remote or len(trained) <= _MOST_NAMED else f"{place}/*"
            commands.append(f"compare {every} --store {place}")
        for start, command in zip(("next: ", "and:  "), commands, strict=False):
            out.print(f"{start}unweave {imports}{command}", soft_wrap=True)


def best_outcome(trained: Sequence[Outcome]) -> tuple[Outcome, str]:
    """Return the run to look at first, and why: the one with the least held-out loss, if known.

    The loss is distortion plus rate, whatever the weights of the objectives are. Runs of different
    data or likelihoods cannot be compared by it.
    """
    from unweave.core.spec import digest
    from unweave.evaluation.validation import final_loss

    if len(trained) == 1:
        return trained[0], ""
    alike = len({(digest(o.run.data), digest(o.run.likelihood)) for o in trained}) == 1
    losses = [(loss.total, n) for n, o in enumerate(trained)
              if alike and (loss := final_loss(o.measures))]  # fmt: skip
    if not losses:
        return trained[0], f"  (one of {len(trained)} runs)"
    return trained[min(losses)[1]], f"  (the lowest held-out loss of {len(trained)} runs)"


def use_threads(threads: int = 0) -> None:
    """Set the number of torch's CPU threads; 0 uses all cores that this process can have."""
    import torch

    torch.set_num_threads(threads or max(1, usable_cores() // torchrun.local_size()))
