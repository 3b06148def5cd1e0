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
    activemq_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    rabbitmq_event,
    sns_event,
    sqs_event,
)


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
    is_given_back = isinstance(response, dict) and response.get("batchItemFailures")
    return RetryLater("the message goes back to its queue") if is_given_back else None


def deliver(handler: Any, *events: Any) -> None:
    """Deliver *events*, of which each has to be done, now or before."""
    for event in events:
        assert refusal(handler, event) is None


# ---------------------------------------------------------------- partners' events

PAID = {
    "payload": {"id": 1, "total_price": "49.90"},
    "metadata": {"X-Shopify-Topic": "orders/paid", "X-Shopify-Event-Id": "e-1"},
}


def partner(event_id: Any) -> Any:
    """Return a partner's event under this id."""
    return eventbridge_event(
        PAID, "shopifyWebhook", "aws.partner/shopify.com/12345/orders", event_id=event_id
    )


def test_a_partner_that_sends_an_event_again_is_recognised(once: Once) -> None:
    """
    EventBridge API reference, PutPartnerEvents.

    The partner sends the event, and when it repeats it, EventBridge gives it another id. Shopify's
    guide says that webhooks come more than once. So the content counts, as for your own.
    """
    shipped = []

    @once.event
    def ship(event: Any) -> None:
        shipped.append(event["id"])

    deliver(ship, partner("i-1"), partner("i-2"))
    assert shipped == ["i-1"]


@pytest.mark.parametrize("source", ["sqs", "sns"])
def test_a_partners_event_within_a_message_counts_by_its_content(once: Once, source: Any) -> None:
    """A rule may send it to a queue or topic; the event in the message is the same event."""
    shipped: list[int] = []
    event: Any = {"sqs": sqs_event, "sns": sns_event}[source]

    @getattr(once, source)  # type: ignore[untyped-decorator]  # any source
    def ship(record: Any) -> None:
        shipped.append(1)

    deliver(ship, event(partner("i-1")), event(partner("i-2")))
    assert len(shipped) == 1


def test_a_partners_event_as_an_argument_counts_by_its_content(once: Once) -> None:
    """An event among a function's arguments counts as it would in front of a handler (key-design.md)."""
    shipped = []

    @once.function
    def ship(event: Any) -> None:
        shipped.append(1)

    for event_id in ("i-1", "i-2"):
        ship(partner(event_id))
    assert len(shipped) == 1


def test_aws_own_events_stay_apart_by_their_id(once: Once) -> None:
    """AWS' own services report states; two equal ones with two ids are two occurrences."""
    noted = []

    @once.event
    def note(event: Any) -> None:
        noted.append(event["id"])

    for event_id in ("i-1", "i-1", "i-2"):
        deliver(note, eventbridge_event({"state": "ALARM"}, "Finding", "aws.guardduty", event_id=event_id))
    assert noted == ["i-1", "i-2"]


# ---------------------------------------------------------------- queue and topic

ORIGINS = {
    "sqs": lambda body, name: sqs_event(body, queue=name),
    "sns": lambda body, name: sns_event(body, topic=name),
}


def from_topic(body: Any, topic: Any, **options: Any) -> Any:
    """Return a message of a queue that has the envelope of SNS without raw delivery."""
    sns = sns_event(body, topic=topic)["Records"][0]["Sns"]
    names = ("Type", "MessageId", "TopicArn", "Message", "Timestamp")
    return sqs_event({name: sns[name] for name in names}, **options)


def ran_by(once: Once, source: Any, **options: Any) -> Any:
    """Return a handler of *source*, and the list of what it ran."""
    ran = []

    @getattr(once, source)(name="work", **options)  # type: ignore[untyped-decorator]  # any source
    def work(record: Any) -> None:
        ran.append(1)

    return work, ran


@pytest.mark.parametrize("source", ORIGINS)
def test_one_body_from_two_queues_or_topics_is_two_pieces_of_work(once: Once, source: Any) -> None:
    """
    Where a message was published often is its kind.

    {"orderId": 5} on order-created and on order-cancelled are two messages. A mapping or subscription
    for each gives one function both (Lambda developer guide, event source mappings).
    """
    work, ran = ran_by(once, source)
    created, cancelled = (
        ORIGINS[source]({"orderId": 5}, name) for name in ("order-created", "order-cancelled")
    )
    deliver(work, created, created, cancelled)  # the second is a redelivery
    assert len(ran) == 2


def test_two_topics_that_reach_one_queue_are_two_pieces_of_work(once: Once) -> None:
    """SNS developer guide, "Fanout to SQS": the envelope's TopicArn says what the queue's ARN cannot."""
    work, ran = ran_by(once, "sqs")
    deliver(work, *(from_topic({"orderId": 5}, topic) for topic in ("order-created", "order-cancelled")))
    assert len(ran) == 2


def test_two_topics_that_reach_one_queue_are_key_reused_under_one_key(once: Once) -> None:
    """As for two queues."""
    work, ran = ran_by(once, "sqs", key="orderId")
    deliver(work, from_topic({"orderId": 5}, "order-created"))
    assert isinstance(refusal(work, from_topic({"orderId": 5}, "order-cancelled")), KeyReused)
    assert len(ran) == 1


@pytest.mark.parametrize("amount", [5, 7], ids=["equal bodies", "other bodies"])
def test_a_deduplication_id_counts_within_its_own_fifo_queue(once: Once, amount: Any) -> None:
    """
    SQS developer guide, "Exactly-once processing".

    A deduplication id means something in its own queue only, so two queues may use one id for two
    messages.
    """
    work, ran = ran_by(once, "sqs")
    for queue, body in (("charges", {"amount": 5}), ("refunds", {"amount": amount})):
        event = sqs_event(body, queue=queue, fifo_groups="customer-7")
        event["Records"][0]["attributes"]["MessageDeduplicationId"] = "42"
        deliver(work, event, event)
    assert len(ran) == 2


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


# ---------------------------------------------------------------- headers, types and properties of brokers


def rabbit(kind: Any = None, message_id: Any = None, **headers: Any) -> Any:
    """Return one message of RabbitMQ with this type, id and headers."""
    event = rabbitmq_event({"orderId": 5}, message_ids=[message_id])
    ((message,),) = event["rmqMessagesByQueue"].values()
    coded = {name.replace("_", "-"): {"bytes": [*text.encode()]} for name, text in headers.items()}
    message["basicProperties"].update(type=kind, headers=coded or None)
    return event


def active(kind: Any, **properties: Any) -> Any:
    """Return one message of ActiveMQ with this type and properties."""
    event = activemq_event({"orderId": 5})
    event["messages"][0].update(type=kind, properties=properties)
    return event


def kafka(offset: Any, **headers: Any) -> Any:
    """Return one record at *offset* with these headers."""
    return kafka_event({"orderId": 5}, headers=headers, first_offset=offset)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rabbit("order.created"), rabbit("order.cancelled")),
        (rabbit(event_type="created"), rabbit(event_type="cancelled")),
        (rabbit(event_type="created"), rabbit()),
    ],
    ids=["another type", "another header", "no header"],
)
def test_rabbitmq_messages_of_two_types_both_run(once: Once, first: Any, second: Any) -> None:
    """
    AMQP 0-9-1, basic properties.

    ``type`` and ``headers`` are the sender's; a publisher that sends several kinds of message to one
    queue tells them apart there. Most publishers set no message id, so the hash is the default key.
    """
    work, ran = ran_by(once, "mq")
    deliver(work, first, first, second)  # the second is a redelivery
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("source", "first", "second"),
    [
        ("mq", rabbit("order.created", "m-1"), rabbit("order.cancelled", "m-2")),
        ("mq", rabbit(None, "m-1", event_type="created"), rabbit(None, "m-2", event_type="cancelled")),
        ("mq", active("order.created"), active("order.cancelled")),
        ("mq", active(None, eventType="created"), active(None, eventType="cancelled")),
        ("kafka", kafka(0, ce_type="order.created"), kafka(9, ce_type="order.cancelled")),
    ],
    ids=["RabbitMQ type", "RabbitMQ header", "ActiveMQ type", "ActiveMQ property", "Kafka header"],
)
def test_another_type_under_one_key_is_key_reused(once: Once, source: Any, first: Any, second: Any) -> None:
    """
    As SQS and SNS attributes.

    JMS has JMSType and properties for it, and CloudEvents' Kafka binding in binary mode puts ce_type
    into a header by specification. "cancelled" after "created" may not vanish.
    """
    work, ran = ran_by(once, source, key="orderId")
    deliver(work, first)
    error = refusal(work, second)
    assert isinstance(error, KeyReused)
    assert "@attributes" in str(error)
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("source", "first", "second"),
    [
        ("mq", rabbit(traceparent="00-1-1-01"), rabbit(traceparent="00-2-2-01")),
        ("mq", rabbit(event_type="created"), rabbit(event_type="created", x_delivery_count="2")),
        ("mq", active("t", traceparent="00-1-1-01"), active("t", traceparent="00-2-2-01")),
        ("kafka", kafka(0, TraceParent="00-1-1-01"), kafka(9, traceparent="00-2-2-01")),
    ],
    ids=["RabbitMQ trace", "RabbitMQ delivery count", "ActiveMQ trace", "Kafka trace"],
)
def test_what_another_hand_stamps_anew_does_not_count(
    once: Once, source: Any, first: Any, second: Any
) -> None:
    """
    W3C Trace Context's header is new for each send, in any case of letters.

    A quorum queue counts deliveries in ``x-delivery-count`` (RabbitMQ, "Quorum queues: poison message
    handling"). Neither says what the work is.
    """
    work, ran = ran_by(once, source, key="orderId")
    deliver(work, first, second)
    assert len(ran) == 1


# ---------------------------------------------------------------- SES


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


def test_two_rules_that_match_one_mail_are_two_pieces_of_work(once: Once) -> None:
    """
    SES developer guide, "Receipt rules".

    All matching rules run, and receipt.recipients has those that the rule matched. Both invocations
    have one messageId; Lambda's own retry has the same recipients.
    """
    forwarded = []

    @once.event
    def forward(event: Any) -> None:
        forwarded.extend(event["Records"][0]["ses"]["receipt"]["recipients"])

    deliver(forward, *map(mail, ("support@example.com", "support@example.com", "sales@example.com")))
    assert forwarded == ["support@example.com", "sales@example.com"]


def test_the_order_of_recipients_does_not_count(once: Once) -> None:
    """They are a set: nothing in the guide promises an order."""
    ran = []

    @once.event
    def forward(event: Any) -> None:
        ran.append(1)

    deliver(forward, mail("a@example.com", "b@example.com"), mail("b@example.com", "a@example.com"))
    assert len(ran) == 1


# ---------------------------------------------------------------- Kinesis, aggregated records


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


@pytest.mark.parametrize("second", [{"page": "/"}, {"page": "/help"}], ids=["equal", "other"])
def test_records_that_were_aggregated_are_told_apart(once: Once, second: Any) -> None:
    """
    Kinesis developer guide, consumer de-aggregation.

    The user records of one aggregated record share its sequence number, and a sub-sequence number tells
    them apart. aws-kinesis-agg 1.2.3 writes it as ``subSequenceNumber``, the same on every redelivery.
    """
    counted = []

    @once.kinesis(name="count")
    def count(record: Any) -> None:
        counted.append(record.kinesis.data_as_json())

    batch = split({"page": "/"}, second)
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
    work, ran = ran_by(once, "kafka", key="orderId", ignore=ignore)
    work(kafka(0, sentAt="1", type="created"), lambda_context())
    if ignore == ("@attributes.sentAt",):
        work(kafka(9, sentAt="2", type="created"), lambda_context())
    else:
        with pytest.raises(KeyReused):
            work(kafka(9, sentAt="2", type="created"), lambda_context())
    with pytest.raises(KeyReused):
        work(kafka(10, sentAt="1", type="cancelled"), lambda_context())
    assert ran == [1]
