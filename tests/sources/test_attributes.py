"""What senders write beside a payload counts, in one form at every door; what is stamped anew doesn't."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from lambda_once.core.identity import is_secret
from lambda_once.core.unit import Unit
from lambda_once.sources.attributes import (
    LEFT_OUT,
    Row,
    counted,
    counted_amqp,
    counted_context,
    counted_jms,
    counted_kafka,
    is_dead_letter,
)
from lambda_once.sources.records import RecordSource
from lambda_once.sources.sns import SNS
from lambda_once.sources.sqs import SQS
from tests.sources import samples

Attributes = dict[str, tuple[str, str]]

SENT: Attributes = {
    "eventType": ("String", "created"),
    "version": ("Number", "3"),
    "mark": ("Binary", "AQI="),
}

STAMPED: dict[str, tuple[Attributes, Attributes]] = {
    "Spring Cloud AWS": (
        {
            "id": ("String", "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"),
            "timestamp": ("Number.java.lang.Long", "1763633520000"),
            "contentType": ("String", "application/json"),
        },
        {
            "id": ("String", "0a0e4f47-2f46-1e0c-9a5c-4e4d1b4f6a11"),
            "timestamp": ("Number.java.lang.Long", "1763633999000"),
            "contentType": ("String", "application/json"),
        },
    ),
    "OpenTelemetry": (
        {"traceparent": ("String", "00-0af7-b7ad-01"), "tracestate": ("String", "a=1")},
        {"traceparent": ("String", "00-1bf7-c7ad-01"), "baggage": ("String", "tenant=5")},
    ),
    "Datadog": (
        {"_datadog": ("Binary", "eyJ4IjoxfQ==")},
        {"_datadog": ("String", '{"x-datadog-trace-id":"2"}'), "x-datadog-parent-id": ("String", "7")},
    ),
    "Sentry": ({"sentry-trace": ("String", "1-1")}, {"sentry-trace": ("String", "2-2")}),
    "Zipkin": (
        {"X-B3-TraceId": ("String", "1"), "X-B3-Sampled": ("String", "1")},
        {"b3": ("String", "2-2-1")},
    ),
    "New Relic": ({"newrelic": ("String", "eyJ2IjpbMCwxXX0=")}, {}),
    "Elastic": (
        {"elastic-apm-traceparent": ("String", "00-1")},
        {"Elastic-Apm-Traceparent": ("String", "00-2")},
    ),
    "Jaeger": ({"uber-trace-id": ("String", "1:1:0:1")}, {"uberctx-tenant": ("String", "5")}),
    "OpenTracing": ({"ot-tracer-traceid": ("String", "1")}, {"ot-baggage-tenant": ("String", "5")}),
    "Instana": (
        {"X_INSTANA_T": ("String", "1"), "X_INSTANA_S": ("String", "1")},
        {"x-instana-t": ("String", "2")},
    ),
    "SkyWalking": (
        {"sw8": ("String", "1-a")},
        {"sw8-correlation": ("String", "b"), "sw8-x": ("String", "0")},
    ),
    "Google": ({"X-Cloud-Trace-Context": ("String", "1/2;o=1")}, {}),
    "X-Ray": ({"X-Amzn-Trace-Id": ("String", "Root=1-5")}, {"x-amzn-trace-id": ("String", "Root=1-6")}),
    "ids of correlation": (
        {
            "correlationId": ("String", "a"),
            "x-correlation-id": ("String", "b"),
            "X-Request-Id": ("String", "c"),
        },
        {"CorrelationID": ("String", "d"), "requestId": ("String", "e"), "x-amzn-requestid": ("String", "f")},
    ),
    "extended client": (
        {"ExtendedPayloadSize": ("Number", "300000")},
        {"SQSLargePayloadSize": ("Number", "300001")},
    ),
    "dead letter of Lambda": (
        {
            "RequestID": ("String", "8d0f4f0a"),
            "ErrorCode": ("Number", "200"),
            "ErrorMessage": ("String", "timed out"),
        },
        {"RequestID": ("String", "9e1f4f0a"), "ErrorCode": ("Number", "200")},
    ),
    "dead letter of EventBridge": (
        {
            "TARGET_ARN": ("String", "arn:aws:lambda:eu-central-1:123456789012:function:orders"),
            "ERROR_CODE": ("String", "SDK_CLIENT_ERROR"),
            "ERROR_MESSAGE": ("String", "slow"),
            "RETRY_ATTEMPTS": ("Number", "5"),
        },
        {
            "TARGET_ARN": ("String", "arn:aws:lambda:eu-central-1:123456789012:function:orders"),
            "ERROR_CODE": ("String", "NO_PERMISSIONS"),
            "EXHAUSTED_RETRY_CONDITION": ("String", "MaximumRetryAttempts"),
        },
    ),
}
"""Two sends of one message by real senders, as far as their stamps differ."""

OWN: dict[str, tuple[Attributes, Attributes]] = {
    "eventType": ({"eventType": ("String", "created")}, {"eventType": ("String", "deleted")}),
    "present or not": ({"eventType": ("String", "created")}, {}),
    "the type": ({"n": ("String", "5")}, {"n": ("Number", "5")}),
    "the case of a name": ({"kind": ("String", "a")}, {"Kind": ("String", "a")}),
    "binary": ({"mark": ("Binary", "AQI=")}, {"mark": ("Binary", "AQM=")}),
    "an id alone": ({"id": ("String", "o-1")}, {"id": ("String", "o-2")}),
    "an id beside a time": (
        {"id": ("String", "o-1"), "timestamp": ("Number", "1")},
        {"id": ("String", "o-2"), "timestamp": ("Number", "1")},
    ),
    "a time": ({"timestamp": ("String", "2026-11-20")}, {"timestamp": ("String", "2026-11-21")}),
    "an error that is reported": ({"ErrorCode": ("Number", "404")}, {"ErrorCode": ("Number", "500")}),
    "an error beside a target": ({"ERROR_CODE": ("String", "A")}, {"ERROR_CODE": ("String", "B")}),
    "a name that is like a tracer's": ({"traceparents": ("String", "a")}, {"traceparents": ("String", "b")}),
    "a request": ({"request": ("String", "a")}, {"request": ("String", "b")}),
}
"""Two messages of one body that a sender told apart."""


def _of_sqs(attributes: Attributes) -> dict[str, Any]:
    return {
        name: {
            ("binaryValue" if kind == "Binary" else "stringValue"): text,
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": kind,
        }
        for name, (kind, text) in attributes.items()
    }


def _of_sns(attributes: Attributes) -> dict[str, Any]:
    return {name: {"Type": kind, "Value": text} for name, (kind, text) in attributes.items()}


def _unit(source: RecordSource, record: Any) -> Unit:
    found = source.unit(record)
    assert found.what.content.flaw is None
    return found


def through(door: str, attributes: Attributes, body: str = '{"id": 1}') -> Unit:
    """The unit of a message with *attributes* that came through *door*."""
    match door:
        case "sns":
            event = samples.sns_event(body)
            event["Records"][0]["Sns"]["MessageAttributes"] = _of_sns(attributes)
            return _unit(SNS, event["Records"][0])
        case "sqs":  # raw delivery of SNS is the same
            return _unit(SQS, samples.sqs_record(body, messageAttributes=_of_sqs(attributes)))
        case "sns in sqs":
            text = json.dumps(samples.notification(body) | {"MessageAttributes": _of_sns(attributes)})
            return _unit(SQS, samples.sqs_record(text, messageAttributes={}))
        case _:
            text = json.dumps(samples.notification(body) | {"MessageAttributes": _of_sns(attributes)})
            twice = json.dumps(samples.notification(text))
            return _unit(SQS, samples.sqs_record(twice, messageAttributes={}))


DOORS = ("sqs", "sns", "sns in sqs", "sns in sns in sqs")


@pytest.mark.parametrize("door", DOORS)
def test_a_message_has_one_form_at_every_door(door: str) -> None:
    """Name, type and value, whether SQS, SNS or SNS through SQS delivers it."""
    assert dict(through(door, SENT).what.attributes) == {name: [*pair] for name, pair in SENT.items()}
    assert dict(through(door, {}).what.attributes) == {}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("sender", STAMPED)
def test_what_a_sender_stamps_anew_does_not_count(sender: str, door: str) -> None:
    """Two sends of one message are one work, and what the sender wrote beside the stamps still counts."""
    first, second = STAMPED[sender]
    assert through(door, first).what.attributes == through(door, second).what.attributes
    written = through(door, SENT | first).what.attributes
    assert written == through(door, SENT | second).what.attributes
    assert SENT.keys() <= written.keys()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", OWN)
def test_what_a_sender_wrote_counts(case: str, door: str) -> None:
    """Names that are only like those in the tables are the sender's own."""
    first, second = OWN[case]
    assert through(door, first).what.attributes != through(door, second).what.attributes


def test_attributes_beside_an_envelope_count_with_those_in_it() -> None:
    """Who sends a notification on may write attributes of their own; of one name the inner counts."""
    text = json.dumps(samples.notification("x") | {"MessageAttributes": _of_sns({"a": ("String", "inner")})})
    outer = _of_sqs({"a": ("String", "outer"), "b": ("String", "outer")})
    found = _unit(SQS, samples.sqs_record(text, messageAttributes=outer))
    assert dict(found.what.attributes) == {"a": ["String", "inner"], "b": ["String", "outer"]}


@pytest.mark.parametrize("attributes", [None, [], "x", 5, {}])
def test_what_is_no_mapping_has_no_attributes(attributes: object) -> None:
    """A record that a test or a pipe made may lack them."""
    assert counted(attributes) == {}


def test_an_attribute_of_another_form_counts_as_it_is() -> None:
    """A value that is not as SQS or SNS writes it is not lost."""
    assert counted({"a": 5, "b": {"dataType": "String"}}) == {"a": 5, "b": {"dataType": "String"}}


# ---------------------------------------------------------------- brokers


def _octets(text: str) -> list[int]:
    """*text* as Java writes its bytes, which are signed."""
    return [octet - 256 if octet > 127 else octet for octet in text.encode()]


def _of_amqp(headers: dict[str, Any]) -> dict[str, Any]:
    return {
        "contentType": "application/json",
        "contentEncoding": None,
        "headers": {
            name: {"bytes": _octets(value)} if isinstance(value, str) else value
            for name, value in headers.items()
        },
        "deliveryMode": 2,
        "priority": None,
        "correlationId": None,
        "replyTo": None,
        "expiration": "60000",
        "messageId": None,
        "timestamp": "Nov 20, 2026, 10:12:00 AM",
        "type": None,
        "userId": None,
        "appId": None,
        "clusterId": None,
        "bodySize": 14,
    }


def _headers(headers: dict[str, Any]) -> dict[str, object]:
    """What counts of *headers* of RabbitMQ."""
    found = counted_amqp(_of_amqp(headers))
    assert found.pop("contentType") == "application/json"
    return found


def _pairs(headers: dict[str, str]) -> dict[str, object]:
    """What counts of *headers* of Kafka, whose names are different."""
    pairs = counted_kafka([{name: _octets(text)} for name, text in headers.items()])
    return {str(name): value for name, value in pairs}


def _properties(properties: dict[str, str]) -> dict[str, object]:
    return counted_jms({"messageID": "ID:1", "type": None, "properties": properties})


def _texts(attributes: dict[str, str]) -> dict[str, object]:
    """What counts of *attributes* of SQS, all of them strings."""
    found = counted(_of_sqs({name: ("String", text) for name, text in attributes.items()}))
    return {name: form[1] for name, form in found.items() if isinstance(form, list)}


CARRIERS: dict[str, Callable[[dict[str, Any]], dict[str, object]]] = {
    "SQS": _texts,
    "RabbitMQ": _headers,
    "ActiveMQ": _properties,
    "Kafka": _pairs,
    "client context": counted_context,
}
BY_NAME: Final = [row for row in LEFT_OUT if row.holds is None]
"""Rows that no value tells."""


def _id(row: Row) -> str:
    return f"{row.stamped_by}: {row.names.split()[0]}"


@pytest.mark.parametrize("row", BY_NAME, ids=_id)
def test_the_table_holds_for_every_broker_in_any_case_of_letters(row: Row) -> None:
    """What is in it doesn't count; what is too common a name counts outside RabbitMQ."""
    for spelled in (str, str.upper, str.lower):
        names = [spelled(name.replace("*", "x")) for name in row.names.split()]
        message = {"tenant": "acme", **dict.fromkeys([*names, *map(spelled, row.beside)], "1")}
        for carrier, count in CARRIERS.items():
            counts = count(message).keys()
            assert "tenant" in counts
            if row.rabbitmq and carrier != "RabbitMQ":
                assert counts == message.keys()
            else:
                assert counts.isdisjoint(names)


@pytest.mark.parametrize("row", [row for row in BY_NAME if row.beside], ids=_id)
def test_common_names_are_the_sender_s_own_without_the_mark(row: Row) -> None:
    """Celery's `id` is one beside `task`, `lang` and `root_id` alone."""
    names = {name for name in row.names.split() if name not in row.beside}
    assert counted_context(dict.fromkeys(names, "1")).keys() == names


def test_a_task_in_a_language_is_not_celery_s() -> None:
    """Its `id` may be all that tells two messages of one body apart, and its `origin` where they're from."""
    own = {name: {"dataType": "String", "stringValue": "1"} for name in ("task", "lang", "id", "origin")}
    assert counted(own).keys() == own.keys()
    assert counted_amqp({"headers": dict.fromkeys(own, 1)}).keys() == own.keys()


def test_a_row_that_another_name_tells_has_whole_names_only() -> None:
    """The look-up of such rows knows no beginnings."""
    assert [row for row in LEFT_OUT if row.beside and "*" in row.names] == []


class Sends(NamedTuple):
    """Two sends or deliveries of one message by a real sender, and what counts of both."""

    carrier: str
    first: dict[str, Any]
    second: dict[str, Any]
    counts: dict[str, Any]


SENDS: dict[str, Sends] = {
    "RabbitMQ's dead letter, redelivered": Sends(
        "RabbitMQ",
        {"event-type": "created", "CC": [{"bytes": _octets("audit")}]},
        {
            "event-type": "created",
            "x-death": [
                {
                    "reason": {"bytes": _octets("rejected")},
                    "count": 2,
                    "exchange": {"bytes": []},
                    "time": "Nov 20, 2026, 10:12:00 AM",
                    "routing-keys": [{"bytes": _octets("orders")}],
                    "queue": {"bytes": _octets("orders")},
                }
            ],
            "x-first-death-exchange": "",
            "x-first-death-queue": "orders",
            "x-first-death-reason": "rejected",
            "x-last-death-queue": "orders",
            "x-delivery-count": 3,
            "timestamp_in_ms": 1763633520000,
        },
        {"event-type": "created"},
    ),
    "Spring AMQP": Sends(
        "RabbitMQ",
        {
            "id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f",
            "timestamp": 1763633520000,
            "__TypeId__": "shop.Order",
        },
        {
            "id": "0a0e4f47-2f46-1e0c-9a5c-4e4d1b4f6a11",
            "timestamp": 1763633999000,
            "__TypeId__": "shop.Order",
        },
        {"__TypeId__": "shop.Order"},
    ),
    "Spring Kafka": Sends(
        "Kafka",
        {
            "id": '"5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"',
            "timestamp": "1763633520000",
            "spring_json_header_types": '{"id":"java.util.UUID","timestamp":"java.lang.Long"}',
        },
        {
            "id": '"0a0e4f47-2f46-1e0c-9a5c-4e4d1b4f6a11"',
            "timestamp": "1763633999000",
            "spring_json_header_types": '{"id":"java.util.UUID","timestamp":"java.lang.Long"}',
        },
        {"spring_json_header_types": '{"id":"java.util.UUID","timestamp":"java.lang.Long"}'},
    ),
    "Celery": Sends(
        "RabbitMQ",
        {
            "lang": "py",
            "task": "shop.pay",
            "id": "a",
            "root_id": "a",
            "parent_id": None,
            "group": None,
            "retries": 0,
            "eta": None,
            "expires": None,
            "timelimit": [None, None],
            "origin": "gen7@worker-1",
            "argsrepr": "(5,)",
        },
        {
            "lang": "py",
            "task": "shop.pay",
            "id": "b",
            "root_id": "b",
            "parent_id": "a",
            "group": "g",
            "retries": 1,
            "eta": "2026-11-20T10:12:00+00:00",
            "expires": "2026-11-20T10:19:00+00:00",
            "timelimit": [30, None],
            "origin": "gen9@worker-2",
            "argsrepr": "(5,)",
        },
        {"lang": "py", "task": "shop.pay", "argsrepr": "(5,)"},
    ),
    "MassTransit, a raw message": Sends(
        "RabbitMQ",
        {
            "MessageId": "a",
            "ConversationId": "b",
            "MT-Activity-Id": "00-1-1-01",
            "MT-MessageType": "urn:message:Shop:OrderCreated",
            "MT-Host-Info": '{"processId":7}',
        },
        {
            "MessageId": "c",
            "ConversationId": "d",
            "MT-Redelivery-Count": 1,
            "MT-MessageType": "urn:message:Shop:OrderCreated",
            "MT-Host-Info": '{"processId":9}',
        },
        {"MT-MessageType": "urn:message:Shop:OrderCreated"},
    ),
    "NServiceBus": Sends(
        "RabbitMQ",
        {
            "NServiceBus.EnclosedMessageTypes": "Shop.OrderCreated",
            "NServiceBus.MessageId": "a",
            "NServiceBus.TimeSent": "2026-11-20 10:12:00:000000 Z",
            "$.diagnostics.originating.hostid": "1",
        },
        {
            "NServiceBus.EnclosedMessageTypes": "Shop.OrderCreated",
            "NServiceBus.MessageId": "b",
            "NServiceBus.TimeSent": "2026-11-20 10:19:00:000000 Z",
            "NServiceBus.Retries": "1",
            "NServiceBus.ExceptionInfo.Message": "slow",
        },
        {"NServiceBus.EnclosedMessageTypes": "Shop.OrderCreated"},
    ),
    "ActiveMQ's dead letter": Sends(
        "ActiveMQ",
        {"eventType": "created", "scheduledJobId": "ID:1"},
        {"eventType": "created", "dlqDeliveryFailureCause": "expired", "originalExpiration": "1763633520000"},
        {"eventType": "created"},
    ),
    "AgentCore Gateway": Sends(
        "client context",
        {
            "bedrockAgentCoreToolName": "orders___pay",
            "bedrockAgentCoreMessageVersion": "1.0",
            "bedrockAgentCoreAwsRequestId": "a",
            "bedrockAgentCoreMcpMessageId": "1",
        },
        {
            "bedrockAgentCoreToolName": "orders___pay",
            "bedrockAgentCoreMessageVersion": "1.1",
            "bedrockAgentCoreAwsRequestId": "b",
            "bedrockAgentCoreMcpMessageId": "2",
        },
        {},
    ),
}


@pytest.mark.parametrize("sends", SENDS.values(), ids=SENDS)
def test_two_sends_by_a_real_sender_count_alike(sends: Sends) -> None:
    """A retry, a dead letter, another send: what says what the work is stays."""
    count = CARRIERS[sends.carrier]
    assert count(sends.first) == count(sends.second) == sends.counts


@pytest.mark.parametrize(
    ("carrier", "headers"),
    [
        ("RabbitMQ", {"id": "o-1", "timestamp": 1763633520000}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f", "timestamp": 5}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f", "timestamp": "2026-11-20"}),
        ("RabbitMQ", {"id": 5, "timestamp": 1763633520000}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"}),
        ("RabbitMQ", {"task": "pay", "id": "5", "eta": "2026-11-20", "origin": "shop"}),
        ("Kafka", {"id": "o-1", "timestamp": "1763633520000"}),
        ("Kafka", {"id": "o-1", "spring_json_header_types": '{"n":"java.lang.Long"}'}),
        ("client context", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f", "timestamp": 1763633520000}),
        ("SQS", {"MessageId": "m-1", "MT-MessageType": "urn:message:Shop:OrderCreated"}),
        ("ActiveMQ", {"JMSXGroupID": "5", "CC": "ann@example.com", "timestamp_in_ms": "5"}),
        ("SQS", {"x-original-id": "5", "x-exception": "5", "x-death-count": "5"}),
    ],
)
def test_names_of_a_sender_s_own_count_for_every_broker(carrier: str, headers: dict[str, Any]) -> None:
    """They're only like those that a library stamps."""
    assert CARRIERS[carrier](headers) == headers


def test_of_rabbitmq_s_properties_three_count() -> None:
    """The other properties are those of a send, a delivery or a reply."""
    message = _of_amqp({}) | {"type": "order.created", "contentEncoding": "gzip"}
    expected = {"type": "order.created", "contentType": "application/json", "contentEncoding": "gzip"}
    assert counted_amqp(message) == expected
    assert counted_amqp(dict.fromkeys(message, "1") | {"headers": None}) == dict.fromkeys(expected, "1")


def test_an_empty_property_is_none() -> None:
    """Lambda writes a missing type as null or as an empty text."""
    assert counted_amqp({"type": "", "contentType": None}) == {}
    assert counted_jms({"type": "", "properties": None}) == counted_jms({}) == {}


def test_headers_of_rabbitmq_are_text_where_they_were() -> None:
    """In lists and tables, too. Bytes that are no text are base64, all else is what it was."""
    headers = {
        "name": "Zoë",
        "count": 10,
        "is_new": True,
        "none": None,
        "list": [{"bytes": [97]}, 5, [{"bytes": [98]}]],
        "table": {"bytes": {"bytes": [99]}, "deep": {"traceparent": {"bytes": [100]}}},
        "raw": {"bytes": [-1, 0]},
    }
    assert _headers(headers) == {
        "name": "Zoë",
        "count": 10,
        "is_new": True,
        "none": None,
        "list": ["a", 5, ["b"]],
        "table": {"bytes": "c", "deep": {"traceparent": "d"}},
        "raw": {"base64": "/wA="},
    }


def test_a_header_that_is_named_like_a_property_counts_beside_it() -> None:
    """Neither hides the other."""
    message = {"type": "order.created", "headers": {"type": {"bytes": [97]}}}
    assert counted_amqp(message) == {"type": "order.created", "headers.type": "a"}
    message = {"type": "order.created", "properties": {"type": "a"}}
    assert counted_jms(message) == {"type": "order.created", "properties.type": "a"}


def test_tables_that_are_nested_deeply_count() -> None:
    """Beyond what any library nests their bytes stay bytes: nothing recurses without bound."""
    deep: Any = {"bytes": [97]}
    for _ in range(5_000):
        deep = {"in": deep}
    assert _headers({"deep": deep}).keys() == {"deep"}


def test_of_activemq_s_message_type_and_properties_count() -> None:
    """Times, ids, priority and original destination are of the delivery, or the origin."""
    message = {
        "messageID": "ID:1",
        "messageType": "jms/text-message",
        "timestamp": 1598827811958,
        "deliveryMode": 1,
        "correlationID": "a",
        "replyTo": "null",
        "destination": {"physicalName": "ActiveMQ.DLQ"},
        "originalDestination": {"physicalName": "orders"},
        "redelivered": False,
        "type": "order.created",
        "expiration": 0,
        "priority": 0,
        "data": "QUJDOkFBQUE=",
        "brokerInTime": 1598827811958,
        "brokerOutTime": 1598827811959,
        "properties": {"tenant": "acme", "traceparent": "00-1-1-01"},
    }
    assert counted_jms(message) == {"type": "order.created", "tenant": "acme"}


def test_headers_of_kafka_are_pairs_in_their_order() -> None:
    """A name may come twice, and values are bytes, signed or not, as a model made of them, or null."""
    headers = [
        {"ce_type": [*b"order.created"]},
        {"TraceParent": [*b"00-1-1-01"]},
        {"via": [97], "also": [98]},
        {"via": [90, 111, -61, -85]},
        {"via": b"Zo\xc3\xab"},
        {"raw": [255, 0]},
        {"raw": [-1, 0]},
        {"none": None},
        {"empty": []},
    ]
    assert counted_kafka(headers) == [
        ["ce_type", "order.created"],
        ["via", "a"],
        ["also", "b"],
        ["via", "Zoë"],
        ["via", "Zoë"],
        ["raw", {"base64": "/wA="}],
        ["raw", {"base64": "/wA="}],
        ["none", None],
        ["empty", ""],
    ]


@pytest.mark.parametrize("value", ["text", 5, [300], [-129], [-1, "a"], ["a"], [1.5], {"a": 1}])
def test_a_value_that_is_no_bytes_counts_as_it_is(value: object) -> None:
    """A record that a test or a pipe made may have other values."""
    assert counted_kafka([{"a": value}]) == [["a", value]]


@pytest.mark.parametrize("value", [None, [], "x", 5, {}])
def test_what_has_another_form_has_no_headers(value: object) -> None:
    """As with attributes."""
    assert counted_amqp(value) == counted_amqp({"headers": value}) == {}
    assert counted_jms(value) == counted_jms({"properties": value}) == {}
    assert counted_context(value) == {}
    assert counted_kafka(value) == counted_kafka([value]) == []


@pytest.mark.parametrize("door", ["sqs", "sns"])
@pytest.mark.parametrize("sender", STAMPED)
def test_dead_letters_of_services_are_told(sender: str, door: str) -> None:
    """Lambda's and EventBridge's: their queue is no origin."""
    for attributes in STAMPED[sender]:
        written = (_of_sqs if door == "sqs" else _of_sns)(attributes)
        assert is_dead_letter(written) is sender.startswith("dead letter")


@pytest.mark.parametrize("attributes", [None, [], "x", {}, *(own for pair in OWN.values() for own in pair)])
def test_other_messages_are_no_dead_letters_of_services(attributes: object) -> None:
    """An error code alone is the sender's own."""
    assert not is_dead_letter(attributes)


def test_credentials_are_told_in_any_case_of_letters() -> None:
    """They count, but a checksum of 16 bits beside a name would help someone who guesses."""
    assert all(map(is_secret, ["authorization", "Authorization", "COOKIE", "x-api-key", "X-Api-Key"]))
    assert not any(map(is_secret, ["tenant", "authorizations", "api-key"]))
    assert _headers({"Authorization": "Bearer 5"}) == {"Authorization": "Bearer 5"}
