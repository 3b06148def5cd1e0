"""Servers that somebody may take for DynamoDB: pages, other people's JSON, and no HTTP at all."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler


@contextmanager
def page(status: int, kind: str, body: bytes) -> Iterator[str]:
    """Answer every request with *status* and *body* of content type *kind*, and yield the address."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name there)
            """Say nothing."""

    with _serving(Page) as address:
        yield address


@contextmanager
def echo() -> Iterator[str]:
    """Send back what comes, and yield the address."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(self.request.recv(65_536))

    with _serving(Echo) as address:
        yield address


@contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
