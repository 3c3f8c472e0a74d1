"""Explore models in the browser: a server on this machine, or the page in a notebook."""

import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from unweave.core import files
from unweave.core.console import err, out
from unweave.core.outputs import DEFAULT_STORE
from unweave.evaluation.loading import loader, loader_like
from unweave.evaluation.model import FittedModel
from unweave.explorer.library import MOST_OPEN, Library
from unweave.explorer.model_data import model_bundle
from unweave.explorer.server import ExplorerServer
from unweave.explorer.share import as_list, check_ready, page_title, shared_page
from unweave.explorer.sources import LoadedRun, StoredRun, StoredRuns
from unweave.training.remote_stores import store_root
from unweave.training.store import RunFolder, Store

_HEIGHT = 860  # pixels of a page in a notebook
# The page is of another origin than the notebook, and cannot read it.
_FRAME = Markup(
    '<iframe srcdoc="{}" sandbox="allow-scripts allow-downloads" title="unweave explorer" '
    'style="width:100%;height:{}px;border:1px solid rgba(128,128,128,.4);border-radius:6px">'
    "</iframe>"
)


class InlinePage:
    """A page that a notebook shows inline."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"InlinePage({len(self.content):,} bytes)"

    def _repr_html_(self) -> str:
        return str(_FRAME.format(self.content.decode(), _HEIGHT))


def explore(
    models: FittedModel | Sequence[FittedModel] | None = None,
    *,
    store: str | Path = DEFAULT_STORE,
    watch: bool = False,
    port: int = 0,
    open_browser: bool = True,
) -> InlinePage | None:
    """Explore models in the browser: move their latent variables, and see where the data lie.

    In a notebook the whole page appears inline, as `share` writes it. Elsewhere a server on this
    machine serves it until you press Ctrl-C; other machines cannot reach it.

    Args:
        models: one model, or several to compare; by default all runs of the store.
        store: the folder of runs, if no models are given.
        watch: follow runs that are training; models that have a folder are read from it.
        port: the port to listen on; by default a free one.
        open_browser: whether to open the page.

    Raises:
        ValueError: in a notebook, where no server runs, if `store`, `watch` or `port` is given.
    """
    if err.is_jupyter:
        return _inline(models, {"store": store, "watch": watch, "port": port})
    content = store_library(store, watch) if models is None else _library(as_list(models), watch)
    serve(content, port, open_browser)
    return None


_SERVER_DEFAULTS = {"store": DEFAULT_STORE, "watch": False, "port": 0}


def _inline(
    models: FittedModel | Sequence[FittedModel] | None, server: Mapping[str, object]
) -> InlinePage:
    if models is None:
        raise ValueError(
            "expected the models to show: a notebook shows a page that contains them; "
            "`unweave explore` in a terminal shows a whole store"
        )
    if given := [name for name, value in server.items() if value != _SERVER_DEFAULTS[name]]:
        raise ValueError(
            f"expected no {' or '.join(given)}: a notebook shows a page that contains the models, "
            "without a server; leave it out, or use `unweave explore` in a terminal"
        )
    return InlinePage(shared_page(models))


def _library(models: Sequence[FittedModel], watch: bool) -> Library:
    sources = [
        StoredRun(RunFolder(model.folder), loader_like(model))
        if watch and model.folder
        else LoadedRun(model)
        for model in models
    ]
    return Library(lambda: sources, model_bundle, page_title(models), watch=watch)


def store_library(
    store: str | Path,
    watch: bool = False,
    names: Sequence[str] = (),
    load: Callable[[Path], FittedModel] | None = None,
) -> Library:
    """Return the runs of a store, or those that are named. The newest of a store opens first."""
    place, read = Store(store_root(store)), load or loader()
    named = [StoredRun(RunFolder(path), read) for path in place.find_all(names)]
    find, first = (lambda: named, MOST_OPEN) if named else (StoredRuns(place.root, read), -1)
    library = Library(find, model_bundle, f"{place.root.resolve().name} · unweave", first, watch)
    if not library.read().manifest.runs and not watch:
        shown = files.disk.name(place.root)
        raise ValueError(f"{shown} contains no runs to explore; train one with `unweave train`")
    return library


def serve(content: Library, port: int, open_browser: bool) -> None:
    """Show a page until Ctrl-C."""
    check_ready()
    with ExplorerServer(content, port) as server:
        out.print(f"explorer: {server.url} (Ctrl-C stops it)", soft_wrap=True)
        if open_browser:  # some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            out.print("stopped")
