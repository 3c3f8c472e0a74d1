"""A stand-in for the built application, and an independent reader of the page."""

import base64
import gzip
import json
from html.parser import HTMLParser

from unweave.explorer import page

SCRIPT = 'const text = "</script><!--<script>";\r\nif (1 < 2) console.log(`${text}é`);\n'
STYLE = 'p::after { content: "</style>"; color: red }\n'
WASM = gzip.compress(b"\0asm" + bytes(40), mtime=0)


def install_app(monkeypatch, folder):
    """Write a small application, and let pages use it."""
    folder.mkdir()
    (folder / "explorer.js").write_bytes(SCRIPT.encode())
    (folder / "explorer.css").write_text(STYLE)
    (folder / "ort.wasm.gz").write_bytes(WASM)
    monkeypatch.setattr(page, "app_folder", lambda: folder)
    monkeypatch.setattr(page, "read_app", lambda: page.App.read(folder))


class Element:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.text = tag, attributes, ""


class Page(HTMLParser):
    """The elements of a page, as Python's own parser sees them."""

    def __init__(self, content):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(content.decode("utf-8"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append(Element(tag, dict(attributes)))
        if tag not in ("meta", "link"):
            self._open.append(self.elements[-1])

    def handle_endtag(self, tag):
        assert self._open.pop().tag == tag

    def handle_data(self, data):
        if self._open:
            self._open[-1].text += data

    def all(self, tag):
        return [each for each in self.elements if each.tag == tag]

    @property
    def by_id(self):
        return {each.attributes["id"]: each for each in self.elements if "id" in each.attributes}

    @property
    def manifest(self):
        return json.loads(self.by_id["manifest"].text)

    def bundle(self, run):
        return base64.b64decode(self.by_id[f"model-{run}"].text, validate=True)

    @property
    def policy(self):
        (found,) = [each.attributes["content"] for each in self.all("meta")
                    if each.attributes.get("http-equiv") == "Content-Security-Policy"]  # fmt: skip
        return dict(part.strip().split(" ", 1) for part in found.split(";"))

    @property
    def script(self):
        (found,) = [e for e in self.all("script") if e.attributes.get("type") == "module"]
        return found.text
