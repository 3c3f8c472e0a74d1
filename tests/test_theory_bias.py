"""Expected values of estimators of log q(z), against batches drawn and against what is known."""

import math

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.aggregate import batch_total_correlation, decompose, exact
from unweave.core.noise import Noise
from unweave.latents import FullGaussian, rows
from unweave.latents.gaussian import as_full
from unweave.theory import (
    Encodings,
    batch_size_for,
    encodings_of,
    expected_estimates,
    make_encodings,
)

f64 = torch.float64
QUANTITIES = ("entropy", "kl", "total_correlation")
ESTIMATORS = ("weighted", "stratified", "batch", "outside")


def drawn(encodings, estimator, batch, repeats):
    """Biases over many batches by the estimators of `aggregate`, (repeats, 3).

    Entropy, KL and TC of each less those of the whole data set at the same draws.
    """
    latent, q, p = encodings
    found = []
    for step in range(repeats):
        noise = Noise(5, step)
        index = noise.permutation(encodings.size, "batch")[:batch]
        part = rows(q, index)
        if estimator == "outside":
            where = noise.integers(encodings.size, (64,), "rows")
            z = rows(q, where).rsample(noise)
        else:
            z = part.rsample(noise)
        if estimator in ("weighted", "stratified"):
            parts = decompose(latent, part, p, z, encodings.size, estimator)
            log_q = part.log_prob(z) - parts.mutual_information
            dependence = parts.total_correlation.mean()
        else:
            log_q = exact(part.log_prob(z[:, None]))
            dependence = batch_total_correlation(part.log_marginals(z[:, None]))
        true = exact(q.log_prob(z[:, None]))
        gap = (log_q - true).mean()
        found.append([-gap, gap, dependence - batch_total_correlation(q.log_marginals(z[:, None]))])
    return np.array(found)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_estimates_equal_means_over_batches(estimator):
    """Small batches, whose biases are all far larger than the tolerance."""
    encodings = make_encodings(size=60, dimension=4, scale=0.5)
    ours = expected_estimates(encodings, estimator, (3,), samples=2000)
    values = drawn(encodings, estimator, 3, repeats=300)
    for k, name in enumerate(QUANTITIES):
        bias, spread = ours.bias[name][0], values[:, k].std() / math.sqrt(len(values))
        near = 4 * math.hypot(spread, ours.error[name][0])
        assert bias == pytest.approx(values[:, k].mean(), abs=near), name
        assert near < abs(bias) / 2, name


def test_standard_errors_cover_the_deviations():
    """Over 60 seeds: of exact values, of biases, of what is left alone; beside a long average."""
    encodings = make_encodings(size=50, dimension=2, scale=0.3)
    full = Encodings(uw.Gaussian(2, encoding="full"), as_full(encodings.q), encodings.p)
    skewed = full._replace(q=recoded_by(full.q, torch.tensor([[1.0, 0.0], [0.8, 0.6]], dtype=f64)))

    def values(samples, seed):
        found = expected_estimates(skewed, "stratified", (4,), samples, seed)
        pairs = [(found.exact, found.exact_error), (found.bias, found.error),
                 (found.alone, found.alone_error)]  # fmt: skip
        return np.array([[np.ravel(each[name])[0] for name in QUANTITIES] for pair in pairs
                         for each in pair]).reshape(3, 2, 3)  # fmt: skip

    truth = values(20_000, 99)[:, 0]
    found = np.array([values(60, seed) for seed in range(60)])
    off, errors = found[:, :, 0] - truth, found[:, :, 1]
    assert (errors[:, 2, :2] < 1e-12).all()  # entropy and rate are in closed form
    assert (np.abs(off[:, 2, :2]) < 1e-9).all()
    for part, k in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 2)]:
        score = off[:, part, k] / errors[:, part, k]
        assert 0.7 < score.std() < 1.4, (part, k)
        assert abs(score.mean()) < 0.6, (part, k)


def recoded_by(q, matrix):
    return FullGaussian(q.loc @ matrix.T, matrix @ q.factor)


def test_a_sampled_rate_adds_an_error():
    """The same prior, once as a Gaussian whose rate is taken on the sample."""
    plain = make_encodings(size=100, dimension=2, scale=0.3)
    sampled = plain._replace(latent=uw.Gaussian(2, sampled_rate=True))
    one, other = (
        expected_estimates(each, "stratified", (4,), samples=2000) for each in (plain, sampled)
    )
    assert one.alone_error["kl"][0] < 1e-12 < 1e-3 < other.alone_error["kl"][0]
    off = abs(other.alone["kl"][0] - one.alone["kl"][0])
    assert off < 4 * other.alone_error["kl"][0]
    assert one.alone["kl"][0] == pytest.approx(
        plain.latent.rate(plain.q, plain.p, plain.q.mean).mean().item() - math.log(100), abs=1e-9
    )
    assert other.alone["entropy"] == pytest.approx(one.alone["entropy"], abs=1e-9)


def test_the_outside_estimator_has_no_value_without_overlap():
    found = expected_estimates(make_encodings(30, 2, 0.4), "outside", (5, 30), samples=20)
    assert set(found.alone) == set(found.alone_error) == set(QUANTITIES)
    for name in QUANTITIES:
        assert found.alone[name].shape == (2,)
        assert np.isnan(found.alone[name]).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_with_the_whole_data_set_all_but_weighted_are_exact(estimator):
    """Its weights sum to 1/N: too low by log N in the joint and in each of the marginals."""
    encodings = make_encodings(size=40, dimension=3, scale=0.3)
    found = expected_estimates(encodings, estimator, (40,), samples=50)
    log_n = math.log(40) if estimator == "weighted" else 0.0
    off = {"entropy": log_n, "kl": -log_n, "total_correlation": 2 * log_n}
    for name, bias in off.items():
        assert found.bias[name][0] == pytest.approx(bias, abs=1e-9)
        assert found.error[name][0] < 1e-9


def test_without_overlap_the_kl_is_the_rate_less_log_n():
    """Which is then the truth as well; the weighted one is log B lower still."""
    encodings = make_encodings(size=500, dimension=4, scale=1e-6)
    found = expected_estimates(encodings, "stratified", (2, 8), samples=200)
    q, p = encodings.q, encodings.p
    rate = encodings.latent.rate(q, p, q.mean).mean().item()
    log_n = math.log(500)
    alone = {"entropy": q.entropy()[0].item() + log_n, "kl": rate - log_n,
             "total_correlation": 3 * log_n}  # fmt: skip
    for name, value in alone.items():
        assert found.alone[name] == pytest.approx([value] * 2, abs=1e-9)
        assert found.expected(name) == pytest.approx(found.alone[name], abs=1e-9)
        assert found.bias[name] == pytest.approx([0, 0], abs=1e-9)
        assert found.exact_error[name] < 1e-9
    lower = expected_estimates(encodings, "weighted", (2, 8), samples=200)
    assert lower.bias["entropy"] == pytest.approx(np.log([2, 8]), abs=1e-9)
    assert lower.expected("entropy") == pytest.approx(lower.alone["entropy"], abs=1e-9)


def test_small_batches_approach_log_n_plus_the_entropy_of_an_encoding():
    """q(z) is about the prior, its KL about 0; a batch of 8 of 4000 gives the rate less log n."""
    encodings = make_encodings(size=4000, dimension=2, scale=0.03)
    found = expected_estimates(encodings, "stratified", (8, 4000), samples=300)
    assert found.exact["kl"] == pytest.approx(0, abs=0.5)
    assert found.expected("entropy")[0] == pytest.approx(found.alone["entropy"][0], abs=0.1)
    assert found.expected("kl")[0] == pytest.approx(found.alone["kl"][0], abs=0.1)
    assert found.bias["entropy"][0] > 1.5
    assert found.bias["entropy"][1] == pytest.approx(0, abs=1e-9)


def entropy_bias(batch=16, size=1000, dimension=3, scale=0.3):
    found = expected_estimates(
        make_encodings(size, dimension, scale), "stratified", (batch,), samples=200
    )
    return found.bias["entropy"][0]


@pytest.mark.parametrize(
    "changes",
    [
        [{"batch": n} for n in (256, 64, 16, 4)],
        [{"dimension": n} for n in (1, 2, 3)],
        [{"scale": s} for s in (1.0, 0.8, 0.5, 0.3)],
        [{"size": n} for n in (30, 100, 300, 1000)],
    ],
    ids=["batch", "dimension", "overlap", "data set"],
)
def test_the_bias_grows_with_size_dimension_and_separation(changes):
    """With smaller batches, more dimensions, less overlap and larger data sets."""
    biases = [entropy_bias(**change) for change in changes]
    assert biases == sorted(biases)
    assert biases[-1] > biases[0] + 0.3


def test_the_bias_of_large_batches_is_jensens_gap():
    """E[log Z] is about log E[Z] - Var[Z] / 2 E[Z]^2, [Mathieu2019] app. C, over 29 others."""
    encodings = make_encodings(size=200, dimension=1, scale=0.8)
    found = expected_estimates(encodings, "stratified", (30,), samples=30_000)
    q = encodings.q.log_prob(encodings.q.rsample(Noise(8), (20,)).reshape(-1, 1, 1)).exp()
    variance = q.var(1) * (1 - 29 / 199) / 29  # of a mean over 29 of 199, without replacement
    gap = (variance / (2 * q.mean(1).square())).mean().item()
    assert found.bias["entropy"][0] == pytest.approx(gap, rel=0.25)


def test_the_outside_estimator_can_make_the_total_correlation_negative():
    """[Kim2018] app. D; draws of the batch itself do not."""
    encodings = make_encodings(size=2000, dimension=10, scale=0.1)
    outside = expected_estimates(encodings, "outside", (50,), samples=200)
    inside = expected_estimates(encodings, "batch", (50,), samples=200)
    assert outside.expected("total_correlation")[0] < -10
    assert inside.expected("total_correlation")[0] > 0


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("bias", [0.05, 0.4])
def test_the_batch_size_for_a_bias(quantity, bias):
    encodings = make_encodings(size=300, dimension=2, scale=0.3)
    batch = batch_size_for(bias, encodings, quantity, samples=200)
    around = expected_estimates(encodings, "stratified", (batch - 1, batch), samples=200).bias[
        quantity
    ]
    assert abs(around[0]) > bias >= abs(around[1])


def test_the_batch_size_for_a_bias_at_its_limits():
    assert (
        batch_size_for(0.01, make_encodings(50, 2, scale=1.0)) == 2
    )  # all encodings are the prior
    assert batch_size_for(9.0, make_encodings(50, 2, scale=0.5)) == 2
    assert batch_size_for(1e-9, make_encodings(50, 2, scale=0.5)) == 50


def test_a_trained_model_and_a_tree():
    """Its q(z) is that of the model's own summary; discrete variables are at their hard_samples."""
    x = np.random.default_rng(0).normal(size=(200, 6))
    tree = uw.Product(style=uw.Gaussian(2), what=uw.Categorical(3))
    model = uw.fit(x, latent=tree, network=uw.MLP(), steps=150, objective=uw.VAE(),
                   optimiser=uw.Adam(lr=3e-3), split="all", progress=False)  # fmt: skip
    encodings = encodings_of(model)
    assert encodings.size == 200
    assert encodings_of(model, 50).size == 50
    found = expected_estimates(encodings, "stratified", (4, 200), samples=1000)
    summary = model.summary(samples=2000)
    assert found.exact["total_correlation"] == pytest.approx(summary.total_correlation, abs=0.1)
    mismatch = summary.total_correlation + summary.dimension_kl
    assert found.exact["kl"] == pytest.approx(mismatch, abs=0.15)
    assert found.bias["entropy"][0] > 3 * found.error["entropy"][0]
    assert found.bias["entropy"][1] == pytest.approx(0, abs=1e-5)


SMALL = make_encodings(10, 1, 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_encodings(1, 2, 0.5), "two encodings or more"),
        (lambda: make_encodings(5, 2, 1.5), "scale above 0 and up to 1"),
        (
            lambda: expected_estimates(SMALL, batch_sizes=(1, 5)),
            r"batches of 2 to 10 observations, got \[1, 5",
        ),
        (lambda: expected_estimates(SMALL, batch_sizes=(11,)), "batches of 2 to 10"),
        (lambda: expected_estimates(SMALL, "stratifed", (2,)), "stratified"),
        (
            lambda: expected_estimates(SMALL, batch_sizes=(2,), samples=9),
            "10 samples or more, got 9",
        ),
        (lambda: batch_size_for(0.0, SMALL), "bias above 0"),
        (lambda: batch_size_for(0.1, SMALL, "entrop"), "entropy"),
        (lambda: batch_size_for(0.1, SMALL, estimator="weighted"), "use the stratified one"),
    ],
)
def test_invalid_arguments_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_encodings_of_one_variable_have_no_total_correlation():
    q, p = make_encodings(30, 1, 0.4)[1:]
    found = expected_estimates(Encodings(uw.Gaussian(1), q, p), "stratified", (5,), samples=20)
    assert found.exact["total_correlation"] == 0
    assert found.bias["total_correlation"][0] == 0


def test_made_encodings_keep_their_numbers():
    """Stored results depend on them, and they on the name of their noise stream."""
    means = make_encodings(3, 1, 0.5).q.mean.flatten().tolist()
    assert means == pytest.approx([-0.14212450445594166, 1.6876262410132987, -0.33934628013539203])
