"""Figures of Kim and Mnih: how the claims of appendix D are judged, on numbers that are known."""

import numpy as np
import pytest

from unweave.papers import kim2018
from unweave.papers.form import Measured
from unweave.papers.kim2018 import Draws


def made(**changes):
    """What three batches make of draws, as the paper says, but for what is changed."""
    spreads = np.stack([np.full(3, 4.0), np.full(3, 2.0)], 1)
    truth, large = Measured(1.0, 0.9, 1.1), Measured(0.2, 0.1, 0.3)
    fields = {"joint": np.zeros(4), "marginals": np.zeros(4), "spreads": spreads, "truth": truth,
              "large": large, "estimates": np.full(3, -2.0), "fixed": np.full(3, 0.5)}  # fmt: skip
    return Draws(**fields | changes)


def verdicts(**found):
    betas = {float(beta): each for beta, each in enumerate(found.values())}
    return [claim.verdict for claim in kim2018.claims_of(betas, 18_432)]


SAID = ["pass", "not comparable", "pass", "pass", "not comparable", "not comparable"]


@pytest.mark.parametrize(
    ("changes", "turned"),
    [
        ({}, None),
        ({"estimates": np.array([-2.0, -2.0, 0.1])}, 0),
        ({"spreads": np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]])}, 2),
        ({"spreads": np.array([[1.1, 1.0]] * 3)}, None),
        ({"fixed": np.array([-0.5, -0.1, 0.5])}, 3),
    ],
)
def test_one_batch_of_one_model_turns_the_claim_about_it(changes, turned):
    expected = ["fail" if number == turned else each for number, each in enumerate(SAID)]
    assert verdicts(one=made(), other=made(**changes)) == expected
    assert verdicts(one=made(**changes), other=made()) == expected
