"""Previews: what they show, and the notes that explain them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datasets import CPU
from unweave.catalogue.palette import (
    INK,
    LINE,
    MISSING_LABEL,
    MUTED,
    class_colour,
    scale_colour,
)
from unweave.catalogue.preview import factor_traversals, preview_sheet
from unweave.catalogue.scatter import planar
from unweave.data import (
    Arrays,
    Blobs,
    Blocks,
    HeldOut,
    Mixing,
    Paired,
    Pinwheel,
    Selected,
    Subset,
    from_array,
)

ROOT = Path(__file__).parents[1]
COLOURED = 40  # the least difference of red, green and blue in a dot; text and lines are grey


def cells(sheet, rows, side=64):
    """Cut the images (rows, 12, side, side) out of a preview."""
    grey = np.asarray(sheet.convert("L"))
    step = side + side // 28  # and a gap
    tops = [8 + step * r for r in range(rows)]
    lefts = [sheet.width - 8 - step * c + side // 28 for c in range(12, 0, -1)]
    return np.array([[grey[t : t + side, x : x + side] for x in lefts] for t in tops])


def test_a_preview_shows_random_observations_and_traversals():
    dataset = Blobs(side=64, levels=1, widths=3, positions=15).load(CPU)
    sheet, notes = preview_sheet(dataset)
    assert notes == ()
    found = cells(sheet, rows=4 + 3)
    shown = found[:4].reshape(48, -1)
    assert len(np.unique(shown, axis=0)) == 48
    everything = (dataset.images(torch.arange(dataset.size)) * 255).round().flatten(1).numpy()
    rows = {row.tobytes() for row in everything.astype(np.uint8)}
    assert all(row.tobytes() in rows for row in shown)
    width, x, y = found[4:]
    assert (width[3:] == 255).all()  # three classes, and then nothing
    for traversal, axis in ((x, 1), (y, 0)):
        profiles = traversal.astype(float).sum(1 + (1 - axis))
        assert (np.diff(profiles.argmax(1)) > 0).all()
        other = traversal.astype(float).sum(1 + axis)
        assert len(set(other.argmax(1))) == 1


def test_small_images_are_enlarged_with_sharp_pixels():
    _, dataset = from_array(np.random.default_rng(0).integers(0, 255, (12, 8, 8), np.uint8))
    image = cells(preview_sheet(dataset).picture, rows=1)[0, 0]
    assert (image == image[::8, ::8].repeat(8, 0).repeat(8, 1)).all()
    assert len(np.unique(image)) > 30


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (Blocks((2, 3), cell=16), 1 + 2),
        (Selected(Blocks((3, 3, 9), cell=4), (Subset(30),)), 3 + 3),
        (Paired(Blocks((2, 3), cell=4), changed=1), 1),
    ],
    ids=lambda case: getattr(case, "kind", case),
)
def test_every_kind_of_dataset_is_shown(data, rows):
    dataset = data.load(CPU)
    sheet, notes = preview_sheet(dataset)
    height = (sheet.height - 2 * 8 - 13 * len(notes) + 1) / rows
    assert height == pytest.approx(round(height), abs=0.5)
    assert np.asarray(sheet).std() > 10


@pytest.mark.parametrize("seed", range(4))
def test_traversals_without_a_lattice_change_one_factor_if_possible(seed):
    """Compare with a search over all combinations of the other factors."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, n, 60) for n in (2, 3, 4)], 1)
    _, dataset = from_array(np.zeros((60, 4, 4), np.uint8), codes, ["a", "b", "c"])
    starred = []
    for k, traversal in enumerate(factor_traversals(dataset)):
        seen = dataset.factors(traversal.rows).numpy()
        assert seen[:, k].tolist() == [*range(codes[:, k].max() + 1)]
        others = np.delete(codes, k, 1)
        together = [len({*codes[(others == one).all(1), k]}) for one in others]
        assert traversal.others_fixed == (max(together) == len(seen))
        changed = (np.delete(seen, k, 1) != np.delete(seen, k, 1)[:, None]).any(2).sum(1).min()
        assert changed == len(seen) - max(together)  # as many as can have all else equal
        starred += [] if traversal.others_fixed else [traversal.name]
    notes = preview_sheet(dataset).notes
    assert [note.partition(": ")[2].partition(";")[0] for note in notes] == [
        ", ".join(starred) for _ in starred[:1]
    ]


def test_traversals_avoid_held_out_combinations_and_have_labels():
    """Traversals fix a class of the other factor with which all combinations exist."""
    sizes = np.array([0.5, 1, 20])
    grid = np.array([(size, angle) for size in sizes for angle in range(15)])[::-1]
    spec, _ = from_array(np.zeros((45, 4, 4), np.uint8), grid, ["size", "angle"])
    dataset = Selected(spec, (HeldOut({"size": (1,), "angle": ("0..9",)}),)).load(CPU)
    size, angle = factor_traversals(dataset)
    assert (size.name, size.ends, size.others_fixed) == ("size", "0.5 .. 20", True)
    assert dataset.factors(size.rows)[:, 0].tolist() == [0, 1, 2]
    assert len(dataset.factors(size.rows)[:, 1].unique()) == 1
    assert (angle.name, angle.ends, angle.others_fixed) == ("angle", "0 .. 14", True)
    seen = dataset.factors(angle.rows)
    assert seen[:, 1].tolist() == [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14]  # 12 of them
    assert seen[:, 0].unique().tolist() in ([0], [2])


def test_missing_traversals_are_noted():
    _, dataset = from_array(np.zeros((30, 4, 4), np.uint8))
    assert preview_sheet(dataset).notes == ("the factors are unknown, so there are no traversals",)
    pairs = Paired(Blocks((2, 3), cell=4), changed=1).load(CPU)
    assert factor_traversals(pairs) == []
    assert "pairs have no traversals" in preview_sheet(pairs).notes[0]
    _, vectors = from_array(np.random.default_rng(0).normal(size=(6000, 3)))
    assert preview_sheet(vectors).notes == (
        "5,000 of 6,000 observations, at random",
        "the factors are unknown: all points have the same colour",
    )


def dots(dataset):
    """Return the centres of the dots of each colour in a plot, without the legend."""
    picture = np.asarray(preview_sheet(dataset).picture)[:432, 60:484].astype(int)
    bright = np.ptp(picture, -1) > COLOURED
    colours = np.unique(picture[bright], axis=0)
    places = [np.argwhere((picture == colour).all(-1)) for colour in colours]
    return np.array([(each.max(0) + each.min(0)) / 2 for each in places])[:, ::-1]


def test_points_are_plotted_to_scale():
    """The corners of a square form a square; with other units, both axes are filled."""
    corners = np.array([[0, 0], [10, 0], [0, 10], [10, 10.0]])
    for scale, offset in ((1, 0), (0.01, 7), ([1, 1000], 0)):
        _, dataset = from_array(corners * scale + offset, np.arange(4))
        found = dots(dataset)
        assert len(found) == 4
        across, down = found.max(0) - found.min(0)
        assert across == pytest.approx(down, abs=1)
        assert across == pytest.approx(420 / 1.08, abs=1.5)  # with air at both sides
    _, dataset = from_array(corners * [1, 0.5], np.arange(4))  # alike enough for one scale
    across, down = np.ptp(dots(dataset), axis=0)
    assert down / across == pytest.approx(0.5, abs=0.01)


def test_axes_are_named_after_the_columns_of_a_table(tmp_path, monkeypatch):
    axes = []
    draw_axes = "unweave.catalogue.scatter._axes"
    monkeypatch.setattr(draw_axes, lambda canvas, spans, names: axes.append(names))
    x = np.array([[1, 2, 0], [-1, 2, 0], [1, -2, 0], [-1, -2, 0.0]])
    lines = ["height,weight,age,group", *(",".join(map(str, row)) + ",a" for row in x)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    for key in ("weight,age", "age", "height,weight,age"):
        preview_sheet(Arrays(tmp_path / "a.csv", key=key, scale="standardise").load(CPU))
    selected = Selected(Arrays(tmp_path / "a.csv", factors_key="group"), (Subset(4),)).load(CPU)
    assert selected.schema.value_names == ("height", "weight", "age")
    preview_sheet(from_array(x[:, :2])[1])
    assert axes == [
        ("weight", "age"),
        ("age", ""),
        ("principal component 1 of 3 values, 50% of the variance",
         "principal component 2 of 3 values, 50% of the variance"),
        ("value 0", "value 1"),
    ]  # fmt: skip


def hues(dataset):
    colours = np.asarray(preview_sheet(dataset).picture).reshape(-1, 3).astype(int)
    return len(np.unique(colours[np.ptp(colours, 1) > COLOURED], axis=0))


def test_points_have_the_colours_of_the_explorer():
    """They had hues of their own. Classes with an order have a scale of colours."""
    source = (ROOT / "web/src/scatter/palette.ts").read_text()
    listed = {
        name: [
            tuple(map(int, each.split(", "))) for each in re.findall(r"\[?([\d, ]+\d)\]", values)
        ]
        for name, values in re.findall(r"const (\w+): Rgb\S* = \[(.*?)\];", source, re.DOTALL)
    }
    assert listed["OKABE_ITO"] == [class_colour(number) for number in range(7)]
    assert listed["VIRIDIS"] == [scale_colour(number / 9) for number in range(10)]
    assert f"MISSING: Rgb = {[*MISSING_LABEL]};" in source
    page = (ROOT / "src/unweave/report/page.css").read_text()
    light = dict(re.findall(r"--(ink|muted|line): #(\w+);", page.partition("@media")[0]))
    inks = {"ink": INK, "muted": MUTED, "line": LINE}
    assert light == {name: bytes(colour).hex() for name, colour in inks.items()}


def test_classes_with_an_order_are_on_a_scale():
    points = np.random.default_rng(0).normal(size=(30, 2))
    ends = {0: (class_colour(0), class_colour(1)), 1: (scale_colour(0), scale_colour(1))}
    for ordered, (first, second) in ends.items():
        labels = np.arange(30) % 2 if ordered else np.array(["a", "b"])[np.arange(30) % 2]
        _, dataset = from_array(points, labels)
        assert (dataset.schema.factor(0).kind != "categorical") == ordered
        colours = {colour for _, colour in preview_sheet(dataset).picture.getcolors(10**6)}
        assert {first, second} <= colours


def test_points_of_the_plane_are_plotted_by_cluster():
    spec = Pinwheel(points_per_cluster=200, radial_std=0.01, tangential_std=0.01, convention="text")
    assert hues(spec.load(CPU)) == 4
    assert hues(Mixing(observations=50).load(CPU)) == 1


def test_vectors_are_plotted_by_their_principal_components():
    """Points of a plane in a higher-dimensional space keep their distances."""
    rng = np.random.default_rng(0)
    flat = torch.from_numpy(rng.normal(size=(30, 2)) * [3, 1])
    axes = torch.linalg.qr(torch.from_numpy(rng.normal(size=(7, 2)))).Q
    shown = planar(flat @ axes.T + 5)
    torch.testing.assert_close(torch.cdist(shown, shown), torch.cdist(flat, flat))
    assert planar(flat).equal(flat)
    assert planar(flat[:, :1])[:, 1].tolist() == [0] * 30
    _, dataset = from_array((flat @ axes.T).numpy(), np.arange(30) % 3)
    assert hues(dataset) == 3


def test_the_command_writes_a_png(unweave, tmp_path):
    path = tmp_path / "b.png"
    code, out, _ = unweave("data", "preview", "blocks", "sizes=[2,3]", "--out", path)
    assert code == 0
    assert str(path) in out.replace("\n", "")
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_the_file_is_named_after_the_data(unweave, tmp_path, monkeypatch):
    """Previews of different data have different names."""
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", some=np.zeros((3, 4, 4)), more=np.zeros(3))
    (tmp_path / "a").mkdir()
    np.savez("a/digits.npz", some=np.zeros((3, 4, 4)))
    (tmp_path / "table.csv").write_text("u,v,w,k\n1.5,2,3,a\n4,5,6,b\n")
    many = "held-out:" + "/".join(f"factor0=0,factor1={k % 3}" for k in range(12))
    shown = {
        "digits.npz-key=some": ["digits.npz", "data.key=some"],
        "a-digits.npz": ["./a/digits.npz"],
        "table.csv-key=u,v,w-factors_key=k": ["table.csv", "key=u,v,w", "factors_key=k"],
        "blocks": ["blocks"],
        "blocks-sizes=-2,3": ["blocks", "sizes=[2,3]"],
        "blocks-subset-count=2": ["blocks", "--select", "subset:count=2"],
        "blocks-subset-count=3": ["blocks", "--select", "subset:count=3"],
    }
    for name, arguments in shown.items():
        code, out, _ = unweave("data", "preview", *arguments)
        assert (code, out.strip()) == (0, f"{name}-preview.png")
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{n}-preview.png" for n in shown}
    selections = [f"{many},split={split}" for split in ("rest", "held-out")]
    long = [unweave("data", "preview", "blocks", "--select", each)[1] for each in selections]
    assert len({*long}) == 2
    assert max(map(len, long)) < 160


def test_the_command_prints_notes(unweave, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 4, 4)), f=np.array([0.5, 0.5, 2, 2]))
    data = [tmp_path / "a.npz", "key=x", "--out", tmp_path / "a.png"]
    code, _, err = unweave("data", "preview", *data, "factors_key=f", "--select", "held-out:f=2")
    assert code == 0
    assert "2 observations of 4: all but f=2" in " ".join(err.split())
    _, _, err = unweave("data", "preview", *data)
    assert "the factors are unknown, so there are no traversals" in " ".join(err.split())


def test_errors_of_the_command_are_clear(unweave, tmp_path):
    path = tmp_path / "b.png"
    for arguments, message in (
        (["block"], "did you mean 'blocks'"),
        (["blocks", "cell=2,4"], "expected one dataset, got 2"),
        (["blocks", "size=3"], "not a field of Blocks"),
    ):
        code, _, err = unweave("data", "preview", *arguments, "--out", path)
        assert code == 2
        assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())
