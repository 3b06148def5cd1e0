"""A call in a finaliser while the interpreter exits ends at once: no thread would answer it any more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lambda_once.testing import create_table
from tests.docs.pages import ROOT
from tests.kit import tables
from tests.kit.played import played
from tests.kit.strict.mounted import mounted


@pytest.mark.parametrize("client", ["", "crt"])
def test_a_call_while_the_interpreter_exits_raises(client: str) -> None:
    """It tells why, and runs nothing; one before that works."""
    with mounted(), played() as endpoint:
        create_table(tables.shared(), "tokens")
        ended = subprocess.run(
            [sys.executable, "-m", "tests.dynamodb.exiting", client],
            cwd=ROOT,
            env={**os.environ, "AWS_ENDPOINT_URL_DYNAMODB": endpoint},
            check=False,
            capture_output=True,
            text=True,
            timeout=50,
        )
    assert [line for line in ended.stderr.splitlines() if line.startswith(("first", "last"))] == [
        "first ran",
        "first ended at once",
        "last raised RetryLater: the interpreter is exiting, and no request is sent any more: nothing ran",
        "last ended at once",
    ], ended.stderr[-2_000:]
