"""The bibliography, `references.bib`, and the entries that a run cites."""

import re
from collections.abc import Iterable
from importlib.resources import files

from unweave.core.parts import parts_of

_KEY = re.compile(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)\]")
_ENTRY = re.compile(r"@\w+\{(\w+),.*?\n\}", re.DOTALL)


def entries() -> dict[str, str]:
    """Return all entries of `references.bib` by key."""
    text = files("unweave.core").joinpath("references.bib").read_text(encoding="utf-8")
    return {match[1]: match[0] for match in _ENTRY.finditer(text)}


def entry_field(entry: str, name: str) -> str:
    """Return a field of an entry of `references.bib`, without braces; "" if it has none.

    >>> entry_field(entries()["Kingma2014"], "title")
    'Auto-Encoding Variational Bayes'
    """
    match = re.search(rf"\b{name}\s*=\s*\{{(.*)\}}", entry)  # every field is on its own line
    return re.sub(r"[{}]", "", match[1]) if match else ""


def cited(text: str) -> list[str]:
    """Return the keys that a text cites, in order, each once.

    >>> cited("[Kim2018] eq. 2 and alg. 2, after [Higgins2017]; again [Kim2018]")
    ['Kim2018', 'Higgins2017']
    """
    return list(dict.fromkeys(_KEY.findall(text)))


def citations(spec: object) -> dict[str, str]:
    """Return the BibTeX entries for a spec and all of its parts.

    A part cites the first known key in its docstring, its source, and the keys in its attribute
    `also_cites`: further sources, and those of settings that it uses. A docstring may mention other
    papers, which are not cited.

    >>> from unweave.objectives import FactorVAE
    >>> list(citations(FactorVAE()))
    ['Kim2018', 'Kingma2015']
    """
    keys: list[str] = []
    for part in parts_of(spec):
        named = entries_for(cited(type(part).__doc__ or ""))
        keys += [*list(named)[:1], *getattr(part, "also_cites", ())]
    return entries_for(keys)


def entries_for(keys: Iterable[str]) -> dict[str, str]:
    """Return the BibTeX entries of those keys that the bibliography has, each once."""
    by_key = entries()
    return {key: by_key[key] for key in dict.fromkeys(keys) if key in by_key}
