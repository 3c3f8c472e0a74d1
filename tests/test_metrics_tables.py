"""Tables of codes: saving, loading, validation, and the metrics that apply to each."""

import inspect
import logging
from dataclasses import replace

import numpy as np
import pytest

from lattice_tables import blurred, identity, rotated
from unweave.metrics import METRICS, UNSUPERVISED, Table, describe, evaluate, left_out, mig
from unweave.metrics.registry import select


def test_a_saved_table_loads_as_it_was(tmp_path):
    base = replace(
        identity(),
        codes=identity().codes.astype(np.float32),
        kl=np.arange(3.0),
        discrete=np.array([False, True, False]),
        factor_sizes=(4, 5, 9),
    )
    base.save(tmp_path / "table.npz")
    again = Table.load(tmp_path / "table.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["table.npz"]
    assert again.codes.dtype == np.float32
    for name in ("codes", "factors", "scales", "kl", "discrete"):
        np.testing.assert_array_equal(getattr(again, name), getattr(base, name))
    assert again.factor_names == base.factor_names
    assert again.factor_sizes == (4, 5, 9)
    assert repr(again) == repr(base)
    bare = Table(np.eye(3), np.zeros((3, 0)))
    bare.save(tmp_path / "bare.npz")
    assert Table.load(tmp_path / "bare.npz").scales is None
    assert Table.load(tmp_path / "bare.npz").factor_names == ()


def test_failed_save_leaves_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "table.npz"
    identity().save(path)
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        rotated().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_not_tables_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="expected codes, mostly with factors"):
        Table.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", codes=np.array([object()]))
    with pytest.raises(ValueError, match=r"'codes' of .*pickled objects"):
        Table.load(tmp_path / "objects.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"codes": np.full((4, 2), np.nan)}, "finite codes"),
        ({"factors": [[0, 1]] * 3}, "as many rows"),
        ({"factors": [[0, -1]] * 4}, "numbered from 0"),
        ({"scales": np.zeros((4, 2))}, "positive scales"),
        ({"scales": np.ones((4, 3))}, "scales of the shape"),
        ({"kl": np.ones(3)}, r"kl of shape \(2,\)"),
        ({"discrete": [0, 1]}, "2 booleans"),
        ({"factor_names": ("a", "a")}, "2 different factor names"),
        ({"factor_sizes": (2,)}, "2 factor sizes"),
        ({"factor_sizes": (1, 1)}, "below its size 1, got 1"),
    ],
)
def test_bad_tables(columns, message):
    good = {"codes": np.ones((4, 2)), "factors": [[0, 1]] * 4}
    with pytest.raises(ValueError, match=message):
        Table(**(good | columns))


def test_evaluate_runs_every_applicable_metric(caplog):
    full = identity()
    assert list(select(full)) == [key for key, metric in METRICS.items() if not metric.slow]
    assert list(select(full, "all")) == list(METRICS)
    assert left_out(full) == {}
    bare = Table(full.codes, full.factors)
    with caplog.at_level(logging.INFO):
        scores = evaluate(bare, metrics="mig, mcc")
    assert list(scores) == ["mig/locatello2019", "mcc/hyvarinen2016"]
    assert "mig/chen2018 is left out: the table has no posterior scales" in caplog.text
    assert left_out(bare) == {"mig/chen2018": "the table has no posterior scales"}
    assert list(evaluate(bare, metrics="mig")) == ["mig/locatello2019"]
    direct = mig(full.codes, full.factors, protocol="locatello2019")
    assert float(scores["mig/locatello2019"]) == float(direct)


def test_evaluate_passes_the_columns_of_the_table():
    collapsed = replace(identity(), kl=np.zeros(3))
    score = evaluate(collapsed, metrics=["factor_vae_score/kim2018"])["factor_vae_score/kim2018"]
    assert float(score) == 0.0
    assert set(score.parts) == {"shape", "scale", "x"}


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        (np.zeros((4, 0), int), "the table has no factors"),
        (np.ones((4, 2), int), "no factor of the table takes two values"),
    ],
)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_tables_without_factors(factors, reason):
    unlabelled = Table(np.eye(4), factors)
    assert evaluate(unlabelled).to_json() == describe(unlabelled).to_json() != {}
    assert set(left_out(unlabelled).values()) == {reason}


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_table_whose_values_never_repeat():
    unique = Table(np.eye(4), np.arange(4)[:, None])
    assert "mig/locatello2019" in evaluate(unique, metrics="mig")
    assert "two rows share" in left_out(unique)["factor_vae_score/kim2018"]


def test_named_metrics_must_apply():
    bare = Table(identity().codes, identity().factors)
    with pytest.raises(ValueError, match=r"scored by mig/chen2018, but .* no posterior scales"):
        evaluate(bare, metrics=["mig/chen2018"])
    with pytest.raises(ValueError, match=r"'migg' is not known: did you mean 'mig'"):
        evaluate(bare, metrics=["migg"])


def test_gaussian_mixtures_are_only_made_of_normal_posteriors():
    codes, factors = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20)[:, None] % [4, 5]
    whole = dict(codes=codes, factors=factors, scales=np.ones((20, 3)))
    assert left_out(Table(**whole)) == {}
    for column in ("discrete", "normal"):
        mask = np.array([False, True, column == "discrete"])
        kept = mask if column == "normal" else ~mask
        table = Table(**whole, **{column: mask})
        others = ", ".join(f"code {j}" for j in np.flatnonzero(~kept))
        assert left_out(table) == {"mig/chen2018": f"q(z|x) is not normal in {others}"}
    both = Table(
        **whole, discrete=np.array([True, False, False]), normal=np.array([False, True, True])
    )
    assert left_out(both) == {"mig/chen2018": "q(z|x) is not normal in code 0"}
    with pytest.raises(ValueError, match="expected normal as 3 booleans"):
        Table(**whole, normal=np.ones(3))


def test_unsupervised_metrics_are_selected_by_name():
    full = blurred()
    every = evaluate(full, metrics="unsupervised")
    assert every.to_json() == describe(full).to_json()
    assert set(every) == {key for key in UNSUPERVISED if key != "active_units/kl"}
    both = evaluate(full, metrics=["mig/locatello2019", "hoyer"], interval=0.9, resamples=3)
    assert list(both)[1:] == ["hoyer/mathieu2019", "hoyer/mathieu2019-normalised"]
    assert both["mig/locatello2019"].interval
    assert both["hoyer/mathieu2019"].interval is None
    with pytest.raises(ValueError, match="active_units/kl: the table has no kl"):
        evaluate(full, metrics="active_units/kl")
    with pytest.raises(ValueError, match=r"'sparsity' is not known: .*unsupervised"):
        evaluate(full, metrics="sparsity")
    unlabelled = Table(full.codes, np.zeros((len(full), 0), int))
    assert "hoyer/mathieu2019" in evaluate(unlabelled, metrics="unsupervised")


@pytest.mark.parametrize("key", UNSUPERVISED)
def test_unsupervised_metrics_have_the_name_and_protocol_of_their_key(key):
    full = blurred()
    score = UNSUPERVISED[key](replace(full, kl=np.ones(3)))
    assert score.key == key
    assert inspect.getdoc(UNSUPERVISED[key].compute)
