"""Check the arguments of `fit`, and say in Python what to write instead of wrong ones."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from unweave.core import spec
from unweave.core.hints import nearest
from unweave.training.overrides import OTHER_NAMES
from unweave.training.run import Run

_SHOWN = 3  # classes that are named of those that have a field
_PARTS: dict[str, dict[str, type]] = {
    name: spec.members(hint) for name, hint in get_type_hints(Run, include_extras=True).items()
}


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise a ValueError for a field that a run does not have, or a part given as something else.

    >>> check_fields({"lr": 0.1})
    Traceback (most recent call last):
        ...
    ValueError: fit has no argument 'lr': did you mean optimiser=uw.Adam(lr=0.1)?
    """
    for name, value in fields.items():
        if name not in _PARTS:
            raise ValueError(f"fit has no argument {name!r}: {_place(name, value)}")
        kinds = _PARTS[name]
        if name != "labels" and isinstance(value, (list, tuple)):
            raise ValueError(
                f"{name}: expected one {name}, got {len(value)}: call fit once for each, as in "
                f"[uw.fit(data, {name}=each) for each in ...]"
            )
        if isinstance(value, str) and value in kinds:
            raise ValueError(
                f"{name}: expected an object, got {value!r}: use {name}={_call(name, kinds[value])}"
            )
        if isinstance(value, type) and value in kinds.values():
            raise ValueError(
                f"{name}: expected an object, got its class: use {name}={_call(name, value)}"
            )
        if name == "latent" and isinstance(value, int):
            raise ValueError(f"latent: expected a latent space, got {value}: {_place(name, value)}")


def read_seeds(seed: int | Iterable[int]) -> list[int]:
    """Return the seeds that `fit` was given: one, or several."""
    several = isinstance(seed, Iterable) and not isinstance(seed, str)
    every: Any = seed if several else [seed]
    try:
        return [operator.index(each) for each in every]
    except TypeError:
        raise ValueError(
            f"seed: expected an integer, or several as in seed=range(4) or seed=[0, 1, 2], got "
            f"{seed!r}"
        ) from None


def _place(name: str, value: object) -> str:
    """Say where an argument belongs: to a part, or under another name."""
    path = "latent.size" if name == "latent" else OTHER_NAMES.get(name, name).partition(",")[0]
    owner, _, field = path.rpartition(".")
    if not owner and path in _PARTS:
        return f"did you mean {path}?"
    found = []
    for part, kinds in _PARTS.items():
        having = [cls for cls in kinds.values() if field in spec.field_names(cls)]
        if having and part != "data" and owner in ("", part):
            usual = type(getattr(Run(), part))
            found += [(part, cls) for cls in ([usual] if usual in having else having[:_SHOWN])]
    if not found:
        return nearest(name, [part for part in _PARTS if part not in ("data", "init")])
    given = repr(value) if field == "size" and isinstance(value, int) else f"{field}={value!r}"
    return f"did you mean {' or '.join(f'{p}={_call(p, c, given)}' for p, c in found)}?"


def _call(part: str, cls: type, arguments: str = "") -> str:
    """Write the call that makes a part."""
    home = "uw.likelihoods." if part == "likelihood" else "uw."
    return f"{home}{cls.__name__}({arguments})"
