"""Inputs of metrics: discrete codes, factors left out, and inputs that are refused."""

import inspect
import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from lattice_tables import blurred, identity
from unweave import metrics
from unweave.metrics import (
    METRICS,
    FewRowsWarning,
    Table,
    evaluate,
    factor_vae_score,
    mig,
    sap,
    sensitivity,
)
from unweave.metrics.arrays import Seed
from unweave.metrics.information import mutual_information
from unweave.metrics.validation import resolve_hints

functions = pytest.mark.parametrize("function", [factor_vae_score, mig])


@pytest.mark.parametrize("function", [factor_vae_score, mig])
def test_discrete_codes_are_categories(function):
    base = identity()
    label = np.array([40.0, 7.0, -3.0, 12.0, 5.0])[base.factors[:, 1]]
    shuffled = np.array([0.01, 0.02, 0.0, 0.03, 0.04])[base.factors[:, 1]]
    for column in (label, shuffled):
        codes = np.column_stack([base.codes[:, 0], column, base.codes[:, 2]])
        score = function(codes, base.factors, discrete=[False, True, False])
        assert float(score) == pytest.approx(1.0, abs=1e-9)


@functions
def test_codes_of_single_precision(function):
    base = identity()
    single = function(base.codes.astype(np.float32), base.factors)
    assert float(single) == pytest.approx(1.0, abs=1e-9)


def test_leave_out():
    base = blurred()
    names = base.factor_names
    everything = mig(base.codes, base.factors, factor_names=names)
    rest = mig(base.codes, base.factors, factor_names=names, leave_out=["shape"])
    assert float(rest) == pytest.approx((everything.parts["scale"] + everything.parts["x"]) / 2)
    assert rest.details["factors left out"] == ["shape"]
    votes = factor_vae_score(base.codes, base.factors, leave_out=[0])
    assert votes.matrix[:, 0].sum() == 0
    again = factor_vae_score(base.codes, base.factors, leave_out=np.array([0]))
    np.testing.assert_array_equal(again.matrix, votes.matrix)
    assert votes.details["chance"] == 0.5


# Bad input.


@functions
@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (np.array([[0.0, np.nan], [1.0, 0.0]]), [[0], [1]], r"finite codes.*columns \[1\]"),
        (np.array([[0.0, np.inf], [1.0, 0.0]]), [[0], [1]], "finite codes"),
        (
            np.array([[0.0, 1e160], [1.0, 0.0]]),
            [[0], [1]],
            r"at most 1e\+100 .* columns \[1\]: resc",
        ),
        (np.array([[0.0, 1e-170], [1.0, 0.0]]), [[0], [1]], r"differ by at least 1e-100"),
        (np.zeros((3, 2)), [[0], [1]], "as many rows"),
        (np.zeros((1, 2)), [[0]], "N >= 2 rows"),
        (np.zeros(4), [[0]] * 4, r"shape \(N, D\)"),
        (np.zeros((4, 0)), [[0]] * 4, r"shape \(N, D\)"),
        (np.array([["a"], ["b"]]), [[0], [1]], "real numbers"),
        (np.zeros((2, 2)), [0, 1], r"shape \(N, K\)"),
        (np.zeros((2, 2)), np.zeros((2, 0), int), "K >= 1"),
        (np.zeros((2, 2)), [["a"], ["b"]], "integers or real numbers"),
        (np.zeros((2, 2)), [[0.5], [np.nan]], "finite factors"),
        (np.zeros((2, 2)), [[1], [1]], "at least two values"),
    ],
)
def test_bad_arrays(function, codes, factors, message):
    with pytest.raises(ValueError, match=message):
        function(codes, factors)


@functions
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "kim2019"}, "protocol: 'kim2019' is not known: "),
        ({"discrete": [True]}, "discrete as 3 booleans"),
        ({"factor_names": ["a"]}, "3 different factor names"),
        ({"factor_names": ["a", "a", "b"]}, "3 different factor names"),
        ({"leave_out": ["size"]}, "leave_out to name factors"),
        ({"leave_out": [0, 1, 2]}, "not left out"),
    ],
)
def test_bad_options(function, options, message):
    base = identity()
    with pytest.raises(ValueError, match=message):
        function(base.codes, base.factors, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl": [1.0]}, r"kl of shape \(3,\)"),
        ({"kl": [1.0, np.nan, 1.0]}, "finite kl"),
        ({"batch": 1}, "at least 2 rows"),
        ({"votes": 0}, "at least 1 vote"),
    ],
)
def test_bad_options_of_factor_vae_score(options, message):
    with pytest.raises(ValueError, match=message):
        factor_vae_score(identity().codes, identity().factors, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "chen2018"}, "expected scales .* locatello2019"),
        ({"protocol": "chen2018", "scales": np.ones((2, 3))}, "scales of the shape"),
        ({"protocol": "chen2018", "scales": np.zeros((480, 3))}, "positive scales"),
        ({"protocol": "chen2018", "scales": np.ones((480, 3)), "samples": 0}, "1 sample"),
        ({"samples": 1}, "at least 2 rows"),
        ({"bins": 1}, "at least 2 bins"),
    ],
)
def test_bad_options_of_mig(options, message):
    with pytest.raises(ValueError, match=message):
        mig(identity().codes, identity().factors, **options)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_values_that_never_repeat_cannot_be_fixed():
    with pytest.raises(ValueError, match="at least two rows"):
        factor_vae_score(np.eye(4), np.arange(4)[:, None])
    assert float(mig(np.arange(4.0)[:, None], np.arange(4)[:, None])) == 1.0


def test_common_mistakes_have_clear_errors():
    rng = np.random.default_rng(0)
    codes, factors = rng.standard_normal((50, 2)), rng.integers(3, size=(50, 2))
    with pytest.raises(ValueError, match="codes without masked entries, got a masked array"):
        mig(np.ma.masked_greater(codes, 1), factors)
    with pytest.raises(TypeError, match=r"got protocol: .* into `metrics`"):
        evaluate(codes, factors, metrics="sap", protocol="kumar2018")
    with pytest.raises(TypeError, match=r"got discrete: put other columns into a Table"):
        evaluate(codes, factors, discrete=[True, False])
    with pytest.raises(ValueError, match="periods by the name of a factor"):
        mig(codes, factors, periods=[3, None])
    with pytest.raises(ValueError, match=r"cut them into bins, .* numpy.digitize"):
        factor_vae_score(codes, codes)
    with pytest.raises(TypeError, match="a metric as a function"):
        sensitivity("mig", codes, factors, {"bins": (2, 3)})
    found = sensitivity(sap, codes, factors, {"protocol": ("locatello2019", "kumar2018")})
    assert found.name == "sap/locatello2019|kumar2018"
    together = evaluate(codes, factors, metrics="mig/locatello2019, sap/kumar2018")
    assert list(together) == ["mig/locatello2019", "sap/kumar2018"]


SHARED = {"seed": Seed, "resamples": int, "shuffles": int, "reseeds": int}
SINGLE = [int, int | None, Seed]
FUNCTIONS = [f for f in vars(metrics).values() if inspect.isfunction(f)]


def integers(function):
    """The integer arguments of a function by their types."""
    own = resolve_hints(function)
    hints = {
        name: own.get(name, SHARED.get(name)) for name in inspect.signature(function).parameters
    }
    return {name: h for name, h in hints.items() if h in SINGLE or h == Sequence[int]}


@pytest.mark.parametrize("function", [*filter(integers, FUNCTIONS)], ids=lambda f: f.__name__)
def test_integer_arguments_are_checked(function):
    parameters = inspect.signature(function).parameters
    needed = {
        name: np.zeros((2, 2))
        for name, p in parameters.items()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    }
    for name, hint in integers(function).items():
        for value in (2.5, True) if hint in SINGLE else ([3, 2.5], [True]):
            with pytest.raises(ValueError, match=rf"expected {name} as a whole number, got .*: g"):
                function(**needed | {name: value})


def test_integers_of_numpy_are_integers():
    assert float(mig(*draw(), bins=np.int64(5))) == float(mig(*draw(), bins=5))


def draw():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 2)), rng.integers(3, size=(60, 2))


# Few rows, and factors that are numbers.


def test_ten_rows_for_each_code_and_each_value():
    rng = np.random.default_rng(0)
    for rows, dims, values, enough in [
        (60, 3, 6, 60),
        (59, 3, 6, 60),
        (80, 8, 2, 80),
        (79, 8, 2, 80),
    ]:
        v = rng.permutation(np.arange(rows) % values)[:, None]
        table = Table(rng.standard_normal((rows, dims)), v)
        assert (table.too_few_rows is None) == (rows >= enough)
        assert rows >= enough or f"there should be at least {enough}" in table.too_few_rows
    numbers = rng.uniform(size=(199, 1))
    assert (
        "factor 0 in 20 bins there should be at least 200" in Table(numbers, numbers).too_few_rows
    )
    assert Table(np.eye(10).repeat(10, 0), np.zeros((100, 0))).too_few_rows is None


def test_few_rows_issue_one_warning():
    codes, factors = (array[:20] for array in draw())
    for call in (
        lambda: evaluate(codes, factors, metrics="mig, mcc", null=True, shuffles=2),
        lambda: mig(codes, factors, interval=0.9, resamples=3, null=True, shuffles=2),
    ):
        with pytest.warns(
            FewRowsWarning, match="20 rows are too few: for 3 values of factor 0"
        ) as warned:
            call()
        assert len(warned) == 1
        assert warned[0].filename == __file__
    mig(codes, factors % 2, leave_out=[1])  # twenty rows for two codes and two values


def test_treatment_of_real_numbers_is_logged(caplog):
    v = np.column_stack([np.tile([0.5, 1.5, 2.5], 80), np.random.default_rng(0).random(240)])
    table = Table(v, v, factor_names=("angle", "x"))
    assert repr(table).endswith("angle of real numbers as 3 classes, x of real numbers)")
    assert [note.split(";")[0] for note in table.notes] == [
        "angle has 3 real numbers, each 80 times on average, taken as classes",
        "x has real numbers that do not repeat, taken as continuous",
    ]
    with caplog.at_level(logging.INFO):
        assert evaluate(table, metrics="mig")["mig/locatello2019"].details[
            "factors cut into bins"
        ] == ["x"]
    assert all(note in caplog.text for note in table.notes)
    both = evaluate(v, v, metrics="mig", continuous=[0, 1])["mig/locatello2019"]
    assert both.details["factors cut into bins"] == ["factor 0", "factor 1"]
    for named in (["angle"], ["0"], [0]):
        decided = replace(table, continuous=named)
        assert (decided.continuous, decided.notes) == (("angle",), [])
    assert repr(decided).endswith("angle of real numbers, x of real numbers as 240 classes)")
    with pytest.raises(ValueError, match="continuous to name factors among angle, x"):
        replace(table, continuous=["y"])
    with pytest.raises(ValueError, match="continuous as a list of factors, got 'angle'"):
        mig(v, v, continuous="angle")


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_subsets_of_the_rows_treat_factors_as_all_rows_do():
    """Values that come 2.5 times on average, and less than twice in half of the rows."""
    rng = np.random.default_rng(0)
    v = np.column_stack([np.arange(500) // 2.5 // 1 * 0.3, np.tile([0, 1], 250)])
    z = v + 0.1 * rng.standard_normal(v.shape)
    asked = {"interval": 0.9, "resamples": 5}
    classes, left_open, numbers = (mig(z, v, continuous=c, **asked) for c in ([], None, [0]))
    assert left_open.to_json() == classes.to_json()
    assert numbers.interval != classes.interval


def test_cutting_into_bins_as_advised_keeps_a_perfect_code_perfect():
    column = np.random.default_rng(0).random((500, 2))
    edges = np.quantile(column[:, 0], [0.2, 0.4, 0.6, 0.8])
    factors = np.digitize(column, edges)
    assert float(factor_vae_score(column, factors)) > 0.95


def many_classes(count, rows=None):
    rows = rows or 2 * count
    rng = np.random.default_rng(0)
    factors = np.column_stack([np.arange(rows) % count, np.arange(rows) % 3])
    codes = rng.standard_normal((rows, 2))
    return Table(codes, factors, scales=np.ones((rows, 2)), factor_names=("many", "few"))


def test_classifiers_refuse_factors_of_too_many_classes_and_others_score_them_quickly():
    limits = {"dci/locatello2019": 500, "dci_es/eastwood2023": 500, "downstream/locatello2019": 200}
    table, limited = many_classes(1001), set()
    for key, metric in METRICS.items():
        if metric.unmet(table):
            limited.add(key)
            most = limits.get(key, 1000)
            assert f"many has more than {most:,} classes" in metric.unmet(table)
            assert metric.unmet(many_classes(most)) is None
            for count in (most + 1, 1001):
                refusal = f"at most {most:,} classes, got {count:,} in many"
                with pytest.raises(ValueError, match=refusal):
                    metric(many_classes(count))
    assert {key.split("/")[0] for key in limited} == {
        "dci", "dci_es", "downstream", "explicitness", "info_mec", "sap"
    }  # fmt: skip


@pytest.mark.parametrize("count", [7, 900])
def test_information_of_pairs_that_occur_is_that_of_the_whole_table(count):
    rng = np.random.default_rng(0)
    a, b = rng.integers(count, size=(2, 1000))
    p = np.histogram2d(a, b, bins=[np.arange(count + 1)] * 2)[0] / 1000
    outer = np.outer(p.sum(1), p.sum(0))
    expected = (p[p > 0] * np.log(p[p > 0] / outer[p > 0])).sum()
    assert mutual_information(a, b) == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_a_class_without_samples_has_no_part_in_the_information_of_mixtures():
    table = many_classes(600)
    score = mig(table.codes, table.factors, protocol="chen2018", scales=table.scales, samples=500)
    assert 0 <= score.value <= 1
