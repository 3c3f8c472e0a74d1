"""Mistakes in users' own parts: each error says what to do."""

import importlib
import json
import linecache
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch

import unweave as uw
from unweave import likelihoods
from unweave.catalogue.fields import listing
from unweave.core import parts, spec
from unweave.core.assignments import override
from unweave.latents import DiagonalGaussian, SampledRateBlock
from unweave.metrics import metric
from unweave.networks import BaseNetwork, modules
from unweave.objectives import Term, VAEObjective, elbo_terms
from unweave.objectives.base import BaseObjective
from unweave.testing import check_dataset, check_latent, check_metric, check_objective
from unweave.training.overrides import runs_from
from unweave.training.run import Run

SOURCE = """
import numpy as np
import unweave as uw
from unweave.objectives import VAEObjective, elbo_terms


@uw.spec
class Other(VAEObjective):
    scale: float = 2.0

    def loss(self, forward, batch, noise):
        return elbo_terms(forward)


@uw.spec
class Required(VAEObjective):
    scale: float

    def loss(self, forward, batch, noise):
        return elbo_terms(forward)


@uw.spec
class Points:
    def load(self, device):
        return uw.data.array_dataset(np.random.default_rng(0).random((40, 2))).to(device)
"""


@pytest.fixture
def module(write_module):
    return write_module("mistaken", SOURCE)


@pytest.mark.parametrize("change", [("Other", "Another"), ("scale:", "share:")])
@pytest.mark.filterwarnings("ignore::unweave.core.parts.OwnPartWarning")
def test_a_stored_part_whose_class_has_changed_is_not_called_damaged(module, change, unweave):
    small = ("data=blobs", "network=mlp", "steps=2", "--store", "runs")
    assert unweave("train", "objective=mistaken:Other", "objective.scale=3", *small)[0] == 0
    (run,) = (module.parent / "runs").iterdir()
    module.write_text(SOURCE.replace(*change) + "# so that its length differs")
    sys.modules.pop("mistaken")
    parts._used.clear()
    importlib.invalidate_caches()
    linecache.checkcache()
    code, _, err = unweave("--import", "mistaken", "evaluate", str(run), "--metrics", "mig")
    err = " ".join(err.split())
    assert code == 2
    assert "restore it, or train again" in err
    assert "damaged" not in err


PARTS = {
    "my_losses": "from unweave import BetaVAE\n\nclass Own(BetaVAE):\n    pass\n",
    "my_blocks": "from unweave import Gaussian\n\nclass Own(Gaussian):\n    pass\n",
    "my_encoders": "from torch import nn\n\ndef build():\n    return nn.Linear(2, 4)\n",
    "my_decoders": "from torch import nn\n\ndef build():\n    return nn.Linear(2, 2)\n",
}


@pytest.fixture
def missing(module, monkeypatch):
    """A function that writes modules, trains with them, forgets them and returns the run."""
    monkeypatch.setattr(modules, "_known", {})
    for name, text in PARTS.items():
        (module.parent / f"{name}.py").write_text(text)

    def train(unweave, *arguments):
        small = ("steps=2", "batch_size=16", "--store", "runs")
        code, _, err = unweave(*arguments, *small)
        assert code == 0, err
        for name in PARTS:
            sys.modules.pop(name, None)
        parts._used.clear()
        modules._known.clear()
        (run,) = (module.parent / "runs").iterdir()
        return run

    yield train
    for name in PARTS:
        sys.modules.pop(name, None)


def test_all_missing_parts_of_a_run_are_named_at_once(missing, unweave):
    latent = json.dumps({"kind": "product", "style": {"kind": "my_blocks:Own", "size": 2}})
    run = missing(
        unweave, "--import", "my_blocks", "train", "data=blobs", "network=mlp",
        "objective=my_losses:Own", f"latent={latent}",
    )  # fmt: skip
    with pytest.raises(parts.MissingPart) as raised:
        uw.load(run)
    for text in (
        "my_blocks:Own, my_losses:Own are parts defined outside unweave, in the modules",
        "`import my_blocks, my_losses` first",
        "`unweave --import my_blocks --import my_losses`",
    ):
        assert text in str(raised.value)
    code, _, err = unweave("--import", "my_losses", "report", str(run))
    assert code == 2
    assert "my_blocks:Own is a part defined outside" in " ".join(err.split())


def test_missing_functions_that_build_modules_are_named_at_once(missing, unweave):
    run = missing(
        unweave, "train", "data=mistaken:Points", "latent.size=2", "network=modules",
        "network.encoder=my_encoders:build", "network.decoder=my_decoders:build",
    )  # fmt: skip
    with pytest.raises(ValueError, match="`import my_encoders, my_decoders` first"):
        uw.load(run)


@pytest.mark.usefixtures("module")
def test_the_command_line_says_how_to_name_own_parts_and_modules(unweave):
    with pytest.raises(ValueError, match="name an own part as MODULE:CLASS, mistaken:NAME"):
        override(Run, ["objective=mistaken"])
    code, _, err = unweave("--import", "a,b,c", "runs")
    assert code == 2
    assert "repeat --import" in err


class Rings:
    """A dataset that is not decorated."""

    def load(self, device):
        return uw.data.array_dataset(np.eye(40)).to(device)


@uw.spec
class NoReturn:
    """Its `load` has no return."""

    def load(self, device):
        uw.data.array_dataset(np.eye(40)).to(device)


@uw.spec
class OfNumpy:
    """Its observations are numpy arrays."""

    def load(self, device):
        dataset = uw.data.array_dataset(np.eye(40)).to(device)
        images = dataset.images
        object.__setattr__(dataset, "images", lambda index: images(index).numpy())
        return dataset


@uw.spec
class Bare(VAEObjective):
    """Its loss is a number, or a dict of numbers."""

    inside: bool

    def loss(self, forward, batch, noise):
        value = (forward.distortion + forward.rate).mean()
        return {"loss": value} if self.inside else value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uw.fit(Rings()), "Rings that is none: decorate the class with @unweave.spec"),
        (lambda: check_dataset(Rings()), "Rings is not a spec: decorate it with"),
        (lambda: Run(objective=Bare), r"objective: expected an object, got its class: use Bare"),
        (lambda: Run(network=BaseNetwork), "network: expected an object, got its class"),
        (lambda: check_dataset(NoReturn), "data: expected an object, got its class"),
        (lambda: check_objective(Bare(False)),
         r"Bare.loss: expected a dict of terms, .* got a Tensor"),
        (lambda: check_objective(Bare(True)), "expected a dict of terms, .* got a dict with"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("use", [check_dataset, uw.fit])
def test_a_load_that_returns_no_dataset_is_explained(use):
    with pytest.raises(ValueError, match=r"NoReturn\.load: expected a dataset, got NoneType"):
        use(NoReturn())


def test_a_dataset_of_numpy_arrays_is_explained():
    with pytest.raises(AssertionError, match="images: expected a tensor, got ndarray"):
        check_dataset(OfNumpy())


def test_a_setting_without_an_annotation_is_refused():
    with pytest.raises(ValueError, match=r"write gamma: float = 3.0"):

        @uw.spec
        class Forgetful(VAEObjective):
            gamma = 3.0

    with pytest.raises(ValueError, match=r"write beta: float = 3.0"):

        @uw.spec
        class Overriding(uw.BetaVAE):
            beta = 3.0


@uw.spec
class Number(VAEObjective):
    """A term is a number."""

    def loss(self, forward, batch, noise):
        return elbo_terms(forward) | {"offset": Term(1.0, 0.5)}


@uw.spec
class Mistaken(VAEObjective):
    """A loss that cannot be trained."""

    mistake: str

    def loss(self, forward, batch, noise):
        value = forward.q.mean.square()
        more = {
            "columns": lambda: value,
            "item": lambda: value.mean().item() * value.mean(),
            "if": lambda: value.mean() if value.mean() > 1 else value.sum(),
            "random": lambda: (value + torch.randn_like(value)).mean(),
        }[self.mistake]()
        return elbo_terms(forward) | {"more": Term(1.0, more)}


@uw.spec
class Doubtful(uw.Schedule):
    """It is negative after the third step."""

    def __call__(self, step):
        return 3.0 - step

    def __str__(self):
        return "falling"


@uw.spec
class PerPixel(likelihoods.BaseLikelihood):
    """It returns a distribution of torch, whose log_prob is not a sum."""

    def __call__(self, raw):
        return torch.distributions.Laplace(raw, 1.0)


class SummedRates(uw.Gaussian):
    """Its rates are summed over the batch, or a sum is over too many axes."""

    def rate(self, q, p, z):
        return super().rate(q, p, z).sum()


def fit(**parts):
    """Train a few steps on points."""
    points = np.random.default_rng(0).random((40, 3)).astype(np.float32)
    usual = {"latent": uw.Gaussian(2), "network": uw.MLP((4,)), "batch_size": 8}
    return uw.fit(
        points, seed=(0, 1), progress=False, **({"steps": 5, "split": "all"} | usual | parts)
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"objective": Mistaken("columns")},
         r"Mistaken.loss, term more: expected one value, or .* 8 observations, got shape \(8, 2\)"),
        ({"objective": uw.BetaVAE(beta=Doubtful())},
         "Doubtful at step 4: expected a number of at least 0, got -1.0"),
        ({"likelihood": PerPixel()},
         r"Laplace.log_prob: expected one number for each of 8 observations, got shape \(8, 3\)"),
        ({"latent": SummedRates(2)},
         r"SummedRates.rate: expected one number for each of 8 observations, got shape \(\)"),
    ],
)  # fmt: skip
def test_training_refuses_what_it_would_average_without_a_word(parts, message):
    """All of these were trained before, on another loss than meant."""
    with pytest.raises(ValueError, match=message):
        fit(**parts)


@uw.spec
class Returns(BaseObjective):
    """A loss of several values that returns something else."""

    what: str

    def model_loss(self, nets, batch, noise, carry):
        terms = elbo_terms(nets.model(batch.x, noise))
        return {
            "no carry": (terms, None),
            "three": (terms, {}, {}),
            "number": (terms, {"a": 1.0}),
            "no terms": ({}, {}),
        }[self.what]


@pytest.mark.parametrize(
    ("what", "got"),
    [
        ("no carry", r"as in `return terms, \{\}`, got \(dict of Term, NoneType\)"),
        ("three", r"got \(dict of Term, dict, dict\)"),
        ("number", r"got \(dict of Term, dict of float\)"),
        ("no terms", "expected a dict of terms, .* got an empty dict"),
    ],
)
def test_what_a_loss_returned_is_named(what, got):
    """It was "a tuple", or an error of torch."""
    with pytest.raises(ValueError, match=rf"^Returns\.model_loss: .*{got}$"):
        fit(objective=Returns(what))


def test_networks_without_parameters_are_refused():
    """The error asked for an entry in `critics`."""
    pools = (torch.nn.AdaptiveAvgPool1d(size) for size in (4, 3))
    network = uw.Modules(*pools)
    with pytest.raises(ValueError, match="expected networks with parameters, got none"):
        fit(network=network, likelihood=likelihoods.Gaussian(0.1))


def test_a_schedule_is_not_asked_for_steps_after_the_last():
    assert len(fit(objective=uw.BetaVAE(beta=Doubtful()), steps=3)) == 2


@pytest.mark.parametrize("mistake", ["item", "if", "random"])
def test_errors_of_vmap_say_what_a_loss_may_not_do(mistake):
    with pytest.raises(RuntimeError, match=r"^vmap") as caught:
        fit(objective=Mistaken(mistake))
    assert any("use torch.where instead of `if`" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_objective(Number()),
         "Number.loss: expected a tensor as the value of the term offset, got 0.5"),
        (lambda: Run(likelihood=uw.Gaussian()),
         r"use unweave.likelihoods.Gaussian\(...\), not that of unweave.latents$"),
        (lambda: Run(latent=likelihoods.Bernoulli()),
         r"use unweave.latents.Bernoulli\(...\), not that of unweave.likelihoods$"),
    ],
)  # fmt: skip
def test_what_stands_in_the_wrong_place_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def made(hint, **default):
    """An objective of a class with one setting."""
    fields = {"__annotations__": {"setting": hint}, "__module__": __name__, "loss": Bare.loss}
    return uw.spec(type("Made", (VAEObjective,), fields | default))()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: made(int, setting=1.5), "setting: expected an integer, got 1.5"),
        (lambda: made(float, setting="x"), "setting: expected a number, got 'x'"),
        (lambda: made(list, setting=[1]), r"Made.setting cannot have \[1\] .* use a tuple"),
        (lambda: made(np.ndarray, setting=np.ones(2)), "Made.setting cannot have array.* a tuple"),
        (lambda: made(torch.Tensor), "Made: its settings may be numbers.*torch.Tensor"),
        (lambda: made(float), "setting: expected a value, because this field has no default$"),
        (lambda: spec.to_json(made(object, setting=print)), "Made cannot be stored .*its settings"),
    ],
)  # fmt: skip
def test_a_setting_that_could_not_be_stored_and_read_again_is_refused(make, message):
    """A wrong default made a run that was said to be damaged when it was loaded."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("module")
def test_the_command_line_sets_fields_that_have_no_default():
    (run,) = runs_from(["objective=mistaken:Required", "objective.scale=3", "data=blobs"])
    assert run.objective.scale == 3.0
    with pytest.raises(ValueError, match="objective: scale: expected a value, because this"):
        runs_from(["objective=mistaken:Required"])


@pytest.mark.parametrize("value", [None, {"score": 1.0}, np.ones(3)], ids=str)
def test_a_metric_that_returns_no_number_is_named(value):
    @metric
    def strange(inputs):
        return value

    with pytest.raises(ValueError, match=r"number or inputs.score\(...\) from the metric strange"):
        strange(np.random.default_rng(0).random((50, 2)), np.arange(50)[:, None] % 3)


def test_a_metric_without_its_decorator_is_explained():
    def plain(inputs):
        return 0.5

    with pytest.raises(AssertionError, match="decorate it with @unweave"):
        check_metric(plain)


def of_tables(codes, factors):
    return 0.5


def with_a_required_option(inputs, bins):
    return 0.5


def without_arguments():
    return 0.5


@pytest.mark.parametrize("function", [of_tables, with_a_required_option, without_arguments])
def test_a_metric_of_other_arguments_is_refused(function):
    name = function.__name__
    with pytest.raises(TypeError, match=rf"^{name}\(.*, as in def {name}\(inputs, bins=20\)"):
        metric(function)


@uw.spec
class Sizeless(SampledRateBlock):
    """A block whose size was forgotten."""

    def density(self, zero):
        return DiagonalGaussian(zero, zero)


def test_a_block_without_a_size_is_explained():
    with pytest.raises(AssertionError, match=r"Sizeless has no `size`.*as in size: int = 10"):
        check_latent(Sizeless())


def test_a_wrong_name_that_is_near_that_of_an_entry_point_is_answered_with_it(monkeypatch):
    entry = EntryPoint("capped-vae", "elsewhere:Other", parts.GROUP)
    monkeypatch.setattr(parts, "entry_points", lambda group: [entry])
    for call in (
        lambda: override(Run, ["objective=caped-vae"]),
        lambda: listing("objective=caped-vae"),
    ):
        with pytest.raises(ValueError, match=r"did you mean 'capped-vae'\?$"):
            call()
