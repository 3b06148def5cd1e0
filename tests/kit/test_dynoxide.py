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

from tests.kit.dynoxide import FOLDER, PROGRAM, EngineAbsent, EngineFailed, running

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
    """Skip the test where another engine is given, and dynoxide was never built for it."""
    if os.environ.get("DYNAMODB_ENDPOINT") and not (FOLDER / PROGRAM).exists():
        pytest.skip("DYNAMODB_ENDPOINT is given, and dynoxide is not there")


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A broken installation fails at once, with what it printed."""
    (tmp_path / PROGRAM).write_text('#!/bin/sh\necho no such option: "$1" >&2\nexit 2\n')
    (tmp_path / PROGRAM).chmod(0o755)
    with pytest.raises(EngineFailed, match="code 2: no such option: --log"), running(tmp_path):
        pytest.fail("nothing can have started")


def test_an_absent_engine_names_the_command(tmp_path: Path) -> None:
    """Where this version of the engine was never built, the error names the command that builds it."""
    (tmp_path / "dynoxide-0.0.1").touch()
    with pytest.raises(EngineAbsent, match="make engine"), running(tmp_path):
        pytest.fail("nothing can have started")


def test_a_machine_without_rust_is_told_what_is_missing(tmp_path: Path) -> None:
    """One line: what to install, or how to name another engine. Debian 12's Rust is too old."""
    (tmp_path / "rustc").write_text("#!/bin/sh\necho rustc 1.63.0\n")
    (tmp_path / "rustc").chmod(0o755)
    command, path = [ROOT / "engines" / "dynoxide" / "build"], f"{tmp_path}:/usr/bin:/bin"
    build = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
    (line,) = build.stderr.splitlines()
    assert build.returncode == 1
    assert "Rust 1.88" in line
    assert "DYNAMODB_ENDPOINT" in line
