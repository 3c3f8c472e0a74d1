"""Data that the papers make: the pinwheel, mixed sources, and a digit that moves."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Seed, spec, tag
from unweave.data.dataset import Dataset
from unweave.data.files.arrays import Arrays, in_memory
from unweave.data.files.folder import Folder
from unweave.data.published.sets import Published

Pictures = Annotated[Arrays | Folder | Published, Field(discriminator="kind")]
Matrix = tuple[tuple[float, ...], ...]
Floats = NDArray[np.float64]


@spec
class Pinwheel:
    """Clusters in the plane, bent to the arms of a pinwheel, with the cluster as the factor.

    r = (1 + a e_1, b e_2),   t = 2 pi cluster / clusters + rate exp(r_1),   x = r R(t),
    R(t) = ((cos t, -sin t), (sin t, cos t)),   e ~ N(0, I)

    [Mathieu2019] app. B names 400 points in 4 clusters, a radial standard deviation of 0.1, a
    tangential one of 0.3, and a rate of 0.25. The generator it used takes them the other way
    round: a is its tangential and b its radial one. `convention="code"` does the same; with "text",
    a is the radial and b the tangential one, and the arms are short and broad.  [Johnson2016]
    """

    clusters: Annotated[int, Field(ge=1, le=1024)] = 4
    points_per_cluster: PositiveInt = 100
    radial_std: NonNegativeFloat = 0.1
    tangential_std: NonNegativeFloat = 0.3
    rate: float = 0.25
    convention: Literal["code", "text"] = "code"
    seed: Seed = 0
    kind: Literal["pinwheel"] = tag("pinwheel")

    def load(self, device: torch.device) -> Dataset:
        """The points on a device."""
        label = np.arange(self.clusters).repeat(self.points_per_cluster)
        swapped = self.convention == "code"
        radial, tangential = self.radial_std, self.tangential_std
        a, b = (tangential, radial) if swapped else (radial, tangential)
        along, aside = _normal(self.seed, (len(label), 2), "points").T
        along, aside = 1 + a * along, b * aside
        angle = 2 * math.pi * label / self.clusters + self.rate * np.exp(along)
        cosine, sine = np.cos(angle), np.sin(angle)
        points = np.stack([cosine * along + sine * aside, cosine * aside - sine * along], 1)
        return in_memory(points.astype(np.float32), label, ["cluster"]).to(device)


@spec
class Mixing:
    """Sources mixed by a matrix, with noise: x = A s + noise * e,  s, e ~ N(0, I).

    A is `matrix`, row by row, or its columns are pictures: those of `columns` with the numbers
    `indices`, each a vector of its pixels; x then has the shape of a picture. With ten digits of
    MNIST these are the data of [Sikka2019] sec. V; with A = 2 I + 0.73 those of app. C.
    [Sikka2019] eq. 17

    With `exact_moments` the joint sample of s and e has mean 0 and the identity as its covariance
    exactly, so means of quadratics in x are those of the distribution. This takes more observations
    than sources and values of x together.

    The sources are real numbers, which `sources()` gives; the dataset has no classes of factors.
    """

    matrix: Matrix = ((2.73, 0.73), (0.73, 2.73))
    columns: Pictures | None = None
    indices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    noise: NonNegativeFloat = 1.0
    observations: PositiveInt = 1000
    exact_moments: bool = False
    seed: Seed = 0
    kind: Literal["mixing"] = tag("mixing")

    def __post_init__(self) -> None:
        if len({len(row) for row in self.matrix}) != 1 or not self.matrix[0]:
            raise ValueError(
                f"expected matrix as rows of one length, at least 1, got {self.matrix}: give "
                "a number for each source in every row"
            )
        if (self.columns is None) != (not self.indices):
            raise ValueError(
                "expected columns and indices together, got one of them: name the pictures and "
                "their numbers, or neither and use matrix"
            )

    def sources(self) -> Tensor:
        """The sources s of all observations, (observations, k)."""
        if self.exact_moments:  # for which the noise is drawn too
            drawn = self._drawn(self._mixing()[0])[0]
        else:
            drawn = self._sources(len(self.indices) or len(self.matrix[0]))
        return torch.from_numpy(drawn).to(torch.float32)

    def loadings(self) -> Tensor:
        """The matrix A in double precision, (N, k)."""
        return torch.from_numpy(self._mixing()[0])

    def load(self, device: torch.device) -> Dataset:
        """The observations on a device."""
        mixing, shape = self._mixing()
        sources, noise = self._drawn(mixing)
        mixed = sources @ mixing.T + self.noise * noise
        return in_memory(mixed.astype(np.float32).reshape(-1, *shape)).to(device)

    def _drawn(self, mixing: Floats) -> tuple[Floats, Floats]:
        """The sources s and the noise e, (observations, k) and (observations, N)."""
        values, count = mixing.shape
        sources = self._sources(count)
        noise = _normal(self.seed, (self.observations, values), "noise")
        if self.exact_moments:
            sources, noise = np.split(whitened(np.hstack([sources, noise])), [count], axis=1)
        return sources, noise

    def _sources(self, count: int) -> Floats:
        return _normal(self.seed, (self.observations, count), "sources")

    def _mixing(self) -> tuple[Floats, tuple[int, ...]]:
        """The matrix A (N, k), and the shape of an observation."""
        if self.columns is None:
            return np.array(self.matrix), (len(self.matrix),)
        pictures = _pictures(self.columns, self.indices)
        return pictures.reshape(len(pictures), -1).T, pictures.shape[1:]


@spec
class MovingDigit:
    """One picture at random places of a blank canvas: x, y = middle + A s + noise * e, in pixels.

    A = 2 I + 0.73, with s, e ~ N(0, I); between pixels the picture is interpolated linearly. The
    paper names no sizes: by default the canvas leaves three standard deviations on each side of
    a digit of 28 x 28.  [Sikka2019] fig. 3

    The sources are real numbers, which `sources()` gives; the dataset has no classes of factors.
    """

    digits: Pictures
    index: Annotated[int, Field(ge=0)] = 0
    side: Annotated[int, Field(ge=8, le=256)] = 48
    noise: NonNegativeFloat = 1.0
    observations: PositiveInt = 1000
    seed: Seed = 0
    kind: Literal["moving-digit"] = tag("moving-digit")

    def sources(self) -> Tensor:
        """The sources s of all observations, (observations, 2)."""
        return self._plane().sources()

    def loadings(self) -> Tensor:
        """The matrix A in double precision, (2, 2)."""
        return self._plane().loadings()

    def places(self) -> Tensor:
        """A s + noise * e of all observations, pixels off the middle, (observations, 2)."""
        return self._plane().load(torch.device("cpu")).images(torch.arange(self.observations))

    def load(self, device: torch.device) -> Dataset:
        """The pictures on a device."""
        (digit,) = _pictures(self.digits, (self.index,))
        low = (
            self.side / 2 + self.places().double().numpy() - np.array(digit.shape[:0:-1]) / 2
        )  # x, y
        across = _placed(low[:, 0], digit.shape[2], self.side)
        down = _placed(low[:, 1], digit.shape[1], self.side)
        pictures = np.einsum("nih,chw,njw->ncij", down, digit, across, optimize=True)
        return in_memory(np.clip(pictures, 0, 1).astype(np.float32)).to(device)

    def _plane(self) -> Mixing:
        return Mixing(noise=self.noise, observations=self.observations, seed=self.seed)


def whitened(draws: Floats) -> Floats:
    """Transform a sample (size, columns) so that its mean is 0 and its covariance the identity."""
    size, columns = draws.shape
    if size <= columns:
        raise ValueError(
            f"expected more observations than sources and values together, {columns}, for a sample "
            f"with the moments of the model, got {size}"
        )
    centred = draws - draws.mean(0)
    root = np.linalg.cholesky(centred.T @ centred / size)
    return np.linalg.solve(root, centred.T).T


def _normal(seed: int, shape: tuple[int, ...], stream: str) -> Floats:
    """Normal numbers made on the CPU, so that the data are the same wherever they go."""
    drawn: Floats = Noise(seed, 0, "generators").normal(shape, stream, torch.float64).numpy()
    return drawn


def _pictures(source: Pictures, indices: tuple[int, ...]) -> Floats:
    """Some pictures of a file or folder, (k, *shape)."""
    found = source.load(torch.device("cpu")).images(torch.tensor(indices))
    if found.ndim != 4:
        raise ValueError(
            f"expected pictures, got observations of shape {tuple(found.shape[1:])}: name the "
            "array of the file that holds pictures with key"
        )
    values: Floats = found.double().numpy()
    return values


def _placed(low: Floats, length: int, side: int) -> Floats:
    """Weights (n, side, length): how much of each pixel lands on each pixel of the canvas.

    Pixel k goes to low + k, which lies between two pixels of the canvas; what falls off it is lost.
    """
    offset = np.arange(side)[:, None] - np.arange(length) - low[:, None, None]
    weights: Floats = np.clip(1 - np.abs(offset), 0, None)
    return weights
