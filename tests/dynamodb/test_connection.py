"""One connection, byte by byte: a response comes in whole and in time, or the connection is of no use."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    HTTPClientError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.dynamodb.connection import LARGEST_BODY, LARGEST_HEAD, Connection, Response
from lambda_once.dynamodb.errors import is_transient
from lambda_once.testing import FakeClock

LIMIT = 3.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Peer:
    """The socket of a server that sends *pieces*, one a read, each after *pace* seconds, and then ends."""

    def __init__(self, *pieces: bytes | Exception, pace: float = 0.0) -> None:
        self.clock = FakeClock()
        self.sent = b""
        self.pieces = list(pieces)
        self._pace = pace

    def setblocking(self, flag: bool) -> None: ...

    def settimeout(self, seconds: float) -> None: ...

    def fileno(self) -> int:
        return 0

    def send(self, data: bytes) -> int:
        self.sent += bytes(data[:5])
        return min(len(data), 5)

    def poll(self, milliseconds: float) -> list[int]:
        self.clock.advance(min(self._pace, milliseconds / 1_000))
        return [1] if self._pace * 1_000 <= milliseconds else []

    def recv(self, most: int) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        assert len(piece) <= most
        return piece


def exchanged(peer: Peer) -> Response:
    """Send a request to *peer*, and return its response."""
    connection: Any = Connection(peer, "http://table")  # type: ignore[arg-type]
    connection._arrivals = peer
    response: Response = connection.exchange(
        b"POST / HTTP/1.1\r\n\r\n", Deadline(peer.clock, peer.clock.now() + timedelta(seconds=LIMIT))
    )
    return response


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
@pytest.mark.parametrize(
    "whole",
    [
        OK,
        CHUNKED + b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200\r\ncontent-length:2\r\n\r\n{}",
    ],
)
def test_a_response_in_pieces(whole: bytes, size: int) -> None:
    """Wherever it is cut, it is put together, and the whole request goes out."""
    peer = Peer(*[whole[at : at + size] for at in range(0, len(whole), size)])
    response = exchanged(peer)
    assert (response.status, response.body, response.last) == (200, b"{}", False)
    assert peer.sent == b"POST / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("cut", range(1, len(OK)))
def test_a_part_of_a_response_is_none(cut: int) -> None:
    """It is transient; only where nothing came may it be sent again at once."""
    with pytest.raises(ResponseStreamingError) as raised:
        exchanged(Peer(OK[:cut]))
    assert is_transient(raised.value)
    for end in (b"", ConnectionResetError(), BrokenPipeError()):
        with pytest.raises(ConnectionClosedError):
            exchanged(Peer(end))


AMBIGUOUS = {
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK,
    "interim with a length": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    "another response behind": OK + OK,
    "a byte behind": OK + b"\n",
    "too small a length": OK.replace(b": 2", b": 1"),
    "two lengths": OK.replace(b"Content", b"Content-Length: 2\r\nContent"),
    "two lengths in one": OK.replace(b": 2", b": 2, 2"),
    "a length and chunks": OK.replace(b"Content", b"Transfer-Encoding: chunked\r\nContent"),
    "another coding": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "a length below zero": OK.replace(b": 2", b": -2"),
    "a length with a sign": OK.replace(b": 2", b": +2"),
    "a length in other digits": OK.replace(b": 2", b": \xb2"),
    "a length too large": OK.replace(b": 2", f": {LARGEST_BODY + 1}".encode()),
    "a length far too large": OK.replace(b": 2", b": " + b"9" * 5_000),
    "a folded header": OK.replace(b"\r\n\r\n", b"\r\n and more\r\n\r\n"),
    "a space before the colon": OK.replace(b"Length:", b"Length :"),
    "a header without a colon": OK.replace(b"\r\n\r\n", b"\r\nnonsense\r\n\r\n"),
    "a bare line feed": OK.replace(b"200 OK\r\n", b"200 OK\nX: y\r\n"),
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "a status of two digits": OK.replace(b"200", b"20"),
    "no end of the head": b"HTTP/1.1 200 OK\r\n" + b"x" * LARGEST_HEAD,
    "a chunk longer than its size": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "no size of a chunk": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "a size too large": CHUNKED + b"ffffffff\r\n{}\r\n0\r\n\r\n",
    "trailers": CHUNKED + b"2\r\n{}\r\n0\r\nx-amz-crc32: 1\r\n\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_response_is_none(name: str) -> None:
    """Two readers could end it at different bytes, and the rest would be the next request's response."""
    sent = AMBIGUOUS[name]
    pieces = [sent[at : at + 60_000] for at in range(0, len(sent), 60_000)]
    with pytest.raises(HTTPClientError) as raised:
        exchanged(Peer(*pieces))
    assert is_transient(raised.value)


@pytest.mark.parametrize(
    ("whole", "last"),
    [
        (OK.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"), True),
        (OK.replace(b"\r\n\r\n", b"\r\nConnection: x, close\r\n\r\n"), True),
        (OK.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"), False),
        (OK.replace(b"1.1", b"1.0"), True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False),
    ],
)
def test_the_last_response_of_a_connection(whole: bytes, last: bool) -> None:
    """One that says so, or that an old server sends."""
    assert exchanged(Peer(whole)).last is last


@pytest.mark.parametrize(
    "pieces", [[b"H"] * 5_000, [OK[:-4].replace(b": 2", b": 99") + b"\r\n\r\n", *[b"{"] * 50]]
)
def test_a_response_has_a_limit_as_a_whole(pieces: list[bytes]) -> None:
    """However small the pauses between its bytes are: a drip never ends by the limit of one read."""
    peer = Peer(*pieces, pace=0.9)
    began = peer.clock.now()
    with pytest.raises(ReadTimeoutError) as raised:
        exchanged(peer)
    assert is_transient(raised.value)
    assert (peer.clock.now() - began).total_seconds() == pytest.approx(LIMIT, abs=0.01)


def test_the_request_is_in_the_limit() -> None:
    """A peer that takes the request slowly has less time for its response."""

    class Slow(Peer):
        def send(self, data: bytes) -> int:
            self.clock.advance(1.0)
            return super().send(data)

    peer = Slow(OK)
    with pytest.raises(ReadTimeoutError):
        exchanged(peer)
    assert len(peer.sent) == 15


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection, and the socket at its other end."""
    near, far = socket.socketpair()
    with closing(Connection(near, "http://table")) as connection, far:
        yield connection, far


def test_a_request_larger_than_the_buffers(pair: tuple[Connection, socket.socket]) -> None:
    """It goes out whole while the peer reads; the socket waits for it, not longer than the limit."""
    connection, far = pair
    request = bytes(8_000_000)
    received = bytearray()

    def serve() -> None:
        while len(received) < len(request):
            received.extend(far.recv(1_000_000))
        far.sendall(OK)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    clock = SystemClock()
    response = connection.exchange(request, Deadline(clock, clock.now() + timedelta(seconds=60)))
    server.join()
    assert (response.body, bytes(received) == request) == (b"{}", True)
    assert connection.is_quiet()


def test_where_there_is_no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, `select` waits."""
    monkeypatch.delattr("select.poll")
    near, far = socket.socketpair()
    with closing(Connection(near, "http://table")) as connection, far:
        assert connection.is_quiet()
        far.sendall(OK)
        assert not connection.is_quiet()


@pytest.mark.parametrize("most", [LARGEST_HEAD - 1, LARGEST_HEAD])
def test_the_limit_of_the_head_is_that_of_its_bytes(most: int) -> None:
    """However they are cut."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx: "
    whole = head + b"y" * (most + 1 - len(head)) + b"\r\n\r\n{}"
    for cut in (10, 60_000):
        pieces = [whole[at : at + 60_000] for at in range(cut, len(whole), 60_000)]
        if most < LARGEST_HEAD:
            assert exchanged(Peer(whole[:cut], *pieces)).status == HTTPStatus.OK
        else:
            with pytest.raises(HTTPClientError):
                exchanged(Peer(whole[:cut], *pieces))


def test_a_connection_is_quiet_until_something_comes(pair: tuple[Connection, socket.socket]) -> None:
    """A byte counts, and so does the end."""
    connection, far = pair
    assert connection.is_quiet()
    far.sendall(b"x")
    assert not connection.is_quiet()


def test_an_ended_connection_is_not_quiet(pair: tuple[Connection, socket.socket]) -> None:
    """As where the environment was frozen meanwhile."""
    connection, far = pair
    far.close()
    assert not connection.is_quiet()
    connection.close()
    assert not connection.is_quiet()
