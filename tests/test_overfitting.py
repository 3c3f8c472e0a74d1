"""Warnings about models that memorise their training data, and defaults that avoid it."""

import numpy as np
import pytest

import unweave as uw
from unweave.evaluation.overfitting import Overfit, overfit
from unweave.evaluation.validation import final_loss
from unweave.report import analysis
from unweave.report.verdict import verdict

RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(150, 30))
FALLING = [50, 40, 30, 20, 10, 5]


def history(distortions, training=FALLING, rates=None):
    """Return the log and the measurements of a run that was measured every ten steps."""
    rates = rates or [0.0] * len(distortions)
    steps = [10 * (n + 1) for n in range(len(distortions))]
    log = [{"step": s, "distortion": d} for s, d in zip(steps, training, strict=False)]
    held_out = [{"distortion": d, "rate": r, "r2": 0.5}
                for d, r in zip(distortions, rates, strict=True)]  # fmt: skip
    return log, [{"step": s, "validation": v} for s, v in zip(steps, held_out, strict=True)]


@pytest.mark.parametrize(
    ("distortions", "options", "expected"),
    [
        ([100, 80, 60, 70, 80, 120], {}, Overfit(30, 60, 120)),
        ([60, 61, 62, 63, 64, 65], {}, Overfit(10, 60, 65)),  # from the start
        ([100, 80, 60, 55, 54, 53], {}, None),
        ([100, 80, 60, 61, 62, 75], {}, None),  # less than half of what it fell
        ([60, 59.8, 59.7, 59.8, 60, 60.5], {}, None),  # less than 1 nat
        ([60, 59.8, 59.7, 59.8, 60, 62], {}, None),  # less than 5 %
        ([100, 60, 120], {}, None),  # too few measurements
        # A weight of the rate rises: the distortion of the training data does, too.
        ([100, 80, 60, 70, 80, 120], {"training": [50, 40, 30, 40, 50, 90]}, None),
        # The distortion rises, but the loss does not.
        ([60, 20, 22, 24, 26, 28], {"rates": [40, 40, 30, 25, 22, 20]}, None),
        # With a small weight of the rate, the loss is lowest at the start.
        ([60, 50, 40, 39, 60, 70], {"rates": [1, 20, 40, 60, 80, 90]}, Overfit(40, 39, 70)),
        # The rate rises, but reconstructions of held-out data improve.
        ([60, 50, 40, 35, 33, 32], {"rates": [10, 10, 10, 30, 50, 70]}, None),
        ([100, 80, 60, 70, 80, None], {}, None),  # of a run that failed, up to step 50
    ],
)
def test_a_model_overfits_if_its_held_out_loss_rises_as_that_of_training_falls(
    distortions, options, expected
):
    assert overfit(*history(distortions, **options)) == expected


def test_runs_without_held_out_data_are_not_judged():
    assert overfit([{"step": 10, "distortion": 3.0}], [{"step": 10, "metrics": {}}] * 9) is None


def test_memorised_noise_is_reported_after_training_and_in_the_verdict(capsys):
    options = {
        "steps": 200,
        "network": uw.MLP((64,)),
        "objective": uw.BetaVAE(beta=0.01),
        "optimiser": uw.Adam(lr=5e-3),
        "seed": 0,
    }
    model = uw.fit(NOISE, **options)
    said = capsys.readouterr().err
    found = overfit(model.log, model.measures)
    assert found.last > found.least
    assert found.step in [row["step"] for row in model.measures]
    assert f"WARNING: {found}" in " ".join(said.split())
    assert f"train with steps={found.step}" in said
    assert f"The {found}." in verdict(analysis.analyse(model, 120)).sentences[0]
    with pytest.warns(UserWarning, match="2 of 2 runs overfit, such as seed 0: held-out dis"):
        uw.fit(NOISE, progress=False, **options | {"seed": [0, 1]})


def test_spectra_are_explained_with_the_default_settings(tmp_path):
    """Four peaks on a flat baseline: columns without a peak are noise, not to be scaled up."""
    x = np.linspace(400, 895, 100)
    centres, widths = np.array([480, 580, 690, 800]), np.array([15, 20, 12, 25])
    peaks = np.exp(-0.5 * ((x - centres[:, None]) / widths[:, None]) ** 2)
    values = 0.1 + RNG.uniform(0.2, 1, (500, 4)) @ peaks + 0.02 * RNG.normal(size=(500, 100))
    lines = [[f"s{n}", *map(str, row)] for n, row in enumerate(values)]
    head = ["sample", *(f"{each:g}" for each in x)]
    path = tmp_path / "spectra.csv"
    path.write_text("\n".join(",".join(line) for line in [head, *lines]))
    model = uw.fit(path, steps=300, progress=False)
    assert model.schema.scaling.method == "common"
    assert model.run.likelihood.scale == 0.3
    assert final_loss(model.measures).r2 > 0.9
