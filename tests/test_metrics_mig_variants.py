"""MIG-sup, JEMMIG, DCIMIG and modularity against plain loops over their formulas."""

import math
from collections import Counter

import numpy as np
import pytest

from lattice_tables import TABLES, identity, lattice, with_columns
from unweave.metrics import dcimig, jemmig, mig_sup, modularity

tables = pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)


def entropy_of(labels):
    n = len(labels)
    return -sum(c / n * math.log(c / n) for c in Counter(labels).values())


def cut(code, bins=20):
    low, high = min(code), max(code)
    return [min(int((z - low) / (high - low) * bins), bins - 1) for z in code]


def count_bins(base):
    """Bins of the codes, lists of the factors, and I(z_j; v_k) = H(z) + H(v) - H(z, v)."""
    z = [cut(column.tolist()) for column in base.codes.T]
    v = [column.tolist() for column in base.factors.T]
    shared = [
        [entropy_of(a) + entropy_of(b) - entropy_of(list(zip(a, b, strict=True))) for b in v]
        for a in z
    ]
    return z, v, shared


@tables
def test_mig_sup_by_loops(base):
    base = base()
    _, v, shared = count_bins(base)
    gaps = []
    for row in shared:
        *_, second, first = sorted(i / entropy_of(values) for i, values in zip(row, v, strict=True))
        gaps.append(first - second)
    score = mig_sup(base.codes, base.factors)
    assert float(score) == pytest.approx(sum(gaps) / len(gaps), abs=1e-9)
    assert list(score.parts.values()) == pytest.approx(gaps, abs=1e-9)


def test_jemmig_of_codes_that_tie_does_not_depend_on_their_order():
    """Both codes hold the factor; the second also holds another one."""
    factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    clean, mixed = factors[:, 0], factors[:, 0] + factors[:, 1] / 5
    both = np.stack([clean, mixed], 1).astype(float)
    for discrete in (None, (True, False)):
        first = jemmig(both, factors, discrete=discrete)
        swapped = discrete and discrete[::-1]
        second = jemmig(both[:, ::-1], factors, discrete=swapped)
        assert first.parts == pytest.approx(second.parts, abs=1e-12)
    joint, log_b = math.log(4), math.log(4) + math.log(20)
    assert jemmig(both, factors).parts["factor 0"] == pytest.approx(1 - joint / log_b)


@tables
def test_jemmig_by_loops(base):
    base = base()
    z, v, shared = count_bins(base)
    terms = []
    for k, values in enumerate(v):
        column = [row[k] for row in shared]
        joint = [entropy_of(list(zip(code, values, strict=True))) for code in z]
        tied = [j for j, i in enumerate(column) if i > max(column) - 1e-12]
        best = min(tied, key=joint.__getitem__)
        second = max(i for j, i in enumerate(column) if j != best)
        jemmig_k = joint[best] - column[best] + second
        terms.append(1 - jemmig_k / (entropy_of(values) + math.log(20)))
    score = jemmig(base.codes, base.factors)
    assert float(score) == pytest.approx(sum(terms) / len(terms), abs=1e-9)
    assert list(score.parts.values()) == pytest.approx(terms, abs=1e-9)


@tables
def test_dcimig_by_loops(base):
    base = base()
    _, v, shared = count_bins(base)
    kept = [0.0] * len(v)
    for row in shared:
        best = row.index(max(row))
        gap = row[best] - max(i for k, i in enumerate(row) if k != best)
        kept[best] = max(kept[best], gap)
    score = dcimig(base.codes, base.factors)
    entropies = [entropy_of(values) for values in v]
    assert float(score) == pytest.approx(sum(kept) / sum(entropies), abs=1e-9)
    expected = [s / h for s, h in zip(kept, entropies, strict=True)]
    assert list(score.parts.values()) == pytest.approx(expected, abs=1e-9)


@tables
@pytest.mark.parametrize("dead", [0, 2])
def test_modularity_by_loops(base, dead):
    base = base()
    _, _, shared = count_bins(base)
    each = []
    for row in shared:
        best = max(row)
        template = [best if i == best else 0.0 for i in row]
        off = sum((i - t) ** 2 for i, t in zip(row, template, strict=True))
        each.append(1 - off / (best**2 * (len(row) - 1)))
    whole = with_columns(base, np.zeros((480, dead)), np.ones((480, dead)))
    score = modularity(whole.codes, whole.factors, protocol="locatello2019")
    assert float(score) == pytest.approx(sum(each) / (len(each) + dead), abs=1e-9)
    score = modularity(whole.codes, whole.factors, protocol="ridgeway2018")
    assert float(score) == pytest.approx(sum(each) / len(each), abs=1e-9)
    assert list(score.parts.values()) == pytest.approx(each, abs=1e-9)


def test_mig_and_mig_sup_are_blind_to_different_faults():
    """A factor in two codes, and a code of two factors."""
    factors = lattice((4, 5), repeats=3)
    a, b = factors.T * 1.0
    twice = np.column_stack([a, a, b])
    assert float(mig_sup(twice, factors)) == pytest.approx(1.0)
    assert float(dcimig(twice, factors)) == pytest.approx(1.0)
    assert float(modularity(twice, factors)) == pytest.approx(1.0)
    assert jemmig(twice, factors).parts["factor 0"] < 0.75
    both = np.column_stack([5 * a + b])
    for metric in (mig_sup, dcimig, modularity):
        assert float(metric(both, factors)) < 0.3
    assert float(jemmig(both, factors)) < 0.75


def test_jemmig_prunes_a_code_that_hardly_varies():
    """The formula gives a constant code log B / (H(v) + log B)."""
    factors = lattice((4, 5), repeats=60)
    constant = np.full((1200, 2), 0.1)
    assert float(jemmig(constant, factors)) == 0.0
    moved = constant.copy()
    moved[0, 0] += 1
    assert float(jemmig(moved, factors)) == 0.0
    assert jemmig(moved, factors).details["pruned"] == [0, 1]
    assert float(jemmig(moved, factors, std_threshold=0)) > 0.6
    assert float(jemmig(np.random.default_rng(0).standard_normal((1200, 2)), factors)) < 0.2


def test_categories_are_their_own_bins():
    factors = lattice((4, 5), repeats=3)
    labels = np.array([9.0, 0.0, 4.0, 2.0])[factors[:, 0]]
    codes = np.column_stack([labels, factors[:, 1]])
    for metric in (mig_sup, jemmig, dcimig, modularity):
        assert float(metric(codes, factors, discrete=[True, True])) == pytest.approx(1.0)


def test_one_factor():
    one = identity().factors[:, :1]
    for metric in (mig_sup, jemmig, dcimig):
        assert float(metric(identity().codes[:, :1], one)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at least 2 factors that vary, got factor 0 alone"):
        modularity(identity().codes, one)


def test_inactive_codes_are_pruned():
    base = with_columns(identity(), 0.01 * identity().codes[:, :1], np.ones(480))
    assert mig_sup(base.codes, base.factors).details["pruned"] == [3]
    assert mig_sup(base.codes, base.factors, std_threshold=0).details["pruned"] == []
    constant = np.full((480, 2), 0.1)
    assert float(mig_sup(constant, base.factors)) == 0.0
    assert float(modularity(constant, base.factors, protocol="ridgeway2018")) == 0.0
