"""
Amazon MQ: a message of ActiveMQ or RabbitMQ is a unit, its data the payload.

A message is read as EventBridge Pipes sends it, with its broker and queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lambda_once.sources.envelopes import NotBase64, TooDeep, at, decoded, parse_bytes
from lambda_once.sources.records import EventRecord, RecordSource, grouped, malformed, text_at
from lambda_once.sources.source import Source
from lambda_once.sources.unit import NOTHING, Malformed, Unit, itself

_RABBIT: Final = "aws:rmq"


def _messages(event: object) -> list[list[object]]:
    field = "rmqMessagesByQueue" if at(event, "eventSource") == _RABBIT else "messages"
    return grouped(event, Source.MQ, field)


def _read(raw: object) -> EventRecord:
    unit = _rabbit(raw) if at(raw, "eventSource") == _RABBIT else _active(raw)
    return EventRecord(None, None, unit, unit.argument if isinstance(unit, Unit) else raw)


def _active(raw: object) -> Unit | Malformed:
    from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage

    id_ = text_at(raw, "messageID")
    if not isinstance(raw, dict) or id_ is None:
        return malformed(None, "has no messageID")
    return _unit(raw, ActiveMQMessage(raw), id_)


def _rabbit(raw: object) -> Unit | Malformed:
    """Return the unit of a message. Its id is the sender's, if there is one, so it counts in its queue."""
    from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage

    queue = text_at(raw, "eventSourceKey")
    if not isinstance(raw, dict) or queue is None:
        return malformed(None, "has no queue")
    unit = _unit(raw, RabbitMessage(raw), text_at(raw, "basicProperties", "messageId"))
    return unit._replace(within=queue) if isinstance(unit, Unit) else unit


def _unit(raw: dict[str, Any], record: object, id_: str | None) -> Unit | Malformed:
    try:
        payload = data_of(raw)
    except (NotBase64, TooDeep) as error:
        return malformed(id_, f"has data that {error}")
    return Unit(
        payload,
        raw,
        record,
        id_,
        itself,
        NOTHING if id_ is None else id_,
        parsed=not isinstance(payload, bytes),
        redelivered=raw.get("redelivered") is True,
    )


def data_of(raw: Mapping[str, object]) -> object:
    """Return the data of the message *raw*. Raises `NotBase64` and `TooDeep`."""
    return parse_bytes(decoded(raw.get("data")))


MQ: Final = RecordSource(
    Source.MQ,
    _read,
    "the data",
    "the messageID; of RabbitMQ messageId, within the queue and virtual host",
    _messages,
    needs=("active_mq_event", "rabbit_mq_event"),
)
