"""Run a command and report its errors: one line on stderr, exit code 2."""

import errno
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from unweave.core import signals, torchrun
from unweave.core.console import err, out
from unweave.core.files import NO_SPACE, UNREACHABLE, error_text
from unweave.core.memory import is_out_of_memory
from unweave.core.parallel import CannotFork, WorkerKilled

_LONGEST = 4_000  # characters of a message, which may quote a value of any length
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)


def run(command: Any, arguments: list[str]) -> None:
    """Run the command line with arguments, and exit."""
    name = next((word for word in arguments if word in command.commands), "")
    usage_error: type[Exception] = typer.BadParameter.__bases__[0]  # typer does not export it
    if torchrun.rank():  # the first process speaks for all
        out.quiet = err.quiet = True
        warnings.simplefilter("ignore")
    if torchrun.launched() and name not in ("train", ""):
        _fail(f"torchrun is for `unweave train`; run `unweave {name}` without it")
    code, message = 0, None
    try:
        code = command(arguments, standalone_mode=False)
    except usage_error as error:
        if not (usage := error.format_message()):  # type: ignore[attr-defined]
            sys.exit(2)  # no arguments were given, and the help was printed
        hint = "; fields are set as in steps=50" if name == "train" else ""
        end = "? See" if usage.endswith("?") else "; see"
        command_name = f"unweave {name}" if name else "unweave"
        message = f"{usage.rstrip('?.')}{end} `{command_name} --help`{hint}"
    except Exception as error:
        if (message := _explanation(error, command, arguments)) is None:
            raise
    if message is not None:  # printed here, where the memory that the command took is free again
        _fail(message)
    if code == signals.STOPPED and not signals.jobs_go_on:  # as typer returns it after Ctrl-C
        err.print(_interruption_text(name))
    sys.exit(code if isinstance(code, int) else 0)


def _explanation(error: Exception, command: Any, arguments: list[str]) -> str | None:
    """Say what went wrong; None for an error that can only be a bug."""
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    if no_thread or isinstance(error, CannotFork):
        return (
            "the system refuses to start more threads or processes: raise the limits of this shell "
            "(ulimit -u, -v), or end other programs"
        )
    if isinstance(error, OSError):
        return os_error_text(error, _store(command, arguments))
    if isinstance(error, (ValueError, FloatingPointError, WorkerKilled)):
        return str(error)
    if isinstance(error, RecursionError):
        return "a file or a value is nested too deeply"
    if is_out_of_memory(error):
        own = str(error) if isinstance(error, MemoryError) else ""
        return f"there is not enough memory: {own or 'give fewer observations or smaller runs'}"
    return None


def os_error_text(error: OSError, store: Path | None) -> str:
    """Describe an error of the operating system, and suggest --store where that would help.

    Args:
        error: what the operating system reported.
        store: the folder of runs of the command, None if it has none.
    """
    text = error_text(error)
    other = "" if store is None else ", or choose another folder with --store"
    if error.errno == errno.ENOTDIR and store is not None and store.is_file():
        return f"--store {store} is a file: choose a folder"
    if error.errno in NO_SPACE:
        return f"{text}. Stored files are unchanged; free space{other}, and run the command again"
    if error.errno == errno.EIO:
        return f"{text}. Stored files are unchanged; check the disk, and run the command again"
    if error.errno in UNREACHABLE and error.filename:
        return (
            f"{text}. Its file system cannot be reached. Stored files are unchanged; when it is "
            "mounted and answers again, run the command again"
        )
    if error.errno in _NOT_WRITABLE and store is not None and _concerns(error.filename, store):
        return f"{text}. Choose another folder with --store"
    return text


def _concerns(filename: str | bytes | None, store: Path) -> bool:
    """Whether a file lies in the store or is a folder that contains the store."""
    if not filename:
        return False
    path, store = Path(str(filename)).absolute(), store.absolute()
    return path.is_relative_to(store) or store.is_relative_to(path)


def _store(command: Any, arguments: list[str]) -> Path | None:
    """The value of the option --store, or its default; None if the command has no such option."""
    for name in arguments:
        if name.startswith("-") or name not in getattr(command, "commands", {}):
            break
        command = command.commands[name]
    options = {option.name: option for option in command.params}
    if "store" not in options:
        return None
    for position, argument in enumerate(arguments):
        if argument == "--store" and position + 1 < len(arguments):
            return Path(arguments[position + 1])
        if argument.startswith("--store="):
            return Path(argument.removeprefix("--store="))
    return Path(options["store"].default)


def _interruption_text(name: str) -> str:
    if name in ("train", "demo", "reproduce"):
        return "stopped; what was trained is saved, and the same command resumes from there"
    return f"stopped; completed results were {'printed' if name == 'score' else 'stored'}"


def _fail(message: str) -> None:
    text = " ".join(message.split())
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    if not torchrun.is_repeated(text):
        who = f"process {torchrun.rank()}: " if torchrun.rank() else ""
        err.quiet = False
        with suppress(OSError):  # there is nowhere to print; the exit code remains
            err.print(f"error: {who}{text}", style="red", soft_wrap=True)
    sys.exit(2)
