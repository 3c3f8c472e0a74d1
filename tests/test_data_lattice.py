"""Laws of the lattice of factors, and what is not on it."""

import numpy as np
import pytest
import torch

from unweave.core.noise import Noise
from unweave.data import Factor, Lattice, Schema, Shapes2D
from unweave.metrics.inputs import merge

LATTICES = [
    Lattice((Factor("a", 1),)),
    Lattice((Factor("a", 3), Factor("b", 1), Factor("c", 5))),
    Lattice((Factor("a", 2), Factor("b", 7), Factor("c", 4), Factor("d", 3))),
]


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: str(lattice.sizes))
class TestLattice:
    def test_index_and_factors_are_inverse(self, lattice):
        index = torch.arange(lattice.size)
        factors = lattice.factors(index)
        assert factors.shape == (lattice.size, len(lattice.sizes))
        assert torch.equal(lattice.index(factors), index)
        assert len(factors.unique(dim=0)) == lattice.size

    def test_the_order_is_that_of_numpy(self, lattice):
        index = np.arange(lattice.size)
        expected = np.stack(np.unravel_index(index, lattice.sizes), -1)
        assert lattice.factors(torch.tensor(index)).tolist() == expected.tolist()

    def test_any_leading_shape(self, lattice):
        index = torch.arange(lattice.size).expand(2, 3, -1)
        factors = lattice.factors(index)
        assert factors.shape == (2, 3, lattice.size, len(lattice.sizes))
        assert torch.equal(lattice.index(factors), index)

    def test_draws_lie_on_the_lattice_and_are_a_function_of_the_noise(self, lattice):
        factors = lattice.draw(Noise(3), 500)
        assert factors.shape == (500, len(lattice.sizes))
        assert torch.equal(factors, lattice.draw(Noise(3), 500))
        assert torch.equal(lattice.factors(lattice.index(factors)), factors)

    def test_fixing_a_factor_does_not_change_the_others(self, lattice):
        free = lattice.draw(Noise(4), 100)
        for k, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
            held = lattice.draw(Noise(4), 100, {name: size - 1})
            others = [j for j in range(len(lattice.sizes)) if j != k]
            assert (held[:, k] == size - 1).all()
            assert torch.equal(held[:, others], free[:, others])


def test_draws_are_uniform_and_independent():
    lattice = Lattice((Factor("a", 3), Factor("b", 4)))
    counts = lattice.index(lattice.draw(Noise(0), 24_000)).bincount(minlength=12)
    expected = 2000
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 31.3  # 0.999 quantile at 11 degrees of freedom


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Factor("", 3), "name"),
        (lambda: Factor("a", 0), "at least 1 class"),
        (lambda: Factor("a", 2, "circular"), "cyclic"),
        (lambda: Factor("a", 2, values=(1.0,)), "expected 2 values"),
        (lambda: Factor("a", 2, labels=("p", "q", "r")), "expected 2 labels"),
        (lambda: Lattice(()), "at least one factor"),
        (lambda: Lattice((Factor("a", 2), Factor("a", 2))), "distinct names"),
        (lambda: Lattice((Factor("a", 2**31), Factor("b", 2**31))), "fewer than 2\\^62"),
        (lambda: LATTICES[1].index(torch.tensor([[0, 0]])), "one column for each factor"),
        (lambda: LATTICES[1].index(torch.tensor(0)), "one column for each factor"),
        (lambda: LATTICES[1].index(torch.tensor([[3, 0, 0]])), "'a' between 0 and 2"),
        (lambda: LATTICES[1].index(torch.tensor([[0.0, 0, 0]])), "integers"),
        (lambda: LATTICES[1].factors(torch.tensor([15])), "between 0 and 14"),
        (lambda: LATTICES[1].factors(torch.tensor([-1])), "between 0 and 14"),
        (lambda: LATTICES[1].draw(Noise(0), 2, {"d": 0}), "not a factor"),
        (lambda: LATTICES[1].draw(Noise(0), 2, {"c": 5}), "between 0 and 4"),
    ],
)
def test_combinations_outside_the_lattice_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("orientations", [4, 5, 9, 40])
def test_distinct_classes_agree_with_the_merging_of_metrics(orientations):
    lattice = Shapes2D(orientations=orientations, positions=2).lattice
    factors = lattice.factors(torch.arange(lattice.size))
    schema = Schema.on_lattice(lattice, (1,))
    counts = [schema.distinct(k, factors) for k in range(len(lattice.names))]
    merged = merge(factors.numpy(), lattice.periods, lattice.names)
    assert np.array_equal(factors % torch.stack(counts, -1), merged)
