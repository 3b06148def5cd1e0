"""The files of events/ are what the sources send, and a redelivery differs in what a redelivery changes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from lambda_once.sources.headers import header_values
from tests.kit.recorded import FILES, load

RECEIVED_AGAIN = {"receiptHandle", "attributes.ApproximateReceiveCount"}
"""What SQS changes from one delivery of a message to the next."""

ASKED_AGAIN = {
    "requestContext.requestId",
    "requestContext.time",
    "requestContext.timeEpoch",
    "headers.x-amzn-trace-id",
}
"""What is new in a second request over an HTTP API."""

ASKED_AGAIN_REST = {
    "requestContext.requestId",
    "requestContext.extendedRequestId",
    "requestContext.requestTime",
    "requestContext.requestTimeEpoch",
    "headers.X-Amzn-Trace-Id",
    "headers.X-Amz-Cf-Id",
    "multiValueHeaders.X-Amzn-Trace-Id.0",
    "multiValueHeaders.X-Amz-Cf-Id.0",
}
"""What is new in a second request over a REST API."""

PUBLISHED_AGAIN = {"MessageId", "Timestamp", "Signature"}


def differences(first: object, second: object, path: str = "") -> set[str]:
    """Return the dotted paths at which the two differ."""
    match first, second:
        case dict(), dict():
            keys = first.keys() | second.keys()
            below = ((first.get(key, ...), second.get(key, ...), str(key)) for key in keys)
        case list(), list() if len(first) == len(second):
            below = ((a, b, str(i)) for i, (a, b) in enumerate(zip(first, second, strict=True)))
        case _:
            return set() if first == second else {path}
    return {found for a, b, key in below for found in differences(a, b, f"{path}.{key}".lstrip("."))}


def of_source(source: str) -> list[tuple[str, Any]]:
    """Return every record of *source* with the name of its file."""
    loaded = [(name, record) for name in FILES for record in load(name).get("Records", [])]
    return [
        (name, record)
        for name, record in loaded
        if source in (record.get("eventSource"), record.get("EventSource"))
    ]


def _is_asked_again(name: str) -> bool:
    return name.startswith("http-api") and f"{name}-retry" in FILES


def redelivered() -> list[str]:
    """Return the files that have a redelivery beside them."""
    return [name.removesuffix("-redelivery") for name in FILES if name.endswith("-redelivery")]


def test_there_is_a_file_for_every_source() -> None:
    """Each source that can be decorated has its event, with the envelopes that queues carry."""
    wanted = {
        "alb-order",
        "alb-order-multi-value",
        "api-gateway-order",
        "direct",
        "eventbridge-order-paid",
        "eventbridge-schedule",
        "function-url-order",
        "http-api-order",
        "kinesis-orders",
        "s3-put",
        "scheduler-prices",
        "sns-notice",
        "sqs-eventbridge-envelope",
        "sqs-fifo",
        "sqs-order",
        "sqs-s3-notification",
        "sqs-sns-envelope",
        "stream-contracts",
        "watchdog",
    }
    assert wanted <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_one_event_of_a_made_up_account(name: str) -> None:
    """Each file holds one JSON object, and every account in it is the one of the AWS documentation."""
    text = FILES[name].read_text(encoding="utf-8")
    assert isinstance(json.loads(text), dict)
    owners = {part.split(":")[4] for part in text.replace("\\", "").split('"') if part.startswith("arn:aws:")}
    assert owners <= {"123456789012", ""}


@pytest.mark.parametrize("name", redelivered())
def test_a_redelivered_message_differs_in_receipt_and_count_only(name: str) -> None:
    """SQS gives a redelivered message a new receipt handle and a higher count, and changes nothing else."""
    first, second = load(name), load(f"{name}-redelivery")
    assert len(first["Records"]) == len(second["Records"])
    for before, after in zip(first["Records"], second["Records"], strict=True):
        assert differences(before, after) == RECEIVED_AGAIN
        assert before["attributes"]["ApproximateReceiveCount"] == "1"
        assert after["attributes"]["ApproximateReceiveCount"] == "2"


PAIRS: list[tuple[str, str, set[str]]] = [
    # Lambda retries an asynchronous invocation with the very same event.
    ("sns-notice", "sns-notice-retry", set()),
    ("eventbridge-order-paid", "eventbridge-order-paid-retry", set()),
    # A publisher that tries again makes a new message of the same text and subject, a producer a new event.
    ("sns-notice", "sns-notice-republished", {f"Records.0.Sns.{name}" for name in PUBLISHED_AGAIN}),
    ("eventbridge-order-paid", "eventbridge-order-paid-resent", {"id", "time"}),
    # Two ticks of one schedule say the same and are two.
    ("eventbridge-schedule", "eventbridge-schedule-next", {"id", "time"}),
    # The scheduled time is that of the run, not of the try; the next run has another.
    ("scheduler-prices", "scheduler-prices-again", {"executionId"}),
    ("scheduler-prices", "scheduler-prices-next", {"scheduledTime", "executionId"}),
    # A retried request has the same key and body; a REST API says everything twice.
    *((name, f"{name}-retry", ASKED_AGAIN) for name in FILES if _is_asked_again(name)),
    ("api-gateway-order", "api-gateway-order-retry", ASKED_AGAIN_REST),
    # A key used for another body.
    (
        "http-api-order",
        "http-api-order-same-key-other-body",
        ASKED_AGAIN | {"body", "headers.content-length"},
    ),
    # Two payments that differ in the order alone: the path tells them apart, and the order in it.
    (
        "http-api-pay-5",
        "http-api-pay-6",
        ASKED_AGAIN | {"rawPath", "requestContext.http.path", "pathParameters.id"},
    ),
]


@pytest.mark.parametrize(("first", "second", "changed"), PAIRS)
def test_a_pair_differs_in_what_its_source_changes(first: str, second: str, changed: set[str]) -> None:
    """No more and no less, by the dotted paths of the two events."""
    assert differences(load(first), load(second)) == changed


def test_queues_send_what_sqs_sends() -> None:
    """Each message has the fields of SQS, strings for numbers, and the digest of its body."""
    records = of_source("aws:sqs")
    assert len(records) > 20
    for name, record in records:
        assert hashlib.md5(record["body"].encode()).hexdigest() == record["md5OfBody"], name
        attributes = record["attributes"]
        assert all(isinstance(value, str) for value in attributes.values()), name
        assert ("MessageDeduplicationId" in attributes) == record["eventSourceARN"].endswith(".fifo"), name


def test_message_ids_are_used_once() -> None:
    """No two files but a pair share a message, so that each can be recognised by its id."""
    owners: dict[str, set[str]] = {}
    for name, record in of_source("aws:sqs"):
        owners.setdefault(record["messageId"], set()).add(name.removesuffix("-redelivery"))
    assert {tuple(names) for names in owners.values() if len(names) > 1} == set()


def test_bodies_of_requests_have_the_length_that_they_claim() -> None:
    """content-length is the number of bytes of the body."""
    for name in FILES:
        event = load(name)
        for length in header_values(event).get("content-length", ()):
            assert int(length) == len(event.get("body", "").encode()), name
