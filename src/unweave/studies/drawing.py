"""One style for the figures of all papers, and files of them: SVG and PNG.

The colours are those of the reports, by Okabe and Ito, which readers with any colour vision tell
apart; lines that differ in colour differ in their dashes too. Files have the same bytes every time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unweave.core.files import write_atomically
from unweave.theory import Estimates
from unweave.theory.bias import Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9"
INK, MUTED, GRID = "#1a1e23", "#5c656f", "#e4e4de"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)))

_PIXELS = 160  # an inch of a PNG
_STYLE: Any = {  # matplotlib's type is the list of all its settings
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that files are the same everywhere
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "unweave",
}


@contextmanager
def styled() -> Iterator[None]:
    """The style, for as long as figures are made or written; `reproduce` makes them inside it."""
    try:
        import matplotlib
    except ImportError:
        raise ValueError(
            "figures of papers need matplotlib, which is not installed: pip install "
            "'unweave[papers]'"
        ) from None
    with matplotlib.rc_context(_STYLE):
        yield


def panels(
    rows: int, columns: int, width: float = 3.5, height: float = 2.5
) -> tuple[Figure, list[Axes]]:
    """An empty figure of panels of a size in inches, row by row."""
    from matplotlib.figure import Figure

    figure = Figure((columns * width, rows * height), layout="constrained")
    made = figure.subplots(rows, columns, squeeze=False)
    return figure, list(made.flat)


def lettered(axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """Titles with letters before them, as figures of papers have them."""
    for letter, axis, title in zip("ABCDEFGHIJKL", axes, titles, strict=False):
        axis.set_title(f"{letter}  {title}")


def draw_bias(axis: Axes, found: dict[str, Estimates], quantity: Quantity = "entropy") -> None:
    """How far estimates are off by the size of the batch, a line for each of them by its name.

    Bands are two standard errors to either side. The names are in order, and so are the colours.
    """
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.0, 0.85, len(found)))
    for colour, dashes, (name, each) in zip(shades, DASHES, found.items(), strict=False):
        bias, error = each.bias[quantity], each.error[quantity]
        axis.fill_between(each.batch_sizes, bias - 2 * error, bias + 2 * error, color=colour,
                          alpha=0.2, linewidth=0)  # fmt: skip
        axis.plot(each.batch_sizes, bias, color=colour, linestyle=dashes, label=name)
    axis.legend(loc="best", fontsize=7, handlelength=2.8)
    batch_axis(axis, "nats off")


def batch_axis(axis: Axes, label: str) -> None:
    """Sizes of a batch along a logarithmic axis."""
    axis.set_xscale("log", base=2)
    axis.set_xlabel("batch")
    axis.set_ylabel(label)
    ticks = [2**power for power in (1, 4, 7, 10, 13)]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])


def draw_density(axis: Axes, lines: Values, density: Values) -> None:
    """A density at the points of a square grid, (n * n,) row by row, from white to dark blue.

    Shades go with its power of 2/3, so that thin tails are seen; 64 of them, for smaller files.
    """
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("density", ["white", SKY, BLUE, "#00284a"], 64)
    picture = (density / density.max()).reshape(len(lines), -1) ** (2 / 3)
    low, high = float(lines[0]), float(lines[-1])
    axis.imshow(picture, cmap=shades, vmin=0.0, vmax=1.0, origin="lower", interpolation="bicubic",
                interpolation_stage="data", extent=(low, high, low, high))  # fmt: skip


def square(axis: Axes, reach: float, tick: float) -> None:
    """A square panel about the origin, with ticks at three places."""
    axis.set_aspect("equal")
    axis.set_xlim(-reach, reach)
    axis.set_ylim(-reach, reach)
    axis.set_xticks([-tick, 0, tick])
    axis.set_yticks([-tick, 0, tick])
    axis.grid(False)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure beside each other as stem.svg and stem.png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    with styled():
        for suffix, facts in (
            ("svg", {"Date": None, "Creator": None}),
            ("png", {"Software": None}),
        ):
            content = io.BytesIO()
            figure.savefig(content, format=suffix, dpi=_PIXELS, metadata=facts)
            written.append(stem.with_suffix(f".{suffix}"))
            write_atomically(written[-1], content.getvalue())
    return written
