"""The project's own rules: imports go one way, and what is public says where it comes from."""

import ast
import functools
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave
from unweave.catalogue.data import page as data_page
from unweave.catalogue.methods import methods, page
from unweave.catalogue.metrics import page as metrics_page
from unweave.core.bibliography import citations, cited, entries
from unweave.core.spec import members
from unweave.data import Data
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.metrics import METRICS
from unweave.metrics.model_metrics import MODEL_METRICS
from unweave.networks import Network
from unweave.objectives import AnyDivergence, Objective
from unweave.training.run import Run

SOURCE = Path(unweave.__file__).parent
ROOT = Path(__file__).parent.parent
# From the bottom up: the folders of each layer, and the folders of the same layer that each may
# import from. A module may also import from its own folder and from all layers below.
LAYERS = [
    {"kernels": [], "core": ["kernels"]},
    {"data": []},
    {
        "latents": [],
        "networks": [],
        "likelihoods": ["latents"],
        "aggregate": ["latents"],
        "models": ["latents", "networks", "likelihoods"],
    },
    {"objectives": []},
    {"training": [], "metrics": []},
    {"evaluation": [], "theory": ["evaluation"]},
    {"executors": []},
    {
        "report": [],
        "explorer": ["report"],
        "bench": [],
        "presets": [],
        "catalogue": ["report"],
        "studies": ["report", "bench"],
        "papers": ["presets", "studies"],
    },
    {"testing": [], "cli": [], "__main__": ["cli"]},
]
LEVEL = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}
FILES = sorted(SOURCE.rglob("*.py"))
OWN_DATA = {"arrays", "folder", "memory", "selected", "blobs", "blocks"}  # have no paper


def package(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def imported(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from [parts[1] for parts in names if parts[0] == "unweave" and len(parts) > 1]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unweave":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_the_layers(path):
    if path == SOURCE / "__init__.py":
        return
    here = package(path)
    beside = LAYERS[LEVEL[here]][here]
    for name in imported(path):
        below = LEVEL[name] < LEVEL[here]
        assert name == here or below or name in beside, f"{path} imports {name}"


def test_files_are_short_enough_to_be_read_at_once():
    paths = [*FILES, *(ROOT / "tests").glob("*.py")]
    lengths = {path.name: len(path.read_text().splitlines()) for path in paths}
    assert {path: length for path, length in lengths.items() if length > 500} == {}


def test_at_most_eight_modules_lie_loose_in_the_package():
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_the_layers_list_every_folder():
    assert {package(path) for path in FILES} == {*LEVEL, "__init__"}


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_what_a_benchmark_imports_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unweave":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_public_method_has_or_inherits_documentation(path):
    if package(path) in ("kernels", "__main__"):
        return
    parts = path.relative_to(SOURCE).with_suffix("").parts
    module = importlib.import_module(".".join(["unweave", *parts]).removesuffix(".__init__"))
    for cls in vars(module).values():
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and cls.__name__[0] != "_":
            for name, member in vars(cls).items():
                method = getattr(member, "__name__", name) == name and hasattr(member, "__get__")
                if name[0] != "_" and method:
                    assert inspect.getdoc(getattr(cls, name)), f"{cls.__name__}.{name}"


def test_no_class_name_is_defined_twice():
    """A latent space and a likelihood of one distribution share its name, and differ by module."""
    homes = {}
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    twice = {name for name, paths in homes.items() if len(paths) > 1}
    assert twice == {"Bernoulli", "Gaussian", "Laplace"}, [homes[name] for name in twice]


MEMBERS = [
    cls
    for union in (Objective, Latent, Data, Likelihood, Network)
    for kind, cls in members(union).items()
    if kind not in {*OWN_DATA, "modules", "mlp"}
]


@pytest.mark.parametrize("cls", MEMBERS, ids=lambda c: c.__name__)
def test_every_member_cites_a_known_reference(cls):
    keys = cited(cls.__doc__)
    assert keys
    assert set(keys) <= set(entries())


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_every_metric_cites_a_known_reference(metric):
    keys = cited(inspect.getdoc(metric.compute))
    assert keys
    assert set(keys) <= set(entries())


def test_every_citation_anywhere_is_known():
    for path in FILES:
        assert set(cited(path.read_text())) <= set(entries()), path


def test_every_reference_is_cited():
    text = "".join(path.read_text() for path in FILES)
    assert set(entries()) == set(cited(text))


def test_a_run_cites_what_it_uses_and_nothing_else(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((200, 30)))
    own = Run(data=unweave.Arrays(tmp_path / "x.npy"), objective=unweave.VAE(), batch_size=32)
    plain = own.resolve(own.data.load(torch.device("cpu")))
    assert isinstance(plain.network, unweave.MLP)
    assert set(citations(plain)) == {"Kingma2014", "Kingma2015"}
    default = Run(network=unweave.Kim2018())
    usual = {"Matthey2017", "Kingma2014", "Kim2018", "Higgins2017", "Kingma2015"}
    assert set(citations(default)) == usual
    labelled = Run(labels=(unweave.Label("shape"),), latent=unweave.Categorical(3))
    assert {"Esmaeili2019", "Siddharth2017", "Maddison2017"} <= set(citations(labelled))
    covariance = Run(latent=unweave.Gaussian(4, learn="covariance"))
    assert set(citations(covariance)) - set(citations(Run())) == {"Esmaeili2019"}


def test_the_page_of_methods_is_that_of_the_code():
    """`unweave methods --page > docs/methods.md` writes it anew."""
    assert (ROOT / "docs/methods.md").read_text() == page()


def test_the_page_of_metrics_is_that_of_the_code():
    """`unweave metrics --page > docs/metrics.md` writes it anew."""
    text = metrics_page()
    assert (ROOT / "docs/metrics.md").read_text() == text
    for metric in METRICS.values():
        assert f"\n## {metric.name}\n" in text
        assert f"| {metric.protocol} |" in text
    of_models = next(part for part in text.split("\n\n") if "need trained models" in part)
    assert set(re.findall("`(\\w+)`", of_models)) == {*MODEL_METRICS}
    for need in re.findall(r"\| (?:yes|no) \| (.*) \|", text):
        assert need.count("at least two values") <= 1  # two factors that vary include one


def test_the_page_of_data_sets_is_that_of_the_code():
    """`unweave data page --pictures figures > docs/datasets.md` writes it anew."""
    assert (ROOT / "docs/datasets.md").read_text() == data_page("figures")
    assert "![" not in data_page()


def test_the_readme_counts_what_is_there():
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"It has {len(members(Objective))} objectives" in text
    names = {metric.name for metric in METRICS.values()}
    assert f"and {len(names)} metrics under {len(METRICS)} named protocols" in text


def test_every_picture_in_the_documentation_is_there_and_small():
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text()):
            assert 0 < (path.parent / name).stat().st_size < 2**19, f"{name} of {path}"


def test_every_method_has_a_source():
    for union in (Objective, AnyDivergence, Latent):
        for method in methods(union):
            assert method.text, method.kind
    assert all(method.sources for method in methods(AnyDivergence))


LOADED = """
import contextlib, io, sys
from unweave.cli import main as cli

def found(names, *arguments):
    sys.argv = ["unweave", *arguments]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        cli.main()
    return [name for name in names.split() if name in sys.modules]

rare = "sklearn scipy.stats scipy.optimize matplotlib triton pandas h5py pyarrow"
some = rare + " scipy jinja2 loky unweave.metrics unweave.papers unweave.report"
all_but_the_line = some + " torch numpy unweave.data"
told = [found(all_but_the_line, "--help"), found(all_but_the_line, "evaluate", "--help")]
told += [found(all_but_the_line, "status")]
told += [found(some, "data", "list"), found(some, "runs")]
import unweave
for name in unweave.__all__:
    getattr(unweave, name)
told += [[name for name in rare.split() if name in sys.modules]]
small = ["data=blobs", "network=mlp", "network.hidden=[4]", "steps=1", "--store", "runs"]
print(*told, found("torch._dynamo sympy", "train", *small))
"""


def test_what_is_slow_to_load_is_loaded_where_it_is_used(tmp_path):
    """Help loads no torch, training no compiler, nothing what only some metrics and files need."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["[]"] * 7
    assert list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("package", [unweave, unweave.training], ids=lambda each: each.__name__)
def test_names_of_a_stub_are_those_that_a_type_checker_sees(package):
    """It exports only what is imported `as` itself; the stub says where each name is from."""
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    for node in imports:
        for alias in node.names:
            home = importlib.import_module(node.module)
            assert getattr(package, alias.name) is getattr(home, alias.name)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


PUBLIC = ["aggregate", "data", "latents", "metrics", "networks", "objectives", "papers"]
PUBLIC += ["presets", "report", "theory"]


@pytest.mark.parametrize("folder", PUBLIC)
def test_a_folder_exports_its_own_names_and_nothing_that_it_only_uses(folder):
    """Help shows what is in `__all__`."""
    package, found = importlib.import_module(f"unweave.{folder}"), {}
    exec(f"from unweave.{folder} import *", found)
    assert found.keys() - {"__builtins__"} == set(package.__all__)
    shown = pydoc.plain(pydoc.render_doc(package))
    for name in package.__all__:
        if inspect.isfunction(found[name]) or inspect.isclass(found[name]):
            assert found[name].__module__.startswith("unweave.")
            assert f" {name}" in shown


def test_public_names_are_documented():
    for name in unweave.__all__:
        assert getattr(unweave, name).__doc__, name


GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("time", range(2))
def test_the_generators_of_a_module_restart_before_each_test(time):
    """So a test draws the same numbers, whichever tests run before it."""
    assert GENERATOR.random() == np.random.default_rng(0).random()
