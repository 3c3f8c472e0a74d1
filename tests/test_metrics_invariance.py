"""Which changes of a table change the score of each metric, and why: tested both ways.

A metric that `SENSITIVE` does not list under a change is invariant to it, on tables that hypothesis
draws; one that is listed changes on some table, so the list cannot go stale. All scores have the
same seed.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from lattice_tables import QUICK, few_fits, lattice, quick
from unweave.metrics import METRICS, UNSUPERVISED, Table

pytestmark = pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")

SPLIT = "rows are split at random, by their place in the table"
DRAWN = "rows are drawn at random, by their place in the table"
TREES = "trees break ties between codes, or between thresholds, by rank"
BY_FACTOR = "each factor has a random generator of its own, by its place"
NUMBERS = "factor values are numbers, not classes"
SHARED = "a second code shares the information, or the importance, of the first"
WEIGHTED = "codes are weighted by their variance, or narrow ones are pruned"
PENALISED = "the fit is penalised, or stops before it converges"
ABSOLUTE = "it is in the units of the codes"
COUNTED = "it is a sum or a mean over codes"

SENSITIVE: dict[str, dict[str, str]] = {
    "order of codes": {},
    "order of rows": {
        **dict.fromkeys(("factor_vae_score/kim2018", "factor_vae_score/locatello2019"), DRAWN),
        **dict.fromkeys(("factor_vae_score/mathieu2019", "mig/chen2018"), DRAWN),
        **dict.fromkeys(("beta_vae_score/kim2018", "beta_vae_score/locatello2019"), DRAWN),
        **dict.fromkeys(("dci/locatello2019", "dci/esmaeili2019", "dci/eastwood2018"), SPLIT),
        **dict.fromkeys(("dci_es/eastwood2023", "sap/locatello2019"), SPLIT),
        **dict.fromkeys(("explicitness/locatello2019", "explicitness/ridgeway2018"), SPLIT),
        "downstream/locatello2019": SPLIT,
    },
    "order of factors": {
        **dict.fromkeys(("factor_vae_score/kim2018", "factor_vae_score/locatello2019"), BY_FACTOR),
        **dict.fromkeys(("beta_vae_score/kim2018", "beta_vae_score/locatello2019"), BY_FACTOR),
        **dict.fromkeys(("factor_vae_score/mathieu2019", "downstream/locatello2019"), BY_FACTOR),
        **dict.fromkeys(("dci/locatello2019", "dci/esmaeili2019"), BY_FACTOR),
        "dci_es/eastwood2023": BY_FACTOR,
    },
    "signs of codes": {
        **dict.fromkeys(("dci/locatello2019", "dci/esmaeili2019"), TREES),
        **dict.fromkeys(("dci_es/eastwood2023", "downstream/locatello2019"), TREES),
        "mig/chen2018": "the noise of the samples is not mirrored",
    },
    "scales of codes": {
        **{key: PENALISED for key, m in METRICS.items() if "scale" in m.sensitive_to},
        **dict.fromkeys(("irs/suter2019", "irs/locatello2019"), WEIGHTED),
        **dict.fromkeys(("info_mec/hsu2023", "info_mec/hsu2024", "mig_sup/li2020"), WEIGHTED),
        **dict.fromkeys(("jemmig/do2020", "modularity/ridgeway2018"), WEIGHTED),
        **dict.fromkeys(("factor_vae_score/kim2018", "factor_vae_score/locatello2019"), WEIGHTED),
        **dict.fromkeys(("hoyer/mathieu2019", "active_units/burda2016"), ABSOLUTE),
        "gaussian_wasserstein_correlation/locatello2019": ABSOLUTE,
        "gaussian_wasserstein_correlation/locatello2019-normalised": WEIGHTED,
    },
    "shifts of codes": {
        "sap/locatello2019": "the offset of the machines is penalised",
        "downstream/locatello2019": PENALISED,
        **dict.fromkeys(("hoyer/mathieu2019", "hoyer/mathieu2019-normalised"), ABSOLUTE),
    },
    "a duplicated code": {
        **dict.fromkeys(("mig/locatello2019", "mig/chen2018", "jemmig/do2020"), SHARED),
        **dict.fromkeys(("info_mec/hsu2023", "info_mec/hsu2024"), SHARED),
        **dict.fromkeys(("dci/locatello2019", "dci/esmaeili2019", "dci_es/eastwood2023"), SHARED),
        **dict.fromkeys(("sap/locatello2019", "sap/kumar2018"), SHARED),
        **dict.fromkeys(("explicitness/locatello2019", "explicitness/ridgeway2018"), PENALISED),
        **dict.fromkeys(("beta_vae_score/kim2018", "beta_vae_score/locatello2019"), PENALISED),
        "downstream/locatello2019": PENALISED,
        **dict.fromkeys(("mig_sup/li2020", "irs/suter2019", "irs/locatello2019"), COUNTED),
        **dict.fromkeys(("modularity/locatello2019", "modularity/ridgeway2018"), COUNTED),
        **dict.fromkeys(UNSUPERVISED, COUNTED),
    },
    "order of the classes": {
        **dict.fromkeys(("mcc/hyvarinen2016", "sap/kumar2018"), NUMBERS),
        **dict.fromkeys(("dci/esmaeili2019", "dci/eastwood2018"), NUMBERS),
        **dict.fromkeys(("dci/locatello2019", "downstream/locatello2019"), TREES),
    },
    "names of the classes": {},
}


class Draws(NamedTuple):
    """The parameters of all changes."""

    order: tuple[int, ...] = (2, 0, 1)
    rows: int = 9
    signs: tuple[int, ...] = (-1, 1, -1)
    scales: tuple[float, ...] = (0.01, 3.0, 1.0)
    shifts: tuple[float, ...] = (5.0, -5.0, 1.0)
    copied: int = 0
    classes: tuple[tuple[int, ...], ...] = ((2, 0, 1), (1, 3, 0, 2))


def by_three(values):
    return st.tuples(values, values, values)


drawn_tables = st.integers(0, 2**16)
drawn_changes = st.builds(
    Draws,
    order=st.permutations(range(3)).map(tuple),
    rows=st.integers(0, 2**16),
    signs=by_three(st.sampled_from((-1, 1))),
    scales=by_three(st.floats(0.01, 100)),
    shifts=by_three(st.floats(-5, 5)),
    copied=st.integers(0, 2),
    classes=st.tuples(*(st.permutations(range(size)).map(tuple) for size in (3, 4))),
)


def table(seed, metric=None):
    """Two factors, mixed and blurred in three codes; the KL of each if a metric needs it."""
    rng = np.random.default_rng(seed)
    factors = rng.permutation(lattice((3, 4), 6))
    noise = rng.uniform(0.1, 0.6) * rng.standard_normal((72, 3))
    codes = factors @ rng.standard_normal((2, 3)) + noise
    scales = rng.uniform(0.05, 0.3, codes.shape)
    base = Table(codes / codes.std(0), factors, scales=scales, factor_names=("a", "b"))
    known = metric is None or metric.unmet(base) is None
    return base if known else replace(base, kl=rng.uniform(0.0, 0.02, 3))


def with_codes(base, places):
    kl = None if base.kl is None else base.kl[places]
    return replace(base, codes=base.codes[:, places], scales=base.scales[:, places], kl=kl)


def with_factors(base, factors, names=("a", "b")):
    return replace(base, factors=factors, factor_names=names, factor_sizes=())


def changed(base, draws):
    """The table after each change."""
    rows = np.random.default_rng(draws.rows).permutation(len(base))
    scale = np.array(draws.scales)
    classes = [np.array(each)[v] for each, v in zip(draws.classes, base.factors.T, strict=True)]
    return {
        "order of codes": with_codes(base, list(draws.order)),
        "order of rows": replace(
            base, codes=base.codes[rows], scales=base.scales[rows], factors=base.factors[rows]
        ),
        "order of factors": with_factors(base, base.factors[:, ::-1], ("b", "a")),
        "signs of codes": replace(base, codes=base.codes * draws.signs),
        "scales of codes": replace(base, codes=base.codes * scale, scales=base.scales * scale),
        "shifts of codes": replace(base, codes=base.codes + draws.shifts),
        "a duplicated code": with_codes(base, [0, 1, 2, draws.copied]),
        "order of the classes": with_factors(base, np.stack(classes, 1)),
        # By a power of two, so that sums of values are exact and ties remain ties.
        "names of the classes": with_factors(base, base.factors * 8 + 3),
    }


EVERY = {key: quick(metric, small=True) for key, metric in (QUICK | UNSUPERVISED).items()}
metrics = pytest.mark.parametrize("metric", EVERY.values(), ids=EVERY)


@pytest.fixture(autouse=True, scope="module")
def fewer_fits():
    with few_fits(5):
        yield


def check_invariance(metric, seed, draws):
    base = table(seed, metric)
    value = float(metric(base))
    assert 0 <= value <= (1 if metric.key in METRICS else np.inf)
    for change, other in changed(base, draws).items():
        if metric.key not in SENSITIVE[change]:
            assert float(metric(other)) == pytest.approx(value, abs=1e-6, rel=1e-6), change


def examples(count):
    return settings(
        max_examples=count,
        derandomize=True,
        phases=[Phase.generate],  # shrinking would take minutes, and explains nothing
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@metrics
@examples(2)
@given(drawn_tables, drawn_changes)
def test_a_metric_is_invariant_to_changes_it_is_not_listed_under(metric, seed, draws):
    check_invariance(metric, seed, draws)


@pytest.mark.slow
@metrics
@examples(50)
@given(drawn_tables, drawn_changes)
def test_a_metric_is_invariant_on_many_tables(metric, seed, draws):
    check_invariance(metric, seed, draws)


@pytest.mark.parametrize(
    ("change", "key"),
    [(change, key) for change, keys in SENSITIVE.items() for key in keys if key in EVERY],
)
def test_a_metric_that_is_listed_changes_on_some_table(change, key):
    metric, draws = EVERY[key], Draws()
    bases = (table(seed, metric) for seed in range(12))
    differences = (abs(float(metric(changed(b, draws)[change])) - float(metric(b))) for b in bases)
    assert any(difference > 1e-5 for difference in differences)


def test_changes_and_their_table_are_the_same():
    assert list(SENSITIVE) == list(changed(table(0), Draws()))
    assert {key for keys in SENSITIVE.values() for key in keys} <= {*METRICS, *UNSUPERVISED}
