"""`unweave estimate`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from unweave.cli.options import (
    AssignmentsArgument,
    DeviceOption,
    FromOption,
    GridOption,
    PrecisionOption,
)
from unweave.cli.train import read_runs, use_threads
from unweave.core.console import err, out
from unweave.core.hints import count_noun

if TYPE_CHECKING:
    from unweave.bench.costs import StepTime
    from unweave.training import Precision
    from unweave.training.own_data import Datasets
    from unweave.training.run import Run

_DAY = 86_400.0
_MEASURED = 2.0  # seconds for each measurement


def estimate_command(
    assignments: AssignmentsArgument = None,
    workers: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of GPUs that train at once.")
    ] = 1,
    source: FromOption = None,
    grid: GridOption = False,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of runs that a worker trains side by side (by default as in "
            "`unweave train --on`).",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1e-3,
            max=1e7,
            help="Seconds of training per run: of runs side by side, their time divided by their "
            "number (by default measured "
            "on this machine).",
        ),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    price: Annotated[
        float | None, typer.Option(min=0, max=1e6, help="Price of a worker per hour.")
    ] = None,
    starting: Annotated[
        float,
        typer.Option(min=0, max=_DAY, help="Seconds that a worker needs before its first step."),
    ] = 60.0,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=_DAY,
            help="Seconds between checkpoints; more, if writing them takes over 5 % of the time.",
        ),
    ] = 30.0,
    saving: Annotated[
        float,
        typer.Option(min=0, max=_DAY, help="Seconds that a worker needs to write a checkpoint."),
    ] = 1.0,
    preemptions: Annotated[
        float, typer.Option(min=0, max=60, help="Mean number of preemptions of a worker per hour.")
    ] = 0.0,
    waiting: Annotated[
        float,
        typer.Option(min=0, max=_DAY, help="Seconds until a preempted worker is replaced."),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate how long a study takes on several GPUs, and what it costs, before it starts.

    A few steps of each kind of run are timed on this machine, alone and side by side, unless
    --seconds says how long a run takes. Then the study is simulated many times.

    Examples:

      unweave estimate seed=0..99 objective.beta=1,2,4,8 --workers 8

      unweave estimate --from kim2018/shapes2d-factor-vae --grid --workers 16 --precision bf16

      unweave estimate seed=0..999 --seconds 40 --workers 8 --preemptions 0.1 --price 2
    """
    from unweave.bench.costs import Conditions, StepTime, estimate
    from unweave.executors.division import lanes_for
    from unweave.training import pick_device
    from unweave.training.own_data import Datasets
    from unweave.training.precision import check_precision
    from unweave.training.status import duration

    kind = check_precision(precision)
    datasets = Datasets(pick_device(device))
    runs = read_runs(assignments, source, grid, datasets)
    most = lanes or lanes_for(len(runs), workers)
    examples = {run.lane_key: run for run in runs}
    use_threads()
    tasks: list[float] = []
    for key, count in Counter(run.lane_key for run in runs).items():
        run, sizes = examples[key], [most] * (count // most)
        sizes += [count % most] if count % most else []
        if seconds is None:
            step = _time_step(run, max(sizes), datasets, kind)
        else:
            step = StepTime(0.0, seconds / run.steps)
        tasks += [run.steps * step.seconds(size) for size in sizes]
    conditions = Conditions(workers, starting, checkpoint_seconds, saving, preemptions, waiting)
    estimated = estimate(tasks, conditions)
    hours = estimated.spent.total / 3600
    money = None if price is None else price * hours
    if as_json:
        content = {
            "runs": len(runs),
            "tasks": estimated.tasks,
            "seconds": dict(zip(("mean", "low", "high"), estimated.times, strict=True)),
            "least_seconds": estimated.least,
            "worker_seconds": estimated.spent._asdict(),
            "price": money,
        }
        out.print_json(data=content)
        return
    mean, *ends = map(duration, estimated.times)
    span = f" (90 % of simulations: {' to '.join(ends)})" if {*ends} != {mean} else ""
    each = f"{estimated.spent.training / len(runs):,.3g} s of training for each run"
    out.print(f"{count_noun(len(runs), 'run')} in {count_noun(estimated.tasks, 'task')}, {each}")
    out.print(
        f"{count_noun(workers, 'worker')}: {mean}{span}, if a task starts in {starting:g} s "
        "(--starting)",
        soft_wrap=True,
    )
    parts = ", ".join(f"{_hours(part)} {name}" for name, part in estimated.spent._asdict().items())
    out.print(f"{_hours(estimated.spent.total)} worker-hours: {parts}", soft_wrap=True)
    if preemptions and saving:
        best = conditions.best_interval
        out.print(f"checkpoints every {best:,.0f} s would lose the least to preemption")
    if money is not None:
        out.print(f"price: {money:,.2f}")


def _time_step(run: Run, lanes: int, datasets: Datasets, precision: Precision) -> StepTime:
    """Time steps of a run alone, and side by side with others."""
    from unweave.bench.costs import StepTime
    from unweave.bench.throughput import time_step

    dataset, measured = datasets.load(run.data), {}
    for count in dict.fromkeys((1, lanes)):
        measured[count] = time_step(run, count, dataset, precision, _MEASURED) / 1e6
        what = f"{count_noun(count, 'run')} of {run.objective.kind}"
        err.print(f"{what}: {1000 * measured[count]:,.3g} ms for a step")
    return StepTime.fit(1, measured[1], lanes, measured[lanes])


def _hours(seconds: float) -> str:
    """Return hours with three digits."""
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"
