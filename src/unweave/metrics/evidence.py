"""Whether a score is evidence of anything."""

import math

from unweave.metrics.score import NULL_STD, Score
from unweave.metrics.table import Table

AT_NULL = "shuffled factors"  # in the reason if a score is not far enough above its null
# A score is evidence if it exceeds its null by both of these.
LEAST_MARGIN = 0.05
LEAST_DEVIATIONS = 3.0  # standard deviations of the scores of shuffled factors


def unjudged(score: Score, table: Table) -> str:
    """Return why a score of a table is no evidence, or "".

    A score is no evidence if it is not finite, if fewer than two factors could be scored or fewer
    than two codes vary, if there are too few rows, or if shuffled factors score about the same.

    >>> unjudged(Score("mig", "chen2018", 1.0), Table([[0.1], [0.2]] * 20, [[0], [1]] * 20))
    'only one factor can be scored, and disentanglement is about two or more'
    """
    if not math.isfinite(score.value):
        return "its value is not finite"
    table = table.labelled  # the rows and factors that are scored
    left_out = score.details.get("factors left out", [])
    scored = [
        name
        for name, count in zip(table.factor_names, table.value_counts, strict=True)
        if count > 1 and not (isinstance(left_out, list) and name in left_out)
    ]
    if len(scored) < 2:
        return "only one factor can be scored, and disentanglement is about two or more"
    if (varying := (table.codes != table.codes[:1]).any(0).sum()) < 2:
        which = "only one" if varying else "no"
        return f"{which} code varies, and disentanglement is about two or more"
    if few := table.too_few_rows:
        return few.split(":")[0]
    deviation = score.details.get(NULL_STD, 0.0)
    return "" if score.null is None else _near(score.value, score.null, deviation)


def _near(value: float, null: float, deviation: object) -> str:
    """Return which margin above its null a score misses, or "".

    >>> _near(0.041, 0.008, 0.002)
    'less than 0.05 above shuffled factors, too little to mean anything'
    """
    above = value - null
    if above <= 0:
        return f"not above {AT_NULL}"
    if above < LEAST_MARGIN:
        return f"less than {LEAST_MARGIN:g} above {AT_NULL}, too little to mean anything"
    chance = LEAST_DEVIATIONS * deviation if isinstance(deviation, float) else 0.0
    if above < chance:
        return (
            f"less than {LEAST_DEVIATIONS:g} standard deviations above {AT_NULL}, which may be "
            "chance"
        )
    return ""
