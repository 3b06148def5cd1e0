"""What users' tests put in DynamoDB's place works with the client that is made, and with a given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from lambda_once import Once
from lambda_once.core.variables import Listing
from lambda_once.stores.contract import Refused, Won
from lambda_once.stores.memory import MemoryStore
from lambda_once.stores.requests import acquired_attributes
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table
from tests.stores.suite.world import World
from tests.stores.world import MemoryRows

CLIENTS: dict[str, Callable[[], Any]] = {
    "made": lambda: None,
    "given": lambda: boto3.client("dynamodb"),
    "crt, which declines": lambda: "crt",
}


@pytest.mark.parametrize("name", CLIENTS)
def test_moto(name: str) -> None:
    """A second call gets the first one's result, and the row is moto's."""
    called: list[int] = []
    with mock_aws():
        create_table(boto3.client("dynamodb"), "tokens")
        once = Once(table="tokens", client=CLIENTS[name](), service="shop")
        for _ in range(2):
            once.run("charge", "k", called.append, 5)
        rows = boto3.client("dynamodb").scan(TableName="tokens")["Items"]
    assert called == [5]
    assert len(rows) == 1


@pytest.mark.parametrize("name", ["made", "given"])
def test_a_stubber(name: str) -> None:
    """It is on the client itself. Its responses have neither headers nor a body, and count."""
    store = DynamoDBStore("tokens", CLIENTS[name]())
    store.transport.prepare()
    world = World(store, MemoryRows(MemoryStore()))
    first, second = world.acquisition("a1"), world.acquisition("a2")
    row = {
        "lockToken": {"S": world.token},
        **acquired_attributes(first, Listing.AT_ONCE),
        "fence": {"N": "7"},
        "before": {"S": "none"},
        "generation": {"S": "a1"},
    }
    with Stubber(store.transport._client) as stubber:
        stubber.add_response("update_item", {"Attributes": row})
        stubber.add_client_error(
            "update_item", "ConditionalCheckFailedException", modeled_fields={"Item": row}
        )
        assert store.acquire([first], world.deadline) == [Won(7, took_over=False, generation="a1")]
        assert store.acquire([second], world.deadline) == [Refused(record_of(row))]
        stubber.assert_no_pending_responses()
