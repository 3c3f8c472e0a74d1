"""Public names of packages: which they are, and how to load them when they are first used.

A package exports what its `__init__.py` defines or imports as itself (`X as X`), which is also what
a type checker takes for exported. A package that loads its names when they are first used has these
imports in a stub, `__init__.pyi`, which says which module each name comes from.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def public_names(package: str) -> list[str]:
    """Return `__all__` of a package: what it imports as itself, and defines without underscore."""
    tree = _parse(sys.modules[package], ".py")
    names = set(_imported(tree))
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return sorted(name for name in names if not name.startswith("_"))


def load_lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; modules can be asked for too."""
    module = sys.modules[package]
    homes = _imported(_parse(module, ".pyi"))

    def load(name: str) -> object:
        home = homes.get(name, package)
        if home != package:
            value: object = getattr(import_module(home), name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes}), sorted(homes)


def _parse(module: ModuleType, suffix: str) -> ast.Module:
    path = Path(str(module.__file__)).with_suffix(suffix)
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that are imported as themselves, with the modules that they come from."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    pairs = [(alias, str(node.module)) for node in imports for alias in node.names]
    return {alias.name: home for alias, home in pairs if alias.asname == alias.name}
