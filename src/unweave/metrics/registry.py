"""The registry of metrics under their protocols, and `evaluate`, which runs them on a table."""

import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, SupportsFloat, Unpack, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.bibliography import cited, entries_for
from unweave.core.hints import nearest, suggestion
from unweave.core.parts import announced, find_object, import_module
from unweave.metrics.arrays import Seed, as_codes, as_factors, real_factors
from unweave.metrics.beta_vae_score import beta_vae_score
from unweave.metrics.dci import dci
from unweave.metrics.dci_es import dci_es
from unweave.metrics.dcimig import dcimig
from unweave.metrics.downstream import downstream
from unweave.metrics.evidence import unjudged
from unweave.metrics.explicitness import explicitness
from unweave.metrics.factor_vae_score import factor_vae_score
from unweave.metrics.infomec import info_mec, info_mec_estimates
from unweave.metrics.inputs import (
    DOWNSTREAM_CLASSES,
    TREE_CLASSES,
    FewRowsWarning,
    Inputs,
    MissingLabelsWarning,
    read,
)
from unweave.metrics.irs import irs
from unweave.metrics.jemmig import jemmig
from unweave.metrics.mcc import mcc
from unweave.metrics.mig import mig
from unweave.metrics.mig_sup import mig_sup
from unweave.metrics.model_metrics import MODEL_METRICS, split_model_metrics, split_names
from unweave.metrics.modularity import modularity
from unweave.metrics.needs import (
    Need,
    a_quantity,
    class_factors,
    divergences,
    learnable_classes,
    normal_posteriors,
    posterior_scales,
    repeated_value,
    two_codes,
    two_factors,
    two_quantities,
    two_varied,
    varied_factor,
)
from unweave.metrics.options import MetricOptions, suppress_few_rows_warning
from unweave.metrics.posterior.overlap import relative_scale
from unweave.metrics.sap import sap
from unweave.metrics.score import NO_EVIDENCE, Score, Scores
from unweave.metrics.table import Table
from unweave.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)
from unweave.metrics.validation import check_arguments, resolve_hints

Change = Literal["scale", "sign", "dead"]

_log = logging.getLogger(__name__)
_COLUMNS = ("scales", "kl", "discrete", "factor_names", "continuous")


@dataclass(frozen=True)
class Metric:
    """A metric under one protocol, with what it needs from a table.

    The function receives the columns of the table that it has parameters for. An unsupervised
    metric has none for factors, and neither interval nor null. `perfect` is the lowest score of a
    table with one code per factor. `sensitive_to` lists the changes of the codes that change the
    value under the same seed: "scale" (of one code, or of all), "sign", "dead" (added constant
    codes). `slow` metrics take seconds to minutes for 10,000 rows, or repeat the number of another
    protocol; they run only if you name them. `estimate`, if given, computes what the protocols of a
    metric have in common: `evaluate` calls it once and passes the result to all of them as
    `estimates`.
    """

    name: str
    protocol: str
    compute: Callable[..., Score | float]
    needs: tuple[Need, ...] = (varied_factor,)
    perfect: float = 0.99
    sensitive_to: tuple[Change, ...] = ()
    slow: bool = False
    estimate: Callable[[Inputs], object] | None = None

    @property
    def key(self) -> str:
        """Name and protocol, such as `mig/chen2018`; the name alone if there is no protocol."""
        return f"{self.name}/{self.protocol}" if self.protocol else self.name

    def unmet(self, table: Table) -> str | None:
        """Return why this table cannot be scored, or None."""
        table = self._rows(table)
        return next((reason for need in self.needs if (reason := need(table))), None)

    def _rows(self, table: Table) -> Table:
        """Return the rows to score: those with labels, or all if the metric reads no factors."""
        return table.labelled if self.reads_factors else table

    @property
    def reads_factors(self) -> bool:
        """Whether the function has a parameter for factors, whatever its name."""
        own = inspect.signature(self.compute).parameters
        return "factors" in own or "codes" not in own

    def __call__(
        self,
        table: Table,
        *,
        seed: Seed = 0,
        estimates: object = None,
        **options: Unpack[MetricOptions],
    ) -> Score:
        """Return the score of a table."""
        table = self._rows(table)
        own = inspect.signature(self.compute).parameters
        given = {name: getattr(table, name) for name in _COLUMNS}
        given |= {"protocol": self.protocol, "seed": seed, "estimates": estimates, **options}
        given |= {"codes": table.codes, "factors": table.merged_factors}
        # Users may call the two arrays by other names.
        arrays = () if "codes" in own else (table.codes, table.merged_factors)
        arguments = {name: value for name, value in given.items() if name in own}
        score = self.compute(*arrays, **arguments)
        if not isinstance(score, Score):
            if not isinstance(score, SupportsFloat):
                raise ValueError(f"expected a number or a Score from {self.name}, got {score!r}")
            return Score(self.name, self.protocol, float(score))
        return replace(score, name=self.name, protocol=self.protocol)

    def estimate_table(self, table: Table, seed: Seed) -> object:
        """Call `estimate` on a table."""
        assert self.estimate is not None
        table = self._rows(table)
        known = {name: getattr(table, name) for name in ("discrete", "factor_names", "continuous")}
        return self.estimate(read(table.codes, table.merged_factors, seed=seed, **known))


_FIXED = (varied_factor, class_factors, repeated_value)  # to hold a factor fixed
_CLASSES = (varied_factor, class_factors)  # to group rows by a factor
_LEARNT = (*_CLASSES, learnable_classes())  # to classify a factor
_TREES = learnable_classes(TREE_CLASSES)
_FEW = (*_CLASSES, learnable_classes(DOWNSTREAM_CLASSES))
_MIXED = (two_factors,)  # to see whether codes mix factors
_POSTERIORS = (*_CLASSES, posterior_scales, normal_posteriors)  # to compute with q(z|x)
_SCALE: tuple[Change, ...] = ("scale",)

METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        # Codes with a standard deviation below 0.05 are pruned.
        Metric("factor_vae_score", "kim2018", factor_vae_score, _FIXED, sensitive_to=_SCALE),
        Metric("factor_vae_score", "locatello2019", factor_vae_score, _FIXED, sensitive_to=_SCALE),
        Metric("mig", "locatello2019", mig),
        Metric("mig", "chen2018", mig, _POSTERIORS),
        Metric("mig_sup", "li2020", mig_sup, sensitive_to=_SCALE),
        Metric("jemmig", "do2020", jemmig, sensitive_to=_SCALE),
        Metric("dcimig", "sepliarskaia2019", dcimig),
        Metric("modularity", "locatello2019", modularity, _MIXED, sensitive_to=("dead",)),
        Metric("modularity", "ridgeway2018", modularity, _MIXED, sensitive_to=_SCALE),
        # Ties are broken at random, which adds a little spurious mutual information. Codes that are
        # narrow relative to the widest are pruned.
        *(
            Metric(
                "info_mec",
                protocol,
                info_mec,
                (*_MIXED, learnable_classes()),
                perfect=0.9,
                sensitive_to=_SCALE,
                slow=True,
                estimate=info_mec_estimates,
            )
            for protocol in ("hsu2023", "hsu2024")
        ),
        Metric("mcc", "hyvarinen2016", mcc),
        # A fit that is penalised, or not run to convergence, depends on the scale of the codes.
        Metric("beta_vae_score", "kim2018", beta_vae_score, _FIXED, sensitive_to=_SCALE),
        Metric("beta_vae_score", "locatello2019", beta_vae_score, _FIXED, sensitive_to=_SCALE),
        # The same number as kim2018.
        Metric(
            "beta_vae_score", "higgins2017", beta_vae_score, _FIXED, sensitive_to=_SCALE, slow=True
        ),
        Metric("factor_vae_score", "mathieu2019", factor_vae_score, _FIXED),
        Metric("irs", "suter2019", irs, _CLASSES, sensitive_to=_SCALE),
        Metric("irs", "locatello2019", irs, _CLASSES, sensitive_to=_SCALE),
        Metric("dci", "locatello2019", dci, (*_CLASSES, _TREES), slow=True),
        Metric("dci", "esmaeili2019", dci, slow=True),
        Metric("dci", "eastwood2018", dci),
        Metric("dci_es", "eastwood2023", dci_es, (varied_factor, _TREES), slow=True),
        Metric("sap", "locatello2019", sap, _LEARNT, perfect=0.2, sensitive_to=("scale", "dead")),
        Metric("sap", "kumar2018", sap),
        Metric("explicitness", "locatello2019", explicitness, _LEARNT, slow=True),
        # A line separates only the ends of a range from the rest.
        Metric("explicitness", "ridgeway2018", explicitness, _LEARNT, perfect=0.7, slow=True),
        # Ten labels do not cover all values.
        Metric(
            "downstream",
            "locatello2019",
            downstream,
            _FEW,
            perfect=0.75,
            sensitive_to=_SCALE,
            slow=True,
        ),
    )
}


UNSUPERVISED: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric("hoyer", "mathieu2019", hoyer, (two_quantities,)),
        Metric("hoyer", "mathieu2019-normalised", hoyer, (two_varied,)),
        Metric("active_units", "burda2016", active_units, ()),
        Metric("active_units", "kl", active_units, (divergences,)),
        Metric("gaussian_total_correlation", "locatello2019", gaussian_total_correlation, ()),
        *(
            Metric("gaussian_wasserstein_correlation", p, gaussian_wasserstein_correlation, ())
            for p in ("locatello2019", "locatello2019-normalised")
        ),
        Metric(
            "mean_pairwise_information", "locatello2019", mean_pairwise_information, (two_codes,)
        ),
        Metric("relative_scale", "mathieu2019", relative_scale, (posterior_scales, a_quantity)),
    )
}


MetricChoice = str | Metric | Callable[..., Score | float]


def describe(table: Table) -> Scores:
    """Compute every unsupervised metric that a table has the inputs for, by name and protocol.

    Metrics that need all of q(z|x), such as the exact mutual information, are computed by
    `unweave.describe` from a model; each is also a function here, of codes and scales.

    >>> import numpy as np
    >>> table = Table([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0]], np.zeros((3, 0), int))
    >>> len(describe(table)), describe(table)["active_units/burda2016"].value
    (7, 2.0)
    """
    return Scores({key: m(table) for key, m in UNSUPERVISED.items() if m.unmet(table) is None})


@check_arguments
def evaluate(
    codes: ArrayLike | Table,
    factors: ArrayLike | None = None,
    *,
    metrics: MetricChoice | Sequence[MetricChoice] | None = None,
    seed: Seed = 0,
    progress: Callable[[str, Score | None], object] | None = None,
    **options: Unpack[MetricOptions],
) -> Scores:
    """Compute scores of codes by metric and protocol, such as `mig/chen2018`.

    Codes (N, D) and factors (N, K) are all that most metrics read; a `Table` holds them together
    with posterior scales, names and whatever else is known.

    By default all quick metrics run that apply to the table or, without factors, the unsupervised
    ones. The others are logged, and `left_out` explains why they do not apply. Metrics that you
    name must apply. A name without protocol selects all protocols that apply, "all" selects all
    metrics including slow ones, and "unsupervised" all that need no factors.

    You can also pass your own function, `metrics=["mig", my_function]`: it is called with codes and
    factors, and returns a number or a `Score`. Decorate it with `metric` for intervals and the
    other options. Without the decorator, it receives `seed` or columns of the table, such as
    `scales`, if it has parameters of these names.

    Args:
        codes: (N, D) posterior means, or a table.
        factors: (N, K) integers or real numbers, NaN if missing, unless a table is given.
        metrics: names such as "mig" or "mig/chen2018", separated by commas or in a list; functions
            or `Metric` values, alone or in a list.
        seed: an integer, or a NumPy generator.
        progress: called with each key when it begins, and with the key and its score when done.
        **options: options of every metric, such as `interval=0.95`. Unsupervised metrics ignore
            them.

    How real-valued factors are treated is logged (`Table.notes`). A table with missing labels
    (`Table.missing_labels`) or with too few rows (`Table.too_few_rows`) issues one warning each.
    The detail "no evidence" of a score says why it cannot be judged, if it cannot: too few rows, a
    single factor or code, or a null that is as high.

    >>> import numpy as np
    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> evaluate(factors / [2.0, 3.0], factors, metrics="mig", null=True, interval=0.9)
    metric             value   interval          null
    mig/locatello2019  1.0000  0.9364 to 1.0000  0.0318
    """
    _check_options(options)
    table = _as_table(codes, factors, options.pop("continuous", None))
    for note in table.notes:
        _log.info(note)
    chosen = select(table, metrics)
    if table.missing_labels and any(metric.reads_factors for metric in chosen.values()):
        warnings.warn(table.missing_labels, MissingLabelsWarning, stacklevel=3)
    if table.too_few_rows and chosen:
        warnings.warn(table.too_few_rows, FewRowsWarning, stacklevel=3)  # past `check_arguments`
    report = progress or (lambda key, score: None)
    scores = Scores()
    shared: dict[Callable[..., object], object] = {}
    for key, metric in chosen.items():
        report(key, None)
        estimates = None
        # A generator advances between calls, to other rows; periods change the factors.
        if metric.estimate and isinstance(seed, int) and not options.get("periods"):
            estimates = shared.get(metric.estimate) or metric.estimate_table(table, seed)
            shared[metric.estimate] = estimates
        with suppress_few_rows_warning():
            score = metric(table, seed=seed, estimates=estimates, **options)
        if key not in UNSUPERVISED and (reason := unjudged(score, table)):
            score = replace(score, details=score.details | {NO_EVIDENCE: reason})
        scores[key] = score
        report(key, score)
    return scores


def _check_options(options: Mapping[str, object]) -> None:
    others = [name for name in options if name not in MetricOptions.__annotations__]
    if others:
        raise TypeError(
            f"expected options of every metric, {', '.join(MetricOptions.__annotations__)}, got "
            f"{others[0]}: put other columns into a Table and protocols into `metrics`, and call a "
            "metric's function for its own options"
        )


def _as_table(
    codes: ArrayLike | Table, factors: ArrayLike | None, continuous: Sequence[int | str] | None
) -> Table:
    if isinstance(codes, Table) and factors is None:
        return codes if continuous is None else replace(codes, continuous=continuous)
    if isinstance(codes, Table) or factors is None:
        raise ValueError(
            "expected codes with factors, or a table, which has both, got "
            + ("codes alone" if factors is None else "a table and factors")
        )
    # A table numbers its classes from 0; metrics do not depend on these numbers.
    v = as_factors(factors, rows=len(as_codes(codes)), least=0, missing=True)
    whole = ~real_factors(v)
    v[:, whole] -= np.fmin.reduce(v[:, whole], 0, initial=0)  # NaN is missing
    return Table(codes, v, continuous=continuous)  # type: ignore[arg-type]


def left_out(
    table: Table, metrics: MetricChoice | Sequence[MetricChoice] | None = None
) -> dict[str, str]:
    """Return the metrics that a table cannot be scored by, each with the reason.

    `metrics` are chosen as in `evaluate`; by default those that need factors.
    """
    chosen: Mapping[str, Metric] = METRICS
    if metrics is not None:
        choices = split_model_metrics(metrics)[0] or ()
        chosen = {key: m for choice in choices for key, m in find_metrics(choice).items()}
    reasons = {key: metric.unmet(table) for key, metric in chosen.items()}
    return {key: reason for key, reason in reasons.items() if reason is not None}


def metric_keys(metrics: MetricChoice | Sequence[MetricChoice]) -> set[str]:
    """Return the keys of all metrics that a choice stands for, of tables and of models.

    >>> sorted(metric_keys("mig,udr"))
    ['mig/chen2018', 'mig/locatello2019', 'udr/duan2020-lasso']
    """
    of_tables, of_models = split_model_metrics(metrics)
    return {*of_models, *(key for choice in of_tables or () for key in find_metrics(choice))}


def find_metrics(choice: MetricChoice) -> dict[str, Metric]:
    """Return the metrics, by key, that a name, a key, a function or a `Metric` stands for.

    "all" stands for all metrics and "unsupervised" for all that need no factors; "module:function"
    is a function of yours, whose module is imported, as is a name that an installed package
    announces, unless a metric of unweave has it. A function that is not registered becomes a metric
    with its `__name__`, under each protocol that it has.

    >>> list(find_metrics("irs")), list(find_metrics(lambda codes, factors: 0.5))
    (['irs/suter2019', 'irs/locatello2019'], ['<lambda>'])
    """
    every = METRICS | UNSUPERVISED
    if isinstance(choice, Metric):
        return {choice.key: choice}
    if not isinstance(choice, str):
        registered = {key: m for key, m in every.items() if m.compute is choice}
        return registered or _metrics_from_function(choice)
    groups = {"all": METRICS, "unsupervised": UNSUPERVISED}
    matches = groups.get(choice) or {k: m for k, m in every.items() if choice in (k, m.name)}
    if matches:
        return matches
    if choice.partition("/")[0] in MODEL_METRICS:
        raise ValueError(
            f"{choice} is a metric of trained models, not of a table of codes: use `unweave "
            f"evaluate RUNS --metrics {choice}` or unweave.evaluate(models, metrics={choice!r})"
        )
    if (entry := announced().get(choice)) or ":" in choice:
        import_module((entry.module if entry else choice).partition(":")[0])
        return _metrics_from_function(_function_named(entry.value if entry else choice))
    short = [*groups, *dict.fromkeys(m.name for m in every.values()), *MODEL_METRICS]
    full = [*every, *MODEL_METRICS.values()]
    hint = nearest(choice, full, most_listed=0) if "/" in choice else nearest(choice, short)
    raise ValueError(f"metric {choice!r} is not known: {hint}")


def _function_named(name: str) -> Callable[..., Score | float]:
    """Return the function "module:function" of an imported module."""
    value: Any = find_object(name)
    if callable(value) and not isinstance(value, type):
        return cast(Callable[..., Score | float], value)
    module, _, path = name.partition(":")
    near = suggestion(path, vars(sys.modules[module])).strip()
    raise ValueError(
        f"expected a metric named {path} in {module}, a function decorated with "
        f"@unweave.metrics.metric, got "
        + (f"nothing: {near}".rstrip(": ") if value is None else repr(value))
    )


def _metrics_from_function(function: Callable[..., Score | float]) -> dict[str, Metric]:
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            f"expected a metric as a name, a function or a Metric, got {function!r}: give 'mig' "
            "or a function of codes and factors"
        )
    if isinstance(function, partial):
        raise TypeError(
            "a partial has no name: use Metric('my_metric', protocol or '', partial(...))"
        )
    name = getattr(function, "__name__", type(function).__name__)
    if "inputs" in inspect.signature(function).parameters:
        raise TypeError(
            f"expected {name} to be a function of codes and factors, got one of inputs: decorate "
            "it by unweave.metrics.metric"
        )
    protocols = get_args(resolve_hints(function).get("protocol")) or ("",)
    metrics = [Metric(name, protocol, function) for protocol in protocols]
    return {metric.key: metric for metric in metrics}


def select(
    table: Table, metrics: MetricChoice | Sequence[MetricChoice] | None = None
) -> dict[str, Metric]:
    """Return the metrics that `evaluate` runs; raise if one that is named does not apply."""
    if metrics is None:
        quick = {key: metric for key, metric in METRICS.items() if not metric.slow}
        return _applicable(table, quick) or _applicable(table, UNSUPERVISED)
    if isinstance(metrics, str):
        metrics = split_names(metrics) or [metrics]
    chosen: dict[str, Metric] = {}
    for choice in [metrics] if callable(metrics) else metrics:
        matches = find_metrics(choice)
        if taken := [key for key in matches if key in chosen and chosen[key] != matches[key]]:
            raise ValueError(f"expected functions of different names, got two named {taken[0]}")
        reasons = {key: reason for key, m in matches.items() if (reason := m.unmet(table))}
        if len(reasons) == len(matches) and choice not in ("all", "unsupervised"):
            why = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
            name = choice if isinstance(choice, str) else ", ".join(matches)
            raise ValueError(f"expected a table that can be scored by {name}, but {why}")
        chosen |= matches
    return _applicable(table, chosen)


def _applicable(table: Table, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metrics that a table can be scored by, and log the others."""
    reasons = {key: metric.unmet(table) for key, metric in metrics.items()}
    for key, reason in reasons.items():
        if reason is not None:
            _log.info("%s is left out: %s", key, reason)
    return {key: metric for key, metric in metrics.items() if reasons[key] is None}


def metric_citations(names: Iterable[str]) -> dict[str, str]:
    """Return the BibTeX entries of registered metrics: of their definitions and their protocols.

    >>> list(metric_citations(["mig/chen2018", "dci/locatello2019"]))
    ['Chen2018', 'Eastwood2018', 'Locatello2019']
    """
    every, keys = METRICS | UNSUPERVISED, []
    for metric in (every[name] for name in names if name in every):
        first, *others = cited(metric.compute.__doc__ or "")
        protocol = metric.protocol.partition("-")[0]
        keys += [first, *(key for key in others if key.lower() == protocol)]
    return entries_for(keys)
