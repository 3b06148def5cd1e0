"""Machines that share one token table, each with its own clock and its own code."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ReadTimeoutError

from lambda_once import Once, OnceError
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import (
    Change,
    Holder,
    Write,
    new_write_id,
)
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table, lambda_context, using
from tests.kit import tables
from tests.kit.played import played
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.mounted import mounted, over_http

TABLE = "tokens"
LEASE = timedelta(seconds=30)
ORDER = {"order": "5"}
Handler = Callable[[dict[str, Any], Any], Any]
Work = Callable[[], Any]


@dataclass
class Cluster:
    """One table, and machines around it. Unless a test says otherwise their clocks are one."""

    client: Any
    """A client with botocore's events."""
    stack: ExitStack
    engine: StrictEngine
    clock: FakeClock = field(default_factory=FakeClock)
    ran: list[str] = field(default_factory=list)
    """Who ran, in order."""
    updates: list[dict[str, Any]] = field(default_factory=list)
    """The arguments of every UpdateItem that was sent: a delayed copy is one of these sent again."""
    sender: Any = None
    """The client of the stores."""
    _losing: int = 0

    @property
    def store(self) -> DynamoDBStore:
        return DynamoDBStore(TABLE, self.sender)

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=20))

    def once(self, store: Any = None, clock: FakeClock | None = None) -> Once:
        """One machine's package."""
        once = Once(service="shop")
        self.stack.enter_context(using(once, self.store if store is None else store, clock or self.clock))
        return once

    def machine(
        self,
        who: str,
        work: Work | None = None,
        *,
        store: Any = None,
        clock: FakeClock | None = None,
        **options: Any,
    ) -> Handler:
        """One machine's handler: it notes that it ran, does *work* and answers what that gives, or *who*."""
        once = self.once(store, clock)

        @once.event(key="order", name="charge", **{"lease": LEASE} | options)
        def handler(event: dict[str, Any], _context: Any) -> Any:
            self.ran.append(who)
            return who if work is None else work()

        self.onces[who] = once
        return handler

    onces: dict[str, Once] = field(default_factory=dict)

    def attempt(self, who: str) -> Any:
        """The attempt that *who* runs, asked from inside of it."""
        return self.onces[who].current()

    def crash(self, **options: Any) -> None:
        """Let a machine acquire the token, start, and be gone without a word."""
        once = self.once()
        begin = once.begin("5", name="charge", **{"lease": LEASE} | options)
        contextvars.copy_context().run(begin.__enter__)

    def lapse(self) -> None:
        """Let the lease of the token's owner end."""
        self.clock.advance(LEASE.total_seconds() + 1)

    @property
    def token(self) -> str:
        return "shop/charge/5"

    def row(self) -> Record:
        record = self.store.read(self.token, self.deadline)
        assert record is not None, "the row is gone"
        return record

    def late(self, attempt: str, change: Change, ttl: int | None = 2_000_000_000) -> None:
        """Let a write of *attempt* arrive that was under way for long."""
        self.store.write([self.write(attempt, change, ttl)], self.deadline)

    def write(self, attempt: str, change: Change, ttl: int | None) -> Write:
        return Write(self.token, Holder(attempt), change, self.clock.now(), ttl, new_write_id(change))

    def again(self, update: dict[str, Any]) -> None:
        """Let a copy of *update* arrive that was under way for long."""
        try:
            self.client.update_item(**update)
        except self.client.exceptions.ConditionalCheckFailedException:
            return

    def sweep(self, *, now: datetime | None = None) -> None:
        """Delete what is past its ttl, as DynamoDB does."""
        seconds = (now or self.clock.now()).timestamp()
        for item in self.client.scan(TableName=TABLE)["Items"]:
            if int(item.get("ttl", {"N": "9999999999"})["N"]) <= seconds:
                self.client.delete_item(TableName=TABLE, Key={"lockToken": item["lockToken"]})

    def lose_answers(self, many: int = 1) -> None:
        """Let the next *many* writes be done, and their answers be lost for ten minutes."""
        self._losing = many

    def noted(self, update: dict[str, Any]) -> None:
        """Note the arguments of an UpdateItem."""
        self.updates.append(dict(update))

    def answered(self, operation: str) -> None:
        """Lose the answer to *operation* if it is the turn of one: it is done, whatever it was."""
        if self._losing and operation in ("update_item", "transact_write_items"):
            self._losing -= 1
            self.engine.forget_transactions()
            raise ReadTimeoutError(endpoint_url="the token table")


class _Heard:
    """A client without botocore's events: what it sends is noted, and its answers get lost."""

    def __init__(self, client: Any, machines: Cluster) -> None:
        self._client = client
        self._machines = machines

    def __getattr__(self, method: str) -> Any:
        send = getattr(self._client, method)

        def call(**arguments: Any) -> Any:
            if method == "update_item":
                self._machines.noted(arguments)
            try:
                return send(**arguments)
            finally:
                self._machines.answered(method)

        return call


def deliver(handler: Handler, remaining_ms: int = 900_000, request_id: str | None = None) -> Any:
    """Deliver the order to *handler*, in an invocation of its own."""
    context = lambda_context(remaining_ms=remaining_ms, request_id=request_id)
    return contextvars.copy_context().run(handler, dict(ORDER), context)


def tried(handler: Handler, request_id: str | None = None) -> Any:
    """Deliver the order to *handler*; return its answer, or the package's refusal."""
    try:
        return deliver(handler, request_id=request_id)
    except OnceError as refusal:
        return refusal


@contextmanager
def cluster(sender: str = tables.BOTO3) -> Iterator[Cluster]:
    """A table of the strict engine without machines. Of `tables.CLIENTS` the stores have *sender*."""
    with mounted() as engine, ExitStack() as stack:
        client = over_http(tables.boto3s(f"http://dynamodb.{tables.REGION}.amazonaws.com"))
        create_table(client, TABLE)
        found = Cluster(client, stack, engine)
        if sender == tables.BOTO3:
            found.sender = client
            client.meta.events.register(
                "provide-client-params.dynamodb.UpdateItem", lambda params, **_: found.noted(params)
            )
            # The engine answers in this event, too, and before: what is lost is the answer, never the write.
            client.meta.events.register_last(
                "before-send",
                lambda event_name, **_: found.answered(xform_name(event_name.rpartition(".")[2])),
            )
        else:
            other = tables.CLIENTS[sender](stack.enter_context(played()))
            stack.callback(other.close)
            found.sender = _Heard(other, found)
        yield found


Scenario = Callable[[Cluster], None]
"""Raises AssertionError where its guarantee is broken."""


def breaks(scenario: Scenario) -> None:
    """Play *scenario* on a new cluster with a guard taken away: it must notice."""
    with pytest.raises(AssertionError), cluster() as machines:
        scenario(machines)
