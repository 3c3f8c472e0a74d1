"""Points in the plane for codes: principal components, and embeddings of other packages."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.notes import quietly

Array = NDArray[np.float32]
Method = Literal["umap", "pacmap"]
METHOD_NAMES: dict[Method, str] = {"umap": "UMAP", "pacmap": "PaCMAP"}
_INSTALLS: dict[Method, str] = {"umap": "'unweave[embedding]'", "pacmap": "pacmap"}
_LEAST = 16  # codes that both methods find neighbours for


def principal_components(codes: Array) -> Array:
    """Return the first two principal components of codes (n, D), (n, 2).

    The largest weight of each is positive, so that the picture is the same every time. If D is 1,
    the second is 0.
    """
    centred = codes.astype(np.float64) - codes.mean(0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    chosen = axes[:, ::-1][:, :2]
    largest = np.abs(chosen).argmax(0)
    chosen = chosen * np.sign(chosen[largest, np.arange(chosen.shape[1])])
    plane = np.zeros((len(codes), 2), np.float32)
    plane[:, : chosen.shape[1]] = centred @ chosen
    return plane


def embed(codes: Array, method: Method, seed: int) -> Array:
    """Return a 2-D embedding of codes (n, D), (n, 2), by UMAP or PaCMAP."""
    check_method(method)
    if len(codes) < _LEAST:
        raise ValueError(
            f"expected at least {_LEAST} observations for an embedding, got {len(codes)}: encode "
            "more rows, or leave --embedding out"
        )
    if not np.ptp(codes, axis=0).any():  # both methods find no neighbours in a single point
        return np.zeros((len(codes), 2), np.float32)
    wide = np.pad(codes, ((0, 0), (0, max(0, 2 - codes.shape[1]))))  # start in two dimensions
    with quietly(method):  # no warnings, such as that a fixed seed means one thread
        package: Any = import_module(method)
        reducer = package.UMAP if method == "umap" else package.PaCMAP
        plane = reducer(n_components=2, random_state=seed).fit_transform(wide)
    return np.asarray(plane, np.float32)


def check_method(method: str) -> None:
    """Raise a ValueError for a method that is unknown, or whose package is not installed."""
    if method not in METHOD_NAMES:
        raise ValueError(f"expected an embedding by umap or pacmap, got {method!r}")
    if find_spec(method) is None:
        raise ValueError(
            f"an embedding by {METHOD_NAMES[method]} needs the package {method}, which is not "
            f"installed: pip install {_INSTALLS[method]}"
        )
