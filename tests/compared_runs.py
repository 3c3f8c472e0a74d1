"""Runs made up for tests of comparisons."""

import numpy as np

import unweave as uw
from datasets import SMALL
from unweave.evaluation.comparison import ComparedRun
from unweave.metrics import Score, Table
from unweave.training.run import Run
from unweave.training.store import ScoreFacts

FACTS = ScoreFacts("all", 100, "mean")


def compared(beta, seed, mig, distortion=1.0, data=SMALL, table=None):
    """Return a run with a log and the score mig; without it if that is None."""
    objective, latent = uw.BetaVAE(beta=beta), uw.Gaussian(3)
    run = Run(data=data, objective=objective, latent=latent, seed=seed, steps=20)
    log = [{"step": 10, "distortion": 9.0, "rate": 9.0}]
    log.append({"step": 20, "distortion": distortion, "rate": 2.0})
    found = {"mig/chen2018": Score("mig", "chen2018", mig)} if mig is not None else {}
    return ComparedRun(
        run.digest, run, data.kind, log, scores=found, facts=FACTS if found else None, table=table
    )


def codes(seed, rows=400):
    """Three independent codes, permuted and with signs by seed, with a little noise."""
    rng = np.random.default_rng(seed)
    z = np.random.default_rng(99).standard_normal((rows, 3))
    order, signs = rng.permutation(3), rng.choice([-1.0, 1.0], 3)
    noisy = z[:, order] * signs + 0.05 * rng.standard_normal((rows, 3))
    return Table(noisy, np.zeros((rows, 0)), kl=np.ones(3))
