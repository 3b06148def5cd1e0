"""Every store there is, one world each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from lambda_once.stores.dynamodb import DynamoDBStore
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing import create_table
from tests.stores.world import DynamoDBRows, MemoryRows, World


@pytest.fixture
def memory() -> World:
    """A store in memory."""
    store = MemoryStore()
    return World(store, MemoryRows(store))


@pytest.fixture
def moto() -> Iterator[World]:
    """A table of moto's."""
    with mock_aws():
        client = boto3.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
        create_table(client, "tokens")
        yield World(DynamoDBStore("tokens", client), DynamoDBRows(client, "tokens"))


@pytest.fixture
def engine(dynamodb_local: str) -> Iterator[World]:
    """A table of a real engine."""
    client = boto3.client(
        "dynamodb", endpoint_url=dynamodb_local, config=Config(retries={"total_max_attempts": 1})
    )
    name = f"tokens-{uuid.uuid4()}"
    create_table(client, name)
    yield World(DynamoDBStore(name, client), DynamoDBRows(client, name))
    client.delete_table(TableName=name)
    client.close()


@pytest.fixture(params=["memory", "moto", pytest.param("engine", marks=pytest.mark.engine)])
def world(request: pytest.FixtureRequest) -> World:
    """Each store in turn."""
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["moto", pytest.param("engine", marks=pytest.mark.engine)])
def dynamodb(request: pytest.FixtureRequest) -> World:
    """Each store that keeps items in a table."""
    found: World = request.getfixturevalue(request.param)
    return found
