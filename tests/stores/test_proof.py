"""Which responses bear what their request asked for."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once.stores.proof import is_answer

KEY, OTHER = {"lockToken": {"S": "t"}}, {"lockToken": {"S": "u"}}
ROW = KEY | {"attempt": {"S": "a2"}}
ACQUIRES = {
    "Key": KEY,
    "ReturnValues": "ALL_NEW",
    "ExpressionAttributeValues": {":attempt": {"S": "a1"}},
}
READS = {"RequestItems": {"tokens": {"Keys": [KEY, {"lockToken": {"S": "v"}}]}}}
PUTS = {"RequestItems": {"tokens": [{"PutRequest": {"Item": KEY}}]}}
TRANSACTS = {"TransactItems": [{"Put": {"Item": OTHER}}, {"Update": {"Key": KEY}}]}
BATCH: dict[str, Any] = {"Statements": [{}, {}]}
REFUSED = {"Error": {"Code": "ConditionalCheckFailedException"}}
CANCELED = {"Error": {"Code": "TransactionCanceledException"}}

ANSWERS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    (ACQUIRES, {"Attributes": ROW | {"attempt": {"S": "a1"}}}, True),
    (ACQUIRES, {"Attributes": ROW}, False),
    (ACQUIRES, {"Attributes": OTHER | {"attempt": {"S": "a1"}}}, False),
    (ACQUIRES, {"Attributes": {}}, False),
    (ACQUIRES, {}, False),
    (ACQUIRES, {**REFUSED, "Item": ROW}, True),
    (ACQUIRES, {**REFUSED, "Item": OTHER}, False),
    (ACQUIRES, {**REFUSED, "Item": {}}, False),
    (ACQUIRES, REFUSED, True),
    ({"Key": KEY}, {"Item": ROW}, True),
    ({"Key": KEY}, {"Item": OTHER}, False),
    ({"Key": KEY}, {}, True),
    (BATCH, {"Responses": [{}, {}]}, True),
    (BATCH, {"Responses": [{}]}, False),
    (BATCH, {"Responses": {"tokens": [{}, {}]}}, False),
    (BATCH, {}, False),
    (BATCH, {"Error": {"Code": "AccessDeniedException"}}, True),
    (READS, {"Responses": {"tokens": [ROW]}}, True),
    (READS, {"Responses": {}}, True),
    (READS, {"Responses": {"tokens": [ROW, OTHER]}}, False),
    (READS, {"Responses": {"others": [ROW]}}, False),
    (READS, {"Responses": [{}, {}]}, False),
    (READS, {}, False),
    (PUTS, {"UnprocessedItems": {}}, True),
    (TRANSACTS, {}, True),
    (TRANSACTS, {**CANCELED, "CancellationReasons": [{"Code": "None"}, {"Item": ROW}]}, True),
    (TRANSACTS, {**CANCELED, "CancellationReasons": [{"Code": "None"}, {"Item": OTHER}]}, False),
    (TRANSACTS, {**CANCELED, "CancellationReasons": [{"Item": OTHER}]}, False),
    (TRANSACTS, {**CANCELED, "CancellationReasons": [{"Item": OTHER}, {"Code": "None"}]}, True),
]


@pytest.mark.parametrize(("request_", "response", "wanted"), ANSWERS)
def test_is_answer(request_: dict[str, Any], response: dict[str, Any], wanted: bool) -> None:
    """A grant its attempt id, a row its key, a batch as many responses as it has statements."""
    assert is_answer(request_, response) is wanted
