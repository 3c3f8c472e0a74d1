"""Five data sets as scientists have them, and what generated them.

    python examples/own_data.py own-data
    unweave data info own-data/photos
    unweave train data=own-data/photos
    ...

Every data set comes with the factors that generated it, in truth/NAME.csv, which no command reads:
compare them with what a model learned by

    unweave encode RUN own-data/photos --out codes.csv
    python examples/own_data.py own-data --compare photos codes.csv

| data set | what it is | factors behind it |
|---|---|---|
| photos/ | 600 RGB images of unequal sizes; labels.csv with gaps | size, hue, position |
| spectra.csv | 500 spectra of 120 wavelengths, with names | three concentrations, a shift |
| channels.npy | (200, 5, 48, 48) floats, some negative | position, two intensities |
| microscopy/ | 300 16-bit TIFF images that use 200 to 3,000 of 65,535 | size, position |
| stacks/ | 200 TIFF stacks of three pages, which are channels | position, intensity of a channel |
| counts.csv | 400 cells x 300 genes, counts | three programs, depth |
"""

from __future__ import annotations

import argparse
import colorsys
import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

Floats = NDArray[np.float64]
Truth = Mapping[str, Floats]


def blob(side: tuple[int, int], x: float, y: float, radius: float, soft: float = 0.15) -> Floats:
    """Return a soft disc at (x, y) in [0, 1]; the radius is a share of the shorter side."""
    height, width = side
    rows, columns = np.mgrid[:height, :width] + 0.5
    distance = np.hypot(rows - y * height, columns - x * width) / min(side)
    disc: Floats = 1 / (1 + np.exp((distance - radius) / (soft * radius)))
    return disc


def photos(folder: Path, rng: np.random.Generator, count: int = 600) -> Truth:
    """Draw fruits of a size, hue and position, photographed in different formats."""
    folder.mkdir(parents=True)
    kinds = {"lime": 0.25, "orange": 0.08, "plum": 0.8}
    kind = rng.choice(list(kinds), count)
    hue = np.array([kinds[each] for each in kind]) + rng.normal(0, 0.02, count)
    radius = rng.uniform(0.1, 0.3, count)
    x, y = rng.uniform(0.3, 0.7, (2, count))
    lines = [["file", "diameter_mm", "kind", "note"]]
    for n in range(count):
        height, width = rng.integers(80, 140, 2)
        disc = blob((height, width), x[n], y[n], radius[n])[..., None]
        colour = np.array(colorsys.hsv_to_rgb(hue[n] % 1, 0.8, 0.9))
        table = np.array([0.85, 0.82, 0.75]) * rng.uniform(0.9, 1.0)
        image = disc * colour + (1 - disc) * table + rng.normal(0, 0.02, (height, width, 3))
        name = f"fruit_{n:03}.{'png' if n % 2 else 'jpg'}"
        Image.fromarray((np.clip(image, 0, 1) * 255).astype(np.uint8)).save(folder / name)
        diameter = "" if rng.random() < 0.1 else f"{300 * radius[n]:.1f}"
        lines.append([name, diameter, "" if rng.random() < 0.05 else kind[n], f"shot {n}"])
    write_lines(folder / "labels.csv", lines)
    return {"hue": hue, "radius": radius, "x": x, "y": y}


def spectra(path: Path, rng: np.random.Generator, count: int = 500) -> Truth:
    """Mix three absorption lines, one of which moves, on a sloping baseline."""
    wavelengths = np.arange(400, 1000, 5)
    amount = rng.gamma(2.0, 1.0, (count, 3))
    shift = rng.normal(0, 12, count)
    centres, widths = np.array([520.0, 640.0, 820.0]), np.array([25.0, 40.0, 60.0])
    place = np.tile(centres, (count, 1)) + np.outer(shift, [0, 1, 0])
    lines = np.exp(-0.5 * ((wavelengths - place[..., None]) / widths[:, None]) ** 2)
    values = (amount[..., None] * lines).sum(1) + 0.002 * (wavelengths - 400) + 5.0
    values += rng.normal(0, 0.05, values.shape)
    batch = rng.choice(["north", "south"], count)
    header = ["sample", "site", *map(str, wavelengths)]
    rows = [[f"S-{n:04}", batch[n], *(f"{value:.4f}" for value in values[n])] for n in range(count)]
    write_lines(path, [header, *rows])
    names = ("line520", "line640", "line820")
    return dict(zip(names, amount.T, strict=True)) | {"shift": shift}


def channels(path: Path, rng: np.random.Generator, count: int = 200) -> Truth:
    """Draw a blob seen in five channels, with contrasts of both signs."""
    x, y = rng.uniform(0.25, 0.75, (2, count))
    first, second = rng.normal(0, 1, (2, count))
    patterns = np.array([[1.0, 0.8, 0.2, 0.0, -0.5], [0.0, -0.4, 0.3, 1.0, 0.7]])
    weights = 2 + np.outer(first, patterns[0]) + np.outer(second, patterns[1])
    images = np.stack([blob((48, 48), x[n], y[n], 0.2) for n in range(count)])
    values = weights[:, :, None, None] * images[:, None] - 0.5
    np.save(path, (values + rng.normal(0, 0.05, values.shape)).astype(np.float32))
    return {"x": x, "y": y, "first": first, "second": second}


def microscopy(folder: Path, rng: np.random.Generator, count: int = 300) -> Truth:
    """Draw cells in 16-bit images that use a small part of the range."""
    folder.mkdir(parents=True)
    radius, (x, y) = rng.uniform(0.12, 0.3, count), rng.uniform(0.3, 0.7, (2, count))
    for n in range(count):
        signal = 200 + 2600 * blob((64, 64), x[n], y[n], radius[n])
        image = np.clip(rng.normal(signal, 40), 200, 3000).astype(np.uint16)
        Image.fromarray(image).save(folder / f"cell{n:03}.tif")
    return {"radius": radius, "x": x, "y": y}


def stacks(folder: Path, rng: np.random.Generator, count: int = 200) -> Truth:
    """Write stacks of three channels as ImageJ does, with the axes in the description."""
    folder.mkdir(parents=True)
    (x, y), strength = rng.uniform(0.3, 0.7, (2, count)), rng.uniform(0.2, 1.0, count)
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[270] = "ImageJ=1.54f\nimages=3\nchannels=3\nhyperstack=true\nmode=composite\n"
    for n in range(count):
        nucleus = blob((48, 48), x[n], y[n], 0.1)
        body = blob((48, 48), x[n], y[n], 0.25)
        pages = [2000 * nucleus, 1500 * body, 3000 * strength[n] * body]
        images = [Image.fromarray(_sixteen_bit(page, rng)) for page in pages]
        images[0].save(
            folder / f"stack{n:03}.tif", save_all=True, append_images=images[1:], tiffinfo=tags
        )
    return {"x": x, "y": y, "strength": strength}


def _sixteen_bit(page: Floats, rng: np.random.Generator) -> NDArray[np.uint16]:
    noisy: NDArray[np.uint16] = np.clip(rng.normal(page + 300, 30), 0, 65535).astype(np.uint16)
    return noisy


def counts(path: Path, rng: np.random.Generator, cells: int = 400, genes: int = 300) -> Truth:
    """Draw counts of genes that follow three programs, overdispersed, with unequal depth."""
    programs = rng.gamma(0.3, 1.0, (3, genes))
    activity = rng.normal(0, 0.7, (cells, 3))
    depth = rng.normal(0, 0.3, cells)
    rate = np.exp(activity @ np.log1p(programs) + depth[:, None] + rng.normal(0.3, 0.7, genes))
    values = rng.poisson(rate * rng.gamma(5.0, 0.2, rate.shape))
    header = ["cell", *(f"gene{number}" for number in range(genes))]
    write_lines(path, [header, *([f"c{n}", *map(str, row)] for n, row in enumerate(values))])
    return dict(zip(("first", "second", "third"), activity.T, strict=True)) | {"depth": depth}


MAKERS: dict[str, Callable[[Path, np.random.Generator], Truth]] = {
    "photos": photos,
    "spectra.csv": spectra,
    "channels.npy": channels,
    "microscopy": microscopy,
    "stacks": stacks,
    "counts.csv": counts,
}


def write_lines(path: Path, lines: list[list[str]]) -> None:
    """Write the lines of a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def make(folder: Path) -> None:
    """Write all data sets, and what generated them."""
    (folder / "truth").mkdir(parents=True)
    for seed, (name, maker) in enumerate(MAKERS.items()):
        truth = maker(folder / name, np.random.default_rng(seed))
        columns = [[f"{value:.6g}" for value in column] for column in truth.values()]
        write_lines(
            folder / "truth" / f"{Path(name).stem}.csv",
            [list(truth), *map(list, zip(*columns, strict=True))],
        )


def compare(truth: Path, codes: Path) -> None:
    """Print how well codes predict every factor: R^2 of nearest neighbours, and the best latent."""
    names, factors = _read_numbers(truth)
    latents, values = _read_numbers(codes)
    train = np.arange(len(factors)) % 2 == 0
    standard = (values - values.mean(0)) / np.maximum(values.std(0), 1e-9)
    order = ((standard[~train, None] - standard[None, train]) ** 2).sum(-1).argsort(1)[:, :5]
    predicted = factors[train][order].mean(1)
    error = ((factors[~train] - predicted) ** 2).sum(0)
    explained = 1 - error / ((factors[~train] - factors[train].mean(0)) ** 2).sum(0)
    with np.errstate(invalid="ignore"):
        both = np.corrcoef(factors.T, values.T)[: len(names), len(names) :]
    print(f"{'factor':12}{'R^2 of 5 neighbours':>20}   best latent (correlation)")
    for name, share, row in zip(names, explained, np.nan_to_num(both), strict=True):
        best = int(np.abs(row).argmax())
        print(f"{name:12}{share:20.2f}   {latents[best]} ({row[best]:+.2f})")


def _read_numbers(path: Path) -> tuple[list[str], Floats]:
    """Return the names and values of the columns of numbers in a CSV file."""
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    columns = list(zip(*lines, strict=True))
    numeric = [n for n, column in enumerate(columns) if _is_number(column[0])]
    return [header[n] for n in numeric], np.array([columns[n] for n in numeric], np.float64).T


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def main() -> None:
    """Write the data sets, or compare codes with what generated one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", nargs=2, metavar=("NAME", "CODES"))
    options = parser.parse_args()
    if options.compare:
        name, codes = options.compare
        compare(options.folder / "truth" / f"{name}.csv", Path(codes))
    else:
        make(options.folder)


if __name__ == "__main__":
    main()
