"""Laws of every rendered dataset: its lattice, and what its images depend on."""

import numpy as np
import pytest
import torch

from datasets import CPU
from unweave.core.noise import Noise
from unweave.core.spec import from_json, members, to_json
from unweave.data import (
    Blobs,
    Blocks,
    ColourShapes2D,
    Data,
    NoisyShapes2D,
    Shapes2D,
    Shapes3D,
    TexturedShapes2D,
)
from unweave.data.synthetic import renderer as module

SPRITES = Shapes2D(side=32, shapes=("heart", "square"), scales=2, orientations=4, positions=3)
SMALL = [
    SPRITES,
    ColourShapes2D(SPRITES),
    NoisyShapes2D(SPRITES, seed=5),
    TexturedShapes2D(SPRITES),
    Shapes3D(side=32, scales=2, shapes=("sphere", "cube"), orientations=3),
    Blobs(),
    Blobs(side=5, levels=1, widths=1, positions=3),
    Blocks(),
    Blocks((3, 1, 5), cell=2),
]
SCENES = [spec for spec in SMALL if "shapes2d-" in spec.kind]
datasets = pytest.mark.parametrize(
    "spec", SMALL, ids=lambda spec: f"{spec.kind}-{spec.lattice.size}"
)


def test_every_rendered_dataset_is_tested_here():
    rendered = {kind for kind, cls in members(Data).items() if hasattr(cls, "lattice")}
    assert {spec.kind for spec in SMALL} == rendered


@datasets
def test_index_of_factors_is_the_identity(spec):
    dataset = spec.load(CPU)
    index = torch.arange(0, dataset.size, max(1, dataset.size // 5000))
    factors = dataset.factors(index)
    assert torch.equal(dataset.lattice.index(factors), index)
    assert dataset.factor_names == spec.lattice.names
    assert dataset.factor_sizes == spec.lattice.sizes
    assert (factors < torch.tensor(dataset.factor_sizes)).all()


@datasets
def test_every_factor_changes_the_image(spec):
    """Any change of class changes the image, except between classes declared equal."""
    dataset = spec.load(CPU)
    lattice = dataset.lattice
    some = lattice.draw(Noise(1), 50)
    for column, (name, size) in enumerate(zip(lattice.names, lattice.sizes, strict=True)):
        if size == 1 or name in lattice.periods:
            continue
        other = some.clone()
        other[:, column] = (other[:, column] + 1 + torch.arange(50) % (size - 1)) % size
        changed = dataset.images(lattice.index(some)) != dataset.images(lattice.index(other))
        assert changed.flatten(1).any(1).all(), name


@datasets
def test_an_image_depends_on_its_number_alone(spec, monkeypatch):
    dataset, again = spec.load(CPU), spec.load(CPU)
    index = Noise(2).integers(dataset.size, (30,), "index")
    together = dataset.images(index)
    assert together.dtype == torch.float32
    assert together.shape == (30, *dataset.shape)
    assert together.min() >= 0
    assert together.max() <= 1
    assert torch.equal(again.images(index.flip(0)).flip(0), together)
    assert torch.equal(dataset.images(index.view(5, 6)), together.view(5, 6, *dataset.shape))
    assert torch.equal(dataset.images(index[3]), together[3])
    assert dataset.images(index[:0]).shape == (0, *dataset.shape)
    monkeypatch.setitem(module.CHUNK_VALUES, "cpu", 1)
    assert torch.equal(dataset.images(index), together)


@datasets
def test_specs_survive_json_and_indices_out_of_range_are_refused(spec):
    assert from_json(type(spec), to_json(spec)) == spec
    dataset = spec.load(CPU)
    with pytest.raises(ValueError, match=f"between 0 and {dataset.size - 1}"):
        dataset.images(torch.tensor([dataset.size]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("spec", [*SMALL, Shapes3D(), NoisyShapes2D()], ids=str)
def test_a_gpu_draws_the_same_values_also_in_a_graph(spec):
    here, there = spec.load(CPU), spec.load(torch.device("cuda"))
    index = Noise(4).integers(here.size, (500,), "index")
    expected, numbers = here.images(index), index.cuda()
    assert torch.equal(there.images(numbers).cpu(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = there.images(numbers)
    graph.replay()
    assert torch.equal(drawn.cpu(), expected)


@pytest.mark.parametrize("spec", SCENES, ids=lambda spec: spec.kind)
def test_the_seed_changes_the_random_content_and_not_the_sprites(spec):
    index = torch.arange(40)
    sprites = SPRITES.load(CPU).images(index) > 0
    one, two = spec.load(CPU), type(spec)(SPRITES, seed=99).load(CPU)
    assert torch.equal(one.factors(index), two.factors(index))
    assert (one.images(index) != two.images(index)).flatten(1).any(1).all()
    for dataset in (one, two):
        pictures = dataset.images(index)
        shape, rest = pictures.where(sprites, torch.nan), pictures.where(~sprites, torch.nan)
        if spec.kind == "shapes2d-colour":
            assert (rest.nan_to_num(0) == 0).all()
            assert shape.nan_to_num(1).min() >= 1 / 2
            assert torch.equal(shape.nan_to_num(0).amax((2, 3)), shape.nan_to_num(1).amin((2, 3)))
        if spec.kind == "shapes2d-noisy":
            assert (shape.nan_to_num(1) == 1).all()


def test_noise_is_uniform_and_uncorrelated():
    """Mean 127.5 and variance (256^2 - 1) / 12 of a uniform byte, within five standard errors."""
    dataset = NoisyShapes2D(SPRITES).load(CPU)
    values = dataset.images(torch.arange(96))[:, :, 0].double() * 255  # a row no sprite reaches
    count = values.numel()
    variance = (256**2 - 1) / 12
    assert abs(values.mean() - 127.5) < 5 * (variance / count) ** 0.5
    assert abs(values.var() - variance) < 5 * variance * (0.8 / count) ** 0.5  # excess -1.2
    assert values.round().unique().numel() == 256
    # Of pixels side by side, and of pictures one after the other.
    flat = (values - 127.5).reshape(96, -1) / variance**0.5
    for product in (flat[:, 1:] * flat[:, :-1], flat[1:] * flat[:-1]):
        assert abs(product.mean()) < 5 / product.numel() ** 0.5
    assert len({tuple(row) for row in values.reshape(96, -1).tolist()}) == 96


def test_noise_is_the_xor_of_two_excerpts_of_tables():
    side, seed = 16, 5
    dataset = NoisyShapes2D(Shapes2D(side=side, positions=3), seed=seed).load(CPU)
    words = Noise(seed, 0, "noise").words(4 * (2**16 + 3 * side**2 // 8), "tables").numpy()
    a, b = words.astype("<u4").view(np.uint8).reshape(2, -1)
    for number in (0, 77, dataset.size - 1):
        s, t = Noise(seed, number, "scenery").integers(2**16, (2,), "starts").tolist()
        expected = a[8 * s :][: 3 * side**2] ^ b[8 * t :][: 3 * side**2]
        picture = (dataset.images(torch.tensor(number)) * 255).round().byte().numpy()
        assert np.array_equal(picture[:, 0], expected.reshape(3, side, side)[:, 0])


def test_colours_are_uniform_on_the_upper_half():
    """Chi-square over the 128 bytes of at least 1/2, with 127 degrees of freedom: 127 +- 16."""
    dataset = ColourShapes2D(Shapes2D(side=16)).load(CPU)
    levels = dataset.images(torch.arange(0, dataset.size, 97)).amax((2, 3)) * 255
    counts = np.bincount(levels.round().long().flatten(), minlength=256)
    expected = counts.sum() / 128
    assert not counts[:128].any()
    assert ((counts[128:] - expected) ** 2).sum() / expected < 127 + 5 * 16


def test_two_images_share_noise_with_the_documented_probability():
    from unweave.data.synthetic.shapes2d_variants import STARTS, _draw_starts

    count, words = 20_000, 3 * 64**2 // 8
    index = torch.arange(count)
    s, t = (each.numpy() for each in _draw_starts(Noise(torch.zeros_like(index), index, "scenery")))
    order = np.lexsort((s, s - t))
    found = []  # pairs that are apart by the same in both tables
    for by in range(1, 10):
        one, other = order[:-by], order[by:]
        near = (s[one] - t[one] == s[other] - t[other]) & (s[other] - s[one] < words)
        found += zip(one[near], other[near], strict=True)
    apart = np.abs(np.arange(1 - words, words))
    chance = (((STARTS - apart) / STARTS**2) ** 2).sum()
    assert np.log2(chance) == pytest.approx(-20.4, abs=0.05)
    expected = chance * count * (count - 1) / 2
    assert abs(len(found) - expected) < 5 * expected**0.5
    one, other = found[0]
    pictures = NoisyShapes2D().load(CPU).images(torch.tensor([one, other])).flatten(1)
    moved = 8 * int(s[other] - s[one])
    same = pictures[0, moved:] == pictures[1, : pictures.shape[1] - moved]
    assert same.float().mean() > 0.5  # all but where there is a shape; 1 / 256 of others


@pytest.mark.parametrize("spec", SCENES, ids=lambda spec: spec.kind)
def test_painting_by_bytes_and_by_words_gives_the_same_images(spec, monkeypatch):
    index = torch.arange(0, 90, 7)
    by_words = spec.load(CPU).images(index)
    monkeypatch.setattr(
        "unweave.data.synthetic.shapes2d_variants._word_type", lambda side: torch.uint8
    )
    assert torch.equal(spec.load(CPU).images(index), by_words)
    odd = type(spec)(Shapes2D(side=18, positions=3)).load(CPU)
    assert odd.images(index).unique(dim=0).shape == (len(index), 3, 18, 18)


def test_texture_repeats_without_a_seam_and_the_sprite_inverts_it():
    from unweave.data.synthetic.shapes2d_variants import CANVAS, texture

    canvas = texture().double()
    assert torch.equal(texture(9)[:, CANVAS:, CANVAS:], texture()[:, :9, :9])
    steps = (canvas - canvas.roll(1, -1)).abs().amax((0, 1))
    assert steps[0] <= 1.1 * steps[1:].max()
    assert canvas.amin() < 3
    assert canvas.amax() == 127  # and a tint of at most 128
    flat = TexturedShapes2D(SPRITES).load(CPU).images(torch.arange(5))
    assert flat.std((2, 3)).min() > 0.02


def test_blobs_follow_their_formula():
    dataset = Blobs(side=12, positions=3).load(CPU)
    for number in (0, 7, dataset.size - 1):
        b, w, x, y = (
            factor.values[k]
            for factor, k in zip(
                dataset.lattice.members, dataset.factors(torch.tensor(number)).tolist(), strict=True
            )
        )
        place = (torch.arange(12, dtype=torch.float64) + 0.5) / 12
        square = (place - x) ** 2 + (place[:, None] - y) ** 2
        expected = b * torch.exp(-square / (2 * w**2))
        picture = dataset.images(torch.tensor(number))[0].double()
        torch.testing.assert_close(picture, expected, rtol=1e-6, atol=1e-7)


def test_blocks_show_their_classes():
    dataset = Blocks((3, 2), cell=2).load(CPU)
    picture = dataset.images(torch.tensor(5))[0]  # classes 2 and 1
    assert picture.tolist() == 2 * [[0, 0, 0, 0, 1, 1]] + 2 * [[0, 0, 1, 1, 0, 0]]
