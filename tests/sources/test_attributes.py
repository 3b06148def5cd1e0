"""What senders write beside a payload counts, in one form at every door; what is stamped anew doesn't."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from lambda_once.core.identity import NOTHING, is_secret
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


def _strings(names: str) -> Attributes:
    return dict.fromkeys(names.split(), ("String", "1"))


LAMBDA_S, EVENTBRIDGE_S = "dead letter of Lambda", "dead letter of EventBridge"
STAMPED: dict[str, tuple[Attributes, Attributes]] = {
    "nobody": ({}, {}),
    "Spring Cloud AWS": (
        {"contentType": ("String", "application/json")},
        {
            "id": ("String", "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"),
            "timestamp": ("Number.java.lang.Long", "1763633520000"),
        },
    ),
    "tracers": (
        {},
        _strings("traceparent TraceState baggage x-datadog-parent-id X-B3-TraceId b3 sw8-x X_INSTANA_T")
        | {"_datadog": ("Binary", "eyJ4IjoxfQ==")},
    ),
    "clients": ({}, _strings("correlationId x-correlation-id X-Request-Id x-amzn-requestid requestId")),
    "extended client": ({}, {"ExtendedPayloadSize": ("Number", "300000")}),
    LAMBDA_S: ({}, _strings("RequestID ErrorCode ErrorMessage")),
    EVENTBRIDGE_S: (
        _strings("TARGET_ARN"),
        _strings("ERROR_CODE ERROR_MESSAGE RETRY_ATTEMPTS EXHAUSTED_RETRY_CONDITION"),
    ),
}
"""What real senders write that counts, and what they stamp anew on each send."""

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
@pytest.mark.parametrize("sender", STAMPED)
def test_a_message_has_one_form_at_every_door(sender: str, door: str) -> None:
    """Name, type and value, whether SQS, SNS or SNS through SQS delivers it. No stamp counts."""
    own, stamped = STAMPED[sender]
    for counts in (own, SENT | own):
        found = through(door, counts | stamped).what.attributes
        assert found == {name: [*pair] for name, pair in counts.items()}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", OWN)
def test_what_a_sender_wrote_counts(case: str, door: str) -> None:
    """Names that are only like those in the tables are the sender's own."""
    first, second = OWN[case]
    assert through(door, first).what.attributes != through(door, second).what.attributes


def test_attributes_beside_an_envelope_count_with_those_in_it() -> None:
    """Who sends a notification on may write attributes of their own; of one name both count, unless equal."""
    inner = {"a": ("String", "inner"), "b": ("String", "both"), "messageAttributes.a": ("String", "named so")}
    text = json.dumps(samples.notification("x") | {"MessageAttributes": _of_sns(inner)})
    outer = _of_sqs({"a": ("String", "outer"), "b": ("String", "both"), "c": ("String", "outer")})
    found = _unit(SQS, samples.sqs_record(text, messageAttributes=outer))
    assert dict(found.what.attributes) == {
        "a": ["String", "outer"],
        "b": ["String", "both"],
        "c": ["String", "outer"],
        "messageAttributes.a": ["String", "named so"],
        "messageAttributes.messageAttributes.a": ["String", "inner"],
    }


def test_an_attribute_of_another_form_counts_as_it_is() -> None:
    """A value that is not as SQS or SNS writes it is not lost."""
    assert counted({"a": 5, "b": {"dataType": "String"}}) == {"a": 5, "b": {"dataType": "String"}}


# ---------------------------------------------------------------- brokers


def _octets(text: str) -> list[int]:
    """*text* as Java writes its bytes, which are signed."""
    return [octet - 256 if octet > 127 else octet for octet in text.encode()]


def _of_amqp(headers: dict[str, Any]) -> dict[str, Any]:
    of_the_send = "deliveryMode priority correlationId replyTo expiration messageId timestamp userId appId"
    return dict.fromkeys(f"{of_the_send} clusterId bodySize".split(), "1") | {
        "type": None,
        "contentType": "application/json",
        "contentEncoding": None,
        "headers": {
            name: {"bytes": _octets(value)} if isinstance(value, str) else value
            for name, value in headers.items()
        },
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


def _as_in_jms(name: str) -> str:
    """*name* as tracers write it, as a property of JMS has no hyphen."""
    return name.replace("-", "__dash__")


def _id(row: Row) -> str:
    return f"{row.stamped_by}: {row.names.split()[0]}"


@pytest.mark.parametrize("row", BY_NAME, ids=_id)
def test_the_table_holds_for_every_broker_in_any_case_of_letters(row: Row) -> None:
    """What is in it doesn't count; what is too common a name counts outside RabbitMQ."""
    for spelled in (str, str.upper, str.lower, _as_in_jms):
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


def test_a_row_that_another_name_tells_has_whole_names_only() -> None:
    """The look-up of such rows knows no beginnings."""
    assert [row for row in LEFT_OUT if row.beside and "*" in row.names] == []


UUID: Final = "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"
JAVA_TYPES: Final = {"spring_json_header_types": '{"id":"java.util.UUID","timestamp":"java.lang.Long"}'}
X_DEATH: Final = [{"reason": {"bytes": _octets("expired")}, "count": 2, "routing-keys": [{"bytes": []}]}]


@pytest.mark.parametrize(
    ("carrier", "counts", "stamped"),
    [
        ("RabbitMQ", {"event-type": "created"}, {"CC": [{"bytes": _octets("a")}], "x-death": X_DEATH}),
        ("RabbitMQ", {"__TypeId__": "shop.Order"}, {"id": UUID, "timestamp": 1763633520000}),
        ("Kafka", JAVA_TYPES, {"id": f'"{UUID}"', "timestamp": "1763633520000"}),
        (
            "RabbitMQ",
            {"lang": "py", "task": "shop.pay", "argsrepr": "(5,)"},
            {"id": "a", "root_id": "a", "parent_id": None, "retries": 0, "timelimit": [None, None]},
        ),
        (
            "RabbitMQ",
            {"MT-MessageType": "urn:message:Shop:OrderCreated"},
            {"MessageId": "a", "ConversationId": "b", "MT-Host-Info": '{"processId":7}'},
        ),
        ("RabbitMQ", {"NServiceBus.EnclosedMessageTypes": "Shop.Order"}, {"NServiceBus.Retries": "1"}),
        ("ActiveMQ", {"eventType": "created"}, {"dlqDeliveryFailureCause": "expired"}),
        (
            "client context",
            {},
            {"bedrockAgentCoreToolName": "orders___pay", "bedrockAgentCoreAwsRequestId": "a"},
        ),
    ],
)
def test_what_says_what_the_work_is_stays(
    carrier: str, counts: dict[str, Any], stamped: dict[str, Any]
) -> None:
    """Beside what a real sender or broker stamps anew on a retry, a dead letter or another send."""
    assert CARRIERS[carrier](counts | stamped) == counts


@pytest.mark.parametrize(
    ("carrier", "headers"),
    [
        ("RabbitMQ", {"id": "o-1", "timestamp": 1763633520000}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f", "timestamp": 5}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f", "timestamp": "2026-11-20"}),
        ("RabbitMQ", {"id": 5, "timestamp": 1763633520000}),
        ("RabbitMQ", {"id": "5c27bb11-6e16-f2d6-fb8d-e7d22ba7bd2f"}),
        ("RabbitMQ", {"task": "pay", "id": "5", "eta": "2026-11-20", "origin": "shop"}),
        ("RabbitMQ", {"task": "pay", "lang": "en", "id": "5", "origin": "shop"}),
        ("SQS", {"task": "pay", "lang": "en", "id": "5", "origin": "shop"}),
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


MIME: Final = {"type": "order.created", "contentType": "text/plain", "contentEncoding": "gzip"}
JMS_PROPERTIES: Final = (
    "messageID messageType timestamp deliveryMode correlationID replyTo destination originalDestination "
    "redelivered expiration priority data brokerInTime brokerOutTime"
)


@pytest.mark.parametrize(
    ("count", "message", "counts"),
    [
        (counted_amqp, _of_amqp({}) | MIME, MIME),
        (counted_amqp, {"type": "", "contentType": None, "headers": None}, {}),
        (
            counted_amqp,
            {"type": "a", "headers": {"type": {"bytes": [97]}}},
            {"type": "a", "headers.type": "a"},
        ),
        (
            counted_jms,
            dict.fromkeys(JMS_PROPERTIES.split(), "1")
            | {"type": "a", "properties": {"tenant": "acme", "traceparent": "00-1-1-01"}},
            {"type": "a", "tenant": "acme"},
        ),
        (counted_jms, {"type": "", "properties": None}, {}),
        (counted_jms, {"type": "a", "properties": {"type": "b"}}, {"type": "a", "properties.type": "b"}),
    ],
)
def test_a_broker_s_properties_of_the_content_count(
    count: Callable[[object], object], message: object, counts: object
) -> None:
    """The others are of a send, delivery, reply or origin. An empty one is none, and hides no namesake."""
    assert count(message) == counts


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


def test_tables_that_are_nested_deeply_count() -> None:
    """Beyond what any library nests their bytes stay bytes: nothing recurses without bound."""
    deep: Any = {"bytes": [97]}
    for _ in range(5_000):
        deep = {"in": deep}
    assert _headers({"deep": deep}).keys() == {"deep"}


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
def test_what_has_another_form_has_no_attributes(value: object) -> None:
    """A record that a test or a pipe made may lack them."""
    assert counted(value) == counted_context(value) == {}
    assert counted_amqp(value) == counted_amqp({"headers": value}) == {}
    assert counted_jms(value) == counted_jms({"properties": value}) == {}
    assert counted_kafka(value) == counted_kafka([value]) == []


@pytest.mark.parametrize("form", [_of_sqs, _of_sns])
def test_dead_letters_of_services_are_told(form: Callable[[Attributes], dict[str, Any]]) -> None:
    """Lambda's and EventBridge's: their queue is no origin. An error code alone is the sender's own."""
    letters = [*map(_strings, ("RequestID ErrorCode", "TARGET_ARN ERROR_CODE"))]
    letters += [{**own, **stamped} for own, stamped in (STAMPED[LAMBDA_S], STAMPED[EVENTBRIDGE_S])]
    assert all(is_dead_letter(form(each)) for each in letters)
    others = [own for pair in OWN.values() for own in pair]
    others += [{**own, **stamped} for sender, (own, stamped) in STAMPED.items() if "dead" not in sender]
    unwritten: tuple[object, ...] = (None, [], "x", *others)
    assert not any(map(is_dead_letter, (*unwritten, *map(form, others))))


def test_an_envelope_without_a_topic_leaves_the_queue() -> None:
    """A payload that only looks like a notification came from its queue."""
    text = json.dumps(samples.notification("x") | {"TopicArn": "orders"})
    assert _unit(SQS, samples.sqs_record(text)).what.origin == _unit(SQS, samples.sqs_record("x")).what.origin


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("sender", [LAMBDA_S, EVENTBRIDGE_S])
def test_a_queue_or_topic_of_dead_letters_is_no_origin(sender: str, door: str) -> None:
    """Lambda's may be a topic, too (developer guide, "Adding a dead-letter queue")."""
    own, stamped = STAMPED[sender]
    assert through(door, own | stamped).what.origin is NOTHING
    assert through(door, own).what.origin is not NOTHING


def test_credentials_are_told_in_any_case_of_letters() -> None:
    """They count, but a checksum of 16 bits beside a name would help someone who guesses."""
    assert all(map(is_secret, ["authorization", "Authorization", "COOKIE", "x-api-key", "X-Api-Key"]))
    assert not any(map(is_secret, ["tenant", "authorizations", "api-key"]))
    assert _headers({"Authorization": "Bearer 5"}) == {"Authorization": "Bearer 5"}
