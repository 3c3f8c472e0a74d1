"""Every figure and table of the papers: which reproductions cover it, or why none does.

One TOML file per paper, with a summary of the findings. Whether something has been reproduced is
not written there: it follows from the results that exist.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Item:
    """A figure, table or appendix of a paper.

    If no reproduction covers an experiment, `why` explains it, and `commands` would train its
    networks.
    """

    number: str  # as in the paper: "Figure 4"
    title: str
    experiment: bool = True  # False for sketches, definitions and lists of layers
    made_by: tuple[str, ...] = ()  # reproductions that cover it, as "kim2018/fig3"
    missing: str = ""  # what they leave out
    why: str = ""  # why nothing covers it
    commands: tuple[str, ...] = ()  # that would train its networks, or the missing ones

    def __post_init__(self) -> None:
        if self.experiment and not self.made_by and not (self.why and self.commands):
            raise ValueError(f"{self.number}: expected made_by, or why and commands")


def inventory(paper: str) -> tuple[Item, ...]:
    """Return all figures and tables of a paper, in its order; none if it is not one of ours.

    >>> inventory("sikka2019")[0].number
    'Table I'
    """
    rows: list[dict[str, Any]] = _content(paper).get("item", [])
    for row in rows:
        row |= {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return tuple(Item(**row) for row in rows)


def summary(paper: str) -> str:
    """Return the main findings about a paper, with placeholders for measured values, or ""."""
    return str(_content(paper).get("summary", ""))


def _content(paper: str) -> dict[str, Any]:
    path = files(__name__) / f"{paper}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
