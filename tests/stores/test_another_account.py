"""A table that is named by its ARN, on the strict engine: dynoxide 3.2.0 knows no table by its ARN."""

from __future__ import annotations

import os
from typing import Any

from lambda_once import Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.kit import tables
from tests.kit.strict.mounted import mounted

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


def test_a_batch_is_worked_once() -> None:
    """A redelivery is replayed, a result in parts too, by single requests; no statement is sent."""
    with mounted():
        client = tables.shared()
        create_table(client, "tokens")
        noting = Noting(client)
        arn = client.describe_table(TableName="tokens")["Table"]["TableArn"]
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
        result = once.outcome("o-2", name="charge").result
    assert sorted(ran) == sorted(SIZES)
    assert len(str(result)) == 2 * SIZES["o-2"]
    assert "batch_get_item" in noting.asked
    assert "batch_execute_statement" not in noting.asked
