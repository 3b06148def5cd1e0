"""What belongs to one delivery is in no default key: changed in recorded events, one field at a time."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.testing import lambda_context

EVENTS = Path(__file__).parents[2] / "events"
SQS = ("receiptHandle", "messageId", "md5OfBody", "awsRegion")
SQS_ATTRIBUTES = ("ApproximateReceiveCount", "SentTimestamp", "SenderId", "ApproximateFirstReceiveTimestamp")
SNS = ("MessageId", "Timestamp", "Signature", "SigningCertUrl", "UnsubscribeUrl", "Subject")
S3 = (("eventTime",), ("userIdentity",), ("requestParameters",), ("responseElements", "x-amz-request-id"))
HTTP = (("requestContext", "requestId"), ("requestContext", "time"), ("requestContext", "timeEpoch"))


def _of_records(*ways: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [("Records", "0", *way) for way in ways]


VOLATILE: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "sqs-order.json": (
        "sqs",
        _of_records(*((name,) for name in SQS), *(("attributes", name) for name in SQS_ATTRIBUTES)),
    ),
    "sqs-fifo.json": (
        "sqs",
        _of_records(
            ("receiptHandle",), ("attributes", "ApproximateReceiveCount"), ("attributes", "SequenceNumber")
        ),
    ),
    "sns-notice.json": ("sns", _of_records(("EventSubscriptionArn",), *(("Sns", name) for name in SNS))),
    "eventbridge-order-paid.json": ("event", [("id",), ("time",), ("account",), ("region",), ("version",)]),
    "s3-put.json": ("event", _of_records(*S3)),
    "http-api-order.json": (
        "api_gateway",
        [*HTTP, ("requestContext", "http", "sourceIp"), ("headers", "user-agent")],
    ),
    "function-url-order.json": ("api_gateway", list(HTTP)),
    "api-gateway-order.json": (
        "api_gateway",
        [("requestContext", "requestId"), ("requestContext", "requestTime")],
    ),
    "alb-order.json": ("api_gateway", [("headers", "x-amzn-trace-id"), ("headers", "x-forwarded-for")]),
}


def _changed(event: Any, way: tuple[str, ...]) -> Any:
    found = copy.deepcopy(event)
    place = found
    *rest, last = way
    for name in rest:
        place = place[int(name) if isinstance(place, list) else name]
    place[last] = "2" if last == "ApproximateReceiveCount" else "changed"
    return found


@pytest.mark.parametrize(
    ("file", "face", "way"),
    [(file, face, way) for file, (face, ways) in VOLATILE.items() for way in ways],
    ids=lambda part: ".".join(part) if isinstance(part, tuple) else part,
)
def test_what_belongs_to_one_delivery_is_in_no_token(file: str, face: str, way: tuple[str, ...]) -> None:
    """Two deliveries that differ in one such field are one token, and the second is a duplicate."""
    event = json.loads((EVENTS / file).read_text(encoding="utf-8"))
    store = MemoryStore()
    seen: list[object] = []
    handler: Any = getattr(Once(store=store, service="shop"), face)(_counting(seen))
    handler(event, lambda_context())
    handler(_changed(event, way), lambda_context())
    assert len(seen) == len(store.records)
    assert len(store.records) == len(event.get("Records", [event]))


def _counting(seen: list[object]) -> Any:
    def work(given: object) -> dict[str, object]:
        seen.append(given)
        return {"statusCode": 200}

    return work
