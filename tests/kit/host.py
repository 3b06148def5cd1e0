"""A host that answers as DynamoDB does, and notes each request with the connection on which it came."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, NamedTuple
from zlib import crc32

from tests.kit.strict import mounted

IDLE_SECONDS = 10.0
"""Seconds after which a connection is closed that a failed test has left open."""
_IDS = count()


class Request(NamedTuple):
    """What came. Names of *headers* are in lower case."""

    connection: int
    """The client's port, another one for each connection that is open."""
    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(self.body)
        return arguments


class Sent(NamedTuple):
    """Bytes of the server, and whether it ends the connection after them."""

    data: bytes
    ends: bool = False


Answer = Callable[[Request], bytes | Sent]
"""Returns the bytes that answer a request."""


def http(status: int, body: bytes) -> bytes:
    """Return DynamoDB's answer as it sends it."""
    shown = mounted.HEADERS | {
        "x-amzn-requestid": f"strict-{next(_IDS)}",
        "content-length": str(len(body)),
        "x-amz-crc32": str(crc32(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    return f"HTTP/1.1 {status} Any\r\n{lines}\r\n".encode() + body


def nothing(_request: Request) -> bytes:
    """Answer as for a row that is not there, and for a write that is granted."""
    return http(200, b"{}")


def refusal(code: str, message: str = "no", status: int = 400) -> bytes:
    """Return DynamoDB's error *code*, as it sends it."""
    return http(status, json.dumps(mounted.error_body(code, message)).encode())


class Host(ThreadingTCPServer):
    """Listens on a free loopback port. With *context* it speaks TLS."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128  # of 5, threads that connect at once find it full, and wait a second

    def __init__(self, answer: Answer = nothing, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.answer = answer
        self.requests: list[Request] = []
        self._context = context
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def end_connections(self, *, reset: bool = False) -> None:
        """End all that are open, in good order (FIN) or by a reset (RST), and return when they are closed."""
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    if reset:
                        linger = struct.pack("ii", 1, 0)
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
            assert self._changed.wait_for(lambda: not self._open, IDLE_SECONDS)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; the thread that reads it does what TLS wants."""
        connection, address = self.socket.accept()
        if self._context is not None:
            connection = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._changed:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close the connection: the usual FIN before that would make a reset one in good order."""
        self.close_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the client has gone, or refuses the certificate."""


class _Connection(StreamRequestHandler):
    timeout = IDLE_SECONDS
    server: Host

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # it ended, or the client has gone
            while self._exchanged():
                pass

    def _exchanged(self) -> bool:
        line = self.rfile.readline().decode("latin-1").strip()
        if not line:
            return False
        headers = {}
        while (header := self.rfile.readline().decode("latin-1").strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(self.client_address[1], line, headers, body)
        self.server.requests.append(request)
        answer = self.server.answer(request)
        sent = answer if isinstance(answer, Sent) else Sent(answer)
        self.connection.sendall(sent.data)
        if sent.ends:
            self.connection.shutdown(socket.SHUT_RDWR)
        return not sent.ends


@contextmanager
def serving(answer: Answer = nothing, context: ssl.SSLContext | None = None) -> Iterator[Host]:
    """Serve, and yield the host; after the block all its connections are closed."""
    with Host(answer, context) as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()
            host.end_connections()
