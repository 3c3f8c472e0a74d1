"""All metrics, each under each of its protocols, and how a table is put through them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unweave.metrics.information import mig
from unweave.metrics.inputs import Seed, as_mask
from unweave.metrics.interventional import factor_vae_score
from unweave.metrics.pairs import beta_vae_score
from unweave.metrics.predictive import dci
from unweave.metrics.probes import downstream, explicitness
from unweave.metrics.robustness import irs
from unweave.metrics.score import Score
from unweave.metrics.separated import sap
from unweave.metrics.table import Table

Need = Callable[[Table], str | None]

_log = logging.getLogger(__name__)
_COLUMNS = ("scales", "kl", "discrete", "factor_names")


def varied_factor(table: Table) -> str | None:
    """A factor that takes at least two values."""
    if table.factors.shape[1] == 0:
        return "the table has no factors"
    varied = (table.factors != table.factors[0]).any()
    return None if varied else "no factor of the table takes two values"


def repeated_value(table: Table) -> str | None:
    """A varied factor with a value that two rows share, so that it can be held fixed."""
    counts = [len(np.unique(column)) for column in table.factors.T]
    fixable = any(1 < count < len(table) for count in counts)
    return None if fixable else "no varied factor of the table has a value that two rows share"


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

    The optional columns of a table that the function has parameters for are passed to it.
    """

    name: str
    protocol: str
    compute: Callable[..., Score]
    needs: tuple[Need, ...] = (varied_factor,)

    @property
    def key(self) -> str:
        """Name and protocol: the same name means two numbers under two protocols."""
        return f"{self.name}/{self.protocol}"

    def lacks(self, table: Table) -> str | None:
        """Why the table does not do for this metric; None if it does."""
        return next((reason for need in self.needs if (reason := need(table))), None)

    def __call__(self, table: Table, *, rng: Seed = 0) -> Score:
        """The score of a table."""
        parameters = inspect.signature(self.compute).parameters
        columns = {name: getattr(table, name) for name in _COLUMNS if name in parameters}
        return self.compute(table.codes, table.factors, protocol=self.protocol, rng=rng, **columns)


METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric("beta_vae_score", "kim2018", beta_vae_score, (varied_factor, repeated_value)),
        Metric("beta_vae_score", "locatello2019", beta_vae_score, (varied_factor, repeated_value)),
        Metric("dci", "locatello2019", dci),
        Metric("dci", "esmaeili2019", dci),
        Metric("dci", "eastwood2018", dci),
        Metric("downstream", "locatello2019", downstream),
        Metric("explicitness", "locatello2019", explicitness),
        Metric("factor_vae_score", "kim2018", factor_vae_score, (varied_factor, repeated_value)),
        Metric(
            "factor_vae_score", "locatello2019", factor_vae_score, (varied_factor, repeated_value)
        ),
        Metric(
            "factor_vae_score", "mathieu2019", factor_vae_score, (varied_factor, repeated_value)
        ),
        Metric("irs", "suter2019", irs, (varied_factor, repeated_value)),
        Metric("irs", "locatello2019", irs, (varied_factor, repeated_value)),
        Metric("mig", "locatello2019", mig),
        Metric("mig", "chen2018", mig, (varied_factor, posterior_scales, normal_posteriors)),
        Metric("sap", "locatello2019", sap),
        Metric("sap", "kumar2018", sap),
    )
}


def evaluate(
    table: Table, metrics: str | Sequence[str] | None = None, *, rng: Seed = 0
) -> dict[str, Score]:
    """Scores of a table by metric and protocol, such as `mig/chen2018`.

    Without `metrics` all that the table does for are run, and the rest is logged; `left_out` says
    which and why. With `metrics` each must be possible; a name without protocol means all of its
    protocols that are.
    """
    scores = {}
    for key, metric in _select(table, metrics).items():
        reason = metric.lacks(table)
        if reason is None:
            scores[key] = metric(table, rng=rng)
        else:
            _log.info("%s is left out: %s", key, reason)
    return scores


def left_out(table: Table) -> dict[str, str]:
    """The metrics that a table does not do for, each with the reason."""
    reasons = {key: metric.lacks(table) for key, metric in METRICS.items()}
    return {key: reason for key, reason in reasons.items() if reason is not None}


def _select(table: Table, metrics: str | Sequence[str] | None) -> dict[str, Metric]:
    """The metrics asked for by key or by name; an error if one of them is not to be had."""
    if metrics is None:
        return METRICS
    chosen: dict[str, Metric] = {}
    for asked in [metrics] if isinstance(metrics, str) else metrics:
        found = {key: m for key, m in METRICS.items() if asked in (key, m.name)}
        if not found:
            raise ValueError(f"expected metrics among {', '.join(METRICS)}, got {asked!r}")
        reasons = {key: reason for key, m in found.items() if (reason := m.lacks(table))}
        if len(reasons) == len(found):
            why = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
            raise ValueError(f"expected a table that does for {asked}, but {why}")
        chosen |= found
    return chosen
