"""A forked process has clients and threads of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lambda_once.dynamodb.transport import Transport
from tests.docs.pages import ROOT

SECONDS = 60
"""A process that hangs does so for ever; one that works takes two."""


@pytest.mark.parametrize("client", ["", "crt"])
def test_a_forked_process_works(client: str) -> None:
    """After a batch in its parent it works new records, and answers duplicates; so does the parent, later."""
    environ = {**os.environ, "AWS_LAMBDA_FUNCTION_NAME": "shop", "POWERTOOLS_SERVICE_NAME": "shop"}
    command = [sys.executable, "-m", "tests.dynamodb.forked", client]
    ran = subprocess.run(
        command, cwd=ROOT, env=environ, timeout=SECONDS, capture_output=True, text=True, check=False
    )
    lines = [line for line in ran.stdout.splitlines() if " worked " in line and not line.startswith("{")]
    assert lines == [
        "parent worked 60 failed 0",
        "child, new worked 60 failed 0",
        "child, duplicates worked 0 failed 0",
        "parent again worked 60 failed 0",
    ], ran.stderr[-2_000:]


def test_what_is_forgotten() -> None:
    """Threads, a lock that another thread held, and the client that was made here; not one that was given."""
    own, given = Transport(), Transport(object())
    for transport in (own, given):
        transport.each([1, 2], str)
        transport._lock.alone().__enter__()
        transport._forget()
        assert transport._pool is None
        with transport._lock.alone():
            assert transport._pool is None
    assert own._client is None
    assert given._client is not None
