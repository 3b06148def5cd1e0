"""
Which source sent an event, and which decorator is for it: one table.

Events are told apart by their fields; Lambda names the sender of none. An event at the wrong decorator is
refused before anything runs, with the right decorator's name: read as what it isn't, it would be one payload
with a receipt handle in it, which is new with every delivery.

What we're not happy with: a model of a parser is recognised by the names of its fields (`as_sent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from lambda_once.core.objects import by_alias
from lambda_once.errors import Misconfigured
from lambda_once.sources.attributes import MAPPINGS
from lambda_once.sources.envelopes import Parsed, at, is_eventbridge
from lambda_once.sources.services import NAMES, service_of


class Source(Enum):
    """
    A source of events: all that's known of it before its own file is loaded.

    Its row: a title, its decorator, the names that its records or its events have, and for a source of
    records, whose file has the decorator's name, the fields that each record has, and whether EventBridge
    Pipes sends them, too.
    """

    SQS = "Amazon SQS", "once.sqs", ("aws:sqs",), (), ("receiptHandle",), True
    SNS = "Amazon SNS", "once.sns", ("aws:sns",), (), ("Sns",)
    S3 = "Amazon S3", "once.event", ("aws:s3",)
    EVENTBRIDGE = "Amazon EventBridge", "once.event"
    HTTP = "API Gateway, a Function URL or a load balancer", "once.api_gateway"
    AUTHORIZER = "a Lambda authorizer", None
    WEBSOCKET = "a WebSocket API", None
    KINESIS = "Kinesis Data Streams", "once.kinesis", ("aws:kinesis",), (), ("kinesis",), True
    DYNAMODB = "DynamoDB Streams", "once.dynamodb_stream", ("aws:dynamodb",), (), ("dynamodb",), True
    KAFKA = (
        "Kafka",
        "once.kafka",
        (),
        ("aws:kafka", "aws:SelfManagedKafka", "SelfManagedKafka"),
        ("topic", "partition", "offset"),
        True,
    )
    MQ = "Amazon MQ", "once.mq", (), ("aws:amq", "aws:mq", "aws:rmq"), ("redelivered", "data"), True
    DIRECT = "a direct invocation", "once.event"

    def __init__(
        self,
        title: str,
        decorator: str | None,
        of_record: tuple[str, ...] = (),
        of_event: tuple[str, ...] = (),
        fields: tuple[str, ...] = (),
        is_piped: bool = False,  # noqa: FBT001, FBT002  (a row of the table)
    ) -> None:
        self.title = title
        self.decorator = decorator
        self.of_record = of_record
        """``eventSource`` of each record."""
        self.of_event = of_event
        """``eventSource`` of the event as a whole."""
        self.names = of_record + of_event
        """``eventSource`` of each record where EventBridge Pipes sends it."""
        self.fields = fields
        """The fields that each of its records has; none: it has no records, or they're whole events."""
        self.is_piped = is_piped
        """Whether EventBridge Pipes has it (EventBridge user guide, "Amazon EventBridge Pipes sources")."""

    @property
    def module(self) -> str:
        """The module of a source of records, whose `RecordSource` is named as its decorator is."""
        return f"lambda_once.sources.{str(self.decorator).removeprefix('once.')}"


MARKS: Final = (NAMES - {"source"}) | {
    *("Records", "records", "eventSource", "EventSource", "redelivered", "detail-type"),
    *("methodArn", "routeArn"),
}
"""
Each record and event of AWS has one of these fields: what has none is not looked at more closely.

Alarms are left out: `source`, all that they have, is a field of too many others.
"""
_MARK_OF_KAFKA: Final = "timestampType"
"""Each record of Kafka has it, and its event is the one that names the source."""
_OF_RECORD: Final = {name: source for source in Source for name in source.of_record}
_OF_EVENT: Final = {name: source for source in Source for name in source.of_event}
OF_SERVICES: Final = frozenset({Source.DIRECT, Source.WEBSOCKET})
"""Sources that a row of the table of services may name more precisely."""


def as_sent(value: object) -> dict[str, Any] | None:
    """
    Return *value*, a record or event, as its source sent it; None if it can be neither.

    It is a dict, Powertools' data class, or a model with the fields of one, of Powertools' parser or another.
    """
    if isinstance(value, dict):
        return None if MARKS.isdisjoint(value) and _MARK_OF_KAFKA not in value else value
    try:
        raw = getattr(value, "raw_event", None)
        if isinstance(raw, dict):
            return raw
        fields: Any = by_alias(value) if _is_model_of_aws(type(value)) else None  # type: ignore[arg-type]  # a type is hashable
        return None if fields is None else Parsed(fields)
    except Exception:  # noqa: BLE001  (a property of the user's, or it contains itself: it counts as far as it can be read)
        return None


@lru_cache(maxsize=256)
def _is_model_of_aws(kind: type) -> bool:
    """Whether *kind* is a model, of pydantic, whose fields are some of a record or an event."""
    model_fields = getattr(kind, "model_fields", None)
    if not isinstance(model_fields, Mapping) or not callable(getattr(kind, "model_dump", None)):
        return False
    names = {*model_fields, *(getattr(field, "alias", None) for field in model_fields.values())}
    return not MARKS.isdisjoint(names) or _MARK_OF_KAFKA in names


def source_of(event: object) -> Source:
    """Return the source of *event*; a direct invocation if no other matches."""
    if isinstance(event, list | tuple):
        source = named_source(event[0]) if event else Source.DIRECT
        return source if source.is_piped else Source.DIRECT
    if not isinstance(event, MAPPINGS):
        return Source.DIRECT
    records, name = event.get("Records"), event.get("eventSource")
    if isinstance(records, list | tuple) and records:
        return _named_by(records[0], _OF_RECORD)
    if isinstance(name, str) and name in _OF_EVENT:
        return _OF_EVENT[name]
    if _is_authorizer(event):
        return Source.AUTHORIZER
    context = event.get("requestContext")
    if isinstance(context, MAPPINGS):
        if isinstance(context.get("connectionId"), str):
            return Source.WEBSOCKET
        if "http" in context or "elb" in context or "httpMethod" in event:
            return Source.HTTP
    return Source.EVENTBRIDGE if is_eventbridge(event) else Source.DIRECT


def _is_authorizer(event: Mapping[str, Any]) -> bool:
    kind = event.get("type")
    if kind not in ("REQUEST", "TOKEN"):
        return False
    is_of_http_api = kind == "REQUEST" and isinstance(event.get("routeArn"), str)  # payload format 2.0
    return is_of_http_api or isinstance(event.get("methodArn"), str)


def source_of_record(record: Mapping[str, Any], *, is_data_class: bool = False) -> Source | None:
    """
    Return the source of *record*, of a kind that has a decorator for records; None if it's no such record.

    It names its source, and has the fields of one, which Powertools' data class of it needs not have. A
    record whose event names the source, not the record, is known by its fields alone.
    """
    named = named_source(record)
    if named is not Source.DIRECT:
        is_whole = is_data_class or record.keys() >= {*named.fields}
        return named if named.fields and is_whole else None
    nameless = (source for source in Source if source.fields and not source.of_record)
    return next((source for source in nameless if record.keys() >= {*source.fields}), None)


def record_source(source: Source) -> Any:
    """Return the `RecordSource` of *source*, whose file is loaded for it."""
    return getattr(import_module(source.module), source.module.rpartition(".")[2].upper())


def named_source(record: object) -> Source:
    """Return the source of *record*; a direct invocation if it names none."""
    return _named_by(record, _OF_RECORD | _OF_EVENT)


def _named_by(record: object, known: Mapping[str, Source]) -> Source:
    name = at(record, "eventSource") or at(record, "EventSource")
    return known.get(name, Source.DIRECT) if isinstance(name, str) else Source.DIRECT


def misplaced(decorator: str, source: Source, event: object) -> Misconfigured:
    """Return the error for *decorator* in front of *event*, which is of *source*."""
    if callable(getattr(type(event), "model_dump", None)):
        return Misconfigured(
            f"{decorator} received a {type(event).__name__} in place of Lambda's event. "
            "Nothing ran. Remove event_parser: decorators of records take model=, "
            "those of whole events take event_parser below them."
        )
    service = service_of(event)
    if service is not None and (source in OF_SERVICES or service.refused is not None):
        return service.misplaced(decorator)
    if source.decorator == decorator:
        advice = "Its records are not as that source sends them."
    elif source.decorator is not None:
        way = "(model=…) in place of the parser" if isinstance(event, Parsed) else " for it"
        advice = f"Use {source.decorator}{way}."
    else:
        advice = (
            "An authorizer's response must not be replayed, with any key: it would let other callers in. "
            "Protect the effect inside with once.run."
        )
    return Misconfigured(f"{decorator} received an event of {source.title}. Nothing ran. {advice}")
