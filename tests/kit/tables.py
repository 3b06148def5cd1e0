"""Tables of fresh names, gone with their block: a shared engine keeps nothing of ours."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final, Protocol

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lambda_once.dynamodb import client as made
from lambda_once.testing import create_table

REGION = "eu-central-1"
USER_AGENT = "tests"
"""A constant: botocore would build its own for every request, which takes longer than many an answer."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


@cache
def session() -> boto3.Session:
    """One session for all tests: reading the description of the service takes longer than most of them."""
    return boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


def client(endpoint: str | None = None, patience: float | None = None, **options: Any) -> Any:
    """
    Make a client of boto3 that tries once: of *endpoint*, else of moto where it is on.

    *patience* is how many seconds it waits for a connection, and for an answer.
    """
    limits = {} if patience is None else {"connect_timeout": patience, "read_timeout": patience}
    config = Config(retries={"total_max_attempts": 1}, **({"user_agent": USER_AGENT} | limits | options))
    return session().client("dynamodb", endpoint_url=endpoint, config=config)


@cache
def shared() -> Any:
    """Return one client for all tests on the strict engine that leave its events as they are."""
    return client()


def boto3s(endpoint: str, patience: float | None = None) -> Any:
    """Make the client that the package has by default for *endpoint*: boto3's."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**CREDENTIALS, "AWS_DEFAULT_REGION": REGION}.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        if patience is not None:
            patch.setattr(made, "CONNECT", patience)
            patch.setattr(made, "ANSWER", patience)
        return made.own_client()


def crt(endpoint: str, patience: float | None = None) -> Any:
    """Make the client on AWS' Common Runtime for *endpoint*, limited as by the package, or by *patience*."""
    from awscrt.auth import AwsCredentialsProvider  # few tests need it

    from lambda_once.dynamodb.crt import CrtClient

    connect, answer = (made.CONNECT, made.ANSWER) if patience is None else (patience, patience)
    client = CrtClient(endpoint, REGION, connect=connect, answer=answer, connections=made.WORKERS)
    client._credentials = AwsCredentialsProvider.new_static(*CREDENTIALS.values())
    return client


class Maker(Protocol):
    """Makes a client for an endpoint, which waits *patience* seconds where it is given."""

    def __call__(self, endpoint: str, patience: float | None = None) -> Any: ...


BOTO3: Final = "boto3"
CRT: Final = "crt"
CLIENTS: Final[Mapping[str, Maker]] = {BOTO3: boto3s, CRT: crt}
"""The clients that send our requests."""


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
        with suppress(client.exceptions.ResourceNotFoundException):  # it could not be created
            client.delete_table(TableName=name)


def clear(client: Any, name: str) -> None:
    """Delete all rows of the table *name*."""
    pages = client.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
    items = [item for page in pages for item in page["Items"]]
    if items:
        key = [part["AttributeName"] for part in client.describe_table(TableName=name)["Table"]["KeySchema"]]
        for item in items:
            client.delete_item(TableName=name, Key={part: item[part] for part in key})


def _keep_rows(client: Any, name: str) -> None:
    try:
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": False}
        )
    except ClientError as error:
        # Engines without TTL delete nothing; the real one refuses a change this soon, and takes two days.
        if error.response["Error"]["Code"] not in ("UnknownOperationException", "ValidationException"):
            raise
