"""Keywords that are counted in whole numbers: one check for all functions that have some."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_ONE, _OPTIONAL, _SEVERAL, _SEED = "int", "int | None", "Sequence[int]", "Seed"


def counted(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose keywords that are annotated as integers are integers, or an error.

    So are those of a sequence of them, and a seed, which may also be a generator.

    >>> @counted
    ... def bars(bins: "int" = 20) -> str:
    ...     return "|" * bins
    >>> bars(bins=3), bars(np.int64(2))
    ('|||', '||')
    >>> bars(bins=2.5)
    Traceback (most recent call last):
    ValueError: expected bins as a whole number, got 2.5: give 20, say
    """
    signature = inspect.signature(function)
    kinds = {name: str(p.annotation).strip("'") for name, p in signature.parameters.items()}
    whole = {name: kind for name, kind in kinds.items() if kind in _READERS}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in whole:
                _READERS[whole[name]](name, value, signature.parameters[name].default)
        return function(*args, **kwargs)

    return checked


def as_whole(name: str, value: object, such_as: object = 20) -> None:
    """Raise unless a value is an integer."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return
    example = such_as if isinstance(such_as, int) else 20
    raise ValueError(f"expected {name} as a whole number, got {value!r}: give {example}, say")


def _optional(name: str, value: object, such_as: object) -> None:
    if value is not None:
        as_whole(name, value, such_as)


def _several(name: str, values: object, such_as: object) -> None:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ValueError(f"expected {name} as a list of whole numbers, got {values!r}: give a list")
    for value in values:
        as_whole(name, value, min(such_as) if isinstance(such_as, tuple) else None)


def _seed(name: str, value: object, such_as: object) -> None:
    if not isinstance(value, np.random.Generator):
        as_whole(name, value, such_as)


_READERS: dict[str, Callable[[str, Any, Any], None]] = {
    _ONE: as_whole,
    _OPTIONAL: _optional,
    _SEVERAL: _several,
    _SEED: _seed,
}
