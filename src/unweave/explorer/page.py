"""The page: the application, a manifest of runs and the bundles of models in one HTML file."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple, Self

import numpy as np
from markupsafe import Markup

from unweave.core.text import visible
from unweave.explorer.contents import Manifest, manifest_json

_PAGE = Markup(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    '<meta name="color-scheme" content="light dark">\n'
    '<meta name="generator" content="unweave {version}">\n'
    '<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n'
    '<body>\n<div id="app"></div>\n'
    "<noscript>This page needs JavaScript: the model runs in your browser.</noscript>\n"
    "{data}{script}</body>\n</html>\n"
)
_DATA = Markup('<script type="{}" id="{}">{}</script>\n')
_SCRIPT = Markup('<script type="module">{}</script>\n')
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}  # could end an element
_DIGITS = bytes(c for c in range(32, 127) if c not in b'"&<\\')  # means nothing in HTML and JSON
_BITS = 13  # of two digits
_CHUNK = _BITS * 2**12  # bytes that become text at once, which takes many times their memory


class App(NamedTuple):
    """The built application: its script, its style, and onnxruntime's wasm, compressed, as text."""

    script: str
    style: str
    wasm: str

    @classmethod
    def read(cls, folder: Traversable) -> Self:
        """Read the files of a folder, escaped so that they cannot end the element they are in."""
        try:
            script = (folder / "explorer.js").read_text("utf-8")
            style = (folder / "explorer.css").read_text("utf-8")
            wasm = as_text((folder / "ort.wasm.gz").read_bytes())
        except FileNotFoundError:
            raise ValueError(
                "this copy of unweave has no explorer: install unweave from a package, or build "
                "the explorer in web/ with `npm ci && npm run build`"
            ) from None
        return cls(_script_text(script), _plain_lines(style).replace("</", "<\\/"), wasm)


def app_folder() -> Traversable:
    """Return the folder of the built application."""
    return files("unweave.explorer") / "app"


@cache
def read_app() -> App:
    """Read the built application, once."""
    return App.read(app_folder())


def render(manifest: Manifest, bundles: Mapping[str, bytes]) -> bytes:
    """Return the page as HTML.

    Args:
        manifest: the runs that the page lists. A page that is not served makes no request.
        bundles: the bundles that are in the page, by run.
    """
    app = read_app()
    embedded = {f"model-{run}": as_text(bundle) for run, bundle in bundles.items()}
    embedded["wasm"] = app.wasm
    runs = Markup(manifest_json(manifest).translate(_ESCAPES))
    data = [_DATA.format("application/json", "manifest", runs)]
    data += [_DATA.format("text/plain", key, Markup(text)) for key, text in embedded.items()]
    page = _PAGE.format(
        policy=policy(manifest.served),
        version=manifest.version,
        title=visible(manifest.title),
        style=Markup(app.style),
        data=Markup("").join(data),
        script=_SCRIPT.format(Markup(app.script)),
    )
    return page.encode()


def policy(served: bool) -> str:
    """Return the content security policy, which lets only the application's own script run.

    A shared page may make no request; a served one may ask its own server.
    """
    digest = hashlib.sha256(read_app().script.encode()).digest()
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{base64.b64encode(digest).decode()}' 'wasm-unsafe-eval'",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "font-src 'none'",
            "connect-src 'self'" if served else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _script_text(script: str) -> str:
    r"""Escape what would end a script element, or would keep it from ending.

    Both occur only in literals, where `\x3C` means the same as `<`.
    """
    return re.sub(r"<(?=/script|!--)", r"\\x3C", _plain_lines(script), flags=re.IGNORECASE)


def _plain_lines(text: str) -> str:
    """End lines as a browser does when it reads a page, which the hash of a script depends on."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_text(content: bytes) -> str:
    """Return bytes as ASCII text: 13 bits are two of 91 digits, a tenth shorter than base64.

    The lowest bits and the lower digit come first; at the end, up to 6 bits are one digit.
    """
    starts = range(0, len(content), _CHUNK)
    return "".join(_chunk_as_text(content[start : start + _CHUNK]) for start in starts)


def _chunk_as_text(content: bytes) -> str:
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    filled = np.pad(bits, (0, -len(bits) % _BITS)).reshape(-1, _BITS)
    values = np.packbits(filled, axis=1, bitorder="little").view("<u2")
    pairs = np.hstack([values % len(_DIGITS), values // len(_DIGITS)])
    rest = len(bits) % _BITS
    count = 2 * (len(bits) // _BITS) + (rest > 0) + (rest > 6)
    return str(np.frombuffer(_DIGITS, np.uint8)[pairs].tobytes()[:count], "ascii")
