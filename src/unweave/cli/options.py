"""Command-line options that several commands share, each declared once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from unweave.metrics import MetricOptions

OutputFormat = Literal["table", "json", "csv"]


def _open_store(place: str) -> Path:
    from unweave.core.console import err
    from unweave.core.notes import print_warnings
    from unweave.training.remote_stores import store_root

    try:
        return print_warnings(err, store_root, place)
    except ValueError as error:  # typer would not show its text
        raise typer.BadParameter(str(error)) from None


StoreOption = Annotated[
    Path,
    typer.Option(
        parser=_open_store,
        metavar="PATH",
        help="The store: a folder that contains runs, or a URL such as s3://bucket/study.",
    ),
]
AssignmentsArgument = Annotated[
    list[str] | None, typer.Argument(help="Settings as field=value; `unweave fields` lists them.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Start from a preset, a run.json or a TOML file instead of the default settings.",
    ),
]
GridOption = Annotated[
    bool,
    typer.Option(
        "--grid",
        help="Use all runs of the preset's experiment: every combination of the seeds and settings "
        "in the paper (by default one run).",
    ),
]
PrecisionOption = Annotated[
    str, typer.Option(help="GPU matmul precision, from slowest to fastest: fp32, tf32 or bf16.")
]
DeviceOption = Annotated[
    str, typer.Option(help="Device: cpu, cuda, cuda:1, ..., or auto for a GPU if there is one.")
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Use a selection of the data, such as subset:count=5000 or "
        "held-out:shape=heart,x=0..15 (repeatable; by default all data)."
    ),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(
        help="File from `unweave data features`, with which --select can hold out combinations of "
        "classes and latent variables, such as class=7,z3=4."
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(help="Where the data of the runs are now, if they have moved since training."),
]
RowsOption = Annotated[
    int, typer.Option(min=2, help="Number of observations to encode (all, if there are fewer).")
]

OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace any existing output file (by default only pages, pictures and .npz files "
        "that unweave wrote; a .csv file does not say who wrote it).",
    ),
]

OnOption = Annotated[
    str,
    typer.Option(
        help="What to run on: local (this machine and its GPUs), ray or slurm, with settings as in "
        "ray:address=auto or slurm:partition=gpu,minutes=240."
    ),
]
LanesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Largest number of runs that a worker takes at once, to train (side by side, as "
        "lanes) or to score (by default 64, or fewer if some workers would get none; no limit "
        "without workers).",
    ),
]
CheckpointSecondsOption = Annotated[
    float,
    typer.Option(
        min=0,
        help="Seconds between checkpoints; more, if writing them would take over 5 % of the time "
        "(0: one at every row of the log).",
    ),
]
RetryFailedOption = Annotated[
    bool,
    typer.Option("--retry-failed", help="Try failed runs again, from their last checkpoint."),
]

SplitOption = Annotated[
    str | None,
    typer.Option(
        help="Split to evaluate on: train, validation, test or held-out (by default the one the "
        "run was trained on)."
    ),
]

RunsArgument = Annotated[
    list[str], typer.Argument(help="Runs, given by digest, start of a digest, or folder.")
]
RunArgument = Annotated[
    str, typer.Argument(help="A run, given by digest, start of a digest, or folder.")
]


@dataclass(frozen=True)
class ScoringOptions:
    """The options that `unweave evaluate` and `unweave score` share."""

    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics to compute, such as mig,dci/locatello2019; `all` includes slow ones, "
            "and `unsupervised` stands for those that need no labels (by default every quick "
            "metric that applies)."
        ),
    ] = ""
    interval: Annotated[
        float | None,
        typer.Option(help="Add a confidence interval of this level, such as 0.95, to each score."),
    ] = None
    resamples: Annotated[
        int,
        typer.Option(
            help="Number of random subsets of the rows from which an interval is computed."
        ),
    ] = 200
    null: Annotated[
        bool,
        typer.Option("--null", help="Also score shuffled factors, which gives the chance level."),
    ] = False
    reseeds: Annotated[
        int,
        typer.Option(
            help="Compute each metric again with this many other random seeds (at least 2), and "
            "add the standard deviation over them."
        ),
    ] = 0
    ceiling: Annotated[
        bool,
        typer.Option(
            "--ceiling",
            help="Also score the factors as if they were codes: the best score possible.",
        ),
    ] = False
    continuous: Annotated[
        str | None,
        typer.Option(
            help="Continuous factors, by name or index, such as x,y or 0,2; '' for none (by "
            "default real-valued factors whose values do not repeat)."
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the metrics.")] = 0
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, including the parts of each score.")
    ] = False

    def check(self) -> None:
        """Reject unknown metrics and impossible options before anything is loaded."""
        from unweave.metrics.options import check_options

        check_options(self.keywords)
        _ = self.names

    @property
    def names(self) -> list[str] | None:
        """The names of the metrics that were asked for, checked; None if none were."""
        from unweave.metrics.model_metrics import split_names
        from unweave.metrics.registry import metric_keys

        names = split_names(self.metrics)
        metric_keys(names)  # raises an error for an unknown metric
        return names or None

    @property
    def keywords(self) -> MetricOptions:
        """The keyword arguments that all metrics share."""
        from unweave.metrics.model_metrics import split_names

        return {
            "continuous": None if self.continuous is None else split_names(self.continuous),
            "interval": self.interval,
            "resamples": self.resamples,
            "null": self.null,
            "reseeds": self.reseeds,
            "ceiling": self.ceiling,
        }

    @property
    def format(self) -> OutputFormat:
        """The output format."""
        return output_format(self.json, self.csv)


def output_format(json: bool, csv: bool) -> OutputFormat:
    """Return the format that `--json` and `--csv` choose."""
    if json and csv:
        raise ValueError("expected --json or --csv, got both: choose one")
    return "json" if json else "csv" if csv else "table"


def with_scoring_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the last parameter of a command, `options`, by the fields of `ScoringOptions`.

    typer reads a command's options from its signature, so the decorated function has one parameter
    for each field, and collects their values into a `ScoringOptions`.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]
    hints = get_type_hints(ScoringOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(ScoringOptions)
    ]

    @functools.wraps(command)
    def decorated(**values: Any) -> None:
        options = ScoringOptions(**{each.name: values.pop(each.name) for each in shared})
        options.check()
        command(**values, options=options)

    parameters = [*own, *shared]
    decorated.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    decorated.__annotations__ = {each.name: each.annotation for each in parameters}
    return decorated
