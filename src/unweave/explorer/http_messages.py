"""The subset of HTTP that the explorer's server speaks: one strict request per connection."""

import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

LARGEST_HEAD = 32_768  # bytes of a request line and its headers
_LONGEST_TARGET = 1_024
_HEAD_SECONDS = 10.0  # for a client to send all of its request
_DRAIN_SECONDS = 1.0

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S+) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")


class Refused(Exception):
    """A request that the server refuses, and the HTTP status that it answers with."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class NotFound(Refused):
    """A request for an address or a run that is not there."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, "there is nothing at this address")


@dataclass(frozen=True)
class Request:
    """The head of a request; names of headers are in lower case. It has no body."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Response:
    """An answer with its own headers, to which `to_bytes` adds its length."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self, head_only: bool = False) -> bytes:
        """Return the bytes to send."""
        every = {
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
            **self.headers,
        }
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in every.items()]
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        # "Not modified" gives the length of the content without sending it.
        return head if head_only or self.status is HTTPStatus.NOT_MODIFIED else head + self.body


def read_request(connection: socket.socket) -> Request:
    """Read a request; raise `Refused` for one that is malformed, too long or too slow."""
    received, deadline = b"", time.monotonic() + _HEAD_SECONDS
    while b"\r\n\r\n" not in received:
        if len(received) > LARGEST_HEAD:
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            part = connection.recv(4096)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
        if not part:
            raise Refused(HTTPStatus.BAD_REQUEST, "the request is incomplete")
        received += part
    return parse_request(received.partition(b"\r\n\r\n")[0])


def parse_request(head: bytes) -> Request:
    r"""Read the lines of a request, without the empty one.

    >>> parse_request(b"GET /manifest HTTP/1.1\r\nHost: localhost:80").headers
    {'host': 'localhost:80'}
    """
    first, *lines = head.split(b"\r\n")
    if not (line := _LINE.fullmatch(first)):
        raise Refused(HTTPStatus.BAD_REQUEST, "the request line is malformed")
    if len(line[2]) > _LONGEST_TARGET:
        raise Refused(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
    headers: dict[str, str] = {}
    for each in lines:
        header = _HEADER.fullmatch(each)
        name = header[1].decode().lower() if header else ""
        if not header or name in headers:
            raise Refused(HTTPStatus.BAD_REQUEST, "a header is malformed or given twice")
        headers[name] = header[2].decode("latin-1")
    return Request(line[1].decode(), line[2].decode("latin-1"), headers)


def close_gently(connection: socket.socket) -> None:
    """End the answer, and read on for a moment.

    Closing while input is unread would reset the connection, and the client would lose the answer.
    """
    deadline = time.monotonic() + _DRAIN_SECONDS
    try:
        connection.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(65_536):
                break
    except OSError:  # the client is gone, or still sends
        pass
