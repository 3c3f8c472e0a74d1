"""Figures 5 to 7, 9 and 11 of [Esmaeili2019]: claims and drawings from the study of digits."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

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
    identity_rank,
    rank,
    setting_of,
)
from unweave.papers.esmaeili2019.table2 import category_information, shared_information
from unweave.studies.drawing import (
    BLUE,
    DASHES,
    MUTED,
    ORANGE,
    Axes,
    Figure,
    Values,
    panels,
    shades,
)
from unweave.studies.images import draw_png
from unweave.studies.intervals import mean_over_networks, range_interval
from unweave.studies.study import PICTURES, Group, Network, Reader, Results, stored_results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Reproduction, Result, Workspace

Groups = Mapping[str, Group]
ACTIVE = 0.1  # nats of I(x; z_d) above which a dimension counts as informative
KEPT = 0.9  # share of digits above which identity counts as maintained
MUCH, NOTHING = 0.5, 0.05  # of I(class; label) / H(label): captured, and not at all
ORDERED = 0.75  # probability above which held-out digits count as lying beyond the others
texts_of = partial(Texts, __package__, "digits")  # of a figure of this study
_COST = "two days for figures 5 to 11 together"


def style_names(network: Network) -> list[str]:
    """Return the names of the continuous latent variables."""
    latent = network.run.latent
    return [name for name, flag in zip(latent.names, latent.discrete, strict=True) if not flag]


def informations(network: Network) -> Values:
    """Return I(x; z_d) of the continuous latents at the end of training in nats."""
    return np.array([network.value(INFORMATION + name) for name in style_names(network)])


def _active(network: Network) -> float:
    return float((informations(network) > ACTIVE).sum())


def prior_information(network: Network) -> float:
    """Return how much the class explains the digit in samples of the prior, from 0 to 1."""
    return shared_information(network.facts["prior"])


def kept_at_ends(network: Network) -> float:
    """Return the share of digits that keep their identity at -3 and 3, whichever is lower."""
    return float(min(network.facts["kept"][0], network.facts["kept"][-1]))


def kept_least(network: Network) -> float:
    """Return the lowest share of digits that keep their identity, over all values."""
    return float(min(network.facts["kept"]))


def features_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 5 and section 6.1: how many features are interpretable."""
    counts = groups["HFVAE"].values(_active)
    return (
        texts_of("fig5").claim(
            "features", mean_over_networks(counts).within(7, 0.5), contradicted=False,
            needs=(groups["HFVAE"],), active=ACTIVE, mean=counts.mean(), low=counts.min(),
            high=counts.max(),
        ),
    )  # fmt: skip


def pruning_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 6: dimensions that are not needed."""
    texts, group = texts_of("fig6"), groups["HFVAE"]
    counts, pruned = 10 - group.values(_active), _uninformative(group)
    last, first = np.array(pruned or [(np.nan, np.nan)]).T
    values = f"from {range_interval(first)} to {range_interval(last)} nats"
    early = int((first > ACTIVE).sum())
    return (
        texts.claim("prunes", counts.min() >= 1, contradicted=counts.max() == 0, needs=(group,),
                    active=ACTIVE, mean=counts.mean(), low=counts.min(), high=counts.max()),
        texts.claim("decreases", early == len(first), needs=(group,), active=ACTIVE,
                    contradicted=bool((last >= first).all()),
                    values=values if pruned else "no such dimension",
                    reason=f"{len(first) - early} of these {len(first)} dimensions carry less than "
                    f"{ACTIVE} nats at the first measurement already: we do not see features being "
                    "pruned." if pruned else "No dimension is uninformative."),
    )  # fmt: skip


def _uninformative(group: Group) -> list[tuple[float, float]]:
    """Return I(x; z_d) at the end, and at first, of every dimension that ends uninformative."""
    return [
        (value, float(network.curve(INFORMATION + name)[1][0]))
        for network in group.networks
        for name, value in zip(style_names(network), informations(network).tolist(), strict=True)
        if value <= ACTIVE
    ]


def identity_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 7 and section 6.3: digit and thickness."""
    texts = texts_of("fig7")
    plain, structured, ours = (groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE"))
    least = {name: groups[name].mean(kept_least) for name in ("β-SVAE", "HFVAE")}
    better = [group.difference(plain, kept_at_ends) for group in (structured, ours)]
    higher = ours.difference(structured, prior_information)
    captures, distinct = ours.mean(prior_information), structured.mean(prior_information)
    ends = plain.mean(kept_at_ends)
    return (
        texts.claim("not_able", ends.high < KEPT, contradicted=False, needs=(plain,), bound=KEPT,
                    mean=ends),
        texts.claim("able", all(mean.low > KEPT for mean in least.values()), contradicted=False,
                    needs=(structured, ours), bound=KEPT,
                    means="; ".join(f"{name} {mean}" for name, mean in least.items())),
        texts.above("better", *better, needs=(plain, structured, ours),
                    means=_means(groups, ("β-SVAE", "HFVAE", "β-VAE"), kept_at_ends)),
        texts.claim("captures", higher.low > 0 and captures.low > MUCH, contradicted=False,
                    needs=(structured, ours), bound=MUCH,
                    means=_means(groups, ("HFVAE", "β-SVAE"), prior_information)),
        texts.claim("not_distinct", distinct.high < MUCH < captures.low, bound=MUCH,
                    contradicted=distinct.low > 1 - NOTHING, needs=(structured, ours),
                    mean=distinct, ours=captures),
    )  # fmt: skip


def _means(groups: Groups, names: Iterable[str], read: Reader) -> str:
    return "; ".join(f"{name} {groups[name].mean(read)}" for name in names)


def unseen_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge figure 9 and section 6.4: combinations of digit and style that were never seen."""
    texts = texts_of("fig9")
    pruned, whole = needs = groups["zero-shot"], groups["HFVAE"]
    claims = []
    for name in HELD_OUT:

        def mean(group: Group, what: str, name: str = name) -> Measured:
            return group.mean(f"facts/unseen/{name}/{what}")

        beyond, right, order = (mean(pruned, what) for what in ("beyond", "recognised", "ordered"))
        claims += [
            texts.claim(
                "reconstructs", beyond.low > ORDERED and right.low > 0.5, needs=needs, digits=name,
                contradicted=min(beyond.high, right.high) < 0.5, bound=ORDERED,
                beyond=beyond, right=right,
                all_beyond=mean(whole, 'beyond'),
                all_right=mean(whole, 'recognised'),
                nats=mean(pruned, "distortion").value, all_nats=mean(whole, "distortion").value,
            ),
            texts.claim("extracts", order.low > ORDERED, contradicted=order.high < 0.5, needs=needs,
                        digits=name, bound=ORDERED, pruned=order,
                        whole=mean(whole, 'ordered')),
        ]  # fmt: skip
    return tuple(claims)


def category_claims(groups: Groups) -> tuple[Claim, ...]:
    """Judge section 6.3: how well the discrete variable captures classes, by dataset.

    `groups` has the HFVAEs of the three datasets by name.
    """
    texts, read = texts_of("fig11"), category_information
    fashion, digits, shapes = (groups[n] for n in ("Fashion-MNIST", "HFVAE", "2D Shapes"))
    named = {"Fashion-MNIST": fashion, "MNIST": digits, "2D Shapes": shapes}
    middle = fashion.difference(digits, read), digits.difference(shapes, read)
    garments, sprites = fashion.mean(read), shapes.mean(read)
    return (
        texts.claim("fashion", garments.low > MUCH, contradicted=False, needs=(fashion,),
                    bound=MUCH, mean=garments),
        texts.claim("shapes", sprites.high < MUCH < garments.low, bound=MUCH,
                    contradicted=sprites.low > 1 - NOTHING, needs=(shapes, fashion),
                    mean=sprites, fashion=garments),
        texts.above("digits", *middle, needs=named.values(), means=_means(named, named, read)),
    )  # fmt: skip


def _result(
    figure: str, drawings: Mapping[str, Figure | None], claims: Sequence[Claim], **values: Any
) -> Result:
    """Return a result with the drawings for which there are networks."""
    run, texts = SETTINGS["HFVAE"][0], texts_of(figure)
    values = {"active": ACTIVE, "batch": run.batch_size, "steps": run.steps, **values}
    shown = {name: drawing for name, drawing in drawings.items() if drawing is not None}
    own, ranked = (texts(name, **values) for name in ("own", "ranked"))
    return texts.result(shown, claims, own=own, ranked=ranked, **values)


def fig5(workspace: Workspace, results: Results) -> Result:
    """Figure 5: traversals on MNIST and Fashion-MNIST."""
    groups = results.groups(setting_of)
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
    each = [network.value(INFORMATION + names[variable]) for variable in order]
    labels = [f"{max(value, 0.0):.2f}" for value in each]  # an estimate may be below 0
    axis.set_yticks(np.arange(len(order)) + 0.5, labels)
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
    groups = results.groups(setting_of)
    return _result("fig6", {"": draw_information(groups["HFVAE"])}, pruning_claims(groups))


def draw_information(group: Group) -> Figure | None:
    """Draw I(x; z_d) over steps, of dimensions that end informative, and of the others."""
    if not (chosen := group.best_and_median(rank)):
        return None
    network = chosen["median"]
    figure, axes = panels(1, 2, width=3.6, height=2.5)
    ends = {name: network.value(INFORMATION + name) for name in style_names(network)}
    for axis, names in (
        (axes[0], [name for name, end in ends.items() if end > ACTIVE]),
        (axes[1], [name for name, end in ends.items() if end <= ACTIVE]),
    ):
        names.sort(key=lambda name: -ends[name])
        for colour, name in zip(shades(len(names)), names, strict=False):
            steps, values = network.curve(INFORMATION + name)
            axis.plot(steps / 1000, values, color=colour, linewidth=1.3)
        axis.set_title(f"{len(names)} {'un' if axis is axes[1] else ''}informative dimensions")
        axis.set_xlabel("thousand steps")
    axes[0].set_ylim(bottom=0)  # on the right, estimates may be below 0
    steps, values = network.curve(f"{INFORMATION}category")
    axes[0].plot(steps / 1000, values, color=ORANGE, linestyle=DASHES[1])
    axes[0].annotate("category", (steps[-1] / 1000, values[-1]), (0, 5), ha="right", color=ORANGE,
                     textcoords="offset points", fontsize=8)  # fmt: skip
    axes[0].set_ylabel("I(x; $z_d$) in nats")
    return figure


def fig7(workspace: Workspace, results: Results) -> Result:
    """Figure 7: traversals of thickness by three methods."""
    groups = results.groups(setting_of)
    methods = {name: groups[name] for name in ("β-VAE", "β-SVAE", "HFVAE")}
    drawings = {
        "": _draw_thickness(methods, "median"),
        "best": _draw_thickness(methods, "best"),
        "kept": _draw_kept(methods),
        "samples": _draw_samples({n: methods[n] for n in ("β-SVAE", "HFVAE")}),
    }
    return _result("fig7", drawings, identity_claims(groups))


def _chosen(methods: Mapping[str, Group], which: str) -> dict[str, Network]:
    """Return the best or the median network of each method, by the digits that it keeps."""
    both = {name: group.best_and_median(identity_rank) for name, group in methods.items()}
    return {name: networks[which] for name, networks in both.items() if networks}


def _draw_thickness(methods: Mapping[str, Group], which: str) -> Figure | None:
    chosen = _chosen(methods, which)
    if not chosen:
        return None
    figure, axes = panels(1, len(chosen), width=2.4, height=3.7)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_png(axis, network.facts[PICTURES]["thickness"], len(VALUES), 10)
        _value_ticks(axis, 1)
        kept = network.facts["kept"]
        mean = np.mean([each.facts["kept"] for each in methods[name].networks], 0)
        own, every = (f"{each[0]:.0%} … {each[-1]:.0%}" for each in (kept, mean))
        axis.set_title(f"{name}: {own}\nall: {every}")
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
    axes[0].set(ylim=(0, 1.02), ylabel="digits that keep their identity")
    axes[0].legend(loc="lower left")
    axes[1].set_ylabel("thickness in pixels")
    return figure


def _draw_samples(methods: Mapping[str, Group]) -> Figure | None:
    chosen = _chosen(methods, "median")
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
    groups = results.groups(setting_of)
    zeros = groups["zero-shot"].mean(f"facts/unseen/{HELD_OUT[1]}/recognised")
    return _result("fig9", {"": draw_unseen(groups)}, unseen_claims(groups), zeros=zeros)


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
    groups = results.groups(setting_of)
    shapes = stored_results(table2.STUDY, workspace.out)
    groups["2D Shapes"] = shapes.groups(table2.setting_of)[table2.OURS]
    drawings = {
        "": _draw_classes(groups["Fashion-MNIST"], "median"),
        "best": _draw_classes(groups["Fashion-MNIST"], "best"),
        "mnist": _draw_classes(groups["HFVAE"], "median"),
    }
    names = {"Fashion-MNIST": "Fashion-MNIST", "MNIST": "HFVAE", "2D Shapes": "2D Shapes"}
    means = ", ".join(
        f"{groups[key].mean(category_information)} on {name}"
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
