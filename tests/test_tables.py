"""Tables of the command line: at any width, everything is printed, and numbers stay whole."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL
from stored_files import stored_scores, write_worker
from unweave.cli.score_output import scores_table
from unweave.core import console
from unweave.core.console import lay_out_table
from unweave.metrics import Score, Scores
from unweave.papers import FIGURES
from unweave.studies.workspace import Claim
from unweave.training.store import RunFolder, ScoreFacts

WIDTHS = (60, 80)
ASKED = ("--metrics", "mig,sap,dci/eastwood2018", "--interval", 0.95, "--null", "--resamples", 3)
COMMANDS = {
    "runs": ["runs", "--columns", "distortion,rate,mig,objective.beta"],
    "compare": ["compare", "RUNS"],
    "evaluate one": ["evaluate", "RUN", *ASKED],
    "evaluate some": ["evaluate", "RUNS", "--metrics", "mig,sap"],
    "score": ["score", "codes.npz", *ASKED],
    "status": ["status"],
    "estimate": ["estimate", "seed=0..9", "--seconds", 40, "--workers", 3, "--price", 2],
    "data list": ["data", "list"],
    "data info": ["data", "info", "shapes2d"],
    "presets": ["presets"],
    "fields": ["fields", "objective=factor-vae"],
    "reproduce": ["reproduce"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Four trained runs, a worker, and a table of codes."""
    root = tmp_path_factory.mktemp("store")
    fields = dict(network=uw.MLP((8,)), latent=uw.Gaussian(3), batch_size=16, steps=6)
    for objective in (uw.BetaVAE(beta=4.0), uw.BetaTCVAE()):
        uw.fit(SMALL, objective=objective, seed=range(2), store=root / "runs", progress=False,
               **fields)  # fmt: skip
    for path in (root / "runs").iterdir():
        scores = stored_scores({"mig/chen2018": 0.123, "mig/locatello2019": 0.456})
        RunFolder(path).write_scores(ScoreFacts("all", 100, "mean", step=6), scores)
    worker = {"steps": 30_000, "step": 1_234, "steps_per_second": 98.7, "runs": ["ab" * 6] * 3}
    write_worker(root / "runs", "other.host-12345678-17-99", **worker)
    factors = np.argwhere(np.ones((4, 5, 6)))
    np.savez(root / "codes.npz", codes=factors[:, ::-1] * 1.1, factors=factors)
    return root


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_number_is_printed_at_every_width(command, store, unweave, monkeypatch):
    monkeypatch.chdir(store)
    runs = sorted(path.name for path in (store / "runs").iterdir() if (path / "run.json").exists())
    words = [word for each in COMMANDS[command]
             for word in {"RUN": runs[:1], "RUNS": runs}.get(each, [each])]  # fmt: skip

    def printed(width):
        monkeypatch.setattr(console.out, "_width", width)
        code, out, err = unweave(*words)
        assert code == 0, err
        assert "…" not in out
        text = re.sub(r"\d+ s ago", "", out)  # which changes
        return Counter(re.findall(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?![\w.])", text))

    wide = printed(400)
    for width in WIDTHS:
        assert not wide - printed(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_claims_of_papers_fit_and_stay_together(width, unweave, monkeypatch, tmp_path):
    """Claims and results are prose with numbers in it, often at its beginning."""
    files = (Path(__file__).parents[1] / "docs" / "papers").glob("*/*.json")
    claims = [Claim(**claim) for path in files
              for claim in json.loads(path.read_text()).get("claims", [])]  # fmt: skip
    assert len(claims) > 100
    monkeypatch.setattr("unweave.papers.reproduce", lambda *_: claims)
    monkeypatch.setattr(console.out, "_width", width)
    code, out, err = unweave("reproduce", "esmaeili2019", "table2", "--out", tmp_path)
    assert code == 0, err
    head, rule, *lines = out.strip("\n").splitlines()[:-2]
    assert head.split() == ["claim", "verdict", "got"]  # all of them beside each other
    assert max(map(len, [rule, *lines])) <= width
    verdict, got = head.index("verdict"), head.index("got")
    statements, verdicts, results = (
        "\n".join(line[column].strip() for line in lines)
        for column in (slice(verdict), slice(verdict, got), slice(got, None))
    )
    every = [" ".join(getattr(each, name) for each in claims)
             for name in ("statement", "verdict", "got")]  # fmt: skip
    assert "".join(statements.split()) == "".join(every[0].split())
    assert verdicts.split() == every[1].split()
    assert results.split() == every[2].split()
    interval = r"\[[-\d., ]+\]"
    assert re.findall(interval, results) == re.findall(interval, every[2])


def test_nothing_is_printed_below_a_row_without_a_text():
    """A damaged run had a line of spaces below its row."""
    (block,) = lay_out_table(["run", "seed"], [["a6", "0"], ["b7", "1"]], 80, ["", "short"])
    assert block.body[1:] == [" a6   0", " b7   1", "   short"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_text_below_a_row_has_the_whole_width(width):
    text = "factor-vae, gamma 35; Gaussian 10; photos/ size=64 channels=1 split=train, and more"
    columns, rows = ["run", "seed", "rate"], [["3a99a853023f", "0", "5.01"], ["a6", "1", "2.77"]]
    (block,) = lay_out_table(columns, rows, width, [text, "short"])
    first = [line for line in block.body if line.startswith(" 3a99a853023f")]
    assert block.head == [" run           seed  rate"]
    assert len(first) == 1
    below = block.body[block.body.index(first[0]) + 1 : -2]
    assert " ".join(line.strip() for line in below) == text
    assert all(line.startswith("   ") and len(line) <= width for line in below)
    assert [line.split() for line in block.body[-2:]] == [["a6", "1", "2.77"], ["short"]]


def test_no_cell_of_the_lists_of_runs_and_figures_is_wrapped(store, unweave, monkeypatch):
    """In 80 columns, texts stood in narrow columns of up to five lines."""
    monkeypatch.chdir(store)
    monkeypatch.setattr(console.out, "_width", 80)
    code, out, err = unweave("runs", "--columns", "distortion,rate,mig,objective.beta")
    assert (code, err) == (0, "")
    table = out.partition("─\n")[2].strip("\n").splitlines()
    assert [len(line.split()) > 3 and line[1] != " " for line in table] == [True, False] * 4
    assert [line.split(",")[0].strip() for line in table[1::2]] == ["beta-vae"] * 2 + [
        "beta-tcvae"
    ] * 2
    code, out, err = unweave("reproduce", "--out", "nowhere")
    named = [line for line in out.partition("─\n")[2].splitlines() if line[:2].strip()]
    assert [" ".join(line.split()[:2]) for line in named] == [
        f"{f.paper} {f.figure}" for f in FIGURES
    ]
    assert all(f.cost in line for f, line in zip(FIGURES, named, strict=True))


def test_tables_fit_and_leave_nothing_out():
    """Random tables: words and numbers stay whole, and every line fits if each of them does."""
    rng = np.random.default_rng(0)
    words = ["mig/chen2018", "a", "an objective", "of_many_terms/2019", "long and longer still"]
    for _ in range(100):
        count, width = int(rng.integers(1, 9)), int(rng.integers(40, 120))
        columns = ["metric", *(str(rng.choice(words)) for _ in range(count))]
        rows = [[str(rng.choice(words)),
                 *(f"{rng.normal() * 1000:,.4f}" if column % 2 else str(rng.choice(words))
                   for column in range(count))] for _ in range(4)]  # fmt: skip
        blocks = lay_out_table(columns, rows, width)
        lines = [line for block in blocks for line in (*block.head, *block.body)]
        assert max(map(len, lines)) <= width
        found = Counter(word for block in blocks for line in block.body for word in line.split())
        assert not Counter(cell for row in rows for cell in row[2::2]) - found
        text = re.sub(r"\s", "", "".join(lines))
        for row in rows:
            assert all(piece in text for cell in row for piece in re.split(r"[\s/_]+", cell))


def test_a_table_that_fits_is_not_wrapped():
    (block,) = lay_out_table(["metric", "value"], [["mig/chen2018", "0.25"]], 20)
    assert block.body[1:] == [" mig/chen2018  0.25"]
    first, second = lay_out_table(["run", "a", "b"], [["0123456789ab", "12.5", "1,000"]], 20)
    assert first.body[1:] == [" 0123456789ab  12.5"]
    assert second.body[1:] == [" 0123456789ab  1,000"]


def test_reasons_are_notes_above_the_table_and_a_value_is_shown_once():
    """DCI is its disentanglement, which is no row of its own."""
    components = {"completeness": 0.5, "informativeness": 0.75}
    parts = {"disentanglement": 0.25, **components}
    details = {"no evidence": "only 0.010 above shuffled factors, which is too little"}
    score = Score(
        "dci", "a", 0.25, parts, details=details, interval=(0.25, 0.25), null=0.24,
        components=components,
    )  # fmt: skip
    scores = Scores({score.key: score})
    assert scores.columns() == ["metric", "value", "interval", "null"]
    assert [row[:2] for row in scores.rows()] == [
        ["dci/a", "0.2500"], ["  completeness", "0.5000"], ["  informativeness", "0.7500"]
    ]  # fmt: skip
    assert scores.rows()[0][2:] == ["0.2500 to 0.2500", "0.2400"]
    for text in (repr(scores), scores._repr_html_()):
        assert "no evidence: only 0.010 above shuffled factors, which is too little (dci/a)" in text
        assert text.index("the value is the same in every resample") < text.index("0.2500")


def test_one_reason_is_one_note_however_many_runs_and_scores_it_applies_to():
    def scores(names, reason):
        return Scores({name: Score(name, "", 1.0, details={"no evidence": reason})
                       for name in names})  # fmt: skip

    one, few = "only one factor can be scored", "24 rows are too few"
    by_run = {"a": scores("pqrstu", one), "b": scores("pqrstu", one), "c": scores("qp", few)}
    assert scores_table(by_run).notes == [
        f"no evidence: {one} (all scores in 2 of 3 runs)",
        f"no evidence: {few} (q, p in 1 of 3 runs)",
    ]
