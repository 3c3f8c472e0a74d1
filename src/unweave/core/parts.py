"""Users' own parts: specs defined outside the package that stand where shipped ones do.

A union of specs marked with `Open` accepts its own members and any spec derived from its abstract
member, such as `BaseObjective`. An own part is named by where it is defined, "module:Class", and by
a hash of its source code, so that a run trained with it is never mistaken for another one.

Reading a file never imports a module: a part is found if its module is already imported, or if an
installed package announces it as an entry point of the group "unweave".
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import os
import sys
import textwrap
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

GROUP = "unweave"  # of entry points
SOURCE = "source"  # where the JSON form of an own part has the hash of its source code

_used: dict[str, type] = {}  # own parts of which this process has made a value, by name
_hashes: WeakKeyDictionary[type, str] = WeakKeyDictionary()


class OwnPartWarning(UserWarning):
    """A part is not what it was when the run was trained."""


def is_own(cls: type) -> bool:
    """Whether a class is a spec that is defined outside the package."""
    return dataclasses.is_dataclass(cls) and _is_outside(cls)


def _is_outside(cls: type) -> bool:
    top = cls.__module__.partition(".")[0]
    return top != __name__.partition(".")[0] and top not in sys.stdlib_module_names


def part_name(part: type | Callable[..., Any]) -> str:
    """Return the name of a class or function, "module:Name"; a script is a module of that name."""
    module = _main_name() if part.__module__ == "__main__" else part.__module__
    return f"{module}:{part.__qualname__}"


def register(cls: type) -> str:
    """Remember a part that is used in this process, so that it can be found by its name."""
    name = part_name(cls)
    _used[name] = cls
    source_hash(cls)  # now, before its file changes
    return name


def announced() -> dict[str, EntryPoint]:
    """The parts that installed packages announce, by the name of their entry point."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def import_part(name: str) -> type:
    """Import a part by "module:Class" or by the name of its entry point, from here or installed."""
    if entry := announced().get(name):
        return _checked(entry.load(), name)
    import_module(name.partition(":")[0])
    return find_part(name)


def import_module(name: str) -> None:
    """Import a module from the working directory or from the installed packages."""
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
    """Return the class of this name, if its module is imported or its package announces it."""
    return _used[name] if name in _used else _checked(find_object(name), name)


def find_object(name: str) -> Any:
    """Return what a module has under the name "module:Name", or None; see `find_part`."""
    module, _, path = name.partition(":")
    home = _module(module)
    if home is None and any(entry.value == name for entry in announced().values()):
        home = importlib.import_module(module)
    if home is None:
        raise ValueError(
            f"{name} is a part defined outside unweave, in the module {module!r}, which is not "
            f"imported: `import {module}` first, or on the command line `unweave --import {module}`"
        )
    value: Any = home
    for step in path.split("."):
        value = getattr(value, step, None)
    return value


def source_hash(cls: type) -> str:
    """Hash the code of a part and of its own base classes, without comments and docstrings.

    Where the source cannot be read, as of a class typed into a plain Python prompt, this is "".
    """
    if cls not in _hashes:
        _hashes[cls] = _hash_source(cls)
    return _hashes[cls]


def _hash_source(cls: type) -> str:
    content = hashlib.sha256()
    for each in filter(_is_outside, cls.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            return ""
        for node in ast.walk(tree):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
                node.body = node.body[1:]
        content.update(ast.dump(tree).encode())
    return content.hexdigest()[:8]


def _main_name() -> str:
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return str(main.__spec__.name)  # type: ignore[union-attr]
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"


def _module(name: str) -> ModuleType | None:
    return sys.modules["__main__"] if name == _main_name() else sys.modules.get(name)


def _checked(value: object, name: str) -> type:
    if isinstance(value, type):
        return value
    raise ValueError(
        f"expected a class named {name.partition(':')[2]} in {name.partition(':')[0]}, got "
        f"{'nothing' if value is None else repr(value)}: was it renamed?"
    )


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
            if isinstance(value, dict) and ":" in str(value.get("kind")):
                value = from_content(value)
            if is_own(type(value)) or (isinstance(value, bases) and _is_outside(type(value))):
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
    found: list[Any] = []
    for each in get_args(union):
        inner = get_args(each)[0] if get_origin(each) is Annotated else each
        found += _expand(inner) if get_origin(inner) in (Union, UnionType) else [each]
    return found


def content_of(value: Any) -> Any:
    """The JSON form of an own part: its name, the hash of its source, and its fields."""
    cls = type(value)
    fields = TypeAdapter(cls).dump_python(value, mode="json")
    return fields | {"kind": part_name(cls), SOURCE: source_hash(cls)}


def from_content(content: dict[str, Any]) -> Any:
    """Make an own part from its JSON form, and warn if its code is no longer the same."""
    name = content["kind"]
    cls = find_part(name)
    stored = content.get(SOURCE, "")
    if stored and stored != source_hash(cls):
        warnings.warn(
            f"the code of {name} has changed since this run was trained; results may differ",
            OwnPartWarning,
            stacklevel=2,
        )
    return cls(**{key: value for key, value in content.items() if key not in ("kind", SOURCE)})


def _accepted(value: Any, bases: tuple[type, ...]) -> Any:
    cls = type(value)
    if not isinstance(value, bases):
        names = " or ".join(each.__name__ for each in bases)
        raise ValueError(f"expected a shipped part or a class derived from {names}, got {value!r}")
    named = {n for each in cls.__mro__ if _is_outside(each) for n in inspect.get_annotations(each)}
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None or not named <= fields.keys():
        raise ValueError(
            f"{cls.__name__} has to be a spec, with all of its fields: decorate it with "
            "@unweave.spec"
        )
    return value
