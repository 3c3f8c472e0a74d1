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

from unweave.core.lazy import public_names
from unweave.metrics.beta_vae_score import beta_vae_score as beta_vae_score
from unweave.metrics.clusters import (
    cluster_occupancy as cluster_occupancy,
    clustering_accuracy as clustering_accuracy,
    nmi as nmi,
)
from unweave.metrics.dci import dci as dci
from unweave.metrics.dci_es import dci_es as dci_es
from unweave.metrics.dcimig import dcimig as dcimig
from unweave.metrics.downstream import downstream as downstream
from unweave.metrics.explicitness import explicitness as explicitness
from unweave.metrics.factor_vae_score import factor_vae_score as factor_vae_score
from unweave.metrics.infomec import info_mec as info_mec
from unweave.metrics.information import mutual_information_matrix as mutual_information_matrix
from unweave.metrics.inputs import (
    FewRowsWarning as FewRowsWarning,
    Inputs as Inputs,
    MissingLabelsWarning as MissingLabelsWarning,
    Periods as Periods,
    merge as merge,
)
from unweave.metrics.irs import irs as irs
from unweave.metrics.jemmig import jemmig as jemmig
from unweave.metrics.mcc import mcc as mcc
from unweave.metrics.mig import mig as mig
from unweave.metrics.mig_sup import mig_sup as mig_sup
from unweave.metrics.modularity import modularity as modularity
from unweave.metrics.options import MetricOptions as MetricOptions, metric as metric
from unweave.metrics.posterior.overlap import (
    mutual_information as mutual_information,
    overlapping_neighbours as overlapping_neighbours,
    relative_scale as relative_scale,
    total_correlation as total_correlation,
)
from unweave.metrics.posterior.prior_match import prior_match as prior_match
from unweave.metrics.registry import (
    METRICS as METRICS,
    UNSUPERVISED as UNSUPERVISED,
    Metric as Metric,
    describe as describe,
    evaluate as evaluate,
    left_out as left_out,
)
from unweave.metrics.sap import sap as sap
from unweave.metrics.score import Score as Score, Scores as Scores
from unweave.metrics.studies import (
    Agreement as Agreement,
    Sensitivity as Sensitivity,
    agreement as agreement,
    sensitivity as sensitivity,
)
from unweave.metrics.table import Table as Table
from unweave.metrics.udr import udr as udr
from unweave.metrics.unsupervised import (
    active_units as active_units,
    gaussian_total_correlation as gaussian_total_correlation,
    gaussian_wasserstein_correlation as gaussian_wasserstein_correlation,
    hoyer as hoyer,
    mean_pairwise_information as mean_pairwise_information,
)
from unweave.metrics.validation import PerRow as PerRow

__all__ = public_names(__name__)
