"""`unweave evaluate`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    LanesOption,
    OnOption,
    RowsOption,
    RunsArgument,
    ScoringOptions,
    SplitOption,
    StoreOption,
    with_scoring_options,
)
from unweave.core.console import err, out
from unweave.core.notes import print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE

if TYPE_CHECKING:
    from unweave.data.splits import AnySplit


@with_scoring_options
def evaluate_command(
    names: RunsArgument,
    store: StoreOption = DEFAULT_STORE,
    device: DeviceOption = "auto",
    split: SplitOption = None,
    data: DataOption = None,
    rows: RowsOption = 10_000,
    codes: Annotated[
        Literal["mean", "prior-cdf"],
        typer.Option(
            help="Codes to score: posterior means, or their normal quantiles under the prior."
        ),
    ] = "mean",
    on: OnOption = "local",
    lanes: LanesOption = None,
    *,
    options: ScoringOptions,
) -> None:
    """Score trained runs against the true factors of their data, or by unsupervised metrics.

    Scores and codes are stored in the folder of each run: in scores.json and table.npz for the
    split it was trained on, and in scores-SPLIT.json and table-SPLIT.npz for another.

    Up to four runs of one dataset are shown as columns of one table. If there are more, each group
    of runs that differ only in the seed has its own table, with the mean and standard deviation if
    the group has more than four. Runs with different settings are never averaged. --json and --csv
    print every run, and `unweave compare` compares the groups.

    If a run cannot be scored, the others still are. The reasons are printed at the end, and the
    exit code is 1.

    Some metrics are computed only if you name them: log_likelihood, the importance-weighted bound
    on log p(x) in nats (100 observations, 100 particles each); udr, the agreement of runs that
    differ only in their seed; and mutual_information, total_correlation and dimension_kl, the parts
    of the rate under the exact aggregate posterior of all observations.

    Examples:

      unweave evaluate 3f2a

      unweave evaluate runs/*

      unweave evaluate 3f2a --metrics mig,info_mec --interval 0.95 --null

      unweave evaluate 3f2a --metrics mig,unsupervised     (also metrics that need no factors)

      unweave evaluate runs/* --metrics log_likelihood,total_correlation,udr

      unweave evaluate 3f2a --split held-out     (combinations of factors that were held out)

      unweave evaluate runs/* --metrics all --on ray:address=auto     (many machines)

      unweave evaluate 3f2a --codes prior-cdf     (for Student-t and other priors)
    """
    form = options.format

    from unweave.cli.score_output import evaluation_notes, print_run_scores
    from unweave.cli.scoring import find_runs, left_out_lines, score_runs
    from unweave.evaluation.loading import load_each
    from unweave.evaluation.scoring import ScoringTask
    from unweave.evaluation.shared_latents import NO_INFORMATION
    from unweave.executors import executor_from

    executor = executor_from(on, lanes)
    folders = find_runs(names, store)
    chosen = cast("AnySplit | None", split)
    remote = executor if executor.is_remote(device) else None
    given: dict[str, Any] = {"data": data, "split": chosen, "device": device}
    read = partial(load_each, folders, **given, keep=False, check=remote is None)
    models, reasons = print_warnings(err, read)
    place = None if data is None else str(data.absolute())
    task = ScoringTask(folders=(), split=split, data=place, device=device)
    scored = score_runs(models, rows, options, codes, remote, task)
    failures = {str(path): reason for path, reason in reasons.items()} | scored.failures
    if failures and len(folders) == 1 and not scored.scores:
        raise ValueError(next(iter(failures.values())))
    for line in evaluation_notes(models, rows, scored.scores):
        (out if form == "table" else err).print(line)
    if scored.uninformed:
        runs = f"all scores in {len(scored.uninformed)} of {len(scored.scores)} runs"
        (out if form == "table" else err).print(f"no evidence: {NO_INFORMATION} ({runs})")
    print_run_scores(models, scored.scores, form)
    for line in left_out_lines(scored.left_out):
        (out if form == "table" else err).print(line)
    if scored.disk_errors:
        raise scored.disk_errors[0]
    if failures:
        print_notes(err, [f"{len(failures)} of {len(folders)} runs could not be fully scored:"])
        print_notes(err, (r if n in r else f"{n}: {r}" for n, r in failures.items()))
        raise typer.Exit(1)
