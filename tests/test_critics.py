"""Critics of objectives: their loss, their accuracy and the densities they learn to tell apart."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

import unweave as uw
from datasets import (
    ADVERSARIAL,
    CPU,
    CRITIC,
    LATENTS,
    OBJECTIVES,
    SMALL,
    nets_and_batch,
    small_run,
)
from unweave.core.noise import Noise
from unweave.latents import variable_of_column
from unweave.objectives import base, total
from unweave.objectives.decomposed import permute_variables
from unweave.objectives.divergences import accuracy
from unweave.training import Lanes, step as step_module


def test_the_critics_loss_has_no_gradient_for_the_encoder():
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    nets, batch = nets_and_batch(small_run(objective=objective))
    _, carry = objective.model_loss(nets, batch, Noise(0), {})
    nets.zero_grad()
    terms, _ = objective.critic_loss(nets, batch, Noise(0), carry)
    total(terms).backward()
    for name, parameter in nets.named_parameters():
        reached = parameter.grad is not None and parameter.grad.abs().sum() > 0
        assert reached == (nets.player_of(name) == "critic"), name


def test_the_total_correlation_term_is_the_critics_log_ratio():
    """log D / (1 - D) with the first logit for q(z): positive if the critic prefers q(z)."""
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    nets, batch = nets_and_batch(small_run(objective=objective))
    terms, carry = objective.model_loss(nets, batch, Noise(0), {})
    probability = torch.softmax(nets.critic(carry["z"]), -1)[:, 0]
    expected = torch.log(probability / (1 - probability))
    torch.testing.assert_close(terms["total_correlation"].value, expected)


def test_the_critics_loss_is_that_of_algorithm_2():
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    nets, first = nets_and_batch(small_run(objective=objective))
    _, second = nets_and_batch(small_run(objective=objective), seed=1)
    _, carry = objective.model_loss(nets, first, Noise(0), {})
    terms, _ = objective.critic_loss(nets, second, Noise(0, 0, "second"), carry)
    noise = Noise(0, 0, "second")
    z = nets.model.encode(second.x).rsample(noise.fold("posterior"))
    permuted = permute_variables(z, nets.model.latent, noise)
    d = torch.softmax(nets.critic(carry["z"]), -1)[:, 0]
    d_permuted = torch.softmax(nets.critic(permuted), -1)[:, 0]
    size = len(first.x)
    expected = -(torch.log(d).sum() + torch.log(1 - d_permuted).sum()) / (2 * size)
    torch.testing.assert_close(total(terms), expected)


CLASSIFIERS = [o for o in OBJECTIVES if o.critics] + [ADVERSARIAL[0]]


@pytest.mark.parametrize("objective", CLASSIFIERS, ids=lambda o: o.kind)
@pytest.mark.parametrize("vectorised", [True, False])
def test_the_accuracy_of_a_critic_is_reported_and_changes_no_bit(
    objective, vectorised, monkeypatch
):
    """It is a fraction, and training without it gives the same parameters."""
    network = uw.MLP((16,)) if objective.autoencodes else None
    run = small_run(objective=objective, network=network)

    def trained():
        lanes = Lanes([run, dataclasses.replace(run, seed=1)], SMALL.load(CPU), CPU)
        lanes.vectorised = vectorised
        for _ in range(3):
            values, _ = lanes.advance()
        return values, lanes.state.parameters

    values, parameters = trained()
    accuracy = values["critic_accuracy"]
    assert ((accuracy >= 0) & (accuracy <= 1)).all()
    torch.testing.assert_close(accuracy * 2 * run.batch_size, (accuracy * 32).round())
    assert "critic_accuracy" in objective.not_in_nats

    def reduce_others(terms):
        return base.reduce_terms({n: t for n, t in terms.items() if n != "critic_accuracy"})

    monkeypatch.setattr(step_module, "reduce_terms", reduce_others)
    without, same = trained()
    assert values.keys() - without.keys() == {"critic_accuracy"}
    assert all(torch.equal(parameters[name], value) for name, value in same.items())


def test_the_accuracy_of_the_best_critic_is_that_of_the_bayes_classifier():
    """N(1, 1) against N(-1, 1): the log-ratio is 2 z, and it is right with probability Phi(1)."""
    z = Noise(0).normal((100_000,), "z", torch.float64)
    found = accuracy(2 * (z + 1), 2 * (z.flip(0) - 1)).mean().item()
    assert found == pytest.approx(torch.special.ndtr(torch.tensor(1.0)).item(), abs=0.003)
    assert accuracy(torch.tensor([3.0]), torch.tensor([1.0])).item() == 0.5  # "all are real"
    assert accuracy(torch.zeros(2), torch.zeros(2)).tolist() == [0.5, 0.5]


def test_a_trained_critic_estimates_the_total_correlation():
    """On correlated normal codes the log-ratio converges to the TC, which is closed form."""
    torch.manual_seed(0)
    rho = 0.8
    critic = uw.Critic(width=32, depth=2).network(2)
    optimiser = torch.optim.Adam(critic.parameters(), 1e-3)

    def codes(count):
        a, b = torch.randn(2, count)
        return torch.stack([a, rho * a + math.sqrt(1 - rho**2) * b], -1)

    for step in range(500):
        joint, other = codes(1536), codes(1536)
        factored = permute_variables(other, uw.Gaussian(2), Noise(0, step))
        loss = -F.log_softmax(critic(joint), -1)[:, 0] - F.log_softmax(critic(factored), -1)[:, 1]
        optimiser.zero_grad()
        loss.mean().backward()
        optimiser.step()
    with torch.no_grad():
        logits = critic(codes(50_000))
        estimate = (logits[:, 0] - logits[:, 1]).mean().item()
    assert estimate == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.06)


@pytest.mark.parametrize("latent", LATENTS)
def test_permutation_keeps_marginals_and_breaks_dependence(latent):
    z = torch.randn(4000, 1).expand(-1, latent.size).clone()
    permuted = permute_variables(z, latent, Noise(5))
    assert torch.equal(permuted.sort(0).values, z.sort(0).values)
    whose = variable_of_column(latent)
    apart = whose[:, None] != whose
    correlation = torch.corrcoef(permuted.T).reshape(latent.size, latent.size)
    assert (correlation[apart].abs() < 0.08).all()
    assert (correlation[~apart] > 0.999).all()  # the columns of a one-hot group stay together
    assert (permuted != z).float().mean() > 0.99  # across the batch, not within a sample


def test_the_default_critic_is_that_of_the_paper():
    critic = uw.FactorVAE().critic
    layers = [layer for layer in critic.network(10) if isinstance(layer, torch.nn.Linear)]
    assert [layer.out_features for layer in layers] == [1000] * 6 + [2]
    assert critic.optimiser.betas == (0.5, 0.9)
