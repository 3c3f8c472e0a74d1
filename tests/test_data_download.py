"""Downloads from a server of our own: resumed, checked, from another mirror, or refused."""

import errno
import hashlib
import os

import numpy as np
import pytest

from download_server import serving
from published_files import digits
from unweave.data import MNIST
from unweave.data.cache import write_checked
from unweave.data.published import download as sources
from unweave.data.published.download import Source, fetch, find_problem, verify

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sources, "BLOCK", 10_000)
    with serving({"/a.bin": CONTENT}) as made:
        yield made


def source(server, *names, size=300_000, digest=DIGEST):
    return Source("a.bin", size, digest, tuple(server.url(name) for name in names or ("a.bin",)))


def test_a_file_is_downloaded_with_progress(server, tmp_path):
    progress = []
    place = fetch(source(server), tmp_path / "b", lambda *bytes: progress.append(bytes))
    assert place.read_bytes() == CONTENT
    assert progress[-1] == (len(CONTENT), len(CONTENT))
    assert progress == sorted(progress)
    assert sorted(p.name for p in place.parent.glob("*") if "lock" not in p.name) == [
        "a.bin", "checksums.json"]  # fmt: skip
    fetch(source(server), tmp_path / "b")
    assert len(server.asked) == 1  # it is there


def test_a_broken_connection_is_resumed(server, tmp_path):
    server.cut = [70_000, 200_000, 200_001]
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [
        None, "bytes=70000-", "bytes=200000-", "bytes=200001-"]  # fmt: skip


def test_an_interrupted_download_resumes_in_another_process(server, tmp_path):
    def stop(done, total):
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(source(server), tmp_path, stop)
    assert not (tmp_path / "a.bin").exists()
    kept = (tmp_path / "a.bin.part").stat().st_size
    assert 100_000 < kept < 120_000
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("/a.bin", f"bytes={kept}-")


def test_without_range_support_the_download_restarts(server, tmp_path):
    server.ranges, server.cut = False, [120_000]
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_file_that_changed_on_the_server_is_downloaded_again(server, tmp_path):
    def change(done, total):
        if server.tag == '"one"' and done > 50_000:
            server.tag, server.files = '"two"', {"/a.bin": CONTENT[::-1]}
            server.cut = []
            raise ConnectionError("gone")

    place = fetch(source(server, size=None, digest=None), tmp_path, change)
    assert place.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(("size", "digest"), [(None, None), (300_000, None), (None, DIGEST)])
def test_without_a_length_truncation_is_detected(server, tmp_path, size, digest):
    server.style, server.cut = "none", [70_000] * 20
    wanted = source(server, size=size, digest=digest)
    with pytest.raises(ValueError, match=r"does not say how long|ended after|checksum is not"):
        fetch(wanted, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    server.style, server.cut = "chunked", [70_000]  # it says where it ends
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT


def test_without_an_etag_a_download_is_not_resumed(server, tmp_path):
    def change(done, total):
        if done > 50_000 and server.files["/a.bin"] == CONTENT:
            server.files = {"/a.bin": CONTENT[::-1]}
            raise ConnectionError("gone")

    server.tag = None
    place = fetch(source(server, size=None, digest=None), tmp_path, change)
    assert place.read_bytes() == CONTENT[::-1]


def test_a_partial_download_longer_than_the_file_is_discarded(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(b"other" * 100_000)
    about = sources._State(server.url(), server.tag, 500_000)
    write_checked(tmp_path / "a.bin.part.json", about)
    assert fetch(source(server, size=None, digest=None), tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=500000-", None]


@pytest.mark.parametrize("digest", [None, DIGEST])
def test_a_damaged_record_of_a_partial_download_starts_it_again(server, tmp_path, digest):
    """With another number of bytes, what was never on the disk became part of the file."""
    part, state = tmp_path / "a.bin.part", tmp_path / "a.bin.part.json"
    intact = sources._State(server.url(), server.tag, 1_000)
    write_checked(state, intact)
    text = state.read_text()
    damaged = [text.replace("1000", "2000"), text[:-5], "null", "[" * 10**5, "\0" * 40, "{}"]
    for content in (*damaged, b"\xff"):
        part.write_bytes(CONTENT[:1_000] + b"\0" * 1_000)  # the rest was not written
        state.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.warns(UserWarning, match=r"a\.bin\.part\.json was damaged: the download sta"):
            path = fetch(source(server, digest=digest), tmp_path)
        assert (path.read_bytes(), server.asked[-1]) == (CONTENT, ("/a.bin", None))
        path.unlink()
    write_checked(state, ("a", None, -1))  # of a wrong form, with a checksum
    with pytest.warns(UserWarning, match="was damaged"):
        fetch(source(server, digest=digest), tmp_path)


def test_a_download_is_read_once_for_its_checksum(server, tmp_path, monkeypatch):
    """It is recorded before the file is moved into place, so that every file has one."""
    seen = []
    summed = sources.checksums
    monkeypatch.setattr(sources, "checksums", lambda path: seen.append(path.name) or summed(path))
    fetch(source(server), tmp_path)
    assert seen == ["a.bin.part"]


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000], ids=len)
def test_damaged_checksum_records_are_reported(server, tmp_path, content):
    fetch(source(server), tmp_path)
    (tmp_path / "checksums.json").write_text(content)
    with pytest.raises(ValueError, match=r"checksums\.json.*restore it"):
        fetch(source(server), tmp_path)


def test_a_complete_partial_download_is_used(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT
    (tmp_path / "a.bin").unlink()
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_the_file_deleted(server, tmp_path):
    server.files["/a.bin"] = CONTENT[::-1]
    with pytest.raises(
        ValueError, match=r"a\.bin could not be downloaded .* checksum is not sha256"
    ):
        fetch(source(server), tmp_path)
    assert not list(tmp_path.glob("a.bin*[!k]"))


def test_the_next_mirror_is_tried(server, tmp_path):
    server.files |= {"/wrong.bin": CONTENT[::-1], "/short.bin": CONTENT[:-1]}
    found = fetch(source(server, "none.bin", "short.bin", "wrong.bin", "a.bin"), tmp_path)
    assert found.read_bytes() == CONTENT
    with pytest.raises(ValueError, match=r"404.*offers 299,999 bytes.*checksum"):
        fetch(source(server, "none.bin", "short.bin", "wrong.bin"), tmp_path / "b")


def test_an_unreachable_mirror_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    wanted = Source("a.bin", 10, None, ("http://127.0.0.1:9/a.bin",))
    with pytest.raises(ValueError, match=r"refused.*yourself"):
        fetch(wanted, tmp_path)


def test_a_mirror_that_always_disconnects_is_given_up(server, tmp_path):
    server.cut = [50_000] * 20
    with pytest.raises(
        ValueError, match=r"ended after 50,000 of 300,000 bytes.*the partial download was kept"
    ):
        fetch(source(server), tmp_path)
    server.cut = []
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT


def test_a_mirror_that_sends_too_much_is_refused(server, tmp_path):
    # Without a length in its answer, a server could fill the disk.
    server.files["/a.bin"] = CONTENT * 3
    with pytest.raises(ValueError, match="offers 900,000 bytes"):
        fetch(source(server), tmp_path)


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_full_disk_is_reported_and_the_partial_download_kept(server, tmp_path, monkeypatch, when):
    with monkeypatch.context() as full:
        if when == "before":
            usage = type("Usage", (), {"free": 1000})()
            full.setattr("shutil.disk_usage", lambda path: usage)
            progress = lambda done, total: None  # noqa: E731
        else:

            def progress(done, total):
                if done > 100_000:
                    raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(
            ValueError, match=r"not enough space in .* for a\.bin, which has 300,000 bytes"
        ):
            fetch(source(server), tmp_path, progress)
    assert not (tmp_path / "a.bin").exists()
    assert fetch(source(server), tmp_path).read_bytes() == CONTENT


def test_an_unknown_checksum_is_recorded_and_compared_later(server, tmp_path):
    unknown = source(server, size=None, digest=None)
    place = fetch(unknown, tmp_path)
    assert DIGEST in (tmp_path / "checksums.json").read_text()
    assert find_problem(unknown, tmp_path) is None
    place.write_bytes(CONTENT[::-1])
    assert "has changed since it was downloaded" in find_problem(unknown, tmp_path)
    with pytest.raises(ValueError, match="delete it"):
        fetch(unknown, tmp_path)


def test_size_and_checksum_are_verified(tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    md5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert find_problem(Source("a.bin", 300_000, DIGEST), tmp_path) is None
    assert find_problem(Source("a.bin", None, md5), tmp_path) is None
    assert "has 300,000 bytes" in find_problem(Source("a.bin", 5, DIGEST), tmp_path)
    assert "has the checksum md5:" in find_problem(Source("a.bin", None, "md5:0"), tmp_path)


def test_loading_compares_a_file_with_its_checksum_once(tmp_path, monkeypatch):
    """Again only if it changed, also in place and with its old times, or if the record did."""
    compared, checksums = [], sources.checksums
    monkeypatch.setattr(sources, "checksums", lambda path: compared.append(1) or checksums(path))
    path, known = tmp_path / "a.bin", Source("a.bin", 300_000, DIGEST)
    path.write_bytes(CONTENT)
    for _ in range(2):
        verify(known, tmp_path)
    assert len(compared) == 1
    record = tmp_path / "a.bin.verified"
    for content in (b"", record.read_bytes().replace(b"sha256:", b"sha257:")):
        record.write_bytes(content)
        verify(known, tmp_path)
    assert len(compared) == 3
    status = path.stat()
    path.write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"a\.bin has the checksum sha256:.*download it again"):
            verify(known, tmp_path)
    path.write_bytes(CONTENT)
    other = Source("a.bin", 300_000, f"{DIGEST[:-1]}x")
    with pytest.raises(ValueError, match=r"a\.bin has the checksum"):
        verify(other, tmp_path)


def test_in_a_folder_that_is_not_writable_files_are_compared_each_time(tmp_path, monkeypatch):
    def fail(*_):
        raise PermissionError(errno.EACCES, "no")

    (tmp_path / "a.bin").write_bytes(CONTENT)
    monkeypatch.setattr(sources, "write_checked", fail)
    monkeypatch.setattr(sources, "_record", fail)
    verify(Source("a.bin", 300_000, DIGEST), tmp_path)
    verify(Source("a.bin"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_get_check_and_train_on_the_command_line(unweave, server, tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "data"))
    (made := tmp_path / "made").mkdir()
    digits(made)
    server.files = {f"/{path.name}": path.read_bytes() for path in made.iterdir()}
    about = MNIST.ABOUT
    files = tuple(Source(s.name, urls=(server.url(s.name),)) for s in about.sources)
    monkeypatch.setattr(MNIST, "ABOUT", type(about)(**{**vars(about), "sources": files}))
    code, _, err = unweave("train", "data=mnist", "--store", tmp_path / "runs")
    assert code == 2
    assert "`unweave data get mnist` downloads it" in err
    code, out, err = unweave("data", "get", "mnist")
    assert code == 0, err
    assert out.count("no published checksum known") == 4
    code, out, err = unweave("data", "list")
    assert [line.split()[-1] for line in out.splitlines() if " mnist" in line] == ["yes"]
    code, out, err = unweave("data", "check", "mnist", "split=test")
    assert code == 0, err
    assert "6 images of 28 x 28, grey" in out
    small = ("batch_size=8", "steps=2", "network=mlp", "--store", tmp_path / "runs")
    code, out, err = unweave("train", "data=mnist", "data.split=train", *small)
    assert code == 0, err
    (tmp_path / "data" / "mnist" / files[0].name).write_bytes(b"x")
    code, _, err = unweave("train", "data=mnist", "seed=1", *small)
    assert (code, err.count("error: ")) == (2, 1)
    assert "it again with `unweave data get mnist`" in " ".join(err.split())
    code, _, err = unweave("data", "check", "mnist")
    assert code == 2
    assert "has changed since it was downloaded" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "minst"], "did you mean 'mnist'"),
        (["get", "shapes2d"], "error: shapes2d needs no download: give it as data=shapes2d "),
        (["get", "celeba"], "Agree to the terms at https://mmlab"),
        (["get", "3dfaces"], "numpy.save('3dfaces.npy'"),
        (["get", "mpi3d", "version=toi"], "'toy'"),
        (["check", "mnist"], "`unweave data get mnist` downloads it"),
        (["info", "nothing"], "neither a dataset nor a file"),
    ],
)
def test_errors_are_one_line(unweave, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    code, _, err = unweave("data", *arguments)
    assert code == 2
    assert message in err.replace("\n", " ")
    assert err.count("\n") == 1


def test_info_cites_and_help_has_examples(unweave):
    code, out, _ = unweave("data", "info", "cars3d")
    assert code == 0
    assert "@inproceedings{Reed2015" in out
    files = [f"mpi3d_{version}.npz`" for version in ("toy", "realistic", "real")]
    for fields, listed in (([], files), (["version=toy"], files[:1])):
        _, out, _ = unweave("data", "info", "mpi3d", *fields)
        assert [file for file in files if file in out] == listed
    for command in ("list", "info", "get", "check", "page"):
        code, out, _ = unweave("data", command, "--help")
        assert code == 0
        assert f"unweave data {command}" in out


def test_datasets_with_a_single_site_say_so(unweave):
    """Two addresses at one site are down together."""
    single = {"dsprites", "3dshapes", "mpi3d", "smallnorb", "3dchairs", "svhn"}
    for kind in (*single, "cars3d", "mnist", "fashion-mnist"):
        _, out, _ = unweave("data", "info", kind)
        (line,) = [line for line in out.splitlines() if line.startswith("- from: ")]
        assert line.endswith(" (the only known site)") == (kind in single)
        assert len(line.removesuffix(", no other site known").split(",")) == 2 - (kind in single)
    assert "- from:" not in unweave("data", "info", "celeba")[1]  # a manual download
    _, out, _ = unweave("data", "page")
    names = "dSprites, 3D Shapes, MPI3D, SmallNORB, 3D Chairs and SVHN: if it is down"
    assert names in " ".join(out.split())
