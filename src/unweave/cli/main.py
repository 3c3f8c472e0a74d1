"""The `unweave` command line, assembled from the commands in this folder.

Each command imports what it needs when it runs, so help and usage errors appear at once.
"""

import functools
import inspect
import io
import re
import sys
from typing import Annotated, Any

import typer

import unweave
from unweave.cli import errors
from unweave.cli.bench import bench_command
from unweave.cli.catalogue import fields_command, methods_command, metrics_command
from unweave.cli.compare import compare_command
from unweave.cli.data import data_app
from unweave.cli.demo import demo_command
from unweave.cli.encode import decode_command, encode_command
from unweave.cli.estimate import estimate_command
from unweave.cli.evaluate import evaluate_command
from unweave.cli.explore import explore_command, share_command
from unweave.cli.presets import presets_command
from unweave.cli.reproduce import reproduce_command
from unweave.cli.runs import cite_command, report_command, runs_command
from unweave.cli.score import score_command
from unweave.cli.status import status_command
from unweave.cli.train import train_command
from unweave.core.console import out
from unweave.core.parts import import_module

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with [bold]unweave demo[/bold]. The help of each command has examples.",
)

app.command(name="demo")(demo_command)
app.command(name="train")(train_command)
app.command(name="estimate")(estimate_command)
app.command(name="runs")(runs_command)
app.command(name="status")(status_command)
app.command(name="evaluate")(evaluate_command)
app.command(name="compare")(compare_command)
app.command(name="report")(report_command)
app.command(name="explore")(explore_command)
app.command(name="share")(share_command)
app.command(name="encode")(encode_command)
app.command(name="decode")(decode_command)
app.command(name="cite")(cite_command)
app.command(name="score")(score_command)
app.add_typer(data_app, name="data")
app.command(name="fields")(fields_command)
app.command(name="methods")(methods_command)
app.command(name="metrics")(metrics_command)
app.command(name="presets")(presets_command)
app.command(name="reproduce")(reproduce_command)
app.command(name="bench")(bench_command)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            envvar="UNWEAVE_IMPORT",
            metavar="MODULE",
            help="Import a module with your own objectives, datasets or other parts; repeatable.",
        ),
    ] = None,
) -> None:
    """Learn, measure and explore disentangled representations."""
    for module in modules or ():
        import_module(module)
    if version:
        out.print(unweave.__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # which cannot encode all names in every locale
        sys.stdout.reconfigure(errors="backslashreplace")
    errors.run(_command(), sys.argv[1:])


@functools.cache
def _command() -> Any:
    """Return all commands, with tidy help."""
    return _tidy_help(typer.main.get_command(app))


def _tidy_help(command: Any) -> Any:
    """Unwrap the paragraphs of a command's help, and hide the type of flags: they take no value."""
    command.help = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(command.help or ""))
    for option in command.get_params(typer.Context(command)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _tidy_help(each)
    return command
