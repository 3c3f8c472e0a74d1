"""Figure 3 of Esmaeili et al.: the measured terms, and verdicts on constructed terms."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from reproduced import fitted
from unweave.papers.esmaeili2019 import fig3 as esmaeili2019
from unweave.papers.esmaeili2019.fig3 import Terms, claims_of, terms_of

MOST = math.log(100)
WHOLE = Terms(3.0, 0.1, -1.0, 2.0, -3.0)
SOUND = {
    "": [WHOLE],
    "①": [Terms(0.0, 0.01, -1.1, -40.0, 0.0)], "②": [Terms(4.59, 0.2, -1.2, 2.2, -8.0)],
    "③": [Terms(0.5, 0.1, -30.0, -20.0, -0.5)], "④": [Terms(3.0, 2.0, -1.5, 2.1, -2.0)],
}  # fmt: skip


def test_verdicts_follow_from_the_terms():
    verdicts = [claim.verdict for claim in claims_of(SOUND, MOST)]
    assert verdicts == ["pass"] * 5 + ["not comparable"]
    for number, (name, other) in enumerate(
        [("①", WHOLE), ("②", WHOLE), ("②", WHOLE._replace(volume=-9.0)), ("③", WHOLE), ("④", WHOLE)]
    ):
        claims = claims_of({**SOUND, name: [*SOUND[name], other]}, MOST)  # one seed is not like it
        assert claims[number].verdict == "fail", name
    for number, name, short in (
        (0, "①", {"information": 0.1}), (2, "②", {"information": 4.0}),
        (3, "③", {"likelihood": -1.5}), (4, "④", {"mismatch": 0.3}),
    ):  # fmt: skip
        other = SOUND[name][0]._replace(**short)  # the right way, but not as far as our bound
        claims = claims_of({**SOUND, name: [other]}, MOST)
        assert claims[number].verdict == "undecided", name


def test_terms_of_a_linear_model_equal_their_closed_form(monkeypatch):
    """The encoder is set to the true posterior, for which rate and likelihood are known."""
    monkeypatch.setattr(esmaeili2019, "HIDDEN", ())
    monkeypatch.setattr(esmaeili2019, "SCALE", 0.7)
    monkeypatch.setattr(esmaeili2019, "STEPS", 1)
    monkeypatch.setattr(esmaeili2019, "PARTICLES", 4)
    run = esmaeili2019._run((1.0, 1.0, 1.0, 1.0), seed=0)
    model = fitted(run)
    dataset = model.dataset
    loadings = torch.diag(torch.tensor([1.0, 0.5]))  # so that the posterior is diagonal
    variances = 1 / (1 + loadings.diagonal().square() / 0.49)
    ours = {
        "encoder.1.weight": torch.cat([torch.diag(variances * loadings.diagonal() / 0.49),
                                       torch.zeros(2, 2)]),
        "encoder.1.bias": torch.cat([torch.zeros(2), variances.log()]),
        "decoder.0.weight": loadings,
        "decoder.0.bias": torch.zeros(2),
    }  # fmt: skip
    for name, value in ours.items():
        weight = model.trained.weights[f"model.{name}"]
        weight.copy_(value.reshape(weight.shape))
    x = dataset.images(torch.arange(dataset.size))
    law = MultivariateNormal(torch.zeros(2), loadings @ loadings.T + 0.49 * torch.eye(2))
    found = terms_of(model)
    assert found.likelihood == pytest.approx(law.log_prob(x).mean().item(), abs=1e-3)
    assert found.volume == pytest.approx(0.5 * variances.log().sum().item(), abs=1e-5)
    # log p(x) = E[log p(x|z)] - KL(q(z|x) || p(z)) where q is the posterior.
    rate = found.information + found.mismatch
    assert found.reconstruction - rate == pytest.approx(found.likelihood, abs=0.1)
