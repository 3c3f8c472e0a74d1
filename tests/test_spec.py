"""Specs: Python, JSON and the command line are one value; errors say what to do."""

import dataclasses
import hashlib
import json
import re
import shutil
from typing import Literal

import pytest

import unweave as uw
from datasets import CPU
from unweave import likelihoods
from unweave.core import spec
from unweave.core.assignments import override
from unweave.core.schedules import at
from unweave.data import (
    AnySelection,
    Data,
    FashionMNIST,
    HeldOut,
    Mixing,
    Paired,
    Pinwheel,
    Selected,
    Subset,
)
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.networks import Network
from unweave.objectives import Objective
from unweave.objectives.divergences import AnyDivergence
from unweave.training.overrides import SweepWarning, runs_from
from unweave.training.run import Run
from unweave.training.store import Store

UNIONS = {"data": Data, "latent": Latent, "network": Network, "likelihood": Likelihood,
          "objective": Objective}  # fmt: skip
NEEDS = {
    "arrays": ["data.path=x.npz"],
    "folder": ["data.path=x"],
    "product": ["latent.a=gaussian"],
    "moving-digit": ["data.digits=arrays", "data.digits.path=x.npz"],
    "paired": ["data.changed=1"],
    "modules": [f"network.{part}=test_networks_modules:{part}" for part in ("encoder", "decoder")],
    "memory": [f"data.digest={'ab' * 32}", "data.shape=[4,3]", "data.dtype=uint8"],
}
CHOICES = [(field, kind) for field, union in UNIONS.items() for kind in spec.members(union)]


@pytest.mark.parametrize(("field", "kind"), CHOICES)
def test_every_member_of_every_union_can_be_chosen_and_survives_json(field, kind):
    run = override(Run, [f"{field}={kind}", *NEEDS.get(kind, [])])
    assert getattr(run, field).kind == kind
    again = spec.from_json(Run, spec.to_json(run))
    assert again == run
    assert again.digest == run.digest


def test_the_command_line_of_the_readme():
    words = ["objective=factor-vae", "objective.gamma=35", "latent.size=10", "data=shapes2d",
             "seed=3"]  # fmt: skip
    expected = Run(objective=uw.FactorVAE(gamma=35.0), latent=uw.Gaussian(10), seed=3)
    assert override(Run, words) == expected
    assert override(Run, reversed(words)) == expected


def test_nested_parts_can_be_set():
    run = override(Run, ["objective=factor-vae", "objective.critic.width=7",
                              "objective.critic.optimiser.betas=[0.1,0.2]"])  # fmt: skip
    assert run.objective.critic.width == 7
    assert run.objective.critic.depth == 6
    assert run.objective.critic.optimiser.betas == (0.1, 0.2)


def test_trees_can_be_built():
    words = [
        "latent=product", "latent.style=gaussian", "latent.style.size=8",
        "latent.place=product", "latent.place.x=gaussian", "latent.place.x.size=1",
    ]  # fmt: skip
    expected = uw.Product(style=uw.Gaussian(8), place=uw.Product(x=uw.Gaussian(1)))
    assert override(Run, words).latent == expected


def test_a_schedule_can_be_chosen():
    run = override(Run, ["objective.beta=linear", "objective.beta.stop=6"])
    assert run.objective.beta == uw.Linear(0.0, 6.0)
    assert at(run.objective.beta, 5_000) == 3.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["objective=factorvae"], "did you mean 'factor-vae'"),
        (["objectiv=vae"], "did you mean 'objective'"),
        (["objective.bta=1"], "did you mean 'beta'"),
        (["data=arrays", "data.path=a.csv", "data.scale=standardize"], "mean 'standardise'"),
        (["data=arrays", "data.path=a.csv", "data.scale=comon"], "did you mean 'common'"),
        (["data=arrays", "data.path=a.csv", "data.split=training"], "did you mean 'train'"),
        (["objective=vae", "objective.beta=1"], "not a field of VAE"),
        (
            ["objective.beta=-1"],
            "objective.beta: expected at least 0, got -1",
        ),
        (["objective.beta=NaN"], "objective.beta: expected a finite number"),
        (
            ["objective.beta=high"],
            "beta: expected a number or a schedule (cyclic, linear), got 'high'",
        ),
        (["latent.size=0"], "latent.size: expected more than 0, got 0"),
        (["latent.size=ten"], "latent.size: expected an integer"),
        (["latent=product"], "at least one named block"),
        (["latent=product", "latent.a=gaussian", "latent.a.sise=3"], "did you mean 'size'"),
        (["network.hidden=3"], "choose one first: network=kim2018"),
        (["latent=10"], "use Gaussian(...) or latent=gaussian"),
        (["seed"], "expected an assignment"),
        (["seed=-1"], "seed: expected at least 0"),
        (["steps.x=1"], "cannot be set"),
        (["optimiser.betas=[0.9]"], "optimiser.betas"),
    ],
)
def test_errors_name_the_place_and_the_remedy(words, message):
    with pytest.raises(ValueError, match=r".+") as caught:
        override(Run, words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lists_and_ranges_are_several_runs(tmp_path):
    assert [run.seed for run in runs_from(["seed=2..4"])] == [2, 3, 4]
    assert [run.objective.kind for run in runs_from(["objective=vae,beta-vae"])] == [
        "vae",
        "beta-vae",
    ]
    assert len(runs_from(["seed=0,1,5", "objective.beta=1,2.5"])) == 6
    assert runs_from(["optimiser.betas=[0.5,0.9]"])[0].optimiser.betas == (0.5, 0.9)


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="smaller number first"):
        runs_from(["seed=3..0"])


def test_data_can_be_a_path(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"")
    (run,) = runs_from([f"data={tmp_path / 'x.npy'}"])
    assert run.data == uw.Arrays(str(tmp_path / "x.npy"))
    (run,) = runs_from([f"data={tmp_path}"])
    assert run.data == uw.Folder(str(tmp_path))
    with pytest.raises(ValueError, match="did you mean 'shapes2d'"):
        runs_from(["data=shape2d"])


def test_specs_are_values():
    assert hash(Run(seed=1)) == hash(Run(seed=1))
    assert Run(objective=uw.BetaVAE(beta=4)).digest == Run(objective=uw.BetaVAE(beta=4.0)).digest
    with pytest.raises(AttributeError):
        Run().seed = 3


@pytest.mark.parametrize(
    "schedule", [uw.Linear(1.0, 3.0, steps=10), uw.Cyclic(1.0, 3.0, period=10)]
)
def test_schedules_stay_between_their_ends(schedule):
    values = [at(schedule, step) for step in range(35)]
    assert min(values) == 1.0
    assert max(values) == 3.0
    assert values[0] == 1.0


def test_different_runs_have_different_digests():
    a, b = uw.Gaussian(2), uw.Gaussian(3)
    runs = [Run(), Run(seed=1), Run(latent=uw.Product(a=a, b=b)), Run(latent=uw.Product(b=b, a=a))]
    assert len({run.digest for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uw.BetaVAE(bta=2), "bta: not a field of BetaVAE: did you mean 'beta'"),
        (lambda: uw.Gaussian(0), "size: expected more than 0, got 0"),
        (lambda: Run(objectiv=uw.VAE()), "did you mean 'objective'"),
        (lambda: uw.Product(), "at least one named block"),
        (lambda: uw.Product(a={"kind": "gausian"}), "did you mean 'gaussian'"),
    ],
)
def test_errors_in_python_are_one_line_too(make, message):
    with pytest.raises(ValueError, match=r".+") as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: uw.GaussianMixture([[0.0], [3.0]], scales=[1.0, -1.0]),
            r"^scales\.1: .*more than 0",
        ),
        (lambda: uw.Gaussian(2, variances=(1.0, -1.0)), r"^variances\.1: .*more than 0"),
        (lambda: uw.Product(uw.Gaussian(2)), r"Product takes its blocks by name"),
        (lambda: uw.Run(objective="beta-vae"), r"use BetaVAE\(\.\.\.\)"),
        (
            lambda: override(Run, ["objective.beta=four"]),
            r"^objective\.beta: expected a number or a schedule \(cyclic, linear\), got 'four'",
        ),
    ],
)
def test_messages_name_fields_and_not_the_insides_of_the_library(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "function-before" not in str(caught.value)
    assert "constrained" not in str(caught.value)


def test_a_schedule_that_outlasts_the_run_is_noted():
    run = Run(objective=uw.BetaVAE(beta=uw.Linear(steps=1000)), steps=100)
    assert run.notes == ("note: beta goes from 0 to 1 over 1,000 steps, but the run has only 100",)
    assert Run(steps=100).notes == ()


def test_a_new_field_with_a_default_keeps_the_digest():
    """This holds for shipped specs; the digest of an own part also covers its source code."""

    @spec.spec
    class Old:
        rate: float = 0.1
        kind: Literal["thing"] = spec.tag("thing")

    @spec.spec
    class New:
        rate: float = 0.1
        momentum: float = 0.9
        kind: Literal["thing"] = spec.tag("thing")

    Old.__module__ = New.__module__ = "unweave.shipped"
    assert spec.digest(Old()) == spec.digest(New())
    assert spec.digest(Old(0.2)) == spec.digest(New(0.2))
    assert spec.digest(New(momentum=0.8)) != spec.digest(New())


def test_the_order_of_blocks_and_the_default_of_a_field_are_part_of_the_digest():
    one, other = uw.Gaussian(3), uw.Categorical(3)
    runs = [
        Run(latent=uw.Product(a=one, b=other)),
        Run(latent=uw.Product(b=other, a=one)),
        Run(latent=uw.Product(a=other, b=one)),
        # Adam's own defaults differ from those of a critic's optimiser.
        Run(objective=uw.FactorVAE()),
        Run(objective=uw.FactorVAE(critic=uw.Critic(optimiser=uw.Adam()))),
    ]
    assert len({run.digest for run in runs}) == len(runs)


def sprites_with_factor_vae():
    run = Run(objective=uw.FactorVAE(gamma=40), steps=300_000, seed=3)
    return run.resolve(run.data.load(CPU))


# Runs by their digests, which name the folders of a store. If the test below fails, stored runs are
# no longer found: a field or kind was renamed, or a default changed. If that is not meant, undo it.
# If it is, raise `spec.SCHEMA` and write the new digests here. New fields with a default and new
# members of a union leave the digests as they are.
PINNED = {
    "143757514795": Run(),
    "ed834dce78d4": sprites_with_factor_vae(),
    "b9a6a4f81d49": Run(
        latent=uw.Product(
            style=uw.Gaussian(8, sampled_rate=True),
            what=uw.Product(shape=uw.Categorical(3, temperature=0.5), flip=uw.Bernoulli(1)),
        ),
        objective=uw.HFVAE(beta=4.0, gamma=2.0),
        network=uw.Esmaeili2019(table=3),
        labels=(uw.Label("shape", block="what.shape", share=0.2),),
    ),
    "e698fbf89d50": Run(
        data=Selected(
            uw.Shapes3D(scales=4),
            (HeldOut({"shape": ("cube",), "wall_hue": ("0..4",)}, "held-out"), Subset(900, seed=2)),
        ),
        objective=uw.BetaTCVAE(beta=uw.Linear(1.0, 8.0, steps=5000)),
        optimiser=uw.Adam(lr=5e-4, amsgrad=True),
    ),
    "28563ac54745": Run(
        data=FashionMNIST(split="all"),
        latent=uw.Product(c=uw.Uniform(2), digit=uw.Categorical(10)),
        objective=uw.InfoGAN(information=0.7, noise_size=62),
    ),
    "6f1d53b2a1ea": Run(
        data=Pinwheel(points_per_cluster=25, convention="text"),
        latent=uw.GaussianMixture(),
        objective=uw.AlphaBetaVAE(
            alpha=3.0, beta=0.1, divergence=uw.divergences.SlicedWasserstein(20)
        ),
        network=uw.MLP(hidden=(100, 50), activation="tanh"),
        likelihood=likelihoods.Gaussian(scale=0.1, learn="each"),
        batch_size=100,
    ),
    "bcd13669b431": Run(
        latent=uw.Sparse(20, spike_weight=0.9),
        objective=uw.InfoVAE(alpha=0.5, divergence=uw.divergences.MMD(scales=(1.0, 2.0))),
        network=uw.DCGAN(base=16),
        likelihood=likelihoods.Laplace(),
    ),
    "26a9ba9f52a1": Run(
        data=uw.Arrays("/data/images.npz", key="images", split="train"),
        latent=uw.StudentT(6, df=3, encoding="full"),
        objective=uw.DIPVAE(off_diagonal=5.0, covariance_of="codes"),
        network=uw.Conv(hidden=128),
    ),
    "0f50077db699": Run(
        data=Paired(uw.Shapes2D(side=32), changed=1, seed=4),
        latent=uw.VampPrior(5, components=20),
        objective=uw.WAE(divergence=uw.divergences.Adversary(critic=uw.Critic(width=50))),
        likelihood=likelihoods.ContinuousBernoulli(),
    ),
    "a612770db627": Run(
        data=Mixing(noise=0.5),
        latent=uw.Laplace(2),
        objective=uw.LagrangianVAE(likelihood=0.0, estimator="weighted"),
        batch_size=32,
    ),
}


@pytest.mark.parametrize(("digest", "run"), PINNED.items(), ids=PINNED)
def test_the_identity_of_stored_runs_does_not_change(digest, run):
    assert run.digest == digest


@pytest.mark.parametrize(
    ("former", "run"),
    {
        "017b315097d2": Run(objective=uw.InfoVAE()),
        "f9034aad7501": Run(objective=uw.WAE(divergence=uw.divergences.MMD(kernel="rbf"))),
    }.items(),
)
def test_a_revised_default_has_another_digest(former, run):
    """Runs that were stored under these digests had other constants of the kernel."""
    assert run.digest != former


def defaults():
    """The default of every field of every spec that a run can hold, as JSON."""
    unions = UNIONS | {"divergence": AnyDivergence, "select": AnySelection}
    classes = {
        f"{place}={kind}": each
        for place, union in unions.items()
        for kind, each in spec.members(union).items()
    }
    for each in (Run, uw.Adam, uw.Critic, uw.Kim2018GAN, uw.Label, uw.Linear, uw.Cyclic):
        classes[each.__name__] = each
    return {
        name: {
            field.name: spec.to_json(field.default)
            for field in dataclasses.fields(each)
            if field.default is not dataclasses.MISSING
        }
        for name, each in classes.items()
        if dataclasses.is_dataclass(each)
    }


def test_the_defaults_of_specs_are_those_of_the_schema():
    """Digests leave defaults out, so a default that changes changes what stored runs mean.

    If this fails because a default changed, raise `spec.SCHEMA` and pin the digests above anew, or
    give the spec a `revision` and test it as above; then pin this one. A new field with a default
    only needs this one pinned anew.
    """
    text = json.dumps(defaults(), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "423e750841ed"


def test_a_folder_that_holds_another_run_is_refused(tmp_path):
    store = Store(tmp_path)
    store.folder(Run()).create(Run())
    store.folder(Run()).create(Run())
    store.folder(Run(steps=7)).create(Run(steps=7))
    shutil.rmtree(store.folder(Run()).path)
    store.folder(Run(steps=7)).path.rename(store.folder(Run()).path)
    with pytest.raises(ValueError, match="contains a different run"):
        store.folder(Run()).create(Run())


def test_a_sweep_says_what_a_field_means_in_each_kind():
    assignments = ["objective=factor-vae,beta-tcvae", "objective.gamma=10"]
    with pytest.warns(
        SweepWarning, match=r"factor-vae \(.*gamma TC\(z\).*beta-tcvae \(.*gamma sum_v"
    ):
        runs = runs_from(assignments)
    assert [run.objective.gamma for run in runs] == [10.0, 10.0]
    # The size of a latent space is the same thing in all of them: no warning.
    assert {run.latent.size for run in runs_from(["latent=gaussian,laplace", "latent.size=4"])} == {
        4
    }


def test_a_field_is_assigned_once_and_a_run_is_described_once():
    for repeated in (["seed=0,1,2", "seed=3"], ["objective=vae", "steps=5", "objective=beta-vae"]):
        with pytest.raises(ValueError, match=r"is assigned twice, .*give it once"):
            runs_from(repeated)
    assert [run.seed for run in runs_from(["seed=1,1,2"])] == [1, 2]
    assert len(runs_from(["objective.beta=4,4.0", "seed=0,1"])) == 2


@pytest.mark.parametrize("name", ["[red]x", "a b", "\u202e"])
def test_unknown_fields_are_named_whatever_their_names_are(name):
    with pytest.raises(ValueError, match=re.escape(f"{name!r}: not a field of Run")):
        spec.from_json(Run, spec.to_json(Run()) | {name: 1})
