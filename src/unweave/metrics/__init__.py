"""Metrics, which read a table of codes and factors and never see a model.

Each metric is a function of arrays that names its protocol and returns a `Score`:

>>> import numpy as np
>>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
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

Your own function works as a metric; `metric` gives it the options of all others:

>>> @metric
... def largest_code(inputs):
...     return inputs.codes.max()
>>> evaluate(codes, factors, metrics=["mig", largest_code])
metric             value
mig/locatello2019  1.0000
largest_code       1.5000

scipy.stats and scipy.optimize load slowly, and most commands do not need them, so the functions
that use them import them.
"""

from unweave.metrics.beta_vae_score import beta_vae_score
from unweave.metrics.clusters import cluster_occupancy, clustering_accuracy, nmi
from unweave.metrics.dci import dci
from unweave.metrics.dci_es import dci_es
from unweave.metrics.dcimig import dcimig
from unweave.metrics.downstream import downstream
from unweave.metrics.explicitness import explicitness
from unweave.metrics.factor_vae_score import factor_vae_score
from unweave.metrics.infomec import info_mec
from unweave.metrics.information import mutual_information_matrix
from unweave.metrics.inputs import FewRowsWarning, Inputs, MissingLabelsWarning, Periods, merge
from unweave.metrics.irs import irs
from unweave.metrics.jemmig import jemmig
from unweave.metrics.mcc import mcc
from unweave.metrics.mig import mig
from unweave.metrics.mig_sup import mig_sup
from unweave.metrics.modularity import modularity
from unweave.metrics.options import MetricOptions, metric
from unweave.metrics.posterior.overlap import (
    exact_mutual_information,
    exact_total_correlation,
    overlapping_neighbours,
    relative_scale,
)
from unweave.metrics.posterior.prior_match import prior_match
from unweave.metrics.registry import METRICS, UNSUPERVISED, Metric, describe, evaluate, left_out
from unweave.metrics.sap import sap
from unweave.metrics.score import Score, Scores
from unweave.metrics.studies import Agreement, Sensitivity, agreement, sensitivity
from unweave.metrics.table import Table
from unweave.metrics.udr import udr
from unweave.metrics.unsupervised import (
    active_units,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    hoyer,
    mean_pairwise_information,
)
from unweave.metrics.validation import PerRow

__all__ = [
    "METRICS",
    "UNSUPERVISED",
    "Agreement",
    "FewRowsWarning",
    "Inputs",
    "Metric",
    "MetricOptions",
    "MissingLabelsWarning",
    "PerRow",
    "Periods",
    "Score",
    "Scores",
    "Sensitivity",
    "Table",
    "active_units",
    "agreement",
    "beta_vae_score",
    "cluster_occupancy",
    "clustering_accuracy",
    "dci",
    "dci_es",
    "dcimig",
    "describe",
    "downstream",
    "evaluate",
    "exact_mutual_information",
    "exact_total_correlation",
    "explicitness",
    "factor_vae_score",
    "gaussian_total_correlation",
    "gaussian_wasserstein_correlation",
    "hoyer",
    "info_mec",
    "irs",
    "jemmig",
    "left_out",
    "mcc",
    "mean_pairwise_information",
    "merge",
    "metric",
    "mig",
    "mig_sup",
    "modularity",
    "mutual_information_matrix",
    "nmi",
    "overlapping_neighbours",
    "prior_match",
    "relative_scale",
    "sap",
    "sensitivity",
    "udr",
]
