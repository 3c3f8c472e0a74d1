"""Data from arrays: a .npz or .npy file, or an array that is already in Python."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from torch import Tensor

from unweave.data.lattice import Factor, Lattice
from unweave.data.world import Place, Stored, World
from unweave.spec import nearest, spec, tag

Array = NDArray[Any]

CHANNELS = (1, 3, 4)
USUAL_KEYS = ("imgs", "images", "x", "data")
NAMES_KEY = "factor_names"
UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


@spec
class Arrays:
    """Observations in a NumPy file: .npz, or .npy for a single array.

    Observations are (N, H, W), (N, H, W, C), (N, C, H, W) or vectors (N, D). Bytes are read as
    0..255 and scaled to [0, 1]; floats are kept as they are. `key` names the array in an .npz;
    `factors_key` the integer factors (N, K), whose names are read from `factor_names` if the
    file has it.
    """

    path: Place
    key: str | None = None
    factors_key: str | None = None
    kind: Literal["arrays"] = tag("arrays")

    def load(self, device: torch.device) -> World:
        """Read the file and put its content on a device."""
        content = _read(Path(self.path), self.key, self.factors_key)
        try:
            world = store(content.images, content.factors, content.names, content.notes)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        return world.to(device)


@spec
class InMemory:
    """An array given in Python: the spec holds what identifies it, not the array.

    Made by `from_array`, which also binds the array to it, so that `load` finds the array for as
    long as that spec is in use in this process.
    """

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # sha256 of images and factors
    shape: tuple[int, ...]
    dtype: str
    kind: Literal["memory"] = tag("memory")

    def load(self, device: torch.device) -> World:
        """The bound array on a device."""
        bound = _WORLDS.get(self)
        if bound is None:
            raise ValueError(
                f"expected an array {self.shape} of {self.dtype} with digest {self.digest[:12]} to "
                "be bound in this process, got none: call from_array(images, factors) with it and "
                "keep the spec, or save it as .npz and use Arrays"
            )
        return bound.to(device)


# The arrays behind the specs. Both maps are weak: an array is held while its spec is in use.
_SPECS: WeakValueDictionary[str, InMemory] = WeakValueDictionary()
_WORLDS: WeakKeyDictionary[InMemory, Stored] = WeakKeyDictionary()


def from_array(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> tuple[InMemory, World]:
    """The spec of an array, and the world it is; while the spec lives, so does the binding.

    The array is copied: what the caller does to it later changes nothing here.

    >>> spec, world = from_array(np.zeros((5, 8, 8), np.uint8))
    >>> spec.shape, world.shape
    ((5, 8, 8), (1, 8, 8))
    """
    images = as_numpy(images)
    factors = None if factors is None else as_numpy(factors)
    world = store(images, factors, names).to(torch.device(device))
    digest = _digest(images, factors, world.factor_names)
    made = InMemory(digest, images.shape, str(images.dtype))
    identity = _SPECS.setdefault(digest, made)
    _WORLDS.setdefault(identity, world)
    return identity, world


def store(
    images: Array,
    factors: Array | None = None,
    names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Stored:
    """A world from arrays, after every check that can be made on them."""
    arranged, layout = _arrange(images)
    values = _values(arranged)
    codes, sizes = _recode(factors, len(images))
    names = _names(names, len(sizes))
    return Stored(
        data=values.data,
        codes=codes,
        unit=values.unit,
        bounded=values.bounded,
        factor_names=names,
        factor_sizes=sizes,
        lattice=_lattice(codes, names, sizes),
        notes=(*notes, *layout, *values.notes),
        integer_unit=values.integer_unit,
    )


def read_like(world: World, observations: ArrayLike | Tensor) -> Tensor:
    """Observations (N, *shape) as float32 on the world's device, read as the world's own were.

    Integers are multiplied by the world's unit, so what they mean does not depend on which others
    come with them; floats are taken as they are. Images may have their channels last, or none.
    """
    array = as_numpy(observations)
    if array.shape[1:] == world.shape[1:] and world.shape[0] == 1 and len(world.shape) == 3:
        array = array[:, None]
    elif array.shape[1:] == (*world.shape[1:], world.shape[0]) != world.shape:
        array = np.moveaxis(array, -1, 1)
    if array.ndim == 0 or array.shape[1:] != world.shape or not len(array):
        raise ValueError(
            f"expected observations of shape (N, {', '.join(map(str, world.shape))}), as in the "
            f"data, got {array.shape}"
        )
    unit = world.integer_unit if array.dtype.kind in "iu" else 1.0
    values = torch.from_numpy(np.array(array, dtype=np.float32, order="C")).to(world.device) * unit
    if not values.isfinite().all():
        raise ValueError("expected finite observations, got NaN or infinity: remove or replace it")
    if world.bounded and not 0 <= values.min() <= values.max() <= 1:
        raise ValueError(
            f"expected values in [0, 1] as in the data, got {values.min():g} to {values.max():g}"
        )
    return values


class _Content(NamedTuple):
    """What a file holds."""

    images: Array
    factors: Array | None
    names: list[str] | None
    notes: list[str]


class _Values(NamedTuple):
    """Observations as they are stored, and what a stored 1 stands for."""

    data: Tensor
    unit: float
    bounded: bool
    notes: list[str]
    integer_unit: float = 1.0  # what an integer 1 stood for as it came


def _read(path: Path, key: str | None, factors_key: str | None) -> _Content:
    if not path.is_file():
        raise ValueError(
            f"expected a .npz or .npy file at {path}, got nothing there: check the path"
        )
    with path.open("rb") as handle:  # NumPy leaves the file open if it cannot read it
        opened = _open(path, handle)
        if isinstance(opened, np.ndarray):
            return _single(path, opened, key or factors_key)
        return _several(path, opened, key, factors_key)


def _open(path: Path, handle: BinaryIO) -> Array | NpzFile:
    try:
        opened: Array | NpzFile = np.load(handle, allow_pickle=False)
        return opened
    except UNREADABLE as error:
        raise ValueError(_unreadable(str(path), error)) from None


def _member(path: Path, file: NpzFile, key: str) -> Array:
    """The array of that name in the file."""
    if key not in file.files:
        raise ValueError(f"{path} holds no array {key!r}: {nearest(key, file.files)}")
    try:
        return np.asarray(file[key])
    except UNREADABLE as error:
        raise ValueError(_unreadable(f"{key!r} of {path}", error)) from None


def _unreadable(where: str, error: Exception) -> str:
    if "pickle" in str(error):
        return (
            f"expected arrays of numbers in {where}, got pickled objects or another format: "
            "pickles can run code and are never loaded; save plain arrays with numpy.savez"
        )
    return f"expected a readable .npz or .npy file, got {where}: {error}; save it again"


def _single(path: Path, images: Array, key: str | None) -> _Content:
    if key is not None:
        raise ValueError(
            f"expected no key for {path}, a single array without keys, got {key!r}: leave key and "
            "factors_key out, or save images and factors together as .npz"
        )
    return _Content(images, None, None, [])


def _several(path: Path, file: NpzFile, key: str | None, factors_key: str | None) -> _Content:
    chosen = key or _usual(path, file.files)
    images = _member(path, file, chosen)
    if factors_key is not None:
        factors = _member(path, file, factors_key)
        named = NAMES_KEY in file.files
        names = [str(name) for name in _member(path, file, NAMES_KEY)] if named else None
        return _Content(images, factors, names, [])
    others = sorted(set(file.files) - {chosen})
    notes = [f"read {chosen!r}; not read: {', '.join(others)}"] if others else []
    return _Content(images, None, None, notes)


def _usual(path: Path, keys: Sequence[str]) -> str:
    """The array that holds the observations when none is named."""
    if len(keys) == 1:
        return keys[0]
    for key in USUAL_KEYS:
        if key in keys:
            return key
    raise ValueError(
        f"expected one array in {path}, or one named {', '.join(USUAL_KEYS)}, got "
        f"{', '.join(sorted(keys)) or 'none'}: choose it with key"
    )


def _arrange(images: Array) -> tuple[Array, list[str]]:
    """Observations as (N, C, H, W) or (N, D), and how their axes were read if that was a choice."""
    if images.ndim not in (2, 3, 4):
        raise ValueError(
            "expected observations of shape (N, H, W), (N, H, W, C), (N, C, H, W) or (N, D), got "
            f"{images.shape}: reshape them"
        )
    if images.size == 0:
        raise ValueError(
            f"expected at least one observation of at least one value, got shape {images.shape}: "
            "check what was saved"
        )
    if images.ndim == 2:
        return images, []
    if images.ndim == 3:
        return images[:, None], []
    return _channels_first(images)


def _channels_first(images: Array) -> tuple[Array, list[str]]:
    """(N, C, H, W) from either order, the channel axis being the one of length 1, 3 or 4.

    If both could be, the reading with the squarer picture is taken, channels last if they are
    equal: pictures are rarely 3 pixels high.
    """
    _, a, b, c = images.shape
    first, last = a in CHANNELS, c in CHANNELS
    if not first and not last:
        raise ValueError(
            f"expected 1, 3 or 4 channels on axis 1 or on the last axis, got shape {images.shape}: "
            "move the channels there, or flatten each observation to a vector"
        )
    if first and last:
        last = max(a, b) * min(b, c) <= max(b, c) * min(a, b)
        order = "channels last" if last else "channels first"
        notes = [f"the shape {images.shape} could be read in two ways: taken as {order}"]
    else:
        notes = []
    return (np.moveaxis(images, -1, 1) if last else images), notes


def _values(images: Array) -> _Values:
    """Observations as a tensor of the type they are stored in."""
    kind = images.dtype.kind
    if kind == "b":
        return _Values(_tensor(images, np.bool_), 1.0, True, [])
    if kind == "f":
        return _floats(images)
    if kind in "iu":
        return _integers(images)
    raise ValueError(
        f"expected observations as bytes, booleans or floats, got {images.dtype}: convert them "
        "with astype"
    )


def _floats(images: Array) -> _Values:
    with np.errstate(over="ignore"):  # an overflow becomes inf, and is refused below
        data = _tensor(images, np.float32)
    low, high = (float(bound) for bound in data.aminmax())
    if not np.isfinite([low, high]).all():
        bad = int((~torch.isfinite(data)).flatten(1).any(1).nonzero()[0])
        raise ValueError(
            f"expected finite float32 values, got NaN or infinity, first in observation {bad}: "
            "remove or replace it"
        )
    if low >= 0 and high <= 1:
        return _Values(data, 1.0, True, [])
    span = f"values lie in [{low:g}, {high:g}], kept as they are: no Bernoulli likelihood"
    return _Values(data, 1.0, False, [span])


def _integers(images: Array) -> _Values:
    """Integers by their range: 0 and 1 are binary, up to 255 bytes, uint16 its full range."""
    low, high = int(images.min()), int(images.max())
    if low >= 0 and high <= 1:
        notes = ["integers 0 and 1 read as binary"]
        return _Values(_tensor(images, np.uint8), 1.0, True, notes)
    if low >= 0 and high <= 255 and images.dtype != np.uint16:
        notes = [] if images.dtype == np.uint8 else [f"{images.dtype} read as bytes 0..255"]
        return _Values(_tensor(images, np.uint8), 1 / 255, True, notes, 1 / 255)
    if images.dtype == np.uint16:
        notes = ["uint16 divided by 65535"]
        return _Values(_tensor(images / 65535, np.float32), 1.0, True, notes, 1 / 65535)
    raise ValueError(
        f"expected integers in 0..255 or of type uint16, got {images.dtype} from {low} to {high}: "
        "convert them to floats in the range you want"
    )


def _tensor(array: Array, dtype: type[np.generic]) -> Tensor:
    # A copy in native byte order and C order: the tensor must not change with the caller's array.
    return torch.from_numpy(np.array(array, dtype=dtype, order="C", copy=True))


def _recode(factors: Array | None, count: int) -> tuple[Tensor, tuple[int, ...]]:
    """Factors (N, K) as classes 0..n-1 in the order of their values, and the sizes n."""
    if factors is None:
        return torch.zeros(count, 0, dtype=torch.int64), ()
    if factors.ndim == 1:
        factors = factors[:, None]
    if factors.ndim != 2 or len(factors) != count or factors.shape[1] == 0:
        raise ValueError(
            f"expected factors of shape ({count}, K), one row for each observation, got "
            f"{factors.shape}: check that both come from the same set"
        )
    if factors.dtype.kind not in "biu":
        raise ValueError(
            f"expected factors as integers, got {factors.dtype}: number the values of each factor, "
            "for example with numpy.unique(..., return_inverse=True)"
        )
    columns = [np.unique(column, return_inverse=True) for column in factors.T]
    codes = np.stack([code.reshape(-1) for _, code in columns], axis=1)
    return _tensor(codes, np.int64), tuple(len(values) for values, _ in columns)


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"factor{k}" for k in range(count))
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"expected {count} distinct factor names, got {list(names)}: name each column once"
        )
    return tuple(names)


def _lattice(codes: Tensor, names: tuple[str, ...], sizes: tuple[int, ...]) -> Lattice | None:
    """The lattice, where the observations are exactly its combinations in order."""
    if not sizes or int(np.prod(sizes, dtype=object)) != len(codes):
        return None
    lattice = Lattice(tuple(Factor(name, size) for name, size in zip(names, sizes, strict=True)))
    return lattice if bool((lattice.index(codes) == torch.arange(len(codes))).all()) else None


def as_numpy(array: ArrayLike | Tensor) -> Array:
    """An array of anything that is one, tensors on any device included."""
    if isinstance(array, Tensor):
        return array.detach().cpu().numpy()
    try:
        return np.asarray(array)
    except ValueError as error:
        raise ValueError(f"expected a regular array, got {error}: make all rows equal") from None


def _digest(images: Array, factors: Array | None, names: tuple[str, ...]) -> str:
    """Sha256 of the content: types, shapes, bytes and names."""
    state = hashlib.sha256(repr(names).encode())
    for array in (images,) if factors is None else (images, factors):
        state.update(f"{array.dtype.str}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()
