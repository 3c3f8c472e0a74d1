"""Scores that sample, with fewer draws, for tests that do not look at their values."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch


@contextmanager
def few_draws() -> Iterator[None]:
    """Let the protocols of the beta-VAE and FactorVAE scores, most of a report's time, draw less.

    Steps of Adagrad take ten examples each, so `train` is ten times `steps`.
    """
    beta = import_module("unweave.metrics.beta_vae_score")._PROTOCOLS
    factor = import_module("unweave.metrics.factor_vae_score")._PROTOCOLS
    examples = {
        name: replace(rules, pairs=8, train=500, test=100, steps=min(rules.steps, 50))
        for name, rules in beta.items()
    }
    votes = {
        name: replace(rules, batch=10, train=50, test=min(rules.test, 50))
        for name, rules in factor.items()
    }
    with patch.dict(beta, examples), patch.dict(factor, votes):
        yield
