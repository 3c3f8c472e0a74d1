"""Lanes train like single runs, resume bit for bit, and fail one by one."""

import dataclasses

import pytest
import torch

import unweave as uw
from datasets import (
    ADVERSARIAL,
    CPU,
    CRITIC,
    CROSS,
    DATASET,
    LATENTS,
    LIKELIHOODS,
    MIXED,
    NESTED,
    OBJECTIVES,
    PAIRS,
    SMALL,
    D,
    batch_rows,
    run_update,
    small_run,
)
from unweave.catalogue.methods import default_objectives, spaces
from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.core.schedules import at
from unweave.data import from_array
from unweave.training import Lanes, recall, train
from unweave.training.engine import Engine
from unweave.training.sampler import Sampler
from unweave.training.store import Store

NETWORKS = [uw.MLP((16,)), uw.Conv(base=4, hidden=8), uw.DCGAN(base=4)]
NORMALISED = NETWORKS[2]


def lanes_of(runs):
    return Lanes(runs, DATASET, CPU)


def advance(lanes, steps):
    for _ in range(steps):
        values, _ = lanes.advance()
    return values


def weights_of(objective, factor):
    """Multiply the weights of an objective, so that lanes differ in them."""
    run = small_run(objective=objective)
    return type(objective)(
        **{k: v for k, v in vars(objective).items() if k not in ("kind", *run.weights)},
        **{name: at(value, 20) * factor for name, value in run.weights.items()},
    )


# Both ways of mapping lanes, for objectives with one player, with two, and with pairs of a batch.
SHAPES = [uw.BetaVAE(beta=3.0), uw.FactorVAE(gamma=5.0, critic=CRITIC), uw.BetaTCVAE(beta=4.0)]
MAPPED = [(o, network, mapped) for o in SHAPES for network in NETWORKS for mapped in (True, False)]


@pytest.mark.parametrize(
    ("objective", "network", "vectorised"),
    [*MAPPED, *((o, NETWORKS[0], True) for o in OBJECTIVES)],
    ids=lambda v: getattr(v, "kind", v),
)
def test_a_lane_trains_like_a_single_run(objective, network, vectorised):
    """To float tolerance, with other seeds and weights beside it, vectorised or not."""
    steps = 2
    runs = [
        small_run(objective=weights_of(objective, factor), network=network, seed=seed)
        for seed, factor in [(0, 1.0), (1, 1.0), (1, 0.5)]
    ]
    together = lanes_of(runs)
    together.vectorised = vectorised
    values = advance(together, steps)
    for lane, run in enumerate(runs):
        alone = lanes_of([run])
        expected = advance(alone, steps)
        for name, value in expected.items():
            torch.testing.assert_close(values[name][lane], value[0], rtol=1e-3, atol=1e-3)
        for kind in ("parameters", "buffers"):
            for name, value in getattr(alone.state, kind).items():
                found = getattr(together.state, kind)[name][lane]
                # Normalisation divides rounding errors by small standard deviations.
                atol = 1e-3 if network is NORMALISED else 2e-5
                torch.testing.assert_close(found, value[0], rtol=1e-3, atol=atol)


# Without the plain Gaussian, with which every objective is tested above and below, for objectives
# that meet the largest tree.
TREES = [(o, p) for o, p in CROSS if p is not LATENTS[0] or o.incompatibility(MIXED)]


@pytest.mark.parametrize(("objective", "latent"), TREES)
def test_objectives_and_latents_train_in_lanes_and_resume(objective, latent):
    """Finite terms, the right players, a lane like a single run, resumed bit for bit."""
    runs = [small_run(objective=objective, latent=latent, seed=seed) for seed in (0, 1)]
    runs = [run.resolve(DATASET) for run in runs]
    together, alone, resumed = lanes_of(runs), lanes_of(runs[1:]), lanes_of(runs)
    advance(together, 1)
    resumed.restore([{n: t.clone() for n, t in together.state.lane(k).items()} for k in (0, 1)], 1)
    values = advance(together, 1)
    advance(alone, 2)
    advance(resumed, 1)
    assert all(value.isfinite().all() for value in values.values())
    assert set(together.players) == {"model", *objective.critics} == set(together.state.names)
    for lane in (0, 1):
        for name, value in together.state.lane(lane).items():
            assert torch.equal(value, resumed.state.lane(lane)[name]), name
    for name, value in alone.state.parameters.items():
        torch.testing.assert_close(
            together.state.parameters[name][1], value[0], rtol=1e-3, atol=1e-5
        )


@pytest.mark.parametrize(
    "objective",
    [
        uw.AlphaBetaVAE(beta=0.0, divergence=D.DensityRatio()),
        uw.InfoVAE(alpha=1.0, divergence=D.Adversary()),
        uw.AAE(),
    ],
)
def test_learned_priors_that_get_no_gradient_are_rejected(objective):
    assert "cannot train" in objective.incompatibility(uw.Gaussian(3, learn="variances"))
    assert objective.incompatibility(uw.Gaussian(3)) is None
    assert uw.AlphaBetaVAE(divergence=D.DensityRatio()).incompatibility(uw.VampPrior(3)) is None
    wide = uw.WAE(divergence=D.Moments()).incompatibility(uw.StudentT(2, df=1))
    assert "variance" in wide


def test_unsupported_pairs_are_rejected_with_a_reason():
    refused = [(o, latent) for o in OBJECTIVES for latent in LATENTS if o.incompatibility(latent)]
    assert len(refused) + len(PAIRS) == len(OBJECTIVES) * len(LATENTS)
    for objective, latent in refused:
        with pytest.raises(ValueError, match="cannot be used here: ") as caught:
            small_run(objective=objective, latent=latent).resolve(DATASET)
        assert "\n" not in str(caught.value)


def everything():
    """List what the methods page says is supported: objectives on two blocks of every kind."""
    objectives = [objective for objective in default_objectives().values() if objective.autoencodes]
    cells = [(o, s) for o in objectives for s in spaces().values() if o.incompatibility(s) is None]
    assert len(cells) > 200
    return [(with_small_critic(o), latent) for o, latent in cells]


def with_small_critic(spec):
    """Replace the critic of an objective or divergence by a small one."""
    if not getattr(spec, "critics", None):
        return spec
    if hasattr(spec, "critic"):
        return dataclasses.replace(spec, critic=CRITIC)
    return dataclasses.replace(spec, divergence=with_small_critic(spec.divergence))


def test_every_cell_of_the_methods_page_trains():
    """With default objectives, divergences and blocks; only critics are smaller."""
    for objective, latent in everything():
        lanes = lanes_of([small_run(objective=objective, latent=latent).resolve(DATASET)])
        values = advance(lanes, 1)
        assert all(value.isfinite().all() for value in values.values()), (objective, latent)
        assert lanes.state.finite() == [True]


def test_pseudo_inputs_do_not_change_running_statistics():
    """They are encoded with the running statistics, as in a trained model."""
    run = small_run(latent=uw.VampPrior(3, components=4), network=NORMALISED)
    nets = run.build((1, 16, 16))
    nets.model(DATASET.images(torch.arange(32)), Noise(0))
    before = {name: value.clone() for name, value in nets.named_buffers()}
    p = nets.model.p()
    assert all(torch.equal(value, before[name]) for name, value in nets.named_buffers())
    torch.testing.assert_close(p.mean, nets.eval().model.p().mean)
    assert all(module.training for module in nets.train().modules())


PARTS = [
    *({"likelihood": likelihood} for likelihood in LIKELIHOODS),
    *({"objective": objective, "network": NORMALISED} for objective in OBJECTIVES),
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda p: "-".join(str(v.kind) for v in p.values()))
def test_lanes_resume_bit_for_bit(parts):
    runs = [small_run(**parts, seed=seed) for seed in (0, 1)]
    whole = lanes_of(runs)
    advance(whole, 2)
    saved = [{n: t.clone() for n, t in whole.state.lane(lane).items()} for lane in range(2)]
    advance(whole, 1)
    resumed = lanes_of(runs)
    resumed.restore(saved, 2)
    advance(resumed, 1)
    for lane in range(2):
        for name, value in whole.state.lane(lane).items():
            assert torch.equal(value, resumed.state.lane(lane)[name]), name


def test_an_update_changes_only_its_player():
    lanes = lanes_of([small_run(objective=uw.FactorVAE(gamma=5.0, critic=CRITIC))])
    lanes.prepare()
    before = {n: v.clone() for n, v in lanes.state.parameters.items()}
    run_update(lanes, 0, {})
    for name, value in lanes.state.parameters.items():
        assert torch.equal(before[name], value) == (lanes.nets.player_of(name) == "critic"), name


def test_running_statistics_change_only_in_updates_of_their_player():
    """The model's follow its own batch, as torch's do, and stay the same in the critic's update."""
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    lanes = lanes_of([small_run(objective=objective, network=NORMALISED, seed=s) for s in (0, 1)])
    lanes.prepare()
    name = "model.encoder.1.running_mean"
    kernel = lanes.state.parameters["model.encoder.0.weight"].clone()
    x = lanes.dataset.images(batch_rows(lanes, 0, 0))
    _, _, carry = run_update(lanes, 0, {})
    for lane in range(2):
        convolved = torch.nn.functional.conv2d(x[lane], kernel[lane], stride=2, padding=1)
        mean = 0.1 * convolved.mean((0, 2, 3))
        torch.testing.assert_close(lanes.state.buffers[name][lane], mean, rtol=1e-4, atol=1e-6)
    before = {n: v.clone() for n, v in lanes.state.buffers.items()}
    run_update(lanes, 1, carry)
    assert all(torch.equal(before[n], v) for n, v in lanes.state.buffers.items())


def test_only_running_statistics_are_buffers():
    assert not lanes_of([small_run()]).state.buffers
    kinds = {n.rsplit(".", 1)[1] for n in lanes_of([small_run(network=NORMALISED)]).state.buffers}
    assert kinds == {"running_mean", "running_var"}


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_one_number_that_is_not_finite_is_found_in_its_lane(value):
    """In every tensor of the state, one at a time; large numbers whose sum overflows are finite."""
    lanes = lanes_of([small_run(network=NORMALISED, seed=seed) for seed in range(3)])
    for name, tensor in lanes.state.lane(1).items():
        before = tensor.clone()
        tensor.fill_(3e38)
        assert lanes.state.finite() == [True, True, True], name
        tensor[(-1,) * tensor.dim()] = value
        assert lanes.state.finite() == [True, False, True], name
        tensor.copy_(before)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_every_likelihood_trains(likelihood, tmp_path):
    """The distortion falls, a shared scale is learned, and the store has all weights."""
    runs = [small_run(likelihood=likelihood, steps=20, seed=seed) for seed in (0, 1)]
    for outcome in train(runs, DATASET, Store(tmp_path)):
        assert outcome.log[-1]["distortion"] < outcome.log[0]["distortion"]
        assert all(v != 0 for n, v in outcome.weights.items() if n.startswith("model.head."))
        kept = recall(Store(tmp_path).folder(outcome.run), outcome.run)
        assert all(torch.equal(v, kept.weights[n]) for n, v in outcome.weights.items())


def test_the_critic_sees_codes_from_before_and_after_the_models_update():
    """Algorithm 2 of Kim & Mnih: z is drawn before the model's update, z' after it."""
    seen = []
    lanes = lanes_of([small_run(objective=uw.FactorVAE(gamma=5.0, critic=CRITIC))])
    hook = lanes.nets.critics["critic"].register_forward_pre_hook(
        lambda module, args: seen.append(args[0].detach().clone())
    )
    before = {n: v[0].clone() for n, v in lanes.state.parameters.items()}
    lanes.advance()
    hook.remove()
    of_model, both = seen
    joint, permuted = both.chunk(2)
    assert torch.equal(of_model, joint)
    after = {n: v[0] for n, v in lanes.state.parameters.items()}
    x = lanes.dataset.images(batch_rows(lanes, 0, 1))[0]
    noise = uw.Noise(lanes.seeds[0], 0, "turn1")

    def codes(parameters):
        def sample(nets):
            return nets.model.encode(x).rsample(noise.fold("posterior"))

        return torch.func.functional_call(lanes.nets, parameters, (sample,)).sort(0).values

    torch.testing.assert_close(permuted.sort(0).values, codes(after))
    assert (permuted.sort(0).values - codes(before)).abs().max() > 1e-5


def test_a_schedule_is_followed_step_by_step():
    """A lane with a schedule equals one whose weight is set manually at every step."""
    scheduled = lanes_of([small_run(objective=uw.BetaVAE(beta=uw.Linear(0.0, 4.0, steps=8)))])
    advance(scheduled, 8)
    manual = lanes_of([small_run(objective=uw.BetaVAE(beta=0.0))])
    for step in range(8):
        manual.prepare()
        manual.weights.values.fill_(0.5 * step)
        manual.advance()
    for name, value in scheduled.state.parameters.items():
        assert torch.equal(value, manual.state.parameters[name])


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_equals_torchs(amsgrad):
    """Also for convolution kernels with channels innermost, which fused Adam misreads."""
    run = small_run(network=NETWORKS[1], optimiser=Adam(lr=1e-2, amsgrad=amsgrad))
    lanes = lanes_of([run])
    parameters = {n: v[0].clone().requires_grad_() for n, v in lanes.state.parameters.items()}
    optimiser = torch.optim.Adam(parameters.values(), lr=1e-2, amsgrad=amsgrad, foreach=False)
    for step in range(5):
        lanes.prepare()
        x = lanes.dataset.images(batch_rows(lanes, step, 0))[0]
        weights, _ = lanes.read(lanes.clock, lanes.weights.values, lanes.sampler.orders)
        batch = {"x": x, "seed": lanes.seeds[0], "step": lanes.clock[0]}
        own = {name: weight[0] for name, weight in weights.items()}
        loss, *_ = lanes.loss_function(0)(parameters, {}, own, batch, {})
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        lanes.advance()
    for name, value in parameters.items():
        torch.testing.assert_close(
            lanes.state.parameters[name][0], value.detach(), rtol=1e-4, atol=1e-5
        )


def test_every_epoch_sees_every_observation_once():
    def indices(sampler, step, turn=0):
        sampler.seek(step)
        return sampler.indices(torch.tensor(step), sampler.orders)[turn]

    dataset = from_array(torch.zeros(100, 2))[1]
    sampler = Sampler(torch.tensor([0, 1]), dataset, 10, updates=2)
    for epoch in range(3):
        seen = torch.cat([indices(sampler, 10 * epoch + i) for i in range(10)], 1)
        assert torch.equal(seen.sort(1).values, torch.arange(100).expand(2, 100))
    assert not torch.equal(indices(sampler, 0), indices(sampler, 10))
    assert not torch.equal(indices(sampler, 0), indices(sampler, 0, turn=1))
    alone = Sampler(torch.tensor([1]), dataset, 10, updates=2)
    assert torch.equal(indices(alone, 5, turn=1), indices(sampler, 5, turn=1)[1:])
    assert [sampler.steps_left(step) for step in (0, 7, 9, 10)] == [10, 3, 1, 10]


def test_a_lane_that_fails_does_not_affect_the_others(tmp_path):
    """One lane has an enormous weight; the other ends like a single run."""
    good = small_run(objective=uw.BetaVAE(beta=1.0), steps=20)
    bad = small_run(objective=uw.BetaVAE(beta=1e39), steps=20)
    store = Store(tmp_path)
    first, second = train([bad, good], DATASET, store, checkpoint_seconds=0)
    assert second.failure is None
    assert first.failure is not None
    assert first.failure == {"step": 0, "term": "rate"}
    assert store.folder(bad).status == "failed"
    assert store.folder(good).status == "finished"
    (alone,) = train([good], DATASET)
    for name, value in alone.weights.items():
        torch.testing.assert_close(second.weights[name], value, rtol=1e-3, atol=2e-5)
    again = train([bad], DATASET, store)
    assert again[0].failure == first.failure


def test_the_last_good_checkpoint_of_a_failed_lane_is_kept(tmp_path, monkeypatch):
    """A weight becomes NaN at step 8 of 20: the term is named, and checkpoint 8 is kept."""
    runs, store = [small_run(steps=20, seed=seed) for seed in (0, 1)], Store(tmp_path)
    healthy = Engine.step

    def poisoned(engine):
        lanes = engine.lanes
        if lanes.step == 8:
            lanes.state.parameters["model.decoder.0.weight"][0, 0, 0] = torch.nan
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", poisoned)
    broken, other = train(runs, DATASET, store, checkpoint_seconds=0)
    assert broken.failure == {"step": 8, "term": "distortion"}
    assert [row["step"] for row in broken.log] == list(range(1, 9))
    assert other.failure is None
    folder = store.folder(runs[0])
    assert list(folder.states) == [8]
    assert all(tensor.isfinite().all() for tensor in folder.read_state(8).values())
    assert len(store.folder(runs[1]).read_log()) == 20


def interrupt(monkeypatch, at_step):
    healthy = Engine.step

    def interrupted(engine):
        if engine.lanes.step == at_step:
            raise KeyboardInterrupt
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", interrupted)


def test_normalised_lanes_resume_from_their_folders(tmp_path, monkeypatch):
    """With their running statistics, which an unfinished run can be loaded with."""
    runs = [small_run(network=NORMALISED, steps=12, seed=seed) for seed in (0, 1)]
    whole, store = train(runs, DATASET), Store(tmp_path)
    with monkeypatch.context() as patch:
        interrupt(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            train(runs, DATASET, store, checkpoint_seconds=0)
    unfinished = recall(store.folder(runs[0]), runs[0])
    assert unfinished.weights.keys() == whole[0].weights.keys()
    assert "model.encoder.1.running_var" in unfinished.weights
    resumed = train(runs, DATASET, store)
    for one, two in zip(whole, resumed, strict=True):
        assert all(torch.equal(value, two.weights[name]) for name, value in one.weights.items())


def test_the_same_run_given_twice_is_trained_once(tmp_path):
    run = small_run(steps=5)
    one, two = train([run, run], DATASET, Store(tmp_path))
    assert one is two
    written = Store(tmp_path).folder(run).weights.stat().st_mtime_ns
    train([run, run], DATASET, Store(tmp_path))
    assert Store(tmp_path).folder(run).weights.stat().st_mtime_ns == written


def test_runs_share_lanes_only_if_they_differ_in_seed_and_weights():
    base = small_run()
    assert base.lane_key == small_run(seed=5).lane_key
    assert base.lane_key == small_run(objective=uw.BetaVAE(beta=9.0)).lane_key
    assert base.lane_key == small_run(objective=uw.BetaVAE(beta=uw.Linear())).lane_key
    for other in ({"latent": uw.Gaussian(4)}, {"batch_size": 8}, {"steps": 9},
                  {"objective": uw.VAE()}, {"optimiser": Adam(lr=1e-5)}):  # fmt: skip
        assert base.lane_key != small_run(**other).lane_key


# Every objective, every latent space and every network on the device.
ON_CUDA = [
    *({"objective": o, "network": network} for o in OBJECTIVES for network in NETWORKS[:2]),
    *({"objective": o, "network": NORMALISED} for o in SHAPES),
    *({"latent": latent} for latent in LATENTS),
    *({"latent": latent, "objective": uw.HFVAE()} for latent in (NESTED, MIXED)),
    *({"objective": o, "network": None} for o in ADVERSARIAL),
]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "parts", ON_CUDA, ids=lambda p: "-".join(getattr(v, "kind", "own") for v in p.values())
)
def test_cuda_resumes_bit_for_bit_and_agrees_with_the_cpu(parts, tmp_path, monkeypatch):
    cuda = torch.device("cuda")
    runs = [small_run(**parts, steps=20, seed=seed) for seed in (0, 1)]
    whole = train(runs, SMALL.load(cuda))
    interrupt(monkeypatch, at_step=12)
    with pytest.raises(KeyboardInterrupt):
        train(runs, SMALL.load(cuda), Store(tmp_path), checkpoint_seconds=0)
    monkeypatch.undo()
    resumed = train(runs, SMALL.load(cuda), Store(tmp_path))
    here = train(runs, DATASET)
    # Normalisation divides rounding errors by small standard deviations.
    plain = parts.get("network", NETWORKS[0]) in NETWORKS[:2]
    for one, two, cpu in zip(whole, resumed, here, strict=True):
        assert one.failure is None
        for name, value in one.weights.items():
            assert torch.equal(value, two.weights[name])
            if plain:
                torch.testing.assert_close(value.cpu(), cpu.weights[name], rtol=1e-2, atol=1e-3)
        for name, value in one.log[0].items():
            assert value == pytest.approx(cpu.log[0][name], rel=1e-3, abs=1e-3), name
