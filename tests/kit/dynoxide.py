"""Starts dynoxide, a DynamoDB on SQLite: conditions, expressions, PartiQL, transactions, streams, units."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from tests.kit.engines import ENGINES, Engine, EngineAbsent, EngineFailed
from tests.kit.ports import answers

__all__ = [
    "FOLDER",
    "PROGRAM",
    "EngineAbsent",
    "EngineFailed",
    "given_or_running",
    "running",
    "running_for_containers",
]

FOLDER = ENGINES / "bin"
VERSION = (ENGINES / "dynoxide" / "version").read_text().strip()
"""Of the crate dynoxide-rs; ``dynoxide --version`` prints another number, the product's."""
PROGRAM = f"dynoxide-{VERSION}"


def _engine(host: str) -> Engine:
    def command(port: int) -> list[str]:
        return [f"./{PROGRAM}", "--log", "quiet", "--host", host, "--port", str(port)]

    return Engine("dynoxide", FOLDER, PROGRAM, "engine", command)


running = _engine("127.0.0.1").running
"""Run it in memory, and yield its endpoint."""
running_for_containers = _engine("0.0.0.0").running
"""The same, on every address: a container's way to its host isn't loopback."""


@contextmanager
def given_or_running() -> Iterator[str]:
    """
    Yield the endpoint that DYNAMODB_ENDPOINT names, or that of a dynoxide that ends with the block.

    Raises `EngineAbsent` and `EngineFailed`, the latter also if nobody listens there, or it is no URL.
    """
    given = os.environ.get("DYNAMODB_ENDPOINT")
    with nullcontext(_checked(given)) if given else running() as endpoint:
        yield endpoint


def _checked(url: str) -> str:
    """Return *url*, where somebody listens."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError):
        host, port = None, 0
    if not host:
        message = f"DYNAMODB_ENDPOINT={url} is no URL: give one such as http://127.0.0.1:8000"
        raise EngineFailed(message)
    if not answers(port, host):
        message = (
            f"nobody listens at DYNAMODB_ENDPOINT={url}: start that DynamoDB, or unset it to use dynoxide"
        )
        raise EngineFailed(message)
    return url


def _until_stopped() -> None:
    """Run the engine, and print its endpoint, until this process is interrupted or terminated."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running() as endpoint:
            sys.stdout.write(f"DYNAMODB_ENDPOINT={endpoint}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    _until_stopped()
