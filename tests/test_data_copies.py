"""Copies of an observation are in one split, so that none of what is held out is trained on."""

import re
from contextlib import suppress

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.data import Selected, Subset
from unweave.data.files import build, copies
from unweave.data.files.build import array_dataset, take_split
from unweave.data.files.copies import first_copies
from unweave.data.files.rows import InMemoryRows
from unweave.data.random_split import PERCENT, split_rows
from unweave.data.splits import with_split
from unweave.training.own_data import Datasets
from unweave.training.store import Store

CPU = torch.device("cpu")


def mixed(distinct=60, copies=5):
    """Copies in random order."""
    rng = np.random.default_rng(1)
    return np.repeat(rng.normal(size=(distinct, 3)), copies, 0)[rng.permutation(distinct * copies)]


def rows_of(dataset):
    return {row.tobytes() for row in dataset.images(torch.arange(dataset.size)).numpy()}


@pytest.mark.parametrize("stream", [True, False])
def test_splits_share_no_observation_and_are_the_same_however_they_are_loaded(tmp_path, stream):
    x = mixed()
    np.save(tmp_path / "x.npy", x)
    files = uw.Arrays(tmp_path / "x.npy", stream=stream)
    whole = array_dataset(x)
    found = {split: with_split(files, split).load(CPU) for split in PERCENT}
    assert [each.size for each in found.values()] == [240, 30, 30]
    assert sum(len(rows_of(each)) for each in found.values()) == 60
    for split, dataset in found.items():
        taken = take_split(whole, split)
        assert taken.fingerprint == dataset.fingerprint
        assert rows_of(taken) == rows_of(dataset)
    assert any("300 observations, 60 distinct" in note for note in whole.notes)
    assert any("300 observations, 60 distinct" in note for note in found["train"].notes)


def test_data_without_copies_keep_their_split():
    x = np.random.default_rng(0).normal(size=(120, 3))
    whole = array_dataset(x)
    assert whole.first is None
    for split in PERCENT:
        expected = torch.from_numpy(split_rows(split, 120))
        assert torch.equal(take_split(whole, split).data, whole.data[expected])
    assert not any("distinct" in note for note in whole.notes)


def test_every_row_is_in_one_split_and_many_copies_are_trained_on():
    first = np.arange(100)
    first[40:] = 40  # as blank images
    splits = [split_rows(split, 100, first) for split in PERCENT]
    assert sorted(np.concatenate(splits).tolist()) == list(range(100))
    assert set(range(40, 100)) <= set(splits[0].tolist())
    with pytest.raises(ValueError, match="5 distinct observations are too few for a validation"):
        split_rows("validation", 100, np.arange(100) % 5)


@pytest.mark.parametrize("distinct", range(1, 15))
def test_an_observation_that_is_a_tenth_of_the_data_is_never_held_out(distinct):
    first = np.arange(20 * distinct) % distinct
    held_out = []
    for split in ("validation", "test"):
        with suppress(ValueError):  # too few
            held_out += split_rows(split, len(first), first).tolist()
    frequent = distinct < 10
    assert bool(held_out) != frequent
    assert len(held_out) + len(split_rows("train", len(first), first)) == len(first)


@pytest.mark.parametrize(("distinct", "split"), [(5, "all"), (40, "all"), (50, "train")])
def test_nothing_is_held_out_of_few_distinct_observations(distinct, split, tmp_path):
    x = mixed(distinct)
    np.save(tmp_path / "x.npy", x)
    datasets = Datasets(CPU)
    assert datasets.training_split(datasets.add(*uw.data.from_array(x))).split == split
    for stream in (True, False):
        data = uw.Arrays(tmp_path / "x.npy", stream=stream)
        assert datasets.load(data).distinct == distinct
        assert datasets.training_split(data).split == split
        some = Selected(data, (Subset(len(x) - 1),))
        assert datasets.load(some).distinct == distinct


def test_few_distinct_observations_of_streamed_data_are_trained_on(tmp_path):
    np.save(tmp_path / "x.npy", mixed(5, 60))
    data = uw.Arrays(tmp_path / "x.npy", stream=True)
    model = uw.fit(data, steps=2, progress=False, network=uw.MLP(hidden=(4,)))
    assert model.run.data.split == "all"


def test_copies_are_recognised_by_value_whatever_the_order_of_axes_and_bytes():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (6, 8, 8, 3), dtype=np.uint8)[[0, 1, 2, 0, 4, 1]]
    expected = [0, 1, 2, 0, 4, 1]
    assert array_dataset(images).first.tolist() == expected
    assert array_dataset(images.transpose(0, 3, 1, 2)).first.tolist() == expected
    swapped = images.astype(">f8")
    assert array_dataset(swapped, scale="standardise").first.tolist() == expected


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i2", "?"])
@pytest.mark.parametrize("columns", [1, 3, 5])
def test_first_copies_are_those_of_a_plain_search(dtype, columns):
    """Also for values that differ in few bits, such as small whole numbers."""
    x = np.random.default_rng(columns).integers(0, 4, (300, columns)).astype(dtype)
    seen = {}
    expected = [seen.setdefault(row.tobytes(), number) for number, row in enumerate(x)]
    assert first_copies(InMemoryRows(x), lambda block: block).tolist() == expected
    assert first_copies(InMemoryRows(x[list(seen.values())]), lambda block: block) is None


def test_rows_with_the_same_first_checksum_are_told_apart_by_the_second(monkeypatch):
    def checksums(block):
        return np.stack([block[:, 0] % 2, block[:, 0]]).astype(np.uint64)

    monkeypatch.setattr(copies, "_checksums", checksums)
    for values, expected in (([2, 4, 2, 1, 4, 3], [0, 1, 0, 3, 1, 5]), ([2, 4, 1], None)):
        found = first_copies(InMemoryRows(np.array(values)[:, None]), lambda block: block)
        assert found is None if expected is None else found.tolist() == expected


def test_data_that_are_not_searched_for_copies_say_so(monkeypatch):
    monkeypatch.setattr(copies, "MOST", 300 * 3 * 8 - 1)
    whole = array_dataset(mixed())
    assert whole.first is None
    assert any("are not searched for copies" in note for note in whole.notes)


@pytest.mark.parametrize("split", ["train", "all"])
def test_a_run_on_another_split_does_not_say_that_its_data_have_changed(
    split, tmp_path, monkeypatch
):
    np.save(tmp_path / "x.npy", mixed())
    data, store = uw.Arrays(tmp_path / "x.npy", split=split), Store(tmp_path / "runs")
    with monkeypatch.context() as earlier:  # copies were split like other observations
        earlier.setattr(build, "split_rows", lambda split, size, first: split_rows(split, size))
        options = {"store": store.root, "progress": False, "network": uw.MLP(hidden=(4,))}
        uw.fit(data, steps=2, split=split, **options)
    if split == "all":
        np.save(tmp_path / "x.npy", mixed() + 1)
    (folder,) = store.folders()
    changed = f"the data in {re.escape(data.path)}"
    changed += ", or how they are split," if split == "train" else ""
    trained = f"^{changed} have changed since the model was trained; if .*--data PATH, or data=PATH"
    with pytest.raises(ValueError, match=trained):
        uw.load(folder.path).table()
    with pytest.raises(ValueError, match=f"^{changed} have changed since training in"):
        folder.check_data(data.load(CPU))
