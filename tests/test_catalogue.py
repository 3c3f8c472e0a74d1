"""The commands that describe one method, one metric, and the fields of a run."""

import dataclasses
import importlib
import re
import shlex
from typing import get_type_hints

import pytest

from unweave.catalogue import fields, methods, metrics
from unweave.core.assignments import override
from unweave.core.parts import source_hash
from unweave.core.spec import flat_members, members, spec, to_json
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.metrics import METRICS, UNSUPERVISED
from unweave.networks import Network
from unweave.objectives import AnyDivergence, Objective
from unweave.training.overrides import runs_from
from unweave.training.run import Run


def all_specs(cls=Run, seen=None):
    """Every spec that can be a part of a run."""
    seen = {cls: None} if seen is None else seen
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        for leaf in flat_members(hints[field.name]):
            if isinstance(leaf, type) and dataclasses.is_dataclass(leaf) and leaf not in seen:
                seen[leaf] = None
                all_specs(leaf, seen)
    return list(seen)


METHODS = [kind for union in (Objective, AnyDivergence, Latent, Network, Likelihood)
           for kind in members(union)]  # fmt: skip


@pytest.mark.parametrize("cls", all_specs(), ids=lambda cls: cls.__name__)
def test_every_field_has_a_meaning_and_a_range(cls):
    for row in fields.spec_fields(cls):
        assert row.meaning, f"write a string below {row.path} of {cls.__name__}: what it means"
        assert row.meaning[0].isupper()
        assert row.meaning.endswith(".")
        assert row.range


def test_a_string_below_a_field_is_its_meaning():
    @spec
    class Own:
        width: int = 3
        """How wide it is,
        in metres."""
        other: int = 4

    assert fields.meaning(Own, "width") == "How wide it is, in metres."
    assert fields.meaning(Own, "other") == ""


def test_the_meaning_of_a_field_is_no_part_of_the_code(tmp_path, monkeypatch):
    """A run stays the same run if only the text below a field changes."""
    monkeypatch.syspath_prepend(tmp_path)
    code = "import unweave as uw\n\n@uw.spec\nclass Own:\n    width: int = 3\n"
    (tmp_path / "silent_part.py").write_text(code)
    (tmp_path / "told_part.py").write_text(code + '    """How wide it is."""\n')
    silent, told = (importlib.import_module(name).Own for name in ("silent_part", "told_part"))
    assert source_hash(silent) == source_hash(told)
    assert fields.meaning(told, "width") == "How wide it is."


def test_the_listed_defaults_are_those_of_a_run():
    """Setting every listed number to its default changes nothing."""
    plain = ("objective.beta", "optimiser.lr", "batch_size", "steps", "seed", "latent.size")
    rows = {row.path: row.default for row in fields.spec_fields(Run, default=Run())}
    assert override(Run, [f"{path}={rows[path]}" for path in plain]) == Run()
    assert rows["optimiser.lr"] == "0.0001"
    assert rows["network"] == "not set"


@pytest.mark.parametrize("name", ["", "objective", "objective=factor-vae", "optimiser", "data",
                                  "latent", "optimiser.lr", "labels", "data=folder"])  # fmt: skip
@pytest.mark.parametrize("width", [80, 100])
def test_listings_fit(name, width):
    text = fields.listing(name, width)
    assert max(map(len, text.splitlines())) <= width
    assert "see the documentation" not in text


def test_a_choice_lists_its_fields_with_default_range_and_meaning():
    text = " ".join(fields.listing("objective=factor-vae").split())
    assert "objective.gamma 35 number at least 0, or a schedule: cyclic, linear" in text
    assert "Weight of the total correlation TC(z)." in text
    assert "objective.critic.optimiser.lr 0.0001 number > 0 Learning rate." in text
    assert "objective.beta" not in text


def test_members_of_a_list_are_set_by_number():
    text = " ".join(fields.listing("labels").split())
    assert "labels.0.share 0.1 number > 0 and at most 1" in text
    assert "labels.0.factor required text" in text


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_has_a_page_and_its_example_works(kind):
    text = methods.method_page(kind)
    assert f"={kind}" in text
    for line in text.splitlines():
        if line.startswith("  unweave train "):
            arguments = shlex.split(line)[2:]
            if kind not in ("modules", "product"):  # these have no defaults
                (run,) = runs_from(arguments)
                assert f"'kind': '{kind}'" in str(to_json(run))


def test_a_method_page_has_equation_fields_papers_and_command():
    text = methods.method_page("factor-vae")
    assert "-ELBO + gamma TC(z)" in text
    assert "Kim2018  Disentangling by Factorising" in text
    assert "unweave train objective=factor-vae objective.gamma=35" in text
    both = methods.method_page("gaussian")
    assert "latent=gaussian" in both
    assert "likelihood=gaussian" in both


@pytest.mark.parametrize("name", sorted({m.name for m in (METRICS | UNSUPERVISED).values()}))
def test_every_metric_has_a_page(name):
    text = metrics.metric_page(name)
    chosen = [m for m in (METRICS | UNSUPERVISED).values() if m.name == name]
    assert all(m.protocol in text for m in chosen)
    assert f"--metrics {name}" in text


def test_a_metric_page_has_protocols_needs_and_options():
    text = metrics.metric_page("mig")
    assert "the standard deviations of q(z|x)" in " ".join(text.split())
    assert "bins=20" in text
    assert "bins per code" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["methods", "factorvae"], "did you mean 'factor-vae'?"),
        (["metrics", "migg"], "did you mean 'mig'?"),
        (["metrics", "MIG"], "did you mean 'mig'?"),
        (["evaluate", "3f2a", "--metrics", "MIG"], "did you mean 'mig'?"),
        (["evaluate", "3f2a", "--metrics", "mig/locatello"], "did you mean 'mig/locatello2019'?"),
        (["fields", "objektive"], "did you mean 'objective'?"),
        (["fields", "objective=betavae"], "did you mean 'beta-vae'?"),
        (["fields", "optimiser.rate"], "is not a field of Adam"),
        (["fields", "network.hidden"], "unweave fields network"),
    ],
)
def test_unknown_names_are_suggested(unweave, arguments, message):
    code, out, err = unweave(*arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def test_an_unknown_protocol_names_only_the_nearest(unweave):
    _, _, err = unweave("evaluate", "3f2a", "--metrics", "mig/locatello")
    assert 1 <= len(set(re.findall(r"\w+/\w+", err)) - {"mig/locatello"}) <= 5


def test_the_commands_print(unweave):
    for command, names in (("methods", members(Objective)), ("metrics", metrics.names())):
        _, out, _ = unweave(command)
        lines = out.splitlines()
        assert all(sum(line.startswith(f"  {name} ") for line in lines) == 1 for name in names)
        assert len(lines) < 70
        assert max(map(len, lines)) <= 100
        assert unweave(command, "--page")[1].startswith(f"# {command.title()}\n")
        assert unweave(command, "mig", "--page")[0] == 2
    assert "objective.gamma" in unweave("methods", "factor-vae")[1]
    assert "chen2018" in unweave("metrics", "mig")[1]
    assert "batch_size" in unweave("fields")[1]
