"""The explorer in the package is what web/ builds, with the licences of all that is in it."""

import gzip
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
APP = ROOT / "src/unweave/explorer/app"
FILES = {"explorer.js", "explorer.css", "ort.wasm.gz", "LICENSES.txt"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the explorer into a folder of its own."""
    folder = tmp_path_factory.mktemp("app")
    node = shutil.which("node") or pytest.fail("the tests need node: apt-get install nodejs npm")
    if not (WEB / "node_modules").is_dir():
        pytest.fail("the tests need the packages of web/: run `npm ci` there, or `make test`")
    subprocess.run([node, WEB / "build.mjs", folder], check=True)
    return folder


def content(path):
    """Return the bytes of a file; versions of zlib compress the same bytes differently."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_package_has_what_web_builds(built, name):
    assert {file.name for file in built.iterdir()} == FILES
    assert {file.name for file in APP.iterdir()} == FILES, "run `make app`"
    assert content(built / name) == content(APP / name), "run `make app`"


def test_licences_of_everything_bundled_are_there(built):
    text = (built / "LICENSES.txt").read_text()
    for name in json.loads((WEB / "package.json").read_text())["dependencies"]:
        version = json.loads((WEB / "node_modules" / name / "package.json").read_text())["version"]
        assert f"\n{name} {version} (" in text  # if it is not: is the package used at all?
    parts = re.split(r"={80}\n.*\n={80}\n", text)[1:]
    assert all(re.search("Permission|Redistribution|Apache License", part) for part in parts)
    assert "protobuf" in text  # part of the wasm of onnxruntime, by its own notices


def test_nothing_names_where_packages_were_downloaded():
    lock = (WEB / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    funding = {"github.com", "opencollective.com", "tidelift.com"}
    assert set(re.findall(r"https?://([^/\"]+)", lock)) <= funding
    for name in ("explorer.js", "explorer.css"):
        hosts = set(re.findall(r"https?://([\w.:-]+)", (APP / name).read_text()))
        assert hosts <= {"www.w3.org", "web.dev"}  # of XML, and of a message of onnxruntime


def test_the_wheel_has_the_explorer(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        for name in FILES:
            assert wheel.read(f"unweave/explorer/app/{name}") == (APP / name).read_bytes()
