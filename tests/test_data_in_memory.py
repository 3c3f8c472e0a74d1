"""Arrays in memory: how axes, types and factors are interpreted, or refused."""

import gc

import numpy as np
import pytest
import torch

import unweave as uw
from byte_images import BYTES, everything
from datasets import CPU
from unweave.core.spec import digest, from_json, to_json
from unweave.data import Factor, InMemory, Lattice, from_array


def load(images, **extra):
    return from_array(images, **extra)[1]


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((6, 5, 7), (1, 5, 7)),
        ((6, 5, 7, 1), (1, 5, 7)),
        ((6, 6, 7, 3), (3, 6, 7)),
        ((6, 1, 5, 7), (1, 5, 7)),
        ((6, 3, 6, 7), (3, 6, 7)),
        ((6, 1, 4, 4), (1, 4, 4)),
        ((6, 4, 4, 1), (1, 4, 4)),
        ((6, 5, 5, 4), (4, 5, 5)),  # fewer channels than the side of square images
        *(((6, 12, 10, count), (count, 12, 10)) for count in (2, 5)),
        *(((6, count, 30, 26), (count, 30, 26)) for count in (2, 5, 13)),
        ((6, 9), (9,)),
        ((6, 1), (1,)),
    ],
    ids=str,
)
def test_axes_are_interpreted(given, shape):
    images = np.arange(np.prod(given), dtype=np.float32).reshape(given)
    dataset = load(images, scale="none")
    assert dataset.size == 6
    assert dataset.shape == shape
    last = len(given) == 4 and shape == (given[3], *given[1:3])
    expected = np.moveaxis(images, -1, 1) if last else images
    np.testing.assert_array_equal(everything(dataset), expected.reshape(6, *shape))
    order = "channels last" if last else "channels first"
    assert dataset.notes[0].endswith(order) == (len(given) == 4)


@pytest.mark.parametrize("given", [(6, 3, 3, 3), (6, 5, 7, 4), (2, 5, 6, 7), (4, 8, 9, 200)])
def test_axes_that_could_be_either_are_asked_for(given):
    images = np.random.default_rng(0).random(given)
    message = f"{given[1]} channels.* or data.axes=nhwc .{given[3]} channels"
    with pytest.raises(ValueError, match=message):
        load(images)
    np.testing.assert_allclose(everything(load(images, axes="nchw")), images, rtol=1e-6)
    last = everything(load(images, axes="nhwc"))
    np.testing.assert_allclose(last, np.moveaxis(images, -1, 1), rtol=1e-6)
    with pytest.raises(ValueError, match="leave out axes"):
        load(images[0], axes="nchw")


def test_bytes_stay_bytes_and_become_floats_in_the_unit_interval():
    dataset = load(BYTES)
    assert dataset.data.dtype == torch.uint8
    images = everything(dataset)
    assert images.dtype == torch.float32
    assert dataset.bounded
    assert images.min() == 0
    assert images.max() == 1
    np.testing.assert_allclose(images[:, 0], BYTES / 255, rtol=1e-6)


@pytest.mark.parametrize("images", [torch.zeros(4, 2).bfloat16(), torch.zeros(4, 2).to_sparse()])
def test_tensors_that_numpy_cannot_hold_are_refused(images):
    with pytest.raises(ValueError, match=r"got torch\.(bfloat16|float32).*convert it"):
        from_array(images)


@pytest.mark.parametrize(
    ("images", "expected", "bounded"),
    [
        (BYTES > 100, BYTES > 100, True),
        ((BYTES > 100).astype(np.uint8), BYTES > 100, True),
        ((BYTES > 100).astype(np.int64), BYTES > 100, True),
        ((BYTES > 100).astype(np.float32), BYTES > 100, True),
        (BYTES.astype(np.uint16) * 257, BYTES / 255, True),
        (BYTES.astype(">u2") * 257, BYTES / 255, True),
        (BYTES.astype(np.int16) - 100, BYTES / 255, True),
        (BYTES / 255, BYTES / 255, True),
        ((BYTES / 255).astype(np.float16), (BYTES / 255).astype(np.float16), True),
        (BYTES.astype(">f8"), BYTES / 255, True),
        (BYTES / 255 - 0.5, BYTES / 255, True),
    ],
    ids=str.split("bool 0-1-bytes 0-1-int 0-1-float uint16 >u2 int16 float half >f8 signed"),
)
def test_types_of_images_are_interpreted(images, expected, bounded):
    dataset = load(images)
    assert dataset.bounded is bounded
    np.testing.assert_allclose(everything(dataset)[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (BYTES.astype(np.int64), "images of int64 from 0 to 255.*bytes .*percentile .*counts"),
        (BYTES.astype(np.int32) % 52, "images of int32 from 0 to 51.*bytes .*percentile .*counts"),
        (
            BYTES.astype(np.int64) * 9,
            r"0 to 2295.*percentile .*counts .*; in Py.*=\"percentile\"\)$",
        ),
        (BYTES.astype(np.int8), "images of int8 from -"),
        (BYTES[:, 0], r"vectors of uint8 .*counts .*standardise \(measurements\).*scale=bytes"),
        (BYTES[:, 0].astype(np.uint16) * 9, "vectors of uint16 .*counts .*standardise"),
        (BYTES[:, 0].astype(np.int64) - 300, r"with data.scale=standardise \(measurements\); in P"),
        (np.where(BYTES[:, 0] > 250, -999, 7), r"-999 seems to stand for missing values: fill"),
    ],
    ids=str.split("int64 int32 large int8 uint8-vectors uint16-vectors negative missing"),
)
def test_integers_of_unknown_meaning_are_asked_about(images, message):
    with pytest.raises(ValueError, match=message):
        load(images)
    with pytest.raises(ValueError, match=r'from_array\(x, scale="'):
        uw.fit(images)


def test_integers_are_read_as_their_scale_says():
    counts = BYTES.astype(np.int64)
    dataset = load(counts, scale="counts")
    assert (dataset.schema.scaling.method, dataset.bounded) == ("counts", False)
    np.testing.assert_array_equal(everything(dataset)[:, 0], counts)
    pixels = load(counts, scale="bytes")
    assert pixels.data.dtype == torch.uint8
    assert torch.equal(everything(pixels), everything(load(BYTES)))
    np.testing.assert_array_equal(everything(load(counts, scale="none"))[:, 0], counts)
    specs = [from_array(counts, scale=scale)[0] for scale in ("counts", "bytes", "none")]
    assert len({*specs}) == len({digest(spec) for spec in specs}) == 3
    assert specs[0].load(CPU).schema.scaling.method == "counts"


@pytest.mark.parametrize(
    ("images", "scale", "message"),
    [
        (BYTES - 300.0, "counts", "scale=counts expects non-negative integers, got float64"),
        (BYTES / 2, "counts", "with fractions"),
        (BYTES.astype(int) * 2, "bytes", "scale=bytes expects integers in 0..255, got int64"),
        (BYTES.astype(float), "bytes", "got float64 from 0 to 255"),
    ],
)
def test_a_scale_that_does_not_fit_is_refused(images, scale, message):
    with pytest.raises(ValueError, match=message):
        load(images, scale=scale)


def nan_image():
    images = np.zeros((4, 5, 5))
    images[2, 1, 1] = np.nan
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros(5), "reshape"),
        (np.zeros((2, 3, 4, 5, 6)), "volumes"),
        (np.zeros((0, 5, 5)), "at least one observation"),
        (np.zeros((3, 0)), "at least one observation"),
        (nan_image(), "observation 2"),
        (np.full((2, 4, 4), np.inf), "infinity"),
        (np.full((2, 4, 4), 1e300), "infinity"),
        (np.full((2, 4, 4), None), "object"),
        (np.full((2, 4, 4), 1j), "complex"),
        (np.full((2, 4), "a"), "expected observations as real numbers, got text"),
        ([[1.0, 2.0], [3.0]], "regular array"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_observations_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        load(images)


def test_factors_are_recoded_column_by_column():
    factors = np.array([[5, 0], [9, 0], [5, 1], [7, 0], [5, 0], [9, 1]])
    dataset = load(BYTES, factors=factors)
    assert dataset.factor_names == ("factor0", "factor1")
    assert dataset.factor_sizes == (3, 2)
    assert dataset.factors(torch.arange(6))[:, 0].tolist() == [0, 2, 0, 1, 0, 2]
    assert dataset.factors(torch.tensor([[0, 1], [2, 3]])).shape == (2, 2, 2)
    assert dataset.lattice is None


def test_a_full_enumeration_in_order_is_a_lattice():
    factors = np.stack(np.unravel_index(np.arange(6), (2, 3)), -1)
    dataset = load(BYTES, factors=factors + 10, names=("big", "small"))
    big, small = Factor("big", 2, values=(10, 11)), Factor("small", 3, values=(10, 11, 12))
    assert dataset.lattice == Lattice((big, small))
    assert load(BYTES, factors=factors[::-1]).lattice is None


def test_one_column_of_labels_is_one_factor_and_none_is_none():
    assert load(BYTES, factors=np.array([0, 1, 0, 1, 0, 2])).factor_sizes == (3,)
    dataset = load(BYTES)
    assert dataset.factor_names == dataset.factor_sizes == ()
    assert dataset.factors(torch.arange(4)).shape == (4, 0)


@pytest.mark.parametrize(
    ("factors", "names", "message"),
    [
        (np.zeros((5, 2), int), None, "one row for each"),
        (np.zeros((6, 2, 2), int), None, "one row for each"),
        (np.zeros((6, 0), int), None, "one row for each"),
        (np.zeros((6, 2), complex), None, "integers or text"),
        (np.zeros((6, 2), int), ("a",), "2 distinct factor names"),
        (np.zeros((6, 2), int), ("a", "a"), "2 distinct factor names"),
    ],
)
def test_bad_factors_are_refused(factors, names, message):
    with pytest.raises(ValueError, match=message):
        load(BYTES, factors=factors, names=names)


def test_indices_are_checked_and_take_any_shape():
    dataset = load(BYTES)
    assert dataset.images(torch.tensor(2)).shape == (1, 5, 7)
    assert dataset.images(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 1, 5, 7)
    assert dataset.images(torch.zeros(0, dtype=torch.int64)).shape == (0, 1, 5, 7)
    for call in (dataset.images, dataset.factors):
        with pytest.raises(ValueError, match="between 0 and 5"):
            call(torch.tensor([6]))


class TestInMemory:
    def test_the_spec_identifies_the_content(self):
        spec, dataset = from_array(BYTES)
        assert (spec.shape, spec.dtype) == ((6, 5, 7), "uint8")
        assert spec == from_array(BYTES.copy())[0]
        assert from_json(InMemory, to_json(spec)) == spec
        assert torch.equal(everything(spec.load(CPU)), everything(dataset))
        different = [
            from_array(BYTES.astype(np.int16))[0],
            from_array(BYTES.reshape(6, 7, 5))[0],
            from_array(BYTES, np.arange(6))[0],
            from_array(BYTES, np.arange(6), ["name"])[0],
        ]
        assert len({spec, *different}) == 5
        assert len({digest(each) for each in (spec, *different)}) == 5

    def test_the_array_is_kept_while_the_spec_is_in_use(self):
        images = np.random.default_rng(8).random((3, 4))
        spec = from_array(images)[0]
        content = to_json(spec)
        from_array(images)  # a second, short-lived binding of the same content
        assert from_json(InMemory, content).load(CPU).size == 3
        del spec
        gc.collect()
        with pytest.raises(ValueError, match="call from_array"):
            from_json(InMemory, content).load(CPU)

    def test_later_changes_to_the_array_have_no_effect(self):
        images = np.zeros((3, 4), np.float32)
        spec, dataset = from_array(images)
        images += 1
        assert everything(dataset).max() == everything(spec.load(CPU)).max() == 0

    def test_tensors_and_lists_are_arrays(self):
        assert torch.equal(everything(load(torch.tensor(BYTES))), everything(load(BYTES)))
        assert load([[0.0, 1.0], [0.5, 0.5]], device="cpu").shape == (2,)

    def test_an_invalid_digest_is_refused(self):
        with pytest.raises(ValueError, match="digest"):
            InMemory(digest="abc", shape=(1, 2), dtype="uint8")
