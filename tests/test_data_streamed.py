"""Data larger than memory: windows of a file, what of them training sees, and in which order."""

import threading

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import unweave as uw
from byte_images import everything
from datasets import CPU, SMALL
from unweave.data import Arrays, Selected, StreamedDataset, Subset, from_array
from unweave.data.files import rows, streaming as streamed
from unweave.data.random_split import PERCENT, split_rows
from unweave.data.scaling import BYTES
from unweave.training import train
from unweave.training.run import Run
from unweave.training.sampler import Feed, Sampler
from unweave.training.store import Store

SIZE = 103
IMAGES = np.random.default_rng(3).integers(0, 256, (SIZE, 6, 8, 3), dtype=np.uint8)
FACTORS = np.random.default_rng(4).integers(0, 4, (SIZE, 2))


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Use chunks of 5 observations, windows of up to 33, and a temporary cache."""
    monkeypatch.setattr(streamed, "FEW", 6)
    each = IMAGES[0].nbytes
    monkeypatch.setattr(streamed, "CHUNK", 5 * each)
    monkeypatch.setattr(streamed, "WINDOW", 33 * each)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "kept"))


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "a.npz", imgs=IMAGES, factors=FACTORS)
    return tmp_path / "a.npz"


def dataset_of(path, **fields):
    return Arrays(path, factors_key="factors", stream=True, **fields).load(CPU)


def in_turn(sampler, step):
    sampler.seek(step)
    return sampler.indices(torch.tensor(step), sampler.orders)


def written(folder, kind):
    """Write the same observations and factors to a file of some kind; return specs for it."""
    path, key = folder / f"a.{kind}", "imgs"
    if kind == "npy":
        np.save(path, IMAGES)
        return Arrays(path), Arrays(path, stream=True)
    if kind in ("npz", "packed.npz"):
        save = np.savez if kind == "npz" else np.savez_compressed
        save(path, imgs=IMAGES, factors=FACTORS)
    if kind in ("h5", "packed.h5"):
        with h5py.File(path, "w") as content:
            packed = {} if kind == "h5" else {"chunks": (7, 6, 8, 3), "compression": "gzip"}
            content.create_dataset("group/imgs", data=IMAGES, **packed)
            content.create_dataset("factors", data=FACTORS)
        key = "group/imgs"
    if kind == "parquet":
        columns = {"a": FACTORS[:, 0], "factors": FACTORS[:, 1]}
        vectors = {"v": list(IMAGES.reshape(SIZE, -1)), **columns}
        pq.write_table(pa.table(vectors), path, row_group_size=9)
        key = "v"
    scale = "bytes" if kind == "parquet" else None
    return tuple(Arrays(path, key, "factors", stream=s, scale=scale) for s in (None, True))


KINDS = ["npy", "npz", "packed.npz", "h5", "packed.h5", "parquet"]


@pytest.mark.parametrize(
    ("kind", "split"), [*((kind, "all") for kind in KINDS), ("npy", "train"), ("packed.h5", "test")]
)
def test_streamed_files_give_the_same_observations_as_in_memory(tmp_path, monkeypatch, kind, split):
    specs = written(tmp_path, kind)
    held = Arrays(**{**vars(specs[0]), "split": split}).load(CPU)
    monkeypatch.setattr(rows, "MOST", 1000)  # so that nothing is loaded
    dataset = Arrays(**{**vars(specs[1]), "split": split}).load(CPU)
    assert isinstance(dataset, StreamedDataset)
    assert (dataset.size, dataset.shape, dataset.bounded) == (held.size, held.shape, held.bounded)
    assert torch.equal(everything(dataset), everything(held))
    index = torch.tensor([[5, 0], [0, 7]])
    assert torch.equal(dataset.images(index), held.images(index))
    assert torch.equal(dataset.factors(index), held.factors(index))
    sampler = Sampler(torch.tensor([3]), dataset, 4)
    for step in range(2 * sampler.per_epoch):
        seen = in_turn(sampler, step)[0]
        assert torch.equal(sampler.images(seen), held.images(seen))


def test_an_epoch_is_a_permutation_that_follows_from_seed_and_epoch(file):
    dataset = dataset_of(file)
    sampler = Sampler(torch.tensor([0, 1]), dataset, 8, updates=2)
    window = sampler.feed.steps * 8
    assert window == 32
    for epoch in range(3):
        in_turn(sampler, epoch * sampler.per_epoch)
        orders = sampler.orders
        for order in orders.flatten(0, 1):
            assert order.sort().values.tolist() == list(range(SIZE))
        # Windows are the same rows for all seeds and updates, each in an order of its own.
        for start in range(0, SIZE, window):
            parts = orders[..., start : start + window].flatten(0, 1)
            assert (parts.sort().values == parts[0].sort().values).all()
            assert len({tuple(part.tolist()) for part in parts}) == len(parts)
    alone = Sampler(torch.tensor([1]), dataset, 8, updates=2)
    assert torch.equal(in_turn(alone, 20)[:, 0], in_turn(sampler, 20)[:, 1])
    assert [sampler.steps_left(step) for step in (0, 3, 4, 11, 12, 16)] == [4, 1, 4, 1, 4, 4]
    assert not torch.equal(in_turn(sampler, 0), in_turn(sampler, 12))


def test_data_that_fit_into_a_window_are_shuffled_as_in_memory(file, monkeypatch):
    monkeypatch.setattr(streamed, "WINDOW", IMAGES.nbytes)
    sampler = Sampler(torch.tensor([0]), dataset_of(file), 8)
    left_out = set()
    for epoch in range(40):
        in_turn(sampler, epoch * sampler.per_epoch)
        left_out |= set(sampler.orders[0, 0, -7:].tolist())
        assert sampler.steps_left(epoch * sampler.per_epoch) == sampler.per_epoch == 12
    assert len(left_out) > 80  # not the same few chunks


def test_fixed_windows_hold_the_same_rows(file):
    """As on CUDA, where captured steps read the same memory every time."""
    dataset = dataset_of(file)
    sampler = Sampler(torch.tensor([5]), dataset, 8)
    fixed = Feed(dataset, 8, CPU, fixed=True)
    places = set()
    for step in range(3 * sampler.per_epoch):
        seen = in_turn(sampler, step)[0]
        fixed.seek(*divmod(step, sampler.per_epoch))
        assert torch.equal(fixed.images(seen), dataset.images(seen))
        places.add((fixed._data.data_ptr(), fixed._begins.data_ptr()))
    assert len(places) == 1


@pytest.mark.gpu
def test_cuda_trains_as_the_cpu_does(file):
    run = run_on(file)
    there, here = (train([run], run.data.load(torch.device(d)))[0] for d in ("cuda", "cpu"))
    for name, value in here.weights.items():
        torch.testing.assert_close(there.weights[name].cpu(), value, rtol=1e-2, atol=1e-4)


def test_a_window_is_whole_chunks_in_a_random_order(file):
    dataset = dataset_of(file)
    sampler = Sampler(torch.tensor([0]), dataset, 8)
    in_turn(sampler, 0)
    first = sampler.orders[0, 0, :32].sort().values
    chunks = (first // 5).unique(return_counts=True)[1]
    assert (chunks == 5).sum() >= 5
    assert (chunks < 5).sum() <= 2
    assert not torch.equal(first, torch.arange(32))


def run_on(file, **fields):
    data = Arrays(file, factors_key="factors", stream=True)
    given = dict(network=uw.MLP((8,)), latent=uw.Gaussian(2), batch_size=8, steps=20) | fields
    return Run(data=data, **given).resolve(data.load(CPU))


def test_lanes_over_threads_equal_solo_runs(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (SIZE, 16, 16), dtype=np.uint8)
    np.save(tmp_path / "b.npy", images)
    data = Arrays(tmp_path / "b.npy", stream=True)
    torch.set_num_threads(2)
    runs = [
        Run(data=data, network=uw.MLP((8,)), latent=uw.Gaussian(2), batch_size=8, steps=15, seed=s)
        for s in range(2)
    ]
    dataset = data.load(CPU)
    runs = [run.resolve(dataset) for run in runs]
    together = train(runs, dataset)
    torch.set_num_threads(1)
    for run, outcome in zip(runs, together, strict=True):
        alone = train([run], data.load(CPU))[0]
        for name, value in alone.weights.items():
            torch.testing.assert_close(outcome.weights[name], value, rtol=1e-4, atol=1e-6)


def test_a_resumed_run_ends_with_the_same_bits(file, tmp_path):
    run = run_on(file)
    whole = train([run], run.data.load(CPU))[0]

    class Stop(Exception):
        pass

    class Stopping(uw.training.Silent):
        def advance(self, step, rows):
            if step == 17:
                raise Stop

    store = Store(tmp_path / "runs")
    with pytest.raises(Stop):
        train([run], run.data.load(CPU), store, Stopping(), checkpoint_seconds=0)
    assert store.folder(run).states
    again = train([run], run.data.load(CPU), store)[0]
    assert all(torch.equal(again.weights[name], w) for name, w in whole.weights.items())


def test_changed_data_are_detected(file, tmp_path):
    run, store = run_on(file, steps=2), Store(tmp_path / "runs")
    train([run], run.data.load(CPU), store)
    changed = IMAGES.copy()
    changed[50, 2, 2, 2] ^= 1
    np.savez(file, imgs=changed, factors=FACTORS)
    with pytest.raises(ValueError, match=r"the data in .* have changed"):
        train([run], run.data.load(CPU), store)


def test_the_scan_is_cached_until_the_file_changes(file, monkeypatch):
    dataset = dataset_of(file)
    monkeypatch.setattr("unweave.data.files.build.scan", None)  # a second pass would fail
    assert dataset_of(file).fingerprint == dataset.fingerprint


def test_a_file_that_becomes_shorter_is_named(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, IMAGES)
    dataset = Arrays(path, stream=True).load(CPU)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"a\.npy ends before observation 102"):
        everything(dataset)
    with pytest.raises(ValueError, match=r"a\.npy ends before"):
        dataset.windows.get(0, 0, SIZE)


def test_few_windows_are_kept_in_memory(file):
    dataset = dataset_of(file)
    sampler = Sampler(torch.tensor([0]), dataset, 8)
    for step in range(4 * sampler.per_epoch):
        sampler.seek(step)
        assert len(dataset.windows._windows) <= 3
    assert sum(t.name.startswith("windows") for t in threading.enumerate()) >= 1


def test_poor_shuffling_is_noted(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as content:
        content.create_dataset("imgs", data=IMAGES, chunks=(50, 6, 8, 3))
    assert any("poorly" in n for n in Arrays(tmp_path / "a.h5", stream=True).load(CPU).notes)
    np.save(tmp_path / "a.npy", IMAGES)
    notes = Arrays(tmp_path / "a.npy", stream=True).load(CPU).notes
    assert "batches are drawn from windows of 33 observations, chunks of 5" in notes[-1]
    np.save(tmp_path / "a.npy", IMAGES[:30])  # all in one window: shuffled as in memory
    assert (
        Arrays(tmp_path / "a.npy", stream=True)
        .load(CPU)
        .notes[-1]
        .endswith("streamed from the file")
    )


def test_splits_are_disjoint_and_together_all(file):
    datasets = {p: Arrays(file, split=p).load(CPU) for p in ("train", "validation", "test")}
    assert [dataset.size for dataset in datasets.values()] == [82, 10, 11]
    found = torch.cat([everything(dataset) for dataset in datasets.values()]).flatten(1)
    whole = everything(Arrays(file).load(CPU)).flatten(1)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, whole.tolist()))
    assert all(dataset.lattice is None for dataset in datasets.values())


@pytest.mark.parametrize("stream", [False, True])
def test_a_number_means_the_same_in_every_split(tmp_path, monkeypatch, stream):
    """One bright pixel in the training split decides that all splits are bytes."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    images = np.ones((20, 4, 4), np.uint8)
    images[:, :2] = np.unpackbits(np.arange(20, dtype=np.uint8)).reshape(20, 2, 4)  # no copies
    images[split_rows("train", 20)[0]], images[split_rows("test", 20)[0]] = 255, 0
    np.save(tmp_path / "a.npy", images)
    splits = [Arrays(tmp_path / "a.npy", split=p, stream=stream).load(CPU) for p in PERCENT]
    assert {(dataset.schema.scaling, dataset.bounded) for dataset in splits} == {(BYTES, True)}
    for dataset, split in zip(splits, PERCENT, strict=True):
        expected = torch.from_numpy(images[split_rows(split, 20)]) / 255
        torch.testing.assert_close(everything(dataset)[:, 0], expected)
    assert len({dataset.fingerprint for dataset in splits}) == 3


def test_a_mapped_array_is_not_copied_into_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", IMAGES)
    monkeypatch.setattr("unweave.data.files.arrays.MOST", 1000)
    with pytest.raises(ValueError, match=r"pass the path of the \.npy file"):
        from_array(np.load(tmp_path / "a.npy", mmap_mode="r"))


def test_a_run_is_evaluated_on_another_split(file, tmp_path):
    data = Arrays(file, factors_key="factors", split="train")
    model = uw.fit(data, network=uw.MLP((8,)), batch_size=8, steps=2, store=tmp_path / "runs",
                   progress=False)  # fmt: skip
    unseen = uw.load(model.folder, split="test")
    assert torch.equal(everything(unseen.dataset), everything(Arrays(file, split="test").load(CPU)))
    assert len(unseen.table().codes) == 11
    np.testing.assert_array_equal(unseen.encode(IMAGES[:3]), model.encode(IMAGES[:3]))
    drawn = uw.fit(SMALL, network=uw.MLP((8,)), steps=2, store=tmp_path / "runs", progress=False)
    with pytest.raises(ValueError, match="shapes2d has no splits"):
        uw.load(drawn.folder, split="test")


@pytest.mark.parametrize("sampled", [False, True])
def test_a_run_on_all_data_has_seen_every_split(file, tmp_path, sampled):
    data = Arrays(file, factors_key="factors")
    data = Selected(data, (Subset(8),)) if sampled else data
    model = uw.fit(data, network=uw.MLP((8,)), batch_size=8, steps=2, store=tmp_path / "runs",
                   split="all", progress=False)  # fmt: skip
    for split in ("validation", "test"):
        with pytest.warns(UserWarning, match=rf"it has seen the {split} split.*data\.split=train"):
            uw.load(model.folder, split=split)
    uw.load(model.folder, split="train")  # and no warning, which would be an error here
