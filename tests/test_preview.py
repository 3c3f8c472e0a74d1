"""Previews: what they show, where, and what they refuse."""

import numpy as np
import pytest
import torch
from PIL import Image

from unweave.data import Blobs, Blocks, Mixing, Paired, Pinwheel, Sampled, Subset, from_array
from unweave.report import preview_sheet
from unweave.report.preview import planar
from worlds import CPU


def cells(sheet, rows, side=32):
    """Pictures of a sheet, (rows, 12, side, side), found from its right and lower ends."""
    grey = np.asarray(sheet.convert("L"))
    step = side + 1  # and a gap of a pixel
    tops = [8 + step * r for r in range(rows)]
    lefts = [sheet.width - 8 - step * c + 1 for c in range(12, 0, -1)]
    return np.array([[grey[t : t + side, x : x + side] for x in lefts] for t in tops])


def test_a_sheet_shows_observations_and_a_walk_along_every_factor():
    world = Blobs(side=32, levels=1, widths=3, positions=15).load(CPU)
    found = cells(preview_sheet(world), rows=4 + 3)
    shown = found[:4].reshape(48, -1)
    assert len(np.unique(shown, axis=0)) == 48
    everything = (world.images(torch.arange(world.size)) * 255).round().flatten(1).numpy()
    rows = {row.tobytes() for row in everything.astype(np.uint8)}
    assert all(row.tobytes() in rows for row in shown)
    width, x, y = found[4:]
    assert (width[3:] == 255).all()  # three classes, and then nothing
    for walk, axis in ((x, 1), (y, 0)):
        profiles = walk.astype(float).sum(1 + (1 - axis))
        assert (np.diff(profiles.argmax(1)) > 0).all()
        other = walk.astype(float).sum(1 + axis)
        assert len(set(other.argmax(1))) == 1


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (Blocks((2, 3), cell=16), 1 + 2),
        (Sampled(Blocks((3, 3, 9), cell=4), (Subset(30),)), 3),
        (Paired(Blocks((2, 3), cell=4), changed=1), 1),
    ],
    ids=lambda case: getattr(case, "kind", case),
)
def test_every_kind_of_world_is_shown(data, rows):
    world = data.load(CPU)
    sheet = preview_sheet(world)
    height = (sheet.height - 2 * 8 + 1) / rows
    assert height == pytest.approx(round(height), abs=0.5)
    assert np.asarray(sheet).std() > 10


def test_points_of_the_plane_are_plotted_by_cluster():
    spec = Pinwheel(observations=200, radial=0.01, tangential=0.01, reading="text")
    colours = np.asarray(preview_sheet(spec.load(CPU))).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) == 5  # four clusters on white
    alone = np.asarray(preview_sheet(Mixing(observations=50).load(CPU))).reshape(-1, 3)
    assert len(np.unique(alone, axis=0)) == 2


def test_vectors_are_plotted_by_their_principal_components():
    """Points of a plane somewhere in space keep their distances."""
    rng = np.random.default_rng(0)
    flat = torch.from_numpy(rng.normal(size=(30, 2)) * [3, 1])
    axes = torch.linalg.qr(torch.from_numpy(rng.normal(size=(7, 2)))).Q
    shown = planar(flat @ axes.T + 5)
    torch.testing.assert_close(torch.cdist(shown, shown), torch.cdist(flat, flat))
    assert planar(flat).equal(flat)
    assert planar(flat[:, :1])[:, 1].tolist() == [0] * 30
    _, world = from_array((flat @ axes.T).numpy(), np.arange(30) % 3)
    colours = np.asarray(preview_sheet(world)).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) == 4  # three classes on white


def test_the_command_writes_a_picture(unweave, tmp_path):
    path = tmp_path / "b.png"
    code, out, _ = unweave("data", "preview", "blocks", "sizes=[2,3]", "--out", path)
    assert code == 0
    assert str(path) in out.replace("\n", "")
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_the_picture_is_called_as_what_it_shows(unweave, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", some=np.zeros((3, 4, 4)), more=np.zeros(3))
    (tmp_path / "table.csv").write_text("u,v,w,k\n1,2,3,a\n4,5,6,b\n")
    assert unweave("data", "preview", "digits.npz", "data.key=some")[0] == 0
    assert unweave("data", "preview", "table.csv", "key=u,v,w", "factors_key=k")[0] == 0
    assert unweave("data", "preview", "blocks", "--way", "subset:count=2")[0] == 0
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names == {"digits-preview.png", "table-preview.png", "blocks-preview.png"}


def test_the_command_says_what_is_wrong(unweave, tmp_path):
    path = tmp_path / "b.png"
    for arguments, message in (
        (["block"], "did you mean 'blocks'"),
        (["blocks", "cell=2,4"], "expected one data set, got 2"),
        (["blocks", "size=3"], "not a field of Blocks"),
    ):
        code, _, err = unweave("data", "preview", *arguments, "--out", path)
        assert code == 2
        assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())
