"""The sources of records, a row each: what a test of all of them needs to know."""

from __future__ import annotations

import copy
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


class Row(NamedTuple):
    """One source of records."""

    name: str
    decorator: str
    build: Callable[..., Event]
    """Makes an event of records, each with one of the bodies given."""
    data: tuple[str, ...]
    """Where a record has its data."""
    bad: object = "%secret"
    """Data that cannot be read."""
    in_order: bool = False
    """Whether nothing behind a failure is started."""
    piped_id: str | None = None
    """The field that names a failed record to EventBridge Pipes."""
    model: type[BaseModel] = Order
    success: object = None
    """What a mapping is answered if all is well."""
    again: Event = {}  # noqa: RUF012  (a NamedTuple's default, never changed)
    """What a redelivered record has otherwise."""

    def records(self, event: Event) -> list[Event]:
        """The records of *event*, which are in one list."""
        found = next(event[name] for name in _LISTS if name in event)
        lists: list[list[Event]] = [*found.values()] if isinstance(found, dict) else [found]
        return lists[0]

    def redelivered(self, event: Event) -> Event:
        """Return *event* as it is delivered again."""
        again = copy.deepcopy(event)
        for record in self.records(again):
            for name, value in self.again.items():
                record[name] = record[name] | value if isinstance(value, dict) else value
        return again

    def spoil(self, event: Event, position: int) -> None:
        """Make the data at *position* such that it cannot be read."""
        part = self.records(event)[position]
        for name in self.data[:-1]:
            part = part[name]
        part[self.data[-1]] = self.bad


ALL_WELL: Event = {"batchItemFailures": []}
_REDELIVERED = {"redelivered": True, "brokerOutTime": 5, "connectionId": "other"}
_LISTS = ("Records", "messages", "records", "rmqMessagesByQueue")

SOURCES = (
    Row(
        "sqs",
        "sqs",
        sqs_event,
        ("body",),
        {"secret": 1},
        piped_id="messageId",
        success=ALL_WELL,
        again={"receiptHandle": "another"},
    ),
    Row(
        "fifo",
        "sqs",
        lambda *bodies: sqs_event(*bodies, fifo_groups="g"),
        ("body",),
        {"secret": 1},
        in_order=True,
        piped_id="messageId",
        success=ALL_WELL,
        again={"receiptHandle": "another"},
    ),
    Row(
        "sns",
        "sns",
        sns_event,
        ("Sns", "Message"),
        {"secret": 1},
        again={"Sns": {"Timestamp": "2026-11-20T11:00:00.000Z", "Signature": "ANOTHER"}},
    ),
    Row("kinesis", "kinesis", kinesis_event, ("kinesis", "data"), in_order=True, piped_id="eventID"),
    Row(
        "dynamodb_stream",
        "dynamodb_stream",
        _changes,
        ("dynamodb", "NewImage"),
        ["secret"],
        in_order=True,
        piped_id="eventID",
        model=NewOrder,
    ),
    Row("kafka", "kafka", kafka_event, ("value",), in_order=True),
    Row(
        "self-managed kafka",
        "kafka",
        lambda *values: kafka_event(*values, bootstrap_servers="a:9092,b:9092"),
        ("value",),
        in_order=True,
    ),
    Row("activemq", "mq", activemq_event, ("data",), again=_REDELIVERED),
    Row("rabbitmq", "mq", rabbitmq_event, ("data",), again=_REDELIVERED),
)
RECORD_DECORATORS = tuple(
    dict.fromkeys(str(each.decorator).removeprefix("once.") for each in Source if each.fields)
)
"""The decorators of sources of records, by their names in `Once`."""
_OF_PIPES = {str(each.decorator).removeprefix("once.") for each in Source if each.is_piped}
PIPED = tuple(row for row in SOURCES if row.decorator in _OF_PIPES)
"""The sources of EventBridge Pipes."""
