"""Hostile values, and command lines made of the real parsers, for the fuzzers.

No value is a path out of the working folder, and no command trains for more than a few steps.
"""

import json
import os
import random
import time
import unicodedata

import numpy as np
import typer

from unweave.catalogue.fields import spec_fields
from unweave.cli import main as cli
from unweave.training.run import Run

DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
NUMBERS = [
    "0", "1", "2", "3", "-1", "0.5", "1e-9", "-0.0", "1e999", "-1e999", "NaN", "Infinity", "nan",
    "inf", "4294967296", "18446744073709551616", "9223372036854775807", "-9223372036854775809",
    "1000000000", "9" * 400, "9" * 5000, "1_000", "0x10", "1e400", "٣", "--1", "+2",
]  # fmt: skip
TEXTS = [
    "", " ", "true", "false", "null", "[]", "{}", "[1,2]", '["a"]', '{"kind":"adam"}', '{"a":{}}',
    "[" * 3000, '{"a":' * 3000, "s[/b]", "s[red]x", "[bold]", "a]b", "\x1b[31mred", "\x9b2J",
    "\u202egnp.exe", "\u2066x", "\ud800", "a\x00b", "x" * 300, "x" * 5000, "a\nb", "a\rb", "a\tb",
    "=1+1", "@sum", "%s%n", "{0}", "a,b", "a=b", "0..3", "3..0", "0..3000000", "-", "--",
    "meta", "cuda:99", "cpu:7", "all", "mig", "dci,mig", "udr", "unsupervised", "z", "__class__",
    "os:system", "data", "kind", "codes", "factors", "train", "test", "held-out", "subset:count=3",
    "subset:count=true", "held-out:a=b", "correlated:factors=a+b", "名前", "é" * 100,
]  # fmt: skip
FILES = [
    "data.npz", "codes.npz", "labels.csv", "hostile.csv", "lie.npy", "bomb.npz", "bad.json",
    "deep.json", "deep.toml", "good.toml", "runs", "photos", "run", "nothing.npz", "out.csv",
    "out.npz", "out.html", "out.png", "new/out.csv", "labels.csv/x",
]  # fmt: skip
PATHS = [field.path for field in spec_fields(Run, default=Run())]
TINY = ["data=data.npz", "network=mlp", "network.hidden=[4]", "latent.size=2", "batch_size=8"]
USUAL = {
    "path": ["data.npz", "codes.npz", "labels.csv", "hostile.csv", "lie.npy", "bomb.npz", "photos"],
    "labels": ["codes.npz", "labels.csv", "hostile.csv", "lie.npy"],
    "factors": ["codes.npz", "labels.csv", "hostile.csv"], "store": ["runs"], "rows": ["2", "20"],
    "thumbnails": ["3"], "device": ["cpu"], "metrics": ["mig", "mcc,irs", "hoyer"],
    "output": ["out.html", "labels.csv"], "out": ["out.csv", "out.npz", "new", "labels.csv"],
    "file": ["out.png", "out.npz", "labels.csv"], "html": ["out.html"], "codes_key": ["codes"],
    "source": ["good.toml", "deep.toml", "deep.json", "bad.json", "sikka2019/linear"],
    "measure": ["mig"], "measure_rows": ["2", "20"], "resamples": ["3"], "reseeds": ["1"],
    "interval": ["0.9"], "columns": ["rate"], "sort": ["-rate"], "where": ["seed=0"],
    "fields": ["key=images", "factors_key=factors", "split=test"], "select": ["subset:count=9"],
    "modules": ["math", "my_parts"], "checkpoint_seconds": ["0"], "classes": ["2"],
    "codes": ["mean", "sample"], "continuous": ["", "a"], "data": ["data.npz", "photos"],
    "embedding": ["umap", "pacmap"], "factors_key": ["factors", "a"], "features": ["codes.npz"],
    "figures": ["fig1", "fig4", "table2"], "lanes": ["1", "1,2"], "level": ["0.9"],
    "every": ["1"], "on": ["local", "local:processes=1", "ray", "slurm"], "measure_every": ["1"],
    "merge": ["results.jsonl"], "minutes": ["0"], "networks": ["0"],
    "paper": ["kim2018", "sikka2019"], "pictures": ["photos"], "port": ["0"], "seconds": ["0.05"],
    "precision": ["fp32", "bf16"], "seed": ["0", "7"], "split": ["train", "test", "all"],
    "svg": ["out.svg"], "threads": ["1"], "title": ["A title"], "workers": ["1", "8"],
    "price": ["2"], "starting": ["60"], "saving": ["1"], "preemptions": ["0.1"], "waiting": ["9"],
}  # fmt: skip
WEIGHTS = {  # those that compute and read files more often, those that take seconds less
    **dict.fromkeys(("train", "score", "evaluate", "encode", "decode", "info"), 5),
    **dict.fromkeys(("report", "share", "demo", "bench"), 0.05),
}
NAMED = ("name", "names")  # the run, or what data and catalogues have
NAMES = {"data": ["mnist", "dsprites", "shapes2d", "data.npz"], "fields": ["objective"],
         "methods": ["beta-vae"], "metrics": ["mig"],
         "presets": ["kim2018/shapes2d-factor-vae"]}  # fmt: skip
ALWAYS = ("rows", "output", "metrics")  # options without which commands take long
OF_TYPER = ("help", "install_completion", "show_completion")  # tested there


def names_of(command, words=()):
    """All commands of the real parser, with those inside of groups."""
    for name, each in getattr(command, "commands", {}).items():
        if getattr(each, "commands", None):
            yield from names_of(each, (*words, name))
        else:
            yield [*words, name], each


ROOT = typer.main.get_command(cli.app)
COMMANDS = list(names_of(ROOT))


def word(rng, run):
    """A value: a hostile number or text, a file, or the run."""
    kind = rng.choice(["number", "text", "text", "file", "run"])
    return run if kind == "run" else rng.choice({"number": NUMBERS, "text": TEXTS}.get(kind, FILES))


def assignment(rng, run):
    """An assignment for `unweave train` that cannot make training long."""
    path = rng.choice([*PATHS, "a", "", "kind", "latent.a", "optimiser.x", "labels.0.factor"])
    if rng.random() < 0.1:
        return word(rng, run)
    value = rng.choice(NUMBERS[:9] + TEXTS) if path == "steps" else word(rng, run)
    return f"{path}={value}"


def plausible(words, name, rng, run):
    """A value that an option or argument of this name may have."""
    if name not in NAMED:
        return rng.choice(USUAL[name])
    return rng.choice(NAMES[words[0]]) if words[0] in NAMES and rng.random() < 0.8 else run


def command_line(rng, run, chosen=None):
    """A command line with some of the options of its command; a third of the values is hostile.

    Args:
        rng: a generator.
        run: the digest of a run.
        chosen: the words and the parser of the command, by default any.
    """
    weights = [WEIGHTS.get(words[-1], 1) for words, _ in COMMANDS]
    words, command = chosen or rng.choices(COMMANDS, weights)[0]
    line = [*_options(ROOT, 0.01, words, rng, run), *words]
    for option in command.params:
        if option.param_type_name != "argument":
            continue
        if option.name == "assignments":
            given = [assignment(rng, run) for _ in range(rng.randint(0, 2))]
            names = {each.partition("=")[0] for each in given}
            line += given + [t for t in (*TINY, "steps=2") if t.partition("=")[0] not in names]
        elif option.required or rng.random() < 0.5:
            line.append(_value(option, words, rng, run))
    return line + _options(command, 0.2, words, rng, run)


def _value(option, words, rng, run):
    return plausible(words, option.name, rng, run) if rng.random() < 0.66 else word(rng, run)


def _options(command, share, words, rng, run):
    """Some options of a command, with values."""
    line = []
    for option in command.params:
        if option.param_type_name == "argument" or option.name in OF_TYPER:
            continue
        if option.name in ALWAYS or rng.random() < share:
            line.append(rng.choice(option.opts))
            if not getattr(option, "is_flag", False):
                line.append(_value(option, words, rng, run))
    return line


def is_clean(text):
    """Whether text has no control characters, ends of lines and tabs aside, or bidi marks."""
    return not any(
        (unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") and each not in "\n\t")
        or unicodedata.bidirectional(each) in DIRECTIONS
        or each in "\u200e\u200f\u061c"
        for each in set(text)
    )


def hostile_arrays(seed):
    """Arrays of every kind that a caller may pass by mistake, with a name."""
    rng = np.random.default_rng(seed)
    codes, factors = rng.normal(size=(60, 3)), rng.integers(0, 3, (60, 2))
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), (2**40, 3), (0, 0))
    read_only = codes.copy()
    read_only.flags.writeable = False
    return {
        "codes": codes, "factors": factors, "float32": codes.astype(np.float32),
        "fortran": np.asfortranarray(codes), "read only": read_only, "reversed": codes[::-1, ::-1],
        "strided": np.repeat(codes, 2, 0)[::2], "0-d": np.array(1.0), "number": 3.0, "none": None,
        "empty": np.zeros((0, 0)), "no rows": np.zeros((0, 3)), "no columns": np.zeros((60, 0)),
        "one row": codes[:1], "vector": codes[:, 0], "3-d": codes[None], "nan": codes * np.nan,
        "one nan": np.where(np.arange(180).reshape(60, 3) == 7, np.nan, codes),
        "inf": np.full((60, 3), np.inf), "1e308": codes * 1e307, "tiny": codes * 1e-320,
        "constant": np.ones((60, 3)), "object": codes.astype(object),
        "objects": np.array([[{}, [], None]] * 60, object), "text": codes.astype(str),
        "words": np.array([["a", "b", ""]] * 60), "bytes": np.array([[b"\xff"] * 3] * 60),
        "complex": codes * 1j, "bool": codes > 0, "dates": factors.astype("M8[s]"),
        "spans": factors.astype("m8[s]"), "records": np.zeros(60, [("a", float), ("b", int)]),
        "huge integers": factors.astype(np.uint64) + 2**63, "negative": -factors - 1,
        "large classes": factors * 2**61, "masked": np.ma.masked_less(codes, 0), "list": [[1, 2]],
        "ragged": [[1, 2], [3]], "string": "codes.npz", "dict": {"a": 1}, "huge view": huge,
        "float16": codes.astype(np.float16), "longdouble": codes.astype(np.longdouble),
        "int8": factors.astype(np.int8), "60 classes": np.arange(60)[:, None] % 60,
    }  # fmt: skip


def choose(rng, pool):
    """One of a pool, by a seeded generator of Python."""
    name = rng.choice(sorted(pool))
    return name, pool[name]


def generator(seed):
    """A seeded generator."""
    return random.Random(seed)


def fuzz_on(what, check):
    """Check one input after another for UNWEAVE_FUZZ_SECONDS; print how many, and what was found.

    `check` returns what is wrong with the input of a seed. The seeds are new each time. The clock
    is read after every input, and an input has a limit of its own, so this ends in time.
    """
    seconds, first = float(os.environ.get("UNWEAVE_FUZZ_SECONDS", "120")), time.time_ns()
    found, end, seed = [], time.monotonic() + seconds, first
    while time.monotonic() < end:
        if problem := check(seed):
            found.append(problem)
            print(problem)
        seed += 1
    print(json.dumps({what: seed - first, "first seed": first, "failures": len(found)}))
    return found
