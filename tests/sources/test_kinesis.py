"""How records of Kinesis are read, the malformed ones included."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

from lambda_once.sources.kinesis import KINESIS
from lambda_once.testing import kinesis_event
from tests.sources.test_streams import bad_of, only

KPL_MAGIC = b"\xf3\x89\x9a\xc2"


def _with_data(data: object) -> dict[str, Any]:
    record: dict[str, Any] = kinesis_event("x")["Records"][0]
    record["kinesis"]["data"] = data
    return record


def test_a_record_of_kinesis_is_a_unit() -> None:
    """Its data is the payload, its eventID in the stream's ARN the key; the partition key is its group."""
    event = kinesis_event({"orderId": 5}, partition_keys="p-5")
    raw = event["Records"][0]
    unit = only(KINESIS, event)
    assert (unit.record.id, unit.record.group) == (raw["kinesis"]["sequenceNumber"], "p-5")
    assert isinstance(unit.record.argument, KinesisStreamRecord)
    assert (unit.what.content.payload, unit.record.envelope, unit.record.delivery) == (
        {"orderId": 5},
        raw,
        raw["eventID"],
    )
    assert (unit.what.origin, unit.what.position) == (["123456789012", "orders"], [raw["eventID"]])


def test_a_consumer_is_no_other_stream() -> None:
    """With enhanced fan-out the ARN is the consumer's: the key is that of the stream all the same."""
    raw = kinesis_event("x")["Records"][0]
    consumed = raw | {"eventSourceARN": f"{raw['eventSourceARN']}/consumer/fast:1763633520"}
    assert only(KINESIS, {"Records": [raw]}).what.origin == only(KINESIS, {"Records": [consumed]}).what.origin


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
    unit = only(KINESIS, kinesis_event(sent))
    assert (unit.what.content.payload, unit.what.content.parsed) == (payload, parsed)


def test_aggregated_records_are_named() -> None:
    """Several user records in one: the producer's library is named, and what to do."""
    body = b"\n\x03p-1\x1a\x07\x08\x00\x1a\x03one"
    data = KPL_MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()
    wrong = bad_of(KINESIS, _with_data(base64.b64encode(data).decode()))
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
    wrong = bad_of(KINESIS, record)
    assert what in wrong
    assert "Fix the producer" in wrong
