"""Warnings and notes for the user: capture those of a call, and print them once each."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from unweave.core.console import PlainConsole
from unweave.core.text import one_line

R = TypeVar("R")


def capture_warnings(function: Callable[..., R], *arguments: object) -> tuple[R, list[Warning]]:
    """Call `function(*arguments)`; return its result and the warnings it issued, each once.

    >>> capture_warnings(warnings.warn, "few rows")
    (None, [UserWarning('few rows')])
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    by_text = {str(each.message): each.message for each in caught}
    return result, [w if isinstance(w, Warning) else UserWarning(w) for w in by_text.values()]


@contextmanager
def quietly(package: str, least: int = logging.ERROR) -> Iterator[None]:
    """Inside this block, suppress warnings, and let a package log only errors, or from a level on.

    Both hold for all threads, so only the one that starts the others may call this.
    """
    logger = logging.getLogger(package)
    level = logger.level
    logger.setLevel(least)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def print_warnings(console: PlainConsole, function: Callable[..., R], *arguments: object) -> R:
    """Call `function(*arguments)`, print the warnings it issues, and return its result."""
    result, issued = capture_warnings(function, *arguments)
    print_notes(console, map(str, issued))
    return result


def print_notes(console: PlainConsole, notes: Iterable[str]) -> None:
    """Print each note on a line of its own."""
    for note in notes:
        console.print(one_line(note), soft_wrap=True)
