"""A stand-in for the built application, a running server, and an independent reader of pages."""

import contextlib
import gzip
import http.client
import json
import threading
from html.parser import HTMLParser
from itertools import zip_longest

from bundles import refuse_constant
from unweave.explorer import page
from unweave.explorer.server import ExplorerServer

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


@contextlib.contextmanager
def serving(content):
    with ExplorerServer(content) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, target="/", method="GET", **headers):
    """Send a request as a browser does; return the status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, target, headers={n.replace("_", "-"): v for n, v in headers.items()})
    answer = connection.getresponse()
    with contextlib.closing(connection):
        return answer.status, dict(answer.getheaders()), answer.read()


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
        return json.loads(self.by_id["manifest"].text, parse_constant=refuse_constant)

    def bundle(self, run):
        return self.embedded(f"model-{run}")

    def embedded(self, name):
        """Decode bytes one digit at a time: two are 13 bits, a single one at the end is 6."""
        text = self.by_id[name].text
        digits = [chr(code) for code in range(32, 127) if chr(code) not in '"&<\\']
        values = {digit: value for value, digit in enumerate(digits)}
        number = bits = 0
        found = bytearray()
        for low, high in zip_longest(text[::2], text[1::2]):
            number |= (values[low] + 91 * values.get(high, 0)) << bits
            bits += 13 if high else 6
            while bits >= 8:
                found.append(number & 255)
                number, bits = number >> 8, bits - 8
        return bytes(found)

    @property
    def policy(self):
        (found,) = [each.attributes["content"] for each in self.all("meta")
                    if each.attributes.get("http-equiv") == "Content-Security-Policy"]  # fmt: skip
        return dict(part.strip().split(" ", 1) for part in found.split(";"))

    @property
    def script(self):
        (found,) = [e for e in self.all("script") if e.attributes.get("type") == "module"]
        return found.text
