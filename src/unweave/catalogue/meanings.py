"""The meaning of every field of a spec: the string below it in its class, in one sentence."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any


def meaning(cls: type, name: str) -> str:
    """Return the meaning of a field of a spec in one sentence, "" if nobody has written it down.

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
    found: dict[str, str] = {}
    body: list[Any] = getattr(tree, "body", [])
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        text = getattr(getattr(below, "value", None), "value", None)
        if isinstance(below, ast.Expr) and isinstance(text, str):
            found[field.target.id] = " ".join(text.split())
    return found
