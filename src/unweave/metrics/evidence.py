"""Whether a score is evidence of anything."""

from __future__ import annotations

from unweave.metrics.score import NULL_SPREAD, Score
from unweave.metrics.table import Table

AT_NULL = "shuffled factors score"  # how the reason begins if a score is not above its null
# A score is evidence if it exceeds its null by both of these.
LEAST_MARGIN = 0.05
LEAST_DEVIATIONS = 3.0  # standard deviations of the scores of shuffled factors


def unjudged(score: Score, table: Table) -> str:
    """Return why a score of a table is no evidence, or "".

    It is none if fewer than two factors could be scored, if there are too few rows, or if shuffled
    factors score about the same.

    >>> unjudged(Score("mig", "chen2018", 1.0), Table([[0.1], [0.2]] * 20, [[0], [1]] * 20))
    'only one factor can be scored, so there is nothing to confuse it with'
    """
    table = table.labelled  # the rows and factors that are scored
    left_out = score.details.get("factors left out", [])
    scored = [
        name
        for name, count in zip(table.factor_names, table.value_counts, strict=True)
        if count > 1 and not (isinstance(left_out, list) and name in left_out)
    ]
    if len(scored) < 2:
        return "only one factor can be scored, so there is nothing to confuse it with"
    if few := table.too_few_rows:
        return few.split(":")[0]
    spread = score.details.get(NULL_SPREAD, 0.0)
    margin = max(LEAST_MARGIN, LEAST_DEVIATIONS * spread) if isinstance(spread, float) else 0.0
    if score.null is not None and score.value < score.null + margin:
        error = f" ± {spread:.3f}" if spread else ""
        return f"{AT_NULL} {score.null:.3f}{error}, so this may be chance"
    return ""
