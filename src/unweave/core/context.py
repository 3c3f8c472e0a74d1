"""Values of context variables inside a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable a value inside this block.

    >>> quiet = ContextVar("quiet", default=False)
    >>> with within(quiet, True):
    ...     print(quiet.get())
    True
    >>> quiet.get()
    False
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
