"""The page of each paper and the index of all of them, written from stored results.

out/README.md              claims of all papers by verdict, and how much of each paper is reproduced
out/<paper>.md             the page
out/<paper>/<figure>.json  claims, setting, seeds, time
out/<paper>/<study>.jsonl  results of the networks of a study; all else follows from it
out/<paper>/<name>.svg     drawings, and the same as .png
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import unweave
from unweave.core.bibliography import entries, entry_field
from unweave.core.console import PAPERS
from unweave.core.files import write_atomically, write_json
from unweave.studies.drawing import save
from unweave.studies.inventory import Item, inventory
from unweave.studies.workspace import Claim, Cost, Reproduction, Result, Verdict, Workspace

_SIGNS = {
    "pass": "✓ pass",
    "fail": "✗ fail",
    "undecided": "? undecided",
    "not comparable": "– not comparable",
}
_TITLE = "# Papers reproduced"
_STATUSES = ("reproduced", "partly", "not reproduced", "not an experiment")
_VERDICTS = """A claim

- **passes** if what we measured agrees with it,
- **fails** if what we measured contradicts it,
- is **undecided** if the evidence allows both answers, or if another choice of ours (a bound, a \
range, a reading of the text) could change the verdict,
- is **not comparable** if our setting differs from the paper's in what the claim is about.

Claims marked “(ours)” are not in the papers: they are our own checks, counted like the others."""


def write_result(
    made: Reproduction, result: Result, workspace: Workspace, cost: Cost, out: Path
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
        "networks": result.networks,
        **workspace.spent(cost),
        "version": unweave.__version__,
    }
    path = _place(made, out)
    write_json(path, facts)
    return [*pictures, path]


def write_page(paper: str, figures: Sequence[Reproduction], out: Path) -> Path:
    """Write the page of a paper from the results so far; `figures` may be of other papers too."""
    sections = [
        _section(made, _facts(made, out), out)
        if done(made, out)
        else f"## {made.title}\n\nNot reproduced yet: `{_command(made, out)}` takes {made.cost}.\n"
        for made in figures
        if made.paper == paper
    ]
    place = out / f"{paper}.md"
    parts = [_head(paper), *_inventory_table(paper, figures, out), *sections]
    write_atomically(place, "\n".join(parts).encode())
    return place


def check_index(out: Path) -> None:
    """Raise if the folder has a README.md that is not an index of papers, and must not be lost."""
    place = out / "README.md"
    if place.exists() and not place.read_text(encoding="utf-8").startswith(_TITLE):
        raise ValueError(
            f"{place} would be overwritten by the index of papers, but is another text: give "
            "another folder by --out"
        )


def write_index(figures: Sequence[Reproduction], out: Path) -> Path:
    """Write README.md: the verdicts on all claims, and how much of each paper is reproduced."""
    check_index(out)
    made = [each for each in figures if done(each, out)]
    claims = {each: [Claim(**claim) for claim in _facts(each, out)["claims"]] for each in made}
    tallies = {each: Counter(claim.verdict for claim in some) for each, some in claims.items()}
    verdicts = get_args(Verdict)
    rows = [
        [f"[{_key(each.paper)}]({each.paper}.md)", f"[{each.title}]({_link(each)})",
         *(str(tally[verdict] or "") for verdict in verdicts)]
        for each, tally in tallies.items()
    ]  # fmt: skip
    total = sum(tallies.values(), Counter[str]())
    rows.append(["**all**", "", *(f"**{total[verdict]}**" for verdict in verdicts)])
    papers = [paper for paper in dict.fromkeys(each.paper for each in figures) if inventory(paper)]
    covered = []
    for paper in papers:
        tally = Counter(_status(item, figures, out)[0] for item in inventory(paper))
        name = f"[{_key(paper)}]({paper}.md)" if (out / f"{paper}.md").exists() else _key(paper)
        covered.append([name, *(str(tally[status]) for status in _STATUSES)])
    named = {"fail": "Claims that failed", "undecided": "Undecided claims"}
    parts = [
        f"{_TITLE}\n",
        "Written by `unweave reproduce`.\n",
        "## Figures and tables\n",
        _table(["paper", *_STATUSES], covered),
        "## Claims\n",
        _VERDICTS + "\n",
        _table(["paper", "figure", *verdicts], rows),
    ]
    for verdict, heading in named.items():
        listed = [
            f"- [{_key(each.paper)} {each.figure}]({_link(each)}): {claim.statement}"
            for each, some in claims.items()
            for claim in some
            if claim.verdict == verdict
        ]
        parts += [f"## {heading}\n", "\n".join(listed or ["None."]) + "\n"]
    place = out / "README.md"
    write_atomically(place, "\n".join(parts).encode())
    return place


def _inventory_table(paper: str, figures: Sequence[Reproduction], out: Path) -> list[str]:
    """Every figure and table of the paper with its status; nothing for papers of your own."""
    rows = [
        [item.number, item.title, *_status(item, figures, out, linked=True)]
        for item in inventory(paper)
    ]
    if not rows:
        return []
    return [
        "## All figures and tables of the paper\n",
        _table(["", "title", "status", "what is missing, why, and how to run it"], rows),
    ]


def _status(
    item: Item, figures: Sequence[Reproduction], out: Path, linked: bool = False
) -> tuple[str, str]:
    """The status of a figure or table, by the results that exist, and what there is to say of it.

    `linked` puts links to the results into the status.
    """
    if not item.experiment:
        return _STATUSES[3], item.why
    named = {f"{each.paper}/{each.figure}": each for each in figures}
    made = [named[name] for name in item.made_by if done(named[name], out)]
    waiting = [named[name] for name in item.made_by if named[name] not in made]
    commands = [*(_command(each, out) for each in waiting), *item.commands]
    untrained = [text for each in made if (text := _untrained(each, out))]
    parts = [*untrained[:1], item.why or item.missing, *(f"`{command}`" for command in commands)]
    text = "<br>".join(filter(None, parts))
    if not made:
        return _STATUSES[2], text
    status = _STATUSES[1] if waiting or untrained or item.missing else _STATUSES[0]
    return (", ".join(f"[{status}]({_link(each)})" for each in made) if linked else status), text


def _untrained(made: Reproduction, out: Path) -> str:
    """How many networks a figure lacks that it should show, and how to train them."""
    there, whole = _facts(made, out).get("networks") or (0, 0)
    if there >= whole:
        return ""
    return f"{there} of {whole} networks are trained; the others: `{_command(made, out)}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _link(made: Reproduction) -> str:
    """Where the section of a figure is, as GitHub names headings.

    >>> _anchor("Figure 6: the mixture prior, p(z)")
    'figure-6-the-mixture-prior-pz'
    """
    return f"{made.paper}.md#{_anchor(made.title)}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def done(made: Reproduction, out: Path) -> bool:
    """Whether a figure has been made."""
    return _place(made, out).exists()


def state(made: Reproduction, out: Path) -> str:
    """How far a figure is: "yes", "25 of 100" networks, or nothing."""
    if not done(made, out):
        return ""
    there, whole = _facts(made, out).get("networks") or (0, 0)
    return "yes" if there >= whole else f"{there} of {whole}"


def _place(made: Reproduction, out: Path) -> Path:
    return out / made.paper / f"{made.figure}.json"


def _facts(made: Reproduction, out: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(_place(made, out).read_text(encoding="utf-8"))
    return facts


def _key(paper: str) -> str:
    """The key of a paper in the bibliography; a paper of your own keeps its name."""
    return next((key for key in entries() if key.lower() == paper), paper)


def _head(paper: str) -> str:
    key = _key(paper)
    if key not in entries():  # of your own
        return f"# {paper}\n"
    entry = entries()[key]
    return (
        f"# {entry_field(entry, 'title')}\n\n"
        f"{_authors(entry_field(entry, 'author'))}, {entry_field(entry, 'year')} [{key}]. "
        f"Written by `unweave reproduce {paper}`. Claims are the paper's unless marked “(ours)”; "
        "verdicts are ours, and [the index](README.md#claims) says what they mean.\n"
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
    rows = [
        [claim.statement, claim.where, claim.expected, claim.got, _SIGNS[claim.verdict]]
        for claim in claims
    ]
    notes = [f"- **{claim.statement}** {claim.note}" for claim in claims if claim.note]
    return "\n".join(
        [
            f"## {facts['title']}\n",
            *pictures,
            facts["setting"].strip() + "\n",
            _table(["the paper's claim", "where", "expected", "got", "verdict"], rows),
            *([*notes, ""] if notes else []),
            *([facts["noticed"].strip() + "\n"] if facts["noticed"] else []),
            f"`{_command(made, out)}`: {_time(facts)}. Seeds: {facts['seeds']}. "
            f"unweave {facts['version']}.\n",
        ]
    )


def _time(facts: dict[str, Any]) -> str:
    text, training = f"{_seconds(facts)} on {facts['machine']}", facts["training"]
    parts = [f"{facts['trained']} networks trained"] if facts["trained"] else []
    if facts["found"]:
        parts += [f"{facts['found']} networks from earlier results"]
    if facts["found"] and training["runs"] == facts["found"] + facts["trained"]:
        machines = " and ".join(training["machines"])
        parts += [f"training all of them: {training['seconds']:,} seconds on {machines}"]
    return f"{text} ({', '.join(parts)})" if parts else text


def _seconds(cost: dict[str, Any]) -> str:
    return f"{cost['seconds']:,} seconds, {cost['cpu_seconds']:,} of CPU time"


def _authors(text: str) -> str:
    """Family names: three at most.

    >>> _authors("Kim, Hyunjik and Mnih, Andriy")
    'Kim and Mnih'
    """
    names = [name.split(",")[0] for name in text.split(" and ")]
    return f"{names[0]} et al." if len(names) > 3 else ", ".join(names[:-1]) + f" and {names[-1]}"
