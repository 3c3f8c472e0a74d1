"""The explorer's server: the page, its manifest and its bundles, on this machine only.

It listens on the loopback address, and refuses requests that another website makes a browser send:
they carry another Host (DNS rebinding), Origin or Sec-Fetch-Site. A path in a request is compared
with the known ones and never becomes the path of a file.
"""

import json
import os
import socket
import socketserver
import threading
import traceback
from http import HTTPStatus
from typing import Any

from unweave.core.console import err
from unweave.core.notes import print_notes
from unweave.core.text import visible
from unweave.explorer.http_messages import (
    NotFound,
    Refused,
    Request,
    Response,
    close_gently,
    read_request,
)
from unweave.explorer.library import Library
from unweave.explorer.page import policy
from unweave.explorer.paths import without_paths

ADDRESS = "127.0.0.1"
_SEND_SECONDS = 120.0  # for a client to take all of an answer
_MOST_CONNECTIONS = 128  # at a time; others wait
_JSON = "application/json"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ExplorerServer(socketserver.ThreadingTCPServer):
    """Serves a page and its models, in a thread a connection.

    Args:
        content: what to show.
        port: the port to listen on; 0 for any that is free.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere another process could take the port
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, content: Library, port: int = 0) -> None:
        self.content = content
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            super().__init__((ADDRESS, port), _Connection)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(
                f"cannot listen on port {port} ({reason}): choose another --port, or none for one "
                "that is free"
            ) from None

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread, as soon as fewer than the most are open."""
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def respond(self, request: Request) -> Response:
        """Answer a request; raise `Refused` for one that is not for this server."""
        self._check_sender(request)
        if request.method not in ("GET", "HEAD"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered")
        if {"content-length", "transfer-encoding"} & request.headers.keys():
            raise Refused(HTTPStatus.BAD_REQUEST, "a request has no body here")
        return self._route(request)

    def _check_sender(self, request: Request) -> None:
        """Refuse what another website made a browser send, except a link to the page."""
        hosts = {f"{name}:{self.port}" for name in (ADDRESS, "localhost")}
        headers = request.headers
        if headers.get("host", "").lower() not in hosts:
            raise Refused(HTTPStatus.FORBIDDEN, "the Host header is not that of this server")
        if "origin" in headers and headers["origin"] not in {f"http://{host}" for host in hosts}:
            raise Refused(HTTPStatus.FORBIDDEN, "another website sent this request")
        followed_link = request.target == "/" and headers.get("sec-fetch-dest") == "document"
        own = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not own and not followed_link:
            raise Refused(HTTPStatus.FORBIDDEN, "another website sent this request")

    def _route(self, request: Request) -> Response:
        target = request.target
        if target == "/":
            return self._ok("text/html; charset=utf-8", self.content.page())
        if target == "/manifest":
            return self._manifest(request.headers.get("if-none-match", "").strip('"'))
        first, slash, run = target[1:].partition("/")
        if (first, slash) != ("model", "/"):
            raise NotFound
        return self._ok("application/gzip", self.content.bundle(run))

    def _manifest(self, known: str) -> Response:
        """Send what has changed since the page last asked, which it does again and again."""
        tag, body = self.content.manifest(known)
        status = HTTPStatus.NOT_MODIFIED if known == tag else HTTPStatus.OK
        return Response(status, _JSON, body, {**own_headers(), "ETag": f'"{tag}"'})

    def _ok(self, content_type: str, body: bytes) -> Response:
        return Response(HTTPStatus.OK, content_type, body, own_headers())


def own_headers() -> dict[str, str]:
    """Return the headers of every answer."""
    return {**_HEADERS, "Content-Security-Policy": f"{policy(True)}; frame-ancestors 'none'"}


def error_response(error: Exception) -> Response:
    """Return the answer to a request that failed: one sentence as JSON, without any path."""
    status, headers = HTTPStatus.INTERNAL_SERVER_ERROR, own_headers()
    if isinstance(error, Refused):
        status, text = error.status, str(error)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
    elif isinstance(error, (ValueError, OSError)):
        text = without_paths(str(error))
        print_notes(err, [f"error: {' '.join(str(error).split())}"])
    else:
        text = "an error occurred in the explorer; its terminal has the details"
        traceback.print_exception(error)
    return Response(status, _JSON, json.dumps({"error": visible(text)}).encode(), headers)


class _Connection(socketserver.BaseRequestHandler):
    """Answers the one request of a connection."""

    request: socket.socket
    server: ExplorerServer

    def handle(self) -> None:
        head_only = False
        try:
            try:
                request = read_request(self.request)
                head_only = request.method == "HEAD"
                response = self.server.respond(request)
            except ConnectionError:
                return
            except Exception as error:  # whatever happened, the client gets an answer
                response = error_response(error)
            self.request.settimeout(_SEND_SECONDS)
            self.request.sendall(response.to_bytes(head_only))
            close_gently(self.request)
        except OSError:  # the client is gone or does not read
            pass
