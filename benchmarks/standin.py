"""
A table at a known distance: an HTTP server on loopback, in a process of its own.

One endpoint speaks TLS, with a certificate of an authority of this run, and one HTTP: both answer at once.
A distant one answers when a request has been here for `LATENCY`, a batch like a single write.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import botocore

from benchmarks.answers import Answers, Row, encoded, headers_of
from benchmarks.world import variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ADDRESS, NAME = "127.0.0.1", "localhost"
LATENCY: Final = 5
"""Milliseconds."""
HEAD = f"HTTP/1.1 %d OK\r\nserver: Server\r\ndate: {formatdate(usegmt=True)}\r\nconnection: keep-alive\r\n"


class Endpoints(NamedTuple):
    """Where the table is."""

    encrypted: str
    """Over TLS, at once."""
    nearest: str
    """Over HTTP, at once."""
    distant: str
    """Over HTTP, after `LATENCY`."""


@contextmanager
def running(rows: Sequence[Row]) -> Iterator[Endpoints]:
    """Serve a table that has *rows*, and let clients that are made in the block trust its certificate."""
    with TemporaryDirectory() as folder:
        certificate, bundle = _certified(Path(folder))
        process = subprocess.Popen(  # noqa: S603  (this interpreter, this module)
            [sys.executable, "-m", "benchmarks.standin", certificate],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            if process.stdin is None or process.stdout is None:
                raise AssertionError
            process.stdin.write(encoded(rows) + b"\n")
            process.stdin.flush()
            encrypted, *ports = json.loads(process.stdout.readline())
            with variables(AWS_CA_BUNDLE=bundle):
                yield Endpoints(
                    f"https://{NAME}:{encrypted}", *(f"http://{ADDRESS}:{port}" for port in ports)
                )
        finally:
            process.communicate()  # closes its standard input, which ends it


def _certified(folder: Path) -> tuple[str, str]:
    """Return the file of a new certificate, and that of authorities: its own, and as many as in Lambda."""
    from tests.kit.tls import Authority

    authority = Authority(folder)
    authority.server(NAME)
    usual = Path(botocore.__file__).with_name("cacert.pem").read_text(encoding="utf-8")
    own = authority.bundle.read_text(encoding="utf-8")
    bundle = folder / "bundle.pem"
    bundle.write_text(own + usual, encoding="utf-8")
    return str(folder / f"{NAME}.pem"), str(bundle)


def main(certificate: str) -> None:
    """Read the rows off the first line, write the ports on one, and serve until the input ends."""
    answers = Answers(json.loads(sys.stdin.readline()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    ports = []
    for seconds, tls in ((0.0, context), (0.0, None), (LATENCY / 1000, None)):
        listening = socket.create_server((ADDRESS, 0), backlog=64)
        ports.append(listening.getsockname()[1])
        _in_background(_accept, listening, answers, seconds, tls)
    print(json.dumps(ports), flush=True)
    sys.stdin.read()


def _accept(
    listening: socket.socket, answers: Answers, seconds: float, context: ssl.SSLContext | None
) -> None:
    """Serve each connection on a thread."""
    while True:
        client, _ = listening.accept()
        _in_background(_serve, client, answers, seconds, context)


def _serve(client: socket.socket, answers: Answers, seconds: float, context: ssl.SSLContext | None) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        client = context.wrap_socket(client, server_side=True)
    with client, client.makefile("rb") as stream:
        while (request := _request(stream)) is not None:
            due = time.perf_counter() + seconds
            status, body = answers.to(*request)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers_of(body).items())
            time.sleep(max(due - time.perf_counter(), 0))
            client.sendall(f"{HEAD % status}{lines}\r\n".encode() + body)


def _request(stream: BinaryIO) -> tuple[str, bytes] | None:
    """Return operation and body of the next request on *stream*; None at its end."""
    headers: dict[bytes, bytes] = {}
    while line := stream.readline():
        if line == b"\r\n":
            operation = headers[b"x-amz-target"].decode().partition(".")[2]
            return operation, stream.read(int(headers[b"content-length"]))
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    return None


def _in_background(function: Callable[..., None], *args: object) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
