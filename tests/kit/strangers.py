"""Servers that somebody may take for DynamoDB: pages, other people's JSON, and no HTTP at all."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kit.host import Sent, serving


@contextmanager
def page(status: int, kind: str, body: bytes) -> Iterator[str]:
    """Answer every request with *status* and *body* of content type *kind*, and yield the address."""
    head = f"HTTP/1.0 {status} Any\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(lambda _request: Sent(head.encode() + body, ends=True)) as host:
        yield host.url


@contextmanager
def echo() -> Iterator[str]:
    """Send back what comes, and yield the address."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(self.request.recv(65_536))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
