"""A table that is named by its ARN: each client, on dynoxide, which knows its tables by ARN, too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from lambda_once import Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context, sqs_event
from tests.kit import tables

SIZES = {"o-1": 10, "o-2": 40_000}
"""Bytes of a result; the second has parts, which do not compress."""


class Noting:
    """A client that notes which methods it is asked for."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(self._client, name)


@pytest.mark.engine
@pytest.mark.parametrize("name", tables.CLIENTS)
def test_a_batch_is_worked_once(senders: Mapping[str, Any], partiql: None, name: str) -> None:
    """A redelivery is replayed, a result in parts too, by single requests; no statement is sent."""
    client = senders[name]
    with tables.fresh(senders[tables.BOTO3]) as table:
        arn = client.describe_table(TableName=table)["Table"]["TableArn"]
        noting = Noting(client)
        once = Once(store=DynamoDBStore(arn, noting), service="orders")
        ran: list[str] = []

        @once.sqs(key="orderId", name="charge")
        def charge(record: Any) -> str:
            order: str = record.json_body["orderId"]
            ran.append(order)
            return os.urandom(SIZES[order]).hex()

        event = sqs_event(*({"orderId": order} for order in SIZES))
        for _ in range(2):
            assert charge(event, lambda_context()) == {"batchItemFailures": []}
        found = once.outcome("o-2", name="charge").result
    assert sorted(ran) == sorted(SIZES)
    assert len(str(found)) == 2 * SIZES["o-2"]
    assert "batch_get_item" in noting.asked
    assert "batch_execute_statement" not in noting.asked
