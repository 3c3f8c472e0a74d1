"""Datasets of the user's own: the example in the documentation, and what `Dataset` provides."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from datasets import CPU
from unweave.catalogue.preview import factor_traversals, preview_sheet
from unweave.core.spec import from_json, to_json
from unweave.data import (
    Dataset,
    Factor,
    HeldOut,
    Lattice,
    Schema,
    Subset,
    array_dataset,
    principal_variances,
)
from unweave.data.scaling import Scaling
from unweave.data.splits import available_splits, split_of, with_split

PAGE = Path(__file__).parent.parent / "docs/data.md"


@pytest.fixture(scope="module")
def example():
    """The names defined by the code blocks of the section on own datasets."""
    section = PAGE.read_text().split("## A dataset of your own\n")[1].split("\n## ")[0]
    names = {"__name__": __name__}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_documented_array_dataset_has_its_factor(example):
    spec = example["Rings"](circles=4)
    dataset = spec.load(CPU)
    index = torch.arange(dataset.size)
    assert (dataset.size, dataset.shape, dataset.factor_names) == (400, (2,), ("circle",))
    radius = dataset.images(index).norm(dim=1)
    assert (radius.round() - 1 == dataset.factors(index)[:, 0]).float().mean() > 0.99
    assert from_json(type(spec), to_json(spec)) == spec
    assert preview_sheet(dataset).notes == ()


def test_the_documented_subclass_behaves_like_a_shipped_dataset(example):
    dataset = example["Waves"](length=16).load(CPU)
    index = torch.arange(dataset.size)
    images = dataset.images(index)
    assert images.shape == (40, 16)
    assert images.dtype == torch.float32
    assert torch.equal(dataset.images(index.view(5, 8)), images.view(5, 8, 16))
    assert torch.equal(dataset.lattice.index(dataset.factors(index)), index)
    assert not dataset.bounded
    assert dataset.fingerprint == ""
    assert [traversal.name for traversal in factor_traversals(dataset)] == ["frequency", "phase"]
    assert len(principal_variances(dataset, 3)) == 3
    kept = HeldOut({"frequency": (0,), "phase": ("0..3",)}).take(dataset, index)
    assert kept.tolist() == [*range(4, 40)]
    assert len(Subset(7).take(dataset, index)) == 7
    with pytest.raises(ValueError, match="between 0 and 39"):
        dataset.images(torch.tensor([40]))


def test_an_own_spec_without_splits_says_so(example):
    data = example["Rings"]()
    assert (available_splits(data), split_of(data)) == ((), "all")
    with pytest.raises(ValueError, match="Rings has no splits, got 'test'"):
        with_split(data, "test")


class Constant(Dataset):
    """The least that a dataset can be: a schema, a device and images."""

    def __init__(self, schema):
        self.schema, self.device = schema, CPU

    def images(self, index):
        return torch.zeros(*index.shape, *self.shape)


def test_factors_default_to_none_and_have_to_be_implemented_if_they_are_known():
    assert Constant(Schema(9, (4,))).factors(torch.arange(6).view(2, 3)).shape == (2, 3, 0)
    with pytest.raises(NotImplementedError, match="Constant has factors"):
        Constant(Schema(9, (4,), ("a",), (3,))).factors(torch.arange(3))
    with pytest.raises(TypeError, match="abstract"):
        Dataset()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 0, "shape": (3,)}, "at least one observation"),
        ({"size": 3, "shape": ()}, "at least one observation"),
        ({"size": 3, "shape": (3,), "factor_names": ("a",)}, "each of the 1 factors, got 0 sizes"),
        ({"size": 3, "shape": (3,), "lattice": Lattice((Factor("a", 2),))}, "2 combinations"),
        ({"size": 3, "shape": (3,), "scaling": Scaling("none", (0.0,), (1.0,) * 3)}, "got 1 and 3"),
        ({"size": 3, "shape": (3,), "scaling": Scaling("none", (0.0,) * 2, (1.0,) * 2)}, "1 or 3"),
        ({"size": 3, "shape": (3,), "value_names": ("a",)}, "names for values of shape"),
    ],
    ids=str,
)
def test_schemas_that_contradict_themselves_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Schema(**fields)


def test_arrays_in_memory_are_a_dataset_in_one_line():
    dataset = array_dataset(np.zeros((4, 3, 3), np.uint8), [["a", 1], ["a", 2], ["b", 1], ["b", 2]])
    assert dataset.factor_labels == (("a", "b"), ("1", "2"))
    assert dataset.lattice is not None
    with pytest.raises(ValueError, match=r"expected factors of shape \(4, K\)"):
        array_dataset(np.zeros((4, 3)), [1, 2])
