"""Pictures of a report: sheets of images, colours of channels and their legends."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from report_pages import analysed, quick, rendered
from unweave.catalogue.preview import preview_sheet
from unweave.data import Schema
from unweave.data.dataset import ArrayDataset
from unweave.report import (
    pictures,
    traversals,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning"),  # of small datasets
    pytest.mark.usefixtures("quick_scores"),
]


def decoded(sheet: pictures.Sheet) -> np.ndarray:
    data = base64.b64decode(sheet.uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(("channels", "bands"), [(1, 2), (3, 4), (4, 4)])
def test_a_sheet_shows_its_images(channels, bands):
    rng = np.random.default_rng(0)
    images = rng.random((3, channels, 40, 50)).astype(np.float32)
    sheet = pictures.sheet([images, 1 - images])
    canvas = decoded(sheet)
    assert canvas.shape == (sheet.height, sheet.width, bands)
    left = round(sheet.centre(2) * sheet.width - sheet.cell / 2)
    shown = canvas[:40, left : left + 50, :channels]
    assert np.abs(shown - 255 * images[2].transpose(1, 2, 0)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("shape", "cell", "coarse"),
    [((1, 8, 8), 32, True), ((1, 64, 64), 64, False), ((3, 256, 128), 32, False)],
)
def test_images_are_scaled_to_a_useful_size(shape, cell, coarse):
    sheet = pictures.sheet([np.ones((2, *shape), np.float32)])
    assert (sheet.cell, sheet.coarse) == (cell, coarse)
    assert decoded(sheet)[:, : sheet.cell].min() == 255


def test_images_of_other_values_are_shown_over_their_range():
    images = np.linspace(2, 5, 101, dtype=np.float32).reshape(1, 1, 1, 101)
    shown = pictures.colour_map(images, pixels=False)
    assert (shown.low[0], shown.high[0]) == pytest.approx((2, 5), abs=0.05)
    assert [entry.name for entry in shown.legend] == ["black", "white"]
    assert pictures.colour_map(images, pixels=True).legend == []
    empty = pictures.colour_map(0 * images, pixels=False)
    assert empty.high[0] > empty.low[0]


def test_signed_values_are_blue_and_orange_about_zero():
    images = np.array([-3.0, 0.0, 1.5], np.float32).reshape(1, 1, 1, 3).repeat(40, 2)
    colours = pictures.colour_map(images, pixels=False)
    assert colours.low == (-colours.high[0],)
    red, _, blue, _ = colours.apply(torch.from_numpy(images))[0, :, 0]
    assert blue[0] > red[0]
    assert red[1] == blue[1]
    assert red[2] > blue[2]
    assert pictures.colour_map(np.maximum(images, -0.01), pixels=False).diverging is False


@pytest.mark.parametrize("count", [2, 4, 5, 13])
def test_each_channel_has_a_colour_of_its_own(count):
    """An image that is bright in one channel only shows the colour of that channel."""
    images = np.zeros((count, count, 40, 40), np.float32)
    images[range(count), range(count), 10:30, 10:30] = np.arange(1, count + 1)[:, None, None] * 100
    colours = pictures.colour_map(images, pixels=False)
    canvas = decoded(pictures.sheet([images], colours))
    assert canvas.shape[-1] == 4
    cell = 40 + 1
    seen = [tuple(canvas[20, cell * n + 20, :3]) for n in range(count)]
    assert len(set(seen)) == count
    assert all(max(colour) > 100 for colour in seen)
    assert (canvas[2, 2, :3] == 0).all()
    css = [tuple(map(int, entry.colour.split())) for entry in colours.legend]
    assert np.abs(np.subtract(css, np.asarray(seen, int))).max() <= 1
    assert colours.legend[1].text == f"channel 1: 0 to {200:.3g}"


def test_channels_can_be_selected():
    images = np.random.default_rng(0).random((6, 5, 40, 40)).astype(np.float32)
    chosen = pictures.colour_map(images, pixels=False, channels=(4, 0, 2))
    canvas = decoded(pictures.sheet([images], chosen)) / 255
    low, high = np.array(chosen.low), np.array(chosen.high)
    expected = ((images[0, [4, 0, 2]].transpose(1, 2, 0) - low) / (high - low)).clip(0, 1)
    assert np.abs(canvas[:40, :40, :3] - expected).max() < 0.005
    assert [entry.text.split(":")[0] for entry in chosen.legend] == [
        "channel 4", "channel 0", "channel 2"]  # fmt: skip
    with pytest.raises(ValueError, match="channels from 0 to 4, got 7"):
        pictures.colour_map(images, pixels=False, channels=(7,))


@uw.spec
class Stains:
    """Images with any number of channels, in units of their own."""

    channels: int = 5
    kind: str = "stains"

    def load(self, device):
        x = 300 * np.random.default_rng(0).normal(size=(48, self.channels, 12, 12))
        empty = torch.zeros((48, 0), dtype=torch.int64)
        schema = Schema(48, (self.channels, 12, 12))
        return ArrayDataset(schema, torch.from_numpy(x.astype(np.float32)), empty)


@pytest.mark.parametrize("channels", [2, 5])
def test_reports_and_previews_of_other_channels_have_a_legend(channels):
    data = Stains(channels)
    page = rendered(quick(data, steps=5, likelihood=uw.likelihoods.Gaussian(300.0)))
    assert f"channel {channels - 1}:" in page.words
    (note, _) = preview_sheet(data.load(torch.device("cpu"))).notes
    assert note.startswith("false colours: green is channel 0: ")


@pytest.mark.parametrize("scale", ["percentile", "standardise"])
def test_the_legend_of_scaled_images_is_in_the_units_of_the_user(scale):
    rng, levels = np.random.default_rng(0), np.array([500.0, 4000.0])
    images = rng.normal(levels[:, None, None], levels[:, None, None] / 10, (64, 2, 8, 8))
    data, _ = uw.data.from_array(images.astype(np.float32), scale=scale, axes="nchw")
    found = analysed(quick(data, steps=5))
    for channels in ((), (1, 0)):
        colours = traversals.image_colours(found, channels)
        shown = [entry.text for entry in pictures.colour_legend(colours, found.model.schema)]
        for channel, text in zip(channels or (0, 1), shown, strict=True):
            low, high = map(float, text.removeprefix(f"channel {channel}: ").split(" to "))
            ends = np.quantile(images[:, channel], (0.005, 0.995))
            assert (low, high) == pytest.approx(ends, rel=0.1)
    (note, *_) = preview_sheet(data.load(torch.device("cpu"))).notes
    assert "channel 1: 3" in note or "channel 1: 2" in note  # thousands, not 0 to 1
