"""Data from a folder of images."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import BeforeValidator, Field

from unweave.core.hints import naming, nearest_path
from unweave.core.spec import Place, spec, tag
from unweave.data.cache import cached_file, data_folder
from unweave.data.dataset import AbsolutePath, Dataset
from unweave.data.files.build import build_dataset
from unweave.data.files.images import (
    AT_ONCE,
    EXTENSIONS,
    MODES,
    Fit,
    Header,
    UnreadableImage,
    decoding,
    explain_unreadable,
    read_header,
    read_pages,
)
from unweave.data.files.interpretation import Layout, describe_images
from unweave.data.files.label_files import find_label_file, read_labels
from unweave.data.files.labels import LABEL_WORDS
from unweave.data.files.npy import NpyFile, write_npy
from unweave.data.files.rows import (
    BLOCK,
    MOST,
    Array,
    InMemoryRows,
    RawRows,
    Rows,
    file_state,
    reject_bombs,
)
from unweave.data.random_split import DataSplit
from unweave.data.scaling import ScalingMethod

Pixels = Annotated[int, Field(ge=1, le=4096)]
FileAxes = Literal["channels", "observations"]
PathText = Annotated[str, BeforeValidator(lambda path: os.fspath(path)), Place()]

DEFAULT_SIZE = (64, 64)
_LEAST_SIZE, _STEP = 16, 8  # sides that are suggested for small images, which convolutions take
FITS: dict[Fit, str] = {
    "crop": "are cropped to their centre (fit=crop; fit=pad and fit=stretch keep all of them)",
    "pad": "are padded with bars (fit=pad)",
    "stretch": "are stretched (fit=stretch)",
}

_PAGES = 256  # observations of one file that are decoded by one thread
_BYTES = 8 * BLOCK  # of observations that are decoded before they are written


@spec
class Folder:
    """All images in a folder and its subfolders, sorted by path, or the pages of one file.

    `size` is the side, or (height, width), to which every image is resized with anti-aliasing. By
    default images that all have the same size keep it, and others become 64 x 64. If the aspect
    ratio of an image differs, `fit` takes the largest centred crop ("crop"), adds black bars,
    which are transparent with four channels ("pad"), or distorts the image ("stretch"). `channels`
    is 1 (grey), 3 (RGB) or 4 (RGBA) for 8-bit images; by default 1 if all images are grey,
    otherwise 3, with transparent images blended onto white. Images of 16 bits, of floats, or with
    other numbers of channels keep their values and channels. `axes` says what the pages of a TIFF
    stack or the frames of an animation are if the file does not: the "channels" of one image, or
    "observations". `scale` works as in `Arrays`; by default 8-bit images are divided by 255, and
    others are scaled by percentiles unless they are floats in [0, 1].

    `factors` is a CSV file of labels, in the folder or elsewhere. By default it is factors.csv or
    the only CSV file in the folder; without one, the class of an image is its subfolder. One column
    names the images, by their paths or names, with or without extension; the others are factors,
    except those that `ignore` names, as in `Arrays`. `split` and `stream` work as in `Arrays`;
    folders of more than 1 GiB of images are decoded once, to a file.
    """

    path: AbsolutePath
    """Where the data are: a file or a folder."""
    size: Pixels | tuple[Pixels, Pixels] | None = None
    """Side, or height and width, that images are resized to."""
    channels: Annotated[int, Field(ge=1)] | None = None
    """Channels to read: 1 (grey), 3 (RGB) or 4 (RGBA) of images of 8 bits; others keep theirs."""
    fit: Fit = "crop"
    """What to do with other aspect ratios: crop, pad or stretch."""
    factors: PathText | None = None
    """Table of labels: one column with the names of the images, the others are factors."""
    split: DataSplit = "all"
    """Split to read: train, validation, test, or all of the data."""
    stream: bool | None = None
    """Whether to read observations while training; by default only above 1 GiB."""
    scale: ScalingMethod | None = None
    """How values are scaled: none, bytes, percentile, standardise, common or counts; by default
    chosen from the data."""
    axes: FileAxes | None = None
    """What the pages of a stack are, channels or observations, if its metadata do not say."""
    ignore: str = ""
    """Columns to leave out, by name or glob, such as sample,plate*."""
    kind: Literal["folder"] = tag("folder")

    OTHER_NAMES: ClassVar[dict[str, str]] = dict.fromkeys(
        (*LABEL_WORDS, "factors_key"), "data.factors"
    )

    def __post_init__(self) -> None:
        if self.factors is not None and not Path(self.factors).is_absolute():
            object.__setattr__(self, "factors", find_label_file(self.path, self.factors))

    def load(self, device: torch.device) -> Dataset:
        """Decode all images, into memory or to a file, and put them on a device."""
        rows, key, sources, decisions = self._open()
        folder = self._folder
        given = None if self.factors is None else Path(self.factors)
        alone = folder != Path(self.path)  # a single stack, whose folder may hold other things
        ignore = "*" if alone and given is None else self.ignore
        labels = read_labels(folder, sources.files, given, ignore).take(sources.owners)
        labels = dataclasses.replace(labels, row_names=sources.row_names(folder))
        wide = rows.dtype in (np.int32, np.uint32)
        with naming(self.path):
            dataset = build_dataset(
                rows,
                labels,
                (),
                self.split,
                self.stream,
                key,
                Layout(rows.shape[1:], False, decisions),
                self.scale or ("percentile" if wide else None),
            )
        return dataset.to(device)

    def raw(self) -> RawRows:
        """Decode all images, and return their values as they are stored, without labels."""
        rows, _, sources, decisions = self._open()
        return RawRows(rows, sources.row_names(self._folder), decisions)

    @property
    def _folder(self) -> Path:
        place = Path(self.path)
        return place.parent if place.is_file() else place

    def _open(self) -> tuple[Rows, list[object], _Sources, tuple[str, ...]]:
        """Decode all images; return them, what identifies them, their files, and decisions."""
        files = _files(Path(self.path))
        with naming(self.path), decoding() as pool:
            try:
                headers = list(pool.map(read_header, files))
                sources = _Sources(files, headers, [*map(self._planes, files, headers)])
                size, size_notes = _choose_size(self.size, headers)
                samples, channel_notes = _choose_samples(self.channels, sources)
                dtype = _one_depth(sources, self.scale)
                shape = (sources.rows, samples * sources.pages, *size)
                rows, key = self._decoded(sources, shape, samples, dtype, pool)
            except UnreadableImage as error:
                raise ValueError(explain_unreadable(error, files, pool)) from None
        decisions = (
            describe_images(shape[0], shape[1:], coloured=sources.pages == 1),
            *size_notes,
            *_fit_notes(self.fit, size, headers),
            *_page_notes(self.axes, headers),
            *channel_notes,
        )
        return rows, key, sources, decisions

    def _planes(self, file: Path, header: Header) -> Array:
        """Return the pages of each observation in a file, (observations, pages)."""
        pages = np.arange(header.pages)
        if header.pages == 1 or self.axes == "observations":
            return pages[:, None]
        if self.axes == "channels":
            return pages[None]
        if header.axes is None:
            raise ValueError(
                f"expected one image in {file}, got {header.pages} pages or frames, and it does "
                "not say what they are: say data.axes=channels (the pages of a file are the "
                "channels of one image) or data.axes=observations (every page is an image)"
            )
        grid = pages.reshape([count for _, count in header.axes])
        names = [name for name, _ in header.axes]
        if "c" not in names:
            return pages[:, None]
        channels = np.moveaxis(grid, names.index("c"), -1)
        return channels.reshape(-1, channels.shape[-1])

    def _decoded(
        self,
        sources: _Sources,
        shape: tuple[int, ...],
        samples: int,
        dtype: str,
        pool: ThreadPoolExecutor,
    ) -> tuple[Rows, list[object]]:
        """Decode all images into memory, or to a file that is reused while they do not change."""
        read = partial(read_pages, size=(shape[2], shape[3]), samples=samples, fit=self.fit)
        row_bytes = math.prod(shape[1:]) * np.dtype(dtype).itemsize
        blocks = partial(_blocks, sources, read, pool, row_bytes)
        total = shape[0] * row_bytes
        if self.size is None:
            packed = sum(file.stat().st_size for file in sources.files)
            reject_bombs("the images", packed, total, advice="resize them with data.size=64")
        if not (total > MOST if self.stream is None else self.stream):
            data, start = np.empty(shape, dtype), 0
            for block in blocks():
                data[start : start + len(block)] = block
                start += len(block)
            return InMemoryRows(data), []
        states = ([str(file), *file_state(file)] for file in sources.files)
        planes = [each.tolist() for each in sources.planes if each.size > 1]
        key = [shape, samples, self.fit, planes, *states]
        folder = data_folder() / "folders"

        def write(file: BinaryIO) -> None:
            if total > (free := shutil.disk_usage(folder).free):
                raise ValueError(
                    f"expected images that fit into {folder} when decoded, got {total:,} bytes for "
                    f"{free:,} that are free: resize the images with data.size=64, or choose "
                    "another folder with the environment variable UNWEAVE_DATA"
                )
            write_npy(file, shape, blocks())

        path = cached_file(folder, key, write)
        return NpyFile(path).rows(), [str(path)]


class _Sources(NamedTuple):
    """The image files of a folder, and which pages of each are an observation."""

    files: Sequence[Path]
    headers: Sequence[Header]
    planes: Sequence[Array]  # (observations, pages) of each file

    @property
    def rows(self) -> int:
        return sum(map(len, self.planes))

    @property
    def pages(self) -> int:
        pairs = zip(self.files, self.planes, strict=True)
        counts = {int(planes.shape[1]): file for file, planes in pairs}
        if len(counts) > 1:
            (a, first), (b, second), *_ = counts.items()
            raise ValueError(
                f"expected the same number of channels in all images, got {a} pages in {first} and "
                f"{b} in {second}: put them into separate folders, or say data.axes=observations"
            )
        return next(iter(counts))

    @property
    def owners(self) -> Array:
        """The index of the file of each observation."""
        return np.repeat(np.arange(len(self.files)), [len(planes) for planes in self.planes])

    def row_names(self, folder: Path) -> tuple[str, ...]:
        """Name each observation by the path of its file, and its number in a stack from 1."""
        names = []
        for file, planes in zip(self.files, self.planes, strict=True):
            name = file.relative_to(folder).as_posix()
            several = len(planes) > 1
            names += [f"{name}#{n + 1}" if several else name for n in range(len(planes))]
        return tuple(names)


def _files(folder: Path) -> list[Path]:
    if folder.suffix.lower() in EXTENSIONS and folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise ValueError(
            f"expected a folder of images at {folder}, got none: {nearest_path(folder)}"
        )
    images = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in EXTENSIONS and path.is_file() and not path.name.startswith(".")
    ]
    if not images:
        raise ValueError(
            f"expected images under {folder}, got none: known extensions are "
            f"{', '.join(sorted(EXTENSIONS))}"
        )
    return sorted(images, key=lambda path: path.relative_to(folder).as_posix())


def _choose_size(
    wanted: int | tuple[int, int] | None, headers: Sequence[Header]
) -> tuple[tuple[int, int], list[str]]:
    """Return the height and width of the observations, and a note if images are resized.

    If the default size enlarges all images, the note suggests one that does not.
    """
    sizes = {header.size for header in headers}
    if wanted is None and len(sizes) == 1:
        return sizes.pop(), []
    size = (wanted, wanted) if isinstance(wanted, int) else wanted or DEFAULT_SIZE
    if sizes == {size}:
        return size, []
    height, width = next(iter(sizes))
    which = f"{len(sizes)} sizes" if len(sizes) > 1 else f"{height} x {width} pixels"
    largest = max(max(each) for each in sizes)
    choose, to = "; choose another size with data.size", f"{size[0]} x {size[1]}"
    if largest <= min(size) / 2:
        least = max(_LEAST_SIZE, -(-largest // _STEP) * _STEP)
        which += f", of at most {largest} pixels a side" * (len(sizes) > 1)
        times = f"{size[0] * size[1] / least**2:.2g} times the pixels"
        choose = f", which takes {times} and adds no detail; data.size={least} trains faster"
    return size, [f"the images have {which}: resized to {to}{choose * (wanted is None)}"]


def _fit_notes(fit: Fit, size: tuple[int, int], headers: Sequence[Header]) -> list[str]:
    """Note what happens to images of another aspect ratio, if there are any."""
    others = sum(h.size[0] * size[1] != h.size[1] * size[0] for h in headers)
    square = size[0] == size[1]
    shape = "not square" if square else f"of another aspect ratio than {size[0]} x {size[1]}"
    what = f"{others} of {len(headers)} images are {shape}, and "
    return [what + FITS[fit]] if others else []


def _page_notes(axes: FileAxes | None, headers: Sequence[Header]) -> list[str]:
    """Note what the pages of stacks are read as."""
    notes = []
    for (pages, stated), count in Counter((h.pages, h.axes) for h in headers).items():
        if pages > 1:
            how = f"the pages are {axes} (axes={axes})"
            if axes is None and stated:
                lengths = dict(stated)
                others = [f"{n} {_AXIS_NAMES.get(a, a)}" for a, n in stated if a != "c" and n > 1]
                channels = [f"{lengths['c']} channels"] * (lengths.get("c", 1) > 1)
                listed = ", ".join([*channels, *(f"{each} (observations)" for each in others)])
                how = f"according to their metadata the pages are {listed}"
            notes.append(f"{count} file{'s' * (count != 1)} of {pages} pages: {how}")
    return notes


_AXIS_NAMES = {"t": "frames", "z": "slices"}


def _one_depth(sources: _Sources, scale: ScalingMethod | None) -> str:
    """Return the type of the values of all images; reject mixtures, and types that are reduced."""
    kinds = {header.dtype: file for file, header in zip(*sources[:2], strict=True)}
    if len(kinds) > 1:
        listed = " and ".join(f"{kind} in {file}" for kind, file in list(kinds.items())[:2])
        raise ValueError(
            f"expected images of one depth, got {listed}: convert them to one type, or put them "
            "into separate folders"
        )
    for file, header in zip(*sources[:2], strict=True):
        if header.reduced and scale != "bytes":
            raise ValueError(
                f"expected grey or 8 bits in a file of this format, got {file} with 16 bits per "
                "colour, of which only 8 could be read: save it as TIFF, or accept 8 bits with "
                "data.scale=bytes"
            )
    return next(iter(kinds))


def _choose_samples(wanted: int | None, sources: _Sources) -> tuple[int, list[str]]:
    """Return the number of channels of a page, and notes on what is lost or added."""
    headers, pages = sources.headers, sources.pages
    counts = {header.samples: file for file, header in zip(*sources[:2], strict=True)}
    if not all(header.plain for header in headers):
        if len(counts) > 1:
            listed = " and ".join(f"{n} in {file}" for n, file in list(counts.items())[:2])
            raise ValueError(
                f"expected the same number of channels in all images, got {listed}: put them into "
                "separate folders"
            )
        samples = next(iter(counts))
        if wanted not in (None, samples * pages):
            raise ValueError(
                f"expected channels={samples * pages}, as the images have, got {wanted}: only "
                "images of 8 bits are converted to another number of channels"
            )
        return samples, []
    if wanted is not None and wanted not in [pages * each for each in MODES]:
        raise ValueError(
            f"expected channels of {', '.join(str(pages * each) for each in MODES)} (grey, RGB or "
            f"RGBA) for images of 8 bits and {pages} pages, got {wanted}"
        )
    samples = wanted // pages if wanted else max(counts)
    notes = []
    grey = sum(header.samples == 1 for header in headers)
    if wanted is None and 0 < grey < len(headers):
        notes.append(f"{grey} of {len(headers)} images are grey, read as RGB")
    transparent = sum(header.alpha for header in headers)
    if transparent and samples != 4:
        notes.append(f"{transparent} transparent images blended onto white; channels=4 keeps alpha")
    return samples, notes


def _blocks(
    sources: _Sources,
    read: Callable[[Path, Header, Array], Array],
    pool: ThreadPoolExecutor,
    row_bytes: int,
) -> Iterator[Array]:
    """Decode all images in blocks (n, C, H, W) of at most AT_ONCE images and _BYTES, or one."""
    most = max(1, min(AT_ONCE, _BYTES // row_bytes))
    step = min(most, _PAGES)
    pieces = [
        (file, header, planes[start : start + step])
        for file, header, planes in zip(*sources, strict=True)
        for start in range(0, len(planes), step)
    ]
    ends = np.cumsum([len(planes) for *_, planes in pieces])
    start = 0
    while start < len(pieces):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, "right")))
        yield np.concatenate([*pool.map(lambda piece: read(*piece), pieces[start:stop])])
        start = stop
