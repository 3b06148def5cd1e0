"""``python -m examples.demo``: plays the scenes and prints them. Exit code 1 if a promise is broken."""

from __future__ import annotations

import argparse
import io
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from moto import mock_aws

from lambda_once.core.clock import SystemClock
from lambda_once.testing import FakeClock, create_table

from .report import coloured, report
from .scenes import SCENES, Played, play

KEPT, BROKEN, UNREACHABLE = 0, 1, 2
"""Exit codes: every promise was kept, one was broken, no DynamoDB answers at the endpoint."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all scenes and print them. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m examples.demo", description="Show what lambda-once does.")
    parser.add_argument("--endpoint", metavar="URL", help="a DynamoDB; without it, moto in this process")
    endpoint = parser.parse_args(arguments).endpoint
    try:
        played = run(endpoint)
    except BotoCoreError as error:
        print(f"✗ No DynamoDB answers at {endpoint}: {type(error).__name__}")
        return UNREACHABLE
    text = report(played, endpoint)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the encoding of a pipe may lack the tick
    print(coloured(text) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text)
    return BROKEN if any(scene.broken for scene in played) else KEPT


def run(endpoint: str | None) -> list[Played]:
    """Play all scenes on a new table, which is deleted afterwards. What they log is not printed."""
    clock = FakeClock(SystemClock().now())
    with token_table(endpoint) as (client, table), redirect_stdout(io.StringIO()):
        return [play(scene, client, table, clock) for scene in SCENES]


@contextmanager
def token_table(endpoint: str | None) -> Iterator[tuple[Any, str]]:
    """Create a token table of a random name in the DynamoDB at *endpoint*, by default in moto's."""
    with mock_aws() if endpoint is None else nullcontext():
        session = boto3.Session()
        if session.get_credentials() is None:
            session = boto3.Session("demo", "demo")  # local engines accept any
        config = Config(
            connect_timeout=3, retries={"total_max_attempts": 1}, ignore_configured_endpoint_urls=True
        )
        region = session.region_name or "eu-central-1"
        client: Any = session.client("dynamodb", region, endpoint_url=endpoint, config=config)
        name = f"lambda-once-demo-{secrets.token_hex(4)}"
        create_table(client, name)
        try:
            yield client, name
        finally:
            client.delete_table(TableName=name)


if __name__ == "__main__":
    sys.exit(main())
