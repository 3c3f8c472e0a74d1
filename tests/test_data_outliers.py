"""Values so extreme that scaling leaves all others nearly equal are named; heavy tails are not."""

import numpy as np
import pandas
import pytest
import torch

import unweave as uw
from unweave.data.files.build import array_dataset
from unweave.data.random_split import split_rows
from unweave.evaluation.unfinished import unfinished
from unweave.evaluation.validation import Validation
from unweave.report import analysis
from unweave.report.verdict import verdict

CPU = torch.device("cpu")


def spectra(rows=80, columns=24):
    """Smooth peaks of random height and place on noise."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, columns)
    place, height = rng.uniform(0.2, 0.8, (rows, 1)), rng.uniform(0.5, 2, (rows, 1))
    peaks = height * np.exp(-(((grid - place) / 0.1) ** 2))
    return peaks + rng.normal(0, 0.02, (rows, columns))


def notes(x, **options):
    return [note for note in array_dataset(x, **options).notes if "extreme value" in note]


@pytest.mark.parametrize("scale", ["common", "standardise", "none"])
def test_one_extreme_cell_is_named_by_column_and_row(scale):
    x = spectra()
    assert not notes(x, scale=scale)
    x[9, 5] = 1e12
    (note,) = notes(x, scale=scale)
    assert "1e+12 in value 5 of observation 9;" in note
    assert note.endswith("correct it or remove the observation")


def test_the_note_names_column_and_row_of_a_table_and_is_printed(tmp_path, capsys):
    from unweave.cli.main import app

    x = spectra()
    x[9, 5] = 1e12
    header = ",".join(["sample", *(str(400 + 5 * n) for n in range(24))])
    lines = [f"S{n}," + ",".join(map(str, row)) for n, row in enumerate(x)]
    (tmp_path / "a.csv").write_text("\n".join([header, *lines]))
    app(["data", "info", str(tmp_path / "a.csv")], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "1e+12 in column 425 of observation 9 (S9)" in printed
    assert "data.ignore=425" in printed


def test_a_broken_row_and_a_number_that_stands_for_missing_values_are_found():
    x = spectra(300)
    x[7] *= 1e7
    (note,) = notes(x)
    assert "(24 values in 1 observation)" in note
    x = spectra(300)
    scattered = np.random.default_rng(0).permutation(x.size)[:20]
    x.reshape(-1)[scattered] = -99999
    for scale in ("standardise", "common", "none"):
        (note,) = notes(x, scale=scale)
        assert "(20 values in" in note
        assert "-99999 in value" in note


@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.45])
@pytest.mark.parametrize("scale", ["common", "standardise"])
def test_a_number_that_stands_for_missing_values_is_found_however_many_are_missing(share, scale):
    rng = np.random.default_rng(1)
    x = np.column_stack([spectra(300, 4), rng.integers(0, 4, 300)])
    for columns in ([2], [4], [0, 3, 4]):
        broken, cells = x.copy(), np.argwhere(np.ones((300, len(columns)), bool))
        chosen = cells[rng.permutation(len(cells))[: round(share * len(cells))]]
        broken[chosen[:, 0], np.array(columns)[chosen[:, 1]]] = -9999
        (note,) = notes(broken, scale=scale)
        rows = len(np.unique(chosen[:, 0]))
        assert f"({len(chosen)} values in {rows} observations)" in note
        assert note.count("-9999 in value") == 3


@pytest.mark.parametrize("share", [0.002, 0.2])
def test_pixels_without_data_are_found(share):
    x = np.random.default_rng(0).uniform(0, 3, (50, 1, 16, 16)).astype(np.float32)
    x.reshape(-1)[np.random.default_rng(1).permutation(x.size)[: int(share * x.size)]] = -9999
    assert "-9999 in channel 0" in notes(x)[0]


def test_advice_fits_the_data(tmp_path):
    x = np.random.default_rng(0).poisson(9, (300, 3)).astype(float)
    x[9, 1] = 8009
    columns = dict(zip("abc", x.T, strict=True))
    pandas.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    (file,) = [
        note for note in uw.Arrays(tmp_path / "a.csv").load(CPU).notes if "extreme value" in note
    ]
    assert "an extreme value leaves all others nearly equal after scaling: 8009 in column b" in file
    assert file.endswith("remove the observation or leave the column out with data.ignore=b")
    (table,) = notes(pandas.DataFrame(columns), scale="counts")
    assert table.startswith("an extreme value outweighs all others: 8009 in column b")
    assert " 700 times as far from the median" in table
    assert table.endswith("remove the observation or leave the column out")


def test_a_pixel_far_brighter_than_all_others_is_named():
    x = np.random.default_rng(0).uniform(0, 2, (30, 2, 5, 5)).astype(np.float32)
    x[3, 1, 2, 4] = 1e9
    (note,) = notes(x, scale="standardise")
    assert "1e+09 in channel 1 of observation 3 at row 2 and column 4" in note


def sharp_peaks(rng):
    x = rng.normal(0, 1e-3, (200, 100))
    x[np.arange(200), rng.integers(0, 100, 200)] += rng.lognormal(2, 1.5, 200)
    return x


def copies_of_heavy_tails(rng):
    return rng.pareto(0.5, (40, 20))[rng.integers(0, 40, 300)]


def zeros_and_heavy_tails(rng):
    return np.where(rng.random((200, 50)) < 0.4, 0, rng.lognormal(0, 3, (200, 50)))


def bright_pixels(rng):
    x = rng.poisson(5, (200, 12, 12)).astype(np.uint16)
    x[rng.integers(0, 200, 5), rng.integers(0, 12, 5), 4] = 65535
    return x


NORMAL = {
    "log-normal": (lambda rng: rng.lognormal(0, 2, (200, 50)), {}),
    "pareto": (lambda rng: rng.pareto(1, (200, 50)).astype(np.int64), {"scale": "counts"}),
    "cell counts": (lambda rng: rng.negative_binomial(0.1, 0.01, (200, 80)), {"scale": "counts"}),
    "sparse": (lambda rng: rng.lognormal(0, 2, (200, 80)) * (rng.random((200, 80)) < 0.05), {}),
    "one-hot": (lambda rng: 3.5 * np.eye(80)[rng.integers(0, 80, 200)], {}),
    "cauchy": (lambda rng: rng.standard_cauchy((200, 50)), {}),
    "rounded cauchy": (lambda rng: np.rint(3 * rng.standard_cauchy((200, 50))), {}),
    "copies of heavy tails": (copies_of_heavy_tails, {}),
    "zeros and heavy tails": (zeros_and_heavy_tails, {}),
    "zeros and heavy tails, common": (zeros_and_heavy_tails, {"scale": "common"}),
    "many zeros": (lambda rng: rng.poisson(0.05, (300, 80)), {"scale": "counts"}),
    "saturated": (lambda rng: np.minimum(rng.lognormal(0, 3, (300, 50)), np.exp(6)), {}),
    "clipped": (lambda rng: rng.normal(size=(200, 50)).clip(-1, 1), {"scale": "common"}),
    "doses": (lambda rng: rng.choice([0, 0.1, 1, 10, 100, 1000], (200, 8)), {}),
    "two values": (lambda rng: 1000.0 * (rng.random((200, 50)) < 0.05), {}),
    "sharp peaks": (sharp_peaks, {}),
    "sharp peaks, common": (sharp_peaks, {"scale": "common"}),
    "bright pixels": (bright_pixels, {}),
    "bright pixels, standardised": (bright_pixels, {"scale": "standardise"}),
}


@pytest.mark.parametrize("kind", NORMAL)
def test_heavy_tails_sparse_data_peaks_and_bright_pixels_are_no_mistakes(kind):
    make, options = NORMAL[kind]
    for seed in range(5):
        assert not notes(make(np.random.default_rng(seed)), **options)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    x = spectra(300)
    x[299, 3] = x[2, 3] = 1e9
    expected = notes(x)
    monkeypatch.setattr("unweave.data.files.rows.BLOCK", 24 * 8 * 7)
    assert notes(x) == expected != []


@pytest.mark.parametrize("row", [9, 20])  # of the training and of the validation split
def test_a_model_of_one_observation_is_not_praised(row):
    """R^2 is near 1 if one observation moves the mean of the training, or is held out itself."""
    x = spectra(200)
    assert (row in split_rows("train", 200)) == (row == 9)
    x[row] *= 60
    with pytest.warns(
        UserWarning, match=r"one of \d+ observations .* accounts for 9.* of the variance"
    ):
        model = uw.fit(
            uw.data.from_array(x, scale="common")[0],
            steps=60,
            progress=False,
            network=uw.MLP(hidden=(16,)),
            latent=uw.Gaussian(2),
        )
    found = analysis.explained(model)
    assert found.dominant.share > 0.9
    judged = verdict(analysis.analyse(model, 100))
    assert judged.level == "bad"
    assert judged.headline.startswith(("One observation has 9", "The model has learned nothing"))


def test_even_data_have_no_dominant_observation():
    dataset = array_dataset(np.random.default_rng(0).lognormal(0, 1, (200, 10)))
    assert Validation(dataset, dataset).dominant is None


@pytest.mark.parametrize("scale", ["common", "standardise"])
def test_missing_values_come_before_all_other_advice(scale, monkeypatch):
    """They used to be followed by advice to train longer, on a page that did not name them."""
    broken = spectra(120)
    scattered = np.random.default_rng(0).permutation(broken.size)[:200]
    broken.reshape(-1)[scattered] = -9999
    data = uw.data.from_array(broken, scale=scale)[0]
    options = {"steps": 20, "network": uw.MLP(hidden=(8,)), "latent": uw.Gaussian(2)}
    with pytest.warns(UserWarning, match="extreme values") as caught:
        models = uw.fit(data, seed=range(2), progress=False, **options)
    (advice,) = [str(each.message) for each in caught if "extreme" in str(each.message)]
    assert "-9999 seems to stand for missing values: fill them in or remove the observ" in advice
    assert not [each for each in caught if "percentile" in str(each.message)]
    early = unfinished([{"step": 10 * n, "validation": {"distortion": 100.0 - n, "rate": 1.0,
                         "r2": 0.0}} for n in range(1, 21)])  # fmt: skip
    assert early is not None
    monkeypatch.setattr("unweave.report.verdict.unfinished", lambda measures: early)
    judged = verdict(analysis.analyse(models[0], 100))
    assert judged.level == "bad"
    assert judged.headline.startswith("Extreme values dominate the data")
    assert "-9999 seems to stand for missing values" in judged.sentences[0]
    assert "train longer" not in " ".join(judged.sentences)
    assert "Try" not in " ".join(judged.sentences)
    assert "-9999 seems to stand for missing values" in uw.compare(models).notes[0]


def test_one_broken_column_of_many_leaves_the_headline_to_the_others():
    broken = spectra(120)
    broken[9, 5] = 1e12
    shares = {
        scale: array_dataset(broken, scale=scale).schema.extremes.share
        for scale in ("common", "standardise")
    }
    assert shares == {"common": 1.0, "standardise": 1 / 24}


def test_an_observation_that_dominates_pixels_or_columns_gets_advice_that_fits():
    rng = np.random.default_rng(0)
    vectors, images = rng.normal(size=(200, 10)), rng.normal(size=(200, 1, 8, 8))
    for x, advice in ((vectors, "logarithms"), (images, "data.scale=percentile")):
        x[3] *= 200
        dataset = array_dataset(x, scale="none")
        assert advice in Validation(dataset, dataset).dominant.describe()
