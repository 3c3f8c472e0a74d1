"""The steps at which a run has rows in its log, and the failures that are found there."""

from unweave.training.records import Row

GRADIENT = "gradient"  # the "term" of a failure that only the state shows


def log_interval(steps: int) -> int:
    """Return the steps between two log rows: about 200 rows per run, at most 200 steps apart.

    >>> log_interval(100), log_interval(300_000)
    (1, 200)
    """
    return max(1, min(200, steps // 200))


def fails_alike(failure: Row, steps: int, longer: int) -> bool:
    """Return whether a run would fail in the same way if it had more steps.

    A longer run has log rows further apart, and a state that is not finite is found at the next
    row, unless a term breaks before. So the failure is known if the longer run has no other row
    between the last good row and the failure.
    """
    step: int = failure["step"]
    interval, wider = log_interval(steps), log_interval(longer)
    detected = min(steps, (step // interval + 1) * interval)
    good = (detected - 1) // interval * interval
    next_row = (good // wider + 1) * wider
    return next_row == detected if failure["term"] == GRADIENT else next_row > step
