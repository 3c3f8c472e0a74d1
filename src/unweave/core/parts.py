"""Users' own parts: specs defined outside the package that stand where shipped ones do.

A union of specs marked with `Open` accepts its own members and any spec derived from its abstract
member, such as `BaseObjective`. An own part is named by where it is defined, "module:Class", and by
a hash of its source code, so that a run trained with it is never mistaken for another one.

Reading a file neither imports a module nor calls anything but the class of such a spec: a part is
found if its module is already imported, or if an installed package announces it as an entry point
of the group "unweave".
"""

import dataclasses
import importlib
import inspect
import itertools
import os
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema

from unweave.core.code_hash import is_outside, source_hash
from unweave.core.context import within
from unweave.core.hints import nearest, nearest_name

GROUP = "unweave"  # of entry points
_IDENTITY = re.compile(r"[^\W\d][\w.]*:[\w.]+@[0-9a-f]+").fullmatch  # of what is imported by name
HASH = "source-hash"  # its key in the JSON form of an own part; no field can have this name
UNNAMED = "MODULE:FUNCTION"  # on the command line, for what cannot be imported by a name

_warned: ContextVar[bool] = ContextVar("_warned", default=False)  # of changed parts
_used: dict[str, type] = {}  # own parts of which this process has made a value, by name


class OwnPartWarning(UserWarning):
    """A part is not what it was when the run was trained."""


class MissingPart(ValueError):
    """Parts of a stored run are defined in modules that are not imported."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Name all parts that are missing, and their modules."""
        modules = list(dict.fromkeys(name.partition(":")[0] for name in names))
        what = "is a part" if len(names) == 1 else "are parts"
        where = "the module" if len(modules) == 1 else "the modules"
        imports = " ".join(f"--import {module}" for module in modules)
        return cls(
            f"{', '.join(names)} {what} defined outside unweave, in {where} "
            f"{', '.join(map(repr, modules))}, not imported here: `import {', '.join(modules)}` "
            f"first, or on the command line `unweave {imports}`"
        )


class ChangedPart(MissingPart):
    """A part of a stored run is no longer what the run needs."""


class ImportedByName(ABC):
    """A field whose value on the command line is the name of something to import."""

    @classmethod
    @abstractmethod
    def import_named(cls, name: str) -> str:
        """Import what a user names, "module:name", and return the JSON form of the field."""

    @property
    @abstractmethod
    def argument(self) -> str:
        """The name to give on the command line, or `UNNAMED`."""


# ---- names


def is_own(cls: type) -> bool:
    """Whether a class is a spec that is defined outside the package."""
    return dataclasses.is_dataclass(cls) and is_outside(cls)


def part_name(part: type | Callable[..., Any]) -> str:
    """Return the name of a class or function, "module:Name"; a script is a module of that name."""
    module = _main_name() if part.__module__ == "__main__" else part.__module__
    return f"{module}:{part.__qualname__}"


def is_part_name(name: object) -> bool:
    """Whether a kind is the name of an own part."""
    return isinstance(name, str) and ":" in name


def register(cls: type) -> str:
    """Remember a part that is used in this process, so that it can be found by its name."""
    name = part_name(cls)
    _used[name] = cls
    source_hash(cls)  # now, before its file changes
    return name


def _main_name() -> str:
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return str(main.__spec__.name)  # type: ignore[union-attr]
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"


def _module(name: str) -> ModuleType | None:
    return sys.modules["__main__"] if name == _main_name() else sys.modules.get(name)


# ---- finding and importing


def announced() -> dict[str, EntryPoint]:
    """The parts that installed packages announce, by the name of their entry point."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def nearest_choice(name: str, kinds: Iterable[str]) -> str:
    """Return a hint at the kinds of a union, or at the entry point that a name is nearest to."""
    choices, names = list(kinds), announced()
    close = nearest_name(name, [*choices, *names])
    return f"did you mean {close!r}?" if close in names else nearest(name, choices)


def import_part(name: str) -> type:
    """Import a part that the user names, by "module:Class" or by its entry point."""
    if entry := announced().get(name):
        return _checked(entry.load(), name)
    import_module(name.partition(":")[0])
    return find_part(name)


def import_module(name: str) -> None:
    """Import a module from the working directory or from the installed packages."""
    if "," in name:
        raise ValueError(f"expected one module, got {name!r}: repeat --import for each")
    if not all(step.isidentifier() for step in name.split(".")) or name.endswith(".py"):
        raise ValueError(f"expected the name of a module, my_parts for my_parts.py, got {name!r}")
    if _module(name) is not None:
        return
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not f"{name}.".startswith(f"{error.name}."):
            raise ValueError(f"cannot import {name}: {error}; install what it needs") from None
        raise ValueError(
            f"there is no module {name!r} here or among the installed packages; run the command in "
            f"the folder of {name.partition('.')[0]}.py, or install the package"
        ) from None


def find_part(name: str) -> type:
    """Return the spec of this name, if its module is imported or its package announces parts."""
    return _used[name] if name in _used else _checked(find_object(name), name)


def find_object(name: str) -> Any:
    """Return what a module has under the name "module:Name", or None; see `find_part`."""
    module, _, path = name.partition(":")
    if _module(module) is None:
        for entry in announced().values():
            if entry.module.partition(".")[0] == module.partition(".")[0]:
                entry.load()  # of an installed package, which its user trusts
    home = _module(module)
    if home is None:
        raise MissingPart.of([name])
    value: Any = home
    for step in path.split("."):
        value = getattr(value, step, None)
    return value


def _checked(value: object, name: str) -> type:
    """Return a class that is an own spec; everything else is refused, and never called."""
    if isinstance(value, type) and is_own(value):
        return value
    module, _, path = name.partition(":")
    raise ValueError(
        f"expected a spec named {path} in {module}, a class decorated with @unweave.spec or "
        f"derived from a shipped one, got {'nothing' if value is None else repr(value)}"
    )


# ---- validation and JSON


class Open:
    """Marks a union of specs that accepts own parts: specs derived from its abstract members."""

    def __init__(self, discriminator: Any = None) -> None:
        self.discriminator = discriminator or Field(discriminator="kind")

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate and write own parts here, and all others as the closed union."""
        arguments = _expand(source)
        bases = tuple(each for each in arguments if inspect.isabstract(each))
        shipped: Any = Union.__getitem__(tuple(a for a in arguments if a not in bases))
        closed = handler.generate_schema(Annotated[shipped, self.discriminator])

        def validate(value: Any, inner: core_schema.ValidatorFunctionWrapHandler) -> Any:
            if isinstance(value, dict) and is_part_name(value.get("kind")):
                value = from_content(_find_stored(value), value)
            if isinstance(value, type):
                raise ValueError(f"expected an object, got its class: use {value.__name__}(...)")
            if not is_outside(type(value)):
                return inner(value)
            if not hasattr(value, "kind") and any(
                hasattr(value, method) for base in bases for method in base.__abstractmethods__
            ):
                raise ValueError(
                    f"{type(value).__name__} is not a spec: decorate it with @unweave.spec"
                )
            if is_own(type(value)) or isinstance(value, bases):
                return _accepted(value, bases)
            return inner(value)

        def write(value: Any, inner: core_schema.SerializerFunctionWrapHandler) -> Any:
            return content_of(value) if is_own(type(value)) else inner(value)

        return core_schema.no_info_wrap_validator_function(
            validate,
            closed,
            serialization=core_schema.wrap_serializer_function_ser_schema(write, schema=closed),
        )


def _expand(union: Any) -> list[Any]:
    """Return the members of a union, and those of unions inside it."""
    leaves: list[Any] = []
    for each in get_args(union):
        inner = get_args(each)[0] if get_origin(each) is Annotated else each
        leaves += _expand(inner) if get_origin(inner) in (Union, UnionType) else [each]
    return leaves


def content_of(value: Any) -> Any:
    """The JSON form of an own part: its name, the hash of its source, and its fields."""
    cls = type(value)
    try:
        fields = TypeAdapter(cls).dump_python(value, mode="json")
    except PydanticSerializationError as error:
        raise ValueError(
            f"{part_name(cls)} cannot be stored ({error}): its settings may be numbers, text, "
            "booleans, tuples of these and specs"
        ) from None
    return fields | {"kind": part_name(cls), HASH: source_hash(cls)}


def parts_of(spec: Any) -> Iterator[Any]:
    """Yield a spec and all specs in it; nothing for other values."""
    if dataclasses.is_dataclass(spec):
        yield spec
        for field in dataclasses.fields(spec):
            yield from parts_of(getattr(spec, field.name))
    elif isinstance(spec, BaseModel):
        yield spec
        for value in (spec.model_extra or {}).values():
            yield from parts_of(value)
    elif isinstance(spec, tuple):
        for value in spec:
            yield from parts_of(value)


def own_parts(spec: Any) -> list[str]:
    """Return the names of the own parts in a spec."""
    return [part_name(type(part)) for part in parts_of(spec) if is_own(type(part))]


def code_hashes(content: object) -> dict[str, str]:
    """Return the hashes of users' own code in the JSON form of a spec, by the name of the code.

    >>> code_hashes({"objective": {"kind": "my:VAE", "source-hash": "3f2a"}, "seed": 0})
    {'my:VAE': '3f2a'}
    >>> code_hashes({"source-hash": 3})  # of a damaged file
    {}
    """
    if isinstance(content, str) and _IDENTITY(content):
        name, _, code = content.partition("@")
        return {name: code}
    values: Iterable[object] = ()
    found: dict[str, str] = {}
    if isinstance(content, Mapping):
        values = content.values()
        part = content.get("kind"), content.get(HASH)
        if isinstance(part[0], str) and isinstance(part[1], str):
            found[part[0]] = part[1]
    elif isinstance(content, (list, tuple)):
        values = content
    for value in values:
        found |= code_hashes(value)
    return found


def own_modules(specs: Iterable[Any]) -> list[str]:
    """Return the modules to import before specs can be read from JSON and used, sorted."""
    names: set[str] = set()
    for part in itertools.chain.from_iterable(map(parts_of, specs)):
        if is_own(type(part)):
            names.add(part_name(type(part)))
        values = vars(part).values()
        names |= {each.argument for each in values if isinstance(each, ImportedByName)}
    return sorted({name.partition(":")[0] for name in names - {UNNAMED}})


def unannounced(modules: Iterable[str]) -> list[str]:
    """Return the modules that no installed package announces, so that a user must import them."""
    packages = {entry.module.partition(".")[0] for entry in announced().values()}
    return [module for module in modules if module.partition(".")[0] not in packages]


def from_content(cls: type, content: dict[str, Any]) -> Any:
    """Make an own part from its JSON form, and warn if its code is no longer the same."""
    name, stored = part_name(cls), content.get(HASH, "")
    changed = stored and stored != source_hash(cls)
    if changed:
        warn_changed(name)
    fields = {name: value for name, value in content.items() if name not in ("kind", HASH)}
    try:
        return cls(**fields)
    except (TypeError, ValueError) as error:
        if changed:
            raise ChangedPart(
                f"the class {name} has changed ({error}): restore it, or train again"
            ) from None
        raise ValueError(f"{name}: {error}" if isinstance(error, TypeError) else error) from None


def missing_parts(content: object, key: str = "") -> list[str]:
    """Return the names in the JSON form of a spec of all parts whose modules are not imported."""
    if isinstance(content, (dict, list)):
        items = content.items() if isinstance(content, dict) else ((key, e) for e in content)
        return list(dict.fromkeys(name for k, e in items for name in missing_parts(e, k)))
    if not isinstance(content, str) or not (key == "kind" or _IDENTITY(content)):
        return []
    name = content.partition("@")[0]
    try:
        if is_part_name(name) and name not in _used:
            find_object(name)
    except MissingPart:
        return [name]
    return []


def _find_stored(content: dict[str, Any]) -> type:
    """Return the class of an own part in JSON form; one with a hash was stored."""
    try:
        return find_part(content["kind"])
    except MissingPart:
        raise
    except ValueError as error:
        if HASH not in content:
            raise
        raise ChangedPart(f"the class has changed ({error}): restore it, or train again") from None


def reading_again() -> AbstractContextManager[None]:
    """Do not warn of changed parts inside this block: the run was read before, with warnings."""
    return within(_warned, True)


def warn_changed(name: str) -> None:
    """Warn that a part of a stored run has other code now."""
    if _warned.get():
        return
    warnings.warn(
        f"the code of {name} has changed since this run was trained; results may differ",
        OwnPartWarning,
        stacklevel=3,
    )


def _accepted(value: Any, bases: tuple[type, ...]) -> Any:
    cls = type(value)
    if not isinstance(value, bases):
        names = " or ".join(each.__name__ for each in bases)
        raise ValueError(f"expected a shipped part or a class derived from {names}, got {value!r}")
    owners = [inspect.get_annotations(each) for each in cls.__mro__ if is_outside(each)]
    named = {
        name for hints in owners for name, hint in hints.items() if "ClassVar" not in str(hint)
    }
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None or not named <= fields.keys():
        raise ValueError(
            f"{cls.__name__} must be a spec, with all of its fields: decorate it with @unweave.spec"
        )
    return value
