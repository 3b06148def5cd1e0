"""The engine that the engine tests rely on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from urllib.parse import urlsplit

import boto3
import pytest

from tests.kit.dynoxide import FOLDER, EngineAbsent, EngineFailed, running

ROOT = Path(__file__).parents[2]


@pytest.mark.engine
def test_the_engine_answers(engine_endpoint: str) -> None:
    """The session's engine answers a request to list its tables."""
    client = boto3.client("dynamodb", endpoint_url=engine_endpoint)
    assert isinstance(client.list_tables()["TableNames"], list)


@pytest.mark.engine
def test_an_engine_ends_with_its_block(engine_endpoint: str) -> None:
    """A second engine runs beside the session's, and its port is free afterwards."""
    _need_the_local_one()
    with running() as endpoint:
        assert endpoint != engine_endpoint
        port = urlsplit(endpoint).port
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.engine
def test_an_engine_of_ones_own_says_where_it_is(engine_endpoint: str) -> None:
    """Started by hand it prints its endpoint, and ends with its process."""
    _need_the_local_one()
    command = [sys.executable, "-m", "tests.kit.dynoxide"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"}, stdout=PIPE) as started:
        assert started.stdout is not None
        name, _, endpoint = started.stdout.readline().decode().strip().partition("=")
        started.terminate()
    port = urlsplit(endpoint).port
    assert (name, started.returncode) == ("DYNAMODB_ENDPOINT", 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def _need_the_local_one() -> None:
    """Skip the test where another engine is given, and dynoxide was never fetched for it."""
    if os.environ.get("DYNAMODB_ENDPOINT") and not (FOLDER / "lib").exists():
        pytest.skip("DYNAMODB_ENDPOINT is given, and dynoxide is not there")


@pytest.mark.engine
def test_an_engine_that_cannot_start_says_why(tmp_path: Path, engine_endpoint: str) -> None:
    """A broken installation fails at once, with what Java said."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "DynamoDBLocal-0.jar").touch()
    with pytest.raises(EngineFailed, match="ServerRunner"), running(tmp_path):
        pytest.fail("nothing can have started")


def test_an_absent_engine_names_the_command(tmp_path: Path) -> None:
    """Where the engine was never fetched, the error says how to fetch it."""
    with pytest.raises(EngineAbsent, match="make dynamodb"), running(tmp_path):
        pytest.fail("nothing can have started")
