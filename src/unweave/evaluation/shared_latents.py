"""Match latent variables across models that encoded the same rows: which models found which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.metrics.predictors import standardise

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
