"""Build a spec from assignments such as `objective.gamma=35`, as on the command line."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from unweave.core.hints import suggestion
from unweave.core.parts import (
    ImportedByName,
    announced,
    import_part,
    nearest_choice,
    register,
)
from unweave.core.spec import (
    annotations_of,
    child_annotation,
    default_json,
    fields_of,
    flat_members,
    from_json,
    members,
    other_place,
    owner_of,
    to_json,
)

T = TypeVar("T")

_DEEPEST = 50  # names of a dotted path


def override(cls: type[T], assignments: Iterable[str], base: Mapping[str, Any] | None = None) -> T:
    """Build a spec from `path=value` assignments, as on the command line.

    A value that names a member of the union at that path chooses that member, with its defaults;
    any other value is read as JSON, otherwise as text.

    >>> from unweave.training.run import Run
    >>> run = override(Run, ["objective=factor-vae", "objective.gamma=35", "seed=3"])
    >>> run.objective.gamma, run.seed
    (35.0, 3)
    """
    content: dict[str, Any] = dict(base or to_json(cls()))
    parsed = [_parse(assignment) for assignment in assignments]
    # Assignments that choose a member come first, and unknown names last.
    parsed.sort(key=lambda item: (not child_annotation(cls, item[0][0]), len(item[0])))
    for path, value in parsed:
        if len(path) > _DEEPEST:
            raise ValueError(
                f"{'.'.join(path[:3])}...: a path may have at most {_DEEPEST} names, "
                f"got {len(path)}"
            )
        _assign(content, cls, path, value)
    return from_json(cls, content)


def _parse(assignment: str) -> tuple[list[str], Any]:
    path, sign, text = assignment.partition("=")
    if not sign or not path:
        raise ValueError(
            f"expected an assignment such as objective=beta-vae or seed=3, got {assignment!r}"
        )
    return path.split("."), read_value(text)


def read_value(text: str) -> Any:
    """Read a value as JSON if it is that, otherwise as text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError):  # thousands of digits or brackets
        raise ValueError(f"expected a value, got {text[:20]}...: it is too long") from None


def _assign(
    content: dict[str, Any], cls: type, path: list[str], value: Any, outer: str = ""
) -> None:
    """Set the value at a dotted path, filling in defaults along the way; `outer` leads to it."""
    name, *rest = path
    if name == "kind" and "__pydantic_extra__" in annotations_of(cls):
        raise ValueError(
            f"a block of a {cls.__name__} cannot be called 'kind': choose another name"
        )
    annotation = child_annotation(cls, name)
    if annotation is None:
        raise ValueError(
            f"{name!r} is not a field of {cls.__name__}: {other_place(name, cls, content)}"
        )
    if not rest:
        content[name] = _chosen(f"{outer}{name}", annotation, value)
        return
    if member := _member(annotation):
        content[name] = _assigned(name, list(content.get(name) or ()), member, rest, value)
        return
    inner = content.get(name, default_json(cls, name))
    owner = owner_of(annotation, inner)
    if owner is None:
        hint = f"choose one first: {name}={' or '.join(members(annotation)) or 'VALUE'}"
        raise ValueError(f"{'.'.join(path)!r} cannot be set, because {name!r} is not; {hint}")
    if not isinstance(inner, dict):
        inner = {}
    content[name] = inner = dict(inner)
    _assign(inner, owner, rest, value, f"{outer}{name}.")


def _member(annotation: Any) -> type | None:
    """Return the class of the specs in a field that holds a list of them, or None."""
    if get_origin(annotation) is not tuple:
        return None
    kind = get_args(annotation)[0]
    return kind if dataclasses.is_dataclass(kind) and isinstance(kind, type) else None


def _assigned(name: str, items: list[Any], member: type, path: list[str], value: Any) -> list[Any]:
    """Return a list of specs with one field of a member set, or with a new member."""
    number, *rest = path
    if not number.isdigit() or int(number) > len(items) or not rest:
        raise ValueError(
            f"{name} is a list: set the fields of its members by index, from 0, as in "
            f"{name}.{len(items)}.{next(iter(fields_of(member)))}=VALUE"
        )
    index = int(number)
    inner = dict(items[index]) if index < len(items) else {}
    _assign(inner, member, rest, value)
    return [*items[:index], inner, *items[index + 1 :]]


def _chosen(name: str, annotation: Any, value: Any) -> Any:
    """Return a value in JSON form; the name of a union's member stands for that member."""
    if isinstance(annotation, type) and issubclass(annotation, ImportedByName):
        return annotation.import_named(str(value))
    union = members(annotation)
    if not union or not isinstance(value, str):
        return value
    if value in union:
        return {"kind": value}
    if ":" in value or value in announced():
        return {"kind": register(import_part(value))}
    own = f"; name an own part as MODULE:CLASS, {value}:NAME" if _is_module(value) else ""
    if float in flat_members(annotation) and not suggestion(value, union):
        kinds = ", ".join(sorted(union))
        raise ValueError(f"{name}: expected a number or a schedule ({kinds}), got {value!r}{own}")
    hint = nearest_choice(value, union)
    number = " or a number" if float in flat_members(annotation) else ""
    raise ValueError(f"{name}: {value!r} is not known: {hint[:-1]}{number}{own}{hint[-1]}")


def _is_module(name: str) -> bool:
    """Whether a user may have meant a module: a file here, or an imported one."""
    return name in sys.modules or Path(f"{name}.py").is_file()
