"""Metrics read a table of codes and factors, encoded once; they never see a model.

Each metric is a function of arrays that names its protocol and returns a `Score`:

>>> import numpy as np
>>> factors = np.argwhere(np.ones((4, 5)))
>>> codes = factors / [2.0, 3.0]
>>> round(float(mig(codes, factors, protocol="locatello2019")), 3)
1.0

All of them at once:

>>> evaluate(codes, factors, metrics=["mig", "mcc"])
metric             value
mig/locatello2019  1.0000
mcc/hyvarinen2016  1.0000
>>> left_out(Table(codes, factors))
{'mig/chen2018': 'the table has no posterior scales'}
"""

from unweave.metrics.frame import Frame, framed
from unweave.metrics.gaps import dcimig, jemmig, mig_sup
from unweave.metrics.infomec import info_mec
from unweave.metrics.information import mig, mutual_information_matrix
from unweave.metrics.inputs import Periods, merge
from unweave.metrics.interventional import factor_vae_score
from unweave.metrics.mcc import mcc
from unweave.metrics.modularity import modularity
from unweave.metrics.registry import METRICS, Metric, evaluate, left_out
from unweave.metrics.score import Score, Scores
from unweave.metrics.table import Table

__all__ = [
    "METRICS",
    "Frame",
    "Metric",
    "Periods",
    "Score",
    "Scores",
    "Table",
    "dcimig",
    "evaluate",
    "factor_vae_score",
    "framed",
    "info_mec",
    "jemmig",
    "left_out",
    "mcc",
    "merge",
    "mig",
    "mig_sup",
    "modularity",
    "mutual_information_matrix",
]
