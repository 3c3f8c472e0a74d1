"""Names from files are text: no markup, no control sequences, no formulas, wherever they end."""

import csv
import io
import re

import numpy as np
import pytest

import unweave as uw
from fuzzing import is_clean
from unweave.core.console import PlainConsole
from unweave.core.html import html_table
from unweave.core.text import csv_text, one_line, unquoted, visible
from unweave.data.files.csv_text import read_csv

pytestmark = pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")

NAMES = [
    "s[/b]", "s[red]x", "[bold]", ":smile:", "a\\[b]", "\x1b[31mred", "\x9b2J", "bell\x07", "a\rb",
    "\u202egnp.exe\u2066", "\u200fx", "\udcff", "\u2028", "x\x00y", "=1+1", "+1", "-x", "@sum",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_printed_as_it_is_and_without_control_characters(name):
    text = io.StringIO()
    console = PlainConsole(file=text, force_terminal=True, color_system=None, width=80)
    console.print(name)
    console.print_table(["name", name], [[name, name]])
    console.write(name)
    assert is_clean(text.getvalue())
    assert text.getvalue().count(visible(name)) == 5
    assert "[" not in name or name.count("[") == visible(name).count("[")
    assert is_clean(str(html_table([name], [[name]], name)))
    assert is_clean(one_line(f"{name}\n{name}"))


@pytest.mark.parametrize("letters", ["naïve", "日本語", "عربي", "emoji 👩‍👩‍👧", "tab\tand\nline"])
def test_text_of_any_language_stays_as_it_is(letters):
    assert visible(letters) == letters


def test_csv_cells_are_no_formulas_and_come_back(tmp_path):
    numbers = ["-1.5", "+2", "1e-3", "-inf"]
    text = csv_text(["name", *NAMES], [[name, *[-0.5] * len(NAMES)] for name in NAMES + numbers])
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not [c for c in cells if re.match(r"[=+\-@\t\r]", c) and not is_number(c)]
    assert {"-1.5", "+2", "1e-3", "-0.5"} <= set(cells)
    path = tmp_path / "names.csv"
    path.write_text(text, encoding="utf-8")
    read = read_csv(path)
    assert read.names == ["name", *map(visible, NAMES)]
    assert list(read.columns[0]) == [*map(visible, NAMES), *numbers]
    assert unquoted("'quoted'") == "'quoted'"


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.usefixtures("quick_scores")
def test_every_command_prints_hostile_names_as_text(unweave, tmp_path, monkeypatch):
    """Of stores, paths, columns, labels, arrays and rows."""
    monkeypatch.chdir(tmp_path)
    nasty, store = "f[/b]\x1b[31m\u202e", "s[red]x\x1b]0;t\x07"
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    lines = [",".join([nasty, "=a", "b[/i]", "kind\x9b"])]
    lines += [f"{a},{b},{c},[red]{k}\u2066" for (a, b, c), k in zip(x.tolist(), y, strict=True)]
    data = tmp_path / "d[red]\x1b[1m.csv"
    data.write_text("\n".join(lines))
    np.savez("t[red].npz", codes=x, factors=y[:, None], factor_names=[nasty], **{"[/z]\x1b": y})
    fields = ["data=" + data.name, "network=mlp", "network.hidden=[4]", "latent.size=2", "steps=2"]
    commands = [
        ["data", "info", data.name],
        ["data", "preview", data.name, "--out", "p[b].png"],
        ["train", *fields, "batch_size=8", "seed=0..1", "--store", store],
        ["runs", "--store", store],
        ["runs", "--store", store, "--csv"],
        ["runs", "--store", "no[/b]\x1b"],
        ["evaluate", "RUN", "--store", store, "--metrics", "mig"],
        ["evaluate", "RUN", "--store", store, "--metrics", "mig", "--csv"],
        ["compare", "BOTH", "--store", store, "--html", "c[b].html"],
        ["encode", "RUN", "--store", store],
        ["encode", "RUN", "--store", store, "--out", "codes[b].csv"],
        ["decode", "RUN", "codes[b].csv", "--store", store],
        ["data", "features", "RUN", "--store", store, "--out", "f[b].npz"],
        ["cite", "RUN", "--store", store],
        ["score", "t[red].npz", "--metrics", "mig"],
        ["score", data.name, "--metrics", "mig", "--csv"],
        ["report", "RUN", "--store", store, "--no-explorer"],
    ]
    for command in commands:
        runs = [str(path) for path in (tmp_path / store).glob("[0-9a-f]*")]
        words = [
            w for c in command for w in (runs if c == "BOTH" else [runs[0]] if c == "RUN" else [c])
        ]
        code, out, err = unweave(*words)
        assert code == 0, f"{command}: {err}"
        assert is_clean(out), command
        assert is_clean(err), command
    shown = unweave("data", "info", data.name)[1]
    assert "f[/b]\\x1b[31m\\u202e" in shown
    assert "s[red]x" in unweave("evaluate", "none", "--store", store)[2]
    for page in [*tmp_path.rglob("*.html")]:
        assert is_clean(page.read_text(encoding="utf-8").replace("\r", ""))


def test_pages_have_no_control_characters():
    assert is_clean(visible("".join(map(chr, range(0x110000)))))
    assert (
        "\\x1b"
        in uw.metrics.Table([[0.0], [1.0]], [[0], [1]], factor_names=("\x1b",))._repr_html_()
    )
