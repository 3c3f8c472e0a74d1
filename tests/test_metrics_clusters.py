"""Clusters against labels, by all assignments, and the components that codes belong to."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import normalized_mutual_info_score

import unweave as uw
from unweave.metrics import cluster_occupancy, clustering_accuracy, nmi
from unweave.metrics.clusters import mixture_occupancy

RNG = np.random.default_rng(2)
LABELS = RNG.integers(0, 4, 60)
CLUSTERS = {
    "same": LABELS,
    "renamed": (LABELS * 3 + 1) % 7,
    "noisy": np.where(RNG.random(60) < 0.3, RNG.integers(0, 4, 60), LABELS),
    "more": LABELS * 2 + RNG.integers(0, 2, 60) * (LABELS < 2),
    "fewer": LABELS // 2,
    "one": np.zeros(60, int),
    "noise": RNG.integers(0, 5, 60),
}
clusterings = pytest.mark.parametrize("clusters", CLUSTERS.values(), ids=CLUSTERS)


def best_naming(clusters, labels):
    """The share of right rows, over all one-to-one names."""
    found, values = sorted(set(clusters)), sorted(set(labels))
    while len(values) < len(found):
        values.append(max(values) + 1)
    best = 0
    for names in itertools.permutations(values, len(found)):
        named = dict(zip(found, names, strict=True))
        best = max(best, sum(named[c] == v for c, v in zip(clusters, labels, strict=True)))
    return best / len(labels)


@clusterings
def test_accuracy_is_that_of_the_best_assignment(clusters):
    score = clustering_accuracy(clusters, LABELS)
    assert score.value == pytest.approx(best_naming(clusters, LABELS))
    shares = np.bincount(LABELS) / len(LABELS)
    assert np.dot(list(score.parts.values()), shares) == pytest.approx(score.value)
    assert score.matrix.sum() == len(LABELS)


@clusterings
def test_nmi_matches_scikit_learn(clusters):
    for protocol, average in (("arithmetic", "arithmetic"), ("strehl2002", "geometric")):
        expected = normalized_mutual_info_score(LABELS, clusters, average_method=average)
        assert nmi(clusters, LABELS, protocol=protocol).value == pytest.approx(expected, abs=1e-9)


def test_names_of_clusters_and_labels_do_not_matter():
    clusters = CLUSTERS["noisy"]
    for measure in (clustering_accuracy, nmi):
        expected = measure(clusters, LABELS).value
        assert measure(-7 * clusters, LABELS + 100).value == pytest.approx(expected, abs=1e-12)
        assert measure(clusters.astype(np.float32), LABELS).value == expected
    assert clustering_accuracy(CLUSTERS["renamed"], LABELS).value == 1.0
    assert nmi(CLUSTERS["renamed"], LABELS).value == pytest.approx(1.0)


def test_bad_clusters_are_refused():
    for measure in (clustering_accuracy, nmi):
        for clusters, labels in (
            ([0, 1], [0, 1, 2]),
            ([], []),
            ([[0], [1]], [0, 1]),
            ([0.5, 1.0], [0, 1]),
            ([math.nan, 1.0], [0, 1]),
            ([math.inf, 1.0], [0, 1]),
            (["a", "b"], [0, 1]),
        ):
            with pytest.raises(ValueError, match="expected"):
                measure(clusters, labels)
    with pytest.raises(ValueError, match="at least two values"):
        nmi([0, 1], [3, 3])
    assert clustering_accuracy([0, 1, 1], [3, 3, 3]).value == pytest.approx(2 / 3)


CENTRES = np.array([[0.0, -1], [0, 1], [1, 0], [-1, 0]])


@pytest.mark.parametrize("scales", [0.3, [0.3, 0.3, 1.0, 0.1], RNG.random((4, 2)) + 0.2])
@pytest.mark.parametrize("weights", [None, [0.1, 0.2, 0.3, 0.4], [3, 1, 1, 0]])
def test_occupancy_by_bayes_rule(scales, weights):
    codes = RNG.standard_normal((80, 2))
    widths = np.broadcast_to(
        np.asarray(scales).reshape(-1, 1) if np.ndim(scales) < 2 else scales, (4, 2)
    )
    shares = np.ones(4) / 4 if weights is None else np.array(weights) / sum(weights)
    mass = np.array(
        [
            [w * norm.pdf(z, m, s).prod() for m, s, w in zip(CENTRES, widths, shares, strict=True)]
            for z in codes
        ]
    )
    members = mass.argmax(1)
    n = np.bincount(members, minlength=4) / 80
    score = cluster_occupancy(codes, CENTRES, scales, weights)
    assert list(score.parts.values()) == pytest.approx(n.tolist())
    assert score.value == pytest.approx(-sum(p * math.log(p) for p in n if p > 0))
    assert score.details["used"] == len(set(members))
    sure = (mass.max(1) / mass.sum(1)).mean()
    assert score.details["mean probability"] == pytest.approx(sure)


def test_occupancy_from_one_component_to_all():
    everywhere = np.repeat(CENTRES, 5, 0)
    score = cluster_occupancy(everywhere, CENTRES, 0.01)
    assert score.value == pytest.approx(math.log(4))
    assert score.details["effective number"] == pytest.approx(4)
    one = cluster_occupancy(everywhere[:5], CENTRES, 0.01)
    assert (one.value, one.details["used"]) == (0.0, 1)
    stray = np.vstack([everywhere[:5].repeat(20, 0), CENTRES[3:]])
    assert cluster_occupancy(stray, CENTRES, 0.01).details["used"] == 2
    assert cluster_occupancy(stray, CENTRES, 0.01, least=0.05).details["used"] == 1


def test_occupancy_of_components_with_full_covariances():
    latent = uw.VampPrior(2, components=3, encoding="full")
    components = latent.posterior(uw.Noise(0).normal((3, latent.outputs), "raw", torch.float64))
    z = uw.Noise(1).normal((50, 2), "z", torch.float64)
    prior = uw.latents.densities.Mixture(components, torch.full((3,), -math.log(3)))
    covariances = (components.factor @ components.factor.mT).numpy()
    density = [
        multivariate_normal(m, c).pdf(z.numpy())
        for m, c in zip(components.loc.numpy(), covariances, strict=True)
    ]
    n = np.bincount(np.argmax(density, 0), minlength=3) / 50
    assert list(mixture_occupancy(prior, z).parts.values()) == pytest.approx(n.tolist())


def test_bad_components_are_refused():
    codes = np.zeros((5, 3))
    with pytest.raises(ValueError, match="expected centres of 3 numbers"):
        cluster_occupancy(codes, CENTRES)
    with pytest.raises(ValueError, match="weights"):
        cluster_occupancy(codes[:, :2], CENTRES, 1.0, [1.0])
    with pytest.raises(ValueError, match="scales"):
        cluster_occupancy(codes[:, :2], CENTRES, [1.0, 2.0])
