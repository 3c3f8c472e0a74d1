"""The papers' experiments by name: what they state, and that all of it can be trained."""

import dataclasses
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave as uw
from test_cli import check_error
from unweave.core.bibliography import cited, entries
from unweave.core.spec import from_json, to_json
from unweave.data import PublishedSpec, Shapes2D, from_array
from unweave.presets import PRESETS, base_of, presets_of
from unweave.presets.text import to_toml
from unweave.training.run import Run
from unweave.training.store import Store

ALL = [pytest.param(each, id=each.name) for each in PRESETS.values()]

# What the papers state, written down from their texts: latent size, batch, steps, learning rate and
# betas of Adam, and fields by their paths.
KIM = (64, 300_000, 1e-4, (0.9, 0.999))
KIM_GAN = (1e-3, (0.5, 0.999))
SHAPES2D_EPOCH = 737_280
STATED = {
    "kim2018/shapes2d-beta-vae": (10, *KIM, {"objective.beta": 4, "network.hidden": 128}),
    "kim2018/shapes2d-factor-vae": (10, *KIM, {
        "objective.gamma": 35, "objective.critic.width": 1000, "objective.critic.depth": 6,
        "objective.critic.optimiser.lr": 1e-4, "objective.critic.optimiser.betas": (0.5, 0.9),
    }),
    "kim2018/shapes3d-beta-vae": (6, 64, 500_000, 1e-4, (0.9, 0.999), {"network.hidden": 256}),
    "kim2018/shapes3d-factor-vae": (6, 64, 500_000, 1e-4, (0.9, 0.999), {
        "objective.gamma": 7, "objective.critic.optimiser.lr": 1e-5,
    }),
    "kim2018/chairs-factor-vae": (10, 64, 1_000_000, 1e-4, (0.9, 0.999), {
        "objective.critic.optimiser.lr": 1e-5, "network.hidden": 256,
    }),
    "kim2018/faces-factor-vae": (10, 64, 1_000_000, 1e-4, (0.9, 0.999), {
        "objective.critic.optimiser.lr": 1e-4, "network.hidden": 256,
    }),
    "kim2018/celeba-factor-vae": (10, 64, 1_000_000, 1e-4, (0.9, 0.999), {
        "objective.critic.optimiser.lr": 1e-5, "network.hidden": 256,
    }),
    "kim2018/shapes2d-aae": (10, *KIM, {"objective.divergence.critic.depth": 6}),
    "kim2018/shapes2d-factor-vae-prior": (10, *KIM, {"objective.beta": 1}),
    "kim2018/shapes2d-info-wgan-gp": (7, 64, 300_000, *KIM_GAN, {
        "objective.noise_size": 5, "objective.penalty": 10, "objective.network.table": 5,
        "objective.critic_optimiser.lr": 1e-4, "objective.critic_optimiser.betas": (0.5, 0.999),
        "objective.information": 0.2, "objective.network.norm": "layer",
    }),
    "kim2018/shapes2d-info-wgan-gp-large": (7, 64, 300_000, *KIM_GAN, {
        "objective.noise_size": 128, "objective.network.table": 6, "objective.information": 0.6,
    }),
    "kim2018/mnist-info-gan": (12, 128, 25_000, *KIM_GAN, {
        "objective.noise_size": 62, "objective.network.table": 4, "objective.network.norm": "batch",
        "objective.information": 1,
    }),
    "mathieu2019/shapes2d-learned": (10, 64, 20 * SHAPES2D_EPOCH / 64, 1e-4, (0.9, 0.999), {
        "latent.variances": "pca", "latent.learn": "variances", "optimiser.amsgrad": True,
    }),
    "mathieu2019/shapes2d-student-t": (10, 256, 40 * SHAPES2D_EPOCH / 256, 1e-4, (0.9, 0.999), {
        "objective.beta": 1, "network.third": 64,
    }),
    "mathieu2018/shapes2d-pca": (10, 64, 20 * SHAPES2D_EPOCH / 64, 1e-4, (0.9, 0.999), {
        "network.third": 32,
    }),
    "mathieu2019/pinwheel-alpha": (2, 400, 500, 1e-3, (0.9, 0.999), {
        "objective.beta": 0, "network.hidden": (100,), "data.rate": 0.25, "data.radial_std": 0.1,
        "data.tangential_std": 0.3, "objective.divergence.kind": "inclusive-kl",
    }),
    "mathieu2019/celeba-sparse": (50, 256, 60 * 162_770 // 256, 2e-4, (0.5, 0.999), {
        "latent.spike_weight": 0.9, "latent.spike_scale": 0.05, "data.split": "train",
    }),
    "mathieu2019/fashion-mnist-sparse": (50, 500, 80 * 60_000 / 500, 5e-4, (0.9, 0.999), {
        "latent.spike_weight": 0.8, "data.side": 32, "likelihood.scale": 0.1,
        "objective.alpha": 100,
        "network.first_norm": False, "objective.divergence.kernel": "imq-dimensionwise",
    }),
    "sikka2019/mixed-digits": (10, 100, 1000 * 1000 / 100, 1e-3, (0.9, 0.999), {
        "network.hidden": (256, 200, 200), "network.activation": "tanh", "data.noise": 1,
    }),
    "sikka2019/moving-digit": (2, 100, 1000 * 1000 / 100, 1e-3, (0.9, 0.999), {
        "data.observations": 1000,
    }),
    "esmaeili2019/shapes2d-hfvae": (13, 512, 30_000, 1e-3, (0.9, 0.999), {
        "objective.beta": 4, "objective.gamma": 3, "network.table": 4,
    }),
    "esmaeili2019/shapes2d-beta-tcvae": (10, 512, 30_000, 1e-3, (0.9, 0.999), {
        "objective.beta": 4, "objective.alpha": 1, "objective.gamma": 1,
    }),
    "esmaeili2019/mnist-hfvae": (20, 512, 200 * 60_000 // 512, 1e-3, (0.9, 0.999), {
        "network.table": 3,
    }),
    "esmaeili2019/celeba-hfvae": (22, 1024, 200 * 202_599 // 1024, 1e-3, (0.9, 0.999), {
        "objective.beta": 5, "objective.gamma": 3, "network.table": 5,
    }),
    "esmaeili2019/celeba-beta-vae": (20, 1024, 200 * 202_599 // 1024, 1e-3, (0.9, 0.999), {
        "objective.beta": 8,
    }),
}  # fmt: skip
GRIDS = {
    "kim2018/shapes2d-beta-vae": {"objective.beta": (1, 4, 6, 10), "seed": 10},
    "kim2018/shapes2d-factor-vae": {"objective.gamma": (10, 20, 30, 35, 40, 100), "seed": 10},
    "kim2018/shapes2d-batch-estimate": {"objective.beta": (1, 5, 9)},
    "kim2018/shapes2d-info-wgan-gp": {
        "objective.information": (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1), "seed": 10,
    },
    "kim2018/mnist-info-gan-categories": {"latent.category.size": (2, 20)},
    "mathieu2018/pinwheel-beta": {"objective.beta": (0.01, 0.3, 0.5, 1.0, 1.2)},
    "mathieu2018/pinwheel-alpha": {"objective.alpha": (1, 2, 3, 5, 8)},
}  # fmt: skip


def at(value, path):
    """Return the value at a dotted path of a spec."""
    for name in path.split("."):
        value = value.blocks[name] if isinstance(value, uw.Product) else getattr(value, name)
    return value


def shape_of(data):
    """Return the shape of observations without reading files."""
    if isinstance(data, PublishedSpec):
        channels, *sides = data.ABOUT.shape
        side = getattr(data, "side", sides[0])
        return (channels, side, side)
    if data.kind == "selected":
        return shape_of(data.source)
    if data.kind == "mixing":
        return (1, 28, 28) if data.columns else (len(data.matrix),)
    if data.kind == "moving-digit":
        return (1, data.side, data.side)
    return data.load(torch.device("cpu")).shape


def stand_in(data, count):
    """Return random observations of the shape of some data."""
    shape = (count, *shape_of(data))
    rng = np.random.default_rng(0)
    if len(shape) == 2:
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(0, 256, shape, dtype=np.uint8)


class TestEveryPreset:
    @pytest.mark.parametrize("preset", ALL)
    def test_resolves_on_data_of_its_shape_and_builds_its_networks(self, preset):
        spec, dataset = from_array(stand_in(preset.run.data, 64))
        run = dataclasses.replace(preset.run, data=spec, batch_size=min(preset.run.batch_size, 64))
        resolved = run.resolve(dataset)  # builds networks on the meta device
        assert resolved.network == preset.run.network
        assert resolved.likelihood == preset.run.likelihood

    @pytest.mark.parametrize("preset", ALL)
    def test_states_network_likelihood_and_seed(self, preset):
        run = preset.run
        assert run.likelihood is not None
        assert (run.network is not None) == run.objective.autoencodes
        assert run.seed == 0

    @pytest.mark.parametrize("preset", ALL)
    def test_grid_has_valid_fields_and_contains_the_base_run(self, preset):
        runs = preset.runs()
        assert len(runs) == preset.count
        assert len({to_text(run) for run in runs}) == len(runs)
        assert preset.run in runs
        if "seed" in preset.grid:
            seeds = [run.seed for run in runs[: len(preset.grid["seed"])]]
            assert seeds == list(preset.grid["seed"]), "seeds do not vary fastest"

    @pytest.mark.parametrize("preset", ALL)
    def test_toml_is_read_back_as_the_same_run(self, preset, tmp_path):
        text = to_toml(preset)
        assert from_json(Run, tomllib.loads(text)) == preset.run
        path = tmp_path / "run.toml"
        path.write_text(text)
        assert from_json(Run, base_of(str(path))) == preset.run
        assert f"unweave train --from {preset.name}\n" in text
        words = " ".join(text.replace("#", "").split())
        assert all(" ".join(note.split()) in words for note in preset.notes)
        assert ("unweave data get" in words) == (preset.download is not None)

    @pytest.mark.parametrize("preset", ALL)
    def test_source_cites_its_paper(self, preset):
        assert cited(preset.source) == [preset.paper.capitalize()]
        assert set(cited(" ".join(preset.notes))) <= set(entries())
        assert all(note.endswith(".") for note in preset.notes)


def to_text(run):
    return repr(to_json(run))


@pytest.mark.parametrize("name", STATED)
def test_settings_are_those_of_the_paper(name):
    size, batch_size, steps, lr, betas, fields = STATED[name]
    run = uw.preset(name).run
    assert run.latent.size == size
    assert (run.batch_size, run.steps) == (batch_size, steps)
    assert (run.optimiser.lr, run.optimiser.betas) == (lr, betas)
    assert {path: at(run, path) for path in fields} == fields


@pytest.mark.parametrize("name", GRIDS)
def test_grids_are_those_of_the_paper(name):
    grid = uw.preset(name).grid
    assert list(grid) == list(GRIDS[name])
    for path, values in GRIDS[name].items():
        assert grid[path] == (tuple(range(values)) if path == "seed" else values)


def test_one_hundred_networks_for_each_point_of_mathieu_figure_2():
    for prior in ("isotropic", "pca", "learned", "student-t"):
        assert len(uw.preset(f"mathieu2019/shapes2d-{prior}").grid["seed"]) == 100


def test_assignments_replace_the_values_of_the_grid():
    kim = uw.preset("kim2018/shapes2d-factor-vae")
    runs = kim.runs(["seed=0..1", "objective.gamma=35", "steps=7"])
    assert [(run.seed, run.objective.gamma, run.steps) for run in runs] == [(0, 35, 7), (1, 35, 7)]
    assert {run.objective.kind for run in kim.runs(["objective=vae"])} == {"vae"}
    assert len(kim.runs(["objective=vae"])) == 10
    with pytest.raises(ValueError, match="did you mean 'gamma'"):
        kim.runs(["objective.gama=3"])


def test_listing_by_paper(unweave):
    code, out, _ = unweave("presets")
    assert code == 0
    assert all(name in out for name in PRESETS)
    code, out, _ = unweave("presets", "sikka2019")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if "/" in line] == [
        each.name for each in presets_of("sikka2019")
    ]


def test_a_preset_is_printed_as_toml(unweave):
    code, out, _ = unweave("presets", "kim2018/shapes2d-factor-vae")
    assert code == 0
    assert from_json(Run, tomllib.loads(out)) == uw.preset("kim2018/shapes2d-factor-vae").run
    assert "#   60 runs: objective.gamma=10,20,30,35,40,100 seed=0..9\n" in out


WRONG = {
    "a preset to show": (["presets", "kim2018/shapes2d-factorvae"],
                         "did you mean 'kim2018/shapes2d-factor-vae'?"),
    "a paper": (["presets", "kim2081"], "did you mean 'kim2018'?"),
    "a preset to train": (["train", "--from", "kim2018/shape2d-beta-vae", "steps=1"],
                          "did you mean 'kim2018/shapes2d-beta-vae'?"),
    "a grid of nothing": (["train", "--grid"], "--grid needs a preset"),
    "a field": (["train", "--from", "sikka2019/linear", "objective.betta=1"],
                "did you mean 'beta'?"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_unknown_names_suggest_the_nearest(unweave, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = WRONG[case]
    check_error(*unweave(*arguments), message)
    assert not list(tmp_path.iterdir())


def test_a_file_takes_precedence_over_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sikka2019").mkdir()
    (tmp_path / "sikka2019" / "linear").write_text('{"seed": 5}')
    assert base_of("sikka2019/linear")["seed"] == 5
    assert base_of("sikka2019/moving-digit") == to_json(uw.preset("sikka2019/moving-digit").run)


SMALL_SHAPES = ("data.scales=1", "data.orientations=3", "data.positions=4")
TRAINED = {
    "kim2018/shapes2d-factor-vae": (*SMALL_SHAPES, "batch_size=4", "objective.critic.width=8"),
    "mathieu2019/shapes2d-pca": (*SMALL_SHAPES, "batch_size=4"),
    "mathieu2018/pinwheel-alpha": (),
    "sikka2019/linear": (),
    "esmaeili2019/mnist-hfvae": ("data=images.npy", "batch_size=4"),
}


@pytest.mark.parametrize("name", TRAINED)
def test_train_from_a_preset(unweave, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("images.npy", stand_in(uw.preset("esmaeili2019/mnist-hfvae").run.data, 8))
    code, _, err = unweave("train", "--from", name, "steps=2", *TRAINED[name])
    assert code == 0, err
    (folder,) = Store(tmp_path / "runs").folders()
    run, base = folder.read_run(), uw.preset(name).run
    assert folder.status == "finished"
    assert (run.steps, run.seed) == (2, 0)
    assert run.network == base.network
    assert run.optimiser == base.optimiser
    assert type(run.objective) is type(base.objective)


def test_train_a_grid(unweave, tmp_path):
    name = "mathieu2018/pinwheel-beta"
    code, _, err = unweave(
        "train", "--from", name, "--grid", "steps=1", "seed=0..1", "--store", tmp_path
    )
    assert code == 0, err
    runs = [folder.read_run() for folder in Store(tmp_path).folders()]
    found = {(run.objective.beta, run.seed) for run in runs}
    assert found == {(beta, seed) for beta in (0.01, 0.3, 0.5, 1.0, 1.2) for seed in (0, 1)}
    assert len(runs) == 10


CHOICES = (Path(__file__).parent.parent / "docs/papers/choices.md").read_text()
PARTS = "data|latent|network|likelihood|objective|optimiser"
ASSIGNED = re.compile(rf"(?<![\w/])((?:{PARTS})\.[\w.]*\w)(=[\w.-]*\w)?")


def takes(preset, path, value):
    """Whether the run of a preset has a field, and takes the value that a text gives it."""
    try:
        at(preset.run, path)
        preset.runs([f"{path}{value}", "seed=0"] if value else ["seed=0"])
    except (AttributeError, KeyError, ValueError):
        return False
    return True


@pytest.mark.parametrize("preset", ALL)
def test_fields_named_in_notes_exist(preset):
    for path, value in ASSIGNED.findall(" ".join(preset.notes)):
        assert takes(preset, path, value), path


def test_fields_named_on_the_page_of_choices_exist():
    found = set(ASSIGNED.findall(" ".join(re.findall(r"`[^`]+`", CHOICES))))
    assert found
    for path, value in found:
        assert any(takes(preset, path, value) for preset in PRESETS.values()), f"{path}{value}"


def test_presets_named_on_the_page_of_choices_exist():
    papers = {each.paper for each in PRESETS.values()}
    named = {
        name for name in re.findall(r"`(\w+/[\w-]+)`", CHOICES) if name.split("/")[0] in papers
    }
    assert named <= set(PRESETS)
    assert papers <= {name.split("/")[0] for name in named} | {"mathieu2018"}


def test_defaults_stated_on_the_page_of_choices_are_right():
    assert uw.Sparse().spike_weight == 0.8
    assert uw.Critic() == uw.Critic(width=1000, depth=6, slope=0.2)
    assert uw.Kim2018GAN().slope == 0.1
    assert uw.InfoWGANGP().critic_steps == 1
    assert uw.Categorical().temperature == uw.Bernoulli().temperature == 0.66
    assert set(uw.GaussianMixture().centres) == {(0, -1), (0, 1), (1, 0), (-1, 0)}
    assert uw.presets.PRESETS["kim2018/celeba-beta-vae"].run.data.crop == 148
    for name in ("mathieu2019/shapes2d-student-t", "mathieu2019/celeba-sparse"):
        assert uw.preset(name).run.latent.sampled_rate


def test_rendered_data_cover_the_published_lattice():
    data = uw.preset("kim2018/shapes2d-factor-vae").run.data
    assert data == Shapes2D()
    assert data.lattice.size == SHAPES2D_EPOCH
    assert uw.preset("kim2018/shapes3d-factor-vae").run.data.lattice.size == 480_000
