"""How records of Kinesis and DynamoDB Streams are read, the malformed ones included."""

from __future__ import annotations

import base64
import hashlib
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

from lambda_once.core.unit import Unit
from lambda_once.errors import Misconfigured
from lambda_once.sources.dynamodb_stream import DYNAMODB_STREAM
from lambda_once.sources.kinesis import KINESIS
from lambda_once.sources.records import RecordSource
from lambda_once.testing import dynamodb_stream_event, kinesis_event

KPL_MAGIC = b"\xf3\x89\x9a\xc2"
WINDOW = {
    "window": {"start": "2026-11-20T10:10:00Z", "end": "2026-11-20T10:12:00Z"},
    "state": {"1": 282},
    "shardId": "shardId-000000000006",
    "isFinalInvokeForWindow": False,
    "isWindowTerminatedEarly": False,
}
"""What a mapping with TumblingWindowInSeconds adds (developer guide, Kinesis windows)."""


def _only(source: RecordSource, event: dict[str, Any]) -> Unit:
    (record,) = source.records(event)
    assert record.bad is None
    return record


def _bad(source: RecordSource, record: object) -> str:
    (found,) = source.records({"Records": [record]})
    assert found.bad is not None
    assert found.id == found.delivery
    assert "secret" not in found.bad
    return found.bad


def _with_data(data: object) -> dict[str, Any]:
    record: dict[str, Any] = kinesis_event("x")["Records"][0]
    record["kinesis"]["data"] = data
    return record


def test_a_record_of_kinesis_is_a_unit() -> None:
    """Its data is the payload, its eventID in the stream's ARN the key; the partition key is its group."""
    event = kinesis_event({"orderId": 5}, partition_keys="p-5")
    raw = event["Records"][0]
    unit = _only(KINESIS, event)
    assert (unit.id, unit.group) == (raw["kinesis"]["sequenceNumber"], "p-5")
    assert isinstance(unit.argument, KinesisStreamRecord)
    assert (unit.payload, unit.envelope, unit.delivery) == ({"orderId": 5}, raw, raw["eventID"])
    assert unit.key == f"{raw['eventSourceARN']}/{raw['eventID']}"


def test_a_consumer_is_no_other_stream() -> None:
    """With enhanced fan-out the ARN is the consumer's: the key is that of the stream all the same."""
    raw = kinesis_event("x")["Records"][0]
    consumed = raw | {"eventSourceARN": f"{raw['eventSourceARN']}/consumer/fast:1763633520"}
    assert _only(KINESIS, {"Records": [raw]}).key == _only(KINESIS, {"Records": [consumed]}).key


@pytest.mark.parametrize(
    ("sent", "payload", "parsed"),
    [
        (b'{"a": 1.10}', {"a": 1.1}, True),
        (b"plain text", "plain text", True),
        (b"", "", True),
        (b"\x1f\x8b\x08\x00", b"\x1f\x8b\x08\x00", False),
        (KPL_MAGIC + b"no checksum behind", KPL_MAGIC + b"no checksum behind", False),
    ],
)
def test_data_is_json_text_or_bytes(sent: bytes, payload: object, parsed: bool) -> None:
    """Whichever it can be, in this order."""
    unit = _only(KINESIS, kinesis_event(sent))
    assert (unit.payload, unit.parsed) == (payload, parsed)


def test_aggregated_records_are_named() -> None:
    """Several user records in one: the producer's library is named, and what to do."""
    body = b"\n\x03p-1\x1a\x07\x08\x00\x1a\x03one"
    data = KPL_MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()
    wrong = _bad(KINESIS, _with_data(base64.b64encode(data).decode()))
    assert "aggregated by the Kinesis Producer Library" in wrong
    assert "AggregationEnabled" in wrong


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (None, "A record of the batch is not a JSON object"),
        ({}, "has no sequence number"),
        ({"eventSource": "aws:kinesis", "kinesis": "secret"}, "has no sequence number"),
        ({"eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": "", "data": "e30="}}, "no sequence"),
        ({"eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": "7", "data": "e30="}}, "no eventID"),
        (_with_data("%secret"), "has data that is not base64"),
        (_with_data("e30"), "has data that is not base64"),
        (_with_data("é"), "has data that is not base64"),
        (_with_data(None), "has data that is not base64"),
        (_with_data(base64.b64encode(b"[" * 200_000).decode()), "is JSON nested too deeply"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_record_of_kinesis_is_named(record: object, what: str) -> None:
    """By its sequence number where it has one, with what to do, and without its content."""
    wrong = _bad(KINESIS, record)
    assert what in wrong
    assert "Fix the producer" in wrong


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
    unit = _only(DYNAMODB_STREAM, event)
    assert unit.payload == {
        "eventName": "MODIFY",
        "Keys": {"id": "5"},
        "OldImage": {"id": "5"},
        "NewImage": ITEM | {"price": 19.9},
    }
    assert not unit.parsed
    assert (unit.id, unit.group) == (raw["dynamodb"]["SequenceNumber"], '{"id": {"S": "5"}}')
    assert isinstance(unit.argument, DynamoDBRecord)
    assert unit.delivery == raw["eventID"]
    assert unit.key == f"{raw['eventSourceARN']}/{raw['eventID']}"


def test_images_that_are_absent_stay_so() -> None:
    """As with a stream of KEYS_ONLY, an insert and a removal."""
    event = dynamodb_stream_event((None, {"id": 5}), ({"id": 5}, None))
    for image in ("NewImage", "OldImage"):
        event["Records"].append(dynamodb_stream_event(({"id": 5}, {"id": 5}))["Records"][0])
        del event["Records"][-1]["dynamodb"][image]
    names = [set(unit.payload) for unit in _units(event)]
    assert names == [
        {"eventName", "Keys", "NewImage"},
        {"eventName", "Keys", "OldImage"},
        {"eventName", "Keys", "OldImage"},
        {"eventName", "Keys", "NewImage"},
    ]


def _units(event: dict[str, Any]) -> list[Any]:
    return [*DYNAMODB_STREAM.records(event)]


def test_the_group_of_an_item_is_its_key() -> None:
    """In whatever order its attributes are written."""
    event = dynamodb_stream_event((None, {"pk": "a", "sk": 1}), key=["pk", "sk"])
    again = dynamodb_stream_event((None, {"pk": "a", "sk": 1}), key=["sk", "pk"])
    assert _only(DYNAMODB_STREAM, event).group == _only(DYNAMODB_STREAM, again).group


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
    assert what in _bad(DYNAMODB_STREAM, record)


SOURCES = [
    pytest.param(KINESIS, kinesis_event("x"), id="kinesis"),
    pytest.param(DYNAMODB_STREAM, dynamodb_stream_event((None, {"id": "5"})), id="dynamodb"),
]


@pytest.mark.parametrize(("source", "event"), SOURCES)
@pytest.mark.parametrize("records", [0, 1])
def test_a_tumbling_window_is_refused(source: RecordSource, event: dict[str, Any], records: int) -> None:
    """Its answer is the state of the window; so is that of the last call, which may have no records."""
    window = event | WINDOW | {"Records": event["Records"][:records]}
    with pytest.raises(Misconfigured, match=r"a tumbling window\. Nothing ran\. Its response is the state"):
        source.sequences(window)
