"""Metrics read a table of codes and factors, encoded once; they never see a model.

Each metric is a function of arrays that names its protocol and returns a `Score`:

>>> import numpy as np
>>> factors = np.argwhere(np.ones((4, 5)))
>>> codes = factors / [2.0, 3.0]
>>> round(float(mig(codes, factors, protocol="locatello2019")), 3)
1.0

A table goes through all of them at once:

>>> sorted(evaluate(Table(codes, factors)))
['factor_vae_score/kim2018', 'factor_vae_score/locatello2019', 'mig/locatello2019']
>>> left_out(Table(codes, factors))
{'mig/chen2018': 'the table has no posterior scales'}
"""

from unweave.metrics.clusters import cluster_occupancy, clustering_accuracy, nmi
from unweave.metrics.describe import MEASURES, Measure, describe
from unweave.metrics.information import mig, mutual_information_matrix
from unweave.metrics.interventional import factor_vae_score
from unweave.metrics.match import prior_match
from unweave.metrics.overlap import (
    exact_mutual_information,
    exact_total_correlation,
    overlapping_neighbours,
    relative_scale,
)
from unweave.metrics.ranking import udr
from unweave.metrics.registry import METRICS, Metric, evaluate, left_out
from unweave.metrics.score import Score
from unweave.metrics.studies import Agreement, Sensitivity, agreement, sensitivity
from unweave.metrics.table import Table
from unweave.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)

__all__ = [
    "MEASURES",
    "METRICS",
    "Agreement",
    "Measure",
    "Metric",
    "Score",
    "Sensitivity",
    "Table",
    "active_units",
    "agreement",
    "cluster_occupancy",
    "clustering_accuracy",
    "describe",
    "evaluate",
    "exact_mutual_information",
    "exact_total_correlation",
    "factor_vae_score",
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "hoyer",
    "left_out",
    "mean_pairwise_information",
    "mig",
    "mutual_information_matrix",
    "nmi",
    "overlapping_neighbours",
    "prior_match",
    "relative_scale",
    "sensitivity",
    "udr",
]
