"""Parts that users define: they train, are stored, and are never mistaken for others."""

import dataclasses
import importlib
import json
import linecache
import shlex
import sys
from functools import partial
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from datasets import SMALL, small_run
from unweave.core import parts, spec
from unweave.core.assignments import override
from unweave.core.bibliography import citations
from unweave.core.schedules import Schedule, Weight
from unweave.latents import Gaussian
from unweave.likelihoods import BaseLikelihood, BernoulliObservation
from unweave.metrics import METRICS
from unweave.metrics.registry import find_metrics
from unweave.networks import BaseNetwork
from unweave.objectives import AlphaBetaVAE, BaseObjective, Objective, VAEObjective, elbo_terms
from unweave.objectives.divergences import Divergence
from unweave.training.overrides import runs_from, train_arguments
from unweave.training.run import Run

X = np.random.default_rng(0).integers(0, 2, (40, 8, 8)) == 1


class Heavy(uw.BetaVAE):
    """A shipped objective with another loss, and not decorated."""

    def loss(self, forward, batch, noise):
        return elbo_terms(forward, rate=2 * self.beta)


class Wide(uw.MLP):
    """A shipped network by another name."""


@uw.spec
class Mine(VAEObjective):
    """An objective of one's own."""

    weight: Weight = 2.0

    def loss(self, forward, batch, noise):
        return elbo_terms(forward, rate=self.weight)


@uw.spec
class Steps(Schedule):
    """Doubles every `every` steps."""

    every: int = 10

    def __call__(self, step):
        return 2.0 ** (step // self.every)

    def __str__(self):
        return f"doubling every {self.every} steps"


@uw.spec
class Squared(Divergence):
    """|mean q(z)|^2."""

    def value(self, nets, forward, batch, noise):
        return forward.z.mean(0).square().sum()


@uw.spec
class Coin(BaseLikelihood):
    """A Bernoulli likelihood by another name."""

    bounded = True

    def __call__(self, raw):
        return BernoulliObservation(raw)


@uw.spec
class Linear(BaseNetwork):
    """One layer each way."""

    def encoder(self, shape, outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), len(outputs)))

    def decoder(self, size, shape):
        return nn.Sequential(nn.Linear(size, int(np.prod(shape))), nn.Unflatten(1, shape))


class Narrow(Gaussian):
    """A shipped block by another name."""


PARTS = {
    "objective": Mine(weight=3.0),
    "objective-subclass": Heavy(beta=2.0),
    "schedule": uw.BetaVAE(beta=Steps(every=5)),
    "divergence": AlphaBetaVAE(alpha=1.0, divergence=Squared()),
    "likelihood": Coin(),
    "network": Linear(),
    "network-subclass": Wide((16,)),
    "latent": Narrow(3),
    "nested latent": uw.Product(style=Narrow(2), rest=uw.Gaussian(1)),
}
FIELDS = {"schedule": "objective", "divergence": "objective", "nested latent": "latent"}


def run_with(name):
    return small_run(**{FIELDS.get(name, name.partition("-")[0]): PARTS[name]})


@pytest.mark.parametrize("name", PARTS)
def test_a_run_with_an_own_part_survives_json_and_its_digest_names_the_part(name):
    run = run_with(name)
    content = json.loads(json.dumps(spec.to_json(run)))
    again = spec.from_json(Run, content)
    assert again == run
    assert again.digest == run.digest != small_run().digest
    assert "test_own_parts:" in json.dumps(content)


@pytest.mark.parametrize("name", PARTS)
def test_an_own_part_trains_in_lanes_is_stored_and_loaded(name, tmp_path):
    run = run_with(name)
    fields = {f: getattr(run, f) for f in ("latent", "objective", "network", "likelihood")}
    models = uw.fit(SMALL, **fields, steps=4, seed=[0, 1], store=tmp_path, progress=False)
    again = uw.load(models[1].folder)
    x = SMALL.load(torch.device("cpu")).images(torch.arange(5))
    assert np.array_equal(again.encode(x), models[1].encode(x))
    assert again.run == models[1].run


@pytest.mark.parametrize(
    ("own", "shipped", "field"),
    [(Heavy(beta=3.0), uw.BetaVAE(beta=3.0), "objective"), (Wide((9,)), uw.MLP((9,)), "network")],
)
def test_a_subclass_of_a_shipped_part_is_another_run(own, shipped, field, tmp_path):
    """It used to have its parent's digest, and so its parent's weights in a store."""
    theirs, ours = small_run(**{field: shipped}), small_run(**{field: own})
    assert theirs.digest != ours.digest
    assert type(getattr(spec.from_json(Run, spec.to_json(ours)), field)) is type(own)
    assert dataclasses.replace(own) == own


def test_a_subclass_of_a_shipped_objective_trains_with_its_own_loss():
    settings = dict(network=uw.MLP((8,)), steps=30, batch_size=20, progress=False)
    heavy = uw.fit(X, objective=Heavy(beta=50.0), **settings)
    shipped = uw.fit(X, objective=uw.BetaVAE(beta=100.0), **settings)
    assert np.array_equal(heavy.encode(X), shipped.encode(X))


SOURCE = """
import unweave as uw
from unweave.objectives import VAEObjective, elbo_terms

@uw.spec
class Other(VAEObjective):
    def loss(self, forward, batch, noise):
        # a comment
        return elbo_terms(forward, rate=1.5)


def link(codes, factors):
    return 0.5
"""


@pytest.fixture
def module(write_module):
    return write_module("elsewhere", SOURCE)


def test_the_command_line_takes_a_part_by_its_module_and_sets_its_fields(module):
    run = override(Run, ["objective=elsewhere:Other"])
    assert run.objective.kind == "elsewhere:Other"
    weighted = override(Run, ["objective=test_own_parts:Mine", "objective.weight=5"])
    assert weighted.objective == Mine(weight=5.0)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("objective=nowhere:Other", "there is no module 'nowhere' here"),
        (
            "objective=elsewhere:Missing",
            "expected a spec named Missing in elsewhere, .* got nothing",
        ),
        ("objective=elsewhere:uw", "expected a spec named uw in elsewhere"),
        ("network=elsewhere:Other", "or a class derived from BaseNetwork"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(module, assignment, message):
    with pytest.raises(ValueError, match=message):
        override(Run, [assignment])


def test_reading_a_run_never_imports_a_module(module):
    content = spec.to_json(Run()) | {"objective": {"kind": "elsewhere:Other"}}
    with pytest.raises(ValueError, match="`import elsewhere` first, or on the command line"):
        spec.from_json(Run, content)
    assert "elsewhere" not in sys.modules


def test_changed_code_is_another_run_and_loading_the_old_one_warns(module):
    old = override(Run, ["objective=elsewhere:Other"])
    stored = spec.to_json(old)
    for text, same in (
        (SOURCE.replace("# a comment", "# another comment, longer"), True),
        (SOURCE.replace("rate=1.5", "rate=2.5"), False),
    ):
        module.write_text(text)
        importlib.invalidate_caches()
        importlib.reload(sys.modules["elsewhere"])
        parts._used.clear()
        linecache.checkcache()
        new = override(Run, ["objective=elsewhere:Other"])
        assert (new.digest == old.digest) is same
    with pytest.warns(parts.OwnPartWarning, match="the code of elsewhere:Other has changed"):
        spec.from_json(Run, stored)


def test_an_installed_package_announces_parts_by_entry_points(module, monkeypatch):
    entry = EntryPoint("other", "elsewhere:Other", parts.GROUP)
    monkeypatch.setattr(parts, "entry_points", lambda group: [entry])
    sys.path.insert(0, str(module.parent))
    run = override(Run, ["objective=other"])
    assert run.objective.kind == "elsewhere:Other"
    sys.modules.pop("elsewhere")
    parts._used.clear()
    assert spec.from_json(Run, spec.to_json(run)).digest == run.digest  # found again by itself
    assert parts.unannounced(["elsewhere", "another"]) == ["another"]
    metric = EntryPoint("my-link", "elsewhere:link", parts.GROUP)
    monkeypatch.setattr(parts, "entry_points", lambda group: [metric])
    sys.modules.pop("elsewhere")
    assert list(find_metrics("my-link")) == ["link"]


def test_announced_names_replace_no_shipped_metric_and_classes_are_no_metrics(module, monkeypatch):
    sys.path.insert(0, str(module.parent))
    names = {"mig": "link", "all": "link", "udr": "link", "other": "Other"}
    entries = [EntryPoint(n, f"elsewhere:{part}", parts.GROUP) for n, part in names.items()]
    monkeypatch.setattr(parts, "entry_points", lambda group: entries)
    assert set(find_metrics("mig")) == {"mig/chen2018", "mig/locatello2019"}
    assert find_metrics("all") == METRICS
    with pytest.raises(ValueError, match="udr is a metric of trained models"):
        find_metrics("udr")
    for choice in ("other", "elsewhere:Other"):
        with pytest.raises(ValueError, match="expected a metric named Other in elsewhere, a func"):
            find_metrics(choice)
    with pytest.raises(ValueError, match=r"lnk in elsewhere.* nothing: did you mean 'link'\?"):
        find_metrics("elsewhere:lnk")
    with pytest.raises(TypeError, match=r"a partial has no name: use Metric\("):
        find_metrics(partial(find_metrics("elsewhere:link")["link"].compute))


@uw.spec
class Rate:
    """A spec of a user's that is a setting of another."""

    lr: float = 1.0


@uw.spec
class Nested(Mine):
    rate: Rate = Rate()


def test_the_fields_of_a_spec_inside_an_own_part_are_set_on_the_command_line():
    run = override(Run, ["objective=test_own_parts:Nested", "objective.rate.lr=3"])
    assert run.objective == Nested(rate=Rate(lr=3.0))


def test_a_class_that_is_no_spec_or_of_another_place_is_refused():
    class Plain(VAEObjective):
        def loss(self, forward, batch, noise):
            return {}

    class Extended(uw.BetaVAE):
        extra: float = 1.0

    @uw.spec
    class Unrelated:
        size: int = 3

    for part, message in (
        (Plain(), "decorate it with @unweave.spec"),
        (Extended(), "decorate it with @unweave.spec"),
        (Unrelated(), "expected a shipped part or a class derived from BaseObjective"),
    ):
        with pytest.raises(ValueError, match=message):
            Run(objective=part)


def test_every_open_union_names_the_class_to_derive_from():
    assert BaseObjective not in spec.members(Objective).values()
    assert set(spec.members(Objective)) >= {"vae", "factor-vae"}


@pytest.mark.usefixtures("quick_scores")
def test_models_of_own_parts_are_evaluated_and_reported(tmp_path):
    model = uw.fit(
        SMALL,
        latent=uw.Product(style=Narrow(2), what=uw.Categorical(2)),
        objective=Mine(weight=Steps(every=3)),
        network=Wide((16,)),
        likelihood=Coin(),
        steps=5,
        store=tmp_path / "runs",
        progress=False,
    )
    (scores,) = uw.evaluate([model], metrics="mig")
    assert scores
    assert all(np.isfinite(float(score)) for score in scores.values())
    page = tmp_path / "report.html"
    uw.write_report(model, page)
    text = page.read_text()
    assert "test_own_parts:Mine" in text
    assert "doubling every 3 steps" in text


def test_keys_that_only_the_author_of_a_part_knows_are_left_out_of_citations():
    @uw.spec
    class Cited(VAEObjective):
        """After [Higgins2017] and [Nobody2031]."""

        def loss(self, forward, batch, noise):
            return elbo_terms(forward)

    assert list(citations(Cited())) == ["Higgins2017"]


def mean_code(codes, factors):
    """A metric that does not look at factors."""
    return float(codes.mean())


def test_the_command_line_trains_scores_and_reports_own_parts(module, unweave):
    """The part is imported where the user names it, and nowhere else."""
    small = ("data=blobs", "network=mlp", "steps=3", "--store", "runs")
    code, out, err = unweave("train", "objective=elsewhere:Other", *small)
    assert code == 0, err
    assert "next: unweave --import elsewhere report" in " ".join(out.split())
    sys.modules.pop("elsewhere")
    parts._used.clear()
    for command in (("evaluate", "--metrics", "mig", "--rows", "200"), ("report",)):
        (run,) = (module.parent / "runs").iterdir()
        code, _, err = unweave(command[0], str(run), *command[1:])
        assert code == 2
        assert "`unweave --import elsewhere`" in " ".join(err.split())
    code, _, err = unweave("--import", "elsewhere", "evaluate", str(run), "--metrics",
                           "mig,test_own_parts:mean_code", "--rows", "200")  # fmt: skip
    assert code == 0, err
    for name in ("./elsewhere", "elsewhere.py"):
        code, _, err = unweave("--import", name, "runs")
        assert code == 2
        assert "expected the name of a module" in err
    code, _, err = unweave("--import", "nowhere", "runs")
    assert code == 2
    assert "there is no module 'nowhere' here" in err


def test_own_parts_and_metrics_are_described_like_shipped_ones(module, unweave):
    head = '(VAEObjective):\n    """Halve it."""\n\n    half: float = 0.5\n    """A share."""\n'
    metric = 'def first(codes, factors):\n    """Compute the first code."""\n    return 0.5\n'
    module.write_text(f"{SOURCE.replace('(VAEObjective):', head)}\n\n{metric}")
    code, out, err = unweave("fields", "objective=elsewhere:Other")
    assert code == 0, err
    assert "objective=elsewhere:Other" in out
    assert "Halve it." in out
    assert "objective.half" in out
    assert "A share." in out
    code, out, err = unweave("methods", "elsewhere:Other")
    assert code == 0, err
    assert "unweave train objective=elsewhere:Other" in out
    code, out, err = unweave("metrics", "elsewhere:first")
    assert code == 0, err
    assert "Compute the first code." in out
    assert "--metrics elsewhere:first" in out
    for name in ("network=elsewhere:Other", "data=elsewhere:Other"):
        code, _, err = unweave("fields", name)
        assert code == 2
        assert f"'elsewhere:Other' is not a choice of {name.partition('=')[0]}" in err
    assert unweave("fields", "data=test_own_parts:Points")[0] == 0


@pytest.mark.parametrize(
    "content",
    [
        {"objective": {"kind": "subprocess:Popen", "args": ["touch", "called"]}},
        {"data": {"kind": "pathlib:Path"}},
        {"latent": {"kind": "builtins:print"}},
        {"network": {"kind": "modules", "encoder": "os:getpid@1", "decoder": "os:abort@1"}},
        {"network": {"kind": "modules", "encoder": "importlib:import_module@1", "decoder": "x"}},
    ],
    ids=lambda content: str(content),
)
def test_reading_a_run_calls_nothing_but_own_specs(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="expected a"):
        spec.from_json(Run, spec.to_json(small_run()) | content).build((1, 16, 16))
    assert not (tmp_path / "called").exists()


def test_a_field_may_be_called_source():
    @uw.spec
    class Cited(VAEObjective):
        source: str = "here"

        def loss(self, forward, batch, noise):
            return elbo_terms(forward)

    runs = [small_run(objective=Cited(source=name)) for name in ("one", "other")]
    assert runs[0].digest != runs[1].digest
    assert [spec.from_json(Run, spec.to_json(run)) for run in runs] == runs


def test_code_that_differs_only_in_a_helper_a_constant_or_a_closure_is_another_run(module):
    texts = [
        SOURCE + "\nSCALE = 2\ndef helper(x):\n    return SCALE * x\n",
        SOURCE + "\nSCALE = 3\ndef helper(x):\n    return SCALE * x\n",
        SOURCE + "\nSCALE = 3\ndef helper(x):\n    return x\n",
    ]
    digests = set()
    for text in texts:
        module.write_text(text.replace("rate=1.5", "rate=helper(1.5)"))
        sys.modules.pop("elsewhere", None)
        importlib.invalidate_caches()
        linecache.checkcache()
        parts._used.clear()
        digests.add(override(Run, ["objective=elsewhere:Other"]).digest)
    assert len(digests) == 3

    def make(factor):
        @uw.spec
        class Local(VAEObjective):
            def loss(self, forward, batch, noise):
                return elbo_terms(forward, rate=factor)

        return Local()

    assert small_run(objective=make(1.0)).digest != small_run(objective=make(9.0)).digest


def test_a_module_named_like_one_of_python_is_still_the_users(tmp_path, monkeypatch):
    (tmp_path / "cgi.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cgi", raising=False)
    own = importlib.import_module("cgi").Other()
    assert small_run(objective=own).digest != small_run(objective=uw.VAE()).digest
    assert own.kind == "cgi:Other"
    sys.modules.pop("cgi")


def test_runs_whose_parts_are_not_imported_are_listed(module, unweave):
    small = ("data=blobs", "network=mlp", "steps=3", "--store", "runs")
    assert unweave("train", "objective=elsewhere:Other", *small)[0] == 0
    sys.modules.pop("elsewhere")
    parts._used.clear()
    code, out, err = unweave("runs", "--store", "runs")
    assert code == 0
    assert "finished" in out
    assert (err, "elsewhere:Other" in out) == ("", True)


@uw.spec
class Points:
    """Sixty points in a plane."""

    count: int = 60

    def load(self, device):
        return uw.data.array_dataset(np.random.default_rng(0).random((self.count, 2))).to(device)


def test_own_data_are_named_on_the_command_line_and_in_the_command_of_a_report():
    (run,) = runs_from(["data=test_own_parts:Points", "data.count=70", "network=mlp"])
    assert run.data == Points(count=70)
    dataset = run.data.load(torch.device("cpu"))
    words = " ".join(train_arguments(run.resolve(dataset), dataset))
    assert runs_from(shlex.split(words))[0].data == run.data
    kinds = [each.objective.kind for each in runs_from(["objective=test_own_parts:Mine,vae"])]
    assert kinds == ["test_own_parts:Mine", "vae"]
