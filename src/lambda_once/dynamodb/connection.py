"""
One connection to DynamoDB: a request goes out whole, and its response comes in whole, or the connection ends.

Reads HTTP/1.1 as DynamoDB sends it, with a Content-Length or in chunks, and nothing else (RFC 9112). Whatever
a response leaves on a kept connection would be read as the response to the next request, for another key. So
whatever is ambiguous ends the connection: an interim status, two lengths, bytes behind the body.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from botocore.exceptions import (
    ConnectionClosedError,
    HTTPClientError,
    ReadTimeoutError,
    ResponseStreamingError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.core.clock import Deadline

LARGEST_HEAD: Final = 65_536
LARGEST_BODY: Final = 134_217_728
"""Bytes. A response has at most 16 MB of items (API reference, BatchGetItem); JSON and base64 add to that."""
_AT_ONCE: Final = 65_536
"""Bytes of one read: more than a TLS record has, so that none stays half read."""
_END_OF_LINE, _END_OF_HEAD = b"\r\n", b"\r\n\r\n"
_LONGEST_LINE: Final = 1_024
_LONGEST_LENGTH: Final = 10
"""Digits of a Content-Length."""
_STATUS: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n]*)?")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
_INTERIM, _WITHOUT_BODY = 200, 204
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The socket cannot go on before its peer does."""


class Response(NamedTuple):
    """A whole HTTP response. Names of *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    last: bool = False
    """Whether the connection ends with it."""


class Connection:
    """A connected *sock*, encrypted or not. One thread uses it at a time."""

    def __init__(self, sock: socket.socket, url: str) -> None:
        sock.setblocking(False)  # noqa: FBT003  (its only parameter)
        self._sock = sock
        self._url = url
        self._arrivals = _arrivals(sock)
        self._read: bytes | bytearray = b""
        """What came of the response, from `_at` on not yet taken."""
        self._at = 0

    def close(self) -> None:
        self._sock.close()

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last response: no byte of another one, and no end."""
        if self._sock.fileno() < 0 or self._arrivals.poll(0):  # below TLS: any record counts
            return False
        return not (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending())

    def exchange(self, request: bytes, deadline: Deadline) -> Response:
        """
        Send *request*, and return the response that is whole before *deadline*.

        Raises ConnectionClosedError only where no response began. After an error the connection is of no use.
        """
        self._read, self._at = b"", 0
        try:
            self._receive(self._sent(request, deadline))
            response = self._response(deadline)
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except OSError as error:
            if self._read:
                raise ResponseStreamingError(error=error) from error
            raise ConnectionClosedError(endpoint_url=self._url, error=error) from error
        if self._at < len(self._read):
            _refuse("there are bytes behind the response")
        return response

    def _response(self, deadline: Deadline) -> Response:
        head = self._until(_END_OF_HEAD, LARGEST_HEAD, deadline).decode("latin-1")
        first, *lines = head.split("\r\n")
        if head.count("\r") != len(lines) or head.count("\n") != len(lines) or "\0" in head:
            _refuse("the head of the response has control characters")
        version, status = _status(first)
        headers = _headers(lines)
        if status < _INTERIM:
            _refuse(f"the response is an interim one, {status}")
        body = self._body(status, headers, deadline)
        return Response(status, headers, body, version == "0" or _is_last(headers))

    def _body(self, status: int, headers: Mapping[str, str], deadline: Deadline) -> bytes:
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                _refuse("the length of the response is ambiguous")
            return self._chunks(deadline)
        if length is None:
            if status == _WITHOUT_BODY:
                return b""
            _refuse("the response has no length")
        is_number = length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH
        if not is_number or int(length) > LARGEST_BODY:
            _refuse("the length of the response is wrong")
        return self._exactly(int(length), deadline)

    def _chunks(self, deadline: Deadline) -> bytes:
        body = bytearray()
        while True:
            line = _CHUNK.fullmatch(self._until(_END_OF_LINE, _LONGEST_LINE, deadline))
            if line is None or (size := int(line[1], 16)) > LARGEST_BODY - len(body):
                _refuse("the size of a chunk is wrong")
            body += self._exactly(size, deadline)
            if self._exactly(len(_END_OF_LINE), deadline) != _END_OF_LINE:
                _refuse("a chunk is longer than its size, or there are trailers")
            if size == 0:
                return bytes(body)

    # ---------------------------------------------------------------- bytes

    def _sent(self, request: bytes, deadline: Deadline) -> float:
        """Send *request*, and return the seconds that are left then."""
        seconds = _seconds(deadline)
        try:
            sent = self._sock.send(request)
        except _LATER:
            sent = 0
        if sent == len(request):  # at once: the socket does not block
            return seconds
        left = memoryview(request)[sent:]
        while left:
            self._sock.settimeout(_seconds(deadline))
            left = left[self._sock.send(left) :]
        self._sock.setblocking(False)  # noqa: FBT003
        return _seconds(deadline)

    def _until(self, mark: bytes, most: int, deadline: Deadline) -> bytes:
        """Return what comes before *mark*, at most *most* bytes, and take both."""
        searched = 0
        while (end := self._read.find(mark, self._at + searched)) < 0:
            held = len(self._read) - self._at
            if held > most:
                break
            searched = max(held - len(mark) + 1, 0)
            self._receive(_seconds(deadline))
        if end < 0 or end - self._at > most:
            _refuse("a part of the response is too long")
        return self._taken(end, len(mark))

    def _exactly(self, length: int, deadline: Deadline) -> bytes:
        while len(self._read) - self._at < length:
            self._receive(_seconds(deadline))
        return self._taken(self._at + length)

    def _taken(self, end: int, behind: int = 0) -> bytes:
        found = self._read[self._at : end]
        self._at = end + behind
        return bytes(found)

    def _receive(self, seconds: float) -> None:
        """Wait *seconds* for more. Raises TimeoutError where none comes."""
        if not self._arrivals.poll(seconds * 1_000):
            raise TimeoutError("the response is not whole in time")
        try:
            read = self._sock.recv(_AT_ONCE)
        except _LATER:  # a part of a TLS record
            return
        if not read:
            raise ConnectionResetError("the connection ended")
        if self._at == len(self._read):
            self._read = read
        else:
            self._read = bytearray(self._read) if isinstance(self._read, bytes) else self._read
            del self._read[: self._at]
            self._read += read
        self._at = 0


def message(headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a POST of *body* as it is sent. Names and values of *headers* must be fit for it."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


class _Select:
    """What `select.poll` returns, where there is none: Windows."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def poll(self, milliseconds: float) -> list[object]:
        return [*select.select([self._sock], [], [], milliseconds / 1_000)[0]]


def _arrivals(sock: socket.socket) -> Any:
    """Return what waits until *sock* can be read, or has ended."""
    if not hasattr(select, "poll"):
        return _Select(sock)
    arrivals = select.poll()
    arrivals.register(sock, select.POLLIN)
    return arrivals


@lru_cache(maxsize=8)
def _status(line: str) -> tuple[str, int]:
    """Return the minor version and the status of a status *line*."""
    found = _STATUS.fullmatch(line)
    if found is None:
        _refuse("the response is not HTTP/1.1")
    return found[1], int(found[2])


@lru_cache(maxsize=64)  # those of DynamoDB are always the same
def _name(given: str) -> str:
    """Return the *given* name of a header in lower case."""
    if _NAME.fullmatch(given) is None:
        _refuse("a header of the response is malformed")
    return given.lower()


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        given, colon, value = line.partition(":")
        if not colon:
            _refuse("a header of the response is malformed")
        name, value = _name(given), value.strip(" \t")
        if name in found:
            if name in _FRAMING:
                _refuse("the length of the response is ambiguous")
            value = f"{found[name]}, {value}"
        found[name] = value
    return found


def _is_last(headers: Mapping[str, str]) -> bool:
    given = headers.get("connection")
    return given is not None and "close" in [option.strip() for option in given.lower().split(",")]


def _seconds(deadline: Deadline) -> float:
    """Return the seconds that are left. Raises TimeoutError where none is."""
    seconds = deadline.remaining()
    if seconds == 0:
        raise TimeoutError("the response is not whole in time")
    return seconds


def _refuse(why: str) -> NoReturn:
    raise HTTPClientError(error=why)
