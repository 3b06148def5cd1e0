"""
The writes to a token as values, and what each does to a row.

`acquired` and `finished` are the meaning of the write conditions in plain Python; `stores.requests`
says the same in DynamoDB's expressions, and one contract suite holds the two together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, assert_never

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds
from lambda_once.core.record import Failure, Record, Resolution, State
from lambda_once.core.results import Chunks, Parts

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.results import Inline, Stored, Unavailable


def new_attempt_id() -> str:
    """Return 128 random bits in hex, from the kernel at each call: two restored snapshots never share one."""
    return os.urandom(16).hex()


class Unclaimed(NamedTuple):
    """Acquire what nobody claims: no row, or one that is finished and expired."""

    take_over: bool
    """
    Also what another attempt released, and what lapsed and does not clash (`OnLapse.TAKE_OVER`). What lapsed
    and has a caller is acquired `AsSeen`: only who has seen the row can tell whose it is.
    """


class AsSeen(NamedTuple):
    """Acquire exactly the row that was looked at: released, or lapsed at *lease*."""

    attempt: str
    lease: datetime | None
    """The lease of the lapsed attempt that a probe was asked about; None: the row was released."""


class Acquire(NamedTuple):
    """One attempt's wish for a token. *attempt* is fresh for each acquisition and kept over its retries."""

    token: str
    attempt: str
    locked_by: str
    now: datetime
    lease: datetime
    take: Unclaimed | AsSeen
    ttl: int | None
    fingerprint: str | None = None
    delivery: str | None = None
    known: bool = False
    """Whether a row was seen: the store may save a try that asks for none. No condition."""
    likely: bool = False
    """Whether there is a row, most likely: the store may read it while it tries. No condition."""
    fields: bytes | None = None
    """What a later payload is compared with in messages (`core.fields`). No condition."""
    caller: str | None = None
    """The mark of what the request presented, under *attempt*. No condition."""


class Holder(NamedTuple):
    """The writer is the attempt that holds the token (or one who writes only while *attempt* holds it)."""

    attempt: str


class Onlooker(NamedTuple):
    """
    The writer is somebody else: a probe, the watchdog, an operator.

    It writes a fresh attempt id and fence + 1, so that an attempt that wakes up later does not take
    the refusal for a write of its own, and only to the row as it was seen: in *state*, with this attempt
    and this lease. What an earlier outcome left on the row is cleared.
    """

    seen: str
    lease: datetime
    attempt: str
    state: State = State.IN_PROGRESS


@dataclass(frozen=True, slots=True)
class Complete:
    """The work is done. *error* is set where it failed for good (STORE)."""

    result: Inline | Chunks | Unavailable | None
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A person must look."""

    error: Failure


@dataclass(frozen=True, slots=True)
class Release:
    """Not done: the next delivery may try again."""

    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Extend:
    """Still at work: the lease ends later. It only ever lengthens; a delayed copy must not shorten it."""

    lease: datetime


@dataclass(frozen=True, slots=True)
class Pin:
    """Take the ttl off an unfinished row, so that it waits for a person however long that takes."""


End = Complete | Hold | Release
"""What ends an attempt."""
Change = End | Extend | Pin


def new_write_id(change: Change) -> str | None:
    """Return 64 random bits in hex, to tell apart the writes that may end one attempt; None for no end."""
    return os.urandom(8).hex() if isinstance(change, End) else None


@dataclass(frozen=True, slots=True)
class Finish:
    """
    One write to a token after its acquisition. *ttl* is what the row has afterwards.

    One that ends an attempt bears an id, made once and kept over its retries. The row keeps it, and parts of
    a result are keyed by it: a write whose answer was lost is recognised, and no other write of the same
    attempt is taken for it (guarantee 3).
    Raises ValueError for an end without an id, or an id without an end.
    """

    token: str
    by: Holder | Onlooker
    change: Change
    now: datetime
    ttl: int | None
    write: str | None
    """Of `new_write_id`; None for Extend and Pin, which end nothing."""
    note: Resolution | None = None
    """Who decided this, and why; None where an attempt writes for itself: an older note stays."""
    parts_written: int = 0
    """How many parts of a large result, from the first on, an earlier try has written. No condition."""

    def __post_init__(self) -> None:
        if (self.write is not None) is not isinstance(self.change, End):
            raise ValueError(f"{type(self.change).__name__} with the write id {self.write!r}")

    @property
    def attempt(self) -> str:
        """The attempt id that the row bears after this write."""
        return self.by.attempt


def acquired(record: Record | None, wish: Acquire) -> Record | None:
    """Return the row after *wish*, or None where its condition refuses it."""
    if not _may_take(record, wish):
        return None
    fence = epoch_milliseconds(wish.now) if record is None else record.fence
    return Record(
        token=wish.token,
        state=State.IN_PROGRESS,
        attempt=wish.attempt,
        fence=fence + 1,
        locked_by=wish.locked_by,
        created=wish.now,
        expected_completion=wish.lease,
        delivery=wish.delivery,
        fingerprint=wish.fingerprint,
        ttl=wish.ttl,
        resolution=None if record is None else record.resolution,
        fields=wish.fields,
        caller=wish.caller,
    )


def _may_take(record: Record | None, wish: Acquire) -> bool:
    if isinstance(wish.take, AsSeen):
        return record is not None and _is_as_seen(record, wish.take)
    if record is None:
        return True
    if record.state in (State.COMPLETE, State.RELEASED):
        free = wish.take.take_over and record.state is State.RELEASED and record.attempt != wish.attempt
        return free or (record.ttl is not None and record.ttl <= epoch_seconds(wish.now))
    return (
        wish.take.take_over
        and record.lapsed(wish.now)
        and record.attempt != wish.attempt
        and not record.clashes(wish.fingerprint)
        and record.caller is None
    )


def _is_as_seen(record: Record, seen: AsSeen) -> bool:
    if record.attempt != seen.attempt:
        return False
    if seen.lease is None:
        return record.state is State.RELEASED
    return record.state is State.IN_PROGRESS and record.expected_completion == seen.lease


def acquired_by(record: Record | None, wish: Acquire) -> bool:
    """Tell whether *record*, found when *wish* was refused, is what *wish* or an earlier try had made."""
    return record is not None and record.state is State.IN_PROGRESS and record.attempt == wish.attempt


def finished(record: Record | None, write: Finish) -> Record | None:
    """Return the row after *write*, or None where its condition refuses it."""
    if record is None or not _may_finish(record, write):
        return None
    row = record._replace(
        ttl=write.ttl,
        resolution=write.note or record.resolution,
        write=write.write or record.write,
    )
    if isinstance(write.by, Onlooker):
        row = row._replace(attempt=write.by.attempt, fence=record.fence + 1)
        if write.by.state is not State.IN_PROGRESS:
            row = row._replace(actual_completion=None, stored=None, error=None)
    match write.change:
        case Complete(result, error):
            return row._replace(
                state=State.COMPLETE,
                actual_completion=write.now,
                stored=stored_form(result),
                error=error,
            )
        case Hold(error):
            return row._replace(state=State.HELD, actual_completion=write.now, error=error)
        case Release(error):
            return row._replace(state=State.RELEASED, error=error)
        case Extend(lease):
            return row._replace(expected_completion=lease)
        case Pin():
            return row
        case _ as unreachable:
            assert_never(unreachable)


def _may_finish(record: Record, write: Finish) -> bool:
    if isinstance(write.by, Onlooker):
        seen = (write.by.state, write.by.seen, write.by.lease)
        return (record.state, record.attempt, record.expected_completion) == seen
    if record.state is not State.IN_PROGRESS:
        return False
    if record.attempt != write.by.attempt:
        return False
    return not isinstance(write.change, Extend) or record.expected_completion < write.change.lease


def made_by(record: Record | None, write: Finish) -> bool:
    """
    Tell whether *record*, found when *write* was refused, is what *write* itself had made.

    A response lost on the wire must never turn an attempt against itself (guarantee 3). What ended the
    attempt is our own only if the row bears the id of this very write: our attempt id, in whatever state, may
    stand there by another write of ours, such as a transaction's. No content and no time is compared. An
    extension or a pin is done where our attempt is in progress with so long a lease, or without a ttl.
    """
    if record is None:
        return False
    ours = record.state is State.IN_PROGRESS and record.attempt == write.attempt
    match write.change:
        case Complete() | Hold() | Release():
            return record.write == write.write
        case Extend(lease):
            return ours and record.expected_completion >= lease
        case Pin():
            return ours and record.ttl is None
        case _ as unreachable:
            assert_never(unreachable)


def stored_form(result: Inline | Chunks | Unavailable | None) -> Stored:
    """Return what the row says of *result*: chunks are written beside it and only counted on it."""
    return Parts(len(result.parts)) if isinstance(result, Chunks) else result
