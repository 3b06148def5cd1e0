"""The same message, event or record is the same work through every door, and so is its redelivery."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes import S3Event, SNSEvent, SQSEvent, event_source
from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.envelopes import EventBridgeEnvelope, SnsEnvelope, SqsEnvelope
from aws_lambda_powertools.utilities.parser.models import (
    AlbModel,
    APIGatewayProxyEventV2Model,
    CloudFormationCustomResourceCreateModel,
    DynamoDBStreamModel,
    EventBridgeModel,
    KafkaRecordModel,
    KinesisDataStreamModel,
    S3EventNotificationEventBridgeModel,
    S3Model,
    SnsModel,
    SqsModel,
    SqsRecordModel,
)
from pydantic import BaseModel, ConfigDict, Field, Json

from lambda_once import KeyMissing, KeyReused, MemoryStore, Misconfigured, Once
from lambda_once.testing import (
    activemq_event,
    alb_event,
    api_event,
    dynamodb_stream_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    s3_event,
    sns_event,
    sqs_event,
)
from tests.decorators.test_beside import deliver, refusal
from tests.sources.services import KEYED

Event = dict[str, Any]


class Order(BaseModel):
    id: int


class OrderRecord(SqsRecordModel):
    body: Json[Order]


class OwnRecord(BaseModel):
    """A record of SQS in a model of the user's own."""

    model_config = ConfigDict(extra="allow")
    source: str = Field(alias="eventSource")
    receiptHandle: str  # noqa: N815
    body: Json[Order]


@pytest.fixture
def once() -> Once:
    """No store can change what is tested here."""
    return Once(store=MemoryStore(), service="shop")


def redelivered(event: Event) -> Event:
    """*event*, of SQS, as the queue delivers it again."""
    again = copy.deepcopy(event)
    for record in again["Records"]:
        record["receiptHandle"] = "another"
        record["attributes"]["ApproximateReceiveCount"] = "2"
        record["attributes"]["ApproximateFirstReceiveTimestamp"] = "1763633999999"
    return again


def with_attribute(event: Event, value: str) -> Event:
    """*event*, of SQS, whose records have the attribute eventType of *value*."""
    again = copy.deepcopy(event)
    for record in again["Records"]:
        record["messageAttributes"] = {"eventType": {"stringValue": value, "dataType": "String"}}
    return again


# -- records in functions

FORMS: dict[str, Any] = {
    "data class": SQSRecord,
    "dict": dict,
    "model": OrderRecord.model_validate,
    "model without a body's type": SqsRecordModel.model_validate,
    "model of one's own": OwnRecord.model_validate,
}


@pytest.mark.parametrize("model", [None, OrderRecord])
@pytest.mark.parametrize("key", [None, "record.body.id"])
def test_a_batch_processor_around_a_function(once: Once, key: str | None, model: Any) -> None:
    """A redelivered record is the same work, whatever BatchProcessor makes of it."""
    charged: list[int] = []
    processor = BatchProcessor(event_type=EventType.SQS, model=model, raise_on_entire_batch_failure=False)
    options: Any = {} if key is None else {"key": key if model else "record.id"}

    def work(record: Any) -> None:
        charged.append(record.body.id if model else record.json_body["id"])

    charge: Any = once.function(name="charge", **options)(work)

    def handler(event: Event, context: Any) -> object:
        with once.invocation(context):
            return process_partial_response(event, charge, processor, context)

    event = sqs_event({"id": 1})
    for each in (event, redelivered(event)):
        assert handler(each, lambda_context()) == {"batchItemFailures": []}
    assert charged == [1]


@pytest.mark.parametrize("form", FORMS)
def test_a_redelivered_record_is_the_same_call(once: Once, form: str) -> None:
    """Receipt handle and counts don't count; another body, or another attribute of the sender's, does."""
    ran: list[Any] = []
    charge = once.function(name="charge")(ran.append)
    event = sqs_event({"id": 1})
    for each in (event, redelivered(event), with_attribute(event, "deleted"), sqs_event({"id": 2})):
        charge(FORMS[form](copy.deepcopy(each["Records"][0])))
    assert len(ran) == 3


@pytest.mark.parametrize("form", FORMS)
def test_an_attribute_of_a_function_s_record_under_a_key(once: Once, form: str) -> None:
    """It is KeyReused, names the attribute, and can be ignored."""
    event = sqs_event({"id": 1})
    first, second = (
        FORMS[form](with_attribute(event, kind)["Records"][0]) for kind in ("created", "deleted")
    )
    charge = once.function(name="charge", key=lambda _record: 5)(lambda _record: None)
    charge(first)
    with pytest.raises(KeyReused, match=r'different: @attributes\.eventType.*ignore=\("@attributes",\)'):
        charge(second)
    for path in ("@attributes.eventType", "@attributes"):
        loose = once.function(name=path, key=lambda _record: 5, ignore=(path,))(lambda _record: None)
        loose(first)
        loose(second)


@pytest.mark.parametrize("ignore", [("@attributes.eventType",), ("@attributes",)])
def test_an_attribute_of_two_records_is_ignored_by_its_name(once: Once, ignore: Any) -> None:
    """It is left out of both."""
    ran: list[str] = []

    def note(one: Any, other: Any, *, name: str) -> None:
        ran.append(name)

    event = sqs_event({"id": 1})
    first, second = (with_attribute(event, kind)["Records"][0] for kind in ("created", "deleted"))
    by_name: dict[str, Any] = {"plain": {}, "keyed": {"key": "name"}}
    for name, options in by_name.items():
        work: Any = once.function(name=name, ignore=ignore, **options)(note)
        work(first, second, name=name)
        work(second, first, name=name)
    assert ran == ["plain", "keyed"]


@pytest.mark.parametrize("form", FORMS)
def test_a_record_as_payload_of_a_block(once: Once, form: str) -> None:
    """once.begin compares it as once.function does."""
    event = sqs_event({"id": 1})

    def work(event: Event, **options: Any) -> None:
        with once.begin(1, name="work", payload=FORMS[form](event["Records"][0]), **options):
            pass

    work(event)
    work(redelivered(event))
    for other in (sqs_event({"id": 2}), with_attribute(event, "deleted")):
        with pytest.raises(KeyReused):
            work(other)
    work(with_attribute(event, "deleted"), ignore=("@attributes",))


def test_a_key_sees_what_the_function_sees(once: Once) -> None:
    """A dict and a model as they are; a data class as the body."""
    record = sqs_event({"id": 7}, message_ids=["m-1"])["Records"][0]
    rows = {"dict": "record.messageId", "model": "record.body.id", "data class": "record.id"}
    for form, key in rows.items():

        @once.function(name=form, key=key)
        def work(record: Any) -> None: ...

        work(FORMS[form](record))
        assert once.outcome("m-1" if form == "dict" else 7, name=form).state == "complete"


def test_a_dead_letter_of_a_fifo_queue_is_no_call(once: Once) -> None:
    """Its id is another one, so done work would run again; under a key it's the same."""
    (record,) = sqs_event({"id": 1}, fifo_groups="a")["Records"]
    dead = copy.deepcopy(record)
    dead["attributes"]["MessageDeduplicationId"] = dead["messageId"]
    dead["attributes"]["DeadLetterQueueSourceArn"] = record["eventSourceARN"]
    dead["eventSourceARN"] = record["eventSourceARN"].replace("orders", "dead")
    ran: list[Any] = []
    work = once.function(name="work")(ran.append)
    work(record)
    with pytest.raises(KeyMissing, match=r"dead-letter queue of a FIFO queue.*Pass key="):
        work(dead)
    keyed = once.function(name="keyed", key=lambda _: 1)(ran.append)
    keyed(record)
    keyed(dead)
    assert len(ran) == 2


def changes_of_numbers() -> list[Any]:
    """Two changes of items with a number as key, of which the parser makes a Decimal."""
    event = dynamodb_stream_event((None, {"id": 5}), (None, {"id": 6}))
    return [*DynamoDBStreamModel.model_validate(event).Records]


def of_one_group() -> list[Any]:
    """Two messages of a FIFO queue with one body: under once.sqs, too, their deduplication ids differ."""
    record = sqs_event({"id": 1}, fifo_groups="a")["Records"][0]
    other = copy.deepcopy(record)
    other["attributes"]["MessageDeduplicationId"] = "another"
    return [SQSRecord(record), SQSRecord(other)]


@pytest.mark.parametrize(
    ("records", "options"),
    [
        (changes_of_numbers(), {}),
        (of_one_group(), {}),
        (kinesis_event({"id": 1}, {"id": 1})["Records"], {"ignore": ("@position",)}),  # is not ignored
    ],
    ids=["parsed changes", "FIFO messages", "records of equal data"],
)
def test_two_records_are_two_calls(once: Once, records: list[Any], options: Any) -> None:
    """However much they have in common; each of them again is not."""
    ran: list[Any] = []
    work = once.function(name="work", **options)(ran.append)
    for each in records * 2:
        work(each)
    assert len(ran) == 2


@pytest.mark.parametrize("form", [dict, KafkaEventRecord, KafkaRecordModel.model_validate])
def test_a_record_of_kafka_names_no_source_and_is_known_all_the_same(once: Once, form: Any) -> None:
    """A producer's retry, at another offset, is the same work under a key; another topic is KeyReused."""
    ran: list[Any] = []
    work = once.function(name="work", key=lambda _record: 5)(ran.append)
    first, again = kafka_event({"id": 1}, {"id": 1})["records"]["orders-0"]
    (other,) = kafka_event({"id": 1}, topic="cancelled")["records"]["cancelled-0"]
    for each in (first, again, again | {"headers": [{"traceparent": [49]}]}):
        work(form(copy.deepcopy(each)))  # the parser changes the headers that it gets
    with pytest.raises(KeyReused, match=r"topic.*cancelled.*@origin"):
        work(form(other))
    assert len(ran) == 1


@pytest.mark.parametrize("form", [dict, ActiveMQMessage])
def test_a_message_of_activemq_names_its_queue_without_its_broker(once: Once, form: Any) -> None:
    """The event names the broker, the message its queue: another one is KeyReused under a key."""
    ran: list[Any] = []
    work = once.function(name="work", key=lambda _message: 5)(ran.append)
    first, again, other = (
        activemq_event({"id": 1}, queue=queue)["messages"][0] for queue in ("placed", "placed", "cancelled")
    )
    work(form(first))
    work(form(again))
    with pytest.raises(KeyReused, match=r"cancelled.*@origin"):
        work(form(other))
    assert len(ran) == 1


@pytest.mark.parametrize("form", [SQSRecord, dict])
def test_a_record_that_cannot_be_read_is_no_key(once: Once, form: Any) -> None:
    """As it came it has a receipt handle: each redelivery would run. A key= of it is the developer's word."""
    ran: list[int] = []
    event = sqs_event("[" * 200_000 + "]" * 200_000)
    work = once.function(name="work")(lambda _record: ran.append(1))
    keyed = once.function(name="keyed", key=lambda record: record["messageId"])(lambda _record: ran.append(1))
    for each in (event, redelivered(event)):
        with pytest.raises(KeyMissing, match=r"nested too deeply.*the key is missing: pass key="):
            work(form(each["Records"][0]))
    assert ran == []
    keyed(form(event["Records"][0]))
    assert ran == [1]


# -- whole events in functions

BATCHES: dict[str, Event] = {
    "sqs": sqs_event({"id": 1}),
    "sns": sns_event({"id": 1}),
    "kinesis": kinesis_event({"id": 1}),
    "dynamodb": dynamodb_stream_event((None, {"id": "5"})),
    "kafka": kafka_event({"id": 1}),
    "http": api_event("POST", "/orders", {"id": 1}),
    "alb": alb_event("POST", "/orders", {"id": 1}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_function_refuses_a_batch_or_a_request(once: Once, name: str) -> None:
    """Each redelivery is grouped in another way: it needs key= and fingerprint=, or its own decorator."""
    ran: list[int] = []

    def handler(_event: Any) -> None:
        ran.append(1)

    key: Any = {"key": lambda _: 5}
    options: list[Any] = [{}, key, {"fingerprint": False}]
    for n, each in enumerate(options):
        with pytest.raises(
            Misconfigured, match=r"once.function received an event of .*key= and fingerprint="
        ):
            once.function(name=f"{n}", **each)(handler)(BATCHES[name])
    assert ran == []
    said = once.function(name="said", fingerprint=False, **key)(handler)
    said(BATCHES[name])
    said(BATCHES[name])
    assert ran == [1]


@pytest.mark.parametrize("make", [list, tuple, lambda records: [SQSRecord(each) for each in records]])
def test_a_function_refuses_a_list_of_records(once: Once, make: Any) -> None:
    """It would be new work as soon as one of them comes again alone."""
    work = once.function(name="work")(lambda _records: None)
    with pytest.raises(Misconfigured, match="a list of records"):
        work(make(sqs_event({"id": 1}, {"id": 2})["Records"]))
    work([{"id": 1}, {"eventSource": "web"}])  # a list of the user's own


@pytest.mark.parametrize("kind", [dict, EventBridgeModel.model_validate])
def test_an_event_put_twice_is_one_call(once: Once, kind: Any) -> None:
    """Under once.function an event of EventBridge counts as under once.event."""
    ran: list[int] = []
    work = once.function(name="work")(lambda _event: ran.append(1))
    for id_, total in (("e-1", 5), ("e-2", 5), ("e-3", 6)):
        work(kind(eventbridge_event({"total": total}, event_id=id_) | {"replay-name": "none"}))
    assert ran == [1, 1]


def test_a_payload_that_is_like_an_event_is_itself(once: Once) -> None:
    """One field of a record makes no record."""
    ran: list[Event] = []
    work = once.function(name="work")(ran.append)
    payloads: list[Event] = [
        {"eventSource": "aws:sqs", "orderId": 5},
        {"eventSource": "aws:sqs", "orderId": 6},
        {"Records": [], "orderId": 5},
        {"records": [1, 2]},
        {"requestContext": "a", "orderId": 5},
        {"info": {"a": 1}, "arguments": {"b": 2}},
        {"event": "created", "window": "5"},
    ]
    for each in payloads * 2:
        work(each)
    assert ran == payloads


HTTP = api_event("POST", "/orders", {"id": 1})
HTTP["requestContext"]["domainPrefix"] = "id"


# -- a parser, or event_source, above once.event


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (SqsModel, sqs_event({"id": 1}, {"id": 2})),
        (SnsModel, sns_event({"id": 1})),
        (KinesisDataStreamModel, kinesis_event({"id": 1})),
        (DynamoDBStreamModel, dynamodb_stream_event((None, {"id": "5"}))),
        (APIGatewayProxyEventV2Model, HTTP),
        (AlbModel, alb_event("POST", "/orders", {"id": 1})),
    ],
)
@pytest.mark.parametrize("options", [{}, {"key": "id"}])
def test_a_parsed_event_is_refused_like_a_raw_one(once: Once, model: Any, event: Event, options: Any) -> None:
    """A model is recognised by what it was made of."""
    ran: list[int] = []

    @event_parser(model=model)
    @once.event(name="handler", **options)
    def handler(event: Any, context: Any) -> None:
        ran.append(1)

    plain: Any = handler
    with pytest.raises(
        Misconfigured, match=r"once.event received an event of .*Use once\.\w+\(model=…\) in place"
    ):
        plain(event, lambda_context())
    assert ran == []


LIST = r"a list of Order, .*once.sqs\(model=Order\) in place of the parser"
ONE = "a Order, which does not show what it was made of"
PUT = eventbridge_event({"id": 1}) | {"replay-name": "none"}


@pytest.mark.parametrize(
    ("envelope", "event", "words", "key"),
    [
        (SqsEnvelope, sqs_event({"id": 1}), LIST, "[].id"),
        (SnsEnvelope, sns_event({"id": 1}), LIST, "[].id"),
        (None, {"id": 1}, ONE, "id"),
        (EventBridgeEnvelope, PUT, ONE, "id"),
    ],
)
def test_models_without_their_envelope_need_a_key(
    once: Once, envelope: Any, event: Event, words: str, key: str
) -> None:
    """What a model was made of doesn't show: the next batch, or event, would run an order again."""
    ran: list[Any] = []

    def work(order: Any, context: Any) -> int:
        ran.append(order)
        return 1

    parser: Any = event_parser(model=Order, envelope=envelope)
    with pytest.raises(Misconfigured, match=words):
        parser(once.event(name="a")(work))(event, lambda_context())
    assert ran == []
    keyed = parser(once.event(name="b", key=key)(work))
    assert keyed(event, lambda_context()) == keyed(event, lambda_context()) == 1
    assert ran == ([[Order(id=1)]] if words is LIST else [Order(id=1)])


class OrderPlaced(EventBridgeModel):
    detail: Order


@pytest.mark.parametrize("model", [EventBridgeModel, OrderPlaced])
def test_a_parsed_event_of_eventbridge_counts_as_a_raw_one(once: Once, model: Any) -> None:
    """Put twice it is one work; the function gets the model, and key= sees its fields."""
    ran: list[Any] = []

    def work(event: Any, context: Any) -> None:
        ran.append(event)

    handler: Any = event_parser(model=model)(once.event(name="a")(work))
    keyed: Any = event_parser(model=model)(once.event(name="b", key="[detail_type, detail.id]")(work))
    for each in (handler, keyed):
        ran.clear()
        for id_ in ("e-1", "e-2"):
            event = eventbridge_event({"id": 1}, event_id=id_) | {"replay-name": "none"}
            each(event, lambda_context())
        assert [type(event) for event in ran] == [model]
    handler(eventbridge_event({"id": 2}) | {"replay-name": "none"}, lambda_context())
    assert len(ran) == 2


def test_a_parsed_resource_counts_as_a_raw_one(once: Once) -> None:
    """A custom resource of CloudFormation is known by stack and request."""
    ran: list[Any] = []
    work: Any = once.event(name="a")(lambda event, _context: ran.append(event))
    handler: Any = event_parser(model=CloudFormationCustomResourceCreateModel)(work)
    event = KEYED["cloudformation"]
    for each in (event, event | {"ResponseURL": "https://example.com/other"}):
        handler(each, lambda_context())
    assert len(ran) == 1


@pytest.mark.parametrize("keys", [("a.txt",), ("a.txt", "b.txt")])
@pytest.mark.parametrize("form", ["data class", "model"])
def test_each_record_of_s3_comes_in_the_form_of_its_event(once: Once, keys: Any, form: str) -> None:
    """event_source and event_parser above once.event: the function gets what they made."""
    seen: list[Any] = []

    def handler(event: Any, context: Any) -> None:
        assert isinstance(event, S3Event if form == "data class" else S3Model)
        found: Any = event
        seen.append(found.object_key if form == "data class" else found.Records[0].s3.object.key)

    outer: Any = event_source(data_class=S3Event) if form == "data class" else event_parser(model=S3Model)
    work: Any = outer(once.event(name="work")(handler))
    event = s3_event(*keys)
    for record in event["Records"]:
        record["responseElements"]["x-amz-id-2"] = "2"
    work(event, lambda_context())
    work(event, lambda_context())
    assert seen == [*keys]


@pytest.mark.parametrize("data_class", [SQSEvent, SNSEvent])
def test_event_source_above_a_decorator_of_records(once: Once, data_class: Any) -> None:
    """The data class of a batch is read like the batch."""
    ran: list[Any] = []
    name, event = ("sqs", sqs_event({"id": 1})) if data_class is SQSEvent else ("sns", sns_event({"id": 1}))
    handler: Any = event_source(data_class=data_class)(getattr(once, name)(name="a")(ran.append))
    handler(event, lambda_context())
    handler(event, lambda_context())
    assert len(ran) == 1


# -- messages that differ in what the sender wrote


def of_a_topic(kind: str) -> Event:
    """An event of SNS whose record has the attribute eventType."""
    event = sns_event({"id": 1})
    event["Records"][0]["Sns"]["MessageAttributes"] = {"eventType": {"Type": "String", "Value": kind}}
    return event


@pytest.mark.parametrize(
    ("source", "of"),
    [("sqs", lambda kind: with_attribute(sqs_event({"id": 1}), kind)), ("sns", of_a_topic)],
    ids=["sqs", "sns"],
)
def test_created_and_deleted_are_two_messages(once: Once, source: str, of: Any) -> None:
    """Without key= both run; with it the second is refused, never deleted in silence."""
    ran: list[Any] = []
    decorate = getattr(once, source)
    deliver(decorate(name="a")(ran.append), of("created"), of("deleted"))
    assert len(ran) == 2
    keyed = decorate(name="b", key="id")(ran.append)
    deliver(keyed, of("created"))
    assert "@attributes.eventType" in str(refusal(keyed, of("deleted")))
    assert len(ran) == 3


def test_content_based_ids_are_of_the_body_alone(once: Once) -> None:
    """A FIFO message that is sent again after five minutes, with new attributes, is compared: KeyReused."""
    ran: list[Any] = []
    first, second = (with_attribute(sqs_event({"id": 1}, fifo_groups="g"), kind) for kind in "ab")
    handler = once.sqs(name="a")(ran.append)
    deliver(handler, first)
    assert isinstance(refusal(handler, second), KeyReused)
    deliver(once.sqs(name="b", ignore=("@attributes",))(ran.append), first, second)
    assert len(ran) == 2


# -- S3 through EventBridge


def created(id_: str, detail_type: str = "Object Created", **thing: str) -> Event:
    """An event of S3 through EventBridge; *thing* are fields of the object."""
    detail = {
        "version": "0",
        "bucket": {"name": "b"},
        "object": {"key": "a.csv", "size": 5, "etag": "e", **thing},
        "request-id": id_,
        "requester": "123456789012",
        "source-ip-address": "203.0.113.17",
        "reason": "PutObject",
    }
    return eventbridge_event(detail, detail_type, "aws.s3", event_id=id_) | {"replay-name": "none"}


SEQUENCER = "00617F08299329D189"


@pytest.mark.parametrize("door", ["event", "model", "function", "sqs"])
def test_one_write_of_an_object_is_one_work(once: Once, door: str) -> None:
    """S3's own duplicate has another id; the next write another sequencer; an event without one its id."""
    ran: list[int] = []

    def written(_subject: Any, context: Any = None) -> None:
        ran.append(1)

    doors: dict[str, Any] = {
        "event": once.event(name="a"),
        "model": lambda f: event_parser(model=S3EventNotificationEventBridgeModel)(once.event(name="b")(f)),
        "function": once.function(name="c"),
        "sqs": once.sqs(name="d"),
    }
    work = doors[door](written)

    def send(event: Event) -> None:
        work(sqs_event(event) if door == "sqs" else event, lambda_context())

    for id_ in ("e-1", "e-2"):
        send(created(id_, sequencer=SEQUENCER))
    assert len(ran) == 1
    send(created("e-3", sequencer="00617F08299329D18A"))
    send(created("e-4", "Object Deleted", sequencer=SEQUENCER))
    send(created("e-5", sequencer=SEQUENCER, **{"version-id": "2"}))
    assert len(ran) == 4
    for id_ in ("e-6", "e-7", "e-7"):
        send(created(id_, "Object Restore Completed"))
    assert len(ran) == 6


def test_records_and_events_in_args_count_as_arguments(once: Once) -> None:
    """A function whose parameters a wrapper hides behind ``*args`` gets them there."""
    ran: list[object] = []

    @once.function(name="work")
    def work(*args: object) -> None:
        ran.append(args)

    sent, put = sqs_event({"id": 5}), eventbridge_event({"id": 5}, event_id="i-1")
    first = sent["Records"][0]
    for record in (
        first,
        redelivered(sent)["Records"][0],
        SQSRecord(first),
        SqsRecordModel.model_validate(first),
    ):
        work(record, put)
    work(first, put | {"id": "i-2", "time": "2026-11-20T11:00:00Z"})
    assert len(ran) == 1

    work(put, first)
    work(sqs_event({"id": 6})["Records"][0], put)
    work(sqs_event({"id": 5}, queue="other")["Records"][0], put)
    work(sqs_event({"id": 5}, attributes={"type": "cancelled"})["Records"][0], put)
    assert len(ran) == 5


def test_a_batch_in_args_is_refused_as_elsewhere(once: Once) -> None:
    """Each delivery groups records in another way; one record by itself is no batch."""
    records = sqs_event({"id": 5}, {"id": 6})["Records"]

    def count(*args: object) -> int:
        return len(args)

    with pytest.raises(Misconfigured, match="a list of records"):
        once.run("count", 5, count, records)
    assert once.run("count", 5, count, *records) == 2
    with pytest.raises(KeyReused, match="different: args"):
        once.run("count", 5, count, *reversed(records))
