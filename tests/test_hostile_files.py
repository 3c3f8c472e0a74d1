"""Files that a stranger may send: refused in one line, before memory is taken; and values."""

import dataclasses
import errno
import io
import json
import lzma
import os
import re
import struct
import weakref
import zipfile
import zlib
from pathlib import Path
from typing import get_type_hints

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import unweave as uw
from datasets import CPU
from unweave.cli import run_list
from unweave.core import memory, spec
from unweave.core.outputs import check_output, npz_bytes, png_bytes, svg_bytes
from unweave.core.parallel import CannotFork
from unweave.data import Arrays, from_array
from unweave.data.features import with_features
from unweave.data.files.array_file import open_array_file, read_array, read_rows
from unweave.data.files.rows import BOMB, ReaderRows
from unweave.data.files.tables import ParquetFile
from unweave.evaluation.codes import read_codes
from unweave.metrics import Table
from unweave.training.overrides import runs_from
from unweave.training.run import Run
from unweave.training.run_files import RunFiles
from watched import limited_memory

RNG = np.random.default_rng(0)
CODES, FACTORS = RNG.normal(size=(20, 2)), RNG.integers(0, 2, (20, 1))


def npy(array):
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def header(shape, kind="<f8"):
    content = io.BytesIO()
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, fields)
    return content.getvalue()


def npz(method=zipfile.ZIP_DEFLATED, **members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(f"{name}.npy", value if isinstance(value, bytes) else npy(value))
    return content.getvalue()


def encrypted(content):
    """Say in both headers of the first member that it is encrypted."""
    changed = bytearray(content)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def parquet(**columns):
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


def hdf5(shape, kind="f4", names=("codes",), **options):
    """Write arrays without values: their chunks are never written."""
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name in names:
            chunks = (2**16, 1) if shape else None
            file.create_dataset(name, shape, kind, chunks=chunks, **options)
    return content.getvalue()


def damaged(content, start=60):
    """Change bytes of the first member."""
    return content[:start] + bytes(each ^ 255 for each in content[start : start + 20]) + (
        content[start + 20 :])  # fmt: skip


def whole(path, name):
    file = open_array_file(path)
    rows = file.rows([name] if isinstance(file, ParquetFile) else name)
    return read_rows(rows, name)


GOOD = npz(codes=CODES, factors=FACTORS)
MOST = BOMB // 8  # values that a file may have however few bytes store them
HALF = np.zeros((MOST // 2, 1), np.uint8)
BOMBS = {
    "bomb.npz": npz(codes=np.zeros((MOST, 1), np.uint8), factors=FACTORS),
    "sum.npz": npz(codes=HALF, factors=HALF, kl=HALF[:1]),
    "bomb.parquet": parquet(codes=np.zeros(MOST + 1, np.int8)),
    "sum.parquet": parquet(codes=HALF[:, 0], factors=HALF[:, 0], kl=HALF[:, 0]),
    "unwritten.h5": hdf5((MOST + 1, 1), "u1"),
    "terabytes.h5": hdf5((2**40, 1)),
    "sum.h5": hdf5((MOST // 2 + 1, 1), "u1", ("codes", "factors")),
}
LARGEST = {  # that are no bombs
    "a.npz": npz(codes=HALF, factors=HALF[1:]),
    "a.parquet": parquet(codes=HALF[:, 0], factors=HALF[:, 0]),
    "a.h5": hdf5((MOST // 2, 1), "u1", ("codes", "factors")),
}
FILES = {
    "lie.npz": npz(codes=header((10**13, 2)) + bytes(8), factors=FACTORS),
    "lie.npy": header((10**13, 2)) + bytes(8),
    "negative.npz": npz(codes=header((-1, 2)), factors=FACTORS),
    "encrypted.npz": encrypted(GOOD),
    "lzma.npz": damaged(npz(zipfile.ZIP_LZMA, codes=CODES, factors=FACTORS)),
    "half.npz": GOOD[: len(GOOD) // 2],
    "empty.npz": b"",
    "objects.npz": npz(codes=np.array([{}, []], object), factors=FACTORS),
    "objects.npy": npy(np.array([None])),
    "0-d.npz": npz(codes=np.array(1.0), factors=FACTORS),
    "0-d.npy": npy(np.array(1.0)),
    "0-d.h5": hdf5(()),
    "complex.npz": npz(codes=CODES * 1j, factors=FACTORS),
    "dates.npz": npz(codes=header((20, 2), "<M8[s]") + bytes(320), factors=FACTORS),
    "names.npz": npz(codes=CODES, factors=FACTORS, factor_names=np.array([["a", "b"]])),
    "sizes.npz": npz(codes=CODES, factors=FACTORS, factor_sizes=np.array([np.inf])),
    "kl.npz": npz(codes=CODES, factors=FACTORS, kl=np.array(["a", "b"])),
    "deep.npz": npz(codes=CODES, factors=FACTORS, periods=np.array("[" * 10**5)),
    "periods.npz": npz(codes=CODES, factors=FACTORS, periods=np.array('{"factor 0": "x"}')),
    "code.npy": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').getcwd()".ljust(32),
    "brackets.npy": b"\x93NUMPY\x01\x00\x60\xea" + b"(" * 60_000,
}


@pytest.fixture(scope="module")
def model():
    return uw.fit(CODES, network=uw.MLP((4,)), latent=uw.Gaussian(2), steps=1, batch_size=8,
                  progress=False)  # fmt: skip


@pytest.mark.parametrize("name", [*BOMBS, *FILES])
def test_hostile_arrays_are_refused_by_every_reader_before_memory_is_taken(
    unweave, model, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes((BOMBS | FILES)[name])
    (tmp_path / "codes.npz").write_bytes(GOOD)
    model.save("model.uw")
    of_tables = name in ("names.npz", "sizes.npz", "kl.npz", "deep.npz", "periods.npz")
    readers = [["score", name, "--metrics", "mig"]]
    if not of_tables:
        readers += [["decode", "model.uw", name], ["encode", "model.uw", name],
                    ["data", "info", name, "key=codes"]]  # fmt: skip
    with limited_memory(400 * 2**20):
        for words in readers:
            code, out, err = unweave(*words)
            assert (code, out, err.count("error: "), name in err) == (2, "", 1, True), words
            assert "not enough memory" not in err
        with pytest.raises(ValueError, match=r"expected|should have|zip bomb"):
            Table.load(name)


@pytest.mark.parametrize("name", LARGEST)
def test_small_arrays_may_be_compressed_without_limit(tmp_path, name):
    (tmp_path / name).write_bytes(LARGEST[name])
    for array in ("codes", "factors"):
        assert not whole(tmp_path / name, array).any()


@pytest.mark.parametrize("name", ["sparse.npz", "sparse.h5", "sparse.parquet"])
def test_sparse_counts_are_no_bombs(tmp_path, name):
    """99 % of the cells are 0, in more values than a file of any ratio may have."""
    counts = np.zeros((2 * MOST, 1), np.uint8)
    places = np.arange(0, len(counts), 100) + RNG.integers(0, 100, len(counts) // 100 + 1)
    counts[places[places < len(counts)]] = 1
    if name == "sparse.npz":
        (tmp_path / name).write_bytes(npz(codes=counts))
    elif name == "sparse.h5":
        content = hdf5(counts.shape, "u1", data=counts, compression="gzip")
        (tmp_path / name).write_bytes(content)
    else:
        (tmp_path / name).write_bytes(parquet(codes=counts[:, 0]))
    assert (tmp_path / name).stat().st_size < len(counts) / 20
    np.testing.assert_array_equal(whole(tmp_path / name, "codes"), counts)


def test_an_array_larger_than_memory_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", CODES)
    monkeypatch.setattr("unweave.data.files.array_file.main_memory", lambda: 100)
    with pytest.raises(ValueError, match="do not fit in memory"):
        read_array(open_array_file(tmp_path / "x.npy"), "")
    view = np.lib.stride_tricks.as_strided(np.zeros(1), (2**40, 3), (0, 0))
    for function in (lambda: Table(view, FACTORS), lambda: uw.fit(view)):
        with pytest.raises(ValueError, match="in memory"):
            function()


@pytest.mark.parametrize("error", [OSError, EOFError, ValueError, RuntimeError, KeyError, TypeError,
                         IndexError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
                         *pa.ArrowException.__subclasses__()])  # fmt: skip
def test_every_error_of_a_damaged_file_names_it(error):
    def fails(start, stop):
        raise error("x")

    ours = not issubclass(error, (MemoryError, pa.ArrowCancelled))
    with pytest.raises(ValueError if ours else error, match=r"a\.h5" if ours else "x"):
        ReaderRows(Path("a.h5"), (1,), np.dtype("f4"), 1, fails).read(0, 1)


def test_codes_that_no_decoder_takes_are_refused(model, tmp_path):
    for codes in (np.full((3, 2), 1e300), np.zeros((3, 5)), np.zeros((3, 1)), np.zeros(2)):
        np.save(tmp_path / "z.npy", codes)
        with pytest.raises(ValueError, match=r"finite numbers \(N, 2\) that fit in float32"):
            read_codes(tmp_path / "z.npy", model)


def test_names_of_rows_and_features_of_other_shapes_are_refused(model, tmp_path):
    np.save(tmp_path / "x.npy", CODES)
    for name, array in {"names": "a", "few": ["a"], "deep": [[["a"]]]}.items():
        (tmp_path / f"{name}.npz").write_bytes(npz(codes=CODES, row_names=np.array(array)))
        with pytest.raises(ValueError, match=rf"each of the 20 rows of .*{name}\.npz, got 1"):
            read_codes(tmp_path / f"{name}.npz", model)
    for name, array in {"number": 1.0, "cube": np.zeros((20, 1, 1)), "none": CODES[:, :0]}.items():
        (tmp_path / f"{name}.npz").write_bytes(npz(features=np.array(array)))
        with pytest.raises(ValueError, match=rf"{name}\.npz: expected factors of shape \(N, K\)"):
            with_features(Arrays(tmp_path / "x.npy").load(CPU), tmp_path / f"{name}.npz")


def test_a_run_that_is_nested_too_deeply_is_listed_as_damaged(tmp_path, monkeypatch):
    def fails(folder, step):
        raise RecursionError

    monkeypatch.setattr(run_list, "_read", fails)
    assert run_list.read_run(RunFiles(tmp_path)).problem == f"{tmp_path.name}: nested too deeply"


# ---- values


def specs():
    """Every spec of a run, each once."""
    found, waiting = {}, [Run]
    while waiting:
        cls = waiting.pop()
        if cls in found or not dataclasses.is_dataclass(cls):
            continue
        found[cls] = {
            name: hint for name, hint in get_type_hints(cls, include_extras=True).items()
            if name in spec.field_names(cls)
        }  # fmt: skip
        waiting += [leaf for hint in found[cls].values() for leaf in spec.flat_members(hint)]
    return found


@pytest.mark.parametrize("cls", specs(), ids=lambda cls: cls.__name__)
def test_booleans_are_not_numbers_and_numbers_are_not_booleans(cls):
    for name, hint in specs()[cls].items():
        leaves = {leaf for leaf in spec.flat_members(hint)}
        if leaves & {int, float} and bool not in leaves:
            with pytest.raises(ValueError, match=f"{name}: expected a number, got True"):
                cls(**{name: True})
        if bool in leaves and not leaves & {int, float}:
            with pytest.raises(ValueError, match=f"{name}: expected true or false, got 1"):
                cls(**{name: 1})


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ('optimiser=["a"]', "is not one of its kinds"),
        ("latent.size=18446744073709551616", "at most 1000000"),
        ("latent.size=1000000000", "at most 1000000"),
        ("latent.size=true", "expected a number"),
        ("seed=0..3000000", "at most 10,000 runs"),
        ("seed=0..99 objective.beta=0..999", "at most 10,000 runs, got 100,000"),
        ("steps=1e999", "finite"),
        ("optimiser.lr=NaN", "finite"),
        (f"steps={'9' * 5000}", "too long"),
        (f"objective={'[' * 10**5}", "too long"),
        (f"{'latent.' * 2000}size=3", "at most 50 names"),
        (f"labels={'[' * 400 + ']' * 400}", "labels"),
    ],
)
def test_impossible_values_are_refused_at_once(words, reason):
    with pytest.raises(ValueError, match=reason):
        runs_from(words.split())


def test_more_threads_than_a_machine_can_have_are_refused(unweave):
    """The library of threads would end the process."""
    code, _, err = unweave("train", "--threads", 10**9, "data=none.npy")
    assert (code, "less than or equal to 1024" in err) == (2, True)


def test_runs_that_cannot_fit_are_refused_before_they_are_built(monkeypatch):
    data, dataset = from_array(CODES)
    run = Run(data=data, network=uw.MLP((1000,)), latent=uw.Gaussian(2), batch_size=8)
    run.resolve(dataset)
    for change in ({"latent": uw.Gaussian(1_000_000), "network": uw.MLP((1_000_000,))},
                   {"objective": uw.IWAE(particles=1_000_000), "batch_size": 20}):  # fmt: skip
        monkeypatch.setattr("unweave.training.memory.main_memory", lambda: 2**28)
        with pytest.raises(ValueError, match=r"needs at least .* GiB"):
            dataclasses.replace(run, **change).resolve(dataset)
    assert memory.main_memory() > 2**28


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (MemoryError, "", "error: there is not enough memory: give fewer observations"),
        (MemoryError, "Unable to allocate 9 TiB", "enough memory: Unable to allocate 9 TiB"),
        (RuntimeError, "CPUAllocator: can't allocate memory: you tried", "not enough memory"),
        (torch.OutOfMemoryError, "CUDA out of memory. Tried to", "not enough memory"),
        (ImportError, "Exception caught: std::bad_alloc", "not enough memory"),
        (RuntimeError, "can't start new thread", "the system refuses to start more threads"),
        (CannotFork, "can't start new process", "refuses to start more threads"),
        (BlockingIOError, "write could not complete", "error: cannot read or write: write could"),
    ],
)
def test_a_lack_of_memory_is_one_line_and_frees_it_first(unweave, monkeypatch, kind, text, said):
    class Large:
        pass

    def read(path):
        large = Large()
        alive.append(weakref.ref(large))
        raise kind(text)

    def show(line, **options):
        printed.append((line, [each() for each in alive]))

    alive, printed = [], []
    monkeypatch.setattr("unweave.training.run_files.run_paths", read)
    monkeypatch.setattr("unweave.core.console.err.print", show)
    assert unweave("runs")[0] == 2
    ((line, left),) = printed
    assert (said in line, left) == (True, [None])


def test_an_error_that_cannot_be_printed_still_has_its_exit_code(unweave, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unweave.core.console.err.print", full)
    assert unweave("evaluate", "nothing")[0] == 2


def test_unknown_memory_refuses_nothing(monkeypatch):
    """Windows has no os.sysconf, and everything that asks for memory failed there."""
    monkeypatch.delattr("os.sysconf")
    monkeypatch.setattr(Path, "read_text", lambda path: "max")
    assert memory.main_memory() == float("inf")
    data, dataset = from_array(CODES)
    run = Run(data=data, network=uw.MLP((1000,)), latent=uw.Gaussian(2), batch_size=8)
    assert run.resolve(dataset).latent.size == 2
    assert len(Table(CODES, FACTORS)) == 20


@pytest.mark.parametrize("device", ["meta", "cuda:99", "x" * 5000, "", "\x1b"])
def test_devices_without_values_are_refused(device):
    with pytest.raises(ValueError, match="cannot be used here"):
        uw.fit(CODES, device=device, steps=1)


def test_files_to_start_from_may_be_anything(unweave, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.json").write_text("[" * 10**5)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 10**5)
    (tmp_path / "digits.json").write_text(json.dumps({"steps": 1})[:-2] + "9" * 5000 + "}")
    (tmp_path / "null.json").write_text("null")
    (tmp_path / "kind.toml").write_text("optimiser = {kind = 3}")
    for name in ("deep.json", "deep.toml", "digits.json", "null.json", "kind.toml"):
        code, _, err = unweave("train", "--from", name)
        assert (code, err.count("error: "), name in err) == (2, 1, True), name


# ---- outputs


def test_only_what_unweave_wrote_is_replaced_without_asking(tmp_path):
    ours = {
        "a.npz": npz_bytes({"x": CODES}),
        "a.png": png_bytes(Image.new("L", (2, 2))),
        "a.svg": svg_bytes("<svg></svg>\n"),
        "a.html": b'<!doctype html><head><meta name="generator" content="unweave 1">',
    }
    theirs = {"b.npz": GOOD, "b.png": b"\x89PNG", "b.svg": b"<svg/>", "b.html": b"<p>unweave</p>",
              "b.csv": b"a,b\n", "b.npy": npy(CODES), "empty.html": b""}  # fmt: skip
    for name, content in (ours | theirs).items():
        path = tmp_path / name
        path.write_bytes(content)
        check_output(path, "--out", overwrite=True)
        if name in ours:
            check_output(path, "--out", overwrite=False)
            continue
        with pytest.raises(ValueError, match="replace it with --overwrite"):
            check_output(path, "--out", overwrite=False)
    (tmp_path / "link.csv").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, reason in {"link.csv": "--overwrite", ".": "is a folder", "no/x.csv": "no folder",
                         "b.csv/x": "no folder", "pipe.csv": "a pipe"}.items():  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            check_output(tmp_path / path, "--out", overwrite=False)
    with np.load(tmp_path / "a.npz") as file:
        assert np.array_equal(file["x"], CODES)


def test_commands_replace_their_own_outputs_and_no_others(unweave, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("model.uw")
    np.save("x.npy", CODES)
    for out in ("codes.npz", "p.png"):
        words = ["encode", "model.uw", "x.npy", "--out", out]
        if out == "p.png":
            words = ["data", "preview", "x.npy", "--out", out]
        assert [unweave(*words)[0] for _ in range(2)] == [0, 0]  # again, without a word
        (tmp_path / out).write_text("mine")
        assert unweave(*words)[0] == 2
        assert (tmp_path / out).read_text() == "mine"
        assert unweave(*words, "--overwrite")[0] == 0


def test_every_test_that_the_security_page_names_exists():
    root = Path(__file__).parent.parent
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", (root / "SECURITY.md").read_text())
    assert len(named) > 10
    for file, name in named:
        assert f"def {name}(" in (root / file).read_text(), name


def test_pipes_and_folders_are_not_called_missing(unweave, tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    for name in ("pipe.npy", "folder.npy"):
        code, _, err = unweave("score", tmp_path / name)
        assert (code, "got a folder, a pipe or a device" in err) == (2, True)
        with pytest.raises(ValueError, match="got a folder, a pipe or a device"):
            open_array_file(tmp_path / name)
