"""Generators of data used in papers: the pinwheel, mixed sources, and a moving digit."""

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Seed, Size, spec, tag
from unweave.data.dataset import Dataset
from unweave.data.files.arrays import Arrays
from unweave.data.files.build import array_dataset
from unweave.data.files.folder import Folder
from unweave.data.files.interpretation import ArrayAxes
from unweave.data.published.datasets import Published

Images = Annotated[Arrays | Folder | Published, Field(discriminator="kind")]
Matrix = tuple[tuple[float, ...], ...]
Floats = NDArray[np.float64]


@spec
class Pinwheel:
    """Clusters in the plane, bent into the arms of a pinwheel; the factor is the cluster.

    r = (1 + a e_1, b e_2),   t = 2 pi cluster / clusters + rate exp(r_1),   x = r R(t),
    R(t) = ((cos t, -sin t), (sin t, cos t)),   e ~ N(0, I)

    [Mathieu2019] app. B names 400 points in 4 clusters, a radial standard deviation of 0.1, a
    tangential one of 0.3, and a rate of 0.25. Its code swaps the two: a is the tangential and b the
    radial one. `convention="code"` does the same; with "text", a is the radial and b the tangential
    one, and the arms are short and broad.  [Johnson2016]
    """

    clusters: Annotated[int, Field(ge=1, le=1024)] = 4
    """Number of arms."""
    points_per_cluster: Size = 100
    """Points in each arm."""
    radial_std: NonNegativeFloat = 0.1
    """Standard deviation along the radius."""
    tangential_std: NonNegativeFloat = 0.3
    """Standard deviation across the radius."""
    rate: float = 0.25
    """How much the arms are bent."""
    convention: Literal["code", "text"] = "code"
    """Which standard deviation is which: as in the paper's code or text."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["pinwheel"] = tag("pinwheel")
    also_cites: ClassVar[tuple[str, ...]] = ("Johnson2016",)

    def load(self, device: torch.device) -> Dataset:
        """Load the points on a device."""
        label = np.arange(self.clusters).repeat(self.points_per_cluster)
        swapped = self.convention == "code"
        radial, tangential = self.radial_std, self.tangential_std
        a, b = (tangential, radial) if swapped else (radial, tangential)
        along, across = _normal(self.seed, (len(label), 2), "points").T
        along, across = 1 + a * along, b * across
        angle = 2 * math.pi * label / self.clusters + self.rate * np.exp(along)
        cosine, sine = np.cos(angle), np.sin(angle)
        points = np.stack([cosine * along + sine * across, cosine * across - sine * along], 1)
        points = points.astype(np.float32)
        return array_dataset(points, label, ["cluster"], scale="none").to(device)


@spec
class Mixing:
    """Sources mixed by a matrix, with noise: x = A s + noise * e,  s, e ~ N(0, I).

    A is `matrix`, row by row, or its columns are images: those of `columns` with these `indices`,
    flattened to vectors; x then has the shape of an image. With ten digits of MNIST these are the
    data of [Sikka2019] sec. V; with A = 2 I + 0.73 those of app. C.
    [Sikka2019] eq. 17

    With `exact_moments` the joint sample of s and e has exactly the mean 0 and the identity as its
    covariance, so averages of quadratics in x equal their expectations. This requires more
    observations than sources and values of x together.

    The sources are real numbers, returned by `sources()`; the dataset itself has no factors.
    """

    matrix: Matrix = ((2.73, 0.73), (0.73, 2.73))
    """The mixing matrix A, row by row."""
    columns: Images | None = None
    """Dataset whose images are the columns of A, instead of a matrix."""
    indices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Indices of these images."""
    noise: NonNegativeFloat = 1.0
    """Standard deviation of the noise."""
    observations: Size = 1000
    """Number of observations to draw."""
    exact_moments: bool = False
    """Whether the sample has exactly the mean and covariance of the model."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["mixing"] = tag("mixing")

    def __post_init__(self) -> None:
        if len({len(row) for row in self.matrix}) != 1 or not self.matrix[0]:
            raise ValueError(
                f"expected matrix as rows of equal length, at least 1, got {self.matrix}: give "
                "a number for each source in every row"
            )
        if (self.columns is None) != (not self.indices):
            raise ValueError(
                "expected columns and indices together, got one of them: give the images and "
                "their indices, or neither and use matrix"
            )

    def sources(self) -> Tensor:
        """Return the sources s of all observations, (observations, k)."""
        if self.exact_moments:  # they depend on the noise too
            sources = self._draw(self._mixing()[0])[0]
        else:
            sources = self._sources(len(self.indices) or len(self.matrix[0]))
        return torch.from_numpy(sources).to(torch.float32)

    def loadings(self) -> Tensor:
        """Return the matrix A in double precision, (N, k)."""
        return torch.from_numpy(self._mixing()[0])

    def load(self, device: torch.device) -> Dataset:
        """Load the observations on a device."""
        mixing, shape = self._mixing()
        sources, noise = self._draw(mixing)
        mixed = sources @ mixing.T + self.noise * noise
        images = mixed.astype(np.float32).reshape(-1, *shape)
        axes: ArrayAxes | None = "nchw" if len(shape) == 3 else None
        return array_dataset(images, scale="none", axes=axes).to(device)

    def _draw(self, mixing: Floats) -> tuple[Floats, Floats]:
        """Draw the sources s (observations, k) and the noise e (observations, N)."""
        values, count = mixing.shape
        sources = self._sources(count)
        noise = _normal(self.seed, (self.observations, values), "noise")
        if self.exact_moments:
            sources, noise = np.split(whiten(np.hstack([sources, noise])), [count], axis=1)
        return sources, noise

    def _sources(self, count: int) -> Floats:
        return _normal(self.seed, (self.observations, count), "sources")

    def _mixing(self) -> tuple[Floats, tuple[int, ...]]:
        """Return the matrix A (N, k) and the shape of an observation."""
        if self.columns is None:
            return np.array(self.matrix), (len(self.matrix),)
        images = _load_images(self.columns, self.indices)
        return images.reshape(len(images), -1).T, images.shape[1:]


@spec
class MovingDigit:
    """One image at random positions on a blank canvas: x, y = centre + A s + noise * e, in pixels.

    A = 2 I + 0.73 and s, e ~ N(0, I); between pixels the image is interpolated linearly. The paper
    does not state sizes; the default canvas leaves three standard deviations on each side of a
    digit of 28 x 28.  [Sikka2019] fig. 3

    The sources are real numbers, returned by `sources()`; the dataset itself has no factors.
    """

    digits: Images
    """Dataset of the image that moves."""
    index: Annotated[int, Field(ge=0)] = 0
    """Index of the image in its dataset."""
    side: Annotated[int, Field(ge=8, le=256)] = 48
    """Height and width of the images in pixels."""
    noise: NonNegativeFloat = 1.0
    """Standard deviation of the position's noise in pixels."""
    observations: Size = 1000
    """Number of observations to draw."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["moving-digit"] = tag("moving-digit")

    def sources(self) -> Tensor:
        """Return the sources s of all observations, (observations, 2)."""
        return self._plane().sources()

    def loadings(self) -> Tensor:
        """Return the matrix A in double precision, (2, 2)."""
        return self._plane().loadings()

    def places(self) -> Tensor:
        """Return A s + noise * e of all observations, pixels from the centre, (observations, 2)."""
        return self._plane().load(torch.device("cpu")).images(torch.arange(self.observations))

    def load(self, device: torch.device) -> Dataset:
        """Load the images on a device."""
        (digit,) = _load_images(self.digits, (self.index,))
        low = (
            self.side / 2 + self.places().double().numpy() - np.array(digit.shape[:0:-1]) / 2
        )  # x, y
        across = _interpolation(low[:, 0], digit.shape[2], self.side)
        down = _interpolation(low[:, 1], digit.shape[1], self.side)
        images = np.einsum("nih,chw,njw->ncij", down, digit, across, optimize=True)
        images = np.clip(images, 0, 1).astype(np.float32)
        return array_dataset(images, scale="none", axes="nchw").to(device)

    def _plane(self) -> Mixing:
        return Mixing(noise=self.noise, observations=self.observations, seed=self.seed)


def whiten(draws: Floats) -> Floats:
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
    """Draw normal numbers on the CPU, so that the data are the same on every device."""
    return Noise(seed, 0, "generators").normal(shape, stream, torch.float64).numpy()


def _load_images(source: Images, indices: tuple[int, ...]) -> Floats:
    """Load some images of a file or folder, (k, *shape)."""
    images = source.load(torch.device("cpu")).images(torch.tensor(indices))
    if images.ndim != 4:
        raise ValueError(
            f"expected images, got observations of shape {tuple(images.shape[1:])}: choose the "
            "array of images in the file with key"
        )
    return images.double().numpy()


def _interpolation(low: Floats, length: int, side: int) -> Floats:
    """Return weights (n, side, length): how much of each pixel goes to each pixel of the canvas.

    Pixel k goes to low + k, between two pixels of the canvas; pixels outside it are lost.
    """
    offset = np.arange(side)[:, None] - np.arange(length) - low[:, None, None]
    weights: Floats = np.clip(1 - np.abs(offset), 0, None)
    return weights
