"""Starts DynamoDB Local, the engine that has DynamoDB's own conditions, expressions and PartiQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lambda_once.core.clock import Deadline, SystemClock
from tests.kit.ports import answers, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "engines" / "dynamodb-local"
SERVER = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
START_SECONDS = 30.0
"""How long a start may take. About one second is usual; a busy machine of one core was seen to need ten."""
STOP_SECONDS = 10.0


class EngineAbsent(Exception):
    """DynamoDB Local was never fetched: run `make dynamodb`."""


class EngineFailed(Exception):
    """DynamoDB Local ended, or did not answer in time. The message carries what it said."""


@contextmanager
def running(folder: Path = FOLDER) -> Iterator[str]:
    """
    Run DynamoDB Local out of *folder*, in memory, and yield its endpoint.

    The process ends with the block. Raises EngineAbsent where *folder* has no
    ``lib``, EngineFailed where the engine does not answer within START_SECONDS.
    """
    if not any((folder / "lib").glob("DynamoDBLocal-*.jar")):
        message = f"DynamoDB Local is not in {folder / 'lib'}: run `make dynamodb`"
        raise EngineAbsent(message)
    port = free_port()
    process = _start(folder, port)
    try:
        _wait_until_it_answers(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(process)


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start the engine; its error output is kept in a pipe, which it fills with a few lines only."""
    command = ["java", "-Djava.library.path=lib", "-cp", "lib/*", SERVER]
    options = ["-inMemory", "-port", str(port), "-disableTelemetry"]
    return subprocess.Popen(
        [*command, *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    clock = SystemClock()
    deadline = Deadline(clock, clock.now() + timedelta(seconds=START_SECONDS))
    while not answers(port):
        if process.poll() is not None:
            said = process.stderr.read().decode(errors="replace") if process.stderr is not None else ""
            message = f"DynamoDB Local ended with code {process.returncode}: {said.strip()[-2000:]}"
            raise EngineFailed(message)
        if deadline.passed():
            message = f"DynamoDB Local did not answer on port {port} within {START_SECONDS:.0f} s"
            raise EngineFailed(message)
        deadline.pause(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stderr is not None:
        process.stderr.close()


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
