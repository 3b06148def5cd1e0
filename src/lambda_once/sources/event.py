"""EventBridge, S3, direct and Step Functions invocations: the event as it came is the payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lambda_once.sources.envelopes import (
    at,
    eventbridge_content,
    eventbridge_key,
    is_eventbridge,
    s3_content,
)
from lambda_once.sources.services import service_of
from lambda_once.sources.source import Source, misplaced, source_of
from lambda_once.sources.unit import Unit, itself

_ASYNC: Final = frozenset({Source.SNS, Source.EVENTBRIDGE, Source.S3})
_OF_ONE_EVENT: Final = frozenset({Source.DIRECT, Source.WEBSOCKET})
_NONE: Final[Mapping[str, object]] = {}


def units(event: object, request_id: str | None) -> list[tuple[Unit, object]]:
    """
    Return each unit of *event*, with the event that the function gets for it.

    In an S3 event each record is a unit, passed on as an event of one record. Raises `Misconfigured` for an
    event of a source that has another decorator, or none yet, and for one whose response must not be replayed
    (`SERVICES`).
    """
    match source_of(event):
        case Source.EVENTBRIDGE if is_eventbridge(event):
            return [(_eventbridge(event), event)]
        case Source.S3:
            alone = [{"Records": [record]} for record in _s3_records(event)]
            return [(_s3(one), one) for one in alone]
        case source if source in _OF_ONE_EVENT:
            return [(_alone(event, request_id), event)]
        case other:
            raise misplaced("once.event", other, event)


def is_asynchronous(event: object) -> bool:
    """
    Whether *event* comes from a source that invokes asynchronously.

    Lambda then retries a failed invocation twice, under the same request id (AWS Lambda developer guide,
    "Asynchronous invocation"). A direct invocation may be asynchronous too; its event does not show it, so it
    counts as one.
    """
    source = source_of(event)
    if source not in _OF_ONE_EVENT:
        return source in _ASYNC
    service = service_of(event)
    return service is None or service.asynchronous


def _eventbridge(event: Mapping[str, object]) -> Unit:
    return Unit(event, event, event, str(event["id"]), eventbridge_content, eventbridge_key(event))


def _s3_records(event: object) -> list[object]:
    found = at(event, "Records")
    return found if isinstance(found, list) else []


def _s3(event: Mapping[str, list[object]]) -> Unit:
    request_id = at(event["Records"][0], "responseElements", "x-amz-request-id")
    return Unit(event, event, event, request_id if isinstance(request_id, str) else None, s3_content)


def _alone(event: object, request_id: str | None) -> Unit:
    """Return *event* as one unit: of a service in the table, or a direct invocation."""
    service = service_of(event)
    unit = _direct(event, request_id)
    if service is None:
        return unit
    if service.refused is not None:
        raise service.misplaced("once.event")
    if service.identity is None or not isinstance(event, Mapping):
        return unit._replace(content=service.content, needs_key=service.needs_key)
    key = service.identity(event)
    return unit._replace(content=lambda _: key, key=key)


def _direct(event: object, request_id: str | None) -> Unit:
    envelope = event if isinstance(event, Mapping) else _NONE
    return Unit(event, envelope, event, request_id, itself, parsed=_is_json(event))


def _is_json(event: object) -> bool:
    """Whether *event* is as Lambda delivers it, not a model that an outer parser made of it."""
    return event is None or isinstance(event, Mapping | list | str | int | float)
