"""Pages of papers: what was found for each figure is kept as JSON, and the page is made of that.

out/<paper>.md             the page
out/<paper>/<figure>.json  claims, setting, seeds, time
out/<paper>/<figure>-numbers.json  of long studies: what was measured, of which the rest is made
out/<paper>/<name>.svg     drawings, and the same as .png
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import unweave
from unweave.bibliography import entries
from unweave.console import PAPERS
from unweave.files import write_atomically
from unweave.papers.drawing import save
from unweave.papers.form import Claim, Cost, Desk, Reproduction, Result
from unweave.store import write_json

_SIGNS = {"pass": "✓ pass", "fail": "✗ fail", "not comparable": "– not comparable"}


def write_result(
    made: Reproduction, result: Result, desk: Desk, cost: Cost, out: Path
) -> list[Path]:
    """Write the drawings of a figure and what was found; the page is written from it later."""
    folder = out / made.paper
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [
        path
        for name, figure in result.drawings.items()
        for path in save(figure, folder / f"{made.figure}{name and '-' + name}")
    ]
    facts = {
        "title": made.title,
        "captions": {
            f"{made.figure}{name and '-' + name}": text for name, text in result.captions.items()
        },
        "claims": [asdict(claim) for claim in result.claims],
        "setting": result.setting,
        "seeds": result.seeds,
        "noticed": result.noticed,
        **(desk.earlier or desk.spent(cost)),
        "version": unweave.__version__,
    }
    path = _facts(made, out)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))["training"]
        if desk.found and before["runs"] == desk.found:  # those that are there were trained for it
            facts["training"] = {name: before[name] + facts["training"][name] for name in before}
    write_json(path, facts)
    return [*pictures, path]


def write_page(paper: str, figures: Sequence[Reproduction], out: Path) -> Path:
    """Write the page of a paper from what has been found of its figures so far."""
    sections = [
        _section(made, json.loads(_facts(made, out).read_text(encoding="utf-8")), out)
        if done(made, out)
        else f"## {made.title}\n\nNot made yet: `{_command(made, out)}` takes {made.cost}.\n"
        for made in figures
    ]
    place = out / f"{paper}.md"
    write_atomically(place, "\n".join([_head(paper), *sections]).encode())
    return place


def done(made: Reproduction, out: Path) -> bool:
    """Whether a figure has been made."""
    return _facts(made, out).exists()


def _facts(made: Reproduction, out: Path) -> Path:
    return out / made.paper / f"{made.figure}.json"


def _head(paper: str) -> str:
    key = next((key for key in entries() if key.lower() == paper), None)
    if key is None:  # of your own
        return f"# {paper}\n"
    entry = entries()[key]
    return (
        f"# {_field(entry, 'title')}\n\n"
        f"{_authors(_field(entry, 'author'))}, {_field(entry, 'year')} [{key}]. Written by "
        f"`unweave reproduce {paper}`; a claim is the paper's, a verdict is ours.\n"
    )


def _command(made: Reproduction, out: Path) -> str:
    if made.command:
        return made.command
    where = "" if out == PAPERS else f" --out {out.as_posix()}"
    return f"unweave reproduce {made.paper} {made.figure}{where}"


def _section(made: Reproduction, facts: dict[str, Any], out: Path) -> str:
    claims = [Claim(**claim) for claim in facts["claims"]]
    pictures = [
        f"![{facts['title']}]({made.paper}/{name}.svg)\n\n{text} ([PNG]({made.paper}/{name}.png))\n"
        for name, text in facts["captions"].items()
    ]
    notes = [f"- **{claim.statement}** {claim.note}" for claim in claims if claim.note]
    return "\n".join(
        [
            f"## {facts['title']}\n",
            *pictures,
            facts["setting"].strip() + "\n",
            "| the paper's claim | where | expected | got | verdict |",
            "|---|---|---|---|---|",
            *(_row(claim) for claim in claims),
            "",
            *([*notes, ""] if notes else []),
            *([facts["noticed"].strip() + "\n"] if facts["noticed"] else []),
            f"`{_command(made, out)}`: {_time(facts)}. Seeds: {facts['seeds']}. "
            f"unweave {facts['version']}.\n",
        ]
    )


def _row(claim: Claim) -> str:
    cells = (claim.statement, claim.where, claim.expected, claim.got, _SIGNS[claim.verdict])
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _time(facts: dict[str, Any]) -> str:
    text = f"{_seconds(facts)} on {facts['machine']}"
    parts = [f"{facts['trained']} runs trained"] if facts["trained"] else []
    if facts["found"]:
        training = facts["training"]
        known = training["runs"] == facts["found"] + facts["trained"]
        parts += [f"{facts['found']} runs found in the store"]
        parts += [f"their training: {_seconds(training)}"] if known else []
    return f"{text} ({', '.join(parts)})" if parts else text


def _seconds(cost: dict[str, Any]) -> str:
    return f"{cost['seconds']:,} seconds, {cost['cpu_seconds']:,} of CPU time"


def _field(entry: str, name: str) -> str:
    found = re.search(rf"\b{name}\s*=\s*\{{(.*)\}}", entry)
    assert found is not None
    return re.sub(r"[{}]", "", found[1])


def _authors(text: str) -> str:
    """Family names: three at most.

    >>> _authors("Kim, Hyunjik and Mnih, Andriy")
    'Kim and Mnih'
    """
    names = [name.split(",")[0] for name in text.split(" and ")]
    return f"{names[0]} et al." if len(names) > 3 else ", ".join(names[:-1]) + f" and {names[-1]}"
