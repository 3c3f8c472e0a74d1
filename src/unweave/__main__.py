"""The command `unweave`, which is also `python -m unweave`."""

import signal
import sys

from unweave.core.signals import STOPPED, interrupt


def main() -> None:
    """Run the command line; Ctrl-C stops it without a traceback, from the first import on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        from unweave.cli.main import main as run

        run()
    except KeyboardInterrupt:  # before the command began, or after it
        sys.exit(STOPPED)
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to be saved


if __name__ == "__main__":
    main()
