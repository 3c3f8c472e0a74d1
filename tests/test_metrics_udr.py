"""UDR against loops over single lassos and rank correlations."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso

from lattice_tables import blurred, identity, rotated
from unweave.metrics import udr

RNG = np.random.default_rng(4)
BASE = identity().codes
ROWS = len(BASE)
MODELS = {
    "identity": BASE,
    "permuted": -2 * BASE[:, [2, 0, 1]],
    "rotated": rotated().codes,
    "blurred": blurred().codes,
    "duplicated": BASE[:, [0, 0, 1, 2]],
    "missing": BASE[:, :2],
    "noise": RNG.standard_normal((ROWS, 3)),
    "dead code": np.column_stack([BASE, np.full(ROWS, 0.3)]),
}
PROTOCOLS = ("duan2020-lasso", "duan2020-spearman")
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def strength(a, b, i, j, protocol):
    if protocol == "duan2020-spearman":
        return abs(spearmanr(a[:, i], b[:, j]).statistic)
    standard = [(z - z.mean(0)) / z.std(0) for z in (a, b)]
    return abs(Lasso(alpha=0.1).fit(standard[0], standard[1][:, j]).coef_[i])


def by_loops(a, b, protocol):
    a, b = (z[:, np.ptp(z, 0) > 0] for z in (a, b))
    r = np.array(
        [[strength(a, b, i, j, protocol) for j in range(b.shape[1])] for i in range(a.shape[1])]
    )
    columns = [max(c) ** 2 / sum(c) if sum(c) else 0.0 for c in r.T]
    rows = [max(c) ** 2 / sum(c) if sum(c) else 0.0 for c in r]
    return (np.mean(columns) + np.mean(rows)) / 2


@protocols
def test_udr_is_the_median_of_loops(protocol):
    found = udr(list(MODELS.values()), protocol=protocol)
    tables = list(MODELS.values())
    for j, score in enumerate(found):
        others = [i for i in range(len(tables)) if i != j]
        expected = [by_loops(tables[i], tables[j], protocol) for i in others]
        assert list(score.parts.values()) == pytest.approx(expected, abs=1e-4)
        assert score.value == pytest.approx(np.median(expected), abs=1e-4)


@protocols
def test_models_that_agree_score_their_maximum_and_noise_its_null(protocol):
    top = 0.9 if protocol == "duan2020-lasso" else 1.0
    same = udr([BASE, MODELS["permuted"], MODELS["dead code"]], protocol=protocol)
    assert [s.value for s in same] == pytest.approx([top] * 3, abs=1e-6)
    noise = udr([RNG.standard_normal((ROWS, 3)) for _ in range(3)], protocol=protocol)
    assert max(s.value for s in noise) < 0.1
    agreeing = [BASE, MODELS["permuted"], -BASE, MODELS["rotated"]]
    scores = [s.value for s in udr(agreeing, protocol=protocol)]
    assert min(scores[:3]) > scores[3] + 0.2


@protocols
def test_order_sign_and_scale_of_codes_do_not_matter(protocol):
    tables = [MODELS[name] for name in ("identity", "rotated", "blurred")]
    expected = [s.value for s in udr(tables, protocol=protocol)]
    changed = [tables[0][:, ::-1] * [-1, 5, 1e-3] + 7, *tables[1:]]
    # A lasso is solved to a tolerance, in an order.
    assert [s.value for s in udr(changed, protocol=protocol)] == pytest.approx(expected, abs=1e-3)
    assert [s.value for s in udr(tables, protocol=protocol)] == expected


def test_only_informative_codes_count():
    noisy = np.column_stack([BASE, RNG.standard_normal((ROWS, 2))])
    kl = [np.array([1.0, 2.0, 0.5, 0.01, 0.0]), np.ones(3)]
    first, second = udr([noisy, BASE], kl=kl)
    assert first.value == pytest.approx(udr([BASE, BASE])[0].value)
    assert first.details["informative"] == [0, 1, 2]
    assert second.value < 1
    none = udr([noisy, BASE], kl=[np.zeros(5), np.ones(3)])
    assert [s.value for s in none] == [0.0, 0.0]


@protocols
def test_degenerate_models_have_a_score(protocol):
    constant = udr([np.ones((5, 2)), RNG.standard_normal((5, 2))], protocol=protocol)
    assert [s.value for s in constant] == [0.0, 0.0]
    three = udr([np.eye(3), np.eye(3)[:, :1]], protocol=protocol)
    assert all(0 <= s.value <= 1 for s in three)
    few = udr(list(MODELS.values()), protocol=protocol, samples=50, seed=1)
    turned = udr(list(MODELS.values())[::-1], protocol=protocol, samples=50, seed=1)
    assert [s.value for s in turned] == pytest.approx([s.value for s in few][::-1])
    assert few[0].details["rows"] == 50
    again = udr(list(MODELS.values()), protocol=protocol, samples=50, seed=1)
    assert [s.value for s in few] == [s.value for s in again]


def test_bad_models_are_refused():
    for codes, more in (
        ([BASE], {}),
        ([], {}),
        ([BASE, BASE[:5]], {}),
        ([BASE, BASE * np.nan], {}),
        ([BASE, BASE], {"kl": [np.ones(3)]}),
        ([BASE, BASE], {"kl": [np.ones(3), np.ones(2)]}),
    ):
        with pytest.raises(ValueError, match="expected"):
            udr(codes, **more)
    with pytest.raises(ValueError, match="did you mean 'duan2020-lasso'"):
        udr([BASE, BASE], protocol="duan2020")
