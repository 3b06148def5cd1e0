from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once.patterns.items import plain_item

from .conftest import Tokens
from .sam import Stack

pytestmark = pytest.mark.e2e

TABLE = "ReceiptsTable"
"""What the SAM CLI gives functions for the table's name."""
KEY = ("pk", "sk")


@pytest.fixture
def table(tokens: Tokens) -> Iterator[Any]:
    """The receipts' table beside that of the tokens; the client of both."""
    client = tokens.client
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in KEY],
        KeySchema=[
            {"AttributeName": name, "KeyType": kind}
            for name, kind in zip(KEY, ("HASH", "RANGE"), strict=True)
        ],
    )
    yield client
    client.delete_table(TableName=TABLE)


def test_receipts_are_filed_once(stack: Stack, table: Any) -> None:
    """Published again after the window, all are duplicates and acknowledged; an amended one is an error."""
    filed = stack.invoke("ReceiptsFunction", "sqs-fifo-receipts")
    first = [plain_item(item) for item in table.scan(TableName=TABLE)["Items"]]
    again = stack.invoke("ReceiptsFunction", "sqs-fifo-receipts-republished")
    amended = stack.invoke("ReceiptsFunction", "sqs-fifo-receipt-amended")
    assert filed.answer == again.answer == {"batchItemFailures": []}
    assert len(filed.said.entries("receipt.filed")) == 3
    assert len(again.said.entries("receipt.duplicate")) == 3
    assert amended.answer["errorType"] == "KeyReused"
    assert [plain_item(item) for item in table.scan(TableName=TABLE)["Items"]] == first
    assert len(first) == 3
