"""InfoGAN and InfoWGAN-GP: players and gradients, the papers' losses, and trained models."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import unweave as uw
from datasets import (
    ADVERSARIAL,
    CPU,
    LATENTS,
    SMALL,
    batch_rows,
    nets_and_batch,
    run_update,
    run_updates,
    small_run,
)
from unweave import metrics
from unweave.cli import train as train_cli
from unweave.core.noise import Noise
from unweave.core.spec import from_json, to_json
from unweave.objectives import gradient_penalty, total
from unweave.objectives.adversarial import interpolate
from unweave.training import Lanes, train
from unweave.training.own_data import Datasets
from unweave.training.run import Run
from unweave.training.store import Store

GAN, WGAN = ADVERSARIAL
MIXED = uw.Product(what=uw.Categorical(3), place=uw.Uniform(2))
CODES = [MIXED, uw.Gaussian(3), uw.Bernoulli(3, probability=0.3)]
SPACES = [latent for latent in LATENTS if GAN.incompatibility(latent) is None]
each = pytest.mark.parametrize("objective", ADVERSARIAL, ids=lambda o: o.kind)


def gan_run(objective=GAN, **fields):
    fields = {"latent": MIXED, "network": None} | fields
    return small_run(objective=objective, **fields)


def lanes_of(runs, *, vectorised=False, double=False):
    lanes = Lanes(runs, SMALL.load(CPU), CPU)
    lanes.vectorised = vectorised
    if double:
        lanes.sampler.dataset = Doubled(lanes.dataset)
        lanes.nets.double()
        for tensors in lanes.state.tensors.values():
            tensors |= {name: value.double() for name, value in tensors.items()}
    return lanes


class Doubled:
    """A dataset whose images are in float64."""

    def __init__(self, dataset):
        self.dataset, self.size = dataset, dataset.size

    def images(self, index):
        return self.dataset.images(index).double()


def advance(lanes, steps):
    for _ in range(steps):
        values, _ = lanes.advance()
    return values


def names(nets, player):
    return [name for name, _ in nets.named_parameters() if nets.player_of(name) == player]


# ---- in lanes


# The two objectives differ in the critic alone, so one of them meets every latent space.
CASES = [
    *((GAN, latent, False) for latent in [MIXED, *SPACES]),
    *((GAN, latent, True) for latent in CODES),
    (WGAN, MIXED, False),
    (WGAN, MIXED, True),
]


@pytest.mark.parametrize(
    ("objective", "latent", "vectorised"), CASES, ids=lambda v: getattr(v, "kind", v)
)
def test_training_is_finite_and_resumes_bit_for_bit(objective, latent, vectorised):
    runs = [gan_run(objective, latent=latent, seed=seed) for seed in (0, 1)]
    runs = [run.resolve(SMALL.load(CPU)) for run in runs]
    whole, resumed = (lanes_of(runs, vectorised=vectorised) for _ in range(2))
    advance(whole, 2)
    resumed.restore([{n: t.clone() for n, t in whole.state.lane(k).items()} for k in (0, 1)], 2)
    values = advance(whole, 2)
    advance(resumed, 2)
    assert all(value.isfinite().all() for value in values.values())
    assert whole.players == ["critic"] * objective.critic_steps + ["model"]
    assert set(whole.players) == set(whole.state.names)
    assert sum(map(len, whole.state.names.values())) == len(whole.state.parameters)
    for lane in (0, 1):
        for name, value in whole.state.lane(lane).items():
            assert torch.equal(value, resumed.state.lane(lane)[name]), name


@pytest.mark.parametrize("vectorised", [True, False])
@each
def test_a_lane_is_the_run_alone(objective, vectorised):
    """In float64: layer norm before batch norm loses four digits at the start, which Adam shows."""
    weaker = dataclasses.replace(objective, information=0.1)
    runs = [gan_run(o, seed=seed) for o, seed in [(objective, 0), (objective, 1), (weaker, 1)]]
    together = lanes_of(runs, vectorised=vectorised, double=True)
    values = advance(together, 2)
    for lane, run in enumerate(runs):
        alone = lanes_of([run], double=True)
        for name, value in advance(alone, 2).items():
            torch.testing.assert_close(values[name][lane], value[0], rtol=1e-6, atol=1e-8)
        for name, value in alone.state.parameters.items():
            torch.testing.assert_close(
                together.state.parameters[name][lane], value[0], rtol=0, atol=1e-7
            )


@pytest.mark.parametrize("vectorised", [True, False])
@each
def test_an_update_changes_only_its_player_running_statistics_included(objective, vectorised):
    lanes = lanes_of([gan_run(objective, seed=s) for s in (0, 1)], vectorised=vectorised)
    lanes.prepare()
    for index, player in enumerate(lanes.players):
        before = {
            n: v.clone() for n, v in {**lanes.state.parameters, **lanes.state.buffers}.items()
        }
        run_update(lanes, index, {})
        for name, value in {**lanes.state.parameters, **lanes.state.buffers}.items():
            own = lanes.nets.player_of(name) == player
            if own and objective is WGAN and name.endswith("last.bias"):
                continue  # a distance of means does not see it
            assert torch.equal(before[name], value) != own, (player, name)


def test_each_player_owns_the_layers_that_the_paper_gives_it():
    nets, _ = nets_and_batch(gan_run())
    parts = {
        player: {n.split(".")[1] for n in names(nets, player)} for player in ("model", "critic")
    }
    assert parts == {"model": {"generator", "recogniser"}, "critic": {"critic"}}
    assert {n.split(".")[2] for n in names(nets, "critic")} == {"trunk", "last"}


def test_every_update_of_the_critic_has_its_own_batch_and_samples():
    seen = []
    lanes = lanes_of([gan_run(WGAN)])
    critic = lanes.nets.model.critic
    hook = critic.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().clone()))
    lanes.advance()
    hook.remove()
    real = [lanes.dataset.images(batch_rows(lanes, 0, turn))[0] for turn in (0, 1)]
    first, between_first, second, between_second = seen
    assert torch.equal(first, real[0])
    assert torch.equal(second, real[1])
    assert not torch.equal(first, second)
    assert not torch.equal(between_first, between_second)


# ---- gradients between players


@each
def test_the_critics_loss_does_not_reach_the_generator(objective):
    nets, batch = nets_and_batch(gan_run(objective))
    terms, _ = objective.critic_loss(nets, batch, Noise(0), {})
    generator = list(nets.model.generator.parameters())
    slopes = torch.autograd.grad(total(terms), generator, allow_unused=True, retain_graph=True)
    assert all(slope is None for slope in slopes)
    terms.pop("information")  # the rest is a matter between D and the images
    recogniser = list(nets.model.recogniser.parameters())
    slopes = torch.autograd.grad(total(terms), recogniser, allow_unused=True)
    assert all(slope is None for slope in slopes)


@each
def test_information_reaches_the_generator_through_a_constant_trunk(objective):
    nets, batch = nets_and_batch(gan_run(objective))
    nets.model.critic.requires_grad_(False)
    terms, _ = objective.model_loss(nets, batch, Noise(0), {})
    own = [p for p in nets.parameters() if p.requires_grad]
    slopes = torch.autograd.grad(terms["information"].value.mean(), own)
    assert all(slope.isfinite().all() and slope.abs().sum() > 0 for slope in slopes)


@each
def test_the_trunk_follows_the_information_term_too(objective):
    nets, batch = nets_and_batch(gan_run(objective))
    terms, _ = objective.critic_loss(nets, batch, Noise(0), {})
    trunk = list(nets.model.critic.trunk.parameters())
    slopes = torch.autograd.grad(terms["information"].value.mean(), trunk)
    assert all(slope.abs().sum() > 0 for slope in slopes)


@pytest.mark.parametrize(
    ("objective", "latent"), [*((GAN, latent) for latent in CODES), (WGAN, MIXED)]
)
def test_the_gradients_agree_with_finite_differences(objective, latent):
    """For the losses of both players, including the second derivatives of the penalty."""
    nets, batch = nets_and_batch(gan_run(objective, latent=latent))
    parameters = dict(nets.named_parameters())
    chosen = {
        "model": ["model.generator.0.weight", "model.recogniser.0.weight"],
        "critic": ["model.critic.trunk.0.weight", "model.critic.last.weight"],
    }

    def loss(player):
        return total(run_updates(objective, nets, batch, Noise(0))[player])

    for player, where in chosen.items():
        for name in where:
            parameter, step = parameters[name], 1e-7
            (slope,) = torch.autograd.grad(loss(player), parameter)
            direction = slope / slope.norm()
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter += sign * step * direction
                values.append(loss(player).item())
                with torch.no_grad():
                    parameter -= sign * step * direction
            expected = (values[0] - values[1]) / (2 * step)
            assert slope.norm().item() == pytest.approx(expected, rel=1e-3), name


# ---- the papers' losses


def test_the_losses_of_infogan_agree_with_probabilities():
    """Equation 15 with log probabilities, and the generator's that does not saturate."""
    nets, batch = nets_and_batch(gan_run(GAN))
    terms, _ = GAN.critic_loss(nets, batch, Noise(0), {})
    _, x = nets.model(len(batch.x), Noise(0))
    real, fake = torch.sigmoid(nets.model.critic(batch.x)), torch.sigmoid(nets.model.critic(x))
    torch.testing.assert_close(terms["critic"].value, -torch.log(real) - torch.log(1 - fake))
    right = ((real > 0.5).double().mean() + (fake < 0.5).double().mean()) / 2
    torch.testing.assert_close(terms["critic_accuracy"].value.mean(), right)
    terms, _ = GAN.model_loss(nets, batch, Noise(0), {})
    torch.testing.assert_close(terms["adversarial"].value, -torch.log(fake))


def test_the_losses_of_infowgan_agree_with_equation_16():
    """Equation 16 as a loss: what the critic makes large has a minus, the penalty a plus."""
    nets, batch = nets_and_batch(gan_run(WGAN))
    terms, _ = WGAN.critic_loss(nets, batch, Noise(0), {})
    c, x = nets.model(len(batch.x), Noise(0))
    critic = nets.model.critic
    middle = interpolate(batch.x, x.detach(), Noise(0)).requires_grad_()
    (slope,) = torch.autograd.grad(critic(middle).sum(), middle)
    penalty = (slope.square().sum((1, 2, 3)).sqrt() - 1).square().mean()
    _, q = nets.model.criticise(x)
    expected = critic(x).mean() - critic(batch.x).mean() + 5.0 * penalty
    torch.testing.assert_close(total(terms), expected - 0.5 * q.log_prob(c).mean())
    terms, _ = WGAN.model_loss(nets, batch, Noise(0), {})
    torch.testing.assert_close(terms["adversarial"].value, -critic(x))


@each
def test_information_is_the_cross_entropy_of_the_codes(objective):
    """The probability of the class, and the density of u transformed to the interval."""
    nets, batch = nets_and_batch(gan_run(objective))
    terms, _ = objective.model_loss(nets, batch, Noise(0), {})
    c, x = nets.model(len(batch.x), Noise(0))
    raw = nets.model.raw(x)
    classes = F.cross_entropy(raw[:, :3], c[:, :3].argmax(1), reduction="none")
    standard = torch.distributions.Normal(0.0, 1.0)
    u = standard.icdf((c[:, 3:] + 1) / 2)
    scale = torch.exp(-0.5 * F.softplus(-raw[:, 5:]))
    own = torch.distributions.Normal(3 * torch.tanh(raw[:, 3:5] / 3), scale)
    density = own.log_prob(u) - standard.log_prob(u) - math.log(2)
    torch.testing.assert_close(terms["information"].value, classes - density.sum(1))


class PaintingGenerator(nn.Module):
    """A generator that writes the code into the first pixels."""

    def forward(self, z):
        rest = z.new_zeros(len(z), 256 - z.shape[1])
        return (200 * torch.cat([z, rest], 1) - 100).reshape(-1, 1, 16, 16)


class ReadingRecogniser(nn.Module):
    """A recogniser that reads a class off the pixels with a given confidence."""

    def __init__(self, sure):
        super().__init__()
        self.sure = sure

    def forward(self, features):
        return self.sure * features[:, :3]


@pytest.mark.parametrize(("sure", "expected"), [(60.0, 0.0), (0.0, math.log(3))])
def test_information_ranges_from_zero_to_the_entropy_of_the_codes(sure, expected):
    objective = uw.InfoGAN(noise_size=0)
    nets, batch = nets_and_batch(gan_run(objective, latent=uw.Categorical(3)))
    model = nets.model
    model.generator, model.recogniser = PaintingGenerator(), ReadingRecogniser(sure)
    model.critic.trunk, model.critic.last = nn.Flatten(), nn.Linear(256, 1).double()
    terms, _ = objective.model_loss(nets, batch, Noise(0), {})
    assert terms["information"].value.mean().item() == pytest.approx(expected, abs=1e-6)


def test_an_uninformative_q_has_the_entropy_of_uniform_codes():
    """Which a normal Q, [Chen2016], has not: it is at best (1 + log(2 pi / 3)) / 2 > log 2."""
    latent = uw.Uniform(4)
    c = latent.density(torch.zeros(4)).rsample(Noise(0), (100,))
    wide = torch.cat([torch.zeros(100, 4), torch.full((100, 4), 50.0)], -1)
    torch.testing.assert_close(
        -latent.posterior(wide).log_prob(c), torch.full((100,), latent.entropy())
    )
    assert (1 + math.log(2 * math.pi / 3)) / 2 > math.log(2)


# ---- the penalty


def test_the_penalty_of_a_linear_critic_is_that_of_its_weights():
    torch.manual_seed(0)
    critic = nn.Linear(5, 1).double()
    x = torch.randn(7, 5, dtype=torch.float64)
    expected = (critic.weight.norm() - 1).square()
    value = gradient_penalty(lambda x: critic(x)[:, 0], x)
    torch.testing.assert_close(value, expected.expand(7))
    (slope,) = torch.autograd.grad(value.mean(), critic.weight)
    length = critic.weight.norm()
    torch.testing.assert_close(slope, 2 * (length - 1) / length * critic.weight)


def test_the_penalty_agrees_with_finite_differences():
    """For the papers' critic, one pixel at a time."""
    nets, batch = nets_and_batch(gan_run(WGAN), size=2)
    x, step, critic = batch.x + 0.3, 1e-5, nets.model.critic
    moved = torch.eye(256, dtype=torch.float64).reshape(256, 1, 16, 16) * step
    expected = []
    with torch.no_grad():
        for image in x:
            slope = (critic(image + moved) - critic(image - moved)) / (2 * step)
            expected.append((slope.norm() - 1).square())
    torch.testing.assert_close(
        gradient_penalty(critic, x), torch.stack(expected), rtol=1e-5, atol=0
    )


def test_points_lie_between_real_and_generated_images():
    real, fake = torch.ones(500, 1, 4, 4), torch.zeros(500, 1, 4, 4)
    share = interpolate(real, fake, Noise(0)).flatten(1)
    assert torch.equal(share, share[:, :1].expand_as(share))  # one number for each pair
    assert share[:, 0].mean().item() == pytest.approx(0.5, abs=0.05)
    assert share.min() >= 0
    assert share.max() <= 1
    assert not torch.equal(share, interpolate(real, fake, Noise(0, 1)).flatten(1))


@pytest.mark.parametrize("weight", [1.0, 10.0, 100.0])
def test_the_penalty_pulls_slopes_to_one(weight):
    """On two clusters 2 apart a linear critic ends at the slope 1 + 2 / (2 weight)."""
    torch.manual_seed(0)
    objective = uw.InfoWGANGP(penalty=weight)
    line = nn.Linear(2, 1).double()
    middle = torch.tensor([2.0, 0.0], dtype=torch.float64)
    fake = torch.randn(64, 2, dtype=torch.float64)
    real = fake + middle
    optimiser = torch.optim.LBFGS(line.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def critic(x):
        return line(x)[:, 0]

    def loss():
        optimiser.zero_grad()
        terms = objective.critic_terms(critic(real), critic(fake))
        value = total(terms | objective.critic_regulariser(critic, real, fake, Noise(0)))
        value.backward()
        return value

    optimiser.step(loss)
    torch.testing.assert_close(line.weight[0], middle / 2 * (1 + 1 / weight), rtol=0, atol=1e-4)


# ---- codes


def test_classes_and_bits_are_drawn_exactly():
    latent = uw.Product(what=uw.Categorical(4, temperature=5.0), flags=uw.Bernoulli(2, 0.2))
    nets, _ = nets_and_batch(gan_run(latent=latent))
    c, x = nets.model(1500, Noise(0))
    assert set(c.unique().tolist()) == {0.0, 1.0}
    assert (c[:, :4].sum(1) == 1).all()
    assert (c[:, :4].mean(0) - 0.25).abs().max() < 0.05
    assert (c[:, 4:].mean(0) - 0.2).abs().max() < 0.05
    assert x.min() >= 0
    assert x.max() <= 1


def test_images_are_decoded_from_codes_and_noise():
    nets, _ = nets_and_batch(gan_run())
    model = nets.model.eval()
    c, x = model(5, Noise(0))
    e = Noise(0).normal((5, 2), "noise", torch.float64)
    torch.testing.assert_close(model.decode(torch.cat([c, e], -1)).mean, x)
    assert not torch.allclose(model.decode(torch.cat([c, -e], -1)).mean, x)


# ---- refusals


@each
def test_learned_priors_are_refused_with_a_reason(objective):
    for latent in LATENTS:
        reason = objective.incompatibility(latent)
        assert (reason is None) == latent.fixed_prior, latent
        if reason:
            with pytest.raises(ValueError, match="cannot be used here: the generator needs"):
                gan_run(objective, latent=latent).resolve(SMALL.load(CPU))


@each
def test_a_run_leaves_the_network_to_the_objective(objective):
    dataset = SMALL.load(CPU)
    run = Run(data=SMALL, objective=objective, batch_size=8).resolve(dataset)
    assert run.network is None
    assert from_json(Run, to_json(run)).digest == run.digest
    with pytest.raises(ValueError, match="expected no network, got network=mlp"):
        small_run(objective=objective).resolve(dataset)


def test_a_gradient_penalty_refuses_batch_normalisation():
    with pytest.raises(ValueError, match="norm=layer, got batch"):
        uw.InfoWGANGP(network=uw.Kim2018GAN(norm="batch"))


def test_images_that_the_networks_cannot_take_are_refused():
    with pytest.raises(ValueError, match="multiples of 16"):
        uw.fit(np.zeros((30, 12, 12), np.uint8), objective=GAN, batch_size=8, progress=False)


# ---- the trained model


@pytest.mark.parametrize(
    ("objective", "latent"),
    [(GAN, MIXED), (WGAN, uw.Product(place=uw.Uniform(2), flags=uw.Bernoulli(2)))],
)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.usefixtures("quick_scores")
def test_a_trained_model_is_used_like_any_other(objective, latent, tmp_path):
    fields = {"steps": 6, "batch_size": 16, "optimiser": uw.Adam(lr=1e-3, betas=(0.5, 0.999))}
    model = uw.fit(
        SMALL, objective=objective, latent=latent, store=tmp_path, progress=False, **fields
    )
    x = model.observations([0, 1, 2, 3])
    mean, scale = model.posterior(x)
    assert mean.shape == scale.shape == (4, latent.size)
    assert np.allclose(model.encode(x[:1]), mean[:1], atol=1e-5)  # whatever comes with it
    assert model.decode(mean).shape == model.reconstruct(x).shape == x.shape
    assert set(model.log[-1]) >= {"step", "critic", "adversarial", "information"}
    assert ("critic_accuracy" in model.log[-1]) == (objective.kind == "info-gan")
    again = uw.load(model.folder, device="cpu")
    assert np.array_equal(again.encode(x), mean)
    table = model.table(200)
    assert table.codes.shape[1] == len(latent.variables)
    assert (table.kl > 0).all()
    assert metrics.evaluate(table)
    with pytest.raises(ValueError, match="no log p"):
        model.log_likelihood(x)
    if objective is GAN:
        page = uw.write_report(model, tmp_path / "report.html", rows=100).read_text()
        assert f"objective={objective.kind}" in page
        assert "network=" not in page


def test_the_command_line_shows_a_run_without_distortion(tmp_path, capsys):
    outcomes = train([gan_run(steps=2)], SMALL.load(CPU), Store(tmp_path))
    train_cli.print_outcomes(outcomes, Store(tmp_path), Datasets(CPU))
    assert outcomes[0].run.digest in capsys.readouterr().out


def test_the_papers_defaults():
    for objective in (uw.InfoGAN(), uw.InfoWGANGP()):
        assert objective.noise_size == 5
        assert objective.critic_steps == 1
        assert objective.optimisers == {"critic": uw.Adam(lr=1e-4, betas=(0.5, 0.999))}
    assert uw.InfoWGANGP().penalty == 10.0
    assert uw.InfoWGANGP().network == uw.Kim2018GAN(norm="layer")
