"""What is known of data, as text: of published sets, of datasets that are drawn, of your own files.

`docs/datasets.md` is `page("figures")`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from unweave.core import spec
from unweave.core.bibliography import cited, entries
from unweave.data import Arrays, Data, Dataset, FileSet, Folder, InMemory, Published
from unweave.data.published.base import About
from unweave.data.published.download import Source

_INTRODUCTION = """# Data sets

This page is made by `unweave data page` from the code.

`unweave data get NAME` fetches a set, and `unweave train data=NAME` trains on it; `data.split=test`
and other fields choose of it. Files lie in a folder of its name under that of the variable
`UNWEAVE_DATA`, or `~/.cache/unweave`. Files that are already somewhere can be put there by hand. A
download goes on where it stopped, and every file is compared with its published checksum; where
none is known to us, that of the first download is put down in `checksums.json`, and `unweave data
check NAME` compares with it from then on. Nothing is ever unpickled.

A download tries every address that is given here. **No more than one site is known to us of**
{alone}: if it is down, so is the set.

What cannot be read row by row (3D Shapes, which is packed, and pictures in archives) is unpacked
the first time, to a .npy file in the data folder; of dSprites that is 3 GB, of 3D Shapes 5.9 GB.
Sets of more than 1 GiB are then read [as they are needed](data.md#larger-than-memory).

{pictures}Of the licences, those of MPI3D and Fashion-MNIST were read where their authors give them;
that of MNIST is as Keras states it; **the others were not verified**.

Worlds that are drawn, and data of your own, are on [another page](data.md).
"""
_PICTURES = """Pictures are made by `unweave data preview`. They are here where we had images of the
set and its licence lets them be shown: as parts of dSprites, 3D Shapes and Fashion-MNIST under
those licences, and of MNIST under CC BY-SA 3.0.

"""
_LABELS = 12  # names of classes that are spelt out


def page(pictures: str | None = None) -> str:
    """All published data sets as Markdown, with their pictures out of a folder if one is given."""
    rows = "".join(
        f"| [{kind}](#{kind}) | {cls.ABOUT.count:,} | {size_text(cls.ABOUT.shape)} | "
        f"{factors_text(cls.ABOUT)} | {cls.ABOUT.licence} |\n"
        for kind, cls in published().items()
    )
    head = "| name | images | size | factors | licence |\n| --- | --- | --- | --- | --- |\n"
    parts = [
        f"## {described(kind, cls, cls.ABOUT.sources, pictures)}"
        for kind, cls in published().items()
    ]
    alone = [cls.ABOUT.title for cls in published().values() if len(_sites(cls.ABOUT)) == 1]
    introduction = _INTRODUCTION.format(
        alone=f"{', '.join(alone[:-1])} and {alone[-1]}", pictures=_PICTURES if pictures else ""
    )
    return "\n".join([introduction, head + rows, *parts])


def described_dataset(data: Data, dataset: Dataset) -> str:
    """What is known of data once they are loaded."""
    from unweave.training.overrides import (
        data_text,  # knows all of a run, which a list of sets does not need
    )

    own = isinstance(data, (Arrays, Folder, InMemory))
    first = _documented(type(data)).split("\n\n")[0]
    images = len(dataset.shape) == 3
    size = size_text(dataset.shape) if images else f"{dataset.shape[0]} numbers"
    lines = [
        *(data_text(data), ""),
        *(() if own else (first, "")),
        f"- {'images' if images else 'vectors'}: {dataset.size:,} of {size}",
        f"- values: {'in [0, 1]' if dataset.bounded else 'any numbers'}",
        f"- factors: {_known_factors(dataset) or 'none known'}",
        *([f"- read as: {'; '.join(dataset.notes)}"] if dataset.notes else []),
    ]
    return "\n".join([*lines, "", *_bibtex(type(data))])


def _known_factors(dataset: Dataset) -> str:
    """Factors with their numbers of classes, and the names of these where they are few."""
    told = []
    names = zip(dataset.factor_names, dataset.factor_sizes, dataset.factor_labels, strict=True)
    for name, size, labels in names:
        some = ", ".join(map(str, labels[:_LABELS])) if labels else ""
        more = ", ..." if labels and len(labels) > _LABELS else ""
        told.append(f"{name} {size}" + (f" ({some}{more})" if labels else ""))
    return ", ".join(told)


def published() -> dict[str, type[FileSet]]:
    """The published data sets by their kinds."""
    found = spec.members(Published).items()
    return {kind: cls for kind, cls in found if issubclass(cls, FileSet)}


def drawn() -> list[str]:
    """The data that are neither in published files nor the user's."""
    others = (FileSet, Arrays, Folder, InMemory)
    return [kind for kind, cls in spec.members(Data).items() if not issubclass(cls, others)]


def described(
    kind: str, cls: type[FileSet], files: Sequence[Source], pictures: str | None = None
) -> str:
    """What is known of a published data set, whether or not it is here.

    `pictures` is a folder of pictures of the sets, of which one may be there.
    """
    about = cls.ABOUT
    lines = [kind, "", f"{about.title}. {_documented(cls)}", ""]
    shown = f"after `unweave data get {kind}`, `unweave data preview {kind}`"
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
        lines += [f"- by hand: {about.hand}"]
    if sites := _sites(about):
        lines += [f"- from: {', '.join(sites)}{'' if sites[1:] else ' alone, no other site known'}"]
    lines += [f"- files, in `{kind}/` of the data folder:"]
    for source in files:
        size = f", {source.size:,} bytes" if source.size else ""
        lines += [f"  - `{source.name}`{size}{verdict(source)}"]
        lines += [f"    - {url}" for url in source.urls]
    return "\n".join([*lines, "", *_bibtex(cls)])


def _documented(cls: type) -> str:
    """The documentation of a data set without its sources."""
    return re.sub(r"\s*\[\w+\d{4}\]( \w+\. \d+)?\.", "", inspect.getdoc(cls) or "").rstrip()


def _bibtex(cls: type) -> list[str]:
    return [*(f"```bibtex\n{entries()[key]}\n```" for key in cited(inspect.getdoc(cls) or "")), ""]


def _sites(about: About) -> list[str]:
    """The sites that files are from, which may have several addresses each."""
    urls = (url for source in about.sources for url in source.urls)
    hosts = (urlsplit(url).hostname or "" for url in urls)
    of_github = {"raw.githubusercontent.com": "github.com"}
    return list(dict.fromkeys(of_github.get(host, host) for host in hosts))


def verdict(source: Source) -> str:
    """What a file is compared with."""
    if source.digest:
        return f", {source.digest}"
    return ", no published checksum known: that of the first download is kept and compared"


def size_text(shape: tuple[int, ...]) -> str:
    """The size of an image (C, H, W) in words.

    >>> size_text((1, 64, 64)), size_text((3, 32, 48))
    ('64 x 64', '32 x 48 x 3')
    """
    channels, height, width = shape
    return f"{height} x {width}{f' x {channels}' if channels > 1 else ''}"


def factors_text(about: About) -> str:
    """The factors of a published data set with their numbers of classes."""
    if about.lattice is None:
        return about.factors
    pairs = zip(about.lattice.names, about.lattice.sizes, strict=True)
    return ", ".join(f"{name} {size}" for name, size in pairs)
