"""The data of the explorer's page, which `web/src/bundle.ts` reads.

The manifest lists the runs as JSON. A bundle holds one model: the length of its header (uint32,
little endian), the header (a `ModelData` as JSON), spaces up to a multiple of 8, and the arrays.

`bundle.ts` has the same types, with names in camel case. Its `ArrayRef` stands for an array or a
`File` of the types here.
"""

import dataclasses
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.text import visible

Array = NDArray[np.float32]
Setting = str | int | float | bool | None
State = Literal["finished", "running", "stopped", "failed", "not started"]
_WORD = 8  # bytes; the header ends at a multiple of them, so that arrays are aligned
_PLANES = 4  # bytes of a number
_LEVEL = 6  # of gzip; 9 makes bundles 0.3 % smaller, and takes three to seven times as long


@dataclass(frozen=True)
class File:
    """The content of a file; one that is mostly float32 compresses better as `planes`."""

    content: bytes
    planes: Literal[1, 4] = 1


@dataclass(frozen=True)
class Curves:
    """Columns of numbers over training steps, at most a few hundred rows."""

    step: list[int]
    terms: dict[str, list[float | None]]


@dataclass(frozen=True)
class RunData:
    """A run: its settings, scores and curves."""

    id: str  # the digest that names its folder
    name: str  # what tells it from the other runs of the page
    state: State
    step: int
    steps: int
    settings: Mapping[str, Setting]  # flat, as in "objective.beta"
    scores: Mapping[str, float]  # by metric, as in "mig/chen2018"
    log: Curves
    measures: Curves
    explorable: bool  # whether there is a model to open
    reason: str = ""  # why there is none
    final: Mapping[str, float | None] = field(default_factory=dict)  # mean end of each log term
    no_evidence: Mapping[str, str] = field(default_factory=dict)  # why scores prove nothing


@dataclass(frozen=True)
class TermLabel:
    """A readable name for a score, or for a term of a log or of measurements."""

    name: str
    unit: str
    better: Literal["higher", "lower", ""]  # "" if neither is


@dataclass(frozen=True)
class Manifest:
    """All runs of a page."""

    title: str
    version: str
    served: bool  # whether a server answers; otherwise models are in the page
    watch: bool  # whether to ask the server again for new curves and checkpoints
    runs: Sequence[RunData]
    open: Sequence[str]  # the runs to open first, at most 4
    terms: Mapping[str, TermLabel]  # of the runs
    tag: str = ""  # names this state of the runs when the page asks what has changed since
    ids: Sequence[str] | None = None  # all runs in order, if `runs` are those that have changed


@dataclass(frozen=True)
class Colours:
    """How channels become colours: rgb = sum of clamp((x - low) / (high - low)) colour.

    A `diverging` map of one channel has three colours: at low, in the middle and at high. If
    `alpha`, the last channel is the opacity, and its colour is black.
    """

    low: Sequence[float]
    high: Sequence[float]
    colours: Sequence[tuple[float, float, float]]
    diverging: bool
    alpha: bool


@dataclass(frozen=True)
class Units:
    """A value in the user's units is x scale + shift, for a value x of the network.

    There is one number for all values, one per channel, or one per column; constants have scale 0.
    `clip` says that the network's values are limited to [0, 1].
    """

    scale: Sequence[float]
    shift: Sequence[float]
    clip: bool


@dataclass(frozen=True)
class ImageObservation:
    """Observations that are images."""

    channels: int
    height: int
    width: int
    colours: Colours
    units: Units
    channel_names: Sequence[str]
    pixels: bool  # whether 8-bit files become [0, 1] by division by 255
    kind: Literal["image"] = "image"


@dataclass(frozen=True)
class VectorObservation:
    """Observations that are vectors."""

    length: int
    names: Sequence[str]
    positions: Sequence[float] | None  # of columns whose names are increasing numbers
    curve: bool  # whether neighbouring columns are alike; otherwise bars are drawn
    units: Units
    counts: bool
    kind: Literal["vector"] = "vector"


@dataclass(frozen=True)
class LatentVariable:
    """One latent variable; see `Variable` of the page."""

    number: int
    name: str
    columns: tuple[int, int]  # of z, [first, last + 1]
    discrete: bool
    classes: int  # values of a discrete variable; otherwise 0
    kl: float
    information: float
    active: bool
    quantiles: Sequence[Sequence[float]]  # of every column of a continuous variable
    prior_masses: Sequence[float]
    masses: Sequence[float]
    groups: Sequence[str]
    factor: str | None
    share: float
    above_chance: bool


@dataclass(frozen=True)
class LatentGroup:
    """A group of the latent tree, and the total correlation of its parts in nats."""

    name: str
    total_correlation: float


@dataclass(frozen=True)
class Rate:
    """The rate and its parts, in nats."""

    rate: float
    mutual_information: float
    total_correlation: float
    dimension_kl: Sequence[float]  # KL(q(z_j) || p(z_j)) by variable number
    factorised: bool  # whether p(z) is the product of p(z_j), so that the parts sum to the rate
    groups: Sequence[LatentGroup]


@dataclass(frozen=True)
class LabelledFactor:
    """A factor; see `Factor` of the page."""

    name: str
    values: Sequence[str]  # names of the classes; empty for a continuous factor
    ordered: bool
    continuous: bool
    at_chance: str  # what the rows show if no share of it is above chance; otherwise ""


@dataclass(frozen=True)
class Thumbnails:
    """Images of the first `count` rows, as files of tiles, row by row."""

    count: int
    columns: int  # tiles in a row of a sheet
    rows: int  # rows in a full sheet
    tile: tuple[int, int]  # width and height
    sheets: Sequence[File]
    type: str
    kind: Literal["image"] = "image"


@dataclass(frozen=True)
class Values:
    """Values of the first `count` rows, (count, length), in the user's units."""

    count: int
    values: Array
    kind: Literal["vector"] = "vector"


@dataclass(frozen=True)
class ObservedRows:
    """Observations of the data, in random order."""

    count: int
    index: Sequence[int]  # in the data
    names: Sequence[str]
    mean: Array  # of q(z|x), (count, D)
    sample: Array  # one sample of q(z|x) of each of the first rows, (n, D)
    factors: Array  # (count, K): index of the value, or the number; NaN is missing
    error: Array | None  # mean squared error of the reconstruction, (count,)
    pca: Array  # (count, 2)
    embedding: Array | None  # (count, 2)
    embedding_name: str
    shown: Thumbnails | Values


@dataclass(frozen=True)
class Drawn:
    """A traversal of one variable from the start: one row of images, or values (steps, length)."""

    variable: int
    picture: File | Array


@dataclass(frozen=True)
class ModelData:
    """Everything about one model; see `ModelData` of the page."""

    id: str
    name: str
    step: int
    headline: str
    data: str
    data_name: str
    observation: ImageObservation | VectorObservation
    size: int
    noise: Sequence[float]
    autoencodes: bool
    variables: Sequence[LatentVariable]
    rate: Rate
    factors: Sequence[LabelledFactor]
    shares: Array  # (V, K); see `FactorShares`
    above_chance: Sequence[Sequence[bool]]  # (V, K)
    chance: Sequence[float]  # (K,)
    rows: ObservedRows
    prior: Array  # samples, (n, D)
    start: int
    encoder: File
    decoder: File
    drawn: Sequence[Drawn]


def manifest_json(manifest: Manifest) -> str:
    """Return the manifest as JSON; numbers that are not finite become null."""
    return _json(_plain(manifest, _Arrays()))


def bundle(model: ModelData) -> bytes:
    """Return the bundle of a model; the same model gives the same bytes."""
    arrays = _Arrays()
    header = _json(_plain(model, arrays)).encode()
    filled = header + b" " * (-(4 + len(header)) % _WORD)
    content = len(header).to_bytes(4, "little") + filled + arrays.content
    return gzip.compress(content, _LEVEL, mtime=0)


class _Arrays:
    """The binary part of a bundle, and references into it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    @property
    def content(self) -> bytes:
        return b"".join(self.parts)

    def add(self, value: Array | File) -> dict[str, Any]:
        """Store an array or a file, and return its `ArrayRef`."""
        if isinstance(value, File):
            content, dtype, shape = value.content, "uint8", (len(value.content),)
        else:
            content, dtype, shape = value.astype("<f4").tobytes(), "float32", value.shape
        planes = value.planes if isinstance(value, File) else _PLANES
        offset = sum(map(len, self.parts))
        self.parts.append(in_planes(content, planes))
        return {"dtype": dtype, "shape": list(shape), "offset": offset, "planes": planes}


def in_planes(content: bytes, count: int) -> bytes:
    r"""Return the first bytes of all `count` numbers, then the second bytes, and so on.

    >>> in_planes(b"aAbBc", 2)
    b'abcAB\x00'
    """
    filled = content + bytes(-len(content) % count)
    return np.frombuffer(filled, np.uint8).reshape(-1, count).T.tobytes()


def _plain(value: Any, arrays: _Arrays) -> Any:
    """Return a value as JSON has it, with arrays stored apart."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, (np.ndarray, File)):
        return arrays.add(value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {_camel_case(name): _plain(getattr(value, name), arrays) for name in names}
    if isinstance(value, Mapping):
        return {visible(name): _plain(each, arrays) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, arrays) for each in value]
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
