"""
Attributes of SQS and SNS messages: which of them say what the work is.

A message is its payload and what the sender wrote beside it, so attributes count in hash and fingerprint: by
name, type and value, in one form whether SQS, SNS, or SNS through SQS delivers them. Left out is what another
hand stamps anew on each send, by the tables below, in any case of letters; nothing else goes by a pattern. An
SNS subject doesn't count: raw delivery loses it.

What we're not happy with: the tables are names that others chose, and a tracer that isn't listed makes every
delivery of a message new. `lambda-once explain` shows what counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LEFT_OUT: Final = frozenset(
    {
        *("traceparent", "tracestate", "baggage"),  # W3C Trace Context, W3C Baggage
        "sentry-trace",  # Sentry's SDKs
        "b3",  # Zipkin, B3 propagation; x-b3-* below
        "_datadog",  # dd-trace, botocore integration
        "newrelic",  # New Relic's agents, distributed tracing
        "elastic-apm-traceparent",  # Elastic APM
        "uber-trace-id",  # Jaeger; uberctx-* below
        "x-cloud-trace-context",  # Google Cloud Trace
        "x-amzn-trace-id",  # AWS X-Ray; the system attribute AWSTraceHeader is no message attribute
        *("correlationid", "x-correlation-id", "requestid", "x-request-id", "x-amzn-requestid"),
        *("extendedpayloadsize", "sqslargepayloadsize"),  # Amazon SQS Extended Client Library, new and old
    }
)
_LEFT_OUT_FROM: Final = (
    "x-b3-",  # Zipkin, B3 propagation
    "x-datadog-",  # dd-trace
    "uberctx-",  # Jaeger
    *("ot-tracer-", "ot-baggage-"),  # OpenTracing, basic tracer
    *("x-instana-", "x_instana_"),  # Instana; SQS with underscores
    "sw8",  # SkyWalking: sw8, sw8-correlation, sw8-x
)
_SPRING: Final = frozenset({"id", "timestamp"})
_SPRING_TYPE: Final = "Number.java.lang.Long"
"""Spring Cloud AWS stamps a random id and the time; the type of the time tells it from other senders."""
_DEAD_LETTERS: Final = (
    # Lambda developer guide, "Adding a dead-letter queue": for asynchronous invocations.
    ({"requestid", "errorcode"}, {"errorcode", "errormessage"}),
    # EventBridge user guide, "Using dead-letter queues to process undelivered events"; Scheduler's has more.
    (
        {"target_arn", "error_code"},
        {"error_code", "error_message", "exhausted_retry_condition", "retry_attempts"},
    ),
)
"""What tells a service's dead letter, and what it then adds."""


def counted(attributes: object) -> dict[str, object]:
    """
    Return what counts of *attributes*, those of a message: type and value by name.

    *attributes* are as SQS writes them (``dataType``, ``stringValue``) or SNS (``Type``, ``Value``); binary
    values are base64 in both. What is in neither form counts as it is.
    """
    if not attributes or not isinstance(attributes, Mapping):
        return {}
    forms = {str(name): _form(value) for name, value in attributes.items()}
    left_out = _left_out(forms)
    return {name: form for name, form in forms.items() if name.lower() not in left_out}


def _left_out(forms: Mapping[str, object]) -> set[str]:
    """Return the names among *forms*, in lower case, that do not count."""
    lower = {name.lower(): form for name, form in forms.items()}
    found = {name for name in lower if name in _LEFT_OUT or name.startswith(_LEFT_OUT_FROM)}
    match lower.get("timestamp"):
        case [str(kind), *_] if kind == _SPRING_TYPE:
            found |= _SPRING
    for marks, added in _DEAD_LETTERS:
        if marks <= lower.keys():
            found |= added
    return found


def _form(value: object) -> object:
    match value:
        case {"dataType": kind, "stringValue": str(text)} | {"dataType": kind, "binaryValue": str(text)}:
            return [kind, text]
        case {"Type": kind, "Value": text}:
            return [kind, text]
        case _:
            return value
