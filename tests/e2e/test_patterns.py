from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once.dynamodb.items import plain_item

from .conftest import Tokens
from .sam import Stack

pytestmark = pytest.mark.e2e

RECEIPTS, LOYALTY, CATALOGUE, CONTRACTS = "ReceiptsTable", "LoyaltyTable", "CatalogueTable", "ContractsTable"
"""What the SAM CLI gives functions for the names of their tables."""
KEYS = {
    RECEIPTS: ("pk", "sk"),
    LOYALTY: ("customer",),
    CATALOGUE: ("shop", "productId"),
    CONTRACTS: ("pk", "sk"),
}


@pytest.fixture(scope="module")
def client(tokens: Tokens) -> Iterator[Any]:
    """The patterns' tables beside that of the tokens; the client of all."""
    for table, keys in KEYS.items():
        tokens.client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            KeySchema=[
                {"AttributeName": name, "KeyType": kind}
                for name, kind in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
        )
    yield tokens.client
    for table in KEYS:
        tokens.client.delete_table(TableName=table)


def rows(client: Any, table: str) -> list[dict[str, Any]]:
    """Return all items of *table*."""
    return [plain_item(item) for item in client.scan(TableName=table, ConsistentRead=True)["Items"]]


def test_receipts_are_filed_once(shop: Stack, client: Any) -> None:
    """Published again after the window, all are duplicates and acknowledged; an amended one is an error."""
    filed = shop.invoke("ReceiptsFunction", "sqs-fifo-receipts")
    first = rows(client, RECEIPTS)
    again = shop.invoke("ReceiptsFunction", "sqs-fifo-receipts-republished")
    amended = shop.invoke("ReceiptsFunction", "sqs-fifo-receipt-amended")
    assert filed.answer == again.answer == {"batchItemFailures": []}
    assert len(filed.said.entries("receipt.filed")) == 3
    assert len(again.said.entries("receipt.duplicate")) == 3
    assert amended.answer["errorType"] == "KeyReused"
    assert rows(client, RECEIPTS) == first
    assert len(first) == 3


def test_points_are_counted_once(shop: Stack, client: Any) -> None:
    """The redelivery of a batch is all duplicates, and the balance stays; what was refused comes back."""
    refused = {"itemIdentifier": "dc36fc90-2248-4d70-aca4-a1a9f5b19f71"}
    counted = shop.invoke("LoyaltyFunction", "sqs-loyalty")
    first = rows(client, LOYALTY)
    again = shop.invoke("LoyaltyFunction", "sqs-loyalty-redelivery")
    assert counted.answer == again.answer == {"batchItemFailures": [refused]}
    assert len(counted.said.entries("loyalty.counted")) >= 1
    assert len(again.said.entries("loyalty.duplicate")) == len(counted.said.entries("loyalty.counted"))
    assert [row["balance"] for row in rows(client, LOYALTY)] == [row["balance"] for row in first]
    assert again.said.entries("loyalty.counted") == []


def test_a_late_change_does_not_count(shop: Stack, client: Any) -> None:
    """A change of the editor that is older than the stored one changes nothing, however late it comes."""
    assert shop.invoke("CatalogueFunction", "eventbridge-product-changed").answer == {"outcome": "Applied"}
    stored = rows(client, CATALOGUE)
    late = shop.invoke("CatalogueFunction", "eventbridge-product-changed-late")
    assert late.answer == {"outcome": "Stale"}
    assert rows(client, CATALOGUE) == stored


def test_a_contract_is_read_as_it_was_written(shop: Stack, client: Any) -> None:
    """It comes back whole; written again for a new one, it is a conflict and changes nothing."""
    written = shop.invoke("ContractsFunction", "direct-contract")
    stored = rows(client, CONTRACTS)
    again = shop.invoke("ContractsFunction", "direct-contract")
    read = shop.invoke("ContractsFunction", "direct-contract-read")
    assert again.answer["errorType"] == "Conflict"
    assert read.answer["version"] == written.answer["version"]
    assert read.answer["contract"]["clauses"]
    assert {row["sk"]: row for row in rows(client, CONTRACTS)} == {row["sk"]: row for row in stored}
