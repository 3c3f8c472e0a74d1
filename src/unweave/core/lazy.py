"""Load the public names of a package when they are first used.

A stub, `__init__.pyi`, imports every public name as itself. It is all that a type checker sees, and
here it says which module each name comes from.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def load_lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; modules can be asked for too."""
    module = sys.modules[package]
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

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
