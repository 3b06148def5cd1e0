"""How records of DynamoDB Streams are read, the malformed ones included."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord

from lambda_once.sources.dynamodb_stream import DYNAMODB_STREAM
from lambda_once.testing import dynamodb_stream_event
from tests.sources.test_streams import bad_of, only

ITEM = {
    "id": "5",
    "count": 3,
    "price": Decimal("19.90"),
    "exact": Decimal("0.12345678901234567890123"),
    "paid": True,
    "note": None,
    "raw": b"\x00\xff",
    "tags": {"a", "b"},
    "sizes": {1, Decimal("2.5")},
    "blobs": {b"\x00"},
    "lines": [{"sku": "tea", "n": 2}],
}


def test_a_change_of_an_item_is_a_unit() -> None:
    """Its payload is the change in plain values; the key of the item is its group."""
    event = dynamodb_stream_event(({"id": "5"}, ITEM))
    raw = event["Records"][0]
    unit = only(DYNAMODB_STREAM, event)
    assert unit.what.content.payload == {
        "eventName": "MODIFY",
        "Keys": {"id": "5"},
        "OldImage": {"id": "5"},
        "NewImage": ITEM | {"price": 19.9},
    }
    assert not unit.what.content.parsed
    assert (unit.record.id, unit.record.group) == (raw["dynamodb"]["SequenceNumber"], '{"id": {"S": "5"}}')
    assert isinstance(unit.record.argument, DynamoDBRecord)
    assert unit.record.delivery == raw["eventID"]
    assert (unit.what.origin, unit.what.position) == (["123456789012", "orders"], [raw["eventID"]])


def test_images_that_are_absent_stay_so() -> None:
    """As with a stream of KEYS_ONLY, an insert and a removal."""
    event = dynamodb_stream_event((None, {"id": 5}), ({"id": 5}, None))
    for image in ("NewImage", "OldImage"):
        event["Records"].append(dynamodb_stream_event(({"id": 5}, {"id": 5}))["Records"][0])
        del event["Records"][-1]["dynamodb"][image]
    names = [set(unit.what.content.payload) for unit in _units(event)]
    assert names == [
        {"eventName", "Keys", "NewImage"},
        {"eventName", "Keys", "OldImage"},
        {"eventName", "Keys", "OldImage"},
        {"eventName", "Keys", "NewImage"},
    ]


def _units(event: dict[str, Any]) -> list[Any]:
    return [*DYNAMODB_STREAM.read(event)]


def test_the_group_of_an_item_is_its_key() -> None:
    """In whatever order its attributes are written."""
    event = dynamodb_stream_event((None, {"pk": "a", "sk": 1}), key=["pk", "sk"])
    again = dynamodb_stream_event((None, {"pk": "a", "sk": 1}), key=["sk", "pk"])
    assert only(DYNAMODB_STREAM, event).record.group == only(DYNAMODB_STREAM, again).record.group


def _changed(**parts: object) -> dict[str, Any]:
    record: dict[str, Any] = dynamodb_stream_event((None, {"id": "5"}))["Records"][0]
    record["dynamodb"] |= parts
    return record


def _attribute(value: object) -> dict[str, Any]:
    return _changed(NewImage={"id": value})


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (None, "is not a JSON object"),
        (_changed(SequenceNumber=None), "has no sequence number"),
        (_changed() | {"eventID": ""}, "has no eventID"),
        (_changed() | {"eventSourceARN": None}, "no eventSourceARN"),
        (_changed() | {"eventName": "UPDATE"}, "eventName is none of INSERT"),
        (_changed(Keys={}), "has no Keys"),
        (_changed(Keys=None), "has no Keys"),
        (_changed(NewImage=["secret"]), "an item that is not an object"),
        (_attribute("secret"), "not one type and its content"),
        (_attribute({}), "not one type and its content"),
        (_attribute({"S": "a", "N": "1"}), "not one type and its content"),
        (_attribute({"Q": "secret"}), "an unknown type"),
        (_attribute({"S": 5}), "an S that is not text"),
        (_attribute({"BOOL": "true"}), "a BOOL that is not true or false"),
        (_attribute({"N": "secret"}), "an N that is not a number"),
        (_attribute({"N": "true"}), "an N that is not a number"),
        (_attribute({"N": "NaN"}), "an N that is not a number"),
        (_attribute({"N": 5}), "an N that is not a number"),
        (_attribute({"B": "%secret"}), "binary data that is not base64"),
        (_attribute({"SS": "secret"}), "a list or set that is not an array"),
        (_attribute({"M": "secret"}), "an item that is not an object"),
        (_attribute({"L": [{"NS": ["1", "x"]}]}), "an N that is not a number"),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_a_bad_change_is_named(record: object, what: str) -> None:
    """By its sequence number where it has one, with what to do, and without its content."""
    assert what in bad_of(DYNAMODB_STREAM, record)
