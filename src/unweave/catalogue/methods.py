"""What there is and what goes with what: objectives, divergences, latent blocks, their sources.

Read from the unions and asked of their members. `docs/methods.md` is `page()`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple, get_type_hints

from unweave.core.spec import lane_fields, members
from unweave.latents import Gaussian, Latent, Product
from unweave.objectives import AnyDivergence, Objective
from unweave.objectives.base import BaseObjective

_KIND = r"(?:eqs?|secs?|algs?|apps?|figs?|tables?|lemma|theorem)\.?"
_PLACE = rf"{_KIND} [A-Z]?\d*[.\d]*(?:(?:, | and )\d+)*"
_SOURCE = re.compile(rf"\[\w+\d{{4}}\](?: {_PLACE}(?:(?:,| and) {_PLACE})*)?")
_INTRODUCTION = """# Methods

This page is made by `unweave methods` from the code.

A number in a table marks a combination that is refused for the reason given below it. A test
trains every other cell, and a selection with every objective and every kind of block is trained in
lanes, compared with the run alone, and resumed. Each block stands for two of its
kind side by side: of one variable alone there is no total correlation, and the objectives that need
one say so. "learned" is a prior with parameters (variances, covariance, centres, probabilities,
pseudo-inputs), "full" an encoding with a full covariance.
"""


class Method(NamedTuple):
    """A member of a union: its kind, its first paragraph, its sources and its weights."""

    kind: str
    text: str
    sources: str
    weights: str


def methods(union: Any) -> list[Method]:
    """The members of a union as their documentation has them.

    >>> methods(Objective)[1].sources
    '[Higgins2017] eq. 4'
    """
    return [_method(kind, cls) for kind, cls in members(union).items()]


def _method(kind: str, cls: type) -> Method:
    text = inspect.getdoc(cls) or ""
    whole, first = (" ".join(part.split()) for part in (text, text.split("\n\n")[0]))
    sources = dict.fromkeys(match.rstrip(". ") for match in _SOURCE.findall(whole))
    told = re.sub(r"\.?\s+(?=:|$)", "", _SOURCE.sub("", first)).rstrip(". ")
    return Method(kind, told, "; ".join(sources), ", ".join(lane_fields(cls)))


def spaces() -> dict[str, Latent]:
    """A latent space of every kind of block, two blocks each."""
    blocks = {kind: cls() for kind, cls in members(Latent).items() if cls is not Product}
    blocks["learned"] = Gaussian(learn="covariance")
    blocks["full"] = Gaussian(encoding="full")
    return {name: Product(a=block, b=block) for name, block in blocks.items()}


def refusals() -> dict[str, dict[str, str | None]]:
    """Why an objective or divergence refuses a kind of block, or None, by both names."""
    return {
        name: {space: objective.incompatibility(latent) for space, latent in spaces().items()}
        for name, objective in games().items()
    }


def games() -> dict[str, BaseObjective]:
    """Every objective with its defaults; those that take any divergence, with each."""
    found: dict[str, BaseObjective] = {}
    for kind, cls in members(Objective).items():
        taken = members(get_type_hints(cls).get("divergence", BaseObjective))
        found |= {f"{kind}, {name}": cls(divergence=made()) for name, made in taken.items()}
        if not taken:
            found[kind] = cls()
    return found


def page() -> str:
    """All of it as Markdown."""
    parts = [_INTRODUCTION]
    titles = (("Objectives", Objective), ("Divergences", AnyDivergence), ("Latent blocks", Latent))
    for title, union in titles:
        parts.append(f"## {title}\n\n{_listing(methods(union))}")
    return "\n".join([*parts, f"## What goes with what\n\n{_matrix(refusals())}"])


def _listing(found: list[Method]) -> str:
    weighted = any(method.weights for method in found)
    head = ["kind", "what it is", "weights", "source"]
    rows = [[m.kind, _code(m.text), m.weights, m.sources] for m in found]
    keep = [0, 1, 2, 3] if weighted else [0, 1, 3]
    return _table([head[k] for k in keep], [[row[k] for k in keep] for row in rows])


def _matrix(found: dict[str, dict[str, str | None]]) -> str:
    columns = list(next(iter(found.values())))
    reasons: dict[str, int] = {}
    rows = []
    for name, cells in found.items():
        marks = []
        for reason in cells.values():
            why = re.sub(r", and [\w ]+ is \w+$", "", reason) if reason else None
            marks.append(str(reasons.setdefault(why, len(reasons) + 1)) if why else "yes")
        rows.append([name, *marks])
    notes = "\n".join(f"{number}. {why}" for why, number in reasons.items())
    return f"{_table(['', *columns], rows)}\n{notes}\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(c) for c in line)} |\n" for line in lines)


def _code(text: str) -> str:
    return text if "`" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
