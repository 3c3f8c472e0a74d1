"""The examples of CONTRIBUTING.md are complete, and pass the checks of `unweave.testing`."""

import linecache
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

import unweave as uw

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_examples_import_only_public_names():
    """Those of the package, and those that its public folders and modules export."""
    imported = re.findall(r"^from (unweave\S*) import (.*)$", "\n".join(BLOCKS), re.MULTILINE)
    assert len(imported) > 8
    for module, names in imported:
        assert module.count(".") == 1
        found = import_module(module)
        assert {*names.split(", ")} <= {*getattr(found, "__all__", dir(found))}, module
    docs = (Path(__file__).parent.parent / "docs").glob("*.md")
    assert not [path for path in docs if "from unweave.core" in path.read_text()]


def test_the_examples_run_and_their_parts_pass_their_checks(monkeypatch, tmp_path):
    assert len(BLOCKS) == 7
    path = tmp_path / "examples.py"
    path.write_text("\n".join(BLOCKS))
    module = ModuleType("examples")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "examples", module)
    linecache.checkcache()
    exec(compile(path.read_text(), path, "exec"), module.__dict__)
    assert {model.run.objective.kind for model in module.models} == {"examples:CappedVAE"}
    scores, _ = uw.evaluate(module.models, rows=200, metrics=["mig", module.strongest_link])
    assert any("strongest_link" in name for name in scores)
    assert all(np.isfinite(float(score)) for score in scores.values())


def test_the_example_of_a_block_in_the_docs_passes_its_check(monkeypatch, tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "latents.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text.partition("## Your own block")[2], re.DOTALL)
    path = tmp_path / "blocks.py"
    path.write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("blocks").DoubleLaplace(3).factorised
