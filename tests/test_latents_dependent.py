"""Priors in which a class depends on another block: all of it against enumeration."""

import itertools
import math

import pytest
import torch

import unweave as uw
from datasets import SHAPE, SMALL, nets_and_batch, run_updates, small_run
from posteriors import f64, posterior
from unweave.aggregate import decompose, exact
from unweave.core.noise import Noise
from unweave.latents import with_hard_samples
from unweave.latents.dependent import DependentJoint
from unweave.objectives import total

# A chain a -> b -> d, bits -> c, with a continuous block between them.
TREE = uw.Product(
    a=uw.Categorical(3, learn=True),
    bits=uw.Bernoulli(2, probability=0.3),
    b=uw.Categorical(4, given="a"),
    style=uw.Gaussian(2),
    c=uw.Categorical(2, given="bits"),
    d=uw.Categorical(3, given="b"),
)
NESTED = uw.Product(
    style=uw.Gaussian(1),
    inner=uw.Product(what=uw.Categorical(3), colour=uw.Categorical(2, given="what")),
)
DISCRETE = [name for name in TREE.blocks if name != "style"]


def module_of(latent, seed=0):
    """A prior whose parameters are anything but their initial zeros."""
    module = latent.prior(SHAPE).double()
    for name, parameter in module.named_parameters():
        parameter.data = Noise(seed).normal(parameter.shape, name, f64)
    return module


def prior_of(latent, seed=0):
    return module_of(latent, seed)(None)


def table_of(module, name):
    """p(z_b|z_a) (n, K), by softmax over each value of the parent."""
    part = module.parts[name]
    return (part.values @ part.weight.T + part.bias).softmax(-1).detach()


def enumerated():
    """Enumerate the values of the discrete blocks of TREE, with their probabilities."""
    module = module_of(TREE)
    p_a = module.parts["a"].logits.softmax(-1).detach()
    tables = {name: table_of(module, name) for name in ("b", "c", "d")}
    bits = [(0, 0), (0, 1), (1, 0), (1, 1)]
    rows = []
    for a, e, b, c, d in itertools.product(range(3), range(4), range(4), range(2), range(3)):
        ones = sum(bits[e])
        mass = p_a[a] * 0.3**ones * 0.7 ** (2 - ones)
        mass = mass * tables["b"][a, b] * tables["c"][e, c] * tables["d"][b, d]
        z = {"a": torch.eye(3)[a], "bits": torch.tensor(bits[e]), "b": torch.eye(4)[b],
             "c": torch.eye(2)[c], "d": torch.eye(3)[d]}  # fmt: skip
        rows.append(({name: value.double() for name, value in z.items()}, mass))
    return rows


def points(rows, style):
    """The rows as z (n, D) in the order of the tree, with a continuous block."""
    return torch.stack([torch.cat([z.get(name, style) for name in TREE.blocks]) for z, _ in rows])


ROWS = enumerated()
MASSES = torch.stack([mass for _, mass in ROWS])
STYLE = torch.tensor([0.3, -1.2], dtype=f64)
LOG_STYLE = torch.distributions.Normal(0.0, 1.0).log_prob(STYLE).sum()
Z = points(ROWS, STYLE)


def marginal(name):
    """log p(z_b) at every row, by summing the masses of all rows with this value."""
    own = torch.stack([z[name] for z, _ in ROWS])
    same = (own[:, None] == own).all(-1).double()
    return (same @ MASSES).log()


def test_the_joint_and_the_marginals_are_those_of_enumeration():
    p = prior_of(TREE)
    assert isinstance(p, DependentJoint)
    torch.testing.assert_close(MASSES.sum(), torch.tensor(1.0, dtype=f64))
    torch.testing.assert_close(p.log_prob(Z) - LOG_STYLE, MASSES.log())
    for name, (part, own) in zip(TREE.blocks, p.split(Z), strict=True):
        expected = LOG_STYLE.expand(len(Z)) if name == "style" else marginal(name)
        torch.testing.assert_close(part.log_prob(own), expected)
    nodes = dict(zip([node.name for node in TREE.nodes], TREE.log_nodes(p, Z).T, strict=True))
    torch.testing.assert_close(nodes[""], p.log_prob(Z))
    torch.testing.assert_close(nodes["d"], marginal("d"))


@pytest.mark.parametrize("hard", [True, False])
def test_samples_have_these_frequencies(hard):
    p = prior_of(TREE)
    z = (with_hard_samples(p) if hard else p).rsample(Noise(1), (200_000,))
    if hard:
        assert set(z[:, TREE.columns[0]].unique().tolist()) == {0.0, 1.0}
    hard_samples = TREE.hard_samples(z)
    discrete = torch.ones(TREE.size, dtype=torch.bool)
    discrete[9:11] = False  # style
    weights = (2.0 ** torch.arange(int(discrete.sum()))).double()
    keys, found = (hard_samples[:, discrete] @ weights).round(), (Z[:, discrete] @ weights).round()
    counts = torch.stack([(keys == key).double().mean() for key in found])
    assert (counts - MASSES).abs().max() < 4 * math.sqrt(MASSES.max() / len(z))
    torch.testing.assert_close(counts.sum(), torch.tensor(1.0, dtype=f64))
    torch.testing.assert_close(hard_samples.mean(0)[discrete], p.mean[discrete], rtol=0, atol=0.006)


def test_the_rate_is_the_divergence_of_the_joint():
    q, p = posterior(TREE), prior_of(TREE)
    style = TREE.blocks["style"].rate(q.parts["style"], p.parts["style"], None)
    logs = sum(
        q.parts[name].log_prob(torch.stack([z[name] for z, _ in ROWS])[:, None])
        for name in DISCRETE
    )
    expected = (logs.exp() * (logs - MASSES.log()[:, None])).sum(0) + style
    torch.testing.assert_close(TREE.rate(q, p, q.mean), expected)
    own = q.parts["d"].mean.log() - prior_of(TREE).parts["d"].mean.log()
    torch.testing.assert_close(TREE.rates(q, p, q.mean)[:, -1], (q.parts["d"].mean * own).sum(-1))
    wide = TREE.posterior(Noise(3).normal((2, 5, TREE.outputs), "raw", f64))
    torch.testing.assert_close(
        TREE.rate(wide, p, wide.mean)[1],
        TREE.rate(
            TREE.posterior(Noise(3).normal((2, 5, TREE.outputs), "raw", f64)[1]), p, wide.mean[1]
        ),
    )


def test_term_a_has_the_dependence_of_the_prior():
    """E_p[log p(z) / prod p(z_b)] is the total correlation of the table, by enumeration."""
    p = prior_of(TREE)
    q = posterior(TREE, batch=len(Z))
    parts = decompose(TREE, q, p, Z, len(Z), "exact")
    dependence = MASSES.log() - sum(marginal(name) for name in DISCRETE)
    torch.testing.assert_close(parts.prior_correlations[""], dependence)
    assert (MASSES * parts.prior_correlations[""]).sum() > 0.05
    torch.testing.assert_close(
        parts.mutual_information + parts.total_correlation + parts.dimension_kl,
        q.log_prob(Z) - p.log_prob(Z),
    )
    excess = exact(q.log_prob(Z[:, None])) - sum(
        exact(part.log_prob(own[:, None])) for part, own in q.split(Z)
    )
    torch.testing.assert_close(parts.excess(""), excess - dependence)


def test_inner_blocks_depend_on_each_other_too():
    p, q = prior_of(NESTED), posterior(NESTED)
    z = with_hard_samples(q).rsample(Noise(0))
    parts = decompose(NESTED, q, p, z, 5, "exact")
    torch.testing.assert_close(parts.prior_correlations[""], torch.zeros(5, dtype=f64))
    assert (parts.prior_correlations["inner"].abs() > 1e-3).any()


def test_at_first_blocks_are_independent():
    module = TREE.prior(SHAPE).double()
    p = module(None)
    torch.testing.assert_close(p.log_prob(Z), p.log_marginals(Z).sum(-1))
    assert all(value.abs().max() == 0 for value in module.parameters())


def test_the_best_prior_has_the_conditional_probabilities_of_the_data():
    """argmin of the mean rate: p(b|a) = sum_x q(a|x) q(b|x) / sum_x q(a|x)."""
    latent = uw.Product(a=uw.Categorical(3, learn=True), b=uw.Categorical(4, given="a"))
    q = posterior(latent, batch=6)
    module = latent.prior(SHAPE).double()
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=500, tolerance_grad=1e-10,
                                  line_search_fn="strong_wolfe")  # fmt: skip

    def loss():
        optimiser.zero_grad()
        value = latent.rate(q, module(None), q.mean).mean()
        value.backward()
        return value

    optimiser.step(loss)
    both = q.parts["a"].mean.T @ q.parts["b"].mean
    torch.testing.assert_close(
        table_of(module, "b"), both / both.sum(1, keepdim=True), rtol=0, atol=1e-4
    )


def test_the_dependence_is_learned_and_saved(tmp_path):
    latent = uw.Product(a=uw.Categorical(3), b=uw.Categorical(2, given="a"), style=uw.Gaussian(2))
    fields = {"network": uw.MLP((8,)), "batch_size": 16, "steps": 30, "progress": False}
    objective = uw.HFVAE(beta=2.0)
    model = uw.fit(SMALL, latent=latent, objective=objective, store=tmp_path, **fields)
    again = uw.load(model.folder, device="cpu")
    assert isinstance(again.prior(), DependentJoint)
    link = again.prior().links["b"]
    assert link.weight.abs().max() > 0
    assert torch.equal(link.weight, model.prior().links["b"].weight)
    assert model.sample(4).shape == model.observations(range(4)).shape
    model.traverse()


def test_gradients_reach_the_conditional_probabilities():
    latent = uw.Product(a=uw.Categorical(3), b=uw.Categorical(2, given="a"), style=uw.Gaussian(1))
    for objective in (uw.VAE(), uw.HFVAE(), uw.BetaTCVAE(), uw.IWAE(particles=3)):
        nets, batch = nets_and_batch(small_run(latent=latent, objective=objective))
        terms = run_updates(objective, nets, batch, Noise(0))["model"]
        (slope,) = torch.autograd.grad(total(terms), [nets.model.prior.parts["b"].weight])
        assert slope.isfinite().all(), objective.kind
        assert slope.abs().sum() > 0, objective.kind


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"b": uw.Categorical(2, given="a")}, "got no such block; before it: -"),
        ({"b": uw.Categorical(2, given="a"), "a": uw.Categorical(3)}, "got no such block"),
        ({"b": uw.Categorical(2, given="b")}, "got no such block"),
        ({"a": uw.Gaussian(2), "b": uw.Categorical(2, given="a")}, "got Gaussian of size 2"),
        ({"a": uw.Bernoulli(11), "b": uw.Categorical(2, given="a")}, "at most 10 bits"),
    ],
    ids=str,
)
def test_impossible_dependences_of_blocks_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        uw.Product(**blocks)


def test_dependent_blocks_are_refused_where_they_make_no_sense():
    latent = uw.Product(a=uw.Categorical(3), b=uw.Categorical(2, given="a"))
    with pytest.raises(ValueError, match="expected a product"):
        uw.Categorical(2, given="a").prior(SHAPE)
    with pytest.raises(ValueError, match="not known before training"):
        latent.log_prob(torch.zeros(5))
    for objective in (uw.InfoGAN(), uw.DIPVAE(), uw.AAE()):
        assert objective.incompatibility(latent) is not None, objective.kind
