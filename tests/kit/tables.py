"""Tables of fresh names, gone with their block: a shared engine keeps nothing of ours."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from lambda_once.dynamodb.client import ANSWER, CONNECT, WORKERS
from lambda_once.dynamodb.lean import LeanClient
from lambda_once.dynamodb.pool import Endpoint
from lambda_once.testing import create_table

REGION = "eu-central-1"
USER_AGENT = "tests"
"""A constant: botocore would build its own for every request, which takes longer than many an answer."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@cache
def session() -> boto3.Session:
    """One session for all tests: reading the description of the service takes longer than most of them."""
    return boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


def client(endpoint: str | None = None, **options: Any) -> Any:
    """Make a client that does not try again by itself: of *endpoint*, else of moto where it is on."""
    config = Config(retries={"total_max_attempts": 1}, **({"user_agent": USER_AGENT} | options))
    return session().client("dynamodb", endpoint_url=endpoint, config=config)


@cache
def shared() -> Any:
    """Return one client for all tests on the strict engine that leave its events as they are."""
    return client()


def lean(endpoint: str) -> LeanClient:
    """Make the lean client for *endpoint*, with the time limits that the package gives it."""
    there = Endpoint(endpoint, REGION)
    return LeanClient(there, CREDENTIALS, connect=CONNECT, answer=ANSWER, connections=WORKERS)


@contextmanager
def fresh(client: Any, create: Callable[[Any, str], None] = create_table) -> Iterator[str]:
    """
    Create a table of a unique name, yield the name, and delete the table, whatever happens.

    Its rows stay until then: tests live by a clock of their own, by which a ttl of theirs is not over.
    """
    name = f"lambda-once-tests-{uuid.uuid4()}"
    try:
        create(client, name)
        _keep_rows(client, name)
        yield name
    finally:
        _delete(client, name)


def _keep_rows(client: Any, name: str) -> None:
    try:
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": False}
        )
    except ClientError as error:
        # Engines without TTL delete nothing; the real one refuses a change this soon, and takes two days.
        if error.response["Error"]["Code"] not in ("UnknownOperationException", "ValidationException"):
            raise


def _delete(client: Any, name: str) -> None:
    try:
        client.delete_table(TableName=name)
    except client.exceptions.ResourceNotFoundException:
        return  # it could not be created in the first place
