"""`unweave evaluate` and `unweave score`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    RowsOption,
    RunsArgument,
    ScoringOptions,
    StoreOption,
    with_scoring_options,
)
from unweave.core.console import err, out
from unweave.core.notes import print_warnings

if TYPE_CHECKING:
    from unweave.data.splits import AnySplit


@with_scoring_options
def evaluate_command(
    names: RunsArgument,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    split: Annotated[
        str | None,
        typer.Option(
            help="Split to evaluate on: train, validation, test or held-out (by default the one "
            "the run was trained on)."
        ),
    ] = None,
    data: DataOption = None,
    rows: RowsOption = 10_000,
    codes: Annotated[
        Literal["mean", "prior-cdf"],
        typer.Option(
            help="Codes to score: posterior means, or these as normal quantiles under the prior."
        ),
    ] = "mean",
    *,
    options: ScoringOptions,
) -> None:
    """Score trained runs against the true factors of their data.

    Scores and codes are stored in the folder of each run: in scores.json and table.npz for the
    split it was trained on, and in scores-SPLIT.json and table-SPLIT.npz for another. Runs that
    differ only in seed and weights are encoded together. The table of more than four runs shows
    mean and standard deviation; --json and --csv print every run.

    Examples:

      unweave evaluate 3f2a

      unweave evaluate runs/*

      unweave evaluate 3f2a --metrics mig,info_mec --interval 0.95 --null

      unweave evaluate 3f2a --metrics mig,measures     (also metrics that need no factors)

      unweave evaluate 3f2a --split held-out     (combinations of factors that were held out)

      unweave evaluate 3f2a --codes prior-cdf     (for Student-t and other priors)
    """
    form = options.format
    _ = options.names  # reject unknown metrics before anything is loaded

    from unweave.cli.score_output import evaluation_notes, print_scores
    from unweave.cli.scoring import score_runs
    from unweave.evaluation.loading import load
    from unweave.training.store import Store

    folders = Store(store).find_all(names)
    chosen = cast("AnySplit | None", split)
    models = print_warnings(err, lambda: load(folders, data=data, split=chosen, device=device))
    print_warnings(err, lambda: [model.dataset for model in models])
    scores = score_runs(models, rows, options, codes)
    for line in evaluation_notes(models, rows):
        (out if form == "table" else err).print(line, highlight=False)
    print_scores(scores, form)


@with_scoring_options
def score_command(
    path: Annotated[Path, typer.Argument(help="An .npz file of codes and factors.")],
    *,
    options: ScoringOptions,
) -> None:
    """Score codes from any source: an .npz file with codes (N, D) and factors (N, K).

    Optional arrays: scales (N, D), standard deviations of q(z|x); kl (D,), mean KL(q(z_j|x) ||
    p(z_j)); discrete (D,) and normal (D,), masks of categorical codes and of codes with normal
    q(z_j|x); factor_names (K,); factor_sizes (K,), number of values of each factor; periods, JSON
    text such as {"orientation": 39}; continuous, names of continuous factors. Other arrays are
    ignored.

    An interval computes each metric on 200 resamples, which takes time: name the metrics you need,
    or lower --resamples. If interrupted, the command prints the scores computed so far.

    Examples:

      unweave score codes.npz

      unweave score codes.npz --metrics mig,info_mec --interval 0.95 --null --csv

      unweave score codes.npz --continuous angle,x     (continuous, although values repeat)
    """
    from unweave.cli.score_output import print_scores
    from unweave.cli.scoring import score_table
    from unweave.core.hints import nearest_path
    from unweave.metrics import Scores, Table

    if not path.is_file():
        raise ValueError(
            f"there is no file {path}: {nearest_path(path)} Give an .npz file with codes and "
            "factors"
        )
    form = options.format
    _ = options.names  # reject unknown metrics before anything is computed
    table = print_warnings(err, Table.load, path)
    scores = Scores()
    try:
        score_table(table, options, scores)
    except KeyboardInterrupt:
        print_scores({"": scores}, form)
        raise
    print_scores({"": scores}, form)
