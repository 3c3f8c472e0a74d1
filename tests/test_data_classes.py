"""Classes of factors by their labels: names, values, or numbers if they have neither."""

import numpy as np
import pytest
import torch
from PIL import Image

from datasets import CPU
from unweave.core.hints import count_noun
from unweave.data import Arrays, Folder, HeldOut, Selected, Shapes2D, from_array
from unweave.training.overrides import selection_from


def selected_rows(selection, dataset):
    """Return the combinations of factors that are selected, as tuples in order."""
    loaded = Selected(dataset, (selection,)).load(CPU)
    return [tuple(row) for row in loaded.factors(torch.arange(loaded.size)).tolist()]


def test_classes_can_be_written_by_name_or_number():
    dataset = Shapes2D(side=16, scales=1, orientations=1, positions=2)
    named = HeldOut({"shape": ("heart", "square"), "x": (1,)})
    numbered = HeldOut({"shape": (2, 0), "x": (1,)})
    assert selected_rows(named, dataset) == selected_rows(numbered, dataset)
    for classes, message in (
        ({"shape": ("hart",)}, "did you mean 'heart'"),
        ({"x": ("left",)}, "its classes are numbers, 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Selected(dataset, (HeldOut(classes),)).load(CPU)


def test_classes_of_own_data_keep_their_original_values(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,colour,size\n1.5,2,red,9\n3,4,blue,10\n5,6,red,10\n")
    table = Arrays(tmp_path / "a.csv", "u,v", "colour,size")
    for pixel in range(3):
        Image.new("L", (4, 4), pixel).save(tmp_path / f"{pixel}.png")
    (tmp_path / "factors.csv").write_text(
        "f,colour,size\n0.png,red,9\n1.png,blue,10\n2.png,red,10\n"
    )
    spec, _ = from_array(np.eye(3), np.array([["red", "9"], ["blue", "10"], ["red", "10"]]))
    for dataset in (table, Folder(tmp_path), spec):
        name = dataset.load(CPU).factor_names[0]
        left = Selected(dataset, (HeldOut({name: ("red",)}),)).load(CPU)
        assert left.factors(torch.arange(left.size))[:, 0].tolist() == [0]
        assert left.factor_labels[0] == ("blue", "red")
        with pytest.raises(ValueError, match=r"did you mean 'red'\?.*blue"):
            Selected(dataset, (HeldOut({name: ("rod",)}),)).load(CPU)
        assert left.factor_labels[1] == (("10", "9") if dataset is spec else (9, 10))


DOSES = np.array([1, 0.1, 2, 1, 0.1, 10, 10, 2, -1, 1])


def numbered(path, form):
    """Store ten vectors or images with a dose each in one of several forms."""
    if form == "csv":
        (path / "a.csv").write_text(
            "".join(["x,dose\n", *(f"{n},{d}\n" for n, d in enumerate(DOSES))])
        )
        return Arrays(path / "a.csv", factors_key="dose", scale="counts")
    if form == "folder":
        for n in range(10):
            Image.new("L", (4, 4), n).save(path / f"{n}.png")
        lines = (f"{n}.png,{dose}\n" for n, dose in enumerate(DOSES))
        (path / "factors.csv").write_text("".join(["file,dose\n", *lines]))
        return Folder(path)
    x, dose = np.arange(10.0)[:, None], DOSES.astype(np.float32 if form == "float32" else None)
    if form == "npz":
        np.savez(path / "a.npz", x=x, dose=DOSES)
        return Arrays(path / "a.npz", "x", "dose")
    spec, _ = from_array(x, dose, ["dose"])
    return spec


@pytest.mark.parametrize("form", ["csv", "folder", "npz", "memory", "float32"])
@pytest.mark.parametrize(
    ("given", "held", "written"),
    [
        ("1", DOSES == 1, "1"),
        ("0.1+10", (DOSES == 0.1) | (DOSES == 10), "0.1+10"),
        ("-1", DOSES == -1, "-1"),
        ("1.0", DOSES == 1, "1"),
        ("0..2", (DOSES >= 0) & (DOSES <= 2), "0.1..2"),
    ],
)
def test_numbers_of_own_data_are_values_not_ranks(tmp_path, form, given, held, written):
    """Class number 1 is a dose of 0.1; a dose of 1 is class number 2."""
    data = numbered(tmp_path, form)
    for split, rows, said in (("rest", ~held, "all but"), ("held-out", held, "only")):
        selection = selection_from(f"held-out:dose={given},split={split}")
        dataset = Selected(data, (selection,)).load(CPU)
        classes = dataset.factors(torch.arange(dataset.size))[:, 0].tolist()
        assert [dataset.factor_labels[0][each] for each in classes] == DOSES[rows].tolist()
        some = count_noun(rows.sum(), "observation")
        assert dataset.notes[-1].endswith(f"{some} of 10: {said} dose={written}")


def test_an_unknown_value_is_refused_with_the_known_ones(tmp_path):
    table = numbered(tmp_path, "csv")
    for given in (3, "half", "3..9"):
        with pytest.raises(
            ValueError, match=r"of factor 'dose': its values are -1, 0.1, 1, 2, 10\."
        ):
            Selected(table, (HeldOut({"dose": (given,)}),)).load(CPU)
    many, _ = from_array(np.zeros((80, 2)), np.repeat(np.arange(40) * 3, 2))
    for given, near in ((4, ", near it 3 and 6"), ("four", "")):
        message = rf"40 values from 0 to 117{near}\."
        with pytest.raises(ValueError, match=message):
            Selected(many, (HeldOut({"factor0": (given,)}),)).load(CPU)


def test_large_integers_and_booleans_keep_their_values():
    codes = np.stack([np.array([2**60, 2**60 + 1] * 3), np.arange(6) % 3], 1)
    spec, dataset = from_array(np.eye(6), codes)
    assert dataset.factor_labels == ((2**60, 2**60 + 1), (0, 1, 2))
    left = Selected(spec, (HeldOut({"factor0": (2**60 + 1,)}),)).load(CPU)
    assert left.factors(torch.arange(3))[:, 0].tolist() == [0, 0, 0]
    flags, dataset = from_array(np.eye(4), np.array([True, True, True, True]))
    assert dataset.factor_labels == ((1,),)
    assert Selected(flags, (HeldOut({"factor0": (True,)}, "held-out"),)).load(CPU).size == 4
    with pytest.raises(ValueError, match=r"labels of factor0, got infinity, first in row 2"):
        from_array(np.eye(4), np.array([0.1, 0.1, np.inf, np.nan]))


def test_text_that_denotes_a_number_matches_the_number():
    """Text such as "007" matches as text first, and then as a number."""
    spec, dataset = from_array(np.eye(4), np.array(["10", "9", "007", "none"]))
    assert dataset.factor_labels == (("007", "10", "9", "none"),)
    for given, rest in ((9, 3), ("007", 3), (7, 3), ("7..9", 2), ("none", 3)):
        assert Selected(spec, (HeldOut({"factor0": (given,)}),)).load(CPU).size == rest
    with pytest.raises(ValueError, match="is not a class"):  # no places beside numbers
        Selected(spec, (HeldOut({"factor0": (1,)}),)).load(CPU)
