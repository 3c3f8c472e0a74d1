"""Notes about runs that stopped while their held-out loss was still falling."""

import re

import numpy as np
import pytest

import unweave as uw
from unweave.evaluation.unfinished import Unfinished, unfinished
from unweave.report import analysis
from unweave.report.verdict import verdict

RNG = np.random.default_rng(0)
TIMES = np.arange(1, 21)


def measured(losses):
    """Return measurements every 50 steps; a third of the loss is the rate."""
    return [
        {"step": 50 * (n + 1), "validation": {"distortion": 2 * x / 3, "rate": x / 3, "r2": 0.5}}
        for n, x in enumerate(losses)
    ]


def noise(correlation):
    """Return 20 values of an autoregressive process of variance 1."""
    values = [RNG.normal()]
    for _ in TIMES[1:]:
        fresh = np.sqrt(1 - correlation**2) * RNG.normal()
        values.append(correlation * values[-1] + fresh)
    return np.array(values)


def test_the_fall_over_the_last_tenth_is_the_slope_of_a_line():
    found = unfinished(measured(100.0 - 2 * TIMES))
    assert found == Unfinished(pytest.approx(4.0), 2000)
    assert "falling at the end, by 4.0 nats over the last tenth of the steps" in str(found)
    assert str(found).endswith("train longer, with steps=2000")


@pytest.mark.parametrize("scale", [3.0, 7.0, 10.0])
def test_a_loss_that_still_falls_is_found_in_noise(scale):
    losses = 100 * np.exp(-TIMES / 8)
    found = [unfinished(measured(losses + noise(0.0) / scale)) for _ in range(50)]
    assert sum(each is not None for each in found) >= 48
    assert unfinished(measured(losses + 1e9)) is not None


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("deviation", [0.01, 1.0, 20.0])
def test_noise_around_a_loss_that_has_settled_raises_no_alarm(correlation, deviation):
    settled = 100 * np.exp(-TIMES / 1.5)
    found = [unfinished(measured(settled + deviation * noise(correlation))) for _ in range(200)]
    assert sum(each is not None for each in found) <= 8


def test_a_rising_loss_a_slow_fall_and_few_measurements_are_not_judged():
    assert unfinished(measured(100.0 + TIMES)) is None
    assert unfinished(measured(1000.0 / TIMES**3 - 0.01 * TIMES)) is None  # 0.02 nats per tenth
    assert unfinished(measured(100.0 - TIMES[:9])) is None
    assert unfinished([{"step": 10, "metrics": {}}] * 20) is None


@pytest.mark.parametrize(
    ("seeds", "beside"), [("0", ""), ("0,1", "this run and the other run trained beside it")]
)
def test_the_advice_to_train_longer_continues_the_run(unweave, tmp_path, seeds, beside):
    """With steps=400 alone the run started again, because the chosen warm-up depends on them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(150, 20))
    np.save(tmp_path / "x.npy", x)
    place = ["--store", tmp_path / "runs"]
    given = [f"data={tmp_path / 'x.npy'}", "latent.size=2", "network.hidden=[16]", f"seed={seeds}"]
    code, _, err = unweave("train", *given, "steps=200", *place)
    assert code == 0
    err = " ".join(err.split())
    (advice,) = re.findall(r"train longer, with (.*), which continues this run", err)
    assert advice.startswith("steps=400 objective.beta.steps=100")
    assert (beside in err, "trained beside" in err) == (True, bool(beside))
    said = verdict(analysis.analyse(uw.load(next((tmp_path / "runs").iterdir())), 120))
    text = " ".join(str(said.sentences[0]).split())
    assert f"train longer, with {advice}, which continues this run" in text
    assert ("trained beside" in text) == bool(beside)
    code, _, err = unweave("train", *given, *advice.split(), *place)
    assert code == 0
    assert len(re.findall("continues run .* from step 200", err)) == len(seeds.split(","))
    assert "starts again" not in err


def test_an_early_stop_is_noted_after_training_and_in_the_verdict(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(150, 20))
    model = uw.fit(
        x,
        steps=200,
        batch_size=16,
        network=uw.MLP((16,)),
        latent=uw.Gaussian(2),
        objective=uw.BetaVAE(beta=1.0),
        optimiser=uw.Adam(lr=1e-3),
        store=tmp_path,
    )
    note = str(unfinished(model.measures))
    assert note in " ".join(capsys.readouterr().err.split())
    assert "train longer, with steps=400" in note
    said = verdict(analysis.analyse(model, 120)).sentences[0]
    assert said == f"The {note}, which continues this run."
