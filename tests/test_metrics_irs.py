"""IRS against loops from the formula, and degenerate tables."""

import numpy as np
import pytest

from lattice_tables import blurred, identity, lattice, rotated
from plain_splits import categories
from unweave.metrics import irs


def by_loops(codes, factors, exact):
    """R_jk and their mean weighted by the largest deviations."""
    if exact:
        cells = {}
        for z, v in zip(codes, factors, strict=True):
            cells.setdefault(tuple(v), []).append(z)
        factors = np.array(list(cells))
        count = np.array([len(rows) for rows in cells.values()])
        codes = np.array([np.mean(rows, 0) for rows in cells.values()])
    else:
        count = np.ones(len(codes))
        edges = [np.histogram(column, 20)[1] for column in factors.T]
        factors = np.array(
            [[sum(v >= e[:-1]) for v, e in zip(row, edges, strict=True)] for row in factors]
        )
    most = np.abs(codes - np.average(codes, axis=0, weights=count)).max(0)
    r = np.zeros((codes.shape[1], factors.shape[1]))
    for j in range(codes.shape[1]):
        for k in range(factors.shape[1]):
            strays, weights = [], []
            for value in sorted(set(factors[:, k])):
                rows = factors[:, k] == value
                z = codes[rows, j]
                away = np.abs(z - np.average(z, weights=count[rows]))
                strays.append(away.max() if exact else np.percentile(away, 99))
                weights.append(count[rows].sum() if exact else 1)
            r[j, k] = 1 - np.average(strays, weights=weights) / most[j]
    return r, np.average(r.max(1), weights=most)


KINDS = ["identity", "rotated", "blurred", "doubled", "missing", "noise", "partial", "many values"]


@pytest.mark.parametrize("protocol", ["suter2019", "locatello2019"])
@pytest.mark.parametrize("kind", KINDS)
def test_irs_by_loops(kind, protocol):
    # 40 values are more than the 20 bins of locatello2019.
    factors = lattice((40, 3), repeats=4) if kind == "many values" else lattice(repeats=4)
    rng = np.random.default_rng(0)
    codes = {
        "identity": identity().codes,
        "rotated": rotated().codes,
        "blurred": blurred().codes,
        "doubled": np.repeat(identity().codes, 2, 1) * [1, 2, 3, 4, 5, 6],
        "missing": identity().codes[:, :2],
        "noise": rng.standard_normal((480, 2)),
        "many values": lattice((40, 3), repeats=4) + 0.1 * rng.standard_normal((480, 2)),
        "partial": blurred().codes[:211],
    }[kind]
    matrix, value = by_loops(codes, factors[: len(codes)], protocol == "suter2019")
    score = irs(codes, factors[: len(codes)], protocol=protocol)
    np.testing.assert_allclose(score.matrix, np.maximum(matrix, 0), atol=1e-12)
    assert float(score) == pytest.approx(value, abs=1e-12)


def test_samples_limits_the_rows():
    base = blurred()
    few = irs(base.codes, base.factors, samples=200, seed=1)
    assert few.details["samples"] == 200
    assert float(few) != float(irs(base.codes, base.factors, samples=200, seed=2))
    assert irs(base.codes[9:120], base.factors[9:120]).details["combinations missing"] == 9


@pytest.mark.parametrize("protocol", ["suter2019", "locatello2019"])
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_irs_of_degenerate_tables(protocol):
    constant = irs(np.full((30, 2), 0.1), lattice()[:30], protocol=protocol)
    assert float(constant) == 0.0
    assert constant.parts == {}
    three = irs([[0.1], [0.2], [0.5]], [[0], [1], [0]], protocol=protocol)
    assert 0 <= float(three) <= 1
    one = irs(np.eye(9), np.arange(9)[:, None] % 3, protocol=protocol)
    assert 0 <= float(one) <= 1


@pytest.mark.parametrize("protocol", ["suter2019", "locatello2019"])
def test_labels_of_categories_do_not_matter(protocol):
    factors, codes, renamed = categories(np.random.default_rng(3))
    one, other = (
        irs(z, factors, protocol=protocol, discrete=[True, False]) for z in (codes, renamed)
    )
    np.testing.assert_allclose(other.matrix, one.matrix, atol=1e-12)
    assert float(other) == pytest.approx(float(one), abs=1e-12)
    # Of two categories, one-hot codes are as far apart as their numbers, times the root of 2.
    two = codes * [0, 1] + (codes[:, :1] > 2) * [1, 0]
    number, category = (
        irs(two * [s, 1], factors, protocol=protocol, discrete=mask)
        for s, mask in ((np.sqrt(2), [False, False]), (1, [True, False]))
    )
    assert category.parts == pytest.approx(number.parts, abs=1e-12)
    assert float(category) == pytest.approx(float(number), abs=1e-12)
