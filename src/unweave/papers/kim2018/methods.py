"""What the studies of [Kim2018] share: methods, their settings, and what is kept of a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.metrics import evaluate
from unweave.objectives import DIPVAE
from unweave.presets import preset
from unweave.studies.images import encode_png, traversals_png
from unweave.studies.study import PICTURES, Group, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OURS, _HIGGINS = "factor_vae_score/kim2018", "beta_vae_score/kim2018"
OURS, HIGGINS = f"metrics/{_OURS}", f"metrics/{_HIGGINS}"
TRUE_TC, CRITIC_TC = "metrics/total_correlation", "terms/total_correlation"
DISTORTION, ACCURACY, MISMATCH = (
    "terms/distortion", "terms/critic_accuracy", "metrics/dimension_kl",
)  # fmt: skip
COLUMNS, LATENTS = 8, 8  # of a picture of traversals
ROWS = 10_000
SEEDS = 10  # of each setting
LIKELIHOODS, PARTICLES = 64, 5_000  # app. E
SLACK = 0.02  # of scores that the paper states as "around" a value

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
        drawing if isinstance(drawing, dict) else {"": drawing},
        claims,
        noticed=noticed,
        there=len(results.networks),
        planned=len(results.study.runs),
        counts="; ".join(counts),
        precision=precision if len(precisions) > 1 else next(iter(precisions), "–"),
        seeds=results.seeds,
        **values,
    )
