"""`check_metric` catches each kind of mistake of a metric."""

import itertools

import numpy as np
import pytest

import unweave as uw
from unweave.testing import (
    check_metric,
)


@pytest.mark.parametrize("codes", [1, 2, 3, 6])
def test_a_metric_is_tested_with_as_many_codes_as_asked(codes):
    seen = set()

    def metric(codes, factors):
        seen.add(np.shape(codes)[1])
        return uw.metrics.mig(codes, factors)

    check_metric(metric, codes=codes)
    assert seen == {codes}


def test_a_metric_cannot_be_tested_without_codes():
    with pytest.raises(ValueError, match="codes: expected at least 1, got 0"):
        check_metric(uw.metrics.mig, codes=0)


COUNTER = itertools.count()


def first_code(codes, factors):
    """It looks at the first latent variable only."""
    if len(codes) != len(factors) or np.isnan(codes).any():
        raise ValueError("rows must match")
    return float(np.corrcoef(codes[:, 0], factors[:, 0])[0, 1])


def careless(codes, factors):
    """It takes whatever it is given."""
    rows = min(len(codes), len(factors))
    strength = np.abs(np.corrcoef(codes[:rows].T, factors[:rows].T)[: codes.shape[1], -1])
    return float(np.nan_to_num(strength).max())


def strengths(codes, factors):
    """Return absolute correlations (D, K); rows must match, and 0 stands for a dead code."""
    if len(codes) != len(factors) or np.isnan(codes).any():
        raise ValueError("rows must match")
    alive = np.where(codes.std(0) > 0, codes.std(0), 1)
    standard = (codes - codes.mean(0)) / alive, (factors - factors.mean(0)) / factors.std(0)
    return np.abs(standard[0].T @ standard[1]) / len(codes)


def last_factor(codes, factors):
    """It reads all codes, and one factor."""
    return strengths(codes, factors)[:, -1].max()


def widest_code(codes, factors):
    """It reads all factors, and one code."""
    return strengths(codes, factors)[codes.var(0).argmax()].mean()


def undefined_for_dead_codes(codes, factors):
    """It divides by the standard deviation of a code."""
    strengths(codes, factors)
    with np.errstate(all="ignore"):
        return np.abs(np.corrcoef(codes.T, factors.T)[: codes.shape[1], codes.shape[1] :]).mean()


def refusing_dead_codes(codes, factors):
    """It raises if one of several codes is dead."""
    if not codes.std(0).all():
        raise ValueError("dead")
    return strengths(codes, factors).max(0).mean()


def undefined_for_a_collapsed_model(codes, factors):
    """It divides by what all codes together say."""
    table = strengths(codes, factors)
    with np.errstate(all="ignore"):
        return (table.max(0) * (table.max(0) / table.sum(0))).mean()


def ranked(codes, factors):
    """It ranks codes, equal ones by their place in the table."""
    strengths(codes, factors)
    ranks = codes.argsort(0, kind="stable").argsort(0)
    return strengths(ranks, factors).max(0).mean()


def trained_on_the_first_half(codes, factors):
    """It predicts the second half of the rows from the first."""
    strengths(codes, factors)
    half = len(codes) // 2
    scores = []
    for factor in factors.T:
        means = [codes[:half][factor[:half] == value] for value in range(4)]
        centres = np.array([m.mean(0) if len(m) else np.full(codes.shape[1], 99) for m in means])
        nearest = ((codes[half:, None] - centres) ** 2).sum(-1).argmin(1)
        scores.append((nearest == factor[half:]).mean())
    return np.mean(scores)


@pytest.mark.parametrize(
    ("metric", "law"),
    [
        (first_code, "order of latent variables"),
        (careless, "expected a ValueError for rows that do not match"),
        (lambda codes, factors: float("nan"), "finite score"),
        (lambda codes, factors: float(next(COUNTER)), "the same score"),
        (lambda codes, factors: 0.5, "noise scores 0.5"),
        (last_factor, "does not change with factor 0"),
        (widest_code, "does not change with code 0|does not change with code 1"),
        (undefined_for_dead_codes, "a constant code: expected a finite score, got nan"),
        (refusing_dead_codes, "a constant code: expected a score, got ValueError: dead"),
        (undefined_for_a_collapsed_model, "all codes constant: .* got nan"),
        (ranked, "sorted by their factors"),
        (trained_on_the_first_half, "sorted by their factors"),
    ],
    ids=[
        "order",
        "rows",
        "nan",
        "random",
        "constant",
        "one factor",
        "one code",
        "dead code",
        "refused dead code",
        "all codes dead",
        "ties",
        "split by place",
    ],
)
def test_mistakes_of_a_metric_are_caught(metric, law):
    with pytest.raises(AssertionError, match=law):
        check_metric(metric)
