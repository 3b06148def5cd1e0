"""DynamoDB on a socket: the strict engine executes each request, a test chooses the bytes that go back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import NamedTuple
from zlib import crc32

from tests.kit.strict import mounted

IDLE_SECONDS = 5.0
"""Seconds after which an idle connection is closed."""
_IDS = count()


class Sent(NamedTuple):
    """Bytes of the server, and whether it ends the connection after them."""

    data: bytes
    ends: bool = False


Play = Callable[[bytes], Sent]
"""Returns what is sent in place of the right answer to a request that was executed."""


def right(answer: bytes) -> Sent:
    """All is well."""
    return Sent(answer)


class Crossing:
    """From `begin` on, *most* requests get an answer from before it, though each was executed."""

    def __init__(self) -> None:
        self._left = 0
        self._last = b""
        self.crossed = 0

    def begin(self, most: int = 1) -> None:
        self._left, self.crossed = most, 0

    def __call__(self, answer: bytes) -> Sent:
        if not self._left:
            self._last = answer
            return Sent(answer)
        self._left -= 1
        self.crossed += 1
        return Sent(self._last)


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128  # of 5, threads that connect at once find it full, and wait a second
    play: Play


class _Connection(StreamRequestHandler):
    timeout = IDLE_SECONDS
    server: _Server

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client has gone, or sends what is no request
            while self._exchanged():
                pass

    def _exchanged(self) -> bool:
        headers = {}
        if not self.rfile.readline():
            return False
        while (line := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers["content-length"]))
        sent = self.server.play(http(*mounted.executed(headers["x-amz-target"], body)))
        self.connection.sendall(sent.data)
        if sent.ends:
            self.connection.shutdown(socket.SHUT_RDWR)
        return not sent.ends


def http(status: int, body: bytes) -> bytes:
    """Return DynamoDB's answer as it sends it."""
    shown = mounted.HEADERS | {
        "x-amzn-requestid": f"strict-{next(_IDS)}",
        "content-length": str(len(body)),
        "x-amz-crc32": str(crc32(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    return f"HTTP/1.1 {status} Any\r\n{lines}\r\n".encode() + body


@contextmanager
def played(play: Play = right) -> Iterator[str]:
    """Serve the engine that is mounted, and yield the endpoint; what goes back is as *play* returns it."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.play = play
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
