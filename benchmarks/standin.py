"""
A table at a known distance: an HTTP server on loopback, in a process of its own.

Every answer leaves when its request has been here for the wanted time, a batch's like a single write's.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from benchmarks.answers import Answers, Row, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HOST = "127.0.0.1"
HEAD = b"HTTP/1.1 %d .\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n"


class Answerer(Protocol):
    """What gives the answers."""

    def to(self, operation: str, body: bytes) -> tuple[int, bytes]: ...


@contextmanager
def running(rows: Sequence[Row], latencies: Sequence[int]) -> Iterator[dict[int, str]]:
    """Serve a table that has *rows*, and give an endpoint for each of *latencies*, in milliseconds."""
    process = subprocess.Popen(  # noqa: S603  (this interpreter, this module)
        [sys.executable, "-m", "benchmarks.standin", *map(str, latencies)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        process.stdin.write(encoded(rows) + b"\n")
        process.stdin.flush()
        ports = json.loads(process.stdout.readline())
        yield {latency: f"http://{HOST}:{port}" for latency, port in zip(latencies, ports, strict=True)}
    finally:
        process.communicate()  # closes its standard input, which ends it


def main(*latencies: str) -> None:
    """Read the rows off the first line, write the ports on one, serve until the input ends."""
    answers = Answers(json.loads(sys.stdin.readline()))
    listening = [socket.create_server((HOST, 0), backlog=64) for _ in latencies]
    for server, latency in zip(listening, latencies, strict=True):
        _in_background(accept, server, answers, int(latency) / 1000)
    print(json.dumps([server.getsockname()[1] for server in listening]), flush=True)
    sys.stdin.read()


def accept(listening: socket.socket, answers: Answerer, seconds: float) -> None:
    """Serve whoever connects, each on a thread, until *listening* is closed."""
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        _in_background(_serve, client, answers, seconds)


def _serve(client: socket.socket, answers: Answerer, seconds: float) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, client.makefile("rb") as stream:
        while (request := _request(stream)) is not None:
            due = time.perf_counter() + seconds
            status, body = answers.to(*request)
            time.sleep(max(due - time.perf_counter(), 0))
            client.sendall(HEAD % (status, len(body)) + body)


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
