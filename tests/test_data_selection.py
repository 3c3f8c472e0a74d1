"""Selections and pairs: which observations they take, and that the result is a dataset."""

import math

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU
from unweave.core.spec import from_json, to_json
from unweave.data import (
    Arrays,
    Blocks,
    Correlated,
    HeldOut,
    Incomplete,
    Paired,
    Selected,
    Shapes2D,
    StreamedDataset,
    Subset,
    from_array,
    in_classes,
    write_features,
)
from unweave.metrics.inputs import merge
from unweave.networks import MLP
from unweave.training.overrides import runs_from, selection_from, selection_text

DATASET = Blocks((3, 4, 5), cell=1)
ALL = torch.arange(60)


def selected_rows(*selections, dataset=DATASET):
    """Return the combinations of factors that are selected, as tuples in order."""
    loaded = Selected(dataset, selections).load(CPU)
    return [tuple(row) for row in loaded.factors(torch.arange(loaded.size)).tolist()]


def test_without_selections_the_dataset_is_the_source():
    loaded = Selected(DATASET).load(CPU)
    assert loaded.lattice == DATASET.lattice
    assert torch.equal(loaded.images(ALL), DATASET.load(CPU).images(ALL))


def test_images_and_factors_are_those_of_the_source():
    loaded, whole = Selected(DATASET, (Subset(20),)).load(CPU), DATASET.load(CPU)
    index = torch.arange(20).view(4, 5)
    rows = whole.lattice.index(loaded.factors(index))
    assert torch.equal(loaded.images(index), whole.images(rows))
    assert loaded.notes == ("20 observations of 60: 20 at random",)
    with pytest.raises(ValueError, match="between 0 and 19"):
        loaded.images(torch.tensor(20))


def test_subsets_are_distinct_ordered_and_drawn_by_the_seed():
    rows = selected_rows(Subset(20, seed=1))
    assert rows == sorted(set(rows))
    assert rows != selected_rows(Subset(20, seed=2))
    assert selected_rows(Subset(60)) == selected_rows()


def test_subsets_draw_every_observation_equally_often():
    dataset = DATASET.load(CPU)
    subsets = [Subset(15, seed).take(dataset, ALL) for seed in range(200)]
    counts = np.bincount(torch.cat(subsets), minlength=60)
    stddev = math.sqrt(200 * 0.25 * 0.75)  # binomial
    assert np.abs(counts - 50).max() < 4.5 * stddev


def test_held_out_combinations_and_the_rest_make_the_whole():
    classes = {"factor0": (0, 2), "factor2": (1,)}
    rest, held = selected_rows(HeldOut(classes)), selected_rows(HeldOut(classes, split="held-out"))
    assert set(held) == {row for row in selected_rows() if row[0] in (0, 2) and row[2] == 1}
    assert sorted(rest + held) == selected_rows()
    assert {row[0] for row in rest} == {0, 1, 2}  # every class by itself is seen


def test_several_combinations_are_held_out_together():
    first, second = {"factor0": (0,), "factor1": (3,)}, {"factor2": (4,)}
    both = HeldOut((first, second), split="held-out")
    assert set(selected_rows(both)) == {
        row for row in selected_rows() if row[:2] == (0, 3) or row[2] == 4
    }
    assert selected_rows(HeldOut((first, second))) == selected_rows(HeldOut(first), HeldOut(second))
    assert from_json(HeldOut, to_json(both)) == both


def test_learned_features_are_held_out_like_factors(tmp_path):
    """Thick sevens and narrow zeros, as in sec. 6.4 of Esmaeili et al."""
    rng = np.random.default_rng(0)
    images, digits = rng.random((300, 4)).astype(np.float32), rng.integers(0, 10, 300)
    codes = np.stack([images.mean(1), images[:, 0]], 1)  # as if learned
    classes = in_classes(codes, 3)
    assert np.bincount(classes[:, 0]).tolist() == [100, 100, 100]
    assert codes[classes[:, 0] == 1, 0].max() <= codes[classes[:, 0] == 2, 0].min()
    path = tmp_path / "features.npz"
    write_features(path, classes, ["thickness", "width"])
    spec, _ = from_array(images, digits, ["class"], scale="none")
    unseen = ({"class": (7,), "thickness": (2,)}, {"class": (0,), "width": (0,)})
    held = (digits == 7) & (classes[:, 0] == 2) | (digits == 0) & (classes[:, 1] == 0)
    for split, rows in (("rest", ~held), ("held-out", held)):
        data = Selected(spec, (HeldOut(unseen, split),), path)
        dataset = data.load(CPU)
        assert np.array_equal(dataset.images(torch.arange(dataset.size)), images[rows])
        assert dataset.factor_names == ("class",)  # features are not factors
        assert from_json(Selected, to_json(data)) == data
    before = dataset.fingerprint
    write_features(path, classes[::-1])
    with pytest.raises(ValueError, match=r"'thickness' is not a factor.*feature0"):
        data.load(CPU)
    write_features(path, classes[:-1])
    with pytest.raises(ValueError, match=r"expected 300 rows of features .* got 299"):
        data.load(CPU)
    write_features(path, classes, ["class", "width"])
    with pytest.raises(ValueError, match="differ from those of factors"):
        data.load(CPU)
    write_features(path, np.roll(classes, 1, 0), ["thickness", "width"])
    assert data.load(CPU).fingerprint != before
    with pytest.raises(ValueError, match="in_classes"):
        write_features(path, codes)


def test_a_run_is_loaded_with_its_held_out_combinations(tmp_path):
    data = Selected(DATASET, (HeldOut({"factor0": (0,), "factor1": (1,)}), Subset(40)))
    uw.fit(data, network=MLP(hidden=(4,)), steps=2, progress=False, store=tmp_path, batch_size=8)
    (folder,) = tmp_path.iterdir()
    with pytest.raises(ValueError, match="at most the 5 observations"):
        _ = uw.load(folder, split="held-out").dataset
    data = Selected(DATASET, (HeldOut({"factor0": (0,), "factor1": (1,)}),))
    model = uw.fit(
        data, network=MLP(hidden=(4,)), steps=2, progress=False, store=tmp_path, batch_size=8
    )
    held = uw.load(model.folder, split="held-out").dataset
    assert held.factors(torch.arange(held.size))[:, :2].tolist() == [[0, 1]] * 5
    with pytest.raises(ValueError, match=r"got 'heldout': did you mean 'held-out'\?"):
        uw.load(model.folder, split="heldout")
    with pytest.raises(ValueError, match="blocks has the splits rest, held-out, got 'test'"):
        uw.load(model.folder, split="test")


def test_incomplete_lattices_lack_whole_combinations():
    gaps = Incomplete(("factor0", "factor1"), share=0.25, seed=3)
    rest = selected_rows(gaps)
    missing = selected_rows(
        Incomplete(("factor0", "factor1"), share=0.25, seed=3, split="held-out")
    )
    assert sorted(rest + missing) == selected_rows()
    pairs = {row[:2] for row in missing}
    assert len(pairs) == 3  # a quarter of 12
    assert len(missing) == 3 * 5
    assert not pairs & {row[:2] for row in rest}


@pytest.mark.parametrize("scale", [0.2, 0.7])
def test_correlated_factors_have_the_given_density(scale):
    rows = np.array(selected_rows(Correlated(("factor0", "factor2"), scale, count=40_000)))
    found = np.zeros((3, 5))
    np.add.at(found, (rows[:, 0], rows[:, 2]), 1 / len(rows))
    f, g = np.arange(3)[:, None] / 2, np.arange(5) / 4
    density = np.exp(-((f - g) ** 2) / (2 * scale**2))
    density /= density.sum()
    error = np.sqrt(density * (1 - density) / len(rows))
    assert (np.abs(found - density) < 5 * error + 1e-12).all()
    other = np.bincount(rows[:, 1]) / len(rows)
    np.testing.assert_allclose(other, 0.25, atol=5 * math.sqrt(0.1875 / len(rows)))


@pytest.mark.parametrize("scale", [0.01, 1e-200])
def test_a_tiny_scale_draws_the_nearest_classes(scale):
    """Without the diagonal of 3 x 3 classes, its four neighbours are equally likely."""
    equal = HeldOut(tuple({"factor0": (k,), "factor1": (k,)} for k in range(3)))
    correlated = Correlated(("factor0", "factor1"), scale, count=4000)
    rows = selected_rows(equal, correlated, dataset=Blocks((3, 3)))
    assert set(rows) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    shares = np.array([rows.count(row) for row in set(rows)]) / 4000
    np.testing.assert_allclose(shares, 0.25, atol=5 * math.sqrt(0.1875 / 4000))


def test_selections_are_applied_one_after_another():
    selections = (
        HeldOut({"factor0": (0,)}),
        Correlated(("factor1", "factor2"), count=500),
        Subset(100),
    )
    rows = selected_rows(*selections)
    assert len(rows) == 100
    assert 0 not in {row[0] for row in rows}
    assert selected_rows(*selections) == rows
    spec = Selected(DATASET, selections)
    assert from_json(Selected, to_json(spec)) == spec


def test_selections_work_on_arrays_in_memory():
    vectors = np.arange(40.0).reshape(20, 2)
    spec, _ = from_array(vectors, np.arange(20) % 4, ["group"], scale="none")
    loaded = Selected(spec, (HeldOut({"group": (1, 2, 3)}),)).load(CPU)
    assert loaded.images(torch.arange(5))[:, 0].tolist() == [0, 8, 16, 24, 32]
    assert loaded.fingerprint.startswith(spec.load(CPU).fingerprint)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Subset(61), "at most the 60"),
        (HeldOut({"factor9": (0,)}), "'factor9' is not a factor"),
        (HeldOut({"factor0": (3,)}), "its classes are numbers, 0 to 2"),
        (HeldOut({"factor0": (0.5,)}), "its classes are numbers, 0 to 2"),
        (HeldOut({"factor0": (-1,)}), "its classes are numbers, 0 to 2"),
        (HeldOut({"factor0": ("2..1",)}), "its classes are numbers, 0 to 2"),
        (HeldOut({"factor0": (0, 1, 2)}), "leave at least one observation"),
        (Incomplete(("factor9",)), "is not a factor"),
        (Correlated(("factor0", "shape")), "'shape' is not a factor"),
    ],
    ids=str,
)
def test_invalid_selections_are_refused(selection, message):
    with pytest.raises(ValueError, match=message):
        Selected(DATASET, (selection,)).load(CPU)


WRITTEN = {
    "subset:count=5,seed=2": Subset(5, 2),
    "held-out:factor0=0+2,factor2=1..3": HeldOut(({"factor0": (0, 2), "factor2": ("1..3",)},)),
    "held-out:a=-1+0.5,b=007,c=-1..0.5": HeldOut(
        ({"a": (-1, 0.5), "b": ("007",), "c": ("-1..0.5",)},)
    ),
    "held-out:factor0=1,split=held-out/factor1=0": HeldOut(
        ({"factor0": (1,)}, {"factor1": (0,)}), "held-out"
    ),
    "incomplete:factors=factor0+factor1,share=0.5": Incomplete(("factor0", "factor1"), 0.5),
    "correlated:factors=factor0+factor2,scale=0.3,count=9": Correlated(
        ("factor0", "factor2"), 0.3, 9
    ),
}


@pytest.mark.parametrize(("text", "selection"), WRITTEN.items(), ids=WRITTEN)
def test_selections_are_read_from_the_command_line(text, selection):
    assert selection_from(text) == selection_from(selection_text(selection)) == selection
    (run,) = runs_from(["data=blocks"], select=["subset:count=4", text])
    assert run.data == Selected(Blocks(), (Subset(4), selection))
    more = runs_from(["seed=0,1"], to_json(run), [text])
    assert [each.data.select for each in more] == 2 * [(Subset(4), selection, selection)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "subsets:count=4"], "did you mean 'subset'"),
        (["--select", "subset:4"], "expected name=value, got '4'"),
        (["--select", "subset"], "as in subset:count=5000"),
        (["--select", "subset:count=0"], "count: expected more than 0"),
        (["--select", "subset:size=3"], "not a field of Subset"),
        (["--select", "held-out:factor9=0"], "'factor9' is not a factor"),
        (["--select", "held-out:factor0=one"], "its classes are numbers"),
        (["--select", "held-out:split=held-out"], "classes"),
        (["--features", "none.npz"], "got nothing there"),
        (
            ["data=paired", "data.changed=1", "--select", "subset:count=4"],
            "pairs are made of a whole dataset",
        ),
    ],
    ids=str,
)
def test_invalid_selections_on_the_command_line_are_one_line_errors(unweave, arguments, message):
    data = [] if arguments[0].startswith("data=") else ["data=blocks"]
    code, _, err = unweave("train", *data, *arguments)
    assert code == 2
    assert message in " ".join(err.split())


def test_columns_joined_by_commas_describe_a_single_run():
    (run,) = runs_from(["data=arrays", "data.path=a.csv", "data.key=u,v", "data.factors_key=f,g"])
    assert (run.data.key, run.data.factors_key) == ("u,v", "f,g")


def test_features_of_a_run_hold_out_combinations(unweave, tmp_path):
    """Use the codes of one run to hold out data from another, on the command line."""
    x = np.eye(24, 5)  # most are equal, so that some classes of codes stay empty
    np.savez(tmp_path / "a.npz", x=x, f=np.arange(24) % 2)
    data = [f"data={tmp_path / 'a.npz'}", "data.key=x", "data.factors_key=f"]
    tiny = ["network=mlp", "steps=3", "batch_size=4", "--store", tmp_path / "runs"]
    blocks = ["latent=product", "latent.s=gaussian", "latent.s.size=1", "latent.k=categorical"]
    assert unweave("train", *data, *blocks, *tiny)[0] == 0
    (folder,) = (tmp_path / "runs").iterdir()
    path = tmp_path / "features.npz"
    code, out, err = unweave("data", "features", folder, "--classes", 3, "--out", path)
    assert code == 0, err
    assert "24 rows of s 3, k" in out
    with np.load(path) as held:
        features = held["features"]
    model = uw.load(folder)
    assert np.array_equal(features[:, 1], model.codes(x)[:, 1])
    selection = ["--features", path, "--select", "held-out:f=1,s=0..1"]
    code, _, err = unweave("train", *data, *tiny, *selection)
    assert code == 0, err
    assert len(np.unique(features[:, 0])) < 3
    left = 24 - ((np.arange(24) % 2 == 1) & (features[:, 0] < 2)).sum()
    assert f"{left} observations of 24" in err


STREAMED = np.arange(200 * 1000, dtype=np.float32).reshape(200, 1000)
SELECTIONS = {
    "some": (Subset(150),),
    "few": (Subset(7),),  # read singly
    "held out": (HeldOut({"factor0": (1,)}),),
    "again and again": (Correlated(("factor0", "factor1"), count=300),),
}


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("selections", SELECTIONS.values(), ids=SELECTIONS)
def test_a_selection_of_a_streamed_dataset_is_streamed_if_large(
    tmp_path, monkeypatch, selections, small
):
    codes = np.stack([np.arange(200) % 3, np.arange(200) // 50], 1)
    np.savez(tmp_path / "a.npz", x=STREAMED, codes=codes)
    monkeypatch.setattr("unweave.data.files.build.MOST", 2**21 if small else 2**12)
    monkeypatch.setattr("unweave.data.files.streaming.WINDOW", 2**15)  # eight rows
    in_memory = Selected(Arrays(tmp_path / "a.npz", "x", "codes", stream=False), selections).load(
        CPU
    )
    dataset = Selected(Arrays(tmp_path / "a.npz", "x", "codes", stream=True), selections).load(CPU)
    assert isinstance(dataset, StreamedDataset) is not small
    every = torch.arange(dataset.size)
    order = in_memory.images(every)[:, 0].argsort(stable=True)  # in that of the file
    assert torch.equal(dataset.images(every), in_memory.images(every)[order])
    assert torch.equal(dataset.factors(every), in_memory.factors(every)[order])
    assert (dataset.factor_names, dataset.factor_sizes) == (
        in_memory.factor_names,
        in_memory.factor_sizes,
    )
    assert any(f"{dataset.size} observations of 200" in note for note in dataset.notes)
    model = uw.fit(
        Selected(Arrays(tmp_path / "a.npz", "x", "codes", stream=True), selections),
        network=MLP(hidden=(4,)), steps=3, batch_size=5, progress=False,
    )  # fmt: skip
    assert np.isfinite(model.encode(STREAMED[:2])).all()


def test_pairs_of_a_streamed_dataset_are_refused_on_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(StreamedDataset, "to", lambda dataset, device: dataset)
    index = torch.arange(60)
    np.savez(
        tmp_path / "a.npz", x=DATASET.load(CPU).images(index), f=DATASET.lattice.factors(index)
    )
    data = Paired(Arrays(tmp_path / "a.npz", "x", "f", stream=True), changed=1)
    assert data.load(CPU).size == 60
    with pytest.raises(ValueError, match="at most 1 GiB on a GPU, got arrays"):
        data.load(torch.device("cuda"))


def test_pairs_share_the_named_factors():
    loaded = Paired(DATASET, shared=("factor1",)).load(CPU)
    first, second = loaded.factors(ALL).chunk(2, -1)
    assert torch.equal(first, DATASET.lattice.factors(ALL))
    assert torch.equal(first[:, 1], second[:, 1])
    assert (first[:, 0] != second[:, 0]).float().mean() == pytest.approx(2 / 3, abs=0.25)
    whole = DATASET.load(CPU)
    picture = loaded.images(ALL)
    assert loaded.shape == picture.shape[1:] == (2, 3, 5)
    assert torch.equal(picture[:, :1], whole.images(ALL))
    assert torch.equal(picture[:, 1:], whole.images(DATASET.lattice.index(second)))
    assert loaded.factor_names[3:] == ("other_factor0", "other_factor1", "other_factor2")


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_pairs_differ_in_the_given_number_of_factors(changed):
    spec = Paired(Blocks((3, 1, 4, 5), cell=1), changed=changed, seed=4)
    first, second = spec.load(CPU).factors(ALL).chunk(2, -1)
    differ = first != second
    assert (differ.sum(-1) == changed).all()
    shares = differ[:, [0, 2, 3]].float().mean(0)
    np.testing.assert_allclose(shares, changed / 3, atol=0.25)
    alone = torch.stack([spec.load(CPU).factors(i) for i in ALL[:5]])
    assert torch.equal(alone, torch.cat([first, second], -1)[:5])


def test_invalid_pairs_are_refused():
    with pytest.raises(ValueError, match="either shared"):
        Paired(DATASET)
    with pytest.raises(ValueError, match="either shared"):
        Paired(DATASET, shared=("factor0",), changed=1)
    with pytest.raises(ValueError, match="at most the 3 factors"):
        Paired(DATASET, changed=4).load(CPU)
    spec, _ = from_array(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="all combinations"):
        Paired(spec, changed=1).load(CPU)


@pytest.mark.parametrize(
    "data",
    [
        Selected(DATASET, (HeldOut({"factor0": (0,), "factor1": (1,)}), Subset(40))),
        Paired(DATASET, changed=1),
    ],
    ids=lambda data: data.kind,
)
def test_training_and_tables_work_on_selections_and_pairs(data):
    model = uw.fit(data, network=MLP(hidden=(4,)), steps=3, batch_size=8, progress=False)
    table = model.table(rows=30)
    assert table.factor_names == data.load(CPU).factor_names
    assert np.isfinite(table.codes).all()


TURNED = Shapes2D(side=16, scales=1, orientations=5, positions=1)


@pytest.mark.parametrize(
    "data",
    [
        TURNED,
        Selected(TURNED, (Subset(11),)),
        Paired(TURNED, changed=1),
        Paired(TURNED, ("shape",)),
    ],
    ids=["whole", "part", "changed", "shared"],
)
def test_selections_and_pairs_declare_which_images_repeat(data):
    """There are as many images as combinations of classes that are not declared equal."""
    dataset = data.load(CPU)
    index = torch.arange(dataset.size)
    classes = merge(dataset.factors(index).numpy(), dataset.periods, dataset.factor_names)
    pictures = dataset.images(index).flatten(1).unique(dim=0)
    assert len(np.unique(classes, axis=0)) == len(pictures) < dataset.size


def image_bytes(data):
    """Return every image of a dataset as bytes."""
    dataset = data.load(CPU)
    return [each.tobytes() for each in dataset.images(torch.arange(dataset.size)).numpy()]


@pytest.mark.parametrize("selection", [
    lambda split: HeldOut({"orientation": (0,)}, split),
    lambda split: HeldOut({"shape": ("square",), "orientation": (3, 1)}, split),
    lambda split: Incomplete(("orientation",), 0.4, split=split),
    lambda split: Incomplete(("shape", "orientation"), 0.4, seed=2, split=split),
])  # fmt: skip
@pytest.mark.parametrize("orientations", [4, 9])
def test_no_held_out_image_remains_under_another_class(selection, orientations):
    """Of 9 orientations, a square has 2 distinct ones, an ellipse 4 and a heart 8."""
    dataset = Shapes2D(side=16, scales=1, orientations=orientations, positions=2)
    rest, held = (
        image_bytes(Selected(dataset, (selection(split),))) for split in ("rest", "held-out")
    )
    assert not set(rest) & set(held)
    assert sorted(rest + held) == sorted(image_bytes(dataset))


def test_incomplete_counts_distinct_combinations():
    """9 orientations show 2 + 4 + 8 distinct images, of which half are left."""
    dataset = Shapes2D(side=16, scales=1, orientations=9, positions=1)
    left = set(image_bytes(Selected(dataset, (Incomplete(("shape", "orientation"), 0.5),))))
    assert (len(left), len(set(image_bytes(dataset)))) == (7, 14)


@pytest.mark.parametrize(("orientations", "changed"), [(4, 1), (5, 2), (9, 1), (9, 2)])
def test_pairs_that_differ_show_different_images(orientations, changed):
    spec = Shapes2D(scales=2, orientations=orientations, positions=1)
    dataset = Paired(spec, changed=changed).load(CPU)
    index = torch.arange(dataset.size)
    first, second = dataset.images(index).chunk(2, 1)
    assert (first != second).flatten(1).any(1).all()
    one, other = dataset.factors(index).chunk(2, -1)
    assert ((one != other).sum(1) == changed).all()
    alike = one[:, 1] == other[:, 1]  # of one shape, so that periods are the same
    merged = [merge(each[alike], spec.lattice.periods, spec.lattice.names) for each in (one, other)]
    assert ((merged[0] != merged[1]).sum(1) == changed).all()
    more = Paired(Shapes2D(orientations=orientations, positions=8), changed=changed).load(CPU)
    one, other = more.factors(torch.arange(more.size)).chunk(2, -1)
    hearts = (one[:, 1] == 2) & (one != other)[:, 3]  # by every angle but 0, equally likely
    turns = (other - one)[hearts, 3] % (orientations - 1)
    shares = turns.bincount()[1:] / len(turns)
    np.testing.assert_allclose(shares, 1 / (orientations - 2), atol=2.5 * len(turns) ** -0.5)
    with pytest.raises(ValueError, match="factors that change every image"):
        Paired(spec, changed=4).load(CPU)


def test_corrected_labels_are_other_data_only_if_they_select_other_rows():
    images, labels = np.arange(40.0).reshape(20, 2), np.arange(20) % 4
    corrected, moved = np.where(labels == 3, 2, labels), np.where(np.arange(20) == 0, 1, labels)
    plain, same, other = (
        Selected(from_array(images, each, ["group"])[0], (HeldOut({"group": (1,)}),)).load(CPU)
        for each in (labels, corrected, moved)
    )
    assert plain.fingerprint == same.fingerprint != other.fingerprint
    assert plain.labels_fingerprint != same.labels_fingerprint
