"""Users' own metrics: decorated functions, plain functions, and what `evaluate` makes of them."""

import inspect
import pickle
import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import TypeAdapter

from lattice_tables import blurred, identity
from unweave.catalogue.metrics import metric_page
from unweave.cli.score_output import scores_table
from unweave.metrics import (
    METRICS,
    Inputs,
    Metric,
    PerRow,
    Score,
    Scores,
    Table,
    evaluate,
    hoyer,
    metric,
    mig,
)
from unweave.metrics.registry import find_metrics
from unweave.training.records import StoredScores
from unweave.training.store import ScoreFacts


@metric
def closest(
    inputs: Inputs,
    *,
    protocol: Literal["largest", "mean"] = "largest",
    power: int = 1,
    samples: int | None = None,
) -> Score:
    """Compute the mean over factors of the largest correlation with a code.

    Args:
        inputs: codes (N, D) and ordered factors (N, K).
        protocol: whether to take the largest correlation or the mean.
        power: exponent of the correlations.
        samples: rows to read.

    Returns:
        Parts: the correlation of each factor.
    """
    rows = inputs.rng.permutation(inputs.rows)[:samples]
    z, v = inputs.codes[rows], inputs.values[rows]
    matrix = np.abs(np.corrcoef(z.T, v.T)[: inputs.dims, inputs.dims :]) ** power
    values = matrix.max(0) if protocol == "largest" else matrix.mean(0)
    return inputs.score(
        values[inputs.scored].mean(),
        parts=inputs.by_factor(values),
        matrix=matrix,
        rows_read=len(rows),
    )


def mean_code(codes, factors):
    return codes.mean() + 0.5


BASE = blurred()


def test_a_decorated_function_is_a_metric():
    score = closest(BASE.codes, BASE.factors, power=2)
    expected = np.corrcoef(BASE.codes.T, BASE.factors.T)[:3, 3:] ** 2
    assert float(score) == pytest.approx(expected.max(0).mean())
    assert score.parts == pytest.approx({f"factor {k}": expected[:, k].max() for k in range(3)})
    assert score.key == "closest/largest"
    assert score.details == {"rows": 480, "factors left out": []}
    with pytest.raises(ValueError, match=r"expected power as a whole number, got 0\.5: give 1"):
        closest(BASE.codes, BASE.factors, power=0.5)
    with pytest.raises(ValueError, match="'all' is not known: the choices are largest, mean"):
        closest(BASE.codes, BASE.factors, protocol="all")
    with pytest.raises(TypeError, match=r"closest\(\) got an unexpected keyword argument 'pwer'"):
        closest(BASE.codes, BASE.factors, pwer=2)
    with pytest.raises(TypeError, match=r"closest\(\) missing a required argument: 'factors'"):
        closest(BASE.codes)


def test_a_decorated_function_has_all_options_of_a_metric():
    asked = {"interval": 0.9, "resamples": 20, "null": True, "ceiling": True, "reseeds": 3}
    score = closest(BASE.codes, BASE.factors, samples=120, leave_out=[0], **asked)
    assert score.interval[0] < float(score) < score.interval[1]
    assert score.null < float(score)
    assert score.details["ceiling"] == pytest.approx(1.0)
    assert score.details["seed std"] > 0
    assert score.details["rows of a resample"] == 96  # 480 * 120 / (480 + 120)
    assert score.details["factors left out"] == ["factor 0"]
    assert float(closest(BASE.codes, BASE.factors, reseeds=2)) == float(
        closest(BASE.codes, BASE.factors)
    )


def test_the_page_of_a_metric_without_protocols_lists_none():
    page = metric_page(f"{__name__}:mean_code")
    assert "What it needs:\n\n      a factor that takes at least two values\n\n" in page
    assert "Protocols, and" not in page
    assert not [line for line in page.splitlines() if line and not line.strip()]


def test_the_signature_and_documentation_list_shared_arguments():
    parameters = inspect.signature(closest).parameters
    assert list(parameters)[:5] == ["codes", "factors", "protocol", "power", "samples"]
    assert {"seed", "discrete", "interval", "ceiling"} <= set(parameters)
    text = inspect.getdoc(closest)
    assert "    codes, factors: codes (N, D) and ordered factors (N, K)." in text
    for name in list(parameters)[2:]:
        assert f"\n    {name}: " in text
    assert text.endswith("Returns:\n    Parts: the correlation of each factor.")

    @metric
    def undocumented(inputs):
        return 0.5

    assert "\n    seed: " in inspect.getdoc(undocumented)
    assert undocumented(BASE.codes, BASE.factors).key == "undocumented"


def test_evaluate_takes_functions_beside_names():
    scores = evaluate(BASE, metrics=["mcc", closest, mean_code], interval=0.9, resamples=3)
    assert list(scores) == ["mcc/hyvarinen2016", "closest/largest", "closest/mean", "mean_code"]
    assert scores["closest/mean"].interval
    assert float(scores["mean_code"]) == BASE.codes.mean() + 0.5
    assert scores["mean_code"].interval is None  # which needs the decorator
    assert "mean_code,,,0.48" in scores.to_csv()
    assert "\nmean_code          0.48" in str(scores)
    arrays = evaluate(BASE.codes, BASE.factors, metrics=[mean_code])
    assert arrays.to_json() == evaluate(BASE, metrics=mean_code).to_json()


def test_a_plain_function_can_take_a_seed_and_columns_of_the_table():
    def widest(z, v, scales, seed, missing=3):
        assert (z.shape, v.shape, missing) == ((480, 3), (480, 3), 3)
        return Score("wide", "mine", scales.max() + seed)

    score = evaluate(BASE, metrics=[widest], seed=7)["widest"]
    assert (score.key, float(score)) == ("widest", 7.05)


def test_functions_of_this_package_stand_for_their_protocols():
    assert list(evaluate(BASE, metrics=[mig])) == ["mig/locatello2019", "mig/chen2018"]
    assert list(find_metrics(hoyer)) == ["hoyer/mathieu2019", "hoyer/mathieu2019-normalised"]
    needs_scales = Metric("mine", "", mean_code, needs=METRICS["mig/chen2018"].needs)
    assert list(evaluate(identity(), metrics=[needs_scales])) == ["mine"]
    bare = Table(BASE.codes, BASE.factors)
    with pytest.raises(ValueError, match=r"scored by mine, but mine: .* no posterior scales"):
        evaluate(bare, metrics=[needs_scales])


def test_values_that_are_not_metrics_are_refused():
    with pytest.raises(TypeError, match="a metric as a name, a function or a Metric, got 3"):
        evaluate(BASE, metrics=[3])

    def undecorated(inputs):
        return 1.0

    with pytest.raises(TypeError, match="undecorated to be a function of codes and factors"):
        evaluate(BASE, metrics=[undecorated])


def test_metrics_can_be_pickled():
    for function in (closest, mig):
        assert pickle.loads(pickle.dumps(function)) is function


def test_the_documented_example_runs():
    text = (Path(__file__).parent.parent / "docs/metrics.md").read_text()
    scope = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], scope)
    scores = evaluate(scope["codes"], scope["factors"], metrics=[scope["best_correlation"]])
    assert 0.8 < float(scores["best_correlation"]) < 1


@metric
def weighted(inputs: Inputs, *, weights: PerRow | None = None) -> float:
    """Compute the weighted mean of the first code."""
    return float(np.average(inputs.codes[:, 0], weights=weights))


@metric
def unmarked(inputs: Inputs, *, weights=None) -> float:
    """Compute the weighted mean of the first code."""
    return float(np.average(inputs.codes[:, 0], weights=weights))


def test_options_with_an_entry_for_each_row_are_resampled():
    """All weight is on rows whose code is 0.4, so every resample has this mean."""
    codes = np.random.default_rng(0).random((200, 1))
    codes[::2] = 0.4
    factors, weights = np.arange(200)[:, None] % 4, np.arange(200) % 2 == 0
    score = weighted(codes, factors, weights=weights, interval=0.9, resamples=20)
    assert score.interval == (0.4, 0.4)
    assert "no evidence: the value is the same in every resample" in repr(score)
    with pytest.raises(ValueError, match="annotate it with"):
        unmarked(codes, factors, weights=weights, interval=0.9)
    assert float(unmarked(codes, factors, weights=weights)) == pytest.approx(0.4)


@metric
def extremes(inputs: Inputs) -> Score:
    """Compute the mean code, with the smallest and the largest."""
    codes = inputs.codes
    ends = {"least": float(codes.min()), "most": float(codes.max())}
    return inputs.score(codes.mean(), parts={"first": codes[0, 0]}, components=ends)


def test_quantities_of_their_own_are_shown_and_stored_whoever_computes_them():
    table = identity()
    scores = evaluate(table, metrics=[extremes, "dci/eastwood2018"])
    ends = {"least": table.codes.min(), "most": table.codes.max()}
    own = scores["extremes"]
    assert (own.components, own.parts) == (ends, {"first": table.codes[0, 0], **ends})
    dci = ["  completeness", "  informativeness"]
    assert [row[0] for row in scores.rows()] == [
        "extremes", "  least", "  most", "dci/eastwood2018", *dci
    ]  # fmt: skip
    content = {**ScoreFacts("all", 1, "mean")._asdict(), "scores": scores.to_json()}
    read = TypeAdapter(StoredScores).validate_python(content)["scores"]
    stored = Scores.from_json(read)
    assert stored.rows() == scores.rows()
    assert [row[0] for row in scores_table({"a": stored, "b": stored}).rows] == [
        "extremes", "extremes least", "extremes most",
        *(f"dci/eastwood2018{part.removeprefix(' ')}" for part in ("", *dci)),
    ]  # fmt: skip
