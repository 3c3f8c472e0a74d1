"""What a table says without its factors: every measure that needs no labels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.metrics.inputs import Ints, as_mask
from unweave.metrics.overlap import relative_scale
from unweave.metrics.score import Score
from unweave.metrics.table import Table
from unweave.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)

_COLUMNS = ("codes", "scales", "kl", "discrete")


@dataclass(frozen=True)
class Measure:
    """A measure of a table under one protocol, and whether the table does for it."""

    compute: Callable[..., Score]
    suits: Callable[[Table], bool]

    def __call__(self, table: Table) -> Score:
        """The score of a table."""
        parameters = inspect.signature(self.compute).parameters
        return self.compute(
            **{name: getattr(table, name) for name in _COLUMNS if name in parameters}
        )


def _quantities(table: Table) -> Ints:
    """The numbers of the codes that are not categories."""
    return np.flatnonzero(~as_mask("discrete", table.discrete, table.codes.shape[1]))


def _two_quantities(table: Table) -> bool:
    columns = _quantities(table)
    return len(columns) > 1 and bool(table.codes[:, columns].any())


def _two_varied(table: Table) -> bool:
    z = table.codes[:, _quantities(table)]
    return int((z != z[:1]).any(0).sum()) > 1


def _two_codes(table: Table) -> bool:
    return int(table.codes.shape[1]) > 1


def _scales(table: Table) -> bool:
    return table.scales is not None and len(_quantities(table)) > 0


MEASURES: dict[str, Measure] = {
    "hoyer/mathieu2019": Measure(hoyer, _two_quantities),
    "hoyer/mathieu2019-normalised": Measure(
        functools.partial(hoyer, protocol="mathieu2019-normalised"), _two_varied
    ),
    "active_units/burda2016": Measure(active_units, lambda table: True),
    "active_units/kl": Measure(
        functools.partial(active_units, protocol="kl"), lambda table: table.kl is not None
    ),
    "gaussian_total_correlation/locatello2019": Measure(
        gaussian_total_correlation, lambda table: True
    ),
    "gaussian_wasserstein_correlation/locatello2019": Measure(
        gaussian_wasserstein_correlation, lambda table: True
    ),
    "gaussian_wasserstein_correlation/locatello2019-normalised": Measure(
        functools.partial(gaussian_wasserstein_correlation, protocol="locatello2019-normalised"),
        lambda table: True,
    ),
    "mean_pairwise_information/locatello2019": Measure(mean_pairwise_information, _two_codes),
    "relative_scale/mathieu2019": Measure(relative_scale, _scales),
}


def describe(table: Table) -> dict[str, Score]:
    """Every measure without labels that a table does for, by name and protocol.

    What needs q(z|x) as a whole, such as the exact mutual information, is told by `describe` of
    a model, `unweave.describe`; of codes and scales each has its own function here.

    >>> table = Table([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0]], np.zeros((3, 0), int))
    >>> len(describe(table)), describe(table)["active_units/burda2016"].value
    (7, 2.0)
    """
    return {key: measure(table) for key, measure in MEASURES.items() if measure.suits(table)}
