"""The catalogue of objectives, divergences and latent blocks, and which combine with which.

Everything is read from the unions and their members. `docs/methods.md` is the result of `page()`.
"""

import inspect
import re
from typing import Any, NamedTuple, get_type_hints

from unweave.catalogue import introduction
from unweave.catalogue.fields import choices, one_line_each, spec_fields, table
from unweave.core.bibliography import cited, entries_for, entry_field
from unweave.core.groups import grouped
from unweave.core.hints import nearest
from unweave.core.spec import lane_fields, members
from unweave.core.text import markdown_table
from unweave.latents import Gaussian, Latent, Product
from unweave.likelihoods import Likelihood
from unweave.networks import Network
from unweave.objectives import AnyDivergence, Objective
from unweave.objectives.base import BaseObjective

_KIND = r"(?:eqs?|secs?|algs?|apps?|figs?|tables?|lemma|theorem)\.?"
_PLACE = rf"{_KIND} [A-Z]?\d*[.\d]*(?:(?:, | and )\d+)*"
_SOURCE = re.compile(rf"\[\w+\d{{4}}\](?: {_PLACE}(?:(?:,| and) {_PLACE})*)?")


_UNIONS: dict[str, Any] = {
    "objective": Objective,
    "objective.divergence": AnyDivergence,
    "latent": Latent,
    "network": Network,
    "likelihood": Likelihood,
}


class Method(NamedTuple):
    """A member of a union: its kind, description, sources and weights."""

    kind: str
    text: str
    sources: str
    weights: str


def methods(union: Any) -> list[Method]:
    """Describe the members of a union from their docstrings.

    >>> methods(Objective)[1].sources
    '[Higgins2017] eq. 4'
    """
    return [_method(kind, cls) for kind, cls in members(union).items()]


def _method(kind: str, cls: type) -> Method:
    text = inspect.getdoc(cls) or ""
    full, first = (" ".join(part.split()) for part in (text, text.split("\n\n")[0]))
    sources = dict.fromkeys(match.rstrip(". ") for match in _SOURCE.findall(full))
    description = re.sub(r"\.?\s+(?=:|$)", "", _SOURCE.sub("", first)).rstrip(". ")
    return Method(kind, description, "; ".join(sources), ", ".join(lane_fields(cls)))


def spaces() -> dict[str, Latent]:
    """Return a latent space of two blocks for every kind of block."""
    blocks = {kind: cls() for kind, cls in members(Latent).items() if cls is not Product}
    blocks["learned"] = Gaussian(learn="covariance")
    blocks["full"] = Gaussian(encoding="full")
    return {name: Product(a=block, b=block) for name, block in blocks.items()}


def refusals() -> dict[str, dict[str, str | None]]:
    """Return why each objective refuses each latent space, or None, by both names."""
    return {
        name: {space: objective.incompatibility(latent) for space, latent in spaces().items()}
        for name, objective in default_objectives().items()
    }


def default_objectives() -> dict[str, BaseObjective]:
    """Return every objective with its defaults, and with each divergence if it takes any."""
    objectives: dict[str, BaseObjective] = {}
    for kind, cls in members(Objective).items():
        accepted = members(get_type_hints(cls).get("divergence", BaseObjective))
        for name, divergence in accepted.items():
            objectives[f"{kind}, {name}"] = cls(divergence=divergence())
        if not accepted:
            objectives[kind] = cls()
    return objectives


def method_list(width: int = 80) -> str:
    """Return one line for each method, by the field that takes it: its kind, and what it is."""
    parts = []
    for path, union in _UNIONS.items():
        docs = {kind: inspect.getdoc(cls) or "" for kind, cls in members(union).items()}
        first = {kind: text.split("\n\n")[0] for kind, text in docs.items()}
        parts.append(f"{path}\n" + one_line_each(first, width))
    return "\n".join([*parts, "`unweave methods NAME` describes one of them.\n"])


def method_page(name: str, width: int = 80) -> str:
    """Describe the parts of one kind: equation, documentation, fields, papers, and a command.

    A name can stand for two parts: "gaussian" is a latent block and a likelihood.
    """
    chosen = [
        (path, cls) for path, union in _UNIONS.items() for cls in choices(union, name).values()
    ]
    if not chosen:
        known = [kind for union in _UNIONS.values() for kind in members(union)]
        raise ValueError(f"{name!r} is not a method: {nearest(name, known)}")
    return "\n".join(_one_method(path, name, cls, width) for path, cls in chosen)


def _one_method(path: str, kind: str, cls: type, width: int) -> str:
    text = inspect.getdoc(cls) or ""
    rows = [] if cls is Product else list(spec_fields(cls, f"{path}."))
    chosen = f"objective=wae {path}" if path == "objective.divergence" else path
    command = f"unweave train {chosen}={kind}"
    if rows and re.fullmatch(r"[\d.]+", rows[0].default):
        command += f" {rows[0].path}={rows[0].default}"
    if path == "objective" and cls().weights_without_effect(Gaussian()):
        command += " latent=product latent.style=gaussian latent.shape=categorical"
    papers = entries_for(cited(text))
    titles = [f"  {key}  {entry_field(entry, 'title')}" for key, entry in papers.items()]
    sections = [
        f"{path}={kind}\n\n{text.strip()}",
        *(["Fields, with default, range and meaning:\n\n" + table(rows, width)] if rows else []),
        *(["Papers:\n\n" + "\n".join(titles)] if titles else []),
        f"Example:\n\n  {command}",
    ]
    return "\n\n".join(sections) + "\n"


def page() -> str:
    """Return the catalogue as Markdown."""
    parts = [introduction("methods")]
    titles = (("Objectives", Objective), ("Divergences", AnyDivergence), ("Latent blocks", Latent))
    for title, union in titles:
        parts.append(f"## {title}\n\n{_listing(methods(union))}")
    return "\n".join([*parts, introduction("combinations") + _refused(refusals())])


def _listing(listed: list[Method]) -> str:
    head = ["kind", "what it is", "weights", "source"]
    texts = [m.text if "`" in m.text else f"`{m.text}`" for m in listed]
    rows = [[m.kind, text, m.weights, m.sources] for m, text in zip(listed, texts, strict=True)]
    keep = [0, 1, 2, 3] if any(method.weights for method in listed) else [0, 1, 3]
    return markdown_table([head[k] for k in keep], [[row[k] for k in keep] for row in rows])


def _refused(reasons_by_cell: dict[str, dict[str, str | None]]) -> str:
    """Return the refused combinations: methods and latent spaces by reason."""
    spaces = grouped(
        ((name, re.sub(r", and [\w ]+ is \w+$", "", reason)), space)
        for name, cells in reasons_by_cell.items()
        for space, reason in cells.items()
        if reason
    )
    rows = grouped(((", ".join(refused), why), name) for (name, why), refused in spaces.items())
    head = ["method", "refuses", "because"]
    return markdown_table(head, [["; ".join(n), *key] for key, n in rows.items()])
