"""
Every event there is, each leaf changed alone: what belongs to one delivery is in no token.

The events are those of events/ and one of each builder of `lambda_once.testing`, also as EventBridge Pipes
sends them. For each source a table has the fields that identify the work; all others are volatile.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.event_bridge_event import EventBridgeEvent
from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage
from aws_lambda_powertools.utilities.data_classes.s3_event import S3EventRecord
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser.models import (
    DynamoDBStreamRecordModel,
    KafkaRecordModel,
    KinesisDataStreamRecord,
    S3RecordModel,
    SnsRecordModel,
    SqsRecordModel,
)
from pydantic import ValidationError

from lambda_once import MemoryStore, Misconfigured, Once, OnceError
from lambda_once.sources.source import Source, source_of, source_of_record
from lambda_once.testing import (
    activemq_event,
    alb_event,
    api_event,
    dynamodb_stream_event,
    eventbridge_event,
    function_url_event,
    kafka_event,
    kinesis_event,
    lambda_context,
    pipes_event,
    rabbitmq_event,
    rest_api_event,
    s3_event,
    sns_event,
    sqs_event,
)
from lambda_once_tools.explain.explanation import explain, identifier_of
from tests.decorators.sources_table import SOURCES
from tests.kit.recorded import FILES

Way = tuple[str | int, ...]

ORDER = {"orderId": 5}
HEADERS = {"Idempotency-Key": "5f2b", "User-Agent": "shop/1", "X-Amzn-Trace-Id": "Root=1-5"}
BATCHES: dict[str, Any] = {
    **{f"{row.name}, of its row": row.build(ORDER) for row in SOURCES},
    "sqs": sqs_event(ORDER, {"orderId": 6}, attributes={"tenant": "acme"}),
    "sqs fifo": sqs_event(ORDER, fifo_groups="5"),
    "kinesis": kinesis_event(ORDER),
    "dynamodb streams": dynamodb_stream_event(({"id": "5", "total": 10}, {"id": "5", "total": 12})),
    "kafka": kafka_event(ORDER, headers={"tenant": "acme"}),
    "self-managed kafka": kafka_event(ORDER, None, bootstrap_servers="b-1:9092,b-2:9092"),
    "activemq": activemq_event(ORDER, redelivered=True),
    "rabbitmq": rabbitmq_event(ORDER),
    "rabbitmq with ids": rabbitmq_event(ORDER, message_ids=["5"]),
}
EVENTS: dict[str, Any] = {
    **{path.name: json.loads(path.read_text(encoding="utf-8")) for path in FILES.values()},
    **BATCHES,
    **{
        f"pipes of {name}": pipes_event(event) for name, event in BATCHES.items() if source_of(event).is_piped
    },
    "sns": sns_event(ORDER),
    "s3": s3_event("orders/5.pdf", version_id="1"),
    "eventbridge": eventbridge_event(ORDER),
    "api": api_event("POST", "/orders", ORDER, HEADERS, query={"a": "1"}),
    "api 1.0": rest_api_event("POST", "/orders", ORDER, HEADERS, query={"a": "1"}),
    "api without key": api_event("POST", "/orders", ORDER),
    "function url": function_url_event("POST", "/orders", ORDER, HEADERS),
    "alb": alb_event("POST", "/orders", ORDER, HEADERS),
    "alb, multi-value": alb_event("POST", "/orders", ORDER, HEADERS, multi_value=True),
}

_OF_SQS = r"messageAttributes\.\w+\.(dataType|stringValue)"
_OF_SNS = r"Sns\.MessageAttributes\.\w+\.(Type|Value)"
_FIELD = r"(Records\.)?\d+\."
_EVENTBRIDGE = r"(account|detail-type|source|resources(\.\d+)?|detail(\..*)?)"
_S3 = r"Records\.\d+\.(eventSource|eventName|s3\.bucket\.name|s3\.object\.(key|versionId|sequencer))"
COUNTS: dict[Source, str] = {
    Source.SQS: _FIELD
    + rf"(eventSource|eventSourceARN|body(\..*)?|attributes\.Message(Group|Deduplication)Id|{_OF_SQS})",
    Source.SNS: _FIELD + rf"(EventSource|Sns\.TopicArn|Sns\.Message(\..*)?|{_OF_SNS})",
    Source.S3: _S3,
    Source.EVENTBRIDGE: _EVENTBRIDGE,
    Source.HTTP: (
        r"httpMethod|requestContext\.http\.method|path|rawPath|rawQueryString|body(\..*)?"
        r"|multiValueQueryStringParameters\..*|isBase64Encoded|headers\.idempotency-key(\.0)?"
        r"|multiValueHeaders\.[iI]dempotency-[kK]ey\.0"
        r"|requestContext\.(authorizer\.principalId|identity\.apiKeyId)"
    ),
    Source.KINESIS: _FIELD + r"(eventSource|eventID|eventSourceARN|(kinesis\.)?data)",
    Source.DYNAMODB: _FIELD
    + r"(eventSource|eventID|eventSourceARN|eventName|dynamodb\.(Keys|NewImage|OldImage)\..*)",
    Source.KAFKA: (
        r"(\d+\.)?eventSource"
        r"|(records\.orders-0\.)?\d+\.(topic|partition|offset|timestamp|value|headers\..+)"
    ),
    Source.MQ: (
        r"(\d+\.)?(eventSource|eventSourceArn)|\d+\.eventSourceKey"
        r"|((messages|rmqMessagesByQueue\..*)\.)?\d+\."
        r"(messageID|basicProperties\.(messageId|type|contentType|contentEncoding|headers.*)|data"
        r"|destination\.physicalName|type|properties.*)"
    ),
    Source.DIRECT: r".*",
}
"""The leaves of an event, by name, that are in a token or a fingerprint by default."""


def test_every_source_has_events_and_a_table() -> None:
    """One that is added is tested like the others, under its decorator and as an argument of a function."""
    handled = {source for source in Source if source.decorator is not None}
    assert set(COUNTS) == handled == {source_of(event) for event in EVENTS.values()}
    read = {source_of_record(record, is_data_class=True) for _, _, record, _ in _OF_FUNCTION.values()}
    assert read >= {source for source in Source if source.fields}


_BODY = r"Records\.\d+\.(eventSource|body\.{})"
OTHERWISE: dict[str, str] = {
    "sqs-sns-envelope.json": _BODY.format(r"(Type|TopicArn|Message\..*)") + r"|Records\.\d+\.eventSourceARN",
    "sqs-eventbridge-envelope.json": _BODY.format(_EVENTBRIDGE),
    "sqs-s3-notification.json": _BODY.format(_S3),
    "http-api-get-order.json": r"requestContext\.http\.method",
    **dict.fromkeys(
        ["eventbridge-schedule.json", "eventbridge-schedule-next.json", "watchdog.json"],
        rf"id|{_EVENTBRIDGE}",
    ),
}
"""Those of events with an envelope, without protection, or that are identified in another way."""


def _handler(event: Any, seen: list[object]) -> Any:
    """A function under the decorator for *event*, which collects what it gets."""

    def work(given: object) -> dict[str, int]:
        seen.append(given)
        return {"statusCode": 200}

    decorator = source_of(event).decorator
    assert decorator is not None
    once = Once(store=MemoryStore(), service="shop")
    return getattr(once, decorator.removeprefix("once."))(work)


def _opened(value: object) -> object:
    """*value*, or the object that its text is the JSON of, as in the body of a message."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(json.JSONDecodeError):
            return json.loads(value)
    return value


def _leaves(value: object, way: Way = ()) -> Iterator[Way]:
    """Yield the way to every leaf of *value*."""
    value = _opened(value)
    if isinstance(value, dict | list) and value:
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, (*way, name))
    else:
        yield way


def _changed(value: Any, way: Way) -> Any:
    """*value* with another leaf at *way*."""
    if not way:
        match value:
            case bool():
                return not value
            case int() | float():
                return value + 1
            case str() if value.startswith("arn:"):  # of another account: regions and labels don't count
                return value.replace(":1", ":2")
            case str():
                return f"1{value}"
            case _:
                return "1"
    opened: Any = _opened(value)
    found = copy.copy(opened)
    found[way[0]] = _changed(opened[way[0]], way[1:])
    return found if opened is value else json.dumps(found)


def _identities(handler: Any, event: Any) -> list[tuple[str | None, ...]]:
    """What tells the units of *event* from others: token and fingerprint of each; [] if it is refused."""
    protected = identifier_of(handler)
    assert protected is not None
    try:
        return [
            (each.token, each.identity.fingerprint, each.unprotected) for each in explain(protected, event)
        ]
    except Misconfigured:
        return []


@pytest.mark.parametrize("name", EVENTS)
def test_a_leaf_is_in_the_token_only_if_it_identifies_the_work(name: str) -> None:
    """Each leaf in the table of its source makes another token or fingerprint, and no other leaf does."""
    event = EVENTS[name]
    handler = _handler(event, [])
    before = _identities(handler, event)
    table = re.compile(OTHERWISE.get(name) or COUNTS[source_of(event)])
    for way in _leaves(event):
        named = ".".join(map(str, way))
        is_other = _identities(handler, _changed(event, way)) != before
        assert is_other == bool(table.fullmatch(named)), named


FIFO = BATCHES["sqs fifo"]["Records"][0]
_OF_FUNCTION: dict[str, tuple[Any, Any, Any, str]] = {
    "sqs": (
        *(SQSRecord, SqsRecordModel, BATCHES["sqs"]["Records"][0]),
        rf"eventSource|eventSourceARN|body(\..*)?|{_OF_SQS}",
    ),
    "sqs fifo": (
        *(
            SQSRecord,
            SqsRecordModel,
            FIFO | {"messageAttributes": {"a": {"dataType": "String", "stringValue": "b"}}},
        ),
        rf"eventSource|eventSourceARN|body(\..*)?|attributes\.Message(Group|Deduplication)Id|{_OF_SQS}",
    ),
    "sns": (
        *(SNSEventRecord, SnsRecordModel, EVENTS["sns-notice.json"]["Records"][0]),
        rf"EventSource|Sns\.TopicArn|Sns\.Message(\..*)?|{_OF_SNS}",
    ),
    "kinesis": (
        *(KinesisStreamRecord, KinesisDataStreamRecord, BATCHES["kinesis"]["Records"][0]),
        r"eventSource|eventID|eventSourceARN|kinesis\.data",
    ),
    "dynamodb streams": (
        *(DynamoDBRecord, DynamoDBStreamRecordModel, BATCHES["dynamodb streams"]["Records"][0]),
        r"eventSource|eventID|eventSourceARN|eventName|dynamodb\.(Keys|NewImage|OldImage)\..*",
    ),
    "kafka": (
        *(KafkaEventRecord, KafkaRecordModel, pipes_event(BATCHES["kafka"])[0]),  # which has eventSource
        r"topic|partition|offset|timestamp|value|headers\..+",
    ),
    "activemq": (
        *(ActiveMQMessage, None, BATCHES["activemq"]["messages"][0]),
        r"messageID|data|type|properties.*|destination\.physicalName",
    ),
    "rabbitmq": (
        *(RabbitMessage, None, next(iter(BATCHES["rabbitmq with ids"]["rmqMessagesByQueue"].values()))[0]),
        r"basicProperties\.(messageId|type|contentType|contentEncoding|headers.*)|data",
    ),
    "s3": (
        S3EventRecord,
        S3RecordModel,
        EVENTS["s3-put.json"]["Records"][0],
        _S3.removeprefix(r"Records\.\d+\."),
    ),
    "eventbridge": (EventBridgeEvent, None, EVENTS["eventbridge"], _EVENTBRIDGE),
}


@pytest.mark.parametrize("form", ["data class", "dict", "model"])
@pytest.mark.parametrize("name", _OF_FUNCTION)
def test_a_leaf_of_a_record_counts_in_a_function_only_if_it_identifies_the_work(name: str, form: str) -> None:
    """A record that is the argument of `once.function` is another call by the fields of its table only."""
    data_class, model, record, counts = _OF_FUNCTION[name]
    if form == "model" and model is None:
        return
    given = {"data class": data_class, "dict": dict, "model": model and model.model_validate}[form]
    work = Once(store=MemoryStore(), service="shop").function(name="work")(lambda record: record)
    before = _identities(work, {"args": [given(copy.deepcopy(record))]})
    assert before[0][0] is not None
    for way in _leaves(record):
        named = ".".join(map(str, way))
        with suppress(ValidationError, TypeError):  # of Powertools, for headers that are no numbers
            is_other = _identities(work, {"args": [given(_changed(record, way))]}) != before
            assert is_other == bool(re.fullmatch(counts, named)), named


@pytest.mark.parametrize("name", _OF_FUNCTION)
def test_a_record_is_one_call_in_every_form(name: str) -> None:
    """A function that gets a data class, or a parser's model, from now on knows what was done before."""
    data_class, model, record, _ = _OF_FUNCTION[name]
    work = Once(store=MemoryStore(), service="shop").function(name="work")(lambda record: record)
    forms = [dict, data_class, *([] if model is None else [model.model_validate])]
    tokens = {_identities(work, {"args": [form(copy.deepcopy(record))]})[0][0] for form in forms}
    assert len(tokens) == 1


@pytest.mark.parametrize("name", sorted(EVENTS.keys() - {"http-api-get-order.json"}))
def test_an_event_that_comes_again_does_nothing(name: str) -> None:
    """Neither a redelivery nor a retry of Lambda's own, which has the same request id."""
    event = EVENTS[name]
    seen: list[object] = []
    handler = _handler(event, seen)
    for request_id in ("1", "1", "2"):
        with suppress(OnceError, BatchProcessingError):  # of the bad records that some have
            handler(copy.deepcopy(event), lambda_context("orders", request_id))
    tokens = {token for token, _, _ in _identities(handler, event) if token is not None}
    assert len(seen) == len(tokens) > 0
