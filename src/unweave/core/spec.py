"""Specs: frozen, validated values that are Python objects, JSON and command line alike.

A spec is a pydantic dataclass. Its fields are the configuration; no second class mirrors it. Specs
that can stand in the same place carry a `kind` and form a union, and the union is the registry:

>>> from unweave.latents import Gaussian
>>> Gaussian(10) == Gaussian(size=10)
True
>>> to_json(Gaussian(10))["size"]
10
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import ArgsKwargs, PydanticCustomError

from unweave.core.adapters import adapter
from unweave.core.code_hash import is_outside, source_hash
from unweave.core.hints import nearest
from unweave.core.parts import (
    HASH,
    MissingPart,
    content_of,
    find_part,
    from_content,
    is_own,
    is_part_name,
    missing_parts,
    part_name,
    register,
)

T = TypeVar("T")
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # of `unweave.core.noise`
Count = Annotated[int, Field(gt=0, le=2**53)]  # of steps or observations
Size = Annotated[int, Field(gt=0, le=1_000_000)]  # of what is in memory: units, draws, components

_NAME = re.compile(r"[a-zA-Z_]\w*|\d+").fullmatch
_SPAN = re.compile(r"(\d+) ?(?:-|:|\.\.\.|to) ?(\d+)").fullmatch  # how a range is often written
_SHOWN = 4  # kinds that a hint lists
_CHOICE = re.compile(r"'([^']*)'|(-?\d+)")  # of the values that a field may have
# What a field expects, by the type of pydantic's error.
_EXPECTED = {
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}

# Part of every digest. Raise it when a default value changes, or when a field or kind is renamed:
# stored runs are then trained anew instead of being taken for something they are not. If only one
# spec changes, give it an attribute `revision` instead; it is part of its digest unless it is 0.
SCHEMA = 1

CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass_transform(frozen_default=True)
def spec(cls: type[T]) -> type[T]:
    """Make a class a spec: a frozen dataclass whose fields pydantic validates.

    Invalid values raise a ValueError of one line that says what to do.
    """
    own = is_outside(cls)
    if own:
        _check_annotated(cls)
    validator: Any = classmethod(_reject_booleans)
    setattr(cls, "_reject_booleans", model_validator(mode="before")(validator))  # noqa: B010
    config: ConfigDict = {**CONFIG, "validate_default": own}
    try:
        return plain_errors(cast(type[T], dataclass(frozen=True, config=config)(cls)))
    except PydanticSchemaGenerationError as error:
        reason = str(error).partition(". ")[0].partition("\n")[0]
        raise ValueError(
            f"{cls.__name__}: its settings may be numbers, text, booleans, tuples of these and "
            f"specs ({reason})"
        ) from None


def _check_annotated(cls: type) -> None:
    """Refuse values that no field can have, or that its author must have meant as a field."""
    annotated = inspect.get_annotations(cls)
    for name, value in vars(cls).items():
        if name in annotated and type(value).__hash__ is None:
            raise ValueError(
                f"{cls.__name__}.{name} cannot have {value!r} as its default, because settings do "
                "not change: use a tuple, as in tuple[float, ...] = (1.0, 2.0)"
            )
        inherited = name in getattr(cls.__base__, "__dataclass_fields__", {})
        if (
            name not in annotated
            and not name.startswith("_")
            and not name.isupper()
            and name not in ("kind", "revision")
            and (inherited or not hasattr(cls.__base__, name))
            and isinstance(value, (bool, int, float, str))
        ):
            hint = type(value).__name__
            raise ValueError(
                f"{cls.__name__}.{name} is no setting without an annotation: write "
                f"{name}: {hint} = {value!r}"
            )


def _reject_booleans(cls: type, given: Any) -> Any:
    """Reject a boolean where a number belongs, and a number where a boolean does.

    Pydantic takes True for 1 otherwise.
    """
    fields, leaves = given, _leaves(cls)
    if isinstance(given, ArgsKwargs):
        fields = {**dict(zip(leaves, given.args, strict=False)), **(given.kwargs or {})}
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if expected := _wrong_type(value, leaves.get(name, frozenset((Any,)))):
            raise PydanticCustomError("boolean", "{text}", {"text": expected, "field": name})
    return given


def _wrong_type(value: Any, leaves: frozenset[Any]) -> str:
    """Say what was expected instead of a boolean or a number, given the types of a field."""
    if isinstance(value, (tuple, list)):
        return next(filter(None, (_wrong_type(each, leaves) for each in value)), "")
    if isinstance(value, bool):
        right = "a number" if leaves & {int, float} else "no boolean"
        return "" if leaves & {bool, Any} else f"expected {right}, got {value}"
    wrong = isinstance(value, (int, float)) and bool in leaves and not leaves & {int, float, Any}
    return f"expected true or false, got {value}" if wrong else ""


@functools.cache
def _leaves(cls: type) -> dict[str, frozenset[Any]]:
    """The types that the values of each field may have, also those inside of lists."""
    return {name: frozenset(flat_members(hint)) for name, hint in fields_of(cls).items()}


def plain_errors(cls: type[T]) -> type[T]:
    """Make a class that pydantic validates raise errors of one line, as `explain` writes them."""
    validate = cls.__init__

    @functools.wraps(validate)
    def init(self: T, *args: Any, **fields: Any) -> None:
        if args and not dataclasses.is_dataclass(cls):
            raise ValueError(
                f"{cls.__name__} takes its blocks by name, as in {cls.__name__}(style=...); got "
                f"{args[0]!r}"
            )
        own = is_own(type(self))
        if own:
            fields.pop("kind", None)  # that of the shipped class that it is derived from
        try:
            validate(self, *args, **fields)
        except ValidationError as error:
            raise ValueError(explain(error, cls)) from None
        if own:
            object.__setattr__(self, "kind", register(type(self)))

    setattr(cls, "__init__", init)  # noqa: B010  (mypy does not allow the assignment)
    return cls


def tag(name: str) -> Any:
    """The `kind` of a spec that is a member of a union."""
    return dataclasses.field(default=name, kw_only=True, repr=False)


class Lane:
    """Marks a field whose values may differ between runs that train together as lanes."""


class Place:
    """Marks a field of data that says where they are, not what they are."""


def members(union: Any) -> dict[str, type]:
    """Return the members of a union by their `kind`.

    >>> from unweave.objectives import Objective
    >>> sorted(members(Objective))[-2:]
    ['vae', 'wae']
    """
    by_kind: dict[str, type] = {}
    for candidate in flat_members(union):
        kind = annotations_of(candidate).get("kind") if isinstance(candidate, type) else None
        if get_origin(kind) is Literal:
            by_kind[get_args(kind)[0]] = candidate
    return by_kind


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a spec that a user sets."""
    return tuple(fields_of(cls))


@functools.cache
def lane_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields of a spec that are marked as `Lane`."""
    return _marked_fields(cls, Lane)


@functools.cache
def place_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields of a spec that are marked as `Place`."""
    return _marked_fields(cls, Place)


def to_json(value: object) -> Any:
    """Return the JSON form of a spec: plain dicts, lists, strings and numbers."""
    if is_own(type(value)):
        return content_of(value)
    return adapter(type(value)).dump_python(value, mode="json")


def digest(value: object) -> str:
    """Return twelve hexadecimal digits that identify a spec by its content.

    Only settings that differ from their defaults are hashed, so a new field with a default leaves
    the digests of stored runs as they are.
    """
    content = {"schema": SCHEMA, "spec": _settings(value)}
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _settings(value: Any) -> Any:
    """The JSON form of a value, without the fields of specs that have their default value.

    A spec in a field that differs from the field's default is given relative to the defaults of
    its own class, and always with its kind. The blocks of a product are a list: their order counts.
    """
    if dataclasses.is_dataclass(value):
        changed = {
            field.name: _settings(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name == "kind" or getattr(value, field.name) != field.default
        }
        if is_own(type(value)):
            changed |= {"kind": part_name(type(value)), HASH: source_hash(type(value))}
        if revision := getattr(value, "revision", 0):
            changed["revision"] = _settings(revision)
        return changed
    if isinstance(value, BaseModel):
        blocks = [[name, _settings(block)] for name, block in (value.model_extra or {}).items()]
        return {"kind": getattr(value, "kind", None), "blocks": blocks}
    if isinstance(value, (tuple, list)):
        return [_settings(item) for item in value]
    if isinstance(value, dict):
        return {name: _settings(item) for name, item in value.items()}
    return to_json(value)


def from_json(cls: type[T], content: object) -> T:
    """Validate the JSON form of a spec, with an error that says what to do."""
    if is_own(cls) and isinstance(content, dict):
        return cast(T, from_content(cls, content))
    try:
        return cast(T, adapter(cls).validate_python(content))
    except ValidationError as error:
        for problem in error.errors():
            if isinstance(cause := problem.get("ctx", {}).get("error"), MissingPart):
                missing = missing_parts(content)
                raise MissingPart.of(missing) if missing else cause from None
        raise ValueError(explain(error, cls)) from None
    except RecursionError:
        raise ValueError("expected a spec, got values that are nested too deeply") from None


def explain(error: ValidationError, cls: type) -> str:
    """One line for each thing wrong with a spec: where, what was expected, what came."""
    deepest: dict[str, Any] = {}
    for problem in error.errors():  # of the forms that a value may have, the one that came closest
        where = _locate(problem["loc"], cls)[0].partition(".")[0]
        if where not in deepest or _closeness(problem) > _closeness(deepest[where]):
            deepest[where] = problem
    return "; ".join(_explain_one(problem, cls) for problem in deepest.values())


def _closeness(problem: Any) -> tuple[bool, int]:
    """Return how near a value came to a form: whether it has its type, and the error's depth."""
    return not problem["type"].endswith("_type"), len(problem["loc"])


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    """Return the annotations of a spec; evaluating them takes longer than validating a run."""
    return get_type_hints(cls, include_extras=True)


def flat_members(union: Any) -> list[Any]:
    """Return all members of a possibly nested, possibly annotated union."""
    if get_origin(union) is Annotated:
        return flat_members(get_args(union)[0])
    if isinstance(union, type):
        return [union]
    return [leaf for arg in get_args(union) for leaf in flat_members(arg)]


def _marked_fields(cls: type, mark: type) -> tuple[str, ...]:
    return tuple(name for name, hint in annotations_of(cls).items() if _is_marked(hint, mark))


def _is_marked(hint: Any, mark: type) -> bool:
    """Whether a type, or a member of an optional one, is annotated with a mark."""
    if get_origin(hint) is Annotated:
        return any(isinstance(each, mark) for each in get_args(hint)[1:])
    return get_origin(hint) in (Union, UnionType) and any(
        _is_marked(each, mark) for each in get_args(hint)
    )


def fields_of(cls: type) -> dict[str, Any]:
    """Return the fields of a spec that a user sets, with their annotations."""
    hints = annotations_of(cls)
    if dataclasses.is_dataclass(cls):
        return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.name != "kind"}
    return {}


def child_annotation(cls: type, name: str) -> Any:
    """Return the annotation of a field of a spec, also for the blocks that a product names."""
    fields = fields_of(cls)
    if name in fields:
        return fields[name]
    extra = annotations_of(cls).get("__pydantic_extra__")
    return get_args(extra)[1] if extra else None


def owner_of(annotation: Any, content: Any) -> type | None:
    """Return the spec class of content in JSON form, given the annotation of its field."""
    union = members(annotation)
    if isinstance(content, dict) and str(content.get("kind")) in union:
        return union[content["kind"]]
    if isinstance(content, dict) and is_part_name(content.get("kind")):
        return find_part(content["kind"])
    classes: list[type] = [
        c for c in flat_members(annotation) if isinstance(c, type) and dataclasses.is_dataclass(c)
    ]
    return classes[0] if len(classes) == 1 else None


def other_place(name: str, cls: type, content: Mapping[str, Any]) -> str:
    """Say which parts of a spec have a field that the spec itself lacks.

    A spec may list words that others use for its fields in a class variable, `OTHER_NAMES`.
    """
    if meant := getattr(cls, "OTHER_NAMES", {}).get(name):
        return f"it is called {meant}"
    places = {}
    for path, kinds in _places(name, cls, content).items():
        owner = path.removesuffix(f".{name}")
        more = f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
        places[path] = f" (of {owner}={', '.join(kinds[:_SHOWN])}{more})" if kinds else ""
    if not places:
        return nearest(name, fields_of(cls))
    return f"did you mean {' or '.join(path + kinds for path, kinds in places.items())}?"


def _places(name: str, cls: type, content: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paths of fields of this name in the parts of a spec, and the kinds that have it.

    The list of kinds is empty for a part that already has the field.
    """
    places: dict[str, list[str]] = {}
    for field, annotation in fields_of(cls).items():
        inner = content.get(field, default_json(cls, field))
        owner = owner_of(annotation, inner)
        kinds = [kind for kind, each in members(annotation).items() if name in fields_of(each)]
        if owner is not None and name in fields_of(owner):
            places[f"{field}.{name}"] = []
        elif kinds:
            places[f"{field}.{name}"] = kinds
        if owner is not None:
            below = _places(name, owner, inner if isinstance(inner, dict) else {})
            places |= {f"{field}.{path}": kinds for path, kinds in below.items()}
    return places


def default_json(cls: type, name: str) -> Any:
    """Return the JSON form of a field's default, {} if it has none."""
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if field.name == name and field.default is not dataclasses.MISSING:
                return adapter(fields_of(cls)[name]).dump_python(field.default, mode="json")
    return {}


def _explain_one(problem: Any, cls: type) -> str:
    where, owner = _locate(problem["loc"], cls)
    kind, given = problem["type"], problem["input"]
    if isinstance(given, str) and (span := _SPAN(given)):
        return (
            f"{where}: expected a number, got {given!r}: for one run with each of {span[1]} to "
            f"{span[2]}, write {where}={span[1]}..{span[2]}"
        )
    if isinstance(given, list) and kind in ("int_type", "float_type"):
        several = ",".join(map(str, given))
        return (
            f"{where}: expected a number, got {given}: for one run with each, write "
            f"{where}={several}"
        )
    if kind == "union_tag_invalid":
        valid = re.findall(r"'([^']+)'", problem["ctx"]["expected_tags"])
        name = problem["ctx"]["tag"]
        return f"{where}: {name!r} is not known: {nearest(name, valid)}"
    if kind == "literal_error" and isinstance(given, str):
        valid = [text or number for text, number in _CHOICE.findall(problem["ctx"]["expected"])]
        return f"{where}: {given!r} is not known: {nearest(given, valid)}"
    if kind in ("unexpected_keyword_argument", "extra_forbidden") and owner is not None:
        name = str(problem["loc"][-1])
        if not _NAME(name):  # which is no part of a path
            where = ".".join(filter(None, (where, repr(name))))
        return f"{where}: not a field of {owner.__name__}: {other_place(name, owner, {})}"
    if kind in _EXPECTED:
        bounds = {
            name: f"{bound:g}" if isinstance(bound, float) else bound
            for name, bound in problem.get("ctx", {}).items()
        }
        return f"{where}: expected {_EXPECTED[kind].format(**bounds)}, got {given!r}"
    if kind == "tuple_type":
        example = json.dumps([given if isinstance(given, str | int | float) else "..."])
        return f"{where}: expected a list such as {example} in JSON, got {given!r}"
    if not problem["loc"] and kind == "dataclass_type":
        return f"expected the fields of a {cls.__name__} by name, got {type(given).__name__}"
    if kind in ("dataclass_type", "model_attributes_type", "model_type"):
        return f"{where}: {given!r} is not one of its kinds: {_forms(problem, cls)}"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "boolean":
        where = ".".join(filter(None, (where, problem["ctx"]["field"])))
        return f"{where}: {message}"
    if kind in ("value_error", "assertion_error"):
        return f"{where}: {message}" if where else str(message)
    if kind in ("missing", "missing_argument"):
        return f"{where}: expected a value, because this field has no default"
    return f"{where}: {message[0].lower()}{message[1:]}, got {given!r}"


def _forms(problem: Any, cls: type) -> str:
    """How a part can be given, in Python and on the command line."""
    name = str(problem["loc"][0])
    kinds = members(child_annotation(cls, name))
    if isinstance(kind := problem["input"], str) and kind in kinds:
        return f"use {kinds[kind].__name__}(...), or {name}={kind} on the command line"
    for each in kinds.values():
        if each.__name__ == type(kind).__name__:
            package, other = (".".join(c.__module__.split(".")[:2]) for c in (each, type(kind)))
            return f"use {package}.{each.__name__}(...), not that of {other}"
    choices = ", ".join(f"{c.__name__}(...) or {name}={kind}" for kind, c in kinds.items())
    return f"use {choices}; then {name}.part=value" if choices else "see its documentation"


def _locate(loc: tuple[int | str, ...], cls: type) -> tuple[str, type | None]:
    """The dotted path of an error, union tags left out, and the spec that holds its last name."""
    names: list[str] = []
    owner: type | None = cls
    annotation: Any = None
    for step in loc:
        if annotation is not None and step in members(annotation):
            owner = members(annotation)[str(step)]
            annotation = None
            continue
        if annotation is not None:
            owner = owner_of(annotation, None)
        if isinstance(step, str) and (step in ("number", "list", "tuple") or not _NAME(step)):
            continue
        if isinstance(step, int) and not names:  # a positional argument
            step = list(fields_of(cls))[step]
        names.append(str(step))
        annotation = child_annotation(owner, str(step)) if owner is not None else None
    return ".".join(names), owner
