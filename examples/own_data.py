"""Six datasets of the kind that scientists have, and the factors that generated them.

    python examples/own_data.py own-data
    unweave data info own-data/photos
    unweave train data=own-data/photos
    ...

Every dataset comes with the factors that generated it, in truth/NAME.csv, which no command reads:
compare them with what models learned by

    unweave encode RUN own-data/photos --out seed0.csv
    python examples/own_data.py own-data --compare photos seed0.csv seed1.csv
    python examples/own_data.py own-data --figure photos RUN photos.png

| dataset | what it is | factors behind it |
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

Floats = NDArray[np.float64]
Truth = Mapping[str, Floats]
Predictor = Callable[[Floats, Floats, Floats], Floats]  # codes, factors and new codes
IN_USE = 0.2  # least standard deviation of a code: about 0.02 nats, from which reports count
COLOURS = ("#d55e00", "#e89a5c", "#555555", "#66aad1", "#0072b2")  # of a traversal


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


def counts(path: Path, rng: np.random.Generator, count: int = 400, genes: int = 300) -> Truth:
    """Draw counts of genes that follow three programs, overdispersed, with unequal depth."""
    programs = rng.gamma(0.3, 1.0, (3, genes))
    activity = rng.normal(0, 0.7, (count, 3))
    depth = rng.normal(0, 0.3, count)
    rate = np.exp(activity @ np.log1p(programs) + depth[:, None] + rng.normal(0.3, 0.7, genes))
    values = rng.poisson(rate * rng.gamma(5.0, 0.2, rate.shape))
    header = ["cell", *(f"gene{number}" for number in range(genes))]
    write_lines(path, [header, *([f"c{n}", *map(str, row)] for n, row in enumerate(values))])
    return dict(zip(("first", "second", "third"), activity.T, strict=True)) | {"depth": depth}


MAKERS: dict[str, Callable[..., Truth]] = {
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


def make(folder: Path, count: int | None = None) -> None:
    """Write all datasets, of `count` observations each if given, and what generated them."""
    (folder / "truth").mkdir(parents=True)
    for seed, (name, maker) in enumerate(MAKERS.items()):
        size = {} if count is None else {"count": count}
        truth = maker(folder / name, np.random.default_rng(seed), **size)
        columns = [[f"{value:.6g}" for value in column] for column in truth.values()]
        write_lines(
            folder / "truth" / f"{Path(name).stem}.csv",
            [list(truth), *map(list, zip(*columns, strict=True))],
        )


def compare(truth: Path, codes: Sequence[Path]) -> None:
    """Print what codes say about every factor, a line each, for one or several seeds.

    R^2 is that of a prediction from all codes in ten-fold cross-validation: by linear regression,
    and by the mean of the five nearest neighbours. It is high if the information is there. The
    rank correlation with the best single latent variable is high if that variable is the factor.
    Only variables in use take part: the others have next to no effect on the reconstructions, but
    their tiny codes may still follow a factor.
    """
    names, factors = read_numbers(truth)
    files = [in_use(*read_numbers(path)) for path in codes]
    linear = np.mean([r2(values, factors, by_regression) for _, values in files], axis=0)
    near = np.mean([r2(values, factors, by_neighbours) for _, values in files], axis=0)
    best = [name_best(latents, values, factors) for latents, values in files]
    print(f"{'':10}  R^2 from all codes    best latent variable, |rank correlation|")
    heads = "".join(f"{path.stem[:10]:11}" for path in codes)
    print(f"{'factor':10}{'linear':>8}{'neighbours':>12}    {heads}".rstrip())
    for n, name in enumerate(names):
        cells = "".join(f"{seed[n]:11}" for seed in best)
        print(f"{name:10}{linear[n]:8.2f}{near[n]:12.2f}    {cells}".rstrip())


def in_use(latents: list[str], codes: Floats) -> tuple[list[str], Floats]:
    """Return the names and codes of the latent variables that carry information."""
    used = np.flatnonzero(codes.std(0) >= IN_USE)
    return [latents[n] for n in used], codes[:, used]


def r2(codes: Floats, factors: Floats, predict: Predictor) -> Floats:
    """Return the share of each factor's variance that is predicted in ten-fold cross-validation."""
    error = np.zeros_like(factors)
    for fold in range(10):
        test = np.arange(len(codes)) % 10 == fold
        error[test] = factors[test] - predict(codes[~test], factors[~test], codes[test])
    explained: Floats = 1 - (error**2).sum(0) / ((factors - factors.mean(0)) ** 2).sum(0)
    return explained


def by_regression(codes: Floats, factors: Floats, new: Floats) -> Floats:
    """Predict factors of new codes by least squares."""
    weights = np.linalg.lstsq(np.c_[np.ones(len(codes)), codes], factors, rcond=None)[0]
    predicted: Floats = np.c_[np.ones(len(new)), new] @ weights
    return predicted


def by_neighbours(codes: Floats, factors: Floats, new: Floats, count: int = 5) -> Floats:
    """Predict factors of new codes by the mean of the nearest ones."""
    order = ((new[:, None] - codes[None]) ** 2).sum(-1).argsort(1)[:, :count]
    mean: Floats = factors[order].mean(1)
    return mean


def best_latents(codes: Floats, factors: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the latent variable with the largest |rank correlation| with each factor, and it."""
    ranks = np.c_[factors, codes].argsort(0).argsort(0)
    table = np.abs(np.corrcoef(ranks.T)[: factors.shape[1], factors.shape[1] :])
    return table.argmax(1), table.max(1)


def name_best(latents: list[str], codes: Floats, factors: Floats) -> list[str]:
    """Return the name and |rank correlation| of the best latent variable of each factor."""
    if not latents:
        return ["all off"] * factors.shape[1]
    which, strength = best_latents(codes, factors)
    return [f"{latents[n]} {value:.2f}" for n, value in zip(which, strength, strict=True)]


def draw(folder: Path, name: str, run: str, path: Path) -> None:
    """Draw the latent variable that is most like each factor: its traversal, and code by factor."""
    import matplotlib.pyplot as plt

    import unweave as uw

    names, factors = read_numbers(folder / "truth" / f"{name}.csv")
    (data,) = (folder / each for each in MAKERS if Path(each).stem == name)
    model = uw.load(run)
    every = np.asarray(model.encode(data), np.float64)
    latents, codes = in_use([f"z{n}" for n in range(every.shape[1])], every)
    which, strength = best_latents(codes, factors)
    best = [latents[n] for n in which]
    traversals = np.stack(model.traverse(steps=5)).astype(np.float64)
    traversals = for_display(name, traversals[[int(latent[1:]) for latent in best]])
    figure, axes = plt.subplots(
        2, len(names), figsize=(2.4 * len(names), 3.4), height_ratios=(1, 1.4), squeeze=False
    )
    for n, (above, below) in enumerate(axes.T):
        above.set_title(best[n], fontsize=9)
        draw_traversal(above, traversals[n], (traversals.min(), traversals.max()))
        below.scatter(factors[:, n], codes[:, which[n]], s=3, linewidths=0, color="#0072b2")
        below.set_xlabel(f"{names[n]} ({strength[n]:.2f})", fontsize=9)
        below.set_ylabel(best[n], fontsize=9)
    for each in axes.flat:
        each.tick_params(labelsize=7)
        each.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


def for_display(name: str, traversals: Floats) -> Floats:
    """Return traversals (latent variable, step, ...) in a form that shows what changes."""
    if name == "counts":  # a column says little; sort them by how much they change
        change = np.log2(traversals / traversals[:, 2:3])
        return np.take_along_axis(change, change[:, -1:].argsort(-1), -1)
    if name == "photos" or traversals.ndim == 3:  # in their own colours or units
        return traversals
    channels = traversals[:, :, :3]
    low, high = (end((0, 1, 3, 4), keepdims=True) for end in (channels.min, channels.max))
    scaled: Floats = (channels - low) / (high - low)
    return scaled


def draw_traversal(axes: Any, values: Floats, limits: tuple[float, float]) -> None:
    """Draw images side by side, or vectors as curves from the low (orange) to the high end."""
    if values.ndim == 2:
        for value, colour in zip(values, COLOURS, strict=True):
            axes.plot(value, color=colour, linewidth=1)
        axes.set_ylim(limits)
        return
    strip = np.concatenate(list(values), axis=-1).transpose(1, 2, 0)
    axes.imshow(strip.squeeze(), cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()


def read_numbers(path: Path) -> tuple[list[str], Floats]:
    """Return the names and values of the columns of a CSV file, but for a column of row names."""
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    first = int(header[0] == "name")
    return header[first:], np.array([line[first:] for line in lines], np.float64)


def main() -> None:
    """Write the datasets, or compare codes with what generated one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", nargs="+", metavar=("NAME", "CODES"))
    parser.add_argument("--figure", nargs=3, metavar=("NAME", "RUN", "PNG"))
    parser.add_argument("--count", type=int, help="observations of each dataset")
    options = parser.parse_args()
    if options.compare:
        name, *codes = options.compare
        compare(options.folder / "truth" / f"{name}.csv", [Path(each) for each in codes])
    elif options.figure:
        name, run, path = options.figure
        draw(options.folder, name, run, Path(path))
    else:
        make(options.folder, options.count)


if __name__ == "__main__":
    main()
