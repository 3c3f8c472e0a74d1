"""What there is and what goes with what: objectives, divergences, latent blocks, their sources.

Read from the unions and asked of their members. `docs/methods.md` is `page()`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

from unweave.latents import Gaussian, Latent, Product
from unweave.objectives import AlphaBetaVAE, AnyDivergence, Objective
from unweave.spec import lane_fields, members

_SOURCE = re.compile(
    r"\[\w+\d{4}\](?: (?:eq|eqs|sec|alg|app|fig|table|lemma|theorem)\.? [A-Z]?\d*[.\d]*(?:, \d+)*)?"
)
_INTRODUCTION = """# Methods

This page is made by `unweave methods` from the code.

A number in a table refuses a combination, for the reason under the table; everything else is
trained, in lanes and resumed, by a test. Each block stands for two of its kind side by side: of
one variable alone there is no total correlation, and the objectives that need one say so.
"learned" is a prior with parameters (variances, covariance, centres, probabilities,
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
    """Why an objective or divergence refuses a kind of block, by both names; None: it does not."""
    everyone = {kind: cls() for kind, cls in members(Objective).items()}
    for kind, cls in members(AnyDivergence).items():
        everyone[f"alpha-beta-vae, {kind}"] = AlphaBetaVAE(divergence=cls())
    return {
        name: {space: objective.refuses(latent) for space, latent in spaces().items()}
        for name, objective in everyone.items()
    }


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
