"""Damage the files of run folders in seeded ways: `mutants(path, other, rng, count)`."""

import copy
import json
import struct
from pathlib import Path

from unweave.training.records import read_sealed, record_to_bytes, rows_to_bytes
from unweave.training.tensor_files import read_tensors, tensors_to_bytes

WRONG = [None, [], {}, "", "x", 0, -1, 7, 1e308, 10**400, True, float("nan"), [[[]]], {"a": 1},
         "\u202e[red]", ["x"] * 3]  # fmt: skip
TYPES = ["I32", "U32", "F64", "BF16", "BOOL", "F32", "F8_E8M0", "F4"]
FILES = [b"", b"null", b"[]", b"{}", b"3", b'"x"', b"NaN", b"[" * 100_000, b"\xff\xfe\x00",
         b'{"a": ' * 900 + b"1" + b"}" * 900, b"1" * 10_000, b"\n", b"{}\n{}\n"]  # fmt: skip


def mutants(path: Path, other: Path, rng, count):
    """Yield a name and content, for `count` of each way to damage this file."""
    content = path.read_bytes()
    for number, whole in enumerate(FILES):
        yield f"whole {number}", whole
    if other.exists() and other.read_bytes() != content:
        yield "of another run", other.read_bytes()
    for _ in range(count):
        for name, damage in DAMAGE.items():
            yield name, damage(content, rng)
        if path.suffix == ".json":
            yield "json", json.dumps(changed(json.loads(content), rng)).encode()
        if path.suffix == ".jsonl":
            yield "row", _changed_row(content, rng)
        if path.suffix == ".safetensors":
            yield "header", _changed_header(content, rng)


def sealed_mutants(path: Path, rng, count):
    """Yield files whose content has the wrong form, and whose seal is right."""
    for _ in range(count):
        if path.suffix == ".json":
            found = read_sealed(path)
            wrong = changed(found.content, rng)
            if isinstance(wrong, dict):
                yield "sealed", record_to_bytes(path.name, found.run, wrong)
        elif path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            run = rows.pop()["seal"]["run"]
            yield "sealed", rows_to_bytes(path.name, run, changed(rows, rng) or [])
        elif path.suffix == ".safetensors":
            yield "sealed", _other_tensors(path, rng)


def changed(value, rng):
    """Return JSON with one value, chosen at random, replaced by one of another kind, or removed."""
    value = copy.deepcopy(value)
    places = [(None, None)]
    _places(value, places)
    owner, key = rng.choice(places[1:] or places)
    if owner is None:
        return rng.choice(WRONG)
    if rng.random() < 0.2:
        del owner[key]
    elif isinstance(owner, dict) and rng.random() < 0.1:
        owner["more"] = rng.choice(WRONG)
    else:
        owner[key] = rng.choice(WRONG)
    return value


def _places(value, found):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        found.append((value, key))
        if isinstance(inner, (dict, list)):
            _places(inner, found)


def flipped(content, rng):
    """Flip some bits."""
    flipped = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def cut_off(content, rng):
    """Leave out the end."""
    return content[: rng.randrange(len(content))]


def twice(content, rng):
    """Repeat a part."""
    start, stop = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:stop] + content[start:]


def without(content, rng):
    """Leave out a part."""
    start, stop = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[stop:]


DAMAGE = {
    "flipped bits": flipped,
    "cut off": cut_off,
    "part twice": twice,
    "part left out": without,
}


def _changed_row(content, rng):
    lines = content.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    what = rng.choice(["changed", "left out", "twice", "swapped"])
    if what == "changed":
        lines[number] = json.dumps(changed(json.loads(lines[number]), rng)).encode() + b"\n"
    elif what == "left out":
        del lines[number]
    elif what == "twice":
        lines.insert(number, lines[number])
    else:
        lines[0], lines[-1] = lines[-1], lines[0]
    return b"".join(lines)


def _changed_header(content, rng):
    """Change the type, shape or place of a tensor, or the facts, in the header of safetensors."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = rng.choice(sorted(header))
    if name == "__metadata__":
        facts = json.loads(header[name]["unweave"])
        header[name]["unweave"] = json.dumps(changed(facts, rng))
    else:
        tensor = header[name]
        what = rng.choice(["dtype", "shape", "name", "offsets"])
        if what == "dtype":
            tensor["dtype"] = rng.choice(TYPES)
        elif what == "shape":
            tensor["shape"] = rng.choice(
                [tensor["shape"][::-1], [], [-1], [*tensor["shape"], 1], [0, 2**63]]
            )
        elif what == "name":
            header[f"{name}x"] = header.pop(name)
        else:
            other = rng.choice([each for each in header if each != "__metadata__"])
            tensor["data_offsets"], header[other]["data_offsets"] = (
                header[other]["data_offsets"], tensor["data_offsets"])  # fmt: skip
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + size :]


def _other_tensors(path, rng):
    run = read_sealed(path.parent / "run.json").run
    tensors, facts = read_tensors(path, run)
    name = rng.choice(sorted(tensors))
    what = rng.choice(["left out", "renamed", "dtype", "shape", "facts"])
    if what == "facts":
        facts = changed(facts, rng)
        facts = facts if isinstance(facts, dict) else {}
    tensor = tensors.pop(name)
    if what in ("renamed", "facts"):
        tensors[f"{name}x" if what == "renamed" else name] = tensor
    elif what == "dtype":
        tensors[name] = tensor.double()
    elif what == "shape":
        tensors[name] = tensor.reshape(-1, 1)
    facts = {name: value for name, value in facts.items() if name != "crc32"}
    return tensors_to_bytes(path.name, tensors, run, facts)
