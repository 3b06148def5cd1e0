"""The engine that the engine tests rely on."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest

from tests.engine.dynamodb_local import EngineAbsent, EngineFailed, running


@pytest.mark.engine
def test_the_engine_answers(dynamodb_local: str) -> None:
    """The session's engine answers a request to list its tables."""
    client = boto3.client("dynamodb", endpoint_url=dynamodb_local)
    assert isinstance(client.list_tables()["TableNames"], list)


@pytest.mark.engine
def test_an_engine_ends_with_its_block(dynamodb_local: str) -> None:
    """A second engine runs beside the session's, and nobody listens on its port afterwards."""
    with running() as endpoint:
        assert endpoint != dynamodb_local
        port = urlsplit(endpoint).port
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.engine
def test_an_engine_that_cannot_start_says_why(tmp_path: Path, dynamodb_local: str) -> None:
    """A broken installation fails at once, with what Java said."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "DynamoDBLocal-0.jar").touch()
    with pytest.raises(EngineFailed, match="ServerRunner"), running(tmp_path):
        pytest.fail("nothing can have started")


def test_an_absent_engine_names_the_command(tmp_path: Path) -> None:
    """Where the engine was never fetched, the error says how to fetch it."""
    with pytest.raises(EngineAbsent, match="make dynamodb"), running(tmp_path):
        pytest.fail("nothing can have started")
