"""All metrics and measures, under each of their protocols, and how a table is put through them."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.bibliography import cited, known
from unweave.core.hints import nearest
from unweave.metrics.beta_vae_score import beta_vae_score
from unweave.metrics.dci import dci
from unweave.metrics.dci_es import dci_es
from unweave.metrics.factor_vae_score import factor_vae_score
from unweave.metrics.gaps import dcimig, jemmig, mig_sup
from unweave.metrics.infomec import info_mec, info_mec_estimates
from unweave.metrics.information import mig
from unweave.metrics.inputs import (
    FewRowsWarning,
    Ints,
    Seed,
    as_codes,
    as_factors,
    as_mask,
    real_factors,
)
from unweave.metrics.irs import irs
from unweave.metrics.mcc import mcc
from unweave.metrics.modularity import modularity
from unweave.metrics.options import Frame, told
from unweave.metrics.posterior.overlap import relative_scale
from unweave.metrics.probes import downstream, explicitness
from unweave.metrics.sap import sap
from unweave.metrics.score import Score, Scores
from unweave.metrics.table import Table
from unweave.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)
from unweave.metrics.validation import counted

Need = Callable[[Table], str | None]
Change = Literal["scale", "sign", "dead"]

_log = logging.getLogger(__name__)
_COLUMNS = ("scales", "kl", "discrete", "factor_names", "continuous")


def varied_factor(table: Table) -> str | None:
    """A factor that takes at least two values."""
    if table.classes.shape[1] == 0:
        return "the table has no factors"
    varied = (table.classes != table.classes[0]).any()
    return None if varied else "no factor of the table takes two values"


def class_factors(table: Table) -> str | None:
    """Factors that are classes, with values that repeat."""
    names = [name for name, number in zip(table.factor_names, table.numbers, strict=True) if number]
    return f"the factors {', '.join(names)} are continuous" if names else None


def two_factors(table: Table) -> str | None:
    """Two factors that take at least two values."""
    varied = (table.classes != table.classes[0]).any(0).sum() if table.classes.size else 0
    return None if varied > 1 else "fewer than two factors of the table take two values"


def repeated_value(table: Table) -> str | None:
    """A varied factor with a value that two rows share, so that it can be held fixed."""
    counts = [len(np.unique(column)) for column in table.classes.T]
    fixable = any(1 < count < len(table) for count in counts)
    return None if fixable else "no varied factor of the table has a value that two rows share"


def two_quantities(table: Table) -> str | None:
    """Two codes that are not categories, and not all of them 0."""
    columns = _quantities(table)
    enough = len(columns) > 1 and table.codes[:, columns].any()
    return None if enough else "fewer than two codes of the table are numbers that are not all 0"


def two_varied(table: Table) -> str | None:
    """Two codes that are not categories and vary."""
    z = table.codes[:, _quantities(table)]
    varied = int((z != z[:1]).any(0).sum()) > 1
    return None if varied else "fewer than two codes of the table are numbers that vary"


def two_codes(table: Table) -> str | None:
    """Two codes."""
    return None if table.codes.shape[1] > 1 else "the table has a single code"


def a_quantity(table: Table) -> str | None:
    """A code that is not a category."""
    return None if len(_quantities(table)) else "all codes of the table are categories"


def divergences(table: Table) -> str | None:
    """The mean KL(q(z_j|x) || p(z_j)) of each code."""
    return None if table.kl is not None else "the table has no kl"


def _quantities(table: Table) -> Ints:
    """The numbers of the codes that are not categories."""
    return np.flatnonzero(~as_mask("discrete", table.discrete, table.codes.shape[1]))


def posterior_scales(table: Table) -> str | None:
    """The standard deviations of q(z|x)."""
    return None if table.scales is not None else "the table has no posterior scales"


def normal_posteriors(table: Table) -> str | None:
    """Codes with q(z_j|x) = N(code, scale^2)."""
    discrete = as_mask("discrete", table.discrete, table.codes.shape[1])
    normal = ~discrete if table.normal is None else table.normal
    others = np.flatnonzero(~normal | discrete)
    if not len(others):
        return None
    return f"q(z|x) is not normal in {', '.join(f'code {j}' for j in others)}"


@dataclass(frozen=True)
class Metric:
    """A metric under one protocol, and what of a table it cannot do without.

    What of a table the function has parameters for is passed to it: a measure without labels has
    none for factors. Neither has it an interval or a null, and none is given where one is asked.
    `perfect` is the least that a code for each factor scores, and `minds` says which changes of the
    codes change the value under the same rng: "scale" (of one code, or of all), "sign", "dead"
    (constant codes).
    What is `slow`, seconds to minutes for 10,000 rows or the number of another protocol over again,
    is run only where it is asked for.
    `estimate`, where there is one, is what the protocols of a metric have in common: `evaluate`
    calls it once and hands the result to all of them, as `estimates`.
    """

    name: str
    protocol: str
    compute: Callable[..., Score]
    needs: tuple[Need, ...] = (varied_factor,)
    perfect: float = 0.99
    minds: tuple[Change, ...] = ()
    slow: bool = False
    estimate: Callable[..., object] | None = None

    @property
    def key(self) -> str:
        """Name and protocol: the same name means two numbers under two protocols."""
        return f"{self.name}/{self.protocol}"

    def lacks(self, table: Table) -> str | None:
        """Why the table does not do for this metric; None if it does."""
        return next((reason for need in self.needs if (reason := need(table))), None)

    def __call__(
        self, table: Table, *, rng: Seed = 0, estimates: object = None, **frame: Unpack[Frame]
    ) -> Score:
        """The score of a table."""
        own = inspect.signature(self.compute).parameters
        given = {"protocol": self.protocol, "rng": rng, "estimates": estimates, **frame}
        given |= {"codes": table.codes, "factors": table.classes}
        passed = {name: value for name, value in given.items() if name in own}
        return self.compute(**_columns(self.compute, table) | passed)

    def estimated(self, table: Table, rng: Seed) -> object:
        """What `estimate` gives of a table."""
        assert self.estimate is not None
        columns = _columns(self.estimate, table)
        return self.estimate(table.codes, table.classes, rng=rng, **columns)


def _columns(function: Callable[..., object], table: Table) -> dict[str, Any]:
    """The optional columns of a table that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    return {name: getattr(table, name) for name in _COLUMNS if name in parameters}


_FIXED = (varied_factor, class_factors, repeated_value)  # what fixing a factor takes
_CLASSES = (varied_factor, class_factors)  # what classifying a factor takes
_MIXED = (varied_factor, two_factors)  # what mixing factors takes

METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        # Codes of a standard deviation under 0.05 are pruned.
        Metric("factor_vae_score", "kim2018", factor_vae_score, _FIXED, minds=("scale",)),
        Metric("factor_vae_score", "locatello2019", factor_vae_score, _FIXED, minds=("scale",)),
        Metric("mig", "locatello2019", mig),
        Metric(
            "mig",
            "chen2018",
            mig,
            (varied_factor, class_factors, posterior_scales, normal_posteriors),
        ),
        Metric("mig_sup", "li2020", mig_sup, minds=("scale",)),
        Metric("jemmig", "do2020", jemmig, minds=("scale",)),
        Metric("dcimig", "sepliarskaia2019", dcimig),
        Metric("modularity", "locatello2019", modularity, _MIXED, minds=("dead",)),
        Metric("modularity", "ridgeway2018", modularity, _MIXED, minds=("scale",)),
        # Equal numbers are parted at random, so that independent ones seem to share a little. Codes
        # are pruned that are narrow beside the widest.
        *(
            Metric(
                "info_mec",
                protocol,
                info_mec,
                _MIXED,
                perfect=0.9,
                minds=("scale",),
                slow=True,
                estimate=info_mec_estimates,
            )
            for protocol in ("hsu2023", "hsu2024")
        ),
        Metric("mcc", "hyvarinen2016", mcc),
        # A fit that is penalised, or not run to its end, depends on the scale of what it reads.
        Metric("beta_vae_score", "kim2018", beta_vae_score, _FIXED, minds=("scale",)),
        Metric("beta_vae_score", "locatello2019", beta_vae_score, _FIXED, minds=("scale",)),
        # The number of kim2018 over again.
        Metric(
            "beta_vae_score", "higgins2017", beta_vae_score, _FIXED, minds=("scale",), slow=True
        ),
        Metric("factor_vae_score", "mathieu2019", factor_vae_score, _FIXED),
        Metric("irs", "suter2019", irs, _CLASSES, minds=("scale",)),
        Metric("irs", "locatello2019", irs, _CLASSES, minds=("scale",)),
        Metric("dci", "locatello2019", dci, _CLASSES, slow=True),
        Metric("dci", "esmaeili2019", dci, slow=True),
        Metric("dci", "eastwood2018", dci),
        Metric("dci_es", "eastwood2023", dci_es, slow=True),
        Metric("sap", "locatello2019", sap, _CLASSES, perfect=0.2, minds=("scale", "dead")),
        Metric("sap", "kumar2018", sap),
        Metric("explicitness", "locatello2019", explicitness, _CLASSES, slow=True),
        # A line tells only the ends of a range from the rest.
        Metric("explicitness", "ridgeway2018", explicitness, _CLASSES, perfect=0.7, slow=True),
        # Ten labels do not tell all values.
        Metric(
            "downstream",
            "locatello2019",
            downstream,
            _CLASSES,
            perfect=0.75,
            minds=("scale",),
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


def describe(table: Table) -> Scores:
    """Every measure without labels that a table does for, by name and protocol.

    What needs q(z|x) as a whole, such as the exact mutual information, is told by `describe` of
    a model, `unweave.describe`; of codes and scales each has its own function here.

    >>> table = Table([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0]], np.zeros((3, 0), int))
    >>> len(describe(table)), describe(table)["active_units/burda2016"].value
    (7, 2.0)
    """
    return Scores({key: m(table) for key, m in UNSUPERVISED.items() if m.lacks(table) is None})


@counted
def evaluate(
    codes: ArrayLike | Table,
    factors: ArrayLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    rng: Seed = 0,
    progress: Callable[[str, Score | None], object] | None = None,
    **frame: Unpack[Frame],
) -> Scores:
    """Scores of codes by metric and protocol, such as `mig/chen2018`.

    Codes (N, D) and factors (N, K) are all that most metrics read; a `Table` holds them with the
    posterior scales, names and whatever else is known.

    Without `metrics` all that are quick and that the table does for are run, and with "all" the
    slow ones too; the rest is logged, and `left_out` says which and why. Of a table that does for
    none, for want of factors, the measures without labels are taken. Metrics that are named
    must be possible; a name without protocol means all of its protocols that are, and "measures"
    all measures without labels, which `describe` gives too. `progress` is called with each key when
    it begins, and with the key and its score when it is done. The other keywords, as
    `interval=0.95`, are those of every metric; measures have no interval and no null. What was
    decided about factors of real numbers is logged (`Table.notes`), and a table of too few rows
    (`Table.few`) is warned of, once.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> evaluate(factors / [2.0, 3.0], factors, metrics="mig", null=True, interval=0.9)
    metric             value   interval          null
    mig/locatello2019  1.0000  0.9364 to 1.0000  0.0318
    """
    _known(frame)
    table = _as_table(codes, factors, frame.pop("continuous", None))
    for note in table.notes:
        _log.info(note)
    if table.few:
        warnings.warn(table.few, FewRowsWarning, stacklevel=3)  # past `counted`
    tell = progress or (lambda key, score: None)
    scores = Scores()
    shared: dict[Callable[..., object], object] = {}
    for key, metric in select(table, metrics).items():
        tell(key, None)
        estimates = None
        # A generator moves on from call to call, to other rows; periods change the factors.
        if metric.estimate and isinstance(rng, int) and not frame.get("periods"):
            estimates = shared.get(metric.estimate) or metric.estimated(table, rng)
            shared[metric.estimate] = estimates
        with told():
            scores[key] = metric(table, rng=rng, estimates=estimates, **frame)
        tell(key, scores[key])
    return scores


def _known(frame: Mapping[str, object]) -> None:
    """An error if there are keywords that not every metric has."""
    others = [name for name in frame if name not in Frame.__annotations__]
    if others:
        raise TypeError(
            f"expected keywords of every metric, {', '.join(Frame.__annotations__)}, got "
            f"{others[0]}: what is known of the codes and factors goes into a Table, protocols "
            "into `metrics`, and settings of one metric to its own function"
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
    # A table numbers its classes from 0; metrics do not mind which numbers they are.
    v = as_factors(factors, rows=len(as_codes(codes)), least=0)
    whole = ~real_factors(v)
    v[:, whole] -= v[:, whole].min(0, initial=0)
    return Table(codes, v, continuous=continuous)  # type: ignore[arg-type]


def left_out(table: Table) -> dict[str, str]:
    """The metrics that a table does not do for, each with the reason."""
    reasons = {key: metric.lacks(table) for key, metric in METRICS.items()}
    return {key: reason for key, reason in reasons.items() if reason is not None}


def listed(metrics: str) -> list[str]:
    """The names of a text such as "mig, dci"."""
    return [name.strip() for name in metrics.split(",") if name.strip()]


def named(asked: str) -> dict[str, Metric]:
    """The metrics or measures of a name or key; "all": all metrics, "measures": all measures."""
    groups = {"all": METRICS, "measures": UNSUPERVISED}
    every = METRICS | UNSUPERVISED
    found = groups.get(asked) or {k: m for k, m in every.items() if asked in (k, m.name)}
    if not found:
        short = [*groups, *dict.fromkeys(metric.name for metric in every.values())]
        hint = nearest(asked, every if "/" in asked else short)
        raise ValueError(f"metric {asked!r} is not known: {hint}")
    return found


def select(table: Table, metrics: str | Sequence[str] | None = None) -> dict[str, Metric]:
    """What `evaluate` runs; an error if one that is named is not to be had."""
    if metrics is None:
        quick = {key: metric for key, metric in METRICS.items() if not metric.slow}
        return _possible(table, quick) or _possible(table, UNSUPERVISED)
    chosen: dict[str, Metric] = {}
    for asked in listed(metrics) or [metrics] if isinstance(metrics, str) else metrics:
        found = named(asked)
        reasons = {key: reason for key, m in found.items() if (reason := m.lacks(table))}
        if len(reasons) == len(found) and asked not in ("all", "measures"):
            why = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
            raise ValueError(f"expected a table that does for {asked}, but {why}")
        chosen |= found
    return _possible(table, chosen)


def _possible(table: Table, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Those that a table does for; the others are logged."""
    reasons = {key: metric.lacks(table) for key, metric in metrics.items()}
    for key, reason in reasons.items():
        if reason is not None:
            _log.info("%s is left out: %s", key, reason)
    return {key: metric for key, metric in metrics.items() if reasons[key] is None}


def metric_citations(names: Iterable[str]) -> dict[str, str]:
    """Return the BibTeX entries that the documentation of metrics cites.

    >>> list(metric_citations(["mig/chen2018"]))
    ['Chen2018', 'Locatello2019']
    """
    documents = [(METRICS | UNSUPERVISED)[name].compute.__doc__ or "" for name in names]
    return known(key for document in documents for key in cited(document))
