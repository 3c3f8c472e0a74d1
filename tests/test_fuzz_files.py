"""Odd and damaged files of every format that is read: a result, or one line that names the file.

The files go through the commands that read them. A command may also take no longer and no more
memory than `watched` allows, run nothing that is in a file, and write nowhere else.
"""

import dataclasses
import functools
import gzip
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import odd_files
import odd_images
import unweave as uw
from fuzzing import fuzz_on, generator, is_clean
from mutants import DAMAGE, FILES, changed, sealed_mutants
from odd_files import CELLS, CODES, chance
from published_files import WRITERS
from unweave.core.spec import members
from unweave.data import Published
from unweave.data.files import array_file, images
from unweave.data.published.download import Source
from unweave.presets import preset
from unweave.presets.text import to_toml
from unweave.training.records import seal
from watched import confine, run_command

pytestmark = [pytest.mark.filterwarnings("ignore")]

RESULTS = Path(__file__).parent.parent / "docs/papers/sikka2019"
TINY = "network=mlp network.hidden=[4] latent.size=2 batch_size=1 steps=1 --store tried"
OF_ARRAYS = [
    "data info {}", "data info {} key=codes factors_key=factors", "score {} --metrics mig",
    "score codes.npy {} --metrics mig", "encode model.uw {}", "decode model.uw {}",
    "data info {} key=z0,z1 factors_key=class", "data preview {} --out out.png --overwrite",
    "data info codes.npy --features {} --select subset:count=9", f"train data={{}} {TINY}",
    "evaluate trained --data {} --metrics hoyer --rows 20", "score {} --metrics hoyer --csv",
]  # fmt: skip
OF_IMAGES = [
    "data info {}", "data info {} axes=observations", "data info {} axes=channels size=4",
    "data info photos", "data info photos channels=1 axes=observations size=4 fit=pad",
    "encode images.uw {} --out out.npz", "encode images.uw photos --out out.npz",
    f"train data={{}} data.axes=observations {TINY}",
    "data info {} scale=bytes channels=4", "data preview {} --out out.png --overwrite",
]  # fmt: skip
VALUES = ["", "0", "-1", "1e999", "nan", "true", "'x'", "[]", "{}", "[1, 'a']", "9" * 5000, "0x10",
          "[[[[]]]]", "{a = {b = 1}}", "2026-01-01", "'\\u202e'", '"\\u001b[31m"', "[" * 999, "'",
          "{kind = 'adam'}", "{kind = ['a']}", "{kind = 3}", "'os:system'"]  # fmt: skip


class Kind(NamedTuple):
    """A file to write, how its content is drawn, and the commands that read it."""

    path: str
    draw: Callable
    commands: list[str]
    names: str = ""  # what an error has to name instead of the file, such as its folder


def settings_text(rng):
    """A preset in TOML, with some odd values."""
    text = to_toml(preset("sikka2019/linear"))
    for _ in range(rng.choice([0, 1, 1, 3])):
        places = [*re.finditer(r"(?<== ).+$", text, re.MULTILINE)]
        start, stop = rng.choice(places).span()
        text = text[:start] + rng.choice(VALUES) + text[stop:]
    return text.encode()


def settings_json(rng):
    """The run.json of a run, with an odd value."""
    content = json.loads(Path("trained/run.json").read_text())
    return json.dumps(changed(content, rng)).encode() if chance(rng, 0.8) else rng.choice(FILES)


def model(rng):
    """A file from `model.save`, one part of which has another form, with the right checksum."""
    with zipfile.ZipFile("model.uw") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(parts))
    if chance(rng, 0.7) and (path := Path("trained") / name).exists():
        for _, content in sealed_mutants(path, rng, 1):
            parts[name] = content
    elif chance(rng, 0.5):
        parts[rng.choice([name, "more", "../out"])] = rng.choice(FILES)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return odd_files.zipped(parts, rng) if chance(rng, 0.2) else content.getvalue()


def results(rng):
    """Results of a study, one line of which has an odd value; most have a seal that is right."""
    lines = Path("results.jsonl").read_text().splitlines()
    number = rng.randrange(len(lines))
    stored = json.loads(lines[number])
    owner = stored.pop("seal")["run"]
    part = rng.choice(["facts", "facts", "cost", "curves", ""])
    odd = {**stored, part: changed(stored[part], rng)} if part else changed(stored, rng)
    sealed = isinstance(odd, dict) and chance(rng, 0.9)
    lines[number] = json.dumps(seal("network", owner, odd) if sealed else odd)
    return "\n".join(lines).encode()


def image_labels(rng):
    """A table of labels of images."""
    content = odd_files.csv_text(rng)
    return content.replace(b"file", rng.choice(CELLS).encode()) if chance(rng, 0.1) else content


OF_LABELS = ["data info photos", "data info photos factors=factors.csv ignore=z*",
             f"train data=photos {TINY}"]  # fmt: skip
ARRAYS = {".npy": odd_files.npy, ".npz": odd_files.npz, ".csv": odd_files.csv_text,
          ".parquet": odd_files.parquet,
          **dict.fromkeys((".h5", ".hdf5"), odd_files.hdf5)}  # fmt: skip
PICTURES = {".png": odd_images.png, ".jpg": odd_images.jpeg, ".jpeg": odd_images.jpeg,
            ".gif": odd_images.gif, ".tif": odd_images.tiff, ".tiff": odd_images.tiff,
            **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), odd_images.ppm),
            ".bmp": odd_images.bmp, ".webp": odd_images.webp}  # fmt: skip
KINDS = {
    **{each: Kind(f"odd{each}", draw, OF_ARRAYS) for each, draw in ARRAYS.items()},
    **{each: Kind(f"photos/odd{each}", draw, OF_IMAGES) for each, draw in PICTURES.items()},
    "labels": Kind("photos/factors.csv", image_labels, OF_LABELS),
    "tsv": Kind("photos/odd.tsv", image_labels, OF_LABELS[:1]),
    "toml": Kind("odd.toml", settings_text, [f"train --from {{}} data=codes.npy {TINY}"]),
    "json": Kind("odd.json", settings_json, [f"train --from {{}} data=codes.npy {TINY}"]),
    "model": Kind("odd.uw", model, ["decode {} codes.npy", "encode {} codes.npy"]),
    "results": Kind("odd.jsonl", results, ["reproduce sikka2019 fig1 --merge {} --minutes 0 "
                                           "--out tried"]),
}  # fmt: skip


def published(place, patch):
    """Write small files of all published datasets; return the kinds of files that they have."""
    found = []
    for name, cls in members(Published).items():
        folder = place / "private" / name
        folder.mkdir()
        lattice, shown, _ = WRITERS[name](folder)
        sources = tuple(Source(each.name) for each in cls.ABOUT.sources)  # with any checksum
        facts = {"lattice": lattice, "count": len(shown), "sources": sources}
        patch.setattr(cls, "ABOUT", dataclasses.replace(cls.ABOUT, **facts))
        for path in sorted(folder.iterdir()):
            draw = functools.partial(packed, path.read_bytes())
            command = f"data check {name} split=all"
            found.append(Kind(str(path.relative_to(place)), draw, [command], str(folder)))
    patch.setattr("unweave.data.published.download._record", lambda *_: None)
    draw = lambda rng: rng.choice(FILES)  # noqa: E731
    return [*found, Kind("private/mnist/checksums.json", draw, ["data check mnist"])]


def packed(content, rng):
    """The content of a published file; half are damaged before they are compressed."""
    if content[:2] == b"\x1f\x8b" and chance(rng, 0.5):
        return gzip.compress(damaged(gzip.decompress(content), rng))
    if chance(rng, 0.5):
        start = rng.randrange(min(len(content) - 4, 300))
        return odd_files.overwritten(content, start, rng.choice([1, 2, 4]), rng)
    return content


def damaged(content, rng):
    """Damage content at the level of bytes."""
    return DAMAGE[rng.choice(sorted(DAMAGE))](content, rng) if content else content


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """A folder with whole files, models and a run; and the kinds of files that are read."""
    place = tmp_path_factory.mktemp("fuzz") / "sandbox"
    (place / "photos").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        confine(patch, place)
        patch.chdir(place)
        np.save("codes.npy", CODES)
        for number, pixels in enumerate(odd_files.IMAGES[:3]):
            Image.fromarray(pixels).save(f"photos/{number}.png")
        shutil.copy(RESULTS / "linear.jsonl", "results.jsonl")
        fields = dict(network=uw.MLP((4,)), latent=uw.Gaussian(2), steps=1, progress=False)
        trained = uw.fit(CODES, batch_size=8, store="runs", **fields)
        trained.save("model.uw")
        trained.folder.rename("trained")
        uw.fit("photos", batch_size=3, **fields).save("images.uw")
        yield place, [*KINDS.values(), *published(place, patch)]


def check(place, kind, seed):
    """Read a file that is drawn with a seed, and say what is wrong with how it ended."""
    rng, path = generator(seed), place / kind.path
    before = path.read_bytes() if path.exists() else None
    content = kind.draw(rng)
    path.write_bytes(damaged(content, rng) if chance(rng, 0.4) else content)
    line = rng.choice(kind.commands).format(kind.path).split()
    code, out, err, problem = run_command(line, place)
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)
    shutil.rmtree("tried", ignore_errors=True)
    shown, last = f"seed {seed}, {kind.path}: {line!r}\n", err.rstrip("\n").rpartition("\n")[2]
    failed = code == 1 and line[0] == "train" and "stopped at step" in last  # by valid settings
    if problem or not (code in (0, 2) or failed):
        return f"{shown}{code} {problem} {err}"
    too_large = "GiB, and cpu has" in last  # networks for a large image that is intact
    names = (kind.names or path.name, *(word for word in line if Path(word).is_file()))
    named = too_large or any(name in last for name in names)
    if code == 2 and not (last.startswith("error: ") and named):
        return f"{shown}no line names the file: {err!r}"
    return "" if is_clean(out + err) else f"{shown}control characters: {out!r} {err!r}"


def test_odd_files_are_read_or_named(sandbox):
    """One of every kind but results, whose command imports all papers."""
    place, kinds = sandbox
    quick = [kind for kind in kinds if kind != KINDS["results"]]
    found = [check(place, kind, seed) for seed, kind in enumerate(quick)]
    assert [problem for problem in found if problem] == []


@pytest.mark.slow
def test_many_odd_files_are_read_or_named(sandbox):
    """As many as UNWEAVE_FUZZ_SECONDS allow; the seeds are new each time, and printed."""
    place, kinds = sandbox
    assert fuzz_on("files", lambda seed: check(place, kinds[seed % len(kinds)], seed)) == []


def test_every_format_is_fuzzed(sandbox):
    _, kinds = sandbox
    assert {*array_file.EXTENSIONS, *images.EXTENSIONS} <= set(KINDS)
    named = {kind.path for kind in kinds}
    for name, cls in members(Published).items():
        assert {f"private/{name}/{each.name}" for each in cls().sources} <= named
