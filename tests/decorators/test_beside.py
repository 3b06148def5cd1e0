"""
Where, and what kind: what a source says about the work beside its payload, and what becomes of it.

Three rules carry every case:

* without ``key=``, the payload and all that is beside it is in the token: another queue, topic, type or
  attribute is other work;
* under ``key=`` origin and attributes are compared, so another one is `KeyReused`: neither a silent drop nor
  a silent second run. Position is neither;
* the way out that the error names, ``ignore=("@origin",)`` or ``("@attributes",)``, holds at once.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lambda_once import KeyMissing, KeyReused, MemoryStore, Once, RetryLater
from lambda_once.testing import (
    eventbridge_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    pipes_event,
    sns_event,
    sqs_event,
)
from tests.decorators.sources_table import is_given_back


@pytest.fixture
def once() -> Once:
    """Return a `Once` on a store in memory."""
    return Once(store=MemoryStore(), service="shop")


def refusal(handler: Any, event: Any) -> Any:
    """Return the error of the only record or event; None if it was done, now or before."""
    try:
        response = handler(event, lambda_context())
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what the source gets)
        children = getattr(error, "child_exceptions", None)
        return children[0][1] if children else error
    return RetryLater("the message goes back to its queue") if is_given_back(response) else None


def deliver(handler: Any, *events: Any) -> None:
    """Deliver *events*, of which each has to be done, now or before."""
    for event in events:
        assert refusal(handler, event) is None


def test_a_partners_event_as_an_argument_counts_by_its_content(once: Once) -> None:
    """An event among a function's arguments counts as it would in front of a handler (key-design.md)."""
    shipped = []

    @once.function
    def ship(event: Any) -> None:
        shipped.append(1)

    for event_id in ("i-1", "i-2"):
        ship(eventbridge_event({"id": 1}, "webhook", "aws.partner/shopify.com/1/orders", event_id=event_id))
    assert len(shipped) == 1


def from_topic(body: Any, topic: Any, **options: Any) -> Any:
    """Return a message of a queue that has the envelope of SNS without raw delivery."""
    sns = sns_event(body, topic=topic)["Records"][0]["Sns"]
    names = ("Type", "MessageId", "TopicArn", "Message", "Timestamp")
    return sqs_event({name: sns[name] for name in names}, **options)


@pytest.mark.parametrize(
    ("part", "first", "second"),
    [
        ("@origin", sqs_event({"orderId": 5}, queue="blue"), sqs_event({"orderId": 5}, queue="green")),
        (
            "@attributes",
            sqs_event({"orderId": 5}, attributes={"sentBy": "1"}),
            sqs_event({"orderId": 5}, attributes={"sentBy": "2"}),
        ),
        ("@attributes", sqs_event({"orderId": 5}, attributes={"sentBy": "1"}), sqs_event({"orderId": 5})),
    ],
    ids=["another queue", "another attribute", "no attribute"],
)
def test_the_way_out_holds_for_what_was_done_before(part: Any, first: Any, second: Any) -> None:
    """
    An operator deploys what the error names, and redrives the dead letter.

    It has to be a duplicate then, and a redelivery of the first message still one. Another payload is
    still KeyReused.
    """
    store, ran = MemoryStore(), []

    def deployed(**options: Any) -> Any:
        once = Once(store=store, service="shop")

        @once.sqs(name="ship", key="orderId", **options)
        def ship(record: Any) -> None:
            ran.append(1)

        return ship

    before = deployed()
    deliver(before, first)
    error = refusal(before, second)
    assert isinstance(error, KeyReused)
    assert part in str(error)

    after = deployed(ignore=(part,))
    deliver(after, second, first)
    assert ran == [1]
    other = copy.deepcopy(second)
    other["Records"][0]["body"] = json.dumps({"orderId": 5, "total": 9})
    assert isinstance(refusal(after, other), KeyReused)


@pytest.mark.parametrize("ignored", ["@attributes", "@attributes.id", "@origin", "@bytes"])
@pytest.mark.parametrize("key", [None, "orderId"])
def test_a_way_out_leaves_no_field_of_the_payload_out(once: Once, ignored: str, key: Any) -> None:
    """XML that became JSON has its attributes as ``"@attributes"``, and another payload stays another one."""
    shipped: list[Any] = []
    ship = once.sqs(name="ship", key=key, ignore=(ignored,))(shipped.append)
    name = ignored.partition(".")[0]
    first, second = (sqs_event({"orderId": 5, name: {"id": item}}) for item in "ab")
    deliver(ship, first, first)
    error = refusal(ship, second)
    if key is None:
        assert (error, len(shipped)) == (None, 2)
    else:
        assert (type(error), len(shipped)) == (KeyReused, 1)


def test_the_way_out_names_both_parts_where_both_differ() -> None:
    """With the queue alone ignored, its message would be KeyReused once more."""
    store, ran = MemoryStore(), []
    first = sqs_event({"orderId": 5}, queue="blue", attributes={"sentBy": "1"})
    second = sqs_event({"orderId": 5}, queue="green", attributes={"sentBy": "2"})

    def deployed(**options: Any) -> Any:
        once = Once(store=store, service="shop")
        return once.sqs(name="ship", key="orderId", **options)(lambda _: ran.append(1))

    deliver(deployed(), first)
    assert 'pass ignore=("@origin", "@attributes");' in str(refusal(deployed(), second))
    deliver(deployed(ignore=("@origin", "@attributes")), second, first)
    assert ran == [1]


def mail(*recipients: Any) -> Any:
    """Return what SES sends for one rule that matched *recipients*."""
    return {
        "Records": [
            {
                "eventSource": "aws:ses",
                "eventVersion": "1.0",
                "ses": {
                    "mail": {
                        "timestamp": "2026-11-20T10:00:00Z",
                        "source": "ann@example.com",
                        "messageId": "o3vrnil0e2ic28tr",
                        "destination": ["support@example.com", "sales@example.com"],
                    },
                    "receipt": {
                        "timestamp": "2026-11-20T10:00:00Z",
                        "recipients": [*recipients],
                        "action": {"type": "Lambda", "functionArn": "forward", "invocationType": "Event"},
                    },
                },
            }
        ]
    }


def split(*bodies: Any, numbered: Any = True) -> Any:
    """Return what AWS' deaggregator makes of one aggregated record: user records that share an eventID."""
    (first,) = kinesis_event({})["Records"]
    records = []
    for number, body in enumerate(bodies):
        record = copy.deepcopy(first)
        record["kinesis"]["data"] = kinesis_event(body)["Records"][0]["kinesis"]["data"]
        if numbered:
            record["kinesis"] |= {"subSequenceNumber": number, "aggregated": True, "explicitHashKey": None}
        records.append(record)
    return {"Records": records}


@pytest.mark.parametrize("form", [dict, pipes_event], ids=["mapping", "pipe"])
@pytest.mark.parametrize("second", [{"page": "/"}, {"page": "/help"}], ids=["equal", "other"])
def test_records_that_were_aggregated_are_told_apart(once: Once, second: Any, form: Any) -> None:
    """
    Kinesis developer guide, consumer de-aggregation.

    The user records of one aggregated record share its sequence number, and a sub-sequence number tells
    them apart. aws-kinesis-agg 1.2.3 writes it as ``subSequenceNumber``, the same on every redelivery. The
    enrichment of a pipe may split them, too, and leave the fields of ``kinesis`` where a pipe has them.
    """
    counted = []

    @once.kinesis(name="count")
    def count(record: Any) -> None:
        counted.append(record.kinesis.data_as_json())

    batch = form(split({"page": "/"}, second))
    deliver(count, batch, batch)  # the second is a redelivery
    assert counted == [{"page": "/"}, second]


def test_two_records_that_nothing_tells_apart_are_refused(once: Once) -> None:
    """
    Two records of one event with one eventID and no sub-sequence number.

    One of them would be lost, so neither is taken for the other.
    """
    counted = []

    @once.kinesis(name="count")
    def count(record: Any) -> None:
        counted.append(1)

    error = refusal(count, split({"page": "/"}, {"page": "/"}, numbered=False))
    assert isinstance(error, KeyMissing)
    assert type(error).__name__ == "BadRecord"


def test_data_in_bytes_is_base64_in_a_plain_record(once: Once) -> None:
    """
    aws-kinesis-agg 1.2.3 leaves data as bytes of base64.

    Lambda's event has them as text. Both are one record.
    """
    counted = []

    @once.kinesis(name="count", key="order")
    def count(record: Any) -> None:
        counted.append(record.kinesis.data_as_json())

    batch = split({"order": 1}, {"order": 2})
    for record in batch["Records"]:
        record["kinesis"]["data"] = record["kinesis"]["data"].encode()
    deliver(count, batch)
    assert counted == [{"order": 1}, {"order": 2}]


@pytest.mark.parametrize("ignore", [("@attributes.sentAt",), ("@attributes.other",)])
def test_a_header_of_kafka_is_ignored_by_its_name(once: Once, ignore: Any) -> None:
    """Headers are pairs in their order; another name leaves it counting."""
    ran = []

    @once.kafka(name="work", key="orderId", ignore=ignore)
    def work(record: Any) -> None:
        ran.append(1)

    first, sent_again, cancelled = (
        kafka_event({"orderId": 5}, headers={"sentAt": at, "type": kind}, first_offset=offset)
        for offset, at, kind in ((0, "1", "created"), (9, "2", "created"), (10, "1", "cancelled"))
    )
    deliver(work, first)
    if ignore == ("@attributes.sentAt",):
        deliver(work, sent_again)
    else:
        assert isinstance(refusal(work, sent_again), KeyReused)
    assert isinstance(refusal(work, cancelled), KeyReused)
    assert ran == [1]
