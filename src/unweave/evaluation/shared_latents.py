"""Match latent variables across models that encoded the same rows: which models found which."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.metrics import Table
from unweave.metrics.predictors import standardise

LEAST_INFORMATION = 0.02  # nats of I(x; z_j) below which a variable counts as unused
NO_INFORMATION = (  # why scores of a model without a variable that is used are no evidence
    "no variable carries information about the data, and mean codes that follow a factor do so far "
    "below the noise of their posteriors"
)
SAME = 0.7  # |correlation| from which two latents count as the same: half of the variance is shared


class Match(NamedTuple):
    """The latent of another model that matches best, and its correlation, with sign."""

    latent: str
    correlation: float

    @property
    def same(self) -> bool:
        """Whether both are the same latent."""
        return abs(self.correlation) >= SAME


class SharedLatent(NamedTuple):
    """A latent variable of one model, and its best match in each other model."""

    model: int
    latent: str
    matches: dict[int, Match]

    @property
    def found_by(self) -> list[int]:
        """The models that found it, in order."""
        return sorted([self.model, *(m for m, match in self.matches.items() if match.same)])


def shared_latents(
    codes: Sequence[NDArray[np.floating[Any]]], names: Sequence[Sequence[str]]
) -> list[SharedLatent]:
    """List every latent of every model once, with the models that found it, most shared first.

    The latents of the first model are matched one to one with those of each other model, so that
    the sum of |correlation| is largest (the Hungarian algorithm); matches with |correlation| of at
    least 0.7 count as the same latent. The latents of the second model that are still unmatched are
    then matched with those of the third and later models, and so on.

    Args:
        codes: (N, D_m) of the active latents of each model, with the same observation in row n.
        names: D_m names for each model.

    >>> z = np.random.default_rng(0).standard_normal((500, 3))
    >>> first, second = shared_latents([z[:, :2], -z[:, [2, 0]]], ["ab", "cd"])[:2]
    >>> first.latent, first.found_by, first.matches[1].latent, second.latent, second.found_by
    ('a', [0, 1], 'd', 'b', [0])
    """
    from scipy.optimize import linear_sum_assignment

    scaled = [standardise(np.asarray(z, np.float64))[0] for z in codes]
    free = [list(range(z.shape[1])) for z in scaled]
    found: list[SharedLatent] = []
    for model, z in enumerate(scaled):
        own = [SharedLatent(model, names[model][j], {}) for j in free[model]]
        for other in range(model + 1, len(scaled)):
            correlations = z[:, free[model]].T @ scaled[other][:, free[other]] / len(z)
            pairs = list(zip(*linear_sum_assignment(-np.abs(correlations)), strict=True))
            taken = []
            for a, b in pairs:
                j = free[other][b]
                match = Match(names[other][j], float(np.clip(correlations[a, b], -1, 1)))
                own[a].matches[other] = match
                taken += [j] if match.same else []
            free[other] = [j for j in free[other] if j not in taken]
        found += own
    return sorted(found, key=lambda each: -len(each.found_by))


def most_information(table: Table) -> NDArray[np.float64]:
    """Return an upper bound of I(x; z_j) of each code of a table in nats, (D,).

    It is the KL or, for a normal posterior N(m, s^2), what it would be if q(z_j) were normal:
    1/2 log(Var(m) + E[s^2]) - E[log s], if this is smaller. A large KL alone is no information: all
    posteriors may be equal and differ from the prior.

    >>> z = np.random.default_rng(0).standard_normal((500, 2)) * [1.0, 0.01]
    >>> table = Table(z + 5, np.zeros((500, 0)), scales=np.full((500, 2), 0.5), kl=np.full(2, 9.0))
    >>> most_information(table).round(2)
    array([0.79, 0.  ])
    """
    codes = table.codes.astype(np.float64)
    bound = np.full(codes.shape[1], np.inf) if table.kl is None else table.kl.astype(np.float64)
    if table.scales is None:
        return bound
    scales = table.scales.astype(np.float64)
    normal = 0.5 * np.log(codes.var(0) + np.square(scales).mean(0)) - np.log(scales).mean(0)
    off = np.zeros(codes.shape[1], bool) if table.discrete is None else table.discrete
    known = ~off if table.normal is None else table.normal & ~off
    return np.where(known, np.minimum(bound, normal), bound)


def is_informed(table: Table) -> bool:
    """Return whether a code of a table carries information about the data, as far as is known.

    >>> table = Table([[0.1], [0.2]], [[0], [1]], kl=[0.001])
    >>> is_informed(table), is_informed(Table([[0.1], [0.2]], [[0], [1]]))
    (False, True)
    """
    return bool((most_information(table) >= LEAST_INFORMATION).any())
