"""List the fields of a run: the default, range and meaning of each."""

import ast
import dataclasses
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from unweave.core.hints import nearest
from unweave.core.parts import announced, import_part, is_part_name, nearest_choice
from unweave.core.spec import flat_members, members, to_json
from unweave.latents import Product
from unweave.training.flat_settings import value_text
from unweave.training.overrides import is_spec
from unweave.training.run import Run

_SIGNS = {"gt": "> {:g}", "ge": "at least {:g}", "lt": "< {:g}", "le": "at most {:g}"}
_NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_MOST_KINDS = 6  # kinds that a range lists
_FINITE = 2**53  # larger bounds are those of the machine, not of the field


class FieldText(NamedTuple):
    """A field of a run by its path, with its default, range and meaning as text."""

    path: str
    default: str
    range: str
    meaning: str


def spec_fields(cls: type, prefix: str = "", default: object = None) -> Iterator[FieldText]:
    """Return the fields of a spec, and of the specs that are their defaults."""
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        if field.name == "kind":
            continue
        path = f"{prefix}{field.name}"
        value = getattr(default, field.name, field.default)
        meant = meaning(cls, field.name)
        yield FieldText(path, _default(value), range_text(hints[field.name]), meant)
        if dataclasses.is_dataclass(value) and prefix.count(".") < 3 and value is not None:
            yield from spec_fields(type(value), f"{path}.", value)


def range_text(hint: Any) -> str:
    """Say which values a field takes.

    >>> from pydantic import PositiveInt
    >>> range_text(PositiveInt), range_text(Literal["relu", "tanh"]), range_text(float | None)
    ('whole number > 0', 'relu or tanh', 'number, or not set')
    """
    if kinds := sorted(members(hint)):
        some = ", ".join(kinds[:_MOST_KINDS]) + (", ..." if len(kinds) > _MOST_KINDS else "")
        return f"{_number_or(hint)}{some}{_optional(hint)}"
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return f"{range_text(inner)} {_bounds(marks)}".strip()
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        parts = [each for each in get_args(hint) if each is not type(None)]
        texts = list(dict.fromkeys(range_text(each) for each in parts))
        return " or ".join(texts) + _optional(hint)
    if get_origin(hint) is tuple:
        inner, *rest = get_args(hint)
        if rest != [...]:
            return f"list of {len(rest) + 1} values"
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            return f"list of {inner.__name__.lower()}s"
        return f"list of {range_text(inner)}"
    if dataclasses.is_dataclass(hint):
        return "see below"
    return _NAMES.get(hint, "see the documentation")


def _number_or(hint: Any) -> str:
    """Return the range of the number that may replace a spec, as in a weight."""
    union = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    for form in get_args(union):
        inner, marks = form, []
        while get_origin(inner) is Annotated:
            inner, *more = get_args(inner)
            marks += more
        if inner in (int, float):
            return f"{_NAMES[inner]} {_bounds(marks)}".strip() + ", or a schedule: "
    return ""


def _optional(hint: Any) -> str:
    return ", or not set" if type(None) in get_args(hint) else ""


def _bounds(marks: list[Any]) -> str:
    plain = [each for m in marks for each in (m.metadata if isinstance(m, FieldInfo) else [m])]
    bounds = [
        text.format(getattr(mark, name))
        for mark in plain
        for name, text in _SIGNS.items()
        if abs(getattr(mark, name, None) or 0) < _FINITE and hasattr(mark, name)
    ]
    return " and ".join(bounds)


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    if value is None:
        return "not set"
    if is_spec(value):
        return str(getattr(value, "kind", type(value).__name__))
    return str(to_json(value)) if isinstance(value, (tuple, list)) else value_text(value) or '""'


def listing(path: str = "", width: int = 80) -> str:
    """Describe fields: all of a run, those at a path, or those of one choice ("objective=vae")."""
    name, _, kind = path.partition("=")
    if not name:
        rows = [row for row in spec_fields(Run, default=Run()) if "." not in row.path]
        closing = "Then: `unweave fields objective`, `unweave fields objective=factor-vae`."
        return f"{table(rows, width)}\n\n{closing}\n"
    owner, last = _locate(name)
    hint = get_type_hints(type(owner), include_extras=True)[last]
    kinds = members(hint)
    shown = choices(hint, kind) if kind else kinds
    if not shown and kind:
        raise ValueError(f"{kind!r} is not a choice of {name}: {nearest_choice(kind, kinds)}")
    value = getattr(owner, last)
    head = FieldText(name, _default(value), range_text(hint), meaning(type(owner), last))
    parts = [] if kind else [table([head], width)]
    parts += [_choice(name, each, cls, width) for each, cls in shown.items()]
    member = get_args(hint)[0] if get_origin(hint) is tuple else None
    if isinstance(member, type) and dataclasses.is_dataclass(member):
        parts.append(table(list(spec_fields(member, f"{name}.0.")), width))
    if not kinds and dataclasses.is_dataclass(value):
        parts.append(table(list(spec_fields(type(value), f"{name}.", value)), width))
    return "\n\n".join(parts) + "\n"


def choices(union: Any, kind: str) -> dict[str, type]:
    """Return the member of a union with this kind, or a fitting part of the user's own, by kind.

    An own part is "module:Class", as in `unweave train`, or the name of its entry point.
    """
    known = members(union)
    if kind in known:
        return {kind: known[kind]}
    if not (is_part_name(kind) or kind in announced()):
        return {}
    part = import_part(kind)
    bases = [each for each in flat_members(union) if inspect.isabstract(each)]
    return {kind: part} if any(_derives(part, base) for base in bases) else {}


def _derives(part: type, base: Any) -> bool:
    """Return whether a class derives from a base, or has the methods of a protocol."""
    if getattr(base, "_is_protocol", False):
        return all(hasattr(part, name) for name in base.__abstractmethods__)
    return issubclass(part, base)


def _locate(path: str) -> tuple[Any, str]:
    """Return the spec among the defaults of a run that holds a dotted path, and the last name."""
    value: Any = Run()
    *above, last = path.split(".")
    for name in above:
        value = getattr(value, _checked(value, name))
        if not dataclasses.is_dataclass(value):
            raise ValueError(
                f"{name} has no fields until it is chosen: see `unweave fields {name}`"
            )
    return value, _checked(value, last)


def _checked(value: Any, name: str) -> str:
    valid = [field.name for field in dataclasses.fields(value) if field.name != "kind"]
    if name not in valid:
        raise ValueError(
            f"{name!r} is not a field of {type(value).__name__}: {nearest(name, valid)}"
        )
    return name


def _choice(name: str, kind: str, cls: type, width: int) -> str:
    first = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    lines = textwrap.wrap(first, width - 2, initial_indent="  ", subsequent_indent="  ")
    if cls is Product:
        text = "A block of the tree, under a name of your own."
        rows = [FieldText(f"{name}.NAME", "required", "any block", text)]
    else:
        rows = list(spec_fields(cls, f"{name}."))
    return "\n".join([f"{name}={kind}", *lines, *([table(rows, width)] if rows else [])])


def table(rows: list[FieldText], width: int) -> str:
    """Return lines for each field: path, default and range, then the meaning."""
    left = max(len(row.path) for row in rows) + 2
    middle = min(24, max(len(row.default) for row in rows)) + 2
    lines = []
    for row in rows:
        default = row.default if len(row.default) < middle else f"{row.default[: middle - 4]}..."
        head = f"  {row.path:<{left}}{default:<{middle}}"
        room = max(20, width - len(head))
        first, *rest = textwrap.wrap(row.range, room) or [""]
        lines += [f"{head}{first}", *(f"{'':{len(head)}}{each}" for each in rest)]
        lines += textwrap.wrap(
            row.meaning, width - 6, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)


def one_line_each(texts: Mapping[str, str], width: int) -> str:
    """Return a line for each name with its text, shortened to the width.

    >>> print(one_line_each({"mig": "Compute the gap.", "dci": "Compute three scores."}, 22))
      mig  Compute the gap
      dci  Compute ...
    <BLANKLINE>
    """
    widest = max(map(len, texts), default=0)
    lines = []
    for name, text in texts.items():
        plain = text.replace("`", "").rstrip(".")
        short = textwrap.shorten(plain, max(12, width - widest - 4), placeholder=" ...")
        lines.append(f"  {name:{widest}}  {short}\n")
    return "".join(lines)


def meaning(cls: type, name: str) -> str:
    """Return the meaning of a field of a spec in one sentence, "" if there is none.

    >>> from unweave.objectives import FactorVAE
    >>> meaning(FactorVAE, "gamma")
    'Weight of the total correlation TC(z).'
    """
    for owner in cls.__mro__:
        if written := _written(owner).get(name):
            return written
    return ""


@cache
def _written(cls: type) -> dict[str, str]:
    """Return the strings below the fields of a class, by field."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # no source, as for builtins
        return {}
    meanings: dict[str, str] = {}
    body: list[Any] = getattr(tree, "body", [])
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        text = getattr(getattr(below, "value", None), "value", None)
        if isinstance(below, ast.Expr) and isinstance(text, str):
            meanings[field.target.id] = " ".join(text.split())
    return meanings
