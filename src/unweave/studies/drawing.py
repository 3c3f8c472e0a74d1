"""The style of the figures of all papers, panels they share, and their SVG and PNG files.

The colours, after Okabe and Ito, are distinct for readers with any colour vision; lines that differ
in colour also differ in their dashes. The same figure always gives the same bytes.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.files import make_folder, write_atomically
from unweave.core.outputs import check_matplotlib
from unweave.studies.workspace import Measured
from unweave.theory import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.figure import Figure as Figure
    from matplotlib.gridspec import SubplotSpec as SubplotSpec
else:  # the modules of papers can be imported without matplotlib
    Axes = Axis = Figure = SubplotSpec = Any

Values = NDArray[np.float64]

BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9"
INK, MUTED, GRID = "#1a1e23", "#5c656f", "#e4e4de"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)))

_PIXELS = 160  # per inch of a PNG
_STYLE: Any = {  # matplotlib types this as a union of all its settings
    "font.family": "DejaVu Sans",  # comes with matplotlib, so files are the same everywhere
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
def figure_style() -> Iterator[None]:
    """Apply the style to figures that are made or written in this context."""
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def panels(
    rows: int, columns: int, width: float = 3.5, height: float = 2.5
) -> tuple[Figure, list[Axes]]:
    """Return a figure with empty panels of a size in inches, and the panels row by row."""
    from matplotlib.figure import Figure

    figure = Figure((columns * width, rows * height), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def letter_panels(axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """Give panels their titles, with a letter before each."""
    for letter, axis, title in zip("ABCDEFGHIJKL", axes, titles, strict=False):
        axis.set_title(f"{letter}  {title}")


def share_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Put one legend below all panels, if they show the same lines."""
    handles, labels = axes[0].get_legend_handles_labels()
    for axis in axes:
        if legend := axis.get_legend():
            legend.remove()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles),
                      fontsize=7, handlelength=2.2)  # fmt: skip


def shades(count: int, colormap: Literal["viridis", "plasma"] = "viridis") -> Values:
    """Return colours from dark to light, for lines in an order, that are distinct from white."""
    from matplotlib import colormaps

    last = {"viridis": 0.85, "plasma": 0.7}[colormap]
    return colormaps[colormap](np.linspace(0.0, last, max(2, count)))


def draw_means(
    axis: Axes, x: Sequence[float], means: Sequence[Measured], colour: Any, band: float, **line: Any
) -> None:
    """Draw a line through means, over a band of their intervals."""
    low, high = [mean.low for mean in means], [mean.high for mean in means]
    axis.fill_between(x, low, high, color=colour, alpha=band, linewidth=0)
    axis.plot(x, [mean.value for mean in means], color=colour, **line)


def draw_bias(axis: Axes, estimates: dict[str, Estimates]) -> None:
    """Draw the bias of the entropy over the batch size, with bands of two standard errors."""
    colours = shades(len(estimates))
    for colour, dashes, (name, each) in zip(colours, DASHES, estimates.items(), strict=False):
        bias, error = each.bias["entropy"], each.error["entropy"]
        axis.fill_between(each.batch_sizes, bias - 2 * error, bias + 2 * error, color=colour,
                          alpha=0.2, linewidth=0)  # fmt: skip
        axis.plot(each.batch_sizes, bias, color=colour, linestyle=dashes, label=name)
    axis.legend(loc="best", fontsize=7, handlelength=2.8)
    batch_axis(axis, "bias, nats")


def batch_axis(axis: Axes, label: str) -> None:
    """Show batch sizes along a logarithmic axis."""
    axis.set_xscale("log", base=2)
    axis.set(xlabel="batch", ylabel=label)
    ticks = [2**power for power in (1, 4, 7, 10, 13)]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])


def draw_density(axis: Axes, lines: Values, density: Values) -> None:
    """Draw a density at the points of a square grid, (n * n,) row by row, from white to dark blue.

    Shades follow its power of 2/3, which shows thin tails; 64 shades keep files small.
    """
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("density", ["white", SKY, BLUE, "#00284a"], 64)
    picture = (density / density.max()).reshape(len(lines), -1) ** (2 / 3)
    low, high = float(lines[0]), float(lines[-1])
    axis.imshow(picture, cmap=shades, vmin=0.0, vmax=1.0, origin="lower", interpolation="bicubic",
                interpolation_stage="data", extent=(low, high, low, high))  # fmt: skip


def square_panel(axis: Axes, edge: float, tick: float) -> None:
    """Make a panel the square from -edge to edge, with ticks at -tick, 0 and tick."""
    axis.set_aspect("equal")
    axis.set(xlim=(-edge, edge), ylim=(-edge, edge))
    axis.set(xticks=[-tick, 0, tick], yticks=[-tick, 0, tick])
    axis.grid(False)


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure to stem.svg, with images as they are, and to stem.png, with smoothed ones."""
    from matplotlib.image import AxesImage

    make_folder(stem.parent)
    written = []
    with figure_style():
        for suffix, metadata in (
            ("svg", {"Date": None, "Creator": None}),
            ("png", {"Software": None}),
        ):
            content = io.BytesIO()
            if suffix == "png":  # else lines of one pixel would be uneven
                for image in figure.findobj(AxesImage):
                    if image.get_interpolation() == "none":
                        image.set_interpolation("antialiased")
            figure.savefig(content, format=suffix, dpi=_PIXELS, metadata=metadata)
            written.append(stem.with_suffix(f".{suffix}"))
            write_atomically(written[-1], content.getvalue())
    return written
