"""The sources of records, a row each: what a test of all of them needs to know."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from lambda_once.sources.source import Source
from lambda_once.testing import (
    activemq_event,
    dynamodb_stream_event,
    kafka_event,
    kinesis_event,
    rabbitmq_event,
    sns_event,
    sqs_event,
)

Event = dict[str, Any]


class Order(BaseModel):
    orderId: int  # noqa: N815  (the field of the payload)


class NewOrder(BaseModel):
    NewImage: Order


def _changes(*items: Any) -> Event:
    """New items: each the attributes given, or its id alone."""
    of_each = [each if isinstance(each, dict) else {"id": each} for each in items]
    return dynamodb_stream_event(*[(None, {"id": str(n), **each}) for n, each in enumerate(of_each)])


def _identified(*data: Any) -> Event:
    """Messages of RabbitMQ whose sender gives them ids."""
    return rabbitmq_event(*data, message_ids=[f"m-{n}" for n in range(len(data))])


class Row(NamedTuple):
    """One source of records."""

    name: str
    decorator: str
    build: Callable[..., Event]
    """Makes an event of records, each with one of the bodies given."""
    data: tuple[str, ...]
    """Where a record has its data."""
    again: Event
    """What a redelivered record has otherwise; nothing: its source repeats it field by field."""
    resent: Event
    """What a record has otherwise if its producer sends it once more."""
    origin: str
    """The ``scope=`` that separates its queues, topics, streams or tables."""
    dead: Event | None
    """What a record has otherwise that its source moved to a dead-letter queue; None: it never moves one."""
    bad: object = "%secret"
    """Data that cannot be read."""
    in_order: bool = False
    """Whether nothing behind a failure is started."""
    piped_id: str | None = None
    """The field that names a failed record to EventBridge Pipes."""
    model: type[BaseModel] = Order
    success: object = None
    """What a mapping is answered if all is well."""

    @property
    def key(self) -> str:
        """Selects orderId of a body."""
        return "NewImage.orderId" if self.model is NewOrder else "orderId"

    def records(self, event: Event) -> list[Event]:
        """The records of *event*, which are in one list, perhaps by a name: all else that it has is text."""
        (found,) = (value for value in event.values() if isinstance(value, list | dict))
        lists: list[list[Event]] = [*found.values()] if isinstance(found, dict) else [found]
        return lists[0]

    def redelivered(self, event: Event) -> Event:
        """Return *event* as it is delivered again."""
        return self._changed(event, self.again)

    def sent_again(self, event: Event) -> Event:
        """Return *event* as it is after its producer has sent its records once more."""
        return self._changed(event, self.resent)

    def dead_letter(self, event: Event) -> Event:
        """Return *event* as it comes from a dead-letter queue; its source has one."""
        assert self.dead is not None
        return self._changed(event, self.dead)

    def elsewhere(self, event: Event) -> Event:
        """Return *event* as it comes from another queue, topic, stream or table: no id differs."""
        other: Event = json.loads(json.dumps(event).replace("orders", "refunds"))
        assert other != event
        return other

    def _changed(self, event: Event, changes: Event) -> Event:
        changed = copy.deepcopy(event)
        for record in self.records(changed):
            for name, value in changes.items():
                record[name] = record.get(name, {}) | value if isinstance(value, dict) else value
        return changed

    def spoil(self, event: Event, position: int) -> None:
        """Make the data at *position* such that it cannot be read."""
        part = self.records(event)[position]
        for name in self.data[:-1]:
            part = part[name]
        part[self.data[-1]] = self.bad


ALL_WELL: Event = {"batchItemFailures": []}
_REDELIVERED = {"redelivered": True, "brokerOutTime": 5, "connectionId": "other"}
_QUEUE = "arn:aws:sqs:eu-central-1:123456789012:orders"

SOURCES = (
    Row(
        "sqs",
        "sqs",
        sqs_event,
        ("body",),
        again={"receiptHandle": "another"},
        resent={"messageId": "another", "receiptHandle": "another"},
        origin="eventSourceARN",
        dead={"eventSourceARN": f"{_QUEUE}-dead", "attributes": {"DeadLetterQueueSourceArn": _QUEUE}},
        bad={"secret": 1},
        piped_id="messageId",
        success=ALL_WELL,
    ),
    Row(
        "fifo",
        "sqs",
        lambda *bodies: sqs_event(*bodies, fifo_groups="g"),
        ("body",),
        again={"receiptHandle": "another"},
        resent={"messageId": "another", "attributes": {"MessageDeduplicationId": "another"}},
        origin="eventSourceARN",
        dead={
            "eventSourceARN": f"{_QUEUE}-dead.fifo",
            "attributes": {
                "DeadLetterQueueSourceArn": f"{_QUEUE}.fifo",
                "MessageDeduplicationId": "the message's id",
            },
        },
        bad={"secret": 1},
        in_order=True,
        piped_id="messageId",
        success=ALL_WELL,
    ),
    Row(
        "sns",
        "sns",
        sns_event,
        ("Sns", "Message"),
        again={"Sns": {"Timestamp": "2026-11-20T11:00:00.000Z", "Signature": "ANOTHER"}},
        resent={"Sns": {"MessageId": "another"}},
        origin="Sns.TopicArn",
        dead=None,  # its dead letters are messages of a queue
        bad={"secret": 1},
    ),
    Row(
        "kinesis",
        "kinesis",
        kinesis_event,
        ("kinesis", "data"),
        again={},
        resent={"eventID": "shardId-000000000000:7", "kinesis": {"sequenceNumber": "7"}},
        origin="eventSourceARN",
        dead=None,
        in_order=True,
        piped_id="eventID",
    ),
    Row(
        "dynamodb_stream",
        "dynamodb_stream",
        _changes,
        ("dynamodb", "NewImage"),
        again={},
        resent={"eventID": "another", "dynamodb": {"SequenceNumber": "7"}},
        origin="eventSourceARN",
        dead=None,
        bad=["secret"],
        in_order=True,
        piped_id="eventID",
        model=NewOrder,
    ),
    Row(
        "kafka",
        "kafka",
        kafka_event,
        ("value",),
        again={},
        resent={"offset": 7, "timestamp": 1763633599999},
        origin="topic",
        dead=None,
        in_order=True,
    ),
    Row(
        "self-managed kafka",
        "kafka",
        lambda *values: kafka_event(*values, bootstrap_servers="a:9092,b:9092"),
        ("value",),
        again={},
        resent={"offset": 7, "timestamp": 1763633599999},
        origin="topic",
        dead=None,
        in_order=True,
    ),
    Row(
        "activemq",
        "mq",
        activemq_event,
        ("data",),
        again=_REDELIVERED,
        resent={"messageID": "ID:another"},
        origin="destination.physicalName",
        dead={
            "destination": {"physicalName": "ActiveMQ.DLQ"},
            "originalDestination": {"physicalName": "orders"},
        },
    ),
    *(
        Row(
            name,
            "mq",
            build,
            ("data",),
            again=_REDELIVERED,
            resent={"basicProperties": {"messageId": resent, "timestamp": "Nov 20, 2026, 10:13:00 AM"}},
            origin="eventSourceKey",
            dead={
                "eventSourceKey": "dead::/",
                "basicProperties": {
                    "headers": {
                        "tenant": {"bytes": [*b"acme"]},
                        "x-first-death-queue": {"bytes": [*b"orders"]},
                        "x-first-death-reason": {"bytes": [*b"rejected"]},
                    }
                },
            },
        )
        for name, build, resent in (
            ("rabbitmq", rabbitmq_event, None),
            ("rabbitmq with ids", _identified, "another"),
        )
    ),
)
SUCCESS = (None, *(row.success for row in SOURCES))
"""What a mapping is answered if all is well, whatever its source."""


def is_given_back(answer: object) -> bool:
    """Whether *answer*, of a handler, returns a record to its source."""
    return isinstance(answer, dict) and any(
        isinstance(success, dict) and answer.keys() == success.keys() and answer != success
        for success in SUCCESS
    )


RECORD_DECORATORS = tuple(
    dict.fromkeys(str(each.decorator).removeprefix("once.") for each in Source if each.fields)
)
"""The decorators of sources of records, by their names in `Once`."""
_OF_PIPES = {str(each.decorator).removeprefix("once.") for each in Source if each.is_piped}
PIPED = tuple(row for row in SOURCES if row.decorator in _OF_PIPES)
"""The sources of EventBridge Pipes."""
