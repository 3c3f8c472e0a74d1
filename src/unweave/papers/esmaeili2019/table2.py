"""Table 2 of [Esmaeili2019]: five methods on 2D Shapes, with the scores of two papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch.nn.functional import one_hot

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import Table
from unweave.papers.esmaeili2019.groups import (
    Finding,
    Group,
    Reader,
    claim_about,
    groups_of,
    higher_by,
    shared_information,
    short,
)
from unweave.presets import preset
from unweave.studies.drawing import BLUE, INK, MUTED, ORANGE, panels
from unweave.studies.images import decoded_png, encoded_png
from unweave.studies.intervals import difference
from unweave.studies.study import PICTURES, Network, Study, results_of
from unweave.studies.workspace import Claim, Numbers, Reproduction, Result, Workspace
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACTOR, EASTWOOD = "factor_vae_score/kim2018", "dci/esmaeili2019"
SCORES = {"FactorVAE": FACTOR, "Eastwood": EASTWOOD}
# The paper's scores, by its names of the methods.
PAPER = {
    "VAE": (0.71, 0.40),
    "β-VAE": (0.72, 0.71),
    "β-SVAE": (0.47, 0.19),
    "β-TCVAE": (0.71, 0.31),
    "HFVAE": (0.78, 0.74),
}
OURS = "HFVAE"
SETTINGS: dict[str, list[Run]] = {
    name: preset(f"esmaeili2019/shapes2d-{name.lower().replace('β', 'beta')}").runs()
    for name in PAPER
}
COLUMNS, LATENTS = 8, 10  # of a picture of traversals
ROWS = 10_000
_START = 4 * 91_237 + 5_000  # the observation that traversals start from
_STEPS = SETTINGS[OURS][0].steps


def describe(model: FittedModel) -> Numbers:
    """What the table and its pictures need of a trained network, beside its curves."""
    table = model.table(ROWS)
    assert table.kl is not None
    facts: Numbers = {"kl": table.kl.tolist(), PICTURES: {"traversals": _traversals(model, table)}}
    if any(model.run.latent.discrete):
        facts["category"] = category_counts(model, "shape")
    return facts


def category_counts(model: FittedModel, factor: str) -> list[list[float]]:
    """How often each class of the discrete variable (C) comes with each value of a factor (Y).

    sum_n q(c|x_n) [y_n = y]: expected counts, so a class that is not used tells nothing.
    """
    latent, rows = model.run.latent, model.rows(ROWS)
    classes = model.posteriors(rows).mean[:, latent.columns[latent.discrete.index(True)]]
    column = model.dataset.factor_names.index(factor)
    labels = one_hot(model.dataset.factors(rows)[:, column], model.dataset.factor_sizes[column])
    counts: list[list[float]] = (classes.T @ labels.to(classes)).tolist()
    return counts


def _traversals(model: FittedModel, table: Table) -> str:
    """Traversals of the continuous latents, the largest KL first, as a PNG."""
    assert table.kl is not None
    kl = table.kl.tolist()
    walked = model.traverse(model.observations([_START % model.dataset.size]), steps=COLUMNS)
    continuous = [v for v, flag in enumerate(model.run.latent.discrete) if not flag]
    order = sorted(continuous, key=lambda v: -float(kl[v]))[:LATENTS]
    return encoded_png([walked[variable] for variable in order])


def score(name: str) -> Reader:
    """Read a score at the end of training."""
    return lambda network: network.last(f"metrics/{name}")


def _pictured(networks: Sequence[Network]) -> list[Network]:
    """The best and the median network of every method, by the FactorVAE score."""
    groups = groups_of(networks, SETTINGS).values()
    return [network for group in groups for network in group.chosen(score(FACTOR)).values()]


STUDY = Study(
    "esmaeili2019",
    "shapes2d",
    # All methods with few seeds before any with many.
    [run for same_seed in zip(*SETTINGS.values(), strict=True) for run in same_seed],
    measures=(
        Measure(every=1_000, rows=2_048),
        Measure(every=10_000, metrics=(FACTOR,)),
        Measure(every=10_000, metrics=(EASTWOOD,), rows=15_000),
        Measure(
            every=_STEPS,
            metrics=("mutual_information", "total_correlation", "information", "correlations"),
        ),
    ),
    describe=describe,
    pictured=_pictured,
)


def table2(workspace: Workspace) -> Result:
    """Table 2: disentanglement scores for dSprites."""
    groups = groups_of(results_of(workspace, STUDY).networks, SETTINGS)
    drawings = {"": draw_scores(groups)}
    captions = {
        "": "Scores of each network (dots), their mean with its 95% interval (bar), and the "
        "paper's number (diamond)."
    }
    if chosen := groups[OURS].chosen(score(FACTOR)):
        drawings["traversals"] = _draw_traversals(chosen)
        captions["traversals"] = (
            "Traversals of the HFVAE with the best and with the median FactorVAE score, from -2 to "
            "2, the latents with the largest KL first."
        )
    run = SETTINGS[OURS][0]
    return Result(
        drawings=drawings,
        captions=captions,
        claims=claims_of(groups),
        setting=(
            "Networks of the paper's table 4 on `shapes2d`, which renders the images of dSprites; "
            f"Adam 1e-3, batches of {run.batch_size}, {run.steps:,} steps, ten seeds. The paper "
            "gives neither steps nor seeds, and says of the Eastwood score only that a random "
            "forest is the regressor; ours has 10 trees (`dci`, protocol `esmaeili2019`, "
            "disentanglement). Intervals are 95% bootstrap intervals of the mean over seeds. "
            "Reconstruction and rate are in nats, on 2,048 images; I(x; z) and total correlations "
            "use the exact q(z) of all images.\n\n" + _table(groups)
        ),
        seeds="0 to 9",
    )


def claims_of(groups: Mapping[str, Group]) -> tuple[Claim, ...]:
    """What section 6.2 and table 2 say about the methods."""
    return (
        *(_outperforms(groups, label) for label in SCORES),
        *(_lowest(groups, label) for label in SCORES),
        *(_number(name, groups[name]) for name in PAPER),
    )


def _outperforms(groups: Mapping[str, Group], label: str) -> Claim:
    read = score(SCORES[label])

    def find() -> Finding:
        ours = groups[OURS]
        others = {name: group for name, group in groups.items() if name != OURS}
        by = {n: difference(ours.values(read), g.values(read)) for n, g in others.items()}
        each = "; ".join(f"{n} {short(g.mean(read))}" for n, g in others.items())
        return higher_by(by, f"{short(ours.mean(read))}; {each}")

    return claim_about(
        list(groups.values()),
        f"The HFVAE outperforms other approaches ({label} score)",
        "sec. 6.2, table 2",
        "higher mean than each of the others, with a 95% interval of the difference above 0",
        find,
    )


def _lowest(groups: Mapping[str, Group], label: str) -> Claim:
    read = score(SCORES[label])

    def find() -> Finding:
        last = groups["β-SVAE"].values(read)
        by = {n: difference(g.values(read), last) for n, g in groups.items() if n != "β-SVAE"}
        gaps = "; ".join(f"{name} higher by {short(gap)}" for name, gap in by.items())
        return higher_by(by, f"{short(groups['β-SVAE'].mean(read))}; {gaps}")

    return claim_about(
        list(groups.values()),
        f"The β-SVAE has the lowest {label} score",
        "table 2",
        "lower mean than each of the others, with a 95% interval of the difference above 0",
        find,
    )


def _number(name: str, group: Group) -> Claim:
    """One row of the table."""

    def find() -> Finding:
        values = [group.values(score(metric)) for metric in SCORES.values()]
        within = [v.min() <= p <= v.max() for v, p in zip(values, PAPER[name], strict=True)]
        each = zip(SCORES, SCORES.values(), values, strict=True)
        got = "; ".join(
            f"{label} {short(group.mean(score(metric)))}, from {v.min():.2f} to {v.max():.2f}"
            for label, metric, v in each
        )
        return Finding(got, all(within), contradicted=False)

    factor, eastwood = PAPER[name]
    return claim_about(
        [group],
        f"{name}: {factor:.2f} (FactorVAE) and {eastwood:.2f} (Eastwood)",
        "table 2",
        "within the range of our seeds",
        find,
        "The number of steps, the batch size within 512 to 1024, the size of the forest and the "
        "number of seeds are ours: the paper does not give them.",
    )


def _table(groups: Mapping[str, Group]) -> str:
    """The paper's numbers beside ours, in Markdown."""
    head = [
        "method", "networks", "FactorVAE: paper", "ours", "Eastwood: paper", "ours",
        "reconstruction", "rate", "I(x; z)", "TC", "TC between groups",
        "I(category; shape) / H(shape)",
    ]  # fmt: skip
    rows = [_row(name, group) for name, group in groups.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def _row(name: str, group: Group) -> list[str]:
    factor, eastwood = PAPER[name]
    mixed = SETTINGS[name][0].latent.kind == "product"

    def cell(read: Reader, digits: int = 1) -> str:
        if not group.networks:
            return ""
        return f"{group.values(read).mean():.{digits}f}"

    def both(read: Reader) -> str:
        return short(group.mean(read)) if group.networks else ""

    return [
        name,
        f"{len(group.networks)} of {group.total}",
        f"{factor:.2f}",
        both(score(FACTOR)),
        f"{eastwood:.2f}",
        both(score(EASTWOOD)),
        cell(lambda n: n.last("terms/distortion")),
        cell(lambda n: n.last("terms/rate")),
        cell(score("mutual_information")),
        cell(score("total_correlation")),
        cell(score("correlations/"), 2) if mixed else "-",
        cell(category_information, 2) if mixed else "-",
    ]


def category_information(network: Network) -> float:
    """How much of the shape, the digit or the garment the discrete variable tells, from 0 to 1."""
    return shared_information(network.facts["category"])


def draw_scores(groups: Mapping[str, Group]) -> Figure:
    """Both scores of all methods, seed by seed, beside the paper's."""
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    for column, (axis, (label, metric)) in enumerate(zip(axes, SCORES.items(), strict=True)):
        for place, (name, group) in enumerate(groups.items()):
            _draw_row(axis, place, group, metric, ORANGE if name == OURS else BLUE)
            axis.plot(PAPER[name][column], place + 0.31, "D", color=INK, markersize=4,
                      markerfacecolor="white", markeredgewidth=1.1, zorder=4)  # fmt: skip
        axis.set_yticks(range(len(groups)), list(groups) if column == 0 else [""] * len(groups))
        axis.set_ylim(len(groups) - 0.4, -0.6)
        axis.set_xlim(0.0, 1.0)
        axis.set_xlabel("score")
        axis.set_title(f"{label} score")
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0, labelcolor=INK, labelsize=9)
    handles = [
        axes[0].plot([], [], "o", color=MUTED, alpha=0.6, markersize=3.5, label="one network")[0],
        axes[0].plot([], [], "|", color=INK, markersize=9, label="mean, 95% interval")[0],
        axes[0].plot([], [], "D", color=INK, markerfacecolor="white", markersize=4,
                     label="the paper")[0],
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _draw_row(axis: Axes, place: int, group: Group, metric: str, colour: str) -> None:
    if not group.networks:
        axis.text(0.5, place, "not trained yet", color=MUTED, ha="center", va="center", fontsize=8)
        return
    values, mean = group.values(score(metric)), group.mean(score(metric))
    shifts = 0.16 * ((np.arange(len(values)) * 0.618) % 1 - 0.5)
    axis.plot(values, place + shifts, "o", color=colour, alpha=0.45, markersize=3.5,
              markeredgewidth=0)  # fmt: skip
    axis.plot([mean.low, mean.high], [place, place], color=colour, linewidth=2.2)
    axis.plot(mean.value, place, "|", color=colour, markersize=10, markeredgewidth=2.2)


def _draw_traversals(chosen: Mapping[str, Network]) -> Figure:
    figure, axes = panels(1, 2, width=3.6, height=4.4)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_sheet(axis, network.facts[PICTURES]["traversals"], COLUMNS, LATENTS)
        kl = sorted(network.facts["kl"][:LATENTS], reverse=True)
        axis.set_yticks(np.arange(len(kl)) + 0.5, [f"{value:.1f}" for value in kl])
        axis.set_title(f"{name} HFVAE: {network.last(f'metrics/{FACTOR}'):.2f}")
        axis.set_ylabel("KL of the latent in nats" if axis is axes[0] else "")
    return figure


def draw_sheet(axis: Axes, text: str, columns: int, rows: int) -> None:
    """A PNG of tiles, with coordinates that count its rows and columns."""
    axis.imshow(decoded_png(text), extent=(0, columns, rows, 0), aspect="equal")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)


FIGURES = (
    Reproduction(
        "esmaeili2019",
        "table2",
        "Table 2: disentanglement scores of five methods",
        "two weeks",
        table2,
        study=STUDY,
    ),
)
