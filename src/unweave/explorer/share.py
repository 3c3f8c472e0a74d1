"""Share models: the explorer and everything about them in one file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import unweave
from unweave.core.files import make_folder
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import Manifest
from unweave.explorer.embedding import Method, check_method
from unweave.explorer.library import MOST_OPEN
from unweave.explorer.model_data import model_bundle
from unweave.explorer.onnx_export import check_packages
from unweave.explorer.page import read_app, render
from unweave.explorer.run_data import named, run_data, terms
from unweave.training.run_files import check_page, write_page
from unweave.training.run_text import data_name


def share(
    models: FittedModel | Sequence[FittedModel],
    path: str | Path,
    *,
    title: str | None = None,
    rows: int = 10_000,
    thumbnails: int = 2_000,
    embedding: Method | None = None,
) -> Path:
    """Write one page in which anyone can explore models, offline and without Python.

    The page has the encoders and decoders, which run in the browser, and observations from the data
    with their codes: anyone who has the page has these observations. It makes no requests. The same
    models give the same bytes.

    Args:
        models: one model, or several to compare, of different runs.
        path: the file to write, such as "page.html".
        title: title of the page; by default it names the objective and the data.
        rows: number of observations of each model's data to encode and plot.
        thumbnails: number of these to show as images or curves, which take most of the space.
        embedding: also embed the codes in a plane by "umap" or "pacmap", which are extra packages.
    """
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"expected the path of a file to write, got the folder {place}")
    check_page(place)
    content = shared_page(models, title, rows, thumbnails, embedding)
    make_folder(place.parent)
    write_page(place, content)
    return place


def shared_page(
    models: FittedModel | Sequence[FittedModel],
    title: str | None = None,
    rows: int = 10_000,
    thumbnails: int = 2_000,
    embedding: Method | None = None,
) -> bytes:
    """Return the page that `share` writes."""
    every = as_list(models)
    check_ready()
    _check_options(rows, thumbnails, embedding)
    runs = named([run_data(model) for model in every])
    build = partial(model_bundle, rows=rows, thumbnails=thumbnails, embedding=embedding)
    bundles = {run.id: build(model, name=run.name) for run, model in zip(runs, every, strict=True)}
    manifest = Manifest(
        title=page_title(every) if title is None else title,
        version=unweave.__version__,
        served=False,
        watch=False,
        runs=runs,
        open=[run.id for run in runs[:MOST_OPEN]],
        terms=terms(runs),
    )
    return render(manifest, bundles)


def _check_options(rows: int, thumbnails: int, embedding: str | None) -> None:
    for name, count, least in (("rows", rows, 2), ("thumbnails", thumbnails, 1)):
        if count < least:
            raise ValueError(f"expected {name} of at least {least}, got {count}")
    if embedding is not None:
        check_method(embedding)


def check_ready() -> None:
    """Raise a ValueError if pages cannot be made here, before any work is done."""
    check_packages()
    read_app()


def as_list(models: FittedModel | Sequence[FittedModel]) -> list[FittedModel]:
    """Return models in a list, checked: at least one, and each run once."""
    every = [models] if isinstance(models, FittedModel) else list(models)
    if not every:
        raise ValueError("expected at least one model, got none")
    for model in every:
        if not isinstance(model, FittedModel):
            raise TypeError(
                f"expected models as `fit` and `load` return them, got {type(model).__name__}"
            )
    digests = [model.run.digest for model in every]
    if repeated := [digest for digest in digests if digests.count(digest) > 1]:
        raise ValueError(f"expected different runs, got {repeated[0]} twice: give it once")
    return every


def page_title(models: Sequence[FittedModel]) -> str:
    """Return the title of a page about models."""
    data = " and ".join(dict.fromkeys(data_name(model.run.data) for model in models))
    objective = models[0].run.objective.kind
    return f"{objective if len(models) == 1 else f'{len(models)} models'} on {data} · unweave"
