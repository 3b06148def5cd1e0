"""Starts dynoxide, the engine that has DynamoDB's own conditions, expressions and PartiQL."""

from __future__ import annotations

import signal
import sys

from tests.kit.engines import ENGINES, Engine, EngineAbsent, EngineFailed

__all__ = ["FOLDER", "EngineAbsent", "EngineFailed", "running"]

FOLDER = ENGINES / "dynamodb-local"
_SERVER = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"


def _options(port: int) -> list[str]:
    java = ["-Djava.library.path=lib", "-cp", "lib/*", _SERVER]
    return [*java, "-inMemory", "-port", str(port), "-disableTelemetry"]


running = Engine("dynoxide", FOLDER, "DynamoDBLocal-*.jar", "dynamodb", _options).running
"""Run it in memory, and yield its endpoint."""


def _until_stopped() -> None:
    """Run the engine, and say where, until this process is interrupted or terminated."""
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
