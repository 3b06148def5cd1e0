"""A store as the suite uses it, with access to its rows, and a clock that only the test advances."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Failure, OnLapse, Record
from lambda_once.core.results import Inline
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    Write,
    new_write_id,
)
from lambda_once.stores.contract import AcquireAnswer, Store, Won, WriteAnswer
from lambda_once.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEEP = timedelta(days=14)
LEASE = timedelta(seconds=30)
BROKEN = Failure("ValueError", "no such order")


class Rows(Protocol):
    """The rows of a store, and the items of other tables that it can write."""

    def item(self, token: str) -> Any:
        """Return the stored row, or None. It is compared before and after a refused write."""
        ...

    def forget(self, token: str) -> None:
        """Delete the row, as an operator or TTL does."""
        ...

    def order(self, key: str) -> Mapping[str, Any] | None:
        """Return a write for `Store.transact` that creates item *key*; None if the store writes no items."""
        ...

    def ordered(self, key: str) -> bool:
        """Return whether item *key* exists."""
        ...


@dataclass
class World:
    """One store, its rows, and a clock. Each test has its own tokens."""

    store: Store
    rows: Rows
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
        delivery: str | None = None,
        presented: Presented | None = None,
        trace: str | None = None,
    ) -> Acquire:
        """Return an acquisition as the engine makes it under *rule*; with *seen*, of exactly that row."""
        mortal = rule is OnLapse.TAKE_OVER
        lease = self.ends()
        return Acquire(
            token=token or self.token,
            attempt_id=attempt,
            locked_by=f"orders/request-of-{attempt}",
            now=self.clock.now(),
            lease=lease,
            take=seen or Unclaimed(take_over=mortal),
            ttl=epoch_seconds(lease + KEEP) if mortal else None,
            fingerprint=fingerprint,
            delivery=delivery,
            caller=None if presented is None else presented.mark(attempt),
            trace=trace,
        )

    def acquire(self, acquisition: Acquire) -> AcquireAnswer:
        (answer,) = self.store.acquire([acquisition], self.deadline)
        return answer

    def won(self, attempt: str = "a1", **options: Any) -> Won:
        """Acquire a free token."""
        answer = self.acquire(self.acquisition(attempt, **options))
        assert isinstance(answer, Won), answer
        return answer

    def write(
        self,
        change: Change,
        by: Holder | Resolver | str = "a1",
        token: str | None = None,
        write: str | None = None,
        fields: bytes | None = None,
    ) -> Write:
        """Return a write as the engine makes it under take_over; *write* is its id, by default a new one."""
        now = self.clock.now()
        match change:
            case Extend(lease):
                ttl: int | None = epoch_seconds(lease + KEEP)
            case Hold() | Pin.PIN:
                ttl = None
            case _:
                ttl = epoch_seconds(now + KEEP)
        writer = Holder(by) if isinstance(by, str) else by
        made = write or new_write_id(change)
        return Write(token or self.token, writer, change, now, ttl, made, fields=fields)

    def finish(
        self, change: Change, by: Holder | Resolver | str = "a1", write: str | None = None
    ) -> WriteAnswer:
        return self.send(self.write(change, by, write=write))

    def send(self, write: Write) -> WriteAnswer:
        (answer,) = self.store.write([write], self.deadline)
        return answer

    def read(self, token: str | None = None) -> Record | None:
        return self.store.read(token or self.token, self.deadline)

    def chunks(self, record: Record) -> tuple[bytes, ...] | None:
        return self.store.chunks(record, self.deadline)

    def transact(self, write: Write | None, items: Sequence[Mapping[str, Any]] = ()) -> WriteAnswer:
        return self.store.transact(write, items, self.deadline)

    def row(self) -> Record:
        """Return the row, which must exist."""
        return self.row_of(self.token)

    def row_of(self, token: str) -> Record:
        """Return the row of *token*, which must exist."""
        record = self.read(token)
        assert record is not None
        return record

    def item(self) -> Any:
        return self.rows.item(self.token)

    def orders(self, name: str = "order") -> Sequence[Mapping[str, Any]]:
        """Return the items of a transaction: one, or none if the store writes no items."""
        order = self.rows.order(f"{self.token}-{name}")
        return [] if order is None else [order]

    def ordered(self, name: str = "order") -> bool:
        """Return whether the items of `orders` were written."""
        return self.rows.ordered(f"{self.token}-{name}")


def resolver(record: Record, attempt: str = "operator") -> Resolver:
    """Return a third party that writes to *record* as it was read."""
    return Resolver.of(record, attempt)


PAID = Complete(Inline('{"paid": true}'))
FAILED = Complete(None, BROKEN)
HELD = Hold(BROKEN)
SEALED = Complete(Inline(b"sealed:\0\xff"))
HELD_SEALED = Hold(Failure("ValueError", "(sealed)", b"sealed:\0\xff"))
RELEASED = Release(BROKEN)
UNSTARTED = Release()
