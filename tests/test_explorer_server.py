"""The explorer's server: it answers its own page and runs, to its own page only."""

import contextlib
import json
import random
import re
import socket

import pytest

from explorer_app import ask, install_app, serving
from unweave.explorer import http_messages
from unweave.explorer.http_messages import LARGEST_HEAD, NotFound
from unweave.explorer.paths import without_paths
from unweave.explorer.server import ExplorerServer

PAGE, MANIFEST, BUNDLE = b"<!doctype html>page", b'{"runs":[]}', b"\x1f\x8bbundle"
KNOWN = {"/": PAGE, "/manifest": MANIFEST, "/model/3f2a": BUNDLE}


class FakeContent:
    """One run that can be read, and three that fail."""

    def page(self):
        return PAGE

    def manifest(self, known=""):
        return "now", MANIFEST

    def bundle(self, run):
        if run == "dead":
            raise ValueError("/home/ada/runs/dead cannot be read: it is damaged")
        if run == "bad":
            raise KeyError("secret")
        if run == "odd":
            raise ValueError("\x1b[31m\u202ecannot be read")
        if run != "3f2a":
            raise NotFound
        return BUNDLE


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        install_app(patch, tmp_path_factory.mktemp("explorer") / "app")
        for name in ("_HEAD_SECONDS", "_DRAIN_SECONDS"):
            patch.setattr(http_messages, name, 600.0)  # a busy machine may need seconds
        with serving(FakeContent()) as running:
            yield running


def send(server, content, end=True):
    """Send bytes, and return everything that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(content)
            if end:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65_536):
                received += part
    return received


def test_the_page_the_manifest_and_the_bundles_are_answered(server):
    for target, content in KNOWN.items():
        status, headers, body = ask(server, target)
        assert (status, body) == (200, content)
        assert headers["Content-Length"] == str(len(content))
        status, of_head, body = ask(server, target, method="HEAD")
        assert (status, of_head, body) == (200, headers, b"")


def test_a_manifest_that_the_page_has_is_not_sent_again(server):
    status, headers, body = ask(server, "/manifest")
    assert (status, body) == (200, MANIFEST)
    status, again, body = ask(server, "/manifest", If_None_Match=headers["ETag"])
    assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
    assert ask(server, "/manifest", If_None_Match='"other"')[2] == MANIFEST


@pytest.mark.parametrize(
    "folder", ["/home/ada", "/my runs (old)", "C:\\Users\\ada l", "~/a, b", "/a:b"]
)
def test_texts_lose_folders_with_any_characters(folder):
    path = f"{folder}/3f2a"
    assert without_paths(f"cannot read {path}: damaged") == "cannot read 3f2a: damaged"
    assert without_paths(f"{path} is not {path}") == "3f2a is not 3f2a"
    assert without_paths(f"expected '{path}', got \"{path}\"") == "expected '3f2a', got \"3f2a\""


def test_every_answer_has_the_headers_that_protect_it(server):
    for target in (*KNOWN, "/nothing", "/model/dead"):
        _, headers, _ = ask(server, target)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy


def test_only_this_machine_can_connect(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    for address in {each[4][0] for each in found if not each[4][0].startswith("127.")}:
        with socket.socket() as other:
            other.settimeout(1)
            assert other.connect_ex((address, server.port)) != 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1",
                                  "evil.example:{}", "localhost.evil.example:{}", "[::1]:{}",
                                  "127.0.0.1:{}@evil.example", "0.0.0.0:{}", ""])  # fmt: skip
def test_other_hosts_are_refused(server, host):
    status, _, body = ask(server, Host=host.format(server.port))
    assert status == 403
    assert "Host" in json.loads(body)["error"]


def test_both_names_of_the_machine_are_accepted(server):
    for host in (f"127.0.0.1:{server.port}", f"LOCALHOST:{server.port}"):
        assert ask(server, Host=host)[0] == 200


def test_requests_of_other_websites_are_refused(server):
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server, "/manifest", Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    for origin in ("https://evil.example", "null", f"https://127.0.0.1:{server.port}",
                   "http://127.0.0.1", f"{own}.evil.example"):  # fmt: skip
        assert ask(server, "/manifest", Origin=origin)[0] == 403
    for site in ("cross-site", "same-site", "anything"):
        for target in KNOWN:
            assert ask(server, target, Sec_Fetch_Site=site)[0] == 403
            assert ask(server, target, Sec_Fetch_Site=site, Sec_Fetch_Dest="iframe")[0] == 403
        link = {"Sec_Fetch_Site": site, "Sec_Fetch_Dest": "document"}
        assert ask(server, "/", **link)[0] == 200  # a link, which shows the page to the user alone
        assert ask(server, "/manifest", **link)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT",
                                    "get", "BREW"])  # fmt: skip
def test_other_methods_are_refused(server, method):
    status, headers, body = ask(server, "/", method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert json.loads(body) == {"error": "only GET and HEAD are answered"}


@pytest.mark.parametrize("target", ["/model/", "/model", "/model/unknown", "/model/3f2a/", "//",
                                    "/model/../manifest", "/model/%33f2a", "/model/3f2a?x=1",
                                    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/?", "*",
                                    "/model/..%2f..%2fetc%2fpasswd", "/manifest/", "/index.html",
                                    "/model/3F2A", "/model/3f2a%00", "manifest",
                                    "/favicon.ico", "/model//3f2a", "\\", "/MANIFEST"])  # fmt: skip
def test_other_addresses_are_not_found(server, target):
    status, _, body = ask(server, target)
    assert status == 404
    assert json.loads(body) == {"error": "there is nothing at this address"}


def test_errors_are_one_sentence_without_paths_or_traceback(server, capfd):
    status, _, body = ask(server, "/model/dead")
    assert status == 500
    assert json.loads(body) == {"error": "dead cannot be read: it is damaged"}
    assert "/home/ada/runs/dead cannot be read" in capfd.readouterr().err
    status, _, body = ask(server, "/model/bad")
    assert status == 500
    assert json.loads(body)["error"] == (
        "an error occurred in the explorer; its terminal has the details"
    )
    assert "KeyError" in capfd.readouterr().err


def test_errors_show_characters_that_control_a_terminal_or_the_direction_of_writing(server):
    body = ask(server, "/model/odd")[2]
    assert json.loads(body) == {"error": r"\x1b[31m\u202ecannot be read"}


def status_of(server, content, end=True):
    return int(send(server, content, end).split(b" ", 2)[1])


def test_malformed_requests_get_an_answer(server):
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    get = b"GET / HTTP/1.1\r\n" + host
    assert status_of(server, get + b"\r\n") == 200
    assert status_of(server, b"GET /\r\n\r\n") == 400  # HTTP/0.9
    assert status_of(server, b"GET / HTTP/2.0\r\n" + host + b"\r\n") == 400
    assert status_of(server, b"GET / HTTP/1.1\r\n\r\n") == 403
    assert status_of(server, get + host + b"\r\n") == 400
    assert status_of(server, get + b"Content-Length: 5\r\n\r\nhello") == 400
    assert status_of(server, get + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n") == 400
    assert status_of(server, get + b"X : 1\r\n\r\n") == 400
    assert status_of(server, get + b" folded\r\n\r\n") == 400
    assert status_of(server, get + b"X: a\nHost: b\r\n\r\n") == 400
    assert status_of(server, get) == 400  # the client stopped
    assert status_of(server, b"") == 400
    assert status_of(server, b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n" + host + b"\r\n") == 414
    assert status_of(server, get + b"X: " + b"a" * 2 * LARGEST_HEAD + b"\r\n\r\n") == 431
    assert status_of(server, b"x" * 10 * LARGEST_HEAD) == 431
    assert status_of(server, b"POST / HTTP/1.1\r\n" + host + b"\r\n" + b"x" * 10**6) == 405


def test_a_client_that_goes_on_waiting_is_given_up(server, monkeypatch):
    monkeypatch.setattr(http_messages, "_HEAD_SECONDS", 0.01)
    assert status_of(server, b"GET / HTTP/1.1\r\n", end=False) == 408


def random_request(rng, port):
    """Return a valid request with a few changes, or noise."""
    host = rng.choice([f"127.0.0.1:{port}", f"localhost:{port}", "evil.example", ""])
    target = rng.choice([*KNOWN, "/model/none", "/../x", "/%00", "/" + "a" * rng.randrange(1500)])
    method = rng.choice(["GET", "GET", "HEAD", "POST", "OPTIONS", "G\x00T", ""])
    lines = [f"{method} {target} HTTP/1.{rng.randrange(3)}", f"Host: {host}"]
    extra = ["Origin: null", "Sec-Fetch-Site: cross-site", "Content-Length: 3", "A: b", "A: b",
             ": x", "X", "Cookie: " + "c" * rng.randrange(40_000), f"Host: {host}"]  # fmt: skip
    lines += rng.sample(extra, rng.choice([0, 0, 1, 2]))
    content = bytearray(("\r\n".join(lines) + "\r\n\r\n").encode())
    for _ in range(rng.choice([0, 0, 1, 3, 10])):
        place = rng.randrange(len(content))
        change = rng.randrange(4)
        if change == 0:
            content[place] = rng.randrange(256)
        elif change == 1:
            del content[place : place + rng.randrange(1, 20)]
        elif change == 2:
            content[place:place] = rng.randbytes(rng.randrange(1, 20))
        else:
            content[place:place] = rng.choice([b"\r\n", b"\n", b"\r\n\r\n", b"\x00", b"%2e%2e/"])
        if not content:
            return rng.randbytes(50)
    return rng.randbytes(rng.randrange(200)) if rng.random() < 0.1 else bytes(content)


def check_answer(sent, answer):
    """The answer is a well-formed refusal, or exactly one of the known resources."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Za-z -]+", first)[1])
    headers = dict(line.split(": ", 1) for line in lines)
    length, of_head = int(headers["Content-Length"]), sent.startswith(b"HEAD ")
    assert len(body) in ((0, length) if of_head else (length,))
    if status == 200:
        target = sent.split(b" ")[1].decode()
        assert length == len(KNOWN[target])
        assert of_head or body == KNOWN[target]
    else:
        assert 400 <= status < 500
        assert not body or list(json.loads(body)) == ["error"]
    return status


def test_random_requests_are_refused_or_answered_exactly(server):
    rng = random.Random(0)
    seen = [check_answer(sent, send(server, sent))
            for sent in (random_request(rng, server.port) for _ in range(600))]  # fmt: skip
    assert {200, 400, 403, 404, 405, 414} <= set(seen)
    assert ask(server, "/manifest")[2] == MANIFEST


def test_slow_and_silent_clients_block_nobody(server):
    with contextlib.ExitStack() as stack:
        for number in range(40):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(b"GET / HT"[: number % 9])
        assert ask(server, "/manifest")[0] == 200


def test_a_port_in_use_is_an_error_that_says_what_to_do(server):
    with pytest.raises(ValueError, match=rf"cannot listen on port {server.port} .*--port"):
        ExplorerServer(FakeContent(), server.port)
    with pytest.raises(ValueError, match="cannot listen on port 70000"):
        ExplorerServer(FakeContent(), 70_000)
