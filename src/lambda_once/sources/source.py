"""The source of an event, and the decorator for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import at, is_eventbridge
from lambda_once.sources.services import service_of


class Source(Enum):
    """A source of events; the value is its name."""

    SQS = "Amazon SQS"
    SNS = "Amazon SNS"
    S3 = "Amazon S3"
    EVENTBRIDGE = "Amazon EventBridge"
    HTTP = "API Gateway, a Function URL, a load balancer or VPC Lattice"
    AUTHORIZER = "a Lambda authorizer"
    WEBSOCKET = "a WebSocket API"
    KINESIS = "Kinesis Data Streams"
    DYNAMODB = "DynamoDB Streams"
    KAFKA = "Kafka"
    MQ = "Amazon MQ"
    PIPES = "EventBridge Pipes"
    DIRECT = "a direct invocation"


_OF_RECORD: Final = {
    "aws:sqs": Source.SQS,
    "aws:sns": Source.SNS,
    "aws:s3": Source.S3,
    "aws:kinesis": Source.KINESIS,
    "aws:dynamodb": Source.DYNAMODB,
}
_OF_EVENT: Final = {
    "aws:kafka": Source.KAFKA,
    "aws:SelfManagedKafka": Source.KAFKA,
    "SelfManagedKafka": Source.KAFKA,
    "aws:amq": Source.MQ,
    "aws:mq": Source.MQ,
    "aws:rmq": Source.MQ,
}
_OF_SERVICES: Final = frozenset({Source.DIRECT, Source.WEBSOCKET})
"""Sources that a row of the table of services may name more precisely."""
_DECORATOR: Final = {
    Source.SQS: "once.sqs",
    Source.SNS: "once.sns",
    Source.HTTP: "once.api_gateway",
    Source.S3: "once.event",
    Source.EVENTBRIDGE: "once.event",
    Source.DIRECT: "once.event",
}


def source_of(event: object) -> Source:
    """Return the source of *event*; a direct invocation if no other matches."""
    match event:
        case {"Records": [first, *_]}:
            return source_of_record(first)
        case {"eventSource": str(name)} if name in _OF_EVENT:
            return _OF_EVENT[name]
        case {"type": "REQUEST" | "TOKEN", "methodArn": str()} | {"type": "REQUEST", "routeArn": str()}:
            return Source.AUTHORIZER
        case {"requestContext": {"connectionId": str()}}:
            return Source.WEBSOCKET
        case {"requestContext": {"elb": _} | {"http": _}} | {"requestContext": Mapping(), "httpMethod": _}:
            return Source.HTTP
        case {"raw_path": str(), "method": str()} | {
            "requestContext": {"serviceArn": str()},
            "method": str(),
        }:
            return Source.HTTP  # VPC Lattice, event structure versions 1 and 2
        case [first, *_] if _named_by(first, _OF_RECORD | _OF_EVENT) is not Source.DIRECT:
            return Source.PIPES
    return Source.EVENTBRIDGE if is_eventbridge(event) else Source.DIRECT


def source_of_record(record: object) -> Source:
    """Return the source of *record*; a direct invocation if it names none."""
    return _named_by(record, _OF_RECORD)


def _named_by(record: object, known: Mapping[str, Source]) -> Source:
    name = at(record, "eventSource") or at(record, "EventSource")
    return known.get(name, Source.DIRECT) if isinstance(name, str) else Source.DIRECT


def misplaced(decorator: str, source: Source, event: object) -> Misconfigured:
    """Return the error for *decorator* in front of *event*, which is of *source*."""
    service = service_of(event)
    if service is not None and (source in _OF_SERVICES or service.refused is not None):
        return service.misplaced(decorator)
    advice = f"Use {_DECORATOR[source]} for it." if source in _DECORATOR else _no_decorator(source)
    message = f"{decorator} received an event of {source.value}. Nothing ran. {advice}"
    return Misconfigured(message)


def _no_decorator(source: Source) -> str:
    if source is Source.AUTHORIZER:
        return (
            "An authorizer's response must not be replayed, with any key: it would let other callers in. "
            "Protect the effect inside with once.run."
        )
    return (
        f"There is no decorator for {source.value} yet: protect the work on each record with once.function."
    )
