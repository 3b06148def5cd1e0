"""
The writes to a token as values, and the effect of each on a row.

`after_acquire` and `after_write` have the write conditions in plain Python, `stores.requests` has them as
DynamoDB expressions; one contract suite compares the two.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self, assert_never

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds
from lambda_once.core.lifecycle import Decision, Failure, Record, State, new_attempt_id, with_decision
from lambda_once.core.results import Chunks, Inline, Parts, Stored, Unavailable

if TYPE_CHECKING:
    from datetime import datetime


class Unclaimed(NamedTuple):
    """Acquire a token that has no row or has expired."""

    take_over: bool
    """
    Also acquire a token that another attempt released, or that lapsed and has no differing fingerprint
    (`OnLapse.TAKE_OVER`). A lapsed one with a caller is acquired `AsSeen`, after comparing the callers.
    """


class AsSeen(NamedTuple):
    """Acquire the row only if it is as it was read: released, or lapsed at *lease*."""

    attempt_id: str
    lease: datetime | None
    """The lease of the lapsed attempt; None: the row was released."""


class Acquire(NamedTuple):
    """One acquisition of a token. Retries of it have the same attempt id."""

    token: str
    attempt_id: str
    locked_by: str
    now: datetime
    lease: datetime
    take: Unclaimed | AsSeen
    ttl: int | None
    fingerprint: str | None = None
    delivery: str | None = None
    known: bool = False
    """The store may skip the try that requires no row, which a row would refuse. Not a condition."""
    likely: bool = False
    """A row probably exists: the store may read it during the try. Not a condition."""
    caller: str | None = None
    """The mark of the presented credential, with the attempt id as salt. Not a condition."""
    trace: str | None = None
    """The ``traceparent`` of the span in which it is sent. Not a condition."""

    @property
    def first_fence(self) -> int:
        """The fence if there is no row: from the clock, so that it grows across deletion and expiry."""
        return epoch_milliseconds(self.now) + 1


BROUGHT: Final = tuple(name for name in Acquire._fields if name in Record._fields)
"""Fields that an acquisition copies to the row unchanged."""
_brought = attrgetter(*BROUGHT)


class Holder(NamedTuple):
    """The writer is the attempt that holds the token, or writes only while *attempt* holds it."""

    attempt_id: str


class Resolver(NamedTuple):
    """
    The writer is a third party: a probe, the watchdog or an operator.

    It writes only if the row is unchanged: in *state*, with this attempt and this lease. The row gets a new
    attempt id and fence + 1, so that no late attempt takes it for its own. An earlier outcome is cleared,
    together with the checksums of the payload's fields, from which a single short field could be guessed.
    Only `Keep` leaves the attempt id and the outcome.
    """

    seen: str
    lease: datetime
    attempt_id: str
    state: State = State.IN_PROGRESS
    fence: int = 0
    """The fence of a complete row when it was read. It detects a `Keep` since then."""

    @classmethod
    def of(cls, record: Record, attempt: str) -> Self:
        """Return a third party that read *record* and gives the row the id *attempt*."""
        return cls(record.attempt_id, record.expected_completion, attempt, record.state, record.fence)


class Complete(NamedTuple):
    """The work is done. *error* is set if it failed permanently (STORE)."""

    result: Inline | Chunks | Unavailable | None
    error: Failure | None = None
    expires: datetime | None = None
    """When the record that it was copied from expires; None: it is not a copy, or that does not expire."""


class Hold(NamedTuple):
    """Hold the token for manual review."""

    error: Failure


@dataclass(frozen=True, slots=True)  # a NamedTuple would equal `Hold`
class Release:
    """
    Release the token: the work was not done, and the next delivery may retry.

    Without a ttl (`Write.ttl`) the index lists it until an attempt runs or it is resolved: after a release by
    a third party there may be no further delivery.
    """

    error: Failure | None = None


class Extend(NamedTuple):
    """Extend the lease. A delayed copy of the write never shortens it."""

    lease: datetime


class Pin(Enum):
    """Remove the ttl of an unfinished row, so that it does not expire before its manual review."""

    PIN = "pin"


@dataclass(frozen=True, slots=True)
class Keep:
    """
    Change only how long the outcome of a complete row is replayed.

    The keys of its parts contain the row's attempt id and write id, so both stay the same. The ttl of the
    parts is extended before that of the row.
    """

    write_id: str | None
    """The write id of the row."""
    parts: int = 0


End = Complete | Hold | Release
_ENDS: Final = (Complete, Hold, Release)  # isinstance of a union is slow
"""A change that ends an attempt."""
Change = End | Extend | Pin | Keep


def new_write_id(change: Change) -> str | None:
    """Return 64 random bits in hex for a change that ends an attempt, else None."""
    return os.urandom(8).hex() if isinstance(change, _ENDS) else None


@dataclass(frozen=True, slots=True)
class Write:
    """
    One write to a token after its acquisition. *ttl* is the row's ttl after it.

    A write that ends an attempt has an id, the same for its retries, stored in the row and in the keys of a
    result's parts. It identifies a write whose response was lost, among others of the same attempt
    (guarantee 3). Raises ValueError for an end without an id, for an id without an end, and for a `Keep` that
    would change the attempt id of the row.
    """

    token: str
    by: Holder | Resolver
    change: Change
    now: datetime
    ttl: int | None
    id: str | None
    """From `new_write_id`; None for Extend, Pin and Keep, which do not end an attempt."""
    decisions: tuple[Decision, ...] = ()
    """The row's decisions, this one last. Empty for writes of an attempt, which keep the row's decisions."""
    parts_written: int = 0
    """How many parts of a large result, from the first, earlier tries have written. Not a condition."""
    fields: bytes | None = None
    """The checksums of the payload's fields (`core.fields`), which a completion leaves. Not a condition."""

    def __post_init__(self) -> None:
        if (self.id is not None) is not isinstance(self.change, _ENDS):
            raise ValueError(f"{type(self.change).__name__} with the write id {self.id!r}")
        if isinstance(self.change, Keep) and not (
            isinstance(self.by, Resolver) and self.by.attempt_id == self.by.seen and self.decisions
        ):
            raise ValueError("only a decision keeps an outcome, under the attempt id of the row")

    @property
    def attempt_id(self) -> str:
        """The row's attempt id after this write."""
        return self.by.attempt_id


def resolving(
    record: Record, change: End | Keep, ttl: int | None, now: datetime, decision: Decision | None = None
) -> Write:
    """
    Return the write of a third party that read *record*. It is refused if the row has changed since.

    It has a new attempt id, as has *decision*; only `Keep` uses the id of the row.
    """
    attempt_id = record.attempt_id if isinstance(change, Keep) else new_attempt_id()
    decisions: tuple[Decision, ...] = ()
    if decision is not None:
        decisions = with_decision(record.decisions, decision._replace(attempt_id=attempt_id))
    return Write(
        record.token, Resolver.of(record, attempt_id), change, now, ttl, new_write_id(change), decisions
    )


def after_acquire(record: Record | None, acquisition: Acquire) -> Record | None:
    """Return the row after *acquisition*, or None if its condition refuses it."""
    return acquired_row(record, acquisition) if _may_take(record, acquisition) else None


def acquired_row(record: Record | None, acquisition: Acquire) -> Record:
    """Return the row that *acquisition* creates, or makes of *record*."""
    brought = dict(zip(BROUGHT, _brought(acquisition), strict=True))
    return Record(
        state=State.IN_PROGRESS,
        fence=acquisition.first_fence if record is None else record.fence + 1,
        created=acquisition.now,
        expected_completion=acquisition.lease,
        decisions=() if record is None else record.decisions,
        # The attempt id of the first acquisition serves as generation, as it is random.
        generation=(None if record is None else record.generation) or acquisition.attempt_id,
        **brought,
    )


def _may_take(record: Record | None, acquisition: Acquire) -> bool:
    if isinstance(acquisition.take, AsSeen):
        return record is not None and _is_as_seen(record, acquisition.take)
    if record is None:
        return True
    if record.state in (State.COMPLETE, State.RELEASED):
        free = (
            acquisition.take.take_over
            and record.state is State.RELEASED
            and record.attempt_id != acquisition.attempt_id
        )
        return free or (record.ttl is not None and record.ttl <= epoch_seconds(acquisition.now))
    return (
        acquisition.take.take_over
        and record.lapsed(acquisition.now)
        and record.attempt_id != acquisition.attempt_id
        and (acquisition.fingerprint is None or record.fingerprint in (None, acquisition.fingerprint))
        and record.caller is None
    )


def _is_as_seen(record: Record, seen: AsSeen) -> bool:
    if record.attempt_id != seen.attempt_id:
        return False
    if seen.lease is None:
        return record.state is State.RELEASED
    return record.state is State.IN_PROGRESS and record.expected_completion == seen.lease


def after_write(record: Record | None, write: Write) -> Record | None:
    """Return the row after *write*, or None if its condition refuses it."""
    if record is None or not _may_finish(record, write):
        return None
    row = record._replace(
        ttl=write.ttl,
        decisions=write.decisions or record.decisions,
        write_id=write.id or record.write_id,
    )
    if isinstance(write.by, Resolver):
        row = row._replace(attempt_id=write.by.attempt_id, fence=record.fence + 1)
        if clears(write):
            row = row._replace(actual_completion=None, stored=None, error=None, fields=None)
    match write.change:
        case Complete(result, error):
            return row._replace(
                state=State.COMPLETE,
                actual_completion=write.now,
                stored=stored_form(result),
                error=error,
                generation=None,
                fields=write.fields,
            )
        case Hold(error):
            return row._replace(state=State.HELD, actual_completion=write.now, error=error)
        case Release(error):
            lease = write.now if write.ttl is None else row.expected_completion
            return row._replace(state=State.RELEASED, error=error, expected_completion=lease)
        case Extend(lease):
            return row._replace(expected_completion=lease)
        case Pin() | Keep():
            return row
        case _ as unreachable:
            assert_never(unreachable)


def clears(write: Write) -> bool:
    """Return whether *write* clears the outcome and the checksums of an ended attempt."""
    resolves = isinstance(write.by, Resolver) and write.by.state is not State.IN_PROGRESS
    return resolves and not isinstance(write.change, Keep)


def _may_finish(record: Record, write: Write) -> bool:
    if isinstance(write.by, Resolver):
        seen = (write.by.state, write.by.seen, write.by.lease)
        if (record.state, record.attempt_id, record.expected_completion) != seen:
            return False
        return record.state is not State.COMPLETE or record.fence == write.by.fence
    if record.state is not State.IN_PROGRESS:
        return False
    if record.attempt_id != write.by.attempt_id:
        return False
    return not isinstance(write.change, Extend) or record.expected_completion < write.change.lease


def made_by(record: Record | None, write: Write) -> bool:
    """
    Return whether *record*, which refused *write*, is the result of *write* itself (guarantee 3).

    A write that ends an attempt is identified only by its own id, as another write of the same attempt, such
    as a transaction, leaves the same attempt id. Content and time are not compared. An extension counts as
    written if our attempt is in progress with that lease or a later one, a pin if it is without a ttl, and a
    `Keep` if the row has its decisions and its ttl.
    """
    if record is None:
        return False
    ours = record.in_progress_by(write.attempt_id)
    match write.change:
        case Complete() | Hold() | Release():
            return record.write_id == write.id
        case Extend(lease):
            return ours and record.expected_completion >= lease
        case Pin():
            return ours and record.ttl is None
        case Keep():
            return (record.decisions, record.ttl) == (write.decisions, write.ttl)
        case _ as unreachable:
            assert_never(unreachable)


def stored_form(result: Inline | Chunks | Unavailable | None) -> Stored:
    """Return *result* as the row stores it. Chunks are in rows of their own; the row has their number."""
    return Parts(len(result.parts)) if isinstance(result, Chunks) else result
