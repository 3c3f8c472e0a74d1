"""Metrics read a table of codes and factors, encoded once; they never see a model.

Each metric is a function of arrays that names its protocol and returns a `Score`:

>>> import numpy as np
>>> factors = np.argwhere(np.ones((4, 5)))
>>> codes = factors / [2.0, 3.0]
>>> round(float(mig(codes, factors, protocol="locatello2019")), 3)
1.0

A table goes through all of them at once:

>>> sorted(evaluate(Table(codes, factors), ["mig", "factor_vae_score/kim2018"]))
['factor_vae_score/kim2018', 'mig/locatello2019']
>>> left_out(Table(codes, factors))["mig/chen2018"]
'the table has no posterior scales'
"""

from unweave.metrics.information import mig, mutual_information_matrix
from unweave.metrics.interventional import factor_vae_score
from unweave.metrics.pairs import beta_vae_score
from unweave.metrics.predictive import dci
from unweave.metrics.probes import downstream, explicitness
from unweave.metrics.registry import METRICS, Metric, evaluate, left_out
from unweave.metrics.robustness import irs
from unweave.metrics.score import Score
from unweave.metrics.separated import sap
from unweave.metrics.table import Table

__all__ = [
    "METRICS",
    "Metric",
    "Score",
    "Table",
    "beta_vae_score",
    "dci",
    "downstream",
    "evaluate",
    "explicitness",
    "factor_vae_score",
    "irs",
    "left_out",
    "mig",
    "mutual_information_matrix",
    "sap",
]
