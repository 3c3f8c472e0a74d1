"""Table 2 of [Esmaeili2019]: five methods on 2D Shapes, with the scores of two papers."""

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import NotRequired

import numpy as np
from numpy.typing import ArrayLike
from torch.nn.functional import one_hot

from unweave.core.text import markdown_table
from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import Table
from unweave.presets import preset
from unweave.studies.drawing import BLUE, INK, MUTED, ORANGE, Axes, Figure, panels
from unweave.studies.forms import Divergences
from unweave.studies.images import draw_png, encode_png
from unweave.studies.intervals import mean_over_networks
from unweave.studies.study import PICTURES, Group, Network, Reader, Results, Study, best_of_settings
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Reproduction, Result, Workspace
from unweave.training.records import Matrix
from unweave.training.run import Run

FACTOR, EASTWOOD = "factor_vae_score/kim2018", "dci/esmaeili2019"
SCORES = {"FactorVAE": FACTOR, "Eastwood": EASTWOOD}
# The scores in the paper, by its names of the methods.
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
IN_USE = 0.1  # nats
ROWS = 10_000
NEAR = 1.0  # nats
_TOLERANCE = 0.06  # between our mean and the number of the table
_INFORMATION, _MOST = "metrics/mutual_information", float(np.log(737_280))
_START = 4 * 91_237 + 5_000  # the observation that traversals start from
_STEPS = SETTINGS[OURS][0].steps
_TEXTS = Texts(__package__, "table2")
_ORDERS = {1: "in the paper's order", 0: "equal in the paper", -1: "in the other order"}


class _Facts(Divergences):
    """The form of the facts of a network; some have a category."""

    category: NotRequired[Matrix]


def describe(model: FittedModel) -> Numbers:
    """Return what the table and its pictures show of a trained network, beside its curves."""
    table = model.table(ROWS)
    assert table.kl is not None
    facts: Numbers = {"kl": table.kl.tolist(), PICTURES: {"traversals": _traversals(model, table)}}
    if any(model.run.latent.discrete):
        facts["category"] = category_counts(model, "shape")
    return facts


def category_counts(model: FittedModel, factor: str) -> list[list[float]]:
    """Count how often each class of the discrete variable (C) occurs with each factor value (Y).

    sum_n q(c|x_n) [y_n = y]: expected counts, to which an unused class does not contribute.
    """
    return counts_by_factor(model, [factor])[factor]


def counts_by_factor(model: FittedModel, factors: Sequence[str]) -> dict[str, list[list[float]]]:
    """Return the counts of `category_counts` for several factors."""
    latent, rows, dataset = model.run.latent, model.rows(ROWS), model.dataset
    classes = model.posteriors(rows).mean[:, latent.columns[latent.discrete.index(True)]]
    values, counts = dataset.factors(rows), {}
    for factor in factors:
        column = dataset.factor_names.index(factor)
        labels = one_hot(values[:, column], dataset.factor_sizes[column])
        counts[factor] = (classes.T @ labels.to(classes)).tolist()
    return counts


def _traversals(model: FittedModel, table: Table) -> str:
    """Encode traversals of the continuous latents, the largest KL first."""
    assert table.kl is not None
    kl = table.kl.tolist()
    traversals = model.traverse(model.observations([_START % model.dataset.size]), steps=COLUMNS)
    continuous = [v for v, flag in enumerate(model.run.latent.discrete) if not flag]
    order = sorted(continuous, key=lambda v: -float(kl[v]))[:LATENTS]
    return encode_png([traversals[variable] for variable in order])


def setting_of(run: Run) -> str:
    """Return the method of a run."""
    return next(name for name, runs in SETTINGS.items() if run in runs)


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
    pictured=best_of_settings(setting_of, f"metrics/{FACTOR}"),
    precision="fp32",  # in bfloat16 some networks diverge: see the text
    form=_Facts,
)


def table2(workspace: Workspace, results: Results) -> Result:
    """Table 2: disentanglement scores for dSprites."""
    groups, run = results.groups(setting_of), SETTINGS[OURS][0]
    drawings = {"": draw_scores(groups)}
    if chosen := groups[OURS].best_and_median(f"metrics/{FACTOR}"):
        drawings["traversals"] = _draw_traversals(chosen)
    return _TEXTS.result(drawings, claims_of(groups), batch=run.batch_size, steps=run.steps,
                         table=_table(groups), in_use=IN_USE, orders=orders(groups))  # fmt: skip


def claims_of(groups: Mapping[str, Group]) -> tuple[Claim, ...]:
    """Judge what section 6.2 and table 2 say about the methods."""
    ours, last = groups[OURS], groups["β-SVAE"]
    outperforms, lowest = [], []
    for label, metric in SCORES.items():
        read = f"metrics/{metric}"
        others = {name: group for name, group in groups.items() if name != OURS}
        means = "; ".join(f"{name} {group.mean(read)}" for name, group in others.items())
        higher = [ours.difference(group, read) for group in others.values()]
        outperforms.append(
            _TEXTS.above("outperforms", *higher, needs=groups.values(), score=label,
                         ours=ours.mean(read), others=means)
        )  # fmt: skip
        below = {name: group for name, group in groups.items() if group is not last}
        gaps = {name: group.difference(last, read) for name, group in below.items()}
        listed = "; ".join(f"{name} higher by {gap}" for name, gap in gaps.items())
        lowest.append(
            _TEXTS.above("lowest", *gaps.values(), needs=groups.values(), score=label,
                         lowest=last.mean(read), others=listed)
        )  # fmt: skip
    scores = [
        _score_claim(name, groups[name], label, numbers[column])
        for column, label in enumerate(SCORES)
        for name, numbers in PAPER.items()
    ]
    return (*outperforms, *lowest, *scores, *_saturation_claims(groups))


def _score_claim(name: str, group: Group, label: str, stated: float) -> Claim:
    """Judge one number of the table; its settings are not stated, so a miss contradicts nothing."""
    read = f"metrics/{SCORES[label]}"
    values, mean = group.values(read), group.mean(read)
    beyond = mean.beyond(stated, _TOLERANCE)
    far = "All of our interval is further away" if beyond else "Our interval allows both answers"
    return _TEXTS.claim("score", mean.within(stated, _TOLERANCE), contradicted=False,
                        needs=(group,), method=name, score=label, stated=stated, far=far,
                        tolerance=_TOLERANCE, mean=mean, low=values.min(),
                        high=values.max())  # fmt: skip


def _saturation_claims(groups: Mapping[str, Group]) -> list[Claim]:
    """Judge whether the mutual information is close to the log of the number of observations."""
    return [
        _TEXTS.claim(key, away.high < NEAR, contradicted=False, needs=(group,), bound=NEAR,
                     most=_MOST, information=group.mean(_INFORMATION), away=away)
        for key, group in (("saturates", groups["VAE"]), ("saturates_here", groups[OURS]))
        for away in [mean_over_networks(_MOST - group.values(_INFORMATION))]
    ]  # fmt: skip


def orders(groups: Mapping[str, Group]) -> str:
    """Say which pairs of methods our seeds tell apart, and whether the paper orders them alike."""
    return ". ".join(_order(groups, label, column) for column, label in enumerate(SCORES))


def _order(groups: Mapping[str, Group], label: str, column: int) -> str:
    read = f"metrics/{SCORES[label]}"
    gaps = {(a, b): groups[a].difference(groups[b], read) for a, b in permutations(groups, 2)}
    stated = {(a, b): PAPER[a][column] - PAPER[b][column] for a, b in gaps}
    apart = [pair for pair, gap in gaps.items() if gap.low > 0]
    parts = [f"{label} score: {len(apart)} of {len(gaps) // 2} pairs"]
    for sign, order in _ORDERS.items():
        if pairs := [pair for pair in apart if np.sign(stated[pair]) == sign]:
            parts.append(f"{order} {', '.join(' above '.join(pair) for pair in pairs)}")
    beyond = [
        pair
        for pair in combinations(groups, 2)
        if not gaps[pair].low <= stated[pair] <= gaps[pair].high
    ]
    parts.append(f"the paper's difference is outside our interval for {len(beyond)} pairs")
    return "; ".join(parts)


def latents_in_use(network: Network) -> int:
    """Count the continuous latents with a KL of at least `IN_USE`."""
    return sum(value >= IN_USE for value in network.facts["kl"][:LATENTS])


def _table(groups: Mapping[str, Group]) -> str:
    head = [
        "method", "networks", "FactorVAE: paper", "ours", "Eastwood: paper", "ours",
        "latents in use", "reconstruction", "rate", "I(x; z)", "TC", "TC between groups",
        "I(category; shape) / H(shape)",
    ]  # fmt: skip
    return markdown_table(head, [_row(name, group) for name, group in groups.items()]).rstrip()


def _row(name: str, group: Group) -> list[str]:
    factor, eastwood = PAPER[name]
    mixed = SETTINGS[name][0].latent.kind == "product"

    def cell(read: Reader, digits: int = 1) -> str:
        return f"{group.values(read).mean():.{digits}f}" if group.networks else ""

    def interval(metric: str) -> str:
        return f"{group.mean(f'metrics/{metric}')}" if group.networks else ""

    return [
        name,
        f"{len(group.networks)} of {group.total}",
        f"{factor:.2f}",
        interval(FACTOR),
        f"{eastwood:.2f}",
        interval(EASTWOOD),
        cell(latents_in_use),
        cell("terms/distortion"),
        cell("terms/rate"),
        cell(_INFORMATION),
        cell("metrics/total_correlation"),
        cell("metrics/correlations/", 2) if mixed else "-",
        cell(category_information, 2) if mixed else "-",
    ]


def category_information(network: Network) -> float:
    """Return how much of the label the discrete variable explains, from 0 to 1."""
    return shared_information(network.facts["category"])


def shared_information(counts: ArrayLike) -> float:
    """Return I(c; y) / H(y) of counts (C, Y) of classes c and labels y: 1 if c determines y.

    It is 0 if all labels are the same.

    >>> shared_information([[5, 0], [0, 5]]), shared_information([[1, 1], [1, 1]])
    (1.0, 0.0)
    """
    joint = np.asarray(counts, np.float64)
    joint = joint / joint.sum()
    label = joint.sum(0)
    product = joint.sum(1, keepdims=True) * label
    both, some = joint > 0, label > 0
    entropy = -(label[some] * np.log(label[some])).sum()
    shared = (joint[both] * np.log(joint[both] / product[both])).sum()
    return float(shared / entropy) if entropy else 0.0


def draw_scores(groups: Mapping[str, Group]) -> Figure:
    """Draw both scores of all methods, seed by seed, beside the paper's."""
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    for column, (axis, (label, metric)) in enumerate(zip(axes, SCORES.items(), strict=True)):
        for place, (name, group) in enumerate(groups.items()):
            _draw_row(axis, place, group, metric, ORANGE if name == OURS else BLUE)
            axis.plot(PAPER[name][column], place + 0.31, "D", color=INK, markersize=4,
                      markerfacecolor="white", markeredgewidth=1.1, zorder=4)  # fmt: skip
        axis.set_yticks(range(len(groups)), list(groups) if column == 0 else [""] * len(groups))
        axis.set(
            ylim=(len(groups) - 0.4, -0.6), xlim=(0.0, 1.0), xlabel="score", title=f"{label} score"
        )
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
    values, mean = group.values(f"metrics/{metric}"), group.mean(f"metrics/{metric}")
    shifts = 0.16 * ((np.arange(len(values)) * 0.618) % 1 - 0.5)
    axis.plot(values, place + shifts, "o", color=colour, alpha=0.45, markersize=3.5,
              markeredgewidth=0)  # fmt: skip
    axis.plot([mean.low, mean.high], [place, place], color=colour, linewidth=2.2)
    axis.plot(mean.value, place, "|", color=colour, markersize=10, markeredgewidth=2.2)


def _draw_traversals(chosen: Mapping[str, Network]) -> Figure:
    figure, axes = panels(1, 2, width=3.6, height=4.4)
    for axis, (name, network) in zip(axes, chosen.items(), strict=True):
        draw_png(axis, network.facts[PICTURES]["traversals"], COLUMNS, LATENTS)
        kl = sorted(network.facts["kl"][:LATENTS], reverse=True)
        axis.set_yticks(np.arange(len(kl)) + 0.5, [f"{value:.1f}" for value in kl])
        axis.set_title(f"{name} HFVAE: {network.value(f'metrics/{FACTOR}'):.2f}")
        axis.set_ylabel("KL of the latent in nats" if axis is axes[0] else "")
    return figure


_TITLE = "Table 2: disentanglement scores of five methods"
FIGURES = (Reproduction("esmaeili2019", "table2", _TITLE, "two weeks", table2, study=STUDY),)
