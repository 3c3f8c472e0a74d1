"""Tables of codes over a lattice of factors: one code a factor, rotated, blurred."""

import math
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, update_wrapper

import numpy as np
import pytest

from unweave.metrics import METRICS, Table
from unweave.metrics.trees.boosting import boost

SIZES = (4, 5, 6)


def lattice(sizes=SIZES, repeats=1):
    """All combinations of factor values, each `repeats` times: (N, K)."""
    return np.tile(np.argwhere(np.ones(sizes)), (repeats, 1))


def standardised(values):
    return (values - values.mean(0)) / values.std(0)


def table(codes, factors=None, **columns):
    """A table over the lattice whose posteriors are narrow enough to tell the values apart."""
    factors = lattice(repeats=4) if factors is None else factors
    columns = {"scales": np.full(np.shape(codes), 0.05)} | columns
    return Table(
        codes, factors, factor_names=("shape", "scale", "x")[: factors.shape[1]], **columns
    )


def identity():
    """One code for each factor."""
    return table(standardised(lattice(repeats=4)))


def rotated():
    """The identity with its first two codes turned by 45 degrees."""
    turn = np.eye(3)
    turn[:2, :2] = np.array([[1, -1], [1, 1]]) / math.sqrt(2)
    return replace(identity(), codes=identity().codes @ turn)


def blurred():
    """The rotation with noise, which leaves no exact ties: a score in between."""
    rng = np.random.default_rng(7)
    codes = rotated().codes
    return replace(rotated(), codes=codes + 0.3 * rng.standard_normal(codes.shape))


def duplicated():
    """Two codes for the first factor, one of them turned round and noisy."""
    base = identity()
    rng = np.random.default_rng(8)
    second = -2 * base.codes[:, 0] + 0.2 * rng.standard_normal(len(base))
    return with_columns(base, second, np.full(len(base), 0.05))


def missing():
    """No code for the last factor, and noise in its place."""
    base = identity()
    codes = base.codes.copy()
    codes[:, 2] = np.random.default_rng(9).standard_normal(len(base))
    return replace(base, codes=codes)


def noise():
    """Codes that know nothing."""
    rng = np.random.default_rng(10)
    return table(rng.standard_normal((480, 4)))


TABLES = (identity, rotated, blurred, duplicated, missing, noise)


def with_columns(base, codes, scales):
    return replace(
        base,
        codes=np.column_stack([base.codes, codes]),
        scales=np.column_stack([base.scales, scales]),
    )


def kinds():
    """Codes (480, D) of the lattice by what is right or wrong with them."""
    base = identity()
    return {
        "identity": base.codes,
        "rotated": rotated().codes,
        "entangled": blurred().codes,
        "duplicated": np.repeat(base.codes, 2, axis=1),
        "missing": base.codes[:, :2],
        "noise": np.random.default_rng(0).standard_normal((480, 4)),
    }


# Options that make slow metrics quick without changing what a law says of them.
FEWER = {
    "beta_vae_score/kim2018": {"pairs": 50, "steps": 2000},
    "factor_vae_score/mathieu2019": {"batch": 100, "votes": 2000},
    "downstream/locatello2019": {"labels": (100,)},
    "dci_es/eastwood2023": {"depths": (1, 2, 4, 8, 32)},
}


# The same for tables of a few dozen rows.
FEWEST = {
    "beta_vae_score/kim2018": {"pairs": 20, "steps": 300},
    "factor_vae_score/locatello2019": {"votes": 500},
    "info_mec/hsu2023": {"neighbours": 3},
    "downstream/locatello2019": {"labels": (20,)},
    "dci_es/eastwood2023": {"depths": (1, 4)},
}


@contextmanager
def few_fits(rounds):
    """Boost for few rounds, and choose among four penalties of logistic regression."""
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules["unweave.metrics.downstream"]
        patch.setattr(module, "_PENALTIES", module._PENALTIES[::3])
        for name in ("dci", "downstream"):
            patch.setattr(
                sys.modules[f"unweave.metrics.{name}"], "boost", partial(boost, rounds=rounds)
            )
        yield


def quick(metric, small=False):
    """A metric with fewer pairs, steps, votes or labels than its protocol has."""
    options = FEWER.get(metric.key, {}) | (FEWEST.get(metric.key, {}) if small else {})
    if not options:
        return metric
    compute = partial(metric.compute, **options)
    return replace(metric, compute=update_wrapper(compute, metric.compute))


# Without higgins2017, which is kim2018 under another name.
QUICK = {key: quick(m) for key, m in METRICS.items() if key != "beta_vae_score/higgins2017"}
