"""
`once.mq`: what happens to a message of Amazon MQ, ActiveMQ or RabbitMQ.

Its shared reader and runner are in `records`. The data of a message is the payload. An event source mapping
of MQ knows no partial response: the handler tries all messages, raises the first error, and the whole batch
is delivered again; what is done answers from its token.

What we're not happy with: a message of RabbitMQ has the id that its sender gives, or none. Without one the
payload's hash is the key, within the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage

from lambda_once.core.identity import NOTHING, Content, Identity
from lambda_once.core.unit import Delivered, Unit
from lambda_once.decorators.handlers import handler_like
from lambda_once.sources.attributes import counted_amqp, counted_jms, plain_header
from lambda_once.sources.envelopes import BadData, at, named_in, read_data, text_at
from lambda_once.sources.records import Raw, Records, RecordSource, grouped
from lambda_once.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings


_ACTIVEMQ_QUEUE: Final = ("destination", "physicalName")


def _first_queue(raw: Raw) -> str | None:
    """
    Return the queue that a dead letter was first published to, as its broker notes it; None for others.

    RabbitMQ's dead letters stay in their virtual host (RabbitMQ, "Dead Letter Exchanges"), which Lambda
    writes behind the queue's name.
    """
    name = plain_header(at(raw, "basicProperties", "headers", "x-first-death-queue"))
    if isinstance(name, str) and name:
        _, apart, virtual_host = (text_at(raw, "eventSourceKey") or "").partition("::")
        return f"{name}{apart}{virtual_host}"
    return text_at(raw, "originalDestination", "physicalName") or text_at(raw, "originalDestination")


def _is_rabbit(value: object) -> bool:
    return at(value, "eventSource") == "aws:rmq" or at(value, "basicProperties") is not None


def _messages(event: object) -> list[list[object]]:
    return grouped(event, Source.MQ, "rmqMessagesByQueue" if _is_rabbit(event) else "messages")


def _locate(raw: Raw) -> Delivered:
    redelivered = raw.get("redelivered") is True
    if _is_rabbit(raw):
        return Delivered(RabbitMessage(raw), raw, text_at(raw, "basicProperties", "messageId"), redelivered)
    return Delivered(ActiveMQMessage(raw), raw, text_at(raw, "messageID"), redelivered)


def _read_content(record: Delivered, raw: Raw) -> Unit:
    is_rabbit = _is_rabbit(raw)
    queue = _first_queue(raw) or text_at(raw, *(["eventSourceKey"] if is_rabbit else _ACTIVEMQ_QUEUE))
    if is_rabbit and queue is None and "eventSource" in raw:
        raise BadData("has no queue")
    if not is_rabbit and record.delivery is None:
        raise BadData("has no messageID")
    broker = named_in(raw.get("eventSourceArn"))  # of the event: a message of a mapping alone names none
    origin = [part for part in (broker, queue) if part is not NOTHING]
    payload = read_data(raw.get("data"), raw=raw)
    identity = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=NOTHING if queue is None else origin,
        position=NOTHING if record.delivery is None else [record.delivery],
        attributes=counted_amqp(raw.get("basicProperties")) if is_rabbit else counted_jms(raw),
        content=Content(payload, parsed=not isinstance(payload, bytes)),
    )
    return Unit(identity, record)


MQ: Final = RecordSource(
    Source.MQ,
    _locate,
    _read_content,
    "the data",
    "the messageID; of RabbitMQ messageId, within broker and queue",
    _messages,
)


def mq_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* for each message, and raises the first error."""
    records = Records(MQ, runtime, function, settings)

    def handle(event: Any, context: Any) -> None:
        for error in records.run(event, context).errors:
            raise error

    return handler_like(function, handle, records)
