"""Pages of the papers: verdicts, the inventory of figures and tables, and the index of claims."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import get_args

import pytest
import typer

from unweave.cli.main import app
from unweave.core.bibliography import entries
from unweave.core.console import PAPERS
from unweave.papers import FIGURES, Claim, chosen, write_pages
from unweave.presets import preset
from unweave.studies.inventory import Item, inventory, summary
from unweave.studies.page import write_page
from unweave.studies.workspace import Verdict, version

PAGES = Path(__file__).parent.parent / "docs/papers"
PAPER_KEYS = list(dict.fromkeys(made.paper for made in FIGURES))


def test_committed_pages_are_what_the_code_writes_from_committed_results(tmp_path, monkeypatch):
    """If this fails, run `unweave reproduce --pages-only --out docs/papers`."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAGES, "docs/papers", ignore=shutil.ignore_patterns("*.md", "*.png", "*.svg"))
    others = {"choices.md"}  # written manually; the pages link to it if it is there
    shutil.copy(PAGES / "choices.md", "docs/papers")
    assert set(PAPER_KEYS) <= {key.lower() for key in entries()}
    written = write_pages(PAPER_KEYS, "docs/papers")
    assert {path.name for path in written} == {path.name for path in PAGES.glob("*.md")} - others
    for path in written:
        assert path.read_text() == (PAGES / path.name).read_text(), path.name


def test_damaged_facts_of_a_figure_are_named(tmp_path):
    made = next(each for each in FIGURES if (PAGES / each.paper / f"{each.figure}.json").exists())
    path = tmp_path / made.paper / f"{made.figure}.json"
    path.parent.mkdir()
    facts = json.loads((PAGES / made.paper / path.name).read_text())
    broken = [{**facts, "claims": [{"got": "1"}]}, {**facts, "networks": [1]}, {}, []]
    texts = [json.dumps(each).encode() for each in broken]
    for content in (*texts, b"\xff", b"", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path.name} does not hold the facts of a figure"):
            write_page(made.paper, [made], tmp_path)


def stored_claims():
    for path in sorted(PAGES.glob("*/*.json")):
        for claim in json.loads(path.read_text())["claims"]:
            yield f"{path.parent.name} {path.stem}", Claim(**claim)


def by_our_choice(claim):
    return bool(re.search(r"\bour (bound|reading|weight|range)", claim.expected))


def test_no_claim_fails_by_a_single_bound_of_our_own():
    for figure, claim in stored_claims():
        if by_our_choice(claim) and "; contradicted if " not in claim.expected:
            assert claim.verdict != "fail", (figure, claim.statement)


def test_the_index_counts_every_claim_of_a_paper_once():
    text = (PAGES / "README.md").read_text()
    total = re.search(r"\| \*\*all\*\* \|.*", text)[0]
    passes, ours, *others = (int(number) for number in re.findall(r"\*\*(\d+)\*\*", total))
    claims = [claim for _, claim in stored_claims() if not claim.statement.startswith("(ours)")]
    once = list({(claim.statement, claim.expected, claim.got): claim for claim in claims}.values())
    assert len(once) < len(claims)  # the two papers on the pinwheel share some
    verdicts = [claim.verdict for claim in once]
    assert [passes, *others] == [verdicts.count(each) for each in get_args(Verdict)]
    assert ours == sum(claim.verdict == "pass" for claim in once if by_our_choice(claim)) > 0
    headings = ("Claims that failed", "Undecided claims", "Claims not measured yet")
    lists = [text.partition(f"## {heading}\n")[2].partition("## ")[0] for heading in headings]
    for listed, verdict in zip(lists, ("fail", "undecided", "not measured yet"), strict=True):
        found = sorted(re.findall(r"\): (.*)", listed))
        assert found == sorted(claim.statement for claim in once if claim.verdict == verdict)
    for row in re.findall(r"\| \[\w+\]\(\w+\.md\) \| \[.*", text):
        assert re.search(r"\| \d", row), row  # no figure without claims of the paper


def numbers_of(paper, kind):
    found = [item.number.removeprefix(kind) for item in inventory(paper)
             if item.number.startswith(kind)]  # fmt: skip
    assert len(found) == len(set(found))
    return {1 if each == "I" else int(each) for each in found}


@pytest.mark.parametrize(
    ("paper", "figures", "tables"),
    [("kim2018", 40, 6), ("mathieu2019", 6, 1), ("mathieu2018", 3, 1), ("sikka2019", 3, 1),
     ("esmaeili2019", 11, 5)],
)  # fmt: skip
def test_the_inventory_has_every_figure_and_table_of_the_paper(paper, figures, tables):
    assert numbers_of(paper, "Figure ") == set(range(1, figures + 1))
    assert numbers_of(paper, "Table ") == set(range(1, tables + 1))


def test_every_reproduction_is_in_an_inventory():
    named = {name for paper in PAPER_KEYS for item in inventory(paper) for name in item.made_by}
    assert named == {f"{made.paper}/{made.figure}" for made in FIGURES}


def test_every_command_of_an_inventory_parses():
    group = typer.main.get_command(app)
    for paper in PAPER_KEYS:
        for item in inventory(paper):
            for text in item.commands:
                program, name, *arguments = shlex.split(text)
                assert program == "unweave"
                command = group.commands[name]
                with command.make_context(name, arguments) as context:
                    name = context.params["source"]
                    assert name.split("/")[0] == paper, text
                    assert preset(name).runs(context.params["assignments"] or ()), text


def test_an_item_needs_a_reproduction_or_a_reason():
    with pytest.raises(ValueError, match=r"Figure 4: expected made_by, or why and commands"):
        Item("Figure 4", "scores", why="No time.")


def counted(index):
    """How many figures and tables of Kim and Mnih have each status."""
    row = re.search(r"\| \[Kim2018\]\(kim2018.md\) \|( \d+ \|){4}", index)[0]
    return [int(number) for number in re.findall(r" (\d+) ", row)]


def test_the_status_of_a_figure_follows_from_stored_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAGES / "kim2018", PAPERS / "kim2018")
    page, index = (path.read_text() for path in write_pages(["kim2018"], PAPERS))
    assert "[partly](kim2018.md#figure-3-where-the-older-metric-fails)" in page
    whole, partly, nothing, _ = counted(index)
    assert whole + partly + nothing == 38  # of the paper; three of ours are not counted
    (PAPERS / "kim2018/fig3.json").unlink()
    page, index = (path.read_text() for path in write_pages(["kim2018"], PAPERS))
    assert "[partly](kim2018.md#figure-3-where" not in page
    assert "<br>`unweave reproduce kim2018 fig3` |" in page
    assert counted(index)[1:3] == [partly - 1, nothing + 1]


def test_pages_only_rewrites_pages_from_the_command_line(unweave, tmp_path):
    shutil.copytree(PAGES / "sikka2019", tmp_path / "sikka2019")
    code, out, _ = unweave("reproduce", "sikka2019", "--pages-only", "--out", tmp_path)
    assert (code, out.count("page: ")) == (0, 2)
    assert {path.name for path in tmp_path.glob("*.md")} == {"README.md", "sikka2019.md"}
    code, _, err = unweave("reproduce", "sikka2019", "fig1", "--pages-only", "--out", tmp_path)
    assert (code, "name no figures" in " ".join(err.split())) == (2, True)


def test_pictures_of_a_page_have_descriptions_of_their_own():
    for path in PAGES.glob("*.md"):
        described = re.findall(r"!\[(.*?)\]", path.read_text())
        assert len(described) == len(set(described)), path.name


def test_another_readme_is_not_overwritten(unweave, tmp_path):
    (tmp_path / "README.md").write_text("# Mine\n")
    for arguments in (["sikka2019", "fig1"], ["--pages-only"]):
        code, _, err = unweave("reproduce", *arguments, "--out", tmp_path)
        assert (code, "choose another folder with --out" in " ".join(err.split())) == (2, True)
    assert (tmp_path / "README.md").read_text() == "# Mine\n"


def test_pages_have_no_phrases_that_templates_double():
    for path in PAGES.glob("*.md"):
        text = path.read_text()
        for doubled in (r"(\S+ =) \1", r"\bso far (?!with )[a-z]", r"\bby (so|as) ", r"-0\.0+\b"):
            assert not (found := re.search(f".*{doubled}.*", text)), (path.name, found[0])


def test_links_lead_to_headings():
    for path in PAGES.glob("*.md"):
        for page, anchor in re.findall(r"\]\((\w+\.md)#([^)]+)\)", path.read_text()):
            headings = re.findall(r"^#+ (.*)$", (PAGES / page).read_text(), re.M)
            # As GitHub names headings: lower case, without punctuation, hyphens for spaces.
            names = ["".join(c for c in h.lower() if c.isalnum() or c in "-_ ") for h in headings]
            assert anchor in [name.replace(" ", "-") for name in names], (path.name, anchor)


def test_a_page_lists_figures_that_are_not_reproduced_yet(tmp_path, monkeypatch):
    others = chosen("sikka2019")[1:]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAGES / "sikka2019", PAPERS / "sikka2019")
    for made in others:
        (PAPERS / "sikka2019" / f"{made.figure}.json").unlink(missing_ok=True)
    text = write_page("sikka2019", FIGURES, PAPERS).read_text()
    assert text.count("Not reproduced yet") == len(others)
    assert all(f"`unweave reproduce sikka2019 {made.figure}` takes" in text for made in others)


def test_every_committed_result_says_what_produced_it():
    assert re.match(r"\d+\.\d+\.\d+( \(commit [0-9a-f]{7,}.*\))?$", version())
    for path in PAGES.glob("*.md"):
        text = path.read_text()
        assert " 0 seconds" not in text, path.name
        assert "--out docs/papers" not in text, path.name


@pytest.mark.parametrize("paper", PAPER_KEYS)
def test_a_page_starts_with_its_main_findings(paper):
    head = (PAGES / f"{paper}.md").read_text().partition("## All figures")[0]
    assert len(re.findall(r"\[-?[\d.]+, -?[\d.]+\]", head)) >= 1  # with intervals


@pytest.mark.parametrize("paper", PAPER_KEYS)
def test_a_summary_says_which_claim_each_of_its_numbers_belongs_to(paper):
    """Claims about several datasets share a name, so a name alone would show the wrong number."""
    named = re.findall(r"\{(\w+)\.(\w+)(.*?)\}", summary(paper))
    for figure, name, index in (each for each in named if each[1] != "missing"):
        claims = json.loads((PAGES / paper / f"{figure}.json").read_text())["claims"]
        same = [claim for claim in claims if claim["name"] == name]
        assert int(index.strip("[]")) < len(same), f"{figure}.{name}{index}"


# The verdicts that sentences of the summaries rely on. If one changes, rewrite its sentence.
SUMMARISED = {
    "sikka2019": {
        "fig1.likelihood": "fail", "fig1.mie": "pass", "fig1.tie": "pass", "fig2.tie": "pass",
        "fig3.tie[0]": "pass", "fig2.theory": "undecided", "fig2.tie_falls": "fail",
        "fig3.tie_falls": "undecided", "orders.falls[0]": "pass", "orders.falls[1]": "pass",
    },
    "mathieu2019": {
        "fig2.better[0]": "not measured yet", "fig2.better[1]": "not measured yet",
        "fig3.overlap": "pass", "fig3.match": "pass", "fig3.match_beyond": "fail",
        "fig4.sparse_prior": "pass", "fig4.regularised": "pass", "fig4.undivided": "undecided",
        "fig5.anisotropic": "pass", "fig5.student": "pass", "fig5.trained": "undecided",
        "appc.large": "pass",
    },
    "mathieu2018": {
        "fig2.overlap": "pass", "fig2.match": "pass", "fig2.match_beyond": "fail",
    },
    "kim2018": {
        "fig5.higher_score": "undecided", "fig5.factor_error": "fail", "fig3.older": "pass",
        "fig4.better_than_vae[0]": "pass", "fig18.negative": "pass", "fig18.stable": "pass",
        "fig7.decreases": "not measured yet", "initial-weights.stated[1]": "fail",
    },
    "esmaeili2019": {
        "table2.outperforms[0]": "undecided", "table2.outperforms[1]": "undecided",
        "fig9.reconstructs[0]": "pass", "fig9.reconstructs[1]": "pass", "fig9.extracts[0]": "pass",
        "fig9.extracts[1]": "pass", "fig3.prior": "pass", "fig3.smaller": "pass",
        "fig3.information": "undecided", "fig3.likelihood": "pass", "fig3.mismatch": "pass",
        "fig3.ignores": "not comparable", "fig6.prunes": "pass", "fig6.decreases": "undecided",
        "fig7.captures": "undecided", "fig11.fashion": "undecided", "fig11.digits": "undecided",
    },
}  # fmt: skip


@pytest.mark.parametrize("paper", PAPER_KEYS)
def test_a_summary_is_rewritten_when_a_verdict_changes(paper):
    for name, verdict in SUMMARISED[paper].items():
        figure, claim, index = re.fullmatch(r"([\w-]+)\.(\w+)(?:\[(\d)\])?", name).groups()
        claims = json.loads((PAGES / paper / f"{figure}.json").read_text())["claims"]
        same = [each["verdict"] for each in claims if each["name"] == claim]
        assert same[int(index or 0)] == verdict, f"{paper} {name}: rewrite its sentence"
