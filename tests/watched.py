"""Run commands in this process, under limits of time and memory and of what they may touch."""

import contextlib
import faulthandler
import functools
import io
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

from unweave.cli import main as cli

SECONDS = 60  # of one input at most, on a busy machine
HANGS = 600  # seconds after which a library will not return to Python any more
ADDRESS_SPACE = 2**31  # bytes that one input may map, so that a bomb cannot take the machine down
STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.startfile", "subprocess.Popen",
          "webbrowser.open", "pickle.find_class", "socket.connect")  # fmt: skip
CHANGES = ("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink",
           "os.truncate", "os.chmod", "os.chown", "shutil.rmtree")  # fmt: skip
# This machine, and what `platform`, Matplotlib and `version` ask.
HARMLESS = ("127.0.0.1", "'uname'", "'fc-list'", "['git', '-C'")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_watching = []  # the folder of the command that runs, and what it did that it should not


class TooLong(BaseException):
    """An input that took longer than SECONDS."""


def _audit(event, arguments):
    """Note the start of other programs, unpickling, connections, and changes outside a folder."""
    if not _watching:
        return
    folder, found = _watching[-1]
    if event in STARTS and not any(each in str(arguments) for each in HARMLESS):
        found.append(f"{event} {arguments!r:.200}")
    elif event in CHANGES and (event != "open" or arguments[2] & WRITES):
        paths = [os.fsdecode(each) for each in arguments if isinstance(each, (str, bytes, Path))]
        paths = paths[:1] if event == "open" else paths
        found += [f"{event} {path}" for path in paths if not _is_inside(path, folder)]


def _is_inside(path, folder):
    return path == os.devnull or f"{os.path.abspath(path)}/".startswith(f"{folder}/")


@functools.cache
def _start_auditing():
    """Add the hook, which slows everything down and cannot be removed, for the first command."""
    sys.addaudithook(_audit)


@contextlib.contextmanager
def limited_memory(size):
    """Let the body map at most `size` bytes more than are mapped now."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@contextlib.contextmanager
def watched(folder):
    """Run the body; yield a list that then has what it did wrong.

    It may take SECONDS and map ADDRESS_SPACE, start nothing, connect to nothing but this machine,
    and change files of the folder only. Where a library hangs and never returns to Python, the
    process ends with a traceback of all threads.
    """
    _start_auditing()
    found = []
    handler = signal.signal(signal.SIGALRM, _stop)
    faulthandler.dump_traceback_later(SECONDS + HANGS, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
    _watching.append((str(folder), found))
    try:
        with limited_memory(ADDRESS_SPACE):
            yield found
    except TooLong:
        found.append(f"took more than {SECONDS} s: {traceback.format_exc()[-1500:]}")
    except Exception:
        found.append(traceback.format_exc()[-1500:])
    finally:
        _watching.pop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        faulthandler.cancel_dump_traceback_later()


def _stop(number, frame):
    raise TooLong


def run_command(arguments, folder):
    """Run a command; return exit code, both outputs, and what it did wrong."""
    out, err, code, old = io.StringIO(), io.StringIO(), None, sys.argv
    with watched(folder) as found:
        try:
            sys.argv = ["unweave", *arguments]
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main()
        except SystemExit as stopped:
            code = stopped.code
        finally:
            sys.argv = old
    return code, out.getvalue(), err.getvalue(), "; ".join(found)


def confine(patch, folder):
    """Keep caches, temporary files and settings in a folder, and downloads from any server."""
    for name in ("UNWEAVE_DATA", "HOME", "TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR"):
        patch.setenv(name, str(folder / "private"))
    (folder / "private").mkdir()
    patch.setattr("tempfile.tempdir", str(folder / "private"))
    patch.setattr("unweave.data.published.download.TRIES", 1)
    for name in ("http_proxy", "https_proxy"):
        patch.setenv(name, "http://127.0.0.1:9")  # where nothing answers
    patch.setenv("no_proxy", "")
    patch.setattr("unweave.core.parallel.usable_cores", lambda: 1)
    patch.setattr("sys.dont_write_bytecode", True)
