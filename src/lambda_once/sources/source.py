"""The source of an event, and the decorator for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import at, is_eventbridge
from lambda_once.sources.services import service_of


class Source(Enum):
    """
    A source of events. Its row: a title, its decorator, and the names that its records or events give it.

    Without a decorator, ``once.function`` protects the work on each record.
    """

    SQS = "Amazon SQS", "once.sqs", ("aws:sqs",)
    SNS = "Amazon SNS", "once.sns", ("aws:sns",)
    S3 = "Amazon S3", "once.event", ("aws:s3",)
    EVENTBRIDGE = "Amazon EventBridge", "once.event"
    HTTP = "API Gateway, a Function URL, a load balancer or VPC Lattice", "once.api_gateway"
    AUTHORIZER = "a Lambda authorizer", None
    WEBSOCKET = "a WebSocket API", None
    KINESIS = "Kinesis Data Streams", "once.kinesis", ("aws:kinesis",)
    DYNAMODB = "DynamoDB Streams", "once.dynamodb_stream", ("aws:dynamodb",)
    KAFKA = "Kafka", None, (), ("aws:kafka", "aws:SelfManagedKafka", "SelfManagedKafka")
    MQ = "Amazon MQ", None, (), ("aws:amq", "aws:mq", "aws:rmq")
    PIPES = "EventBridge Pipes", None
    DIRECT = "a direct invocation", "once.event"

    def __init__(
        self,
        title: str,
        decorator: str | None,
        of_record: tuple[str, ...] = (),
        of_event: tuple[str, ...] = (),
    ) -> None:
        self.title = title
        self.decorator = decorator
        self.of_record = of_record
        """``eventSource`` of each record."""
        self.of_event = of_event
        """``eventSource`` of the event as a whole."""


_OF_RECORD: Final = {name: source for source in Source for name in source.of_record}
_OF_EVENT: Final = {name: source for source in Source for name in source.of_event}
_OF_SERVICES: Final = frozenset({Source.DIRECT, Source.WEBSOCKET})
"""Sources that a row of the table of services may name more precisely."""


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
    advice = f"Use {source.decorator} for it." if source.decorator else _no_decorator(source)
    message = f"{decorator} received an event of {source.title}. Nothing ran. {advice}"
    return Misconfigured(message)


def _no_decorator(source: Source) -> str:
    if source is Source.AUTHORIZER:
        return (
            "An authorizer's response must not be replayed, with any key: it would let other callers in. "
            "Protect the effect inside with once.run."
        )
    return (
        f"There is no decorator for {source.title} yet: protect the work on each record with once.function."
    )
