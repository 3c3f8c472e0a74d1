"""Figures 5 to 7, 9 and 11 of [Esmaeili2019], drawn from the results of the study of digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from unweave.papers.esmaeili2019 import table2
from unweave.papers.esmaeili2019.digits import (
    DIMENSIONS,
    EDGES,
    HELD_OUT,
    INFORMATION,
    SAMPLES,
    SETTINGS,
    SHOWN,
    STUDY,
    VALUES,
    rank,
)
from unweave.papers.esmaeili2019.digits_claims import (
    ACTIVE,
    category_claims,
    features_claims,
    identity_claims,
    prior_information,
    pruning_claims,
    style_names,
    unseen_claims,
)
from unweave.papers.esmaeili2019.groups import BEST, MEDIAN, Group, groups_of, short
from unweave.papers.esmaeili2019.table2 import category_information, draw_sheet
from unweave.studies.drawing import BLUE, DASHES, MUTED, ORANGE, panels
from unweave.studies.study import PICTURES, Network, read_networks, results_of
from unweave.studies.workspace import Reproduction, Result, Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEEDS = "0 to 9"


def _groups(workspace: Workspace) -> dict[str, Group]:
    return groups_of(results_of(workspace, STUDY).networks, SETTINGS)


def _setting(text: str) -> str:
    run = SETTINGS["HFVAE"][0]
    return (
        f"Networks of the paper's table 3 on images of 28 x 28, Adam 1e-3, batches of "
        f"{run.batch_size}, {run.steps:,} steps (200 epochs), ten seeds; β = 4 and γ = 3, which "
        f"the paper gives for dSprites. {text} Networks are ranked by what the category tells of "
        "the label, I(category; label) / H(label), those without a category by the digits that "
        "keep their identity in figure 7; brackets are 95% bootstrap intervals of means over seeds."
    )


def _drawn(
    drawings: Mapping[str, Figure | None], captions: Mapping[str, str]
) -> tuple[dict[str, Figure], dict[str, str]]:
    """The drawings for which there are networks, and their captions."""
    there = {name: figure for name, figure in drawings.items() if figure is not None}
    return there, {name: captions[name] for name in there}


def fig5(workspace: Workspace) -> Result:
    """Figure 5: traversals on MNIST and Fashion-MNIST."""
    groups = _groups(workspace)
    caption = (
        "Reconstructions for z_d from -3 to 3 by the median HFVAE on {}, from three images of the "
        "dataset, a row for each dimension; on the left I(x; z_d) in nats at the end of training."
    )
    drawings, captions = _drawn(
        {
            "": _draw_traversals(groups["HFVAE"]),
            "fashion": _draw_traversals(groups["Fashion-MNIST"]),
        },
        {"": caption.format("MNIST"), "fashion": caption.format("Fashion-MNIST")},
    )
    return Result(
        drawings,
        captions,
        features_claims(groups),
        _setting(
            f"A dimension counts as a feature if I(x; z_d) is above {ACTIVE} nats, with q(z) of "
            "10,000 images."
        ),
        _SEEDS,
    )


def _draw_traversals(group: Group) -> Figure | None:
    if not (chosen := group.chosen(rank)):
        return None
    network = chosen[MEDIAN]
    order, names = network.facts["order"], style_names(network)
    figure, (axis,) = panels(1, 1, width=7.2, height=0.33 * len(order) + 0.25)
    columns = len(SAMPLES) * len(VALUES)
    draw_sheet(axis, network.facts[PICTURES]["traversals"], columns, len(order))
    each = [network.last(INFORMATION + names[variable]) for variable in order]
    axis.set_yticks(np.arange(len(order)) + 0.5, [f"{value:.2f}" for value in each])
    _value_ticks(axis, len(SAMPLES))
    _split(axis, len(SAMPLES), len(order))
    return figure


def _value_ticks(axis: Axes, blocks: int) -> None:
    """-3, 0 and 3 below each block of a sheet."""
    width, middle = len(VALUES), len(VALUES) / 2
    places = [b * width + at for b in range(blocks) for at in (0.5, middle, width - 0.5)]
    axis.set_xticks(places, ["-3", "0", "3"] * blocks)


def _split(axis: Axes, blocks: int, rows: int) -> None:
    """White lines between the blocks of a sheet."""
    for block in range(1, blocks):
        axis.plot([block * len(VALUES)] * 2, [0, rows], color="white", linewidth=3)


def fig6(workspace: Workspace) -> Result:
    """Figure 6: mutual information of each dimension during training."""
    groups = _groups(workspace)
    drawings, captions = _drawn(
        {"": draw_information(groups["HFVAE"])},
        {
            "": "I(x; z_d) during training of the median HFVAE on MNIST: dimensions that end above "
            f"{ACTIVE} nats on the left, with the category (dashed), and the others on the right."
        },
    )
    return Result(
        drawings,
        captions,
        pruning_claims(groups),
        _setting("I(x; z_d) is measured every 500 steps, with q(z) of 10,000 images."),
        _SEEDS,
    )


def draw_information(group: Group) -> Figure | None:
    """I(x; z_d) over steps, of dimensions that end informative and of those that do not."""
    if not (chosen := group.chosen(rank)):
        return None
    from matplotlib import colormaps

    network = chosen[MEDIAN]
    figure, axes = panels(1, 2, width=3.6, height=2.5)
    ends = {name: network.last(INFORMATION + name) for name in style_names(network)}
    for axis, names in (
        (axes[0], [name for name, end in ends.items() if end > ACTIVE]),
        (axes[1], [name for name, end in ends.items() if end <= ACTIVE]),
    ):
        names.sort(key=lambda name: -ends[name])
        shades = colormaps["viridis"](np.linspace(0.0, 0.85, max(len(names), 1)))
        for colour, name in zip(shades, names, strict=False):
            steps, values = network.curve(INFORMATION + name)
            axis.plot(steps / 1000, values, color=colour, linewidth=1.3)
        axis.set_title(f"{len(names)} {'un' if axis is axes[1] else ''}informative dimensions")
        axis.set_xlabel("thousand steps")
        axis.set_ylim(bottom=0)
    steps, values = network.curve(f"{INFORMATION}category")
    axes[0].plot(steps / 1000, values, color=ORANGE, linestyle=DASHES[1], label="category")
    axes[0].legend(loc="lower right")
    axes[0].set_ylabel("I(x; z_d) in nats")
    axes[1].sharey(axes[0])
    return figure


def fig7(workspace: Workspace) -> Result:
    """Figure 7: traversals of thickness by three methods."""
    groups = _groups(workspace)
    methods = {name: groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE")}
    caption = (
        "One image of each digit with its thickness latent from -3 to 3, by the {} network of each "
        "method; above, the share of digits that keep their identity."
    )
    drawings, captions = _drawn(
        {
            "": _draw_thickness(methods, MEDIAN),
            BEST: _draw_thickness(methods, BEST),
            "kept": _draw_kept(methods),
            "samples": _draw_samples({n: methods[n] for n in ("β-SVAE", "HFVAE")}),
        },
        {
            "": caption.format(MEDIAN),
            BEST: caption.format(BEST),
            "kept": "Left: digits that keep their identity as thickness varies, by each network "
            "and on average. Right: measured thickness of the same images.",
            "samples": "Draws of the prior by the median network of each method, a row for each "
            "class of the discrete variable.",
        },
    )
    return Result(
        drawings,
        captions,
        identity_claims(groups),
        _setting(
            "The thickness latent of a network is the one that correlates most with the thickness "
            "of strokes among images of the same digit, measured in the image as twice the area "
            "over the perimeter. Which digit an image shows is judged by its five nearest "
            "neighbours in the dataset; 20 images of each digit, those whose reconstruction shows "
            "the right digit, and 50 draws of the prior for each class."
        ),
        _SEEDS,
    )


def _draw_thickness(methods: Mapping[str, Group], which: str) -> Figure | None:
    chosen = {
        name: group.chosen(rank)[which] for name, group in methods.items() if group.chosen(rank)
    }
    if not chosen:
        return None
    figure, axes = panels(1, len(chosen), width=2.4, height=3.7)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_sheet(axis, network.facts[PICTURES]["thickness"], len(VALUES), 10)
        _value_ticks(axis, 1)
        kept = network.facts["kept"]
        axis.set_title(f"{name}: {kept[0]:.0%} … {kept[-1]:.0%}")
    return figure


def _draw_kept(methods: Mapping[str, Group]) -> Figure | None:
    if not any(group.networks for group in methods.values()):
        return None
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    for axis, key in zip(axes, ("kept", "thickened"), strict=True):
        for colour, dashes, (name, group) in zip(
            (MUTED, BLUE, ORANGE), DASHES, methods.items(), strict=False
        ):
            lines = np.array([network.facts[key] for network in group.networks])
            if len(lines):
                axis.plot(VALUES, lines.T, color=colour, linewidth=0.6, alpha=0.35)
                axis.plot(VALUES, lines.mean(0), color=colour, linestyle=dashes, label=name)
        axis.set_xlabel("thickness latent")
    axes[0].set_ylim(0, 1.02)
    axes[0].set_ylabel("digits that keep their identity")
    axes[0].legend(loc="lower left")
    axes[1].set_ylabel("thickness in pixels")
    return figure


def _draw_samples(methods: Mapping[str, Group]) -> Figure | None:
    chosen = {
        name: group.chosen(rank)[MEDIAN] for name, group in methods.items() if group.chosen(rank)
    }
    if not chosen:
        return None
    figure, axes = panels(1, len(chosen), width=3.4, height=3.6)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_sheet(axis, network.facts[PICTURES]["samples"], 10, 10)
        axis.set_yticks(np.arange(10) + 0.5, [str(c) for c in range(10)])
        axis.set_title(f"{name}: I(class; digit) / H = {prior_information(network):.2f}")
    return figure


def fig9(workspace: Workspace) -> Result:
    """Figure 9: combinations that were never seen."""
    groups = _groups(workspace)
    drawings, captions = _drawn(
        {"": draw_unseen(groups)},
        {
            "": "Left: held-out digits and their reconstructions by the median HFVAE that was "
            "trained without them. Right: learned feature of digits of the same kind, held out "
            "(orange) and others (grey), by the median HFVAE trained on all digits and by the one "
            "trained without the former."
        },
    )
    return Result(
        drawings,
        captions,
        unseen_claims(groups),
        _setting(
            "Held out are the fifth of sevens with the thickest strokes and the fifth of zeros "
            "that are narrowest, 2,438 images. The paper trains an HFVAE first, and seems to prune "
            "by what it has learned; here thickness and width are measured in the images, so that "
            "all networks miss the same digits. Reconstructions are of up to 400 images of each "
            "kind, and are compared with each other, since blur makes strokes thicker; the learned "
            "feature is the latent that correlates most with the measured one."
        ),
        _SEEDS,
    )


def draw_unseen(groups: Mapping[str, Group]) -> Figure | None:
    """Held-out digits, reconstructed; histograms of their learned feature before and after."""
    chosen = {name: groups[name].chosen(rank) for name in ("HFVAE", "zero-shot")}
    if not all(chosen.values()):
        return None
    networks = {"trained on all": chosen["HFVAE"][MEDIAN],
                "trained without them": chosen["zero-shot"][MEDIAN]}  # fmt: skip
    from matplotlib.figure import Figure

    figure = Figure((9.2, 3.6), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(2.4, 1, 1))
    left = figure.add_subplot(grid[:, 0])
    draw_sheet(left, networks["trained without them"].facts[PICTURES]["unseen"], SHOWN, 4)
    left.set_yticks(np.arange(4) + 0.5, ["held out", "reconstructed"] * 2)
    for row, name in enumerate(HELD_OUT):
        for column, (title, network) in enumerate(networks.items()):
            axis = figure.add_subplot(grid[row, column + 1])
            _draw_histograms(axis, network, name)
            axis.set_title(title if row == 0 else "")
            axis.set_xlabel(f"{'thickness' if row == 0 else 'width'} latent")
            axis.set_ylabel(name if column == 0 else "")
    return figure


def _draw_histograms(axis: Axes, network: Network, name: str) -> None:
    for which, colour in (("others", MUTED), ("held out", ORANGE)):
        counts = np.array(network.facts["unseen"][name]["histograms"][which], float)
        density = counts / max(counts.sum(), 1.0)
        axis.fill_between(EDGES, np.r_[density, 0.0], step="post", color=colour, alpha=0.35)
        axis.step(EDGES, np.r_[density, 0.0], where="post", color=colour, linewidth=1.0)
    axis.set_yticks([])
    axis.set_ylim(bottom=0)


def fig11(workspace: Workspace) -> Result:
    """Figure 11: traversals of each class of Fashion-MNIST."""
    groups = _groups(workspace)
    shapes = (
        read_networks(table2.STUDY.path(workspace.place.parent.parent)) if workspace.place else {}
    )
    groups["2D Shapes"] = groups_of(shapes.values(), table2.SETTINGS)[table2.OURS]
    caption = (
        "The four latents with the largest KL of the {} HFVAE on {}, from -3 to 3 with the others "
        "at 0, a row for each class of the discrete variable."
    )
    drawings, captions = _drawn(
        {
            "": _draw_classes(groups["Fashion-MNIST"], MEDIAN),
            BEST: _draw_classes(groups["Fashion-MNIST"], BEST),
            "mnist": _draw_classes(groups["HFVAE"], MEDIAN),
        },
        {
            "": caption.format(MEDIAN, "Fashion-MNIST"),
            BEST: caption.format(BEST, "Fashion-MNIST"),
            "mnist": caption.format(MEDIAN, "MNIST"),
        },
    )
    return Result(drawings, captions, category_claims(groups), _setting(_told(groups)), _SEEDS)


def _told(groups: Mapping[str, Group]) -> str:
    """How much categories tell of labels on each dataset so far."""
    names = {"Fashion-MNIST": "Fashion-MNIST", "MNIST": "HFVAE", "2D Shapes": "2D Shapes"}
    means = [
        f"{short(groups[key].mean(category_information))} on {name}"
        for name, key in names.items()
        if groups[key].networks
    ]
    return f"I(category; label) / H(label) is {', '.join(means)}." if means else ""


def _draw_classes(group: Group, which: str) -> Figure | None:
    if not (chosen := group.chosen(rank)):
        return None
    network = chosen[which]
    figure, (axis,) = panels(1, 1, width=9.2, height=3.6)
    draw_sheet(axis, network.facts[PICTURES]["classes"], DIMENSIONS * len(VALUES), 10)
    _value_ticks(axis, DIMENSIONS)
    _split(axis, DIMENSIONS, 10)
    axis.set_yticks(np.arange(10) + 0.5, [str(c) for c in range(10)])
    axis.set_title(f"I(category; label) / H(label) = {category_information(network):.2f}")
    return figure


_COST = "two days for figures 5 to 11 together"

FIGURES = tuple(
    Reproduction("esmaeili2019", figure, title, _COST, make, study=STUDY)
    for figure, title, make in (
        ("fig5", "Figure 5: features of MNIST and Fashion-MNIST", fig5),
        ("fig6", "Figure 6: features that are pruned", fig6),
        ("fig7", "Figure 7: digit and thickness", fig7),
        ("fig9", "Figure 9: unseen combinations", fig9),
        ("fig11", "Figure 11: classes of Fashion-MNIST", fig11),
    )
)
