"""Figures of the papers, made again: studies, drawings, and claims with their verdicts.

A paper is one module with `FIGURES`, or a folder with a module for each of them, and a line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unweave.papers import esmaeili2019, kim2018, mathieu2018, mathieu2019, sikka2019
from unweave.papers.drawing import styled
from unweave.papers.form import Claim, Cost, Desk, Measured, Reproduction, Result, judged
from unweave.papers.page import done, write_page, write_result
from unweave.spec import nearest

__all__ = [
    "FIGURES",
    "Claim",
    "Desk",
    "Measured",
    "Reproduction",
    "Result",
    "chosen",
    "done",
    "judged",
    "reproduce",
]

FIGURES: tuple[Reproduction, ...] = (
    *sikka2019.FIGURES,
    *mathieu2019.FIGURES,
    *mathieu2018.FIGURES,
    *kim2018.FIGURES,
    *esmaeili2019.FIGURES,
)


def chosen(paper: str, figure: str | None = None) -> list[Reproduction]:
    """The figures of a paper, or the one that is named.

    >>> [made.figure for made in chosen("sikka2019")]
    ['fig1', 'fig2', 'fig3']
    """
    papers = list(dict.fromkeys(made.paper for made in FIGURES))
    if paper not in papers:
        raise ValueError(f"there is no paper {paper!r}: {nearest(paper, papers)}")
    figures = [made for made in FIGURES if made.paper == paper]
    named = [made.figure for made in figures]
    if figure is not None and figure not in named:
        raise ValueError(f"{paper} has no figure {figure!r}: {nearest(figure, named)}")
    return [made for made in figures if figure in (None, made.figure)]


def reproduce(figures: Sequence[Reproduction], desk: Desk, out: Path) -> list[Claim]:
    """Make figures, keep what was found, and write the pages of their papers."""
    claims: list[Claim] = []
    for made in figures:
        desk.turn_to(out / made.paper / made.figure)
        begun = Cost.now()
        with styled():  # which tells before any training if figures cannot be drawn
            desk.say(f"{made.paper} {made.figure}, {made.title}: about {made.cost} on two cores")
            result = made.make(desk)
        write_result(made, result, desk, Cost.now() - begun, out)
        write_page(made.paper, [each for each in FIGURES if each.paper == made.paper], out)
        claims += result.claims
    return claims
