"""The command line: train, presets, evaluate, score, report, runs, data, cite, reproduce."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import unweave
from unweave.cli.bench import bench_command
from unweave.cli.data import data_app
from unweave.cli.presets import presets_command
from unweave.cli.reproduce import reproduce_command
from unweave.core.console import (
    CeilingOption,
    CodesOption,
    ContinuousOption,
    CsvOption,
    DeviceOption,
    FeaturesOption,
    IntervalOption,
    JsonOption,
    MetricsOption,
    NullOption,
    ResamplesOption,
    ReseedsOption,
    RngOption,
    RowsOption,
    SelectOption,
    SplitOption,
    StoreOption,
)
from unweave.core.console import err as _err
from unweave.core.console import out as _out
from unweave.core.notes import print_warnings
from unweave.core.parallel import WorkerKilled, usable_cores

# What a command needs is loaded where it begins, so that help and mistakes are told at once.
if TYPE_CHECKING:
    from unweave.data.splits import AnySplit

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Learn, measure and explore decomposed representations.",
    epilog="Start with [bold]unweave demo[/bold]. Each command has examples in its --help.",
)

app.add_typer(data_app, name="data")
app.command(name="bench")(bench_command)
app.command(name="reproduce")(reproduce_command)
app.command(name="presets")(presets_command)

RunArgument = Annotated[
    list[str], typer.Argument(help="Runs: digests, beginnings of digests, or folders.")
]

_INTERRUPTED = 130  # what typer makes of Ctrl-C


@app.command(name="train")
def train_command(
    assignments: Annotated[
        list[str] | None, typer.Argument(help="field=value; see the examples.")
    ] = None,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    select: SelectOption = None,
    features: FeaturesOption = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Start from a preset, a run.json or a TOML file."),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Train every run of the preset, not only its base run.")
    ] = False,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints.")
    ] = 30.0,
    threads: Annotated[
        int, typer.Option(min=0, help="CPU threads; 0 takes as many as this process may use.")
    ] = 0,
    precision: Annotated[
        str, typer.Option(help="Of products on a GPU: fp32, tf32 or bf16, the faster the later.")
    ] = "fp32",
    measure: Annotated[
        str,
        typer.Option(
            help="Metrics to measure during training, as mig,total_correlation; the terms of the "
            "objective are measured too."
        ),
    ] = "",
    measure_every: Annotated[
        int | None, typer.Option(min=1, help="Steps between measurements; default 10,000.")
    ] = None,
    measure_rows: Annotated[int, typer.Option(min=2, help="Observations to measure on.")] = 10_000,
) -> None:
    """Train runs; interrupted, the same command goes on where it was.

    Examples:

      unweave train objective=factor-vae objective.gamma=35 latent.size=10 data=shapes2d seed=3

      unweave train data=photos/ steps=20000

      unweave train seed=0..9 objective.beta=1,4     (20 runs, together in lanes)

      unweave train latent=product latent.style=gaussian latent.style.size=8 latent.place=gaussian

      unweave train data=shapes2d --select held-out:shape=heart,x=0..15 --select subset:count=50000

      unweave train --from kim2018/shapes2d-factor-vae --grid     (`unweave presets` lists others)

      unweave train --measure-every 5000 --measure factor_vae_score/kim2018,total_correlation
    """
    from unweave.cli import runs as listing
    from unweave.evaluation.monitor import TERMS, Measure
    from unweave.metrics.registry import listed
    from unweave.presets import base_of, preset
    from unweave.training.overrides import runs_from
    from unweave.training.precision import check_precision
    from unweave.training.store import Store

    _use_cores(threads)
    if grid and not source:
        raise ValueError("--grid needs a preset, as in --from kim2018/shapes2d-factor-vae --grid")
    base = base_of(source) if source else None
    given = preset(source or "").arguments(assignments or []) if grid else assignments or []
    runs = runs_from(given, base, select or [], features)
    watched = None
    if measure or measure_every:
        names = (TERMS, *listed(measure))
        watched = Measure(measure_every or 10_000, names, measure_rows)
    kept = Store(store)
    outcomes = listing.train_all(
        runs, kept, device, checkpoint_seconds, check_precision(precision), watched
    )
    listing.show_outcomes(outcomes, kept)
    if any(outcome.failure for outcome in outcomes):
        raise typer.Exit(1)


@app.command(name="evaluate")
def evaluate_command(
    names: RunArgument,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    split: SplitOption = None,
    rows: RowsOption = 10_000,
    codes: CodesOption = "mean",
    metrics: MetricsOption = "",
    interval: IntervalOption = None,
    resamples: ResamplesOption = 200,
    null: NullOption = False,
    reseeds: ReseedsOption = 0,
    ceiling: CeilingOption = False,
    continuous: ContinuousOption = None,
    rng: RngOption = 0,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Encode the data once and measure the codes against the true factors.

    Runs that differ only in seed and weights are encoded together. The table has a row for each
    metric; of more than four runs it gives mean and spread, and --json and --csv give all.

    Examples:

      unweave evaluate 3f2a

      unweave evaluate runs/*     (all of them)

      unweave evaluate 3f2a --metrics mig,info_mec --interval 0.95 --null

      unweave evaluate 3f2a --metrics mig,measures     (and what needs no factors)

      unweave evaluate 3f2a --split held-out     (on combinations that were held out)

      unweave evaluate 3f2a --codes prior-cdf     (for Student-t and other priors)
    """
    from unweave.cli import scores as scoring
    from unweave.evaluation.model import load
    from unweave.metrics import evaluate as evaluate_table
    from unweave.training.store import Store

    form, asked = scoring.form_of(as_json, as_csv), scoring.named(metrics)
    frame = scoring.frame_of(interval, resamples, null, reseeds, ceiling, continuous)
    measure = partial(evaluate_table, metrics=asked, rng=rng, **frame)
    folders = Store(store).find_all(names)
    chosen = cast("AnySplit | None", split)
    models = print_warnings(_err, lambda: load(folders, split=chosen, device=device))
    scores = scoring.evaluate_all(models, rows, _err, measure, asked is None, codes)
    for line in scoring.measured_on(models, rows):
        (_out if form == "table" else _err).print(line, highlight=False)
    scoring.show(scores, form, _out)


@app.command(name="score")
def score_command(
    path: Annotated[Path, typer.Argument(help="An .npz file of codes, factors, ...")],
    metrics: MetricsOption = "",
    interval: IntervalOption = None,
    resamples: ResamplesOption = 200,
    null: NullOption = False,
    reseeds: ReseedsOption = 0,
    ceiling: CeilingOption = False,
    continuous: ContinuousOption = None,
    rng: RngOption = 0,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Measure anybody's codes: an .npz file with codes (N, D) and factors (N, K).

    Optional arrays: scales (N, D) of q(z|x); kl (D,), mean KL(q(z_j|x) || p(z_j)); discrete (D,)
    and normal (D,), masks of codes that are categories and of those with normal q(z_j|x);
    factor_names (K,); factor_sizes (K,), values that each can take; periods, JSON text as
    {"orientation": 39}; continuous, names of factors that are numbers. Others are not read.

    An interval takes the metrics again on 200 parts of the rows: name those you want, or ask for
    fewer of them. Interrupted, what is done is printed.

    Examples:

      unweave score codes.npz

      unweave score codes.npz --metrics mig,info_mec --interval 0.95 --null --csv

      unweave score codes.npz --continuous angle,x     (numbers, although they repeat)
    """
    from unweave.cli import scores as scoring
    from unweave.core.hints import nearest_path
    from unweave.metrics import Scores, Table

    if not path.is_file():
        raise ValueError(
            f"there is no file {path}: {nearest_path(path)} Give an .npz file with codes and "
            "factors"
        )
    form, asked = scoring.form_of(as_json, as_csv), scoring.named(metrics)
    frame = scoring.frame_of(interval, resamples, null, reseeds, ceiling, continuous)
    table = print_warnings(_err, Table.load, path)
    scores = Scores()
    try:
        scoring.score_table(table, asked, rng, frame, _err, scores)
    except KeyboardInterrupt:
        scoring.show({"": scores}, form, _out)
        raise
    scoring.show({"": scores}, form, _out)


@app.command(name="report")
def report_command(
    names: RunArgument,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    rows: RowsOption = 10_000,
) -> None:
    """Write a self-contained page about a run: report.html in its folder.

    Example:

      unweave report 3f2a
    """
    from unweave.evaluation.model import load
    from unweave.report import write_report
    from unweave.training.store import Store

    for model in load(Store(store).find_all(names), device=device):
        assert model.folder is not None
        write = partial(write_report, path=model.folder / "report.html", rows=rows)
        path = print_warnings(_err, write, model)
        _out.print(str(path), soft_wrap=True, highlight=False)


@app.command(name="runs")
def runs_command(store: StoreOption = Path("runs")) -> None:
    """List the runs of a store.

    Example:

      unweave runs --store runs
    """
    from unweave.cli.runs import show_runs
    from unweave.training.store import Store

    show_runs(Store(store))


@app.command(name="cite")
def cite_command(
    name: Annotated[str, typer.Argument(help="A run.")], store: StoreOption = Path("runs")
) -> None:
    """Print the BibTeX entries of all that a run uses, and of the metrics it was measured with.

    Example:

      unweave cite 3f2a > paper.bib
    """
    from unweave.core.bibliography import citations
    from unweave.metrics.registry import metric_citations
    from unweave.training.store import Store

    folder = Store(store).find(name)
    for entry in (citations(folder.read_run()) | metric_citations(folder.scored)).values():
        sys.stdout.write(entry + "\n\n")


@app.command(name="methods")
def methods_command() -> None:
    """List objectives, divergences and latent blocks, their sources, and what goes with what.

    Example:

      unweave methods > methods.md
    """
    from unweave.catalogue.methods import page

    sys.stdout.write(page())


@app.command(name="metrics")
def metrics_command() -> None:
    """List the metrics: protocols, what they read, their papers, how they differ from others.

    Example:

      unweave metrics > metrics.md
    """
    from unweave.catalogue.metrics import page

    sys.stdout.write(page())


@app.command(name="demo")
def demo_command(
    store: StoreOption = Path("demo"), seed: Annotated[int, typer.Option(min=0)] = 0
) -> None:
    """Learn a small dataset in minutes, measure it, and write its report.

    Example:

      unweave demo --seed 1
    """
    from unweave.cli import scores as scoring
    from unweave.cli.demo import demo_run
    from unweave.cli.runs import train_all
    from unweave.evaluation.model import load
    from unweave.report import write_report
    from unweave.training.store import Store

    _use_cores()
    kept = Store(store)
    outcomes = train_all([demo_run(seed)], kept, "cpu", 30.0)
    folder = kept.folder(outcomes[0].run)
    model = load(folder.path, device="cpu")
    scores = scoring.evaluate_all([model], 10_000, _err)
    scoring.show(scores, "table", _out)
    path = write_report(
        model, folder.path / "report.html", rows=10_000, scores=scores[model.run.digest]
    )
    _out.print(f"report: {path}", soft_wrap=True, highlight=False)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Learn, measure and explore decomposed representations."""
    if version:
        _out.print(unweave.__version__)
        raise typer.Exit


def _use_cores(threads: int = 0) -> None:
    """Let torch use so many threads; 0: as many as this process may run on."""
    import torch

    torch.set_num_threads(threads or usable_cores())


def _bare_flags(command: Any) -> Any:
    """A command, and those under it, whose help shows no type of flags: they take no value."""
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _bare_flags(each)
    return command


def main() -> None:
    """Run the command line: errors are one line on stderr and exit code 2."""
    # typer exports only this child of its usage errors.
    usage_error: type[Exception] = typer.BadParameter.__bases__[0]
    try:
        code = _bare_flags(typer.main.get_command(app))(standalone_mode=False)
        if code == _INTERRUPTED:
            training = sys.argv[1] in ("train", "demo", "reproduce")
            more = "the same command goes on from the last checkpoint"
            done = "printed" if sys.argv[1] == "score" else "kept"
            _err.print(f"stopped; {more if training else f'what is done is {done}'}")
    except usage_error as error:
        if message := error.format_message():  # type: ignore[attr-defined]
            fields = "; fields are set as steps=50" if "train" in sys.argv[1:2] else ""
            _fail(f"{message.rstrip('?.')}; see `unweave --help`{fields}")
        sys.exit(2)  # of a command alone, whose help was shown
    except OSError as error:
        _fail(_os_error(error))
    except (ValueError, FloatingPointError, WorkerKilled) as error:
        _fail(str(error))
    sys.exit(code if isinstance(code, int) else 0)


def _os_error(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    return (
        f"cannot read or write{where}: {error.strerror}. Nothing already kept was changed; free "
        f"space, or choose another place with --store, and run the same command again"
    )


def _fail(message: str) -> None:
    text = " ".join(message.split())
    _err.print(f"error: {text}", style="red", soft_wrap=True, highlight=False, markup=False)
    sys.exit(2)
