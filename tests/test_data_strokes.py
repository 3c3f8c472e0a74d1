"""Thickness and width of written digits: shapes whose measures are known."""

import numpy as np
import pytest
import torch

from published_files import idx
from unweave.data import MNIST, HeldOut, Selected
from unweave.data.published.strokes import in_fifths, strokes

V, U = np.mgrid[:64, :64] - 31.5


def ring(across, down, thickness, slant=0.0):
    """Draw an ellipse with these axes; shift each row to the right by `slant` of its height."""
    u = (U + slant * V) * down / across
    far = np.abs(np.hypot(u, V) - down / 2)
    return np.clip(thickness / 2 + 0.5 - far, 0, 1)


@pytest.mark.parametrize("thickness", [2, 4, 6])
def test_a_ring_has_its_thickness_and_width(thickness):
    ((measured, width),) = strokes(ring(40, 40, thickness)[None])
    assert measured == pytest.approx(thickness, rel=0.12)  # corners of pixels
    assert width == pytest.approx(40, rel=0.03)


def test_width_does_not_depend_on_height_and_slant():
    narrow, wide = (strokes(ring(across, 40, 2)[None])[0, 1] for across in (20, 40))
    assert narrow / wide == pytest.approx(0.5, rel=0.15)  # the stroke is thinner at the sides
    slanted = strokes(ring(30, 40, 2, slant=0.4)[None])[0, 1]
    assert slanted == pytest.approx(strokes(ring(30, 40, 2)[None])[0, 1], rel=0.03)


def test_strokes_do_not_depend_on_brightness_and_position():
    image = ring(30, 40, 3)
    plain, faint, moved, empty = strokes(
        np.stack([image, 0.3 * image, np.roll(image, (5, -7), (0, 1)), 0 * image])
    )
    assert faint == pytest.approx(plain, rel=1e-3)
    assert moved == pytest.approx(plain, rel=1e-3)
    assert empty.tolist() == [0.0, 0.0]


def test_fifths_are_computed_within_each_class(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 25).astype(np.uint8)
    # Digits of higher classes are thicker, and each class has five fifths all the same.
    rings = [
        ring(40, 40, 2 + 0.3 * label + rng.uniform())[::2, ::2][2:30, 2:30] for label in labels
    ]
    images = (255 * np.stack(rings)).astype(np.uint8)
    fifths = in_fifths(images / 255, labels)
    for label in range(10):
        assert np.bincount(fifths[labels == label, 0]).tolist() == [5] * 5
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr("unweave.data.published.base.verify", lambda *_: None)  # files of ours
    (tmp_path / "mnist").mkdir()
    for split in ("train", "t10k"):
        (tmp_path / f"mnist/{split}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (tmp_path / f"mnist/{split}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    data = MNIST(strokes=True)
    dataset = data.load(torch.device("cpu"))
    assert dataset.factor_names == ("class", "thickness", "width")
    assert dataset.factor_sizes == (10, 5, 5)
    assert np.array_equal(dataset.factors(torch.arange(250)), np.c_[labels, fifths])
    thick = HeldOut({"class": (7,), "thickness": (4,)}, split="held-out")
    held = Selected(data, (thick,)).load(torch.device("cpu"))
    assert held.size == 5
    assert (
        (strokes(held.images(torch.arange(5))[:, 0]).min(0)[0])
        >= np.sort(strokes(images[labels == 7] / 255)[:, 0])[19]
    )
