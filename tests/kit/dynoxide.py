"""Starts dynoxide, a DynamoDB on SQLite: conditions, expressions, PartiQL, transactions, streams, units."""

from __future__ import annotations

import signal
import sys

from tests.kit.engines import ENGINES, Engine, EngineAbsent, EngineFailed

__all__ = ["FOLDER", "PROGRAM", "EngineAbsent", "EngineFailed", "running", "running_for_containers"]

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
