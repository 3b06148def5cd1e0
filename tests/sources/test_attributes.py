"""Message attributes: what a sender wrote counts, in one form at every door; what is stamped anew doesn't."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_once.core.unit import Unit
from lambda_once.sources.attributes import counted
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
    found = source.read(record)
    assert found.bad is None
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
    assert dict(through(door, SENT).attributes) == {name: [*pair] for name, pair in SENT.items()}
    assert dict(through(door, {}).attributes) == {}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("sender", STAMPED)
def test_what_a_sender_stamps_anew_does_not_count(sender: str, door: str) -> None:
    """Two sends of one message are one work, and what the sender wrote beside the stamps still counts."""
    first, second = STAMPED[sender]
    assert through(door, first).attributes == through(door, second).attributes
    written = through(door, SENT | first).attributes
    assert written == through(door, SENT | second).attributes
    assert SENT.keys() <= written.keys()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", OWN)
def test_what_a_sender_wrote_counts(case: str, door: str) -> None:
    """Names that are only like those in the tables are the sender's own."""
    first, second = OWN[case]
    assert through(door, first).attributes != through(door, second).attributes


def test_attributes_beside_an_envelope_count_with_those_in_it() -> None:
    """Who sends a notification on may write attributes of their own; of one name the inner counts."""
    text = json.dumps(samples.notification("x") | {"MessageAttributes": _of_sns({"a": ("String", "inner")})})
    outer = _of_sqs({"a": ("String", "outer"), "b": ("String", "outer")})
    found = _unit(SQS, samples.sqs_record(text, messageAttributes=outer))
    assert dict(found.attributes) == {"a": ["String", "inner"], "b": ["String", "outer"]}


@pytest.mark.parametrize("attributes", [None, [], "x", 5, {}])
def test_what_is_no_mapping_has_no_attributes(attributes: object) -> None:
    """A record that a test or a pipe made may lack them."""
    assert counted(attributes) == {}


def test_an_attribute_of_another_form_counts_as_it_is() -> None:
    """A value that is not as SQS or SNS writes it is not lost."""
    assert counted({"a": 5, "b": {"dataType": "String"}}) == {"a": 5, "b": {"dataType": "String"}}
