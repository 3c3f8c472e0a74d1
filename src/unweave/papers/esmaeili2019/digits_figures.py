"""Figures 5 to 7, 9 and 11 of [Esmaeili2019], drawn from the results of the study of digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    texts_of,
    unseen_claims,
)
from unweave.papers.esmaeili2019.table2 import category_information, named_groups
from unweave.studies.drawing import BLUE, DASHES, MUTED, ORANGE, panels
from unweave.studies.images import draw_png
from unweave.studies.study import PICTURES, Group, Network, Results, stored_results
from unweave.studies.workspace import Claim, Reproduction, Result, Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _result(
    figure: str, drawings: Mapping[str, Figure | None], claims: Sequence[Claim], **values: Any
) -> Result:
    """Return a result with the drawings for which there are networks."""
    run, texts = SETTINGS["HFVAE"][0], texts_of(figure)
    values = {"active": ACTIVE, "batch": run.batch_size, "steps": run.steps, **values}
    shown = {name: drawing for name, drawing in drawings.items() if drawing is not None}
    return texts.result(shown, claims, own=texts("own", **values), **values)


def fig5(workspace: Workspace, results: Results) -> Result:
    """Figure 5: traversals on MNIST and Fashion-MNIST."""
    groups = named_groups(results, SETTINGS)
    drawings = {
        "": _draw_traversals(groups["HFVAE"]),
        "fashion": _draw_traversals(groups["Fashion-MNIST"]),
    }
    return _result("fig5", drawings, features_claims(groups))


def _draw_traversals(group: Group) -> Figure | None:
    if not (chosen := group.best_and_median(rank)):
        return None
    network = chosen["median"]
    order, names = network.facts["order"], style_names(network)
    figure, (axis,) = panels(1, 1, width=7.2, height=0.33 * len(order) + 0.25)
    columns = len(SAMPLES) * len(VALUES)
    draw_png(axis, network.facts[PICTURES]["traversals"], columns, len(order))
    each = [network.last(INFORMATION + names[variable]) for variable in order]
    axis.set_yticks(np.arange(len(order)) + 0.5, [f"{value:.2f}" for value in each])
    _value_ticks(axis, len(SAMPLES))
    _split(axis, len(SAMPLES), len(order))
    return figure


def _value_ticks(axis: Axes, blocks: int) -> None:
    """Label each block of a sheet with -3, 0 and 3."""
    width, middle = len(VALUES), len(VALUES) / 2
    places = [b * width + at for b in range(blocks) for at in (0.5, middle, width - 0.5)]
    axis.set_xticks(places, ["-3", "0", "3"] * blocks)


def _split(axis: Axes, blocks: int, rows: int) -> None:
    """Draw white lines between the blocks of a sheet."""
    for block in range(1, blocks):
        axis.plot([block * len(VALUES)] * 2, [0, rows], color="white", linewidth=3)


def fig6(workspace: Workspace, results: Results) -> Result:
    """Figure 6: mutual information of each dimension during training."""
    groups = named_groups(results, SETTINGS)
    return _result("fig6", {"": draw_information(groups["HFVAE"])}, pruning_claims(groups))


def draw_information(group: Group) -> Figure | None:
    """Draw I(x; z_d) over steps, of dimensions that end informative, and of the others."""
    if not (chosen := group.best_and_median(rank)):
        return None
    from matplotlib import colormaps

    network = chosen["median"]
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


def fig7(workspace: Workspace, results: Results) -> Result:
    """Figure 7: traversals of thickness by three methods."""
    groups = named_groups(results, SETTINGS)
    methods = {name: groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE")}
    drawings = {
        "": _draw_thickness(methods, "median"),
        "best": _draw_thickness(methods, "best"),
        "kept": _draw_kept(methods),
        "samples": _draw_samples({n: methods[n] for n in ("β-SVAE", "HFVAE")}),
    }
    return _result("fig7", drawings, identity_claims(groups))


def _draw_thickness(methods: Mapping[str, Group], which: str) -> Figure | None:
    chosen = {
        name: group.best_and_median(rank)[which]
        for name, group in methods.items()
        if group.best_and_median(rank)
    }
    if not chosen:
        return None
    figure, axes = panels(1, len(chosen), width=2.4, height=3.7)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_png(axis, network.facts[PICTURES]["thickness"], len(VALUES), 10)
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
        name: group.best_and_median(rank)["median"]
        for name, group in methods.items()
        if group.best_and_median(rank)
    }
    if not chosen:
        return None
    figure, axes = panels(1, len(chosen), width=3.4, height=3.6)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_png(axis, network.facts[PICTURES]["samples"], 10, 10)
        axis.set_yticks(np.arange(10) + 0.5, [str(c) for c in range(10)])
        axis.set_title(f"{name}: I(class; digit) / H = {prior_information(network):.2f}")
    return figure


def fig9(workspace: Workspace, results: Results) -> Result:
    """Figure 9: combinations that were never seen."""
    groups = named_groups(results, SETTINGS)
    return _result("fig9", {"": draw_unseen(groups)}, unseen_claims(groups))


def draw_unseen(groups: Mapping[str, Group]) -> Figure | None:
    """Draw held-out digits and their reconstructions, and histograms of their learned feature."""
    chosen = {name: groups[name].best_and_median(rank) for name in ("HFVAE", "zero-shot")}
    if not all(chosen.values()):
        return None
    networks = {"trained on all": chosen["HFVAE"]["median"],
                "trained without them": chosen["zero-shot"]["median"]}  # fmt: skip
    from matplotlib.figure import Figure

    figure = Figure((9.2, 3.6), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(2.4, 1, 1))
    left = figure.add_subplot(grid[:, 0])
    draw_png(left, networks["trained without them"].facts[PICTURES]["unseen"], SHOWN, 4)
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


def fig11(workspace: Workspace, results: Results) -> Result:
    """Figure 11: traversals of each class of Fashion-MNIST."""
    groups = named_groups(results, SETTINGS)
    shapes = stored_results(table2.STUDY, workspace.out)
    groups["2D Shapes"] = named_groups(shapes, table2.SETTINGS)[table2.OURS]
    drawings = {
        "": _draw_classes(groups["Fashion-MNIST"], "median"),
        "best": _draw_classes(groups["Fashion-MNIST"], "best"),
        "mnist": _draw_classes(groups["HFVAE"], "median"),
    }
    names = {"Fashion-MNIST": "Fashion-MNIST", "MNIST": "HFVAE", "2D Shapes": "2D Shapes"}
    means = ", ".join(
        f"{groups[key].mean(category_information):.2f} on {name}"
        for name, key in names.items()
        if groups[key].networks
    )
    text = f"I(category; label) / H(label) is {means}." if means else ""
    return _result("fig11", drawings, category_claims(groups), informations=text)


def _draw_classes(group: Group, which: str) -> Figure | None:
    if not (chosen := group.best_and_median(rank)):
        return None
    network = chosen[which]
    figure, (axis,) = panels(1, 1, width=9.2, height=3.6)
    draw_png(axis, network.facts[PICTURES]["classes"], DIMENSIONS * len(VALUES), 10)
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
