"""Objects of a remote store that are no files."""

import boto3
import pytest
from hypothesis import given, settings, strategies as st

from datasets import CPU, SMALL, small_run
from unweave.core import files
from unweave.core.files import Disk
from unweave.training import train
from unweave.training.remote_stores import RemoteStore, store_root
from unweave.training.store import Store

URL = "s3://bucket/study"


class Keys:
    """A file system of fsspec, as far as a pull uses it, whose objects have any names."""

    def __init__(self, keys):
        self.found = {f"bucket/study/{key}": {"size": 4, "ETag": key} for key in keys}

    def invalidate_cache(self):
        pass

    def find(self, _, detail):
        return self.found

    def cat(self, keys, on_error):
        return dict.fromkeys(keys, b"text")


NAMES = st.sampled_from(["", ".", "..", "a", "b", "run.json", "log.jsonl", "C:", "a\\b", "x" * 300])
KEYS = st.lists(st.lists(NAMES | st.text(max_size=9), max_size=9).map("/".join), max_size=9)


@pytest.mark.filterwarnings("ignore:.*has objects that cannot be files")
@settings(max_examples=200, deadline=None)
@given(keys=KEYS)
def test_no_key_leads_out_of_the_mirror(tmp_path_factory, keys):
    """The key study//home/ada/thesis.txt was taken for an absolute path, and emptied the file."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "thesis.txt").write_text("my work")
    keys = [*keys, f"{folder}/thesis.txt", "../thesis.txt", "kept/run.json"]
    store = RemoteStore("memory://bucket/study", folder / "mirror" / "study")
    store._system, store._base = Keys(keys), "bucket/study"
    for _ in range(2):
        store.pull(store.root)
    files_there = {path for path in folder.rglob("*") if path.is_file()}
    inside = {path for path in files_there if path.is_relative_to(store.root)}
    assert files_there - inside == {folder / "thesis.txt"}
    assert (folder / "thesis.txt").read_text() == "my work"
    assert {path.relative_to(store.root).as_posix() for path in inside} <= set(keys)
    assert (store.root / "kept/run.json").read_bytes() == b"text"


def test_odd_objects_are_skipped_with_one_note(bucket, unweave):
    """One of them used to block the store, with advice to check its name and the credentials."""
    put = boto3.resource("s3").Bucket("bucket").put_object
    train([small_run(steps=3)], SMALL.load(CPU), Store(store_root(URL)))
    for key in ("", "dir/", "/etc/passwd", "a", "a/log.jsonl", "x" * 300, "*/run.json"):
        put(Key=f"study/{key}", Body=b"text" if key.strip("/") and key[-1] != "/" else b"")
    files.disk = Disk()
    code, out, err = unweave("runs", "--store", URL)
    assert (code, small_run(steps=3).digest in out) == (0, True), err
    assert len(err.strip().splitlines()) == 1
    assert "which are ignored: 'bucket/study/*/run.json' and 3 more" in err
