"""Hostile calls of the Python API: every one works, or raises an error that says why.

The convention: a value that cannot be used is a ValueError, and an argument of a wrong Python type
or name a ValueError or a TypeError. A path that the operating system refuses is an OSError.
Anything else, such as an IndexError, is a bug.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from fuzzing import choose, fuzz_on, generator, hostile_arrays
from unweave import metrics as m
from unweave.data import from_array, in_classes
from watched import watched

VALUES = {
    "none": None, "true": True, "false": False, "zero": 0, "one": 1, "two": 2, "minus": -1,
    "half": 0.5, "nan": float("nan"), "inf": float("inf"), "2**64": 2**64, "10**400": 10**400,
    "text": "x", "empty": "", "list": [], "numbers": [0, 1], "names": ["a", "b"], "tuple": (1,),
    "dict": {}, "named": {"a": 2}, "set": {1}, "bytes": b"x", "object": object(), "type": int,
    "array": np.arange(3), "generator": np.random.default_rng(0), "complex": 1j, "nul": "a\0b",
    "surrogate": "\ud800", "escape": "\x1b[31m", "long": "x" * 5000, "spec": uw.Gaussian(2),
    "beta": uw.BetaVAE(2.0), "numpy": np.int64(2), "numpy bool": np.True_, "range": range(2),
}  # fmt: skip
OF_TABLES = ["mig", "mcc", "modularity", "jemmig", "mig_sup", "dcimig", "irs", "merge", "Table"]
OF_CODES = ["hoyer", "relative_scale", "gaussian_total_correlation", "active_units"]
KEYWORDS = {
    **dict.fromkeys(OF_TABLES[:7], ("seed", "interval", "resamples", "null", "reseeds", "ceiling",
                                    "continuous", "factor_names", "discrete", "leave_out")),
    "merge": ("periods", "factor_names"),
    "Table": ("scales", "kl", "discrete", "normal", "factor_names", "factor_sizes", "periods",
              "continuous", "row_names"),
}  # fmt: skip
TINY = {"network": uw.MLP((4,)), "latent": uw.Gaussian(2), "steps": 1, "batch_size": 8}
FIELDS = ("latent", "network", "likelihood", "objective", "optimiser", "batch_size", "seed", "data")
SPECS = [uw.Run, uw.Gaussian, uw.Categorical, uw.BetaVAE, uw.FactorVAE, uw.Adam, uw.MLP, uw.Conv,
         uw.Linear, uw.Arrays, uw.Shapes2D, uw.Product, uw.Label, uw.Measure]  # fmt: skip


def keywords(rng, names, most=2):
    return {name: choose(rng, VALUES)[1] for name in rng.sample(names, min(most, len(names)))}


def array(rng, usual):
    """A hostile array, or the usual one half of the time."""
    arrays = hostile_arrays(0)
    return (usual, arrays[usual]) if rng.random() < 0.5 else choose(rng, arrays)


def metric_call(rng):
    name = rng.choice(OF_TABLES)
    (one, codes), (two, factors) = array(rng, "codes"), array(rng, "factors")
    given = keywords(rng, KEYWORDS[name], rng.randint(0, 2))
    if name == "merge":
        given = {"periods": {"factor 0": 2}, **given}
        return f"merge {two} {given}", lambda: m.merge(factors, **given)
    return f"{name} {one} {two} {given}", lambda: getattr(m, name)(codes, factors, **given)


def code_call(rng):
    name, (one, codes) = rng.choice(OF_CODES), array(rng, "codes")
    return f"{name} {one}", lambda: getattr(m, name)(codes)


def evaluate_call(rng):
    given = {"metrics": ["mig"], **keywords(rng, ("metrics", "seed", "interval", "continuous"), 1)}
    arrays = hostile_arrays(0)
    table = m.Table(arrays["codes"], arrays["factors"])
    return f"evaluate {given}", lambda: m.evaluate(table, **given)


def data_call(rng):
    (one, x), (two, factors) = array(rng, "codes"), array(rng, "factors")
    given = keywords(rng, ("names", "scale", "axes", "device"), rng.randint(0, 1))
    if rng.random() < 0.2:
        return f"in_classes {one}", lambda: in_classes(x, 3)
    return f"from_array {one} {two} {given}", lambda: from_array(x, factors, **given)


def fit_call(rng):
    one, x = array(rng, "codes")
    given = TINY | keywords(rng, FIELDS[:-1], rng.randint(0, 2))
    return f"fit {one} {given}", lambda: uw.fit(x, progress=False, **given)


def spec_call(rng):
    cls = rng.choice(SPECS)
    names = list(getattr(cls, "__dataclass_fields__", {"style": 0, "kind": 0}))
    given = keywords(rng, names, rng.randint(0, 3))
    positional = [choose(rng, VALUES)[1]] if rng.random() < 0.2 else []
    return f"{cls.__name__} {positional} {given}", lambda: cls(*positional, **given)


def model_call(rng, model):
    one, x = choose(rng, hostile_arrays(0))
    name = rng.choice(["encode", "decode", "reconstruct", "posterior", "sample", "traverse"])
    given = rng.choice([x, choose(rng, VALUES)[1]])
    return f"{name} {one} {given!r:.60}", lambda: getattr(model, name)(given)


CALLS = [metric_call, metric_call, metric_call, code_call, evaluate_call, data_call, spec_call,
         spec_call, fit_call]  # fmt: skip


def check(seed, model):
    """Make a call, and say what is wrong with how it ended; "" if nothing is."""
    rng = generator(seed)
    make = rng.choice([*CALLS, None])
    what, call = make(rng) if make else model_call(rng, model)
    with warnings.catch_warnings(), np.errstate(all="ignore"), watched(Path.cwd()) as found:
        warnings.simplefilter("ignore")
        try:
            call()
        except (ValueError, TypeError, OSError) as error:
            if not str(error):
                found.append("an error without a message")
    return f"seed {seed}: {what}: {'; '.join(found)}" if found else ""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model; calls run in a folder of their own."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("fuzz"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield uw.fit(hostile_arrays(0)["codes"], progress=False, **TINY)
    os.chdir(before)


def test_calls_end_as_they_should(model):
    assert [problem for seed in range(150) if (problem := check(seed, model))] == []


@pytest.mark.slow
def test_many_calls_end_as_they_should(model):
    """As many as UNWEAVE_FUZZ_SECONDS allow; the seeds are new each time, and printed."""
    assert fuzz_on("calls", lambda seed: check(seed, model)) == []
