"""What the studies of [Kim2018] share: methods and their settings, drawings, and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, NotRequired

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import TypedDict

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import evaluate
from unweave.objectives import DIPVAE
from unweave.presets import preset
from unweave.studies.drawing import (
    BLUE,
    DASHES,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    Axes,
    Axis,
    Figure,
    draw_means,
    panels,
    shades,
)
from unweave.studies.forms import TraversalsAndSamples, Word
from unweave.studies.images import draw_pictures, encode_png, traversals_png
from unweave.studies.intervals import mean_over_networks, two_sigma_interval
from unweave.studies.labels import PointLabel, place_labels
from unweave.studies.study import PICTURES, Group, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result
from unweave.training.records import Number
from unweave.training.run import Run

_OURS, _HIGGINS = "factor_vae_score/kim2018", "beta_vae_score/kim2018"
OURS, HIGGINS = f"metrics/{_OURS}", f"metrics/{_HIGGINS}"
TRUE_TC, CRITIC_TC = "metrics/total_correlation", "terms/total_correlation"
DISTORTION, ACCURACY, MISMATCH = (
    "terms/distortion", "terms/critic_accuracy", "metrics/dimension_kl",
)  # fmt: skip
COLUMNS, LATENTS = 8, 8  # of a picture of traversals
ROWS = 10_000
SEEDS = 10  # of each setting
LIKELIHOOD = "facts/log_likelihood"
LIKELIHOODS, PARTICLES = 64, 5_000  # app. E
# Numbers that the paper states: their curve, and their name.
STATED = {"score": (OURS, "mean score"), "error": (DISTORTION, "reconstruction error")}
# Between our number and one that the paper states. For log-likelihoods it is half of the smallest
# difference between the paper's (-43.3 and -46.1), so a number is close to one of them only.
TOLERANCES = {"score": 0.06, "error": 6.0, "likelihood": 1.4, "correlation": 0.2}

SCORES = Measure(every=10_000, metrics=(_OURS, _HIGGINS))
MEASURES = (
    Measure(every=10_000, rows=2_048),
    SCORES,
    Measure(every=50_000, metrics=("mutual_information", "total_correlation", "dimension_kl")),
)


class Family(NamedTuple):
    """A method: its name, and the symbol and the field of the weight that its settings vary."""

    name: str
    symbol: str
    field: str


METHODS = {
    "beta-vae": Family("β-VAE", "β", "beta"),
    "factor-vae": Family("FactorVAE", "γ", "gamma"),
    "aae": Family("AAE", "γ", "gamma"),
    "alpha-beta-vae": Family("FactorVAE with p(z)", "γ", "alpha"),
    "information-dropout": Family("Information Dropout", "γ", "gamma"),
    "dip-vae-i": Family("DIP-VAE-I", "λ_od", "off_diagonal"),
    "dip-vae-ii": Family("DIP-VAE-II", "λ_od", "off_diagonal"),
    "info-wgan-gp": Family("InfoWGAN-GP", "λ", "information"),
}
Setting = tuple[str, float]  # a key of METHODS, and the weight
_DIP = {"means": "dip-vae-i", "codes": "dip-vae-ii"}


def setting_of(run: Run) -> Setting:
    """Return the method of a run, and its weight."""
    objective = run.objective
    kind = _DIP[objective.covariance_of] if isinstance(objective, DIPVAE) else objective.kind
    return kind, float(getattr(objective, METHODS[kind].field))


def label(setting: Setting) -> str:
    """Name a setting.

    >>> label(("beta-vae", 4.0))
    'β-VAE, β = 4'
    """
    method = METHODS[setting[0]]
    return f"{method.name}, {method.symbol} = {setting[1]:g}"


def runs_of(name: str, field: str, value: float | str) -> list[Run]:
    """Return the runs of a preset with one value of a field of the objective, for all seeds."""
    return preset(f"kim2018/{name}").runs([f"objective.{field}={value}"])


def by_weight(results: Results, kind: str) -> dict[float, Group]:
    """Return the groups of a method that have networks, by ascending weight."""
    groups = results.groups(setting_of).items()
    return dict(
        sorted((w, group) for (each, w), group in groups if each == kind and group.networks)
    )


def best_group(results: Results, kind: str) -> Group:
    """Return the networks of the setting with the largest mean score."""
    groups = by_weight(results, kind).values()
    return max(groups, key=lambda group: group.values(OURS).mean(), default=Group((), 1))


def best_of_all(results: Results, kind: str) -> Group:
    """Return the group of `best_group`, incomplete until all settings of the method are trained."""
    best = best_group(results, kind)
    groups = [each for (name, _), each in results.groups(setting_of).items() if name == kind]
    missing = sum(each.total - each.done for each in groups)
    return Group(best.networks, best.done + missing, best.failed)


class VAEFacts(TypedDict):
    """The form of what `describe_vae` returns."""

    kl: list[Number]
    factors: dict[Word, Number]
    log_likelihood: Number
    log_likelihood_error: Number
    pictures: NotRequired[TraversalsAndSamples]


def describe_vae(model: FittedModel, shown: ArrayLike, start: int) -> Numbers:
    """Return what figures show of a trained VAE, beside its curves.

    See `traversals_png` for `shown` and `start`.
    """
    table = model.table(ROWS)
    assert table.kl is not None
    likelihoods = model.log_likelihood(model.observations(model.rows(LIKELIHOODS)), PARTICLES)
    return {
        "kl": table.kl.tolist(),
        "factors": evaluate(table, metrics=_OURS)[_OURS].parts,
        "log_likelihood": float(likelihoods.mean()),
        "log_likelihood_error": float(likelihoods.std(ddof=1)) / len(likelihoods) ** 0.5,
        PICTURES: {
            "traversals": traversals_png(model, table.kl, shown, start, LATENTS),
            "samples": samples(model),
        },
    }


def samples(model: FittedModel) -> str:
    """Encode images decoded from samples of the prior.  [Kim2018] fig. 19 to 22."""
    images = model.sample(5 * COLUMNS)
    return encode_png(list(images.reshape(5, COLUMNS, *images.shape[1:])))


def result_of(
    texts: Texts,
    results: Results,
    drawing: Figure | dict[str, Figure],
    claims: Sequence[Claim],
    noticed: str | None = None,
    **values: Any,
) -> Result:
    """Return a result that says how much of the study is trained; drawings may be several."""
    counts = [
        f"{label((kind, weight))}: {len(group.networks)}"
        for kind in METHODS
        for weight, group in by_weight(results, kind).items()
    ]
    names = {"bf16": "bfloat16", "fp32": "float32", "tf32": "TF32"}
    precisions = Counter(names[network.cost["precision"]] for network in results.networks)
    precision = " and ".join(f"{name} ({count} networks)" for name, count in precisions.items())
    return texts.result(
        drawing if isinstance(drawing, dict) else {"": drawing}, claims, results=results,
        noticed=noticed, counts="; ".join(counts), so_far="" if results.complete else " so far",
        precision=precision if len(precisions) > 1 else next(iter(precisions), "–"), **values,
    )  # fmt: skip


STYLES = {  # colour and marker
    "beta-vae": (BLUE, "o"), "factor-vae": (ORANGE, "s"), "aae": (GREEN, "^"),
    "alpha-beta-vae": (PURPLE, "D"), "information-dropout": (PURPLE, "v"),
    "dip-vae-i": (GREEN, "^"), "dip-vae-ii": (SKY, "P"),
}  # fmt: skip
LOSSES = {
    "terms/adversarial": "generator's loss", "terms/critic": "critic's loss",
    "terms/information": "-L (nats)",
}  # fmt: skip
_ROWS = {
    DISTORTION: "reconstruction (nats)", HIGGINS: "score of Higgins et al.",
    OURS: "score of Kim & Mnih",
}  # fmt: skip


def draw_training(results: Results, kinds: Sequence[str]) -> Figure:
    """Draw error and both metrics during training, a column for each method.  [Kim2018] fig. 4.

    All errors have one logarithmic axis, which shows those of the first steps, too.
    """
    columns = len(kinds)
    figure, axes = panels(len(_ROWS), columns, width=3.6, height=2.1)
    for row, (name, title) in enumerate(_ROWS.items()):
        for column, kind in enumerate(kinds):
            axis = axes[columns * row + column]
            draw_settings(axis, results, kind, name)
            axis.set_ylabel(title if column == 0 else "")
            if name == DISTORTION:
                axis.set_yscale("log")
                label_errors(axis.yaxis)
            else:
                axis.set_ylim(0.4, 1.0)
            if row == 0:
                axis.set_title(METHODS[kind].name)
            elif legend := axis.get_legend():
                legend.remove()
            if row == len(_ROWS) - 1:
                axis.set_xlabel("iterations")
    ends = [axis.get_ylim() for axis in axes[:columns]]
    for axis in axes[:columns]:
        axis.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    return figure


def label_errors(axis: Axis) -> None:
    """Label reconstruction errors in nats along a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axis.set_major_locator(FixedLocator([20, 30, 50, 100, 200, 300]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(ScalarFormatter())


def draw_settings(axis: Axes, results: Results, kind: str, curve: str) -> None:
    """Draw a line for each weight of a method; those of β-VAEs have colours of their own."""
    symbol, groups = METHODS[kind].symbol, by_weight(results, kind).items()
    named = {f"{symbol} = {value:g}": group for value, group in groups}
    draw_curves(axis, named, curve, "viridis" if kind == "beta-vae" else "plasma")


def draw_curves(
    axis: Axes,
    groups: Mapping[str, Group],
    curve: str,
    colormap: Literal["viridis", "plasma"] = "plasma",
) -> None:
    """Draw a line for each group: the mean over seeds and its interval, at every measured step."""
    colours = shades(len(groups), colormap)
    lines = zip(colours, DASHES * 2, groups.items(), strict=False)
    last = 0.0
    for colour, dashes, (name, group) in lines:
        if not (curves := curves_of(group, curve)):
            continue
        steps = sorted(set.intersection(*map(set, curves)))  # measured in all
        means = [mean_over_networks(np.array([each[step] for each in curves])) for step in steps]
        draw_means(axis, steps, means, colour, 0.2, linestyle=dashes, label=name)
        last = max([last, *steps])
    every = 100_000 if last > 100_000 else 10_000
    ticks = np.arange(0, last + 1, every).astype(int)
    axis.set_xticks(ticks, ["0" if tick == 0 else f"{tick // 1000}k" for tick in ticks])
    if axis.get_lines():
        axis.legend(loc="best", fontsize=7, ncols=2, handlelength=2.2)


def curves_of(group: Group, curve: str) -> list[dict[float, float]]:
    """Return the values of a curve by step, for every network."""
    return [dict(zip(*network.curve(curve), strict=True)) for network in group.networks]


def draw_losses(group: Group, alpha: float) -> tuple[Figure, list[Axes]]:
    """Draw the losses of GANs during training, a line for each network.  [Kim2018] fig. 32, 33."""
    figure, axes = panels(1, len(LOSSES), width=2.6, height=2.2)
    for axis, (curve, title) in zip(axes, LOSSES.items(), strict=True):
        draw_lines(axis, group, curve, alpha)
        axis.set(title=title, xlabel="iterations")
    return figure, axes


def draw_lines(axis: Axes, group: Group, curve: str, alpha: float) -> None:
    """Draw a curve of every network."""
    for values in curves_of(group, curve):
        axis.plot(list(values), list(values.values()), color=BLUE, alpha=alpha, linewidth=1)


def draw_trade_off(
    axis: Axes,
    results: Results,
    kinds: Sequence[str],
    labels: Sequence[PointLabel] = (),
    legend: Literal["lower left", "lower right"] = "lower left",
) -> None:
    """Draw the score against the reconstruction error, a point per network and a mean per setting.

    [Kim2018] fig. 5. `labels` are those of what is drawn already; `legend` is the legend's place.
    """
    labels = [*labels]
    for kind in kinds:
        (colour, marker), method = STYLES[kind], METHODS[kind]
        for number, (value, group) in enumerate(by_weight(results, kind).items()):
            axis.plot(group.values(DISTORTION), group.values(OURS), marker, color=colour,
                      markersize=3, alpha=0.35)  # fmt: skip
            error, score = group.mean(DISTORTION), group.mean(OURS)
            axis.errorbar(error.value, score.value, fmt=marker, color=colour, markersize=7,
                          xerr=[[error.value - error.low], [error.high - error.value]],
                          yerr=[[score.value - score.low], [score.high - score.value]],
                          label=method.name if number == 0 else "")  # fmt: skip
            text = f"{method.symbol} = {value:g}"
            labels.append(PointLabel(error.value, score.value, text, colour))
    axis.set_xlabel("reconstruction error at the end of training (nats)")
    axis.set_ylabel("score of Kim & Mnih")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc=legend, fontsize=7)
    place_labels(axis, labels)


def draw_traversals(results: Results, kinds: Sequence[str]) -> Figure:
    """Draw traversals of the best and of the median network of each method.  [Kim2018] fig. 6."""
    pictures, rates = {}, {}
    for column, kind in enumerate(kinds):
        chosen = best_group(results, kind).best_and_median(OURS)
        for place, (which, network) in enumerate(chosen.items()):
            name = label(setting_of(network.run)).replace(",", "")
            title = f"{name}, {which}\nscore {network.value(OURS):.3f}"
            number = len(kinds) * place + column
            pictures[number] = network.facts[PICTURES]["traversals"], title
            rates[number] = sorted(network.facts["kl"], reverse=True)[:LATENTS]
    rows = 2 + max(map(len, rates.values()), default=LATENTS)
    figure = draw_pictures(2, len(kinds), pictures, 3.3, 0.45 + 2.96 * rows / COLUMNS)
    for number, each in rates.items():
        axis = figure.axes[number]
        # From the second row on, of reconstructions.
        for row, text in enumerate(["KL", *(f"{rate:.1f}" for rate in each)], start=1):
            axis.text(-0.02, 1 - (row + 0.5) / (len(each) + 2), text, size=7, ha="right",
                      va="center", transform=axis.transAxes)  # fmt: skip
    return figure


def draw_samples(results: Results, kinds: Sequence[str]) -> Figure:
    """Draw samples of the best network of each method.  [Kim2018] fig. 19 to 22."""
    pictures = {}
    for column, kind in enumerate(kinds):
        if network := best_group(results, kind).best_and_median(OURS).get("best"):
            name = label(setting_of(network.run)).replace(",", "")
            title = f"{name}, log p(x) ≥ {network.facts['log_likelihood']:.1f}"
            pictures[column] = network.facts[PICTURES]["samples"], title
    return draw_pictures(1, len(kinds), pictures, 3.6, 2.4, fontsize=9.5)


# ---- claims


def stated_claim(
    texts: Texts, results: Results, setting: Setting, what: Literal["score", "error"],
    stated: float, reason: str = "The reason is open.",
) -> Claim:  # fmt: skip
    """Judge a mean that the paper states as "around" a value, without its error.

    Ours agrees if its whole interval is within a tolerance of that value, so that a wide interval
    does not make it easier, and contradicts it if the interval is all beyond the tolerance.
    """
    read, named = STATED[what]
    group, method = results.groups(setting_of)[setting], METHODS[setting[0]]
    mean, tolerance = group.mean(read), TOLERANCES[what]
    claim = texts.claim(
        "stated", mean.within(stated, tolerance), contradicted=mean.beyond(stated, tolerance),
        needs=(group,), what=named, method=f"{method.name} ({method.symbol} = {setting[1]:g})",
        stated=stated, tolerance=tolerance, mean=mean, median=np.median(group.values(read)),
        reason=reason,
    )  # fmt: skip
    return replace(claim, name=f"{setting[0].partition('-')[0]}_{what}")


def below_claim(texts: Texts, name: str, kind: str, ours: Group, theirs: Group) -> Claim:
    """Judge that one group scores below another; `kind` is the method that the claim is about."""
    less = ours.difference(theirs, OURS)
    return texts.below(
        name, less, needs=(ours, theirs), difference=less, method=METHODS[kind].name,
        ours=ours.mean(OURS), theirs=theirs.mean(OURS),
    )  # fmt: skip


def likelihood_claim(
    texts: Texts, results: Results, setting: Setting, stated: float, best: bool = True
) -> Claim:
    """Judge log p(x) of the best network of a setting, or of its first one, chosen at random."""
    group = results.groups(setting_of)[setting]
    values = group.values(LIKELIHOOD)
    order = group.ranked(OURS) if best else group.networks
    value, error = (
        float(order[0].facts[name]) if order else float("nan")
        for name in ("log_likelihood", "log_likelihood_error")
    )
    ours, tolerance = two_sigma_interval(value, error), TOLERANCES["likelihood"]
    return texts.claim(
        "likelihood", ours.within(stated, tolerance), contradicted=False, needs=(group,),
        chosen=f"the best {label(setting)}" if best else "a randomly chosen VAE", stated=stated,
        ours=ours, tolerance=tolerance, low=values.min(), high=values.max(), particles=PARTICLES,
        likelihoods=LIKELIHOODS,
    )  # fmt: skip
