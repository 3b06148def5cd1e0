"""The engine that the engine tests rely on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from urllib.parse import urlsplit

import boto3
import pytest

from tests.kit.dynoxide import FOLDER, PROGRAM, EngineAbsent, EngineFailed, given_or_running, running
from tests.kit.ports import free_port

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


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "is no URL"),
        ("http://", "is no URL"),
        ("http://[", "is no URL"),
        ("http://127.0.0.1:99999", "is no URL"),
        ("http://127.0.0.1:{free}", "nobody listens"),
    ],
    ids=["no scheme", "no host", "half a bracket", "a port that is none", "nobody there"],
)
def test_an_endpoint_that_is_none_is_named_in_one_line(
    url: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one stack of botocore's for each test."""
    monkeypatch.setenv("DYNAMODB_ENDPOINT", url.format(free=free_port()))
    with pytest.raises(EngineFailed, match=message), given_or_running():
        pytest.fail("there is no engine")


def test_an_absent_engine_names_the_command(tmp_path: Path) -> None:
    """Where this version of the engine was never built, the error names the command that builds it."""
    (tmp_path / "dynoxide-0.0.1").touch()
    with pytest.raises(EngineAbsent, match="make engine"), running(tmp_path):
        pytest.fail("nothing can have started")


RUST, COMPILER = "Rust 1.88 or newer", "a C compiler"


@pytest.mark.parametrize(
    ("programs", "needed"),
    [
        ({}, f"{RUST} (cargo and rustc) and {COMPILER}"),
        ({"cc": ""}, RUST),
        ({"cc": "", "rustc": "echo rustc 1.91.0"}, RUST),
        ({"cc": "", "cargo": "", "rustc": "echo rustc 1.63.0"}, RUST),
        ({"cargo": "", "rustc": "echo rustc 1.91.0"}, COMPILER),
    ],
    ids=["nothing", "no Rust", "no cargo", "Debian 12's Rust", "no compiler"],
)
def test_a_machine_is_told_what_is_missing(tmp_path: Path, programs: dict[str, str], needed: str) -> None:
    """One line: what to install, and how to name another engine."""
    for name in ("bash", "dirname", "awk"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(shutil.which("bash")), str(ROOT / "engines" / "dynoxide" / "build")]
    build = subprocess.run(command, env={"PATH": f"{tmp_path}"}, capture_output=True, text=True, check=False)
    (line,) = build.stderr.splitlines()
    assert build.returncode == 1
    assert line.startswith(f"dynoxide is built from source: install {needed}")
    assert all(each in needed or each not in line for each in (RUST, COMPILER))
    assert line.endswith("or name another DynamoDB by DYNAMODB_ENDPOINT=http://…")
