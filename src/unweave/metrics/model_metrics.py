"""The metrics that need trained models, by name; `unweave.evaluate` computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unweave.metrics.registry import MetricChoice

LIKELIHOOD, UDR = "log_likelihood/burda2016", "udr/duan2020-lasso"
# Parts of the rate under the aggregate posterior of all observations.
RATE_PARTS = tuple(
    f"{n}/exact" for n in ("mutual_information", "total_correlation", "dimension_kl")
)
MODEL_METRICS = {key.partition("/")[0]: key for key in (LIKELIHOOD, UDR, *RATE_PARTS)}


def split_names(metrics: str) -> list[str]:
    """Split a text such as "mig, dci" into names."""
    return [name.strip() for name in metrics.split(",") if name.strip()]


def split_model_metrics(
    metrics: MetricChoice | Sequence[MetricChoice] | None,
) -> tuple[list[MetricChoice] | None, list[str]]:
    """Split metrics into those of a table and the keys of those of trained models.

    >>> split_model_metrics("mig, udr"), split_model_metrics(None)
    ((['mig'], ['udr/duan2020-lasso']), (None, []))
    """
    if metrics is None:
        return None, []
    if isinstance(metrics, str):
        metrics = split_names(metrics) or [metrics]
    every = [metrics] if callable(metrics) else list(metrics)
    keys = MODEL_METRICS | {key: key for key in MODEL_METRICS.values()}
    of_models = [keys[m] for m in every if isinstance(m, str) and m in keys]
    return [m for m in every if not (isinstance(m, str) and m in keys)], of_models
