"""On dynoxide crt's client answers as boto3's does, refusals included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lambda_once.dynamodb.crt import CrtClient

pytestmark = pytest.mark.engine

ROW: dict[str, Any] = {
    "lockToken": {"S": "a/ü"},
    "status": {"S": "complete"},
    "result": {"B": b"\0\xff"},
    "B": {"BS": [b"x", b"y"]},
    "more": {"M": {"B": {"S": "no binary"}, "BS": {"L": [{"NULL": True}, {"N": "1.5"}, {"BOOL": False}]}}},
    "empty": {"S": ""},
}
KEY = {"lockToken": {"S": "a/ü"}}
NOT_THERE = "attribute_not_exists(lockToken)"


def _statement(text: str, *parameters: Any) -> dict[str, Any]:
    return {"Statement": text, "Parameters": list(parameters)}


def requests(table: str) -> list[tuple[str, dict[str, Any]]]:
    """Return requests in an order that makes each meaningful; both clients send all of them."""
    here: dict[str, Any] = {"TableName": table}
    put = {"Put": {**here, "Item": ROW, "ConditionExpression": NOT_THERE}}
    kept = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    insert = f"INSERT INTO \"{table}\" VALUE {{'lockToken': ?, 'result': ?}}"
    update = f'UPDATE "{table}" SET n=? WHERE lockToken=? AND attribute_exists(lockToken)'
    return [
        ("get_item", {**here, "Key": KEY}),
        ("put_item", {**here, "Item": ROW, "ConditionExpression": NOT_THERE}),
        ("put_item", {**here, "Item": ROW, "ConditionExpression": NOT_THERE, **kept}),
        ("get_item", {**here, "Key": KEY, "ConsistentRead": True}),
        (
            "update_item",
            {
                **here,
                "Key": KEY,
                "UpdateExpression": "SET n = :n",
                "ExpressionAttributeValues": {":n": {"N": "12"}},
                "ReturnValues": "ALL_NEW",
            },
        ),
        ("transact_write_items", {"TransactItems": [put | {}]}),
        ("transact_write_items", {"TransactItems": [{"Put": {**put["Put"], **kept}}]}),
        ("batch_write_item", {"RequestItems": {table: [{"PutRequest": {"Item": {**ROW, **_key("b")}}}]}}),
        (
            "batch_get_item",
            {"RequestItems": {table: {"Keys": [KEY, _key("b"), _key("c")], "ConsistentRead": True}}},
        ),
        (
            "batch_execute_statement",
            {
                "Statements": [
                    _statement(insert, {"S": "p"}, {"B": b"\1"}),
                    _statement(insert, {"S": "b"}, {"B": b"\1"}),
                    _statement(update, {"N": "1"}, {"S": "none"}),
                ]
            },
        ),
        ("scan", {**here, "Limit": 1}),
        ("describe_time_to_live", here),
        ("query", {**here, **_where("b")}),
        ("get_item", {"TableName": f"{table}-missing", "Key": KEY}),
        ("update_item", {**here, "Key": KEY, "UpdateExpression": "SET nonsense"}),
    ]


def _key(text: str) -> dict[str, Any]:
    return {"lockToken": {"S": text}}


def _where(token: str) -> dict[str, Any]:
    return {
        "KeyConditionExpression": "lockToken = :t",
        "ExpressionAttributeValues": {":t": {"S": token}},
    }


def answers(client: Any, table: str) -> list[Any]:
    """Return what *client* answers or raises for each request, without what is of that one exchange."""
    found: list[Any] = []
    for method, arguments in requests(table):
        try:
            answer = getattr(client, method)(**arguments)
        except ClientError as error:
            answer = {"raised": error.operation_name} | error.response
        metadata = answer.pop("ResponseMetadata")
        for name in ("Message", "message"):  # botocore repeats the error's, of those that its model has
            answer.pop(name, None)
        found.append((method, answer, metadata["HTTPStatusCode"], metadata["RetryAttempts"]))
        assert metadata["RequestId"]
        assert metadata["HTTPHeaders"]["content-type"] == "application/x-amz-json-1.0"
    return found


@pytest.fixture
def tables(engine_endpoint: str) -> Iterator[tuple[Any, list[str]]]:
    """Give boto3's client, and two tables for the same requests."""
    config = Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    client = boto3.client("dynamodb", endpoint_url=engine_endpoint, config=config)
    names = [f"crt-{os.urandom(4).hex()}" for _ in range(2)]
    for name in names:
        client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "lockToken", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "lockToken", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    yield client, names
    for name in names:
        client.delete_table(TableName=name)
    client.close()


def test_both_clients_answer_alike(tables: tuple[Any, list[str]], engine_endpoint: str) -> None:
    """Values, refusals and their rows, reasons of a canceled transaction, and statements of a batch."""
    boto3s, (first, second) = tables
    crt = CrtClient(engine_endpoint, "eu-central-1", connect=1, answer=5, connections=10)
    wanted = answers(boto3s, first)
    got = answers(crt, second)
    crt.close()
    assert _of(got, second) == _of(wanted, first)
    assert [status for *_, status, _ in got].count(400) == 5


def _of(found: list[Any], table: str) -> str:
    """Return *found* as text, with one name for each of the two tables."""
    return repr([_sorted(each) for each in found]).replace(table, "TABLE")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list | tuple) else value
