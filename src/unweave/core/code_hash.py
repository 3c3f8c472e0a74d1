"""The hash of the code that a user's part uses, in all modules of the user.

In the part's own module these are the base classes, functions, classes and constants that the part
names, directly or through others. The other modules that this code imports count as a whole, and so
do the modules that they import. Comments and docstrings never count.

A notebook has no source file. The code of a part is then that of its cell, or its compiled code,
with the functions, classes and plain values that its names have at the time.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import functools
import hashlib
import inspect
import itertools
import linecache
import os
import symtable
import sys
import weakref
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

_PACKAGE = __name__.partition(".")[0]
_LIBRARY = Path(os.__file__).parent  # the standard library
_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARIES = {"torch", "torchvision", "triton", "numpy", "scipy", "sklearn", "pandas", "jax"}
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


class _Hash(NamedTuple):
    """A hash, and the names in namespaces that it depends on, with what they stood for."""

    value: str
    depends_on: list[tuple[dict[str, Any], str, object]]

    @property
    def current(self) -> bool:
        """Whether no module has been imported again and no name has another value."""
        return all(_is_same(space.get(name), mark) for space, name, mark in self.depends_on)


_hashes: weakref.WeakKeyDictionary[Any, _Hash] = weakref.WeakKeyDictionary()
_texts: weakref.WeakKeyDictionary[ModuleType, tuple[Any, str]] = weakref.WeakKeyDictionary()


def is_outside(part: Any) -> bool:
    """Whether a class or function is defined outside the package and outside Python itself.

    A user's file may have the name of a module of Python, so its place decides.
    """
    top = part.__module__.partition(".")[0]
    if top in sys.stdlib_module_names:
        file: str | None = getattr(sys.modules.get(part.__module__), "__file__", None)
        return file is not None and not Path(file).is_relative_to(_LIBRARY)
    return bool(top != _PACKAGE)


def source_hash(part: type | FunctionType) -> str:
    """Return eight hexadecimal digits that identify the code of a class or function.

    The hash is computed again when one of the user's modules has been imported again, or when a
    notebook gives another meaning to one of the names. A class that has been defined again since
    keeps its hash.
    """
    known = _hashes.get(part)
    if known is None or (_is_in_place(part) and not known.current):
        code = _UsedCode(part)
        digest = hashlib.sha256("\n".join(sorted(code.texts)).encode())
        known = _hashes[part] = _Hash(digest.hexdigest()[:8], code.depends_on)
    return known.value


def _is_in_place(part: Any) -> bool:
    """Whether a part is what its module has under its name."""
    value: Any = sys.modules.get(part.__module__)
    for step in part.__qualname__.split("."):
        value = getattr(value, step, None)
    return value is part


# ---- the code that a part uses


class _UsedCode:
    """The code that a part uses, as texts in no particular order."""

    def __init__(self, part: Any) -> None:
        self.texts: set[str] = set()
        self.depends_on: list[tuple[dict[str, Any], str, object]] = []
        self._seen: set[tuple[object, ...]] = set()
        self._modules: list[_Scope] = []  # whose imports are still to follow
        self._top = part.__module__.partition(".")[0]
        self._package = self._top if dataclasses.is_dataclass(part) else ""
        self._add_object(part)
        while self._modules:
            scope = self._modules.pop()
            self._add_imports(ast.walk(scope.tree), scope)

    def _is_new(self, *what: object) -> bool:
        new = what not in self._seen
        self._seen.add(what)
        return new

    def _add_object(self, part: Any) -> None:
        """Add a class with the user's base classes, or a function."""
        for each in part.__mro__ if isinstance(part, type) else (inspect.unwrap(part),):
            if is_outside(each) and (each is part or self._has_base(each)) and self._is_new(each):
                self._add_definition(each)

    def _has_base(self, base: type) -> bool:
        """Whether a base class is the user's, or of the part's own package."""
        name = base.__module__
        file = getattr(sys.modules.get(name), "__file__", None)
        own = name.partition(".")[0] == self._top
        return own or file is None or self._is_of_user(Path(file), name)

    def _add_definition(self, part: Any) -> None:
        functions = list(_functions_of(part))
        for function in functions:
            for name, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            ):
                if (value := _contents(cell)) is not part:
                    self._add_value(value, name)
        module = sys.modules.get(part.__module__)
        scope = None if module is None else _scope_of(module)
        if module is not None and scope is not None:
            self._depend_on_module(module)
            top, *inner = _path_of(part)
            if top in scope.defined:
                if inner and "<locals>" in part.__qualname__:
                    for node in _nodes_at(scope.tree, [top, *inner]):
                        self._add_node(node, scope)
                else:
                    self._add_name(top, scope)
                return
        space = vars(module) if module is not None else {}
        for filename in dict.fromkeys(f.__code__.co_filename for f in functions):
            tree = _parsed("".join(linecache.getlines(filename)))
            nodes = [] if tree is None else list(_nodes_at(tree, _path_of(part)))
            if nodes:
                for node in nodes:
                    self.texts.add(_text(node))
                    self._add_run_time_names(_global_names(node), space)
                return
        self.texts.add(_compiled(part, functions))
        for code in (function.__code__ for function in functions):
            self._add_run_time_names(_loaded_names(code), space)

    # in modules with a source file

    def _add_name(self, name: str, scope: _Scope) -> None:
        """Add what a name at the top of a module stands for."""
        if not self._is_new(scope.name, name):
            return
        for node in scope.defined.get(name, ()):
            self._add_node(node, scope)
        if name not in scope.defined and not hasattr(builtins, name):
            self._add_imports(scope.starred, scope)

    def _add_node(self, node: ast.stmt, scope: _Scope) -> None:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            self.texts.add(_text(node))
            for name in _global_names(node):
                self._add_name(name, scope)
        self._add_imports(ast.walk(node), scope)

    def _add_imports(self, nodes: Iterable[ast.AST], scope: _Scope) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:  # `import a.b` gives access to a, too
                    steps = itertools.accumulate(alias.name.split("."), "{}.{}".format)
                    for name in [alias.name] if alias.asname else steps:
                        self._add_module(name)
            elif isinstance(node, ast.ImportFrom):
                try:
                    base = resolve_name("." * node.level + (node.module or ""), scope.package)
                except ImportError:  # more dots than packages
                    continue
                for alias in node.names:
                    self._add_module(f"{base}.{alias.name}") or self._add_module(base)

    def _add_module(self, name: str) -> bool:
        """Add a whole module, and those that it imports; return whether there is one."""
        if name.partition(".")[0] == _PACKAGE:
            return False
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None) if module is not None else _find(name)
        file = getattr(module, "__file__", None) or getattr(spec, "origin", None)
        if not file or not self._is_of_user(Path(file), name):
            return False
        if self._is_new(name):
            scope = _scope_of(module) if module is not None else _scope_of_file(name, spec)
            self.depends_on.append((sys.modules, name, _mark(module)))
            if module is not None:
                self._depend_on_module(module)
            if scope is not None:
                self.texts.add(_text(scope.tree))
                self._modules.append(scope)
        return True

    def _is_of_user(self, file: Path, name: str) -> bool:
        """Whether a module is neither Python's nor installed, except in the part's own package.

        Libraries such as PyTorch may be built in a folder of their own.
        """
        top = name.partition(".")[0]
        if _INSTALLED & {*file.parts} or top in _LIBRARIES:
            return top == self._package
        return not file.is_relative_to(_LIBRARY)

    def _depend_on_module(self, module: ModuleType) -> None:
        self.depends_on.append((vars(module), "__spec__", _mark(module.__spec__)))

    # in notebooks

    def _add_run_time_names(self, names: Iterable[str], space: dict[str, Any]) -> None:
        for name in names:
            if not hasattr(builtins, name) or name in space:
                self.depends_on.append((space, name, _mark(space.get(name))))
                self._add_value(space.get(name), name)

    def _add_value(self, value: Any, name: str) -> None:
        """Add the code of a value, the code of its class, or its text."""
        if isinstance(value, ModuleType):
            self._add_module(value.__name__)
        elif isinstance(value, type) or isinstance(inspect.unwrap(value), FunctionType):
            file = getattr(sys.modules.get(value.__module__), "__file__", None)
            if file is None or self._add_module(value.__module__):
                self.texts.add(f"{name} = {value.__qualname__}")
                self._add_object(value)
        elif (text := _text_of(value)) is not None:
            self.texts.add(f"{name} = {text}")
        elif is_outside(type(value)):
            self._add_value(type(value), f"type of {name}")


# ---- source text


class _Scope(NamedTuple):
    """The top level of a module: its code, what each name stands for, and imports of `*`."""

    name: str
    package: str
    tree: ast.Module
    defined: dict[str, list[ast.stmt]]
    starred: list[ast.stmt]


def _scope_of(module: ModuleType) -> _Scope | None:
    """Return the code of a module as it was when it was first needed after its last import."""
    spec = getattr(module, "__spec__", None)
    known = _texts.get(module)
    if known is None or known[0] is not spec:
        try:
            known = spec, inspect.getsource(module)
        except (OSError, TypeError):
            known = spec, ""
        _texts[module] = known
    return _scope(module.__name__, getattr(module, "__package__", "") or "", known[1])


def _scope_of_file(name: str, spec: ModuleSpec | None) -> _Scope | None:
    """Return the code of a module that is imported later, such as in a function."""
    try:
        text = Path(str(spec.origin)).read_text(encoding="utf-8") if spec else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    is_package = spec is not None and spec.submodule_search_locations is not None
    return _scope(name, name if is_package else name.rpartition(".")[0], text)


@functools.lru_cache(maxsize=256)
def _scope(name: str, package: str, text: str) -> _Scope | None:
    tree = _parsed(text)
    if tree is None:
        return None
    defined: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for each in dict.fromkeys(_bound_names(node)):
            defined.setdefault(each, []).append(node)
    return _Scope(name, package, tree, defined, defined.pop("*", []))


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module | None:
    """Return code without comments and docstrings, or None if there is none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for each in ast.walk(tree):
        if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            each.body = [line for line in each.body if not _is_text(line)] or [ast.Pass()]
    return tree if text.strip() else None


def _text(code: object) -> str:
    """Return a text of code that is the same in every version of Python."""
    if isinstance(code, list):
        return f"[{', '.join(map(_text, code))}]"
    if not isinstance(code, ast.AST):
        return ascii(code)
    fields = dict(ast.iter_fields(code))
    if isinstance(code, ast.JoinedStr):  # Python 3.12 has empty strings between values
        fields["values"] = [v for v in code.values if getattr(v, "value", None) != ""]
    given = (f"{name}={_text(field)}" for name, field in fields.items() if field not in (None, []))
    return f"{type(code).__name__}({', '.join(given)})"


def _is_text(line: ast.stmt) -> bool:
    """Whether a statement is only a string: a docstring, or the meaning of the field above it."""
    value = line.value if isinstance(line, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines or changes."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _bound_names(child)


def _global_names(node: ast.stmt) -> set[str]:
    """Return the names in a statement that are looked up in its module."""
    tables = [symtable.symtable(ast.unparse(node), "part", "exec")]
    names = {each.get_name() for each in tables[0].get_symbols() if each.is_referenced()}
    for table in tables:
        tables += table.get_children()
        names |= {each.get_name() for each in table.get_symbols() if each.is_global()}
    return names


def _path_of(part: Any) -> list[str]:
    return [step for step in part.__qualname__.split(".") if step != "<locals>"]


def _nodes_at(node: ast.AST, path: list[str]) -> Iterator[ast.stmt]:
    """Yield the definitions of a class or function, given the names around it."""
    for each in ast.walk(node):
        if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name == path[0]:
            if path[1:]:
                yield from (deeper for line in each.body for deeper in _nodes_at(line, path[1:]))
            else:
                yield each


def _find(name: str) -> ModuleSpec | None:
    """Find a module without importing anything."""
    path, spec = sys.path, None
    for step in name.split("."):  # a dotted name would need the package around it
        spec = PathFinder.find_spec(step, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


# ---- compiled code and values


def _functions_of(part: Any) -> Iterator[FunctionType]:
    """Yield a function, or the functions in the body of a class, without those that were added."""
    for value in vars(part).values() if isinstance(part, type) else (part,):
        inner = value
        for wrapper in ("fget", "__func__", "func", "__wrapped__"):
            inner = getattr(inner, wrapper, inner)
        if isinstance(inner, FunctionType) and (
            inner is part or inner.__code__.co_qualname.startswith(f"{part.__qualname__}.")
        ):
            yield inner


def _compiled(part: Any, functions: list[FunctionType]) -> str:
    """Return the compiled code of a part without source, and the plain values of a class."""
    values = vars(part).items() if isinstance(part, type) else ()
    plain = [(name, _text_of(value)) for name, value in values if not name.startswith("__")]
    return repr([part.__qualname__, [_code(each.__code__) for each in functions], plain])


def _code(code: CodeType) -> list[object]:
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names]


def _loaded_names(code: CodeType) -> set[str]:
    """Return the names that compiled code looks up in its module."""
    lookups = ("LOAD_GLOBAL", "LOAD_NAME")
    names = {str(each.argval) for each in dis.get_instructions(code) if each.opname in lookups}
    return names.union(*(_loaded_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _text_of(value: object) -> str | None:
    """Return the text of a plain value: a number, a string, or a collection of such; or None."""
    if isinstance(value, _SCALARS):
        return repr(value)
    if isinstance(value, dict):
        inner = [_text_of(each) for pair in value.items() for each in pair]
    elif isinstance(value, (tuple, list, set, frozenset)):
        inner = [_text_of(each) for each in value]
    else:
        return None
    texts = [text for text in inner if text is not None]
    if len(texts) < len(inner):
        return None
    if isinstance(value, (set, frozenset)):
        texts.sort()
    return f"{type(value).__name__}({', '.join(texts)})"


def _mark(value: object) -> object:
    """Return what tells a value from a later one, without keeping the value alive."""
    text = _text_of(value)
    try:
        return weakref.ref(value) if text is None else text
    except TypeError:
        return id(value)


def _is_same(value: object, mark: object) -> bool:
    return _mark(value) is mark if isinstance(mark, weakref.ref) else _mark(value) == mark
