"""Write the page of each paper, and the index of all papers, from stored results.

out/README.md              claims of all papers by verdict, and how much of each paper is reproduced
out/<paper>.md             the page
out/<paper>/<figure>.json  claims, setting, seeds, cost
out/<paper>/<study>.jsonl  results of the networks of a study, from which everything else follows
out/<paper>/<name>.svg     drawings, and the same as .png
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    NotRequired,  # pydantic needs it before Python 3.12
    get_args,
)

from pydantic import Field
from typing_extensions import TypedDict

from unweave.core.bibliography import entries, entry_field
from unweave.core.files import make_folder, write_atomically, write_json
from unweave.core.text import markdown_table, markdown_text
from unweave.studies.drawing import save_figure
from unweave.studies.inventory import Item, inventory, summary
from unweave.studies.texts import SO_FAR, fill
from unweave.studies.workspace import (
    Claim,
    Cost,
    Reproduction,
    Result,
    Verdict,
    Workspace,
    version,
)
from unweave.training.records import check_form

_SIGNS = {
    "pass": "✓ pass",
    "fail": "✗ fail",
    "undecided": "? undecided",
    "not measured yet": "… not measured yet",
    "not comparable": "– not comparable",
}


class _Training(TypedDict):
    """What training the networks of a figure cost."""

    runs: int
    seconds: int
    machines: list[str]
    dates: NotRequired[list[str]]
    versions: NotRequired[list[str]]


class _FigureFacts(TypedDict):
    """The form of the file of facts of a figure."""

    title: str
    captions: dict[str, str]
    claims: list[dict[str, str]]
    setting: str
    seeds: str
    noticed: str
    networks: NotRequired[Annotated[list[int], Field(min_length=2, max_length=2)] | None]
    seconds: int
    trained: int
    found: int
    training: _Training
    machine: str
    date: NotRequired[str]
    version: str


_OUR_CHOICE = re.compile(r"\bour (bound|reading|weight|range)")  # in what is expected
_OURS = "(ours)"  # how statements and titles that are not in a paper begin
_BY_OUR_CHOICE = "of these by our bound"  # passes that depend on it
_TITLE = "# Papers reproduced"
_STATUSES = ("reproduced", "partly", "not reproduced", "not an experiment")
_VERDICTS = """A claim

- **passes** if what we measured agrees with it,
- **fails** if what we measured contradicts it,
- is **undecided** if the evidence allows both answers, or if it misses a bound, range or reading \
that we chose: with another choice it might pass. If the paper only says that a loss is “small”, \
“minor” or “barely” there, we set no bound: any loss leaves that undecided. A pass that rests on \
such a choice of ours is weaker than one that needs none, so the table also counts these,
- is **not measured yet** until all networks that it is about are trained,
- is **not comparable** if our setting differs from the paper's in what the claim is about.

A number that the paper states passes if our whole interval is close to it, and fails if all of it \
is not. If the paper leaves out settings that the number depends on, such as the length of \
training, or has it from a single network, a miss is undecided instead. The best score of many \
networks is one number, which we compare without an interval. How close is close is our choice.

Brackets are 95% intervals: Student's t for means over seeds, Welch's for differences, sorted \
values for medians, and an expanded percentile bootstrap for other statistics \
[Hesterberg2015]. A study says so where it differs. Intervals by Student's t ignore limits: \
those of a mean share, count or entropy can exceed the possible values. If networks have two \
modes, the interval of their mean says little about single networks.

Claims marked “(ours)” are not in the papers, but our own checks. They are not counted here. A \
claim that two papers share, with the same networks, is counted once in the sum."""
_COVERAGE = """Only figures and tables of the papers are counted, not our own controls and \
stand-ins. One is **reproduced** if everything in it was trained or computed and drawn as the \
paper describes, whatever came of its claims, and **partly** if networks or data are missing."""


def write_result(
    reproduction: Reproduction, result: Result, workspace: Workspace, cost: Cost, out: Path
) -> list[Path]:
    """Write the drawings of a figure, and the facts that its page is written from."""
    folder = out / reproduction.paper
    make_folder(folder)
    pictures = [
        path
        for name, figure in result.drawings.items()
        for path in save_figure(figure, folder / f"{reproduction.figure}{name and '-' + name}")
    ]
    facts = {
        "title": reproduction.title,
        "captions": {
            f"{reproduction.figure}{name and '-' + name}": text
            for name, text in result.captions.items()
        },
        "claims": [asdict(claim) for claim in result.claims],
        "setting": result.setting,
        "seeds": result.seeds,
        "noticed": result.noticed,
        "networks": result.networks,
        **workspace.cost_facts(cost, result.used),
        "version": version(),
    }
    path = _facts_path(reproduction, out)
    write_json(path, facts)
    return [*pictures, path]


def write_page(paper: str, figures: Sequence[Reproduction], out: Path) -> Path:
    """Write the page of a paper from the results so far; `figures` may include other papers."""
    own = [each for each in figures if each.paper == paper]
    described: dict[str, Reproduction] = {}  # the first figure with each setting
    sections = []
    for each in own:
        facts = _facts(each, out) if done(each, out) else None
        first = described.setdefault(facts["setting"], each) if facts else each
        sections.append(_section(each, facts, first))
    path = out / f"{paper}.md"
    parts = [
        _head(paper, out),
        *_summary(paper, own, out),
        *_inventory_table(paper, figures, out),
        *sections,
    ]
    write_atomically(path, "\n".join(parts).encode())
    return path


def check_index(out: Path) -> None:
    """Raise if the folder has a README.md that is not an index of papers."""
    path = out / "README.md"
    if path.exists() and not path.read_text(encoding="utf-8").startswith(_TITLE):
        raise ValueError(
            f"{path} is not an index of papers and would be overwritten: choose another folder "
            "with --out"
        )


def write_index(figures: Sequence[Reproduction], out: Path) -> Path:
    """Write README.md: the verdicts on all claims, and how much of each paper is reproduced."""
    check_index(out)
    finished = [each for each in figures if done(each, out)]
    claims = {each: [Claim(**claim) for claim in _facts(each, out)["claims"]] for each in finished}
    theirs = {each: own for each, some in claims.items() if (own := _of_paper(some))}
    once: dict[tuple[str, ...], tuple[Reproduction, Claim]] = {}
    for each, some in theirs.items():
        for claim in some:
            once.setdefault((claim.statement, claim.expected, claim.got), (each, claim))
    columns = [get_args(Verdict)[0], _BY_OUR_CHOICE, *get_args(Verdict)[1:]]
    rows = [
        [f"[{_key(each.paper)}]({each.paper}.md)", f"[{each.title}]({_link(each)})",
         *(str(tally[column] or "") for column in columns)]
        for each, some in theirs.items() for tally in [_tally(some)]
    ]  # fmt: skip
    total = _tally([claim for _, claim in once.values()])
    rows.append(["**all**", "", *(f"**{total[column]}**" for column in columns)])
    papers = [paper for paper in dict.fromkeys(each.paper for each in figures) if inventory(paper)]
    covered = []
    for paper in papers:
        items = [item for item in inventory(paper) if not item.title.startswith(_OURS)]
        tally = Counter(_status(item, figures, out)[0] for item in items)
        name = f"[{_key(paper)}]({paper}.md)" if (out / f"{paper}.md").exists() else _key(paper)
        covered.append([name, *(str(tally[status]) for status in _STATUSES)])
    headings = {
        "fail": "Claims that failed",
        "undecided": "Undecided claims",
        "not measured yet": "Claims not measured yet",
    }
    parts = [
        f"{_TITLE}\n",
        "Written by `unweave reproduce`.\n",
        "## Figures and tables\n",
        _COVERAGE + "\n",
        markdown_table(["paper", *_STATUSES], covered),
        "## Claims\n",
        _VERDICTS + "\n",
        markdown_table(["paper", "figure", *columns], rows),
    ]
    for verdict, heading in headings.items():
        listed = [
            f"- [{_key(each.paper)} {each.figure}]({_link(each)}): {claim.statement}"
            for each, claim in once.values()
            if claim.verdict == verdict
        ]
        parts += [f"## {heading}\n", "\n".join(listed or ["None."]) + "\n"]
    path = out / "README.md"
    write_atomically(path, "\n".join(parts).encode())
    return path


def _of_paper(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that are not checks of our own."""
    return [claim for claim in claims if not claim.statement.startswith(_OURS)]


def _tally(claims: Sequence[Claim]) -> Counter[str]:
    """Count claims by verdict, and the passes that depend on a choice of ours."""
    tally = Counter[str](claim.verdict for claim in claims)
    tally[_BY_OUR_CHOICE] = sum(
        claim.verdict == "pass" and bool(_OUR_CHOICE.search(claim.expected)) for claim in claims
    )
    return tally


def _inventory_table(paper: str, figures: Sequence[Reproduction], out: Path) -> list[str]:
    """List every figure and table of the paper with its status; nothing for your own papers."""
    rows = [
        [item.number, item.title, *_status(item, figures, out, linked=True)]
        for item in inventory(paper)
    ]
    if not rows:
        return []
    return [
        "## All figures and tables of the paper\n",
        markdown_table(["", "title", "status", "what is missing, why, and how to run it"], rows),
    ]


def _status(
    item: Item, figures: Sequence[Reproduction], out: Path, linked: bool = False
) -> tuple[str, str]:
    """Return the status of a figure or table, from the results that exist, and a remark.

    With `linked`, the status links to the results.
    """
    if not item.experiment:
        return _STATUSES[3], item.why
    named = {f"{each.paper}/{each.figure}": each for each in figures}
    finished = [named[name] for name in item.made_by if done(named[name], out)]
    waiting = [named[name] for name in item.made_by if named[name] not in finished]
    commands = [*(_command(each) for each in waiting), *item.commands]
    untrained = [text for each in finished if (text := _untrained(each, out))]
    parts = [*untrained[:1], item.why or item.missing, *(f"`{command}`" for command in commands)]
    text = "<br>".join(filter(None, parts))
    if not finished:
        return _STATUSES[2], text
    status = _STATUSES[1] if waiting or untrained or item.missing else _STATUSES[0]
    return (
        ", ".join(f"[{status}]({_link(each)})" for each in finished) if linked else status
    ), text


def _untrained(reproduction: Reproduction, out: Path) -> str:
    """Say how many networks of a figure are trained, and how to train the others."""
    there, whole = _facts(reproduction, out).get("networks") or (0, 0)
    if there >= whole:
        return ""
    return f"{there:,} of {whole:,} networks are trained; the rest: `{_command(reproduction)}`"


def _link(reproduction: Reproduction) -> str:
    """Return a link to the section of a figure, as GitHub names headings.

    >>> _anchor("Figure 6: the mixture prior, p(z)")
    'figure-6-the-mixture-prior-pz'
    """
    return f"{reproduction.paper}.md#{_anchor(reproduction.title)}"


def _number(reproduction: Reproduction) -> str:
    """Return the beginning of a title: figures 7 and 37."""
    number = reproduction.title.partition(":")[0]
    return number[0].lower() + number[1:]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def done(reproduction: Reproduction, out: Path) -> bool:
    """Return whether a figure has been reproduced."""
    return _facts_path(reproduction, out).exists()


def state(reproduction: Reproduction, out: Path) -> str:
    """Return the progress of a figure: "yes", "25 of 100" networks, or nothing."""
    if not done(reproduction, out):
        return ""
    there, whole = _facts(reproduction, out).get("networks") or (0, 0)
    return "yes" if there >= whole else f"{there:,} of {whole:,}"


def _facts_path(reproduction: Reproduction, out: Path) -> Path:
    return out / reproduction.paper / f"{reproduction.figure}.json"


def _facts(reproduction: Reproduction, out: Path) -> dict[str, Any]:
    path = _facts_path(reproduction, out)
    try:
        facts = check_form(_FigureFacts, json.loads(path.read_bytes().decode()))
        for claim in facts["claims"]:
            Claim(**claim)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} does not hold the facts of a figure ({error}): bring back the file from "
            f"version control, or delete it and run `{_command(reproduction)}`"
        ) from None
    return {**facts}


def _key(paper: str) -> str:
    """Return the key of a paper in the bibliography; your own papers keep their names."""
    return next((key for key in entries() if key.lower() == paper), paper)


def _head(paper: str, out: Path) -> str:
    key = _key(paper)
    if key not in entries():
        return f"# {paper}\n"
    entry = entries()[key]
    choices = (
        " Where the paper leaves settings out, or differs from its released code, "
        "[choices](choices.md) says what we did."
    )
    return (
        f"# {entry_field(entry, 'title')}\n\n"
        f"{_authors(entry_field(entry, 'author'))}, {entry_field(entry, 'year')} [{key}]. "
        f"Written by `unweave reproduce {paper}`. Claims are the paper's unless marked “(ours)”; "
        "verdicts are ours, and [the index](README.md#claims) says what they and the brackets mean."
        f"{choices if (out / 'choices.md').exists() else ''}\n"
    )


def _summary(paper: str, figures: Sequence[Reproduction], out: Path) -> list[str]:
    """Return the main findings, with measured values from the claims; nothing if some are missing.

    In the text {fig5.score[0]} stands for what was measured for the first claim "score" of figure
    5, and {fig5.missing} for how many networks there are, if not all. Several claims of a figure
    have the same name if they differ in the dataset, say.
    """
    measured = {}
    for reproduction in figures:
        if done(reproduction, out):
            found: dict[str, list[str]] = {}
            for claim in _facts(reproduction, out)["claims"]:
                got = claim["got"].removeprefix(SO_FAR)  # the summary says what is missing
                found.setdefault(claim.get("name", ""), []).append(got)
            progress = state(reproduction, out)
            missing = "" if progress == "yes" else f", so far with {progress} networks"
            measured[reproduction.figure] = SimpleNamespace(**found, missing=missing)
    try:
        text = fill(summary(paper), measured)
    except (KeyError, AttributeError, IndexError):
        return []
    return [f"{text}\n"] if text else []


def _command(reproduction: Reproduction) -> str:
    return reproduction.command or f"unweave reproduce {reproduction.paper} {reproduction.figure}"


def _section(reproduction: Reproduction, facts: dict[str, Any] | None, first: Reproduction) -> str:
    """Write the section of a figure; `first` is the one that describes the setting."""
    if facts is None:
        return (
            f"## {reproduction.title}\n\n"
            f"Not reproduced yet: `{_command(reproduction)}` takes {reproduction.cost}.\n"
        )
    setting = facts["setting"].strip()
    if first is not reproduction:
        setting = f"Networks and settings are those of [{_number(first)}](#{_anchor(first.title)})."
    claims = [Claim(**claim) for claim in facts["claims"]]
    paper, title = reproduction.paper, facts["title"]
    pictures = [
        f"![{_alt(title, name.removeprefix(reproduction.figure))}]({paper}/{name}.svg)\n\n"
        f"{text} ([PNG]({paper}/{name}.png))\n"
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
            setting + "\n",
            markdown_table(["the paper's claim", "where", "expected", "got", "verdict"], rows),
            *([*notes, ""] if notes else []),
            *([facts["noticed"].strip() + "\n"] if facts["noticed"] else []),
            f"`{_command(reproduction)}`: {_provenance(facts)}. Seeds: {facts['seeds']}.\n",
        ]
    )


def _alt(title: str, suffix: str) -> str:
    """Describe a drawing by the title of its figure and the suffix of its own name.

    >>> _alt("Figure 2: priors", ""), _alt("Figure 2: priors", "-traversals")
    ('Figure 2: priors', 'Figure 2: priors (traversals)')
    """
    return f"{title} ({suffix[1:]})" if suffix else title


def _provenance(facts: dict[str, Any]) -> str:
    """Say where and when the networks were trained and the figure was drawn, and by what."""
    training, count = facts["training"], facts["found"] + facts["trained"]
    parts = []
    machines, versions, [here, by] = (
        [markdown_text(each) for each in names]
        for names in (training["machines"], training.get("versions", []),
                      (facts["machine"], facts["version"]))
    )  # fmt: skip
    if count:
        networks = f"network{'s' * (count != 1)}"
        stored = f"stored {networks}, trained" if facts["found"] == count else f"{networks} trained"
        parts.append(f"{count:,} {stored}")
        if training["runs"] == count and machines:
            parts[0] += f" in {training['seconds']:,} seconds on {_listed(machines)}"
        if dates := training.get("dates"):
            parts[0] += f", {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"
        if versions:
            parts[0] += f", by unweave {' and '.join(versions)}"
    seconds = f" in {facts['seconds']:,} seconds" if facts["seconds"] >= 10 else ""
    date = f" on {facts['date']}" if "date" in facts else ""
    drawn = f"drawn{date}{seconds} on {here} by unweave {by}"
    return "; ".join([*parts, drawn])


def _listed(machines: Sequence[str]) -> str:
    """List machines, and numbers of threads together.

    >>> _listed(["1 CPU thread", "2 CPU threads", "NVIDIA H200"])
    '1 or 2 CPU threads and NVIDIA H200'
    """
    threads = [name.split()[0] for name in machines if re.fullmatch(r"\d+ CPU threads?", name)]
    if len(threads) < 2:
        return " and ".join(machines)
    others = [name for name in machines if not re.fullmatch(r"\d+ CPU threads?", name)]
    return " and ".join([f"{' or '.join(threads)} CPU threads", *others])


def _authors(text: str) -> str:
    """Return the family names: three at most.

    >>> _authors("Kim, Hyunjik and Mnih, Andriy")
    'Kim and Mnih'
    """
    names = [name.split(",")[0] for name in text.split(" and ")]
    return f"{names[0]} et al." if len(names) > 3 else ", ".join(names[:-1]) + f" and {names[-1]}"
