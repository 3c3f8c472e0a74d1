"""Missing and continuous labels on their way into tables, metrics, selections and losses."""

import dataclasses

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU, small_run
from unweave.catalogue.data import describe_dataset
from unweave.catalogue.palette import MISSING_LABEL
from unweave.catalogue.preview import factor_traversals, preview_sheet
from unweave.core.noise import Noise
from unweave.data import MISSING, Correlated, HeldOut, Incomplete, Selected, from_array
from unweave.metrics import MissingLabelsWarning, Table, evaluate, left_out, mig
from unweave.objectives import Batch, Label, LabelTargets, with_labels
from unweave.report import render
from unweave.report.analysis import BestVariables, analyse
from unweave.report.figures import _groups
from unweave.training.overrides import runs_from, selection_from, selection_text

RNG = np.random.default_rng(0)
ROWS = 300
KIND = np.arange(ROWS) % 3
SIZE = RNG.normal(size=ROWS).round(4)
IMAGES = (RNG.random((ROWS, 1, 8, 8)) * 0.2 + KIND[:, None, None, None] / 4).astype(np.float32)


def with_gaps(kind_gaps=(), size_gaps=()):
    """Return images with a class and a number each, of which some are missing."""
    factors = np.stack([KIND.astype(float), SIZE], 1)
    factors[list(kind_gaps), 0] = np.nan
    factors[list(size_gaps), 1] = np.nan
    return from_array(IMAGES, factors, ["kind", "size"])


@pytest.fixture(scope="module")
def fitted():
    spec, _ = with_gaps(range(0, 30), range(20, 45))
    model = uw.fit(spec, network=uw.MLP((16,)), steps=20, split="all", progress=False)
    return model


def test_the_table_holds_numbers_and_gaps(fitted):
    table = fitted.table()
    assert len(table) == ROWS
    assert np.isnan(table.factors[:, 0]).sum() == 30
    np.testing.assert_array_equal(table.factors[45:, 1], SIZE[45:])
    assert table.continuous == ("size",)
    assert table.factor_sizes == (3, 0)
    assert table.missing_labels == "45 of 300 observations have missing labels and are not scored"
    assert len(table.labelled) == ROWS - 45
    assert table.labelled.labelled is table.labelled
    assert "kind 3, size of real numbers" in repr(table)


def test_missing_rows_are_left_out_as_if_only_the_others_were_there(fitted):
    table = fitted.table()
    rows = np.arange(45, ROWS)
    factors = np.stack([KIND[rows], SIZE[rows]], 1)
    with pytest.warns(MissingLabelsWarning, match="45 of 300 observations have missing labels"):
        scores = evaluate(table, metrics="mig/locatello2019,mcc,active_units")
    alone = mig(table.codes[rows], factors, continuous=[1])
    assert scores["mig/locatello2019"].value == alone.value
    subset = Table(table.codes[rows], factors, continuous=["factor 1"])
    expected = evaluate(subset, metrics="mcc")["mcc/hyvarinen2016"].value
    # Matrix products round by how their operands lie in memory.
    assert scores["mcc/hyvarinen2016"].value == pytest.approx(expected, rel=1e-12)
    # Unsupervised metrics use all rows.
    assert [s.details["rows"] for s in scores.values()][-1] == ROWS
    assert left_out(table) == left_out(table.labelled)


def test_a_continuous_factor_scores_as_its_numbers_do():
    spec, _ = with_gaps()
    model = uw.fit(spec, network=uw.MLP((16,)), steps=5, split="all", progress=False)
    table = model.table()
    direct = mig(model.codes(IMAGES), np.stack([KIND, SIZE], 1))
    assert evaluate(table, metrics="mig/locatello2019")["mig/locatello2019"].value == pytest.approx(
        direct.value, abs=1e-12
    )
    assert table.missing_labels is None


def test_a_factor_with_few_labels_is_left_out(recwarn):
    factors = np.stack([KIND.astype(float), np.full(ROWS, np.nan)], 1)
    factors[:10, 1] = 1
    factors[5:10, 0] = np.nan
    table = Table(
        np.eye(ROWS, 4), factors, factor_names=("kind", "size"), row_names=tuple("ab" * 150)
    )
    assert table.labelled.factor_names == ("kind",)
    assert len(table.labelled) == len(table.labelled.row_names) == ROWS - 5
    text = "5 of 300 observations have missing labels and are not scored"
    assert table.missing_labels == f"{text}; size: too few labels are known, left out"
    assert table.too_few_rows == table.labelled.too_few_rows
    nothing = Table(np.eye(4), np.full((4, 1), np.nan), factor_sizes=(3,))
    assert nothing.labelled.factors.shape == (4, 0)
    assert len(recwarn) == 0


def test_a_table_with_gaps_and_row_names_is_saved(tmp_path, fitted):
    table = dataclasses.replace(fitted.table(), row_names=tuple(f"n{i}.png" for i in range(ROWS)))
    table.save(tmp_path / "t.npz")
    again = Table.load(tmp_path / "t.npz")
    assert again.row_names == table.row_names
    np.testing.assert_array_equal(again.factors, table.factors)
    assert again.continuous == ("size",)
    with pytest.raises(ValueError, match="names of all 300 rows or of none, got 3"):
        dataclasses.replace(table, row_names=("a", "b", "c"))


def test_negative_whole_numbers_can_be_continuous():
    table = Table(np.eye(4), [[-3], [2], [5], [0]], factor_names=("t",), continuous=["t"])
    assert table.factor_sizes == (0,)
    assert table.continuous_mask.tolist() == [True]


def test_the_rows_of_a_dataset_keep_their_names_in_the_table(tmp_path):
    lines = [f"s{n},{n % 3},{n % 5 / 4}" for n in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["sample,u,v", *lines]))
    model = uw.fit(
        uw.data.Arrays(tmp_path / "t.csv"),
        network=uw.MLP((4,)),
        steps=2,
        batch_size=8,
        progress=False,
    )
    table = model.table(rows=7)
    index = model.rows(7).tolist()
    assert table.row_names == tuple(f"s{n}" for n in index)


# ---- selections


def test_rows_that_lack_a_label_are_in_neither_split():
    spec, dataset = with_gaps(kind_gaps=range(0, 30), size_gaps=range(270, 300))
    parts = {}
    for split in ("rest", "held-out"):
        selected = Selected(spec, (HeldOut({"kind": (2,)}, split=split),)).load(CPU)
        parts[split] = selected.factors(torch.arange(selected.size))[:, 0]
        assert "without 30 that have no label of kind" in selected.notes[-1]
    assert set(parts["rest"].tolist()) == {0, 1}
    assert set(parts["held-out"].tolist()) == {2}
    assert sum(map(len, parts.values())) == 270
    numbers = Selected(spec, (HeldOut({"size": ("0..9",)}, split="held-out"),)).load(CPU)
    expected = np.flatnonzero((SIZE >= 0) & (np.arange(ROWS) < 270))
    assert numbers.rows.tolist() == expected.tolist()
    for selection in (
        Incomplete(("kind",), share=0.34),
        Incomplete(("kind",), share=0.34, split="held-out"),
        Correlated(("kind", "size")),
    ):
        loaded = Selected(spec, (selection,)).load(CPU)
        assert (loaded.factors(torch.arange(loaded.size))[:, 0] != MISSING).all()
    assert dataset.size == ROWS


# ---- semi-supervision


def test_the_gradient_ignores_observations_without_a_label():
    """Equal to leaving them out of the sum, over the expected number of those with a label."""
    spec, dataset = with_gaps(kind_gaps=range(0, 60))
    latent = uw.Product(style=uw.Gaussian(2), what=uw.Categorical(3))
    labels = (Label("kind", block="what", share=1.0),)
    run = small_run(data=spec, latent=latent, labels=labels, network=uw.MLP((8,)))
    nets = run.build(dataset.shape).double()
    targets = LabelTargets(labels, latent, dataset)
    update = with_labels(run.objective.updates[0], labels, run.weights)

    def label_term(index):
        x = dataset.images(index).double()
        terms, _ = update.loss(nets, Batch(x, dataset.size, targets.targets(index)), Noise(0), {})
        return terms["label_kind_what"].value

    values = label_term(torch.arange(40, 80))
    assert (values[:20] == 0).all()
    known = label_term(torch.arange(60, 80))
    torch.testing.assert_close(values[20:], known)
    q = nets.model.encode(dataset.images(torch.arange(60, 80)).double())
    nats = -uw.latents.distribution_at(q, "what").log_prob(
        torch.nn.functional.one_hot(torch.from_numpy(KIND[60:80]), 3).double()
    )
    torch.testing.assert_close(known, nats * 300 / 240)  # 240 of 300 observations have a label
    parameters = [p for p in nets.model.parameters() if p.requires_grad]
    mixed = torch.autograd.grad(values.sum(), parameters, allow_unused=True)
    alone = torch.autograd.grad(known.sum(), parameters, allow_unused=True)
    for one, two in zip(mixed, alone, strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two)


# ---- what is shown


def test_previews_and_descriptions_show_gaps():
    spec, dataset = with_gaps(range(0, 30), range(20, 45))
    for traversal in factor_traversals(dataset):
        column = dataset.factor_names.index(traversal.name)
        codes = dataset.factors(traversal.rows)[:, column]
        assert (codes != MISSING).all()
        assert (codes.diff() > 0).all()
    assert preview_sheet(dataset).picture.size
    text = describe_dataset(spec, dataset)
    numbers = f"size: 275 numbers from {np.delete(SIZE, range(20, 45)).min():g}"
    assert f"- factors: kind 3 (0, 1, 2), 30 missing; {numbers}" in text
    assert ", 25 missing" in text
    vectors, plane = from_array(np.eye(6)[:, :2], np.array([0, 1, np.nan, 0, 1, 1]))
    picture = np.asarray(preview_sheet(plane).picture)
    grey = (picture == MISSING_LABEL).all(-1).sum()
    complete = np.asarray(preview_sheet(from_array(np.eye(6)[:, :2], np.arange(6) % 2)[1]).picture)
    assert grey > (complete == MISSING_LABEL).all(-1).sum()  # the point without a label is grey
    assert vectors.shape == (6, 2)


def test_a_factor_may_be_called_kind():
    """As the field of a spec is that says which it is."""
    selection = selection_from("held-out:kind=2,split=held-out")
    assert selection == HeldOut(({"kind": (2,)},), split="held-out")
    assert selection_from(selection_text(selection)) == selection
    with pytest.raises(ValueError, match="a block of a Product cannot be called 'kind'"):
        runs_from(["latent=product", "latent.kind=categorical", "latent.kind.size=3"])


def test_codes_are_drawn_against_bins_of_a_continuous_factor(fitted):
    table = fitted.table().labelled
    best = BestVariables(uw.data.Factor("size", 3), 1, [], "")
    groups = _groups(best, table)
    assert (np.stack([rows for _, rows in groups]).sum(0) == 1).all()
    sizes = [rows.sum() for _, rows in groups]
    assert max(sizes) - min(sizes) <= 2
    xs = [x for x, _ in groups]
    assert xs == sorted(xs)
    assert len(xs) == 15


def test_a_report_analyses_the_rows_with_labels(fitted):
    with pytest.warns(MissingLabelsWarning):
        analysis = analyse(fitted, ROWS)
    assert len(analysis.table) == ROWS
    assert [factor.name for _, factor in analysis.factors] == ["kind", "size"]
    assert np.isfinite(analysis.shares.values).all()
    assert analysis.shares.values.shape[1] == 2
    assert all(0 <= start.row < ROWS for start in analysis.starts())
    text = render(fitted, rows=ROWS, scores=analysis.scores)
    assert "45 of 300 observations have missing labels and are not scored." in text
