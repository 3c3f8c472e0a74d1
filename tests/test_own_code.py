"""The hash of a part's code follows the user's modules, and nothing else."""

import importlib
import linecache
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import unweave as uw
from datasets import small_run
from unweave.core import code_hash, parts
from unweave.core.code_hash import source_hash
from unweave.objectives import VAEObjective, elbo_terms

PART = "class Part:\n    def loss(self, x):\n        return {}\n"


@pytest.fixture
def hash_of(tmp_path, monkeypatch):
    """A function that writes modules, imports the first, and hashes its `Part`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def forget():
        for name in [n for n in sys.modules if n.partition(".")[0] in names]:
            del sys.modules[name]
        importlib.invalidate_caches()
        linecache.checkcache()

    def of(files):
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
            names.add(path.partition("/")[0].removesuffix(".py"))
        forget()
        first = next(iter(files)).removesuffix(".py").replace("/", ".")
        return source_hash(importlib.import_module(first).Part)

    yield of
    forget()


SCALE = "def scale(x):\n    return 2 * x\n\ndef unrelated():\n    return 1\n"
REACHED = {  # the module of the part, the import, the other modules; the changed one is the last
    "helper": ("from helper import scale", "scale(x)", {"helper.py": SCALE}),
    "module": ("import helper", "helper.scale(x)", {"helper.py": SCALE}),
    "alias": ("import helper as h", "h.scale(x)", {"helper.py": SCALE}),
    "star": ("from helper import *", "scale(x)", {"helper.py": SCALE}),
    "subpackage": (
        "from pack.inner.deep import scale",
        "scale(x)",
        {"pack/__init__.py": "", "pack/inner/__init__.py": "", "pack/inner/deep.py": SCALE},
    ),
    "attributes of a package": (
        "import pack.deep",
        "pack.deep.scale(x)",
        {"pack/__init__.py": "", "pack/deep.py": SCALE},
    ),
    "folder without __init__": (
        "from folder import deep",
        "deep.scale(x)",
        {"folder/deep.py": SCALE},
    ),
    "name exported again": (
        "from pack import scale",
        "scale(x)",
        {"pack/__init__.py": "from .deep import scale", "pack/deep.py": SCALE},
    ),
    "through another": (
        "from first import scaled",
        "scaled(x)",
        {"first.py": "import helper\nscaled = helper.scale", "helper.py": SCALE},
    ),
    "import that may fail": (
        "try:\n    from helper import scale\nexcept ImportError:\n    scale = abs",
        "scale(x)",
        {"helper.py": SCALE},
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_a_helper_in_another_module_counts(name, hash_of):
    statement, call, others = REACHED[name]
    *_, changed = others
    files = {"mine.py": f"{statement}\n\n{PART.format(call)}", **others}
    before = hash_of(files)
    assert hash_of(files | {changed: "# a comment\n" + SCALE}) == before
    assert hash_of(files | {changed: SCALE.replace("    ", '    """Scale."""\n    ')}) == before
    assert hash_of(files | {changed: SCALE.replace("2 * x", "3 * x")}) != before


def test_a_relative_import_counts(hash_of):
    files = {
        "pack/mine.py": f"from .inner import tool\n{PART}".replace("{}", "tool.scale(x)"),
        "pack/__init__.py": "",
        "pack/inner/__init__.py": "",
        "pack/inner/tool.py": "from ..beside import scale\n",
        "pack/beside.py": SCALE,
    }
    before = hash_of(files)
    assert hash_of(files | {"pack/beside.py": SCALE.replace("2 * x", "3 * x")}) != before
    assert hash_of(files | {"pack/__init__.py": "x = 1\n"}) == before  # it is not imported from


@pytest.mark.parametrize("path", ["later.py", "folder/inner/later.py", "folder/later/__init__.py"])
def test_an_import_in_a_function_counts_before_it_is_executed(path, hash_of):
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    inside = PART.replace("return {}", f"from {module} import scale\n        return scale(x)")
    beside = path.replace("later.py", "beside.py").replace("__init__.py", "beside.py")
    files = {"mine.py": inside, path: "from .beside import scale\n", beside: SCALE}
    if "/" not in path:
        files[path] = "from beside import scale\n"
    before = hash_of(files)
    assert module not in sys.modules
    assert hash_of(files | {beside: SCALE.replace("2 * x", "3 * x")}) != before


def test_a_file_with_the_name_of_a_function_does_not_hide_its_module(hash_of):
    part = "from helper import scale\n" + PART.replace("return {}", "return scale(x)")
    files = {"mine.py": part, "scale.py": "print(1)\n", "helper.py": SCALE}
    before = hash_of(files)
    assert hash_of(files | {"helper.py": SCALE.replace("2 * x", "3 * x")}) != before
    assert hash_of(files | {"scale.py": "print(2)\n"}) == before


def test_libraries_do_not_count_wherever_they_are(hash_of):
    """A base class in `site-packages`, and PyTorch that is built in a folder of its own."""
    head = "import torch\n\n\nclass Part(torch.nn.Module):\n    pass\n"
    before = hash_of({"mine.py": head})
    used = code_hash._UsedCode(sys.modules["mine"].Part)
    (own,) = used.texts
    assert "id='torch'" in own
    torch_file = "/home/me/pytorch/torch/nn/modules/module.py"
    assert not used._is_of_user(Path(torch_file), "torch.nn.modules.module")
    assert before == hash_of({"mine.py": head})


def test_a_long_chain_of_imports_counts_to_its_end(hash_of):
    """It must not end in a RecursionError."""
    chain = {f"m{i}.py": f"def f():\n    from m{i + 1} import f\n" for i in range(600)}
    part = "from m0 import f\n" + PART.replace("return {}", "return f()")
    before = hash_of({"mine.py": part, **chain, "m600.py": "x = 1\n"})
    assert hash_of({"mine.py": part, **chain, "m600.py": "x = 2\n"}) != before


@pytest.mark.parametrize("decorated", [False, True])
def test_code_that_a_part_does_not_reach_is_not_hashed(decorated, hash_of):
    head = "import unweave as uw\nfrom helper import scale\nimport plots\n"
    used = PART.replace("{}", "super().loss(scale(x))").replace("return", "model =")
    used = ("\n@uw.spec\n" if decorated else "\n") + used
    script = "\nmodel = plots.draw(Part)\n"
    files = {"mine.py": head + used, "helper.py": SCALE, "plots.py": "def draw(x):\n    pass\n"}
    before = hash_of(files)
    assert hash_of(files | {"plots.py": "def draw(x):\n    return x\n"}) == before
    assert hash_of(files | {"helper.py": SCALE, "elsewhere.py": "x = 1\n"}) == before
    # A variable of a method is not the variable of the script that has its name.
    assert hash_of(files | {"mine.py": head + used + script}) == before


def test_a_hash_is_the_same_in_every_version_of_python(hash_of):
    """The texts of `ast.unparse` and `ast.dump` are not."""
    part = """
    class Part:
        def loss(self, x: dict[str, float], *, scale=1e-3) -> str:
            with open("a") as f, open("b") as g:
                text = f"{x['a']} {x['b']!r:>{scale}} {{}} it's {scale=}" if x else f''
            return text, -1, 2**-3, 1e400, (1,), [*x], "\\u00e9\\n", x[1:2, ...], lambda *a, b=2: a
    """
    assert hash_of({"mine.py": part}) == "c053d70f"


def test_the_order_of_imports_and_definitions_does_not_count(hash_of):
    helpers = {"a.py": "def f(x):\n    return x\n", "b.py": "def g(x):\n    return -x\n"}
    both = PART.replace("return {}", "return f(g(x))")
    one = hash_of({"mine.py": f"from a import f\nfrom b import g\n{both}", **helpers})
    other = hash_of({"mine.py": f"from b import g\nfrom a import f\n{both}", **helpers})
    assert one == other


def test_what_is_assigned_twice_or_under_a_condition_counts(hash_of):
    part = PART.replace("return {}", "return SCALE * f(x)")
    top = "SCALE = 1\nSCALE = SCALE + 1\nif True:\n    def f(x):\n        return x\n"
    before = hash_of({"mine.py": top + part})
    for change in (("SCALE = 1", "SCALE = 5"), ("return x\n", "return 2 * x\n")):
        assert hash_of({"mine.py": top.replace(*change) + part}) != before


def test_a_part_of_an_installed_package_counts_with_its_package_alone(tmp_path, monkeypatch):
    place = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(place)
    head = "import dataclasses\nfrom .deep import scale\nfrom other import y\n"
    part = f"{head}@dataclasses.dataclass\n{PART}".replace("{}", "y(scale(x))")
    files = {"__init__.py": "", "mine.py": part, "deep.py": SCALE}
    hashes = []
    for deep, other in (("2 * x", "x"), ("2 * x", "-x"), ("3 * x", "x")):
        for path, text in files.items():
            (place / "packed").mkdir(parents=True, exist_ok=True)
            (place / "packed" / path).write_text(text.replace("2 * x", deep))
        (place / "other.py").write_text(f"def y(x):\n    return {other}\n")
        sys.modules.pop("other", None)
        for name in [n for n in sys.modules if n.startswith("packed")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        linecache.checkcache()
        hashes.append(source_hash(importlib.import_module("packed.mine").Part))
    assert hashes[0] == hashes[1] != hashes[2]
    sys.modules.pop("other", None)


def test_a_helper_that_is_imported_again_changes_the_hash_of_the_same_class(hash_of, tmp_path):
    """As in a notebook that reloads modules."""
    part = "import helper\n" + PART.replace("return {}", "return helper.scale(x)")
    before = hash_of({"mine.py": part, "helper.py": SCALE})
    (tmp_path / "helper.py").write_text(SCALE.replace("2 * x", "3 * x"))
    linecache.checkcache()
    cls = sys.modules["mine"].Part
    assert source_hash(cls) == before  # the old code is what runs
    importlib.reload(sys.modules["helper"])
    assert source_hash(cls) != before


# ---- notebooks


@pytest.fixture
def notebook(monkeypatch):
    """A function that executes a cell; `__main__` has no file, and `linecache` has the cells."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(parts, "_used", {})
    cells = []

    def execute(cell, source=True):
        name = f"<ipython-input-{len(cells)}>"
        cells.append(name)
        text = textwrap.dedent(cell)
        if source:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), main.__dict__)
        return main

    yield execute
    for name in cells:
        linecache.cache.pop(name, None)


CELL = """
class Part:
    def loss(self, x):
        return SCALES["a"] * helper(x)
"""
HELPERS = "SCALES = {'a': 2}\ndef deep(x):\n    return x\ndef helper(x):\n    return deep(x)\n"


@pytest.mark.parametrize("source", [True, False], ids=["with source", "compiled only"])
@pytest.mark.parametrize(
    "cell",
    [
        "def deep(x):\n    return 2 * x\n",
        "def helper(x):\n    return 3 * deep(x)\n",
        "SCALES = {'a': 3}\n",
        "SCALES['a'] = 3\n",
        "class Part:\n    def loss(self, x):\n        return 1\n",
    ],
)
def test_a_cell_of_a_notebook_that_is_changed_counts(cell, source, notebook):
    notebook(HELPERS, source)
    before = source_hash(notebook(CELL, source).Part)
    assert source_hash(notebook("unrelated = 3\n", source).Part) == before
    assert source_hash(notebook(HELPERS, source).Part) == before  # executed again
    assert source_hash(notebook(CELL, source).Part) == before
    assert source_hash(notebook(cell, source).Part) != before


def test_a_module_that_a_notebook_imports_counts(notebook, hash_of, tmp_path):
    (tmp_path / "tools.py").write_text(SCALE)
    uses = "from tools import scale\nclass Part:\n    def loss(self, x):\n        return scale(x)\n"
    before = source_hash(notebook(uses).Part)
    (tmp_path / "tools.py").write_text(SCALE.replace("2 * x", "3 * x"))
    sys.modules.pop("tools")
    linecache.checkcache()
    importlib.invalidate_caches()
    assert source_hash(notebook(uses).Part) != before
    sys.modules.pop("tools")


def test_a_class_that_was_defined_again_keeps_the_hash_of_its_own_code(notebook):
    old = notebook(HELPERS + CELL).Part
    before = source_hash(old)
    new = notebook(HELPERS.replace("return x", "return -x") + CELL).Part
    assert source_hash(old) == before != source_hash(new)


# ---- classes in functions


def make(function):
    @uw.spec
    class Local(VAEObjective):
        def loss(self, forward, batch, noise):
            return elbo_terms(forward, rate=function(1.0))

    return Local()


def twice(x):
    return 2 * x


def thrice(x):
    return 3 * x


def difference(a, b):
    @uw.spec
    class Local(VAEObjective):
        def loss(self, forward, batch, noise):
            return elbo_terms(forward, rate=a - b)

    return Local()


def test_variables_of_the_function_around_a_class_count_by_name():
    one, same, other = (difference(1, 2), difference(1, 2), difference(2, 1))
    digests = [small_run(objective=each).digest for each in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_function_that_a_class_in_a_function_refers_to_counts():
    two, three = (small_run(objective=make(function)) for function in (twice, thrice))
    assert two.digest != three.digest
    assert two.digest == small_run(objective=make(twice)).digest


# ---- the command line


def test_after_a_change_in_another_module_the_command_line_trains_again(
    tmp_path, monkeypatch, unweave
):
    """It used to say that the run was already finished."""
    (tmp_path / "my_helper.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "my_loss.py").write_text(
        "import unweave as uw\nimport my_helper\n"
        "from unweave.objectives import VAEObjective, elbo_terms\n\n@uw.spec\n"
        "class Mine(VAEObjective):\n    def loss(self, forward, batch, noise):\n"
        "        return elbo_terms(forward, rate=my_helper.FACTOR)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(parts, "_used", {})
    command = ("train", "objective=my_loss:Mine", "data=blobs", "network=mlp", "steps=2")

    def train():
        for name in ("my_loss", "my_helper"):
            sys.modules.pop(name, None)
        parts._used.clear()
        importlib.invalidate_caches()
        linecache.checkcache()
        code, _, err = unweave(*command, "--store", "runs")
        assert code == 0, err
        anew.append([line for line in err.splitlines() if "anew" in line])
        return "already finished" in err

    anew = []
    assert not train()
    (first,) = (tmp_path / "runs").iterdir()
    assert train()
    (tmp_path / "my_helper.py").write_text("FACTOR = 2.0  # two\n")
    assert train()
    (tmp_path / "my_helper.py").write_text("FACTOR = 3.0\n")
    assert not train()
    assert anew == [[], [], [], [
        "the run starts anew, because the code of my_loss:Mine has changed since run "
        f"{first.name}, which is kept"
    ]]  # fmt: skip
    assert len(list((tmp_path / "runs").iterdir())) == 2
    code, _, err = unweave("--import", "my_loss", "evaluate", str(first), "--metrics", "mig",
                           "--rows", "200")  # fmt: skip
    assert (code, err.count("the code of my_loss:Mine has changed")) == (0, 1), err
    both = sorted(map(str, (tmp_path / "runs").iterdir()))
    code, out, err = unweave("--import", "my_loss", "compare", *both)
    assert code == 0, err
    assert "objective.source-hash" in out  # and neither run is taken for a copy of the other
    code, out, err = unweave("--import", "my_loss", "evaluate", *both, "--metrics", "mig",
                             "--rows", "200")  # fmt: skip
    assert (code, "2 groups of settings" in out) == (0, True), err
    for name in ("my_loss", "my_helper"):
        sys.modules.pop(name, None)


def test_the_hash_is_computed_once(monkeypatch):
    part = make(twice)
    source_hash(type(part))
    monkeypatch.setattr(code_hash, "_UsedCode", None)
    assert source_hash(type(part))
