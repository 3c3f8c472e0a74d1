"""Validate keyword arguments by their type annotations: integers, seeds and named choices."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.hints import check_choice
from unweave.metrics.arrays import Seed

P = ParamSpec("P")
R = TypeVar("R")

_PER_ROW = "an entry for each row"
PerRow = Annotated[ArrayLike, _PER_ROW]  # an option of a metric that belongs to the rows

Check = Callable[[str, Any, Any], None]  # of the name of an argument, its value and its default


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its arguments are checked by `argument_checks` before each call.

    >>> @check_arguments
    ... def bars(bins: int = 20) -> str:
    ...     return "|" * bins
    >>> bars(bins=3), bars(np.int64(2))
    ('|||', '||')
    >>> bars(bins=2.5)
    Traceback (most recent call last):
    ValueError: expected bins as a whole number, got 2.5: give 20, for example
    """
    signature, checks = inspect.signature(function), argument_checks(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        run_checks(checks, signature.bind(*args, **kwargs).arguments, signature)
        return function(*args, **kwargs)

    return checked


def argument_checks(function: Callable[..., object]) -> dict[str, Check]:
    """Return a check for each argument that is annotated as an integer, a seed or a `Literal`.

    Optional integers and sequences of integers are checked as well. A function whose annotations
    cannot be resolved, such as one that uses a type of an enclosing function, has no checks.
    """
    checks = {name: _check_for(hint) for name, hint in resolve_hints(function).items()}
    return {name: check for name, check in checks.items() if check is not None}


def resolve_hints(function: Callable[..., object], extras: bool = False) -> dict[str, Any]:
    """Return the types that the annotations of arguments stand for; none if one is unknown.

    `extras` keeps what `Annotated` adds to a type.
    """
    try:
        hints = get_type_hints(function, include_extras=extras)
    except (NameError, TypeError):
        return {}
    hints.pop("return", None)
    return hints


def per_row_arguments(function: Callable[..., object]) -> frozenset[str]:
    """Return the names of the arguments that are annotated as `PerRow` or `PerRow | None`.

    >>> def share(codes, weights: PerRow | None = None) -> float: ...
    >>> per_row_arguments(share)
    frozenset({'weights'})
    """
    hints = resolve_hints(function, extras=True)
    return frozenset(name for name, hint in hints.items() if _is_per_row(hint))


def _is_per_row(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _PER_ROW in get_args(hint)[1:]
    return any(map(_is_per_row, get_args(hint)))


def run_checks(
    checks: Mapping[str, Check], given: Mapping[str, Any], signature: inspect.Signature
) -> None:
    """Run the checks of the arguments that are given."""
    for name, check in checks.items():
        if name in given:
            check(name, given[name], signature.parameters[name].default)


def check_integer(name: str, value: object, default: object = 20) -> None:
    """Raise unless a value is an integer; the message suggests the default."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return
    example = default if isinstance(default, int) else 20
    raise ValueError(
        f"expected {name} as a whole number, got {value!r}: give {example}, for example"
    )


def check_seed(name: str, value: object, default: object = 0) -> None:
    """Raise unless a value is an integer or a NumPy generator."""
    if not isinstance(value, np.random.Generator):
        check_integer(name, value, default)


def _check_for(hint: object) -> Check | None:
    """Return the check of a resolved annotation, if it has one."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return lambda name, value, default: check_choice(name, value, choices)
    # By equality: `int | None` is a new object each time.
    kinds: list[tuple[object, Check]] = [
        (int, check_integer),
        (int | None, _check_optional_integer),
        (Sequence[int], _check_integers),
        (Seed, check_seed),
    ]
    return next((check for kind, check in kinds if hint == kind), None)


def _check_optional_integer(name: str, value: object, default: object) -> None:
    if value is not None:
        check_integer(name, value, default)


def _check_integers(name: str, values: object, default: object) -> None:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ValueError(f"expected {name} as a list of whole numbers, got {values!r}: give a list")
    for value in values:
        check_integer(name, value, min(default) if isinstance(default, tuple) else None)
