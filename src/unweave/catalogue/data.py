"""Describe datasets as text: published ones, rendered ones, and the user's own files.

`docs/datasets.md` is `page("figures")`.
"""

import inspect
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import torch

from unweave.catalogue import introduction
from unweave.core import spec
from unweave.core.bibliography import cited, entries
from unweave.core.hints import join_words
from unweave.core.text import markdown_table
from unweave.data import MISSING, Arrays, Data, Dataset, Folder, InMemory, Published, PublishedSpec
from unweave.data.published.base import About
from unweave.data.published.download import Source

_PICTURES = """`unweave data preview` draws the pictures. This page shows those of datasets whose
licence permits it: excerpts of dSprites, 3D Shapes and Fashion-MNIST under those licences, and of
MNIST under CC BY-SA 3.0.

"""
_LABELS = 12  # names of classes that are listed
_SCALED = {
    "percentile": "in [0, 1], scaled by percentiles",
    "standardise": "standardised",
    "common": "centred, and scaled by one number",
    "counts": "counts",
}


def page(pictures: str | None = None) -> str:
    """Describe all published datasets in Markdown, with pictures from a folder if given."""
    about = {kind: cls.ABOUT for kind, cls in published().items()}
    rows = [
        [f"[{kind}](#{kind})", f"{a.count:,}", size_text(a.shape), factors_text(a), a.licence]
        for kind, a in about.items()
    ]
    listed = markdown_table(["name", "images", "size", "factors", "licence"], rows)
    sections = [
        f"## {describe_published(kind, cls, cls.ABOUT.sources, pictures)}"
        for kind, cls in published().items()
    ]
    alone = [each.title for each in about.values() if len(_sites(each)) == 1]
    text = introduction("data").format(
        alone=join_words(alone), pictures=_PICTURES if pictures else ""
    )
    return "\n".join([text, listed, *sections])


def describe_dataset(data: Data, dataset: Dataset) -> str:
    """Describe a loaded dataset."""
    from unweave.training.overrides import data_text  # slow to import, and not needed for lists

    own = isinstance(data, (Arrays, Folder, InMemory))
    first = _documentation(type(data)).split("\n\n")[0]
    images = len(dataset.shape) == 3
    size = size_text(dataset.shape) if images else f"{dataset.shape[0]} numbers"
    values = "in [0, 1]" if dataset.bounded else "any numbers"
    lines = [
        *(data_text(data), ""),
        *(() if own else (first, "")),
        f"- {'images' if images else 'vectors'}: {dataset.size:,} of {size}",
        f"- values: {_SCALED.get(dataset.schema.scaling.method, values)}",
        f"- factors: {_list_factors(dataset) or 'unknown'}",
        *(["- read as:", *(f"  - {note}" for note in dataset.notes)] if dataset.notes else []),
    ]
    return "\n".join([*lines, "", *_bibtex(type(data))])


def _list_factors(dataset: Dataset) -> str:
    """List the factors: numbers of classes and the first labels, or the range of numbers."""
    schema, texts = dataset.schema, []
    missing = _count_missing(dataset)
    for column, name in enumerate(dataset.factor_names):
        size, labels = dataset.factor_sizes[column], dataset.factor_labels[column]
        some = ", ".join(map(str, labels[:_LABELS])) if labels else ""
        more = ", ..." if labels and len(labels) > _LABELS else ""
        text = f"{name} {size}" + (f" ({some}{more})" if labels else "")
        if name in schema.continuous and labels:
            known = dataset.size - missing[column]
            text = f"{name}: {known:,} numbers from {labels[0]} to {labels[-1]}"
        texts.append(text + (f", {missing[column]:,} missing" if missing[column] else ""))
    return ("; " if schema.continuous or any(missing) else ", ").join(texts)


def _count_missing(dataset: Dataset) -> list[int]:
    """Return the number of missing labels of each factor."""
    if dataset.lattice is not None:
        return [0] * len(dataset.factor_names)
    factors = dataset.factors(torch.arange(dataset.size))
    return (factors == MISSING).sum(0).tolist()


def published() -> dict[str, type[PublishedSpec]]:
    """Return the published datasets by their kinds."""
    members = spec.members(Published).items()
    return {kind: cls for kind, cls in members if issubclass(cls, PublishedSpec)}


def rendered() -> list[str]:
    """Return the kinds of data that need no files."""
    others = (PublishedSpec, Arrays, Folder, InMemory)
    return [kind for kind, cls in spec.members(Data).items() if not issubclass(cls, others)]


def describe_published(
    kind: str, cls: type[PublishedSpec], files: Sequence[Source], pictures: str | None = None
) -> str:
    """Describe a published dataset, whether or not it was downloaded.

    `pictures` is a folder of pictures of datasets.
    """
    about = cls.ABOUT
    lines = [kind, "", f"{about.title}. {_documentation(cls)}", ""]
    shown = f"`unweave data preview {kind}` draws one after the download"
    if pictures and about.picture:
        lines += [f"![{about.title}]({pictures}/data_{kind}.png)", ""]
        shown = about.picture
    lines += [
        f"- images: {about.count:,} of {size_text(about.shape)}",
        f"- picture: {shown}",
        f"- factors: {factors_text(about)}",
        f"- licence: {about.licence}",
        f"- page: {about.page}",
    ]
    lines += [f"- needs: `pip install {about.needs}`"] if about.needs else []
    if about.hand:
        lines += [f"- manual download: {about.hand}"]
    if sites := _sites(about):
        lines += [f"- from: {', '.join(sites)}{'' if sites[1:] else ' (the only known site)'}"]
    lines += [f"- files, in `{kind}/` in the data folder:"]
    for source in files:
        size = f", {source.size:,} bytes" if source.size else ""
        lines += [f"  - `{source.name}`{size}{checksum_text(source)}"]
        lines += [f"    - {url}" for url in source.urls]
    return "\n".join([*lines, "", *_bibtex(cls)])


def _documentation(cls: type) -> str:
    """Return the docstring of a data spec without its citations."""
    return re.sub(r"\s*\[\w+\d{4}\]( \w+\. \d+)?\.", "", inspect.getdoc(cls) or "").rstrip()


def _bibtex(cls: type) -> list[str]:
    return [*(f"```bibtex\n{entries()[key]}\n```" for key in cited(inspect.getdoc(cls) or "")), ""]


def _sites(about: About) -> list[str]:
    """Return the sites of the files; a site may have several addresses."""
    urls = (url for source in about.sources for url in source.urls)
    hosts = (urlsplit(url).hostname or "" for url in urls)
    github = {"raw.githubusercontent.com": "github.com"}
    return list(dict.fromkeys(github.get(host, host) for host in hosts))


def checksum_text(source: Source) -> str:
    """Describe the checksum with which a file is compared."""
    if source.digest:
        return f", {source.digest}"
    return ", no published checksum known: that of the first download is recorded and compared"


def size_text(shape: tuple[int, ...]) -> str:
    """Write the size of an image (C, H, W).

    >>> size_text((1, 64, 64)), size_text((3, 32, 48))
    ('64 x 64', '32 x 48 x 3')
    """
    channels, height, width = shape
    return f"{height} x {width}{f' x {channels}' if channels > 1 else ''}"


def factors_text(about: About) -> str:
    """List the factors of a published dataset with their numbers of classes."""
    if about.lattice is None:
        return about.factors
    pairs = zip(about.lattice.names, about.lattice.sizes, strict=True)
    return ", ".join(f"{name} {size}" for name, size in pairs)
