"""Users' own data: settings that suit it, a split that is held out, and warnings that matter."""

import dataclasses
import gc
import shlex
import weakref

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from datasets import CPU
from unweave import likelihoods
from unweave.data import ArrayDataset, HeldOut, InMemory, Schema, Selected, Subset, from_array
from unweave.data.files.build import take_split
from unweave.data.scaling import Scaling
from unweave.data.splits import with_split
from unweave.evaluation.collapse import advice, collapse_warning
from unweave.evaluation.fit import train_runs
from unweave.evaluation.monitor import monitor_of
from unweave.evaluation.unfinished import unfinished
from unweave.evaluation.validation import Validation
from unweave.training import train
from unweave.training.final_terms import end_of, ends_collapsed
from unweave.training.overrides import (
    data_text,
    longer_arguments,
    runs_from,
    train_arguments,
)
from unweave.training.own_data import Datasets, suggest, suggested_steps
from unweave.training.own_data_settings import settings_lines
from unweave.training.run import Run

RNG = np.random.default_rng(0)
CODES = RNG.normal(size=(120, 2))
VECTORS = (CODES @ RNG.normal(size=(2, 6)) + 0.1 * RNG.normal(size=(120, 6))).astype(np.float32)
IMAGES = RNG.integers(0, 256, (120, 12, 12), dtype=np.uint8)
COUNTS = RNG.poisson(np.exp(CODES @ RNG.normal(size=(2, 6))) * 5).astype(np.float32)
SMALL = dict(network=uw.MLP((8,)), latent=uw.Gaussian(2), steps=6)


def counts_dataset(values=COUNTS):
    schema = Schema(len(values), values.shape[1:], scaling=Scaling("counts"))
    return ArrayDataset(schema, torch.from_numpy(values), torch.zeros(len(values), 0).long())


@pytest.fixture
def files(tmp_path):
    """A file of vectors, a file of images and a folder of images."""
    np.save(tmp_path / "vectors.npy", VECTORS)
    np.save(tmp_path / "images.npy", IMAGES)
    (tmp_path / "photos").mkdir()
    for number, image in enumerate(IMAGES[:60]):
        Image.fromarray(image).save(tmp_path / "photos" / f"{number:02}.png")
    return tmp_path


@pytest.mark.parametrize("name", ["vectors.npy", "images.npy", "photos"])
def test_fit_and_the_command_line_choose_the_same_run(files, name):
    path = files / name
    model = uw.fit(path, steps=4, latent=uw.Gaussian(3), progress=False)
    datasets = Datasets(CPU)
    (run,) = runs_from([f"data={path}", "steps=4", "latent.size=3"], datasets=datasets)
    dataset = datasets.load(run.data)
    assert run.resolve(dataset).digest == model.run.digest
    assert model.run.data.split == model.split == "train"
    assert model.dataset.size == dataset.size == (48 if name == "photos" else 96)
    assert model.run.optimiser.lr == 1e-3
    arguments = shlex.split(" ".join(train_arguments(model.run, dataset)))
    (again,) = runs_from(arguments, datasets=datasets)
    assert again.resolve(dataset) == model.run


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["data.split=all"],
        ["objective.beta=2"],
        ["objective.beta.stop=2"],
        ["objective=factor-vae", "optimiser.lr=1e-4"],
        ["likelihood.learn=each", "steps=700"],
        ["likelihood=laplace", "batch_size=8"],
        ["likelihood.scale=0.5", "network.activation=tanh"],
        ["network=mlp", "seed=3", "optimiser.betas=[0.5,0.9]"],
    ],
    ids=" ".join,
)
def test_the_printed_command_reproduces_a_run_on_own_data(files, changes):
    datasets = Datasets(CPU)
    (run,) = runs_from([f"data={files / 'vectors.npy'}", *changes], datasets=datasets)
    dataset = datasets.load(run.data)
    run = run.resolve(dataset)
    arguments = shlex.split(" ".join(train_arguments(run, dataset)))
    assert [again.resolve(dataset) for again in runs_from(arguments, datasets=datasets)] == [run]


@pytest.mark.parametrize("steps", [2, 301, 1000])
@pytest.mark.parametrize("changes", [[], ["objective.beta.stop=2"], ["objective=factor-vae"]])
def test_arguments_for_more_steps_change_nothing_else(files, changes, steps):
    """The chosen warm-up is half of few steps, so with more steps it used to change."""
    datasets = Datasets(CPU)
    given = [f"data={files / 'vectors.npy'}", *changes]
    (run,) = runs_from([*given, f"steps={steps}"], datasets=datasets)
    dataset = datasets.load(run.data)
    run = run.resolve(dataset)
    arguments = longer_arguments(run, dataset, 2 * steps)
    (longer,) = runs_from([*given, *arguments], datasets=datasets)
    assert longer.resolve(dataset) == dataclasses.replace(run, steps=2 * steps)
    depends = steps // 2 < suggested_steps(dataset) // 5  # the warm-up is half of the steps
    warm_up = [f"objective.beta.steps={steps // 2}"] * (
        depends and run.objective.kind == "beta-vae"
    )
    assert arguments == [f"steps={2 * steps}", *warm_up]


def test_names_of_columns_are_written_without_quotes(tmp_path):
    (tmp_path / "a.csv").write_text("dose,group,x,y\n" + "1,a,0.5,2\n2,b,1.5,3\n" * 9)
    arguments = [f"data={tmp_path / 'a.csv'}", "data.factors_key=dose,group", "data.split=all"]
    (run,) = runs_from(arguments, datasets=Datasets(CPU))
    assert data_text(run.data).endswith("a.csv factors_key=dose,group")
    written = train_arguments(run, Datasets(CPU).load(run.data))
    assert "data.factors_key=dose,group" in " ".join(written).split()
    assert runs_from(shlex.split(" ".join(written)), datasets=Datasets(CPU)) == [run]


def test_only_settings_that_were_not_given_are_chosen(files):
    path, datasets = f"data={files / 'vectors.npy'}", Datasets(CPU)

    def run_of(*assignments, base=None):
        (run,) = runs_from([path, *assignments], base, datasets=datasets)
        return run

    chosen = run_of()
    assert chosen.objective.beta.steps == chosen.steps // 5
    assert run_of("steps=9000").objective == chosen.objective  # the run can be continued
    assert run_of("steps=20").objective.beta.steps == 10
    assert chosen.likelihood == likelihoods.Gaussian(0.3, learn="shared")
    assert run_of("latent.size=1").likelihood.scale > 0.4  # one component leaves more
    assert run_of("likelihood.scale=2").likelihood == likelihoods.Gaussian(2, learn="shared")
    assert run_of("objective.beta=4").objective == uw.BetaVAE(beta=4)
    assert run_of("objective=factor-vae").objective == uw.FactorVAE()
    assert run_of("optimiser.amsgrad=true").optimiser == uw.Adam(lr=1e-3, amsgrad=True)
    assert run_of("optimiser.lr=0.01").optimiser == uw.Adam(lr=0.01)
    assert run_of("data.split=test").data.split == "test"
    stated = run_of(base={"steps": 77, "objective": {"kind": "vae"}})
    assert (stated.steps, stated.objective, stated.optimiser.lr) == (77, uw.VAE(), 1e-3)
    whole = uw.fit(files / "vectors.npy", split="all", progress=False, **SMALL)
    assert (whole.split, whole.measures) == ("all", [])


def test_shipped_data_and_plain_runs_keep_the_defaults_of_the_papers():
    datasets = Datasets(CPU)
    assert runs_from(["seed=3"], datasets=datasets) == [Run(seed=3)]
    data, dataset = from_array(VECTORS)
    assert Run(data=data).resolve(dataset).objective == uw.BetaVAE(beta=4.0)
    blobs = uw.fit(uw.data.Blobs(), steps=2, network=uw.MLP((4,)), progress=False)
    assert blobs.run.optimiser == uw.Adam()
    assert blobs.measures == []


@pytest.mark.parametrize(
    ("dataset", "likelihood"),
    [
        (from_array(VECTORS)[1], likelihoods.Gaussian(0.3, learn="shared")),
        (from_array(IMAGES)[1], likelihoods.Bernoulli()),
        (counts_dataset(), likelihoods.NegativeBinomial()),
    ],
    ids=["real", "images", "counts"],
)
def test_settings_for_every_kind_of_data_train_in_lanes(dataset, likelihood):
    data = InMemory("ab" * 32, (1,), "float32")
    usual = Run(data=data, network=uw.MLP((8,)), latent=uw.Gaussian(2), steps=5)
    chosen = suggest(usual, dataset)
    assert chosen.likelihood == likelihood
    assert chosen.batch_size == 16  # a power of two, at most a quarter of 120
    runs = [Run(**{**vars(chosen), "network": usual.network, "seed": s}) for s in (0, 1)]
    outcomes = train([run.resolve(dataset) for run in runs], dataset)
    assert all(outcome.weights for outcome in outcomes)


def test_the_steps_grow_with_the_data():
    sizes = [10, 400, 2_000, 100_000, 10_000_000]
    steps = [suggested_steps(ArrayDataset(Schema(n, (1,)), torch.zeros(0), torch.zeros(0)))
             for n in sizes]  # fmt: skip
    assert steps == sorted(steps)
    assert steps[0] == 1_000
    assert steps[-1] == 30_000


def test_too_few_observations_are_not_split():
    model = uw.fit(VECTORS[:49], progress=False, **SMALL)
    assert (model.split, model.dataset.size, model.measures) == ("all", 49, [])
    (line,) = [" ".join(settings_lines([model.run], model.dataset)).partition("latent")[0]]
    assert "which are few" in " ".join(line.split())
    assert "which are few" not in " ".join(settings_lines([model.run], uw.data.Blobs().load(CPU)))


# ---- splits of arrays in memory


def test_a_split_of_a_loaded_dataset_is_the_split_that_is_loaded(files):
    for data in (uw.Arrays(files / "vectors.npy"), uw.Folder(files / "photos")):
        whole = data.load(CPU)
        for split in ("train", "validation", "test"):
            taken, loaded = take_split(whole, split), with_split(data, split).load(CPU)
            assert taken.fingerprint == loaded.fingerprint
            assert taken.size == loaded.size
            assert list(taken.row_names) == list(loaded.row_names)
            index = torch.arange(taken.size)
            assert torch.equal(taken.images(index), loaded.images(index))


def test_arrays_in_memory_have_splits():
    data, dataset = from_array(VECTORS, np.arange(120) % 3, scale="none")
    parts = [with_split(data, split).load(CPU) for split in ("train", "validation", "test")]
    rows = torch.cat([part.images(torch.arange(part.size)) for part in parts])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, VECTORS.tolist()))
    train_split = with_split(data, "train")
    del data, dataset  # the split alone keeps the array
    assert train_split.load(CPU).size == 96
    assert uw.data.Selected(train_split, (Subset(10),)).load(CPU).size == 10


def test_a_stored_run_on_an_array_loads_with_the_whole_array(tmp_path):
    model = uw.fit(VECTORS, store=tmp_path, progress=False, **SMALL)
    again = uw.load(model.folder, data=VECTORS)
    assert (again.split, again.dataset.size) == ("train", 96)
    assert np.array_equal(again.encode(VECTORS), model.encode(VECTORS))


def test_the_whole_of_a_file_is_dropped_once_its_splits_are_taken(files):
    path, datasets = files / "vectors.npy", Datasets(CPU)
    (run,) = runs_from([f"data={path}", "steps=4", "network.hidden=[4]"], datasets=datasets)
    whole = weakref.ref(datasets.load(uw.Arrays(path)))
    held_out = datasets.validation(run.data)
    (outcome,) = train_runs([run], datasets)
    assert "validation" in outcome.measures[-1]
    gc.collect()
    assert whole() is None
    assert datasets.validation(run.data) is held_out
    assert datasets.load(run.data).size == 96


# ---- held-out loss


def test_the_held_out_loss_is_measured_and_does_not_change_training():
    data, dataset = from_array(VECTORS, scale="none")
    own, held_out = take_split(dataset, "train"), take_split(dataset, "validation")
    fields = dict(objective=uw.BetaVAE(1.0), batch_size=16, latent=uw.Gaussian(2))
    runs = [
        Run(data=data, steps=30, seed=seed, network=uw.MLP((8,)), **fields).resolve(own)
        for seed in (0, 1)
    ]
    validation = Validation(held_out, own)
    plain = train(runs, own)
    measured = train(runs, own, monitor=monitor_of(None, runs, own, validation))
    for one, other in zip(plain, measured, strict=True):
        assert one.log == other.log
        assert all(torch.equal(v, other.weights[n]) for n, v in one.weights.items())
        last = other.measures[-1]
        assert last["step"] == 30
        model = uw.FittedModel(other, own)
        x = VECTORS[np.sort(torch.arange(120)[_rows("validation")].numpy())]
        y, mean = model.reconstruct(x), VECTORS[_rows("train")].mean(0)
        r2 = 1 - ((x - y) ** 2).sum() / ((x - mean) ** 2).sum()
        assert last["validation"]["r2"] == pytest.approx(r2, abs=1e-4)
        q, p = model.posterior(x), model.prior()
        kl = 0.5 * (q[0] ** 2 + q[1] ** 2 - 1 - 2 * np.log(q[1])).sum(1).mean()
        assert p.mean.abs().max() == 0
        assert last["validation"]["rate"] == pytest.approx(kl, rel=1e-3)


def _rows(split):
    from unweave.data.random_split import split_rows

    return split_rows(split, 120)


def test_validation_is_affordable():
    own, held_out = from_array(np.zeros((4000, 3)))[1], from_array(np.zeros((500, 3)))[1]
    for steps, batch in ((100, 8), (1_000, 64), (30_000, 64)):
        every = Validation(held_out, own).interval(Run(steps=steps, batch_size=batch))
        times = steps // every
        assert 1 <= times <= 25
        assert times == 1 or 2 * times * 500 <= 0.05 * 3 * steps * batch


# ---- what is printed


def test_settings_are_printed_and_fit_into_80_columns(files, capsys):
    uw.fit(files / "vectors.npy", steps=3, objective=uw.FactorVAE())
    shown = capsys.readouterr().err
    lines = settings_lines(
        [uw.fit(files / "vectors.npy", progress=False, **SMALL).run],
        uw.Arrays(files / "vectors.npy", split="train").load(CPU),
    )
    assert all(len(line) < 80 for line in lines)
    assert "12 more are held out for validation" in " ".join(shown.split())
    by_name = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert "factor-vae" in by_name["objective"]
    assert "*" not in by_name["objective"]
    assert "* gaussian, scale learned, from 0.3" in by_name["likelihood"]
    assert "* adam, lr 0.001" in by_name["optimiser"]


def test_a_collapsed_run_is_reported_and_a_good_one_is_not():
    """A rate that costs far too much switches all latent variables off."""
    fields = SMALL | {"steps": 150, "optimiser": uw.Adam(lr=1e-2)}
    with pytest.warns(UserWarning, match=r"all latent variables of run \w+ are off.*smaller obj"):
        bad = uw.fit(VECTORS, objective=uw.BetaVAE(beta=1000.0), progress=False, **fields)
    good = uw.fit(VECTORS, progress=False, **fields)
    assert ends_collapsed(end_of(bad.log))
    assert not ends_collapsed(end_of(good.log))
    assert "warm-up (objective.beta=linear" in collapse_warning(bad.run, bad.dataset)
    assert not ends_collapsed(end_of([]))
    assert not ends_collapsed(end_of([{"step": 3, "loss": 1.0}]))


def test_advice_leaves_out_what_a_run_does_already_and_starts_with_more_steps_if_they_were_few():
    raw = uw.fit(
        from_array(100 * VECTORS, scale="none")[0], progress=False, **SMALL,
        likelihood=uw.likelihoods.Gaussian(), objective=uw.BetaVAE(beta=4.0),
    )  # fmt: skip
    every = ("a warm-up", "a learned scale", "scaled data", "smaller objective.beta (it is 4)")
    assert all(each in advice(raw.run, raw.dataset) for each in every)
    assert advice(raw.run, raw.dataset).startswith("Try more steps (it had ")
    own = uw.fit(VECTORS, progress=False, **SMALL)  # has all of that by default
    assert not any(each in advice(own.run, own.dataset) for each in every[:3])
    long = dataclasses.replace(own.run, steps=30_000)
    assert advice(long, own.dataset).endswith("or more steps (it had 30,000).")
    falling = "Try more steps (it had 30,000; the held-out loss was still falling)"
    random = np.random.default_rng(0)
    judged = []
    for slope in (0.0, 0.01, 1.0) * 10:  # the advice and the note on the run agree
        losses = 9 - slope * np.arange(12) + 0.1 * random.normal(size=12)
        rows = [{"step": 50 * n, "validation": {"distortion": x, "rate": 1.0, "r2": 0.0}}
                for n, x in enumerate(losses, 1)]  # fmt: skip
        judged.append(unfinished(rows) is not None)
        assert advice(long, own.dataset, rows).startswith(falling) == judged[-1]
    assert 0 < sum(judged) < len(judged)


# ---- arguments that are not what they should be


def test_progress_may_be_a_function():
    seen = []
    uw.fit(
        VECTORS, progress=lambda step, rows: seen.append((step, len(rows))), seed=[0, 1], **SMALL
    )
    assert seen[-1] == (6, 2)
    for wrong in ("yes", 3, None, dict):
        with pytest.raises(ValueError, match="expected progress=True, False, a function"):
            uw.fit(VECTORS, progress=wrong, **SMALL)


def test_arguments_that_are_no_data_or_no_objective_say_what_to_pass():
    with pytest.raises(ValueError, match="got the class Shapes2D: create one"):
        uw.fit(uw.Shapes2D, progress=False)
    with pytest.raises(ValueError, match=r"got a loaded dataset.*pass the spec"):
        uw.fit(from_array(VECTORS)[1], progress=False)
    with pytest.raises(ValueError, match=r"objective: .*one objective"):
        uw.fit(VECTORS, objective=[uw.VAE(), uw.BetaVAE()], progress=False)


@pytest.mark.parametrize("likelihood", [likelihoods.Poisson(), likelihoods.NegativeBinomial()])
def test_counts_need_counts(likelihood):
    fields = SMALL | {"likelihood": likelihood}
    counts, _ = from_array(COUNTS, scale="counts")
    assert uw.fit(counts, progress=False, **fields).run.likelihood == likelihood
    assert uw.fit(counts, progress=False, **SMALL).run.likelihood.counts
    for wrong in (VECTORS, COUNTS + 0.5, COUNTS - 1):
        data, _ = from_array(wrong, scale="none")
        with pytest.raises(ValueError, match=r"needs counts, the integers 0, 1, 2"):
            uw.fit(data, progress=False, **fields)
    assert uw.fit(counts, progress=False, **SMALL | {"likelihood": likelihoods.Gaussian()})


def test_pairs_of_own_data_are_own_data(files):
    """Their settings suit the data, and nothing is held out, since pairs need every combination."""
    factors = np.argwhere(np.ones((10, 12)))
    np.savez(files / "counts.npz", images=COUNTS, factors=factors)
    source = uw.Arrays(files / "counts.npz", factors_key="factors", scale="counts")
    pairs = uw.data.Paired(source, changed=1)
    plain, dataset = Run(data=pairs, **SMALL), pairs.load(CPU)
    assert plain.resolve(dataset).likelihood == likelihoods.NegativeBinomial()
    model = uw.fit(pairs, progress=False, **SMALL)
    assert model.run.likelihood == likelihoods.NegativeBinomial()
    assert (model.run.optimiser.lr, model.dataset.size, model.measures) == (1e-3, 120, [])
    arguments = shlex.split(" ".join(train_arguments(model.run, dataset)))
    (again,) = runs_from(arguments, datasets=Datasets(CPU))
    assert again.resolve(dataset) == model.run


def test_selections_of_own_data_are_split_too(files):
    factors = np.arange(120) % 3
    np.savez(files / "both.npz", images=VECTORS, factors=factors)
    source = uw.Arrays(files / "both.npz", factors_key="factors")
    datasets = Datasets(CPU)
    chosen = datasets.training_split(Selected(source, (HeldOut({"factors": (1,)}),)))
    assert chosen.source.split == "train"
    (outcome,) = train_runs([Run(data=chosen, **SMALL | {"batch_size": 8})], datasets)
    assert "validation" in outcome.measures[-1]
    subset = Selected(source, (Subset(60),))
    assert datasets.training_split(subset) == subset
