"""
One connection to DynamoDB: a request goes out whole, and its response comes in whole, or the connection ends.

Reads HTTP/1.1 as DynamoDB sends it, with a Content-Length or in chunks, and nothing else (RFC 9112). Whatever
a response leaves on a kept connection would be read as the response to the next request, for another key. So
whatever is ambiguous ends the connection: an interim status, two lengths, bytes behind the body.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

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
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [^\x00\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
_LENGTH: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
_INTERIM, _WITHOUT_BODY = 200, 204
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})


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
        self._sock = sock
        self._url = url
        self._read = bytearray()
        self._began = False

    def close(self) -> None:
        self._sock.close()

    def is_quiet(self) -> bool:
        """Whether nothing has come since the last response: no byte of another one, and no end."""
        try:
            self._sock.settimeout(0)
            socket.socket.recv(self._sock, 1, socket.MSG_PEEK)  # below TLS: any record counts
        except BlockingIOError:
            return not (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending())
        except OSError:
            return False
        return False

    def exchange(self, request: bytes, deadline: Deadline) -> Response:
        """
        Send *request*, and return the response that is whole before *deadline*.

        Raises ConnectionClosedError only where no response began. After an error the connection is of no use.
        """
        self._began = False
        try:
            self._send(request, deadline)
            response = self._response(deadline)
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except OSError as error:
            if self._began:
                raise ResponseStreamingError(error=error) from error
            raise ConnectionClosedError(endpoint_url=self._url, error=error) from error
        if self._read:
            _refuse("there are bytes behind the response")
        return response

    def _send(self, request: bytes, deadline: Deadline) -> None:
        left = memoryview(request)
        while left:
            self._sock.settimeout(_seconds(deadline))
            left = left[self._sock.send(left) :]

    def _response(self, deadline: Deadline) -> Response:
        head = self._until(_END_OF_HEAD, LARGEST_HEAD, deadline)
        first, *lines = head.split(_END_OF_LINE)
        line = _STATUS.fullmatch(first)
        if line is None:
            _refuse("the response is not HTTP/1.1")
        status, headers = int(line[2]), _headers(lines)
        if status < _INTERIM:
            _refuse(f"the response is an interim one, {status}")
        body = self._body(status, headers, deadline)
        return Response(status, headers, body, line[1] == b"0" or _is_last(headers))

    def _body(self, status: int, headers: Mapping[str, str], deadline: Deadline) -> bytes:
        length, coding = (headers.get(name) for name in ("content-length", "transfer-encoding"))
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                _refuse("the length of the response is ambiguous")
            return self._chunks(deadline)
        if length is None:
            if status == _WITHOUT_BODY:
                return b""
            _refuse("the response has no length")
        if _LENGTH.fullmatch(length) is None or int(length) > LARGEST_BODY:
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

    def _until(self, mark: bytes, most: int, deadline: Deadline) -> bytes:
        """Return what comes before *mark*, at most *most* bytes, and take both."""
        searched = 0
        while (end := self._read.find(mark, searched)) < 0:
            if len(self._read) > most:
                _refuse("the head of the response is too long")
            searched = max(len(self._read) - len(mark) + 1, 0)
            self._receive(deadline)
        return self._taken(end, len(mark))

    def _exactly(self, length: int, deadline: Deadline) -> bytes:
        while len(self._read) < length:
            self._receive(deadline)
        return self._taken(length)

    def _taken(self, length: int, behind: int = 0) -> bytes:
        found = bytes(self._read[:length])
        del self._read[: length + behind]
        return found

    def _receive(self, deadline: Deadline) -> None:
        self._sock.settimeout(_seconds(deadline))
        read = self._sock.recv(_AT_ONCE)
        if not read:
            raise ConnectionResetError("the connection ended")
        self._began = True
        self._read += read


def message(headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a POST of *body* as it is sent. Names and values of *headers* must be fit for it."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


def _headers(lines: list[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            _refuse("a header of the response is malformed")
        name, value = header[1].decode().lower(), header[2].decode("latin-1")
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
