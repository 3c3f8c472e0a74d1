"""The explorer's page: what is in it, how it is escaped, and that it is written whole or not."""

import base64
import hashlib
import json
import tracemalloc

import numpy as np
import pytest

from explorer_app import SCRIPT, WASM, Page, install_app
from unweave.core.text import visible
from unweave.explorer import page
from unweave.explorer.contents import Curves, Manifest, RunData

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066",
    "line\u2028paragraph\u2029end",
    "&lt;&#60;&amp;",
    "\ud800 half of a pair",
    "\x00\x1b[31m",
    "{} {0} %s \\u003c",
]


@pytest.fixture(autouse=True)
def app(monkeypatch, tmp_path):
    install_app(monkeypatch, tmp_path / "app")


def run_data(name="run", run="3f2a"):
    none = Curves([], {})
    return RunData(run, name, "finished", 5, 5, {name: name}, {name: 0.5}, none, none, True)


def manifest(name="run", served=False):
    return Manifest(name, "0.1.0", served, False, [run_data(name)], ["3f2a"], {})


def read(name="run", served=False, bundles=None):
    return Page(page.render(manifest(name, served), bundles or {}))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_whatever_they_contain(name):
    found, shown = read(name), visible(name)
    plain = read()
    assert [e.tag for e in found.elements] == [e.tag for e in plain.elements]
    assert found.script == plain.script
    (run,) = found.manifest["runs"]
    assert run["name"] == shown
    assert run["settings"] == {shown: shown}
    assert found.manifest["title"] == shown
    (title,) = found.all("title")
    assert title.text == shown


def test_the_manifest_is_ascii_without_a_character_that_html_reads():
    content = page.render(manifest("".join(HOSTILE)), {}).decode()
    start = content.index('id="manifest">') + len('id="manifest">')
    text = content[start : content.index("</script>", start)]
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text)["title"] == visible("".join(HOSTILE))


def test_the_policy_lets_only_the_own_script_run_and_no_request():
    found = read()
    digest = base64.b64encode(hashlib.sha256(found.script.encode()).digest()).decode()
    assert found.policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}' 'wasm-unsafe-eval'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "font-src": "'none'",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert read(served=True).policy == found.policy | {"connect-src": "'self'"}


def test_the_policy_comes_before_everything_it_governs():
    tags = [each.tag for each in read().elements]
    policy = next(n for n, e in enumerate(read().elements) if "http-equiv" in e.attributes)
    assert set(tags[:policy]) == {"html", "head", "meta"}


def test_the_application_cannot_end_its_own_elements():
    found = read()
    assert "</script" not in found.script
    assert "<!--" not in found.script
    assert found.script.replace("\\x3C", "<") == SCRIPT.replace("\r\n", "\n")
    (style,) = found.all("style")
    assert style.text == 'p::after { content: "<\\/style>"; color: red }\n'


def test_bundles_and_wasm_come_out_of_the_page_as_they_went_in():
    bundles = {str(size): bytes(range(255, 255 - size, -1)) for size in (*range(14), 255)}
    bundles["long"] = np.random.default_rng(0).bytes(2 * page._CHUNK + 100)
    found = read(bundles=bundles)
    assert {run: found.bundle(run) for run in bundles} == bundles
    assert found.embedded("wasm") == WASM


def test_long_content_becomes_text_in_chunks_that_take_little_memory():
    content = np.random.default_rng(0).bytes(2**20)
    tracemalloc.start()
    page.as_text(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(content)


def test_the_wasm_becomes_text_once(monkeypatch):
    app = page.read_app()
    monkeypatch.setattr(page, "read_app", lambda: app)
    monkeypatch.setattr(page, "as_text", None)
    assert read().embedded("wasm") == WASM


def test_embedded_bytes_mean_nothing_in_html_and_json():
    text = page.as_text(bytes(range(256)) * 50)
    assert json.dumps(text) == f'"{text}"'
    assert not set("<&") & set(text)
    assert len(text) < 1.24 * 256 * 50


def test_nothing_in_the_page_is_loaded_from_elsewhere():
    for each in read(bundles={"3f2a": b"x"}).elements:
        assert "src" not in each.attributes
        assert each.attributes.get("href", "data:,") == "data:,"


def test_a_copy_without_the_application_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"npm ci && npm run build"):
        page.App.read(tmp_path)
