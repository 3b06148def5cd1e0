"""The work under test: one handler a lane, whose effects are counted outside."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once, OnceError
from lambda_once.core.clock import stamp
from lambda_once.observability.reporter import Details
from lambda_once.testing import lambda_context, sqs_event
from tests.chaos.deliveries import Lane
from tests.chaos.journal import Journal
from tests.kit import tables

CLIENT_TIMEOUT = 0.4
"""Seconds that a client waits for an answer."""
REMAINING_MS = 1500
"""The time limit of an invocation."""
LEASE = timedelta(seconds=2.5)
"""Longer than an invocation: only who is dead, paused or a ghost lapses."""
ATTEMPT = 32
"""Characters of an attempt id."""
LARGE = 380_000
"""Random bytes of a large result, in hex: compressed, more than one part holds."""
Order = dict[str, Any]
"""A message on its way to a worker: id, key, flaky, receives, group."""
Handler = Callable[[list[Order], Any], set[str]]
"""Works messages, and returns the ids of those that failed."""


class Flaky(Exception):
    """The work failed before it took effect."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker finds its table, and where it notes what it does."""

    endpoint: str
    tokens: str
    effects: str
    journal: str
    hold_takes_over: bool = False
    """For a negative twin: the lane that promises to hold takes over instead."""
    client: str = tables.BOTO3
    """Which of `tables.CLIENTS` sends the handlers' requests."""

    def sender(self) -> Any:
        """Return the client that sends the handlers' requests; nothing is connected yet."""
        return tables.CLIENTS[self.client](self.endpoint, CLIENT_TIMEOUT)


def result(key: str, attempt: str) -> str:
    """Return what *attempt* answers for *key*: its id, and for one key in six two parts full."""
    if zlib.crc32(key.encode()) % 6:
        return attempt
    return attempt + random.Random(attempt).randbytes(LARGE).hex()


class Handlers:
    """One environment's handlers. ``held`` has the deliveries that were answered "held"."""

    def __init__(self, place: Place, journal: Journal) -> None:
        self.held: set[str] = set()
        self._journal = journal
        self._effects = place.effects
        self._on_lapse: Literal["take_over", "hold"] = "take_over" if place.hold_takes_over else "hold"
        quiet = Logger(service="chaos", level="CRITICAL")
        self._once = Once(
            table=place.tokens, client=place.sender(), service="chaos", logger=quiet, hooks=[self._noted]
        )
        self._lanes = {
            Lane.TAKE_OVER: _batches(self._taking_over(Lane.TAKE_OVER)),
            Lane.CONCURRENT: _batches(self._concurrent()),
            Lane.HOLD: _batches(self._holding()),
            Lane.TRANSACT: _batches(self._transacting()),
            Lane.FUNCTION: self._calls(self._function()),
            Lane.FIFO: _batches(self._taking_over(Lane.FIFO)),
        }

    def work(self, lane: Lane, orders: list[Order]) -> set[str]:
        """Invoke the lane's function once; return the ids that go back to the queue."""
        self.held.clear()
        return self._lanes[lane](orders, lambda_context(remaining_ms=REMAINING_MS))

    # ---------------------------------------------------------------- the lanes

    def _taking_over(self, lane: Lane) -> Any:
        @self._once.sqs(key="id", name=lane, lease=LEASE)
        def take_over(record: SQSRecord) -> str:
            return self._effect(record)

        return take_over

    def _concurrent(self) -> Any:
        @self._once.sqs(key="id", name=Lane.CONCURRENT, lease=LEASE, concurrency=4, cache=100)
        async def concurrent(record: SQSRecord) -> str:
            return self._effect(record)

        return concurrent

    def _holding(self) -> Any:
        @self._once.sqs(key="id", name=Lane.HOLD, lease=LEASE, on_lapse=self._on_lapse)
        def hold(record: SQSRecord) -> str:
            return self._effect(record)

        return hold

    def _transacting(self) -> Any:
        @self._once.sqs(key="id", name=Lane.TRANSACT, lease=LEASE)
        def transact(record: SQSRecord) -> None:
            key = _key_unless_flaky(record)
            attempt = self._once.current()
            effect = {
                "TableName": self._effects,
                "Key": {"id": {"S": key}},
                "UpdateExpression": "ADD effects :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
            attempt.transact([{"Update": effect}], result=attempt.id)

        return transact

    def _function(self) -> Callable[..., str]:
        @self._once.function(key="order", name=Lane.FUNCTION, lease=LEASE, ignore=("fails",))
        def function(order: str, *, fails: bool) -> str:
            if fails:
                raise Flaky
            return result(order, self._done(order))

        return function

    def _calls(self, function: Callable[..., str]) -> Handler:
        def work(orders: list[Order], context: Any) -> set[str]:
            failed = set()
            with self._once.invocation(context):
                for order in orders:
                    try:
                        fails = order["flaky"] and order["receives"] == 1
                        answer = function(order["key"], fails=fails)
                    except (OnceError, Flaky):
                        failed.add(order["id"])
                    else:
                        attempt = answer[:ATTEMPT]
                        whole = answer == result(order["key"], attempt)
                        self._journal.write("answer", key=order["key"], attempt=attempt, whole=whole)
            return failed

        return work

    # ---------------------------------------------------------------- what is counted

    def _effect(self, record: SQSRecord) -> str:
        return self._done(_key_unless_flaky(record))

    def _done(self, key: str) -> str:
        attempt = self._once.current()
        times = {"created": stamp(attempt.created), "lease": stamp(attempt.lease)}
        self._journal.write("effect", key=key, attempt=attempt.id, **times)
        return str(attempt.id)

    def _noted(self, details: Details) -> None:
        if details.error == "Held" and details.delivery is not None:
            self.held.add(details.delivery)
        fields = {"token": details.token, "attempt": details.attempt, "error": details.error}
        self._journal.write("event", event=details.event.value, **fields)


def _key_unless_flaky(record: SQSRecord) -> str:
    body = record.json_body
    if body["flaky"] and int(record.attributes.approximate_receive_count or 0) == 1:
        raise Flaky
    return str(body["id"])


def _batches(handler: Any) -> Handler:
    def work(orders: list[Order], context: Any) -> set[str]:
        try:
            answer = handler({"Records": list(_records(orders))}, context)
        except BatchProcessingError:
            return {order["id"] for order in orders}
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    return work


def _records(orders: list[Order]) -> Iterator[dict[str, Any]]:
    for order in orders:
        body = json.dumps({"id": order["key"], "flaky": order["flaky"]})
        event = sqs_event(
            body, fifo_groups=order["group"], message_ids=[order["id"]], receive_count=order["receives"]
        )
        yield from event["Records"]


def silence() -> None:
    """Let Powertools print and trace nothing."""
    os.environ["POWERTOOLS_TRACE_DISABLED"] = "true"
