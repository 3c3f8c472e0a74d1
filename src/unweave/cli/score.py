"""`unweave score`."""

from pathlib import Path
from typing import Annotated

import typer

from unweave.cli.options import ScoringOptions, with_scoring_options
from unweave.core.console import err, out
from unweave.core.notes import print_warnings


@with_scoring_options
def score_command(
    path: Annotated[
        Path, typer.Argument(help="Codes, or codes and factors: .npz, .npy, .csv, .parquet, .h5.")
    ],
    labels: Annotated[
        Path | None,
        typer.Argument(help="The factors, if they are in another file; the same as --factors."),
    ] = None,
    factors: Annotated[
        Path | None, typer.Option(help="The factors, if they are in another file.")
    ] = None,
    codes_key: Annotated[
        str,
        typer.Option(help="Name of the array of codes, or of its columns (by default `codes`)."),
    ] = "",
    factors_key: Annotated[
        str,
        typer.Option(
            help="Name of the array of factors, or of its columns (by default `factors`)."
        ),
    ] = "",
    *,
    options: ScoringOptions,
) -> None:
    """Score codes from any source: codes (N, D) and factors (N, K), in one file or in two.

    Text labels become classes. Two CSV files are joined by a text column that names the rows;
    otherwise rows are matched by their order. Rows with missing labels are not scored.

    An .npz file may have more arrays: scales (N, D), standard deviations of q(z|x); kl (D,), mean
    KL(q(z_j|x) || p(z_j)); discrete (D,) and normal (D,), masks of categorical codes and of codes
    with normal q(z_j|x); factor_names (K,); factor_sizes (K,), number of values of each factor;
    periods, JSON text such as {"orientation": 39}; continuous, names of continuous factors;
    row_names (N,). Other arrays are ignored.

    An interval computes each metric on 200 resamples, which takes time: name the metrics you need,
    or lower --resamples. If interrupted, the command prints the scores computed so far.

    Examples:

      unweave score codes.npz

      unweave score codes.csv labels.csv

      unweave score codes.npy --factors labels.npy

      unweave score codes.npz --codes-key z --factors-key y

      unweave score codes.npz --metrics mig,info_mec --interval 0.95 --null --csv

      unweave score codes.npz --continuous angle,x     (continuous, although values repeat)
    """
    from unweave.cli.score_output import print_scores
    from unweave.cli.scoring import score_table
    from unweave.core.hints import naming, not_a_file
    from unweave.metrics import Scores, Table
    from unweave.metrics.registry import find_metrics

    if labels is not None and factors is not None:
        raise ValueError(f"expected one file of factors, got {labels} and {factors}")
    chosen = factors or labels
    for each in (path, chosen):
        if each is not None and not each.is_file():
            raise ValueError(f"expected a file at {each}, {not_a_file(each)}")
    form = options.format
    for name in options.names or ():
        find_metrics(name)  # reject unknown metrics, and those of models, before reading
    keys = {"codes_key": codes_key, "factors_key": factors_key}
    scores = Scores()
    try:
        with naming(path, chosen):
            table = print_warnings(err, lambda: Table.load(path, chosen, **keys))
            skipped = score_table(table, options, scores)
    except KeyboardInterrupt:
        print_scores({"": scores}, form)
        raise
    print_scores({"": scores}, form)
    for line in skipped:
        (out if form == "table" else err).print(line)
