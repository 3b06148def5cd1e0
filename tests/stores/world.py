"""The stores as the contract suite sees them: with their rows laid open, and a clock to turn."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.core.lifecycle import Failure, OnLapse, Presented, Record
from lambda_once.core.results import Inline
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Finish,
    Hold,
    Holder,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    new_write_id,
)
from lambda_once.stores.contract import AcquireAnswer, FinishAnswer, Store, Won
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing import FakeClock

Item = dict[str, dict[str, Any]]

KEEP = timedelta(days=14)
LEASE = timedelta(seconds=30)
BROKEN = Failure("ValueError", "no such order")


class Table(Protocol):
    """The rows under a store."""

    def item(self, token: str) -> Item | None:
        """Return the raw row, or None."""

    def forget(self, token: str) -> None:
        """Delete the row, as a person or DynamoDB's TTL does."""


class MemoryRows:
    """The rows of a `MemoryStore`; it has no raw ones."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def item(self, token: str) -> Item | None:
        record = self._store.records.get(token)
        return None if record is None else {"record": {"S": repr(record)}}

    def forget(self, token: str) -> None:
        self._store.records.pop(token, None)


class DynamoDBRows:
    """The items of a table."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name

    def item(self, token: str) -> Item | None:
        answer = self.client.get_item(
            TableName=self.name, Key={"lockToken": {"S": token}}, ConsistentRead=True
        )
        found: Item | None = answer.get("Item")
        return found

    def forget(self, token: str) -> None:
        self.client.delete_item(TableName=self.name, Key={"lockToken": {"S": token}})

    def put(self, item: Item) -> None:
        """Write a row that nobody of ours would write."""
        self.client.put_item(TableName=self.name, Item=item)


@dataclass
class World:
    """One store, its rows, and a clock; tokens of one test are no other test's."""

    store: Store
    rows: Table
    clock: FakeClock = field(default_factory=FakeClock)
    token: str = field(default_factory=lambda: f"orders/charge/{uuid.uuid4()}")

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=20))

    def ends(self, after: timedelta = LEASE) -> datetime:
        return self.clock.now() + after

    def acquisition(
        self,
        attempt: str = "a1",
        *,
        token: str | None = None,
        rule: OnLapse = OnLapse.TAKE_OVER,
        seen: AsSeen | None = None,
        fingerprint: str | None = None,
        fields: bytes | None = None,
        delivery: str | None = None,
        presented: Presented | None = None,
    ) -> Acquire:
        """An acquisition as the engine makes it under *rule*; *seen* makes it one for exactly that row."""
        mortal = rule is OnLapse.TAKE_OVER
        lease = self.ends()
        return Acquire(
            token=token or self.token,
            attempt=attempt,
            locked_by=f"orders/request-of-{attempt}",
            now=self.clock.now(),
            lease=lease,
            take=seen or Unclaimed(take_over=mortal),
            ttl=epoch_seconds(lease + KEEP) if mortal else None,
            fingerprint=fingerprint,
            delivery=delivery,
            fields=fields,
            caller=None if presented is None else presented.mark(attempt),
        )

    def acquire(self, acquisition: Acquire) -> AcquireAnswer:
        (answer,) = self.store.acquire([acquisition], self.deadline)
        return answer

    def won(self, attempt: str = "a1", **options: Any) -> Won:
        """Acquire, and insist on it."""
        answer = self.acquire(self.acquisition(attempt, **options))
        assert isinstance(answer, Won), answer
        return answer

    def write(
        self,
        change: Change,
        by: Holder | Resolver | str = "a1",
        token: str | None = None,
        write: str | None = None,
    ) -> Finish:
        """A write as the engine makes it under take_over; *write* is its id, else it gets a fresh one."""
        now = self.clock.now()
        match change:
            case Extend(lease):
                ttl: int | None = epoch_seconds(lease + KEEP)
            case Hold() | Pin():
                ttl = None
            case _:
                ttl = epoch_seconds(now + KEEP)
        writer = Holder(by) if isinstance(by, str) else by
        return Finish(token or self.token, writer, change, now, ttl, write or new_write_id(change))

    def finish(
        self, change: Change, by: Holder | Resolver | str = "a1", write: str | None = None
    ) -> FinishAnswer:
        return self.send(self.write(change, by, write=write))

    def send(self, write: Finish) -> FinishAnswer:
        (answer,) = self.store.finish([write], self.deadline)
        return answer

    def read(self, token: str | None = None) -> Record | None:
        return self.store.read(token or self.token, self.deadline)

    def row(self) -> Record:
        """The row, which is there."""
        return self.row_of(self.token)

    def row_of(self, token: str) -> Record:
        """The row of *token*, which is there."""
        record = self.read(token)
        assert record is not None
        return record

    def item(self) -> Item | None:
        return self.rows.item(self.token)


def resolver(record: Record, attempt: str = "operator") -> Resolver:
    """Somebody who writes to *record* as it was seen."""
    return Resolver(record.attempt, record.expected_completion, attempt)


PAID = Complete(Inline('{"paid": true}'))
FAILED = Complete(None, BROKEN)
HELD = Hold(BROKEN)
GIVEN_BACK = Release(BROKEN)
UNSTARTED = Release()
