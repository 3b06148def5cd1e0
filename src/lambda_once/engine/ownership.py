"""
The ownership of a token by an attempt, and its writes.

The engine uses these. The user's code gets `engine.attempt.Attempt`. An ownership is the one value of the
engine that changes, since the work may extend, transact or complete while it runs, on any thread.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING, assert_never

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.fields import checksums
from lambda_once.core.lifecycle import OnLapse, Record
from lambda_once.core.writes import (
    Acquire,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Keep,
    Pin,
    Release,
    Write,
    acquired_row,
    new_write_id,
)
from lambda_once.engine.waiting import Signal
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from lambda_once.engine.invocation import Call
    from lambda_once.observability.events import Event
    from lambda_once.stores.contract import Won


class Sending:
    """A transaction that is being sent. Wait for its answer in a thread or on an event loop."""

    def __init__(self) -> None:
        self.over = False
        """Whether it was answered, or a finish stopped waiting for it."""
        self._changed = Signal()

    def end(self) -> None:
        """Mark it as answered and wake all waiters."""
        self.over = True
        self._changed.wake()

    def wait(self, seconds: float) -> None:
        """Return once it is answered, or after *seconds*. Later calls return at once."""
        with self._changed.condition:
            self._changed.condition.wait_for(lambda: self.over, seconds)
        self.end()

    async def wait_async(self, seconds: float) -> None:
        """Do what `wait` does, on the event loop."""
        await self._changed.wait_async(seconds, unless=lambda: self.over)
        self.end()


_one_at_a_time = threading.RLock()
"""Serialises the start of a transaction and of a finish of the same attempt."""


class Ownership:
    """
    One acquisition of a token: its call, attempt id, fence and lease, and how it finished.

    It changes while the work runs: the lease is extended, a transaction is sent, the attempt finishes.
    """

    def __init__(self, call: Call, acquire: Acquire, won: Won) -> None:
        self.call = call
        self.acquire = acquire
        self.fence = won.fence
        self.generation = won.generation
        """The row's `Record.generation`."""
        self.lease = won.lease or acquire.lease
        self.completed: tuple[object] | None = None
        """The stored result in a 1-tuple, once `Attempt.transact` or `Attempt.complete` has written it."""
        self.finished: Event | None = None
        """How it finished; None before that, or if its finish could not be written."""
        self.over = False
        """Whether its work is over, whatever the work has left running (`core.context`)."""
        self._sending: Sending | None = None
        self._finishing = False
        """Whether its finish has begun; no transaction is sent from then on."""

    @property
    def token(self) -> str:
        return self.call.token

    @property
    def attempt_id(self) -> str:
        return self.acquire.attempt_id

    @property
    def created(self) -> datetime:
        return self.acquire.now

    def begin_transaction(self) -> Sending:
        """Begin its transaction. Raises `Misconfigured` for a second one, and after a finish has begun."""
        with _one_at_a_time:
            if self._finishing:
                message = (
                    f"transact was called after token {self.token} was finished; nothing was written. "
                    "Call it before complete, and await it before the function returns"
                )
                raise Misconfigured(message, token=self.token)
            if self._sending is not None:
                message = "transact was called twice in one attempt; put all writes into one call"
                raise Misconfigured(message, token=self.token)
            self._sending = Sending()
            return self._sending

    def close(self) -> Sending | None:
        """Refuse transactions from now on; return the one that is being sent, or None."""
        with _one_at_a_time:
            self._finishing = True
            return None if self._sending is None or self._sending.over else self._sending

    def record(self) -> Record:
        """Return the row as this attempt acquired it."""
        row = acquired_row(None, self.acquire)
        return row._replace(fence=self.fence, expected_completion=self.lease, generation=self.generation)

    def write(self, change: Change, now: datetime) -> Write:
        """Return *change* as a write of this attempt at *now*."""
        return written_by(self.call, self.attempt_id, change, now)


def written_by(call: Call, attempt_id: str, change: Change, now: datetime) -> Write:
    """Return *change* as a write of the attempt *attempt_id*, with a write id if it ends the attempt."""
    ttl = ttl_after(change, call, now)
    fields = checksums(call.compared.hashed, call.token) if isinstance(change, Complete) else None
    return Write(call.token, Holder(attempt_id), change, now, ttl, new_write_id(change), fields=fields)


def ttl_after(change: Change, call: Call, now: datetime) -> int | None:
    """
    Return the row's ttl after *change*; None for a token that is held or may have to be (guarantee 6).

    An unfinished row expires ``keep`` after its lease: if it were deleted near its lease, the fence could
    decrease. A copied outcome expires with the record it was copied from, or earlier (guarantee 4).
    """
    match change:
        case Complete(expires=datetime() as expires):
            return epoch_seconds(min(now + call.keep, expires))
        case Complete() | Release() | Keep():
            return epoch_seconds(now + call.keep)
        case Extend(lease):
            return epoch_seconds(lease + call.keep) if call.settings.rule is OnLapse.TAKE_OVER else None
        case Hold() | Pin():
            return None
        case _ as unreachable:
            assert_never(unreachable)
