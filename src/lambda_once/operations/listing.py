"""What is unfinished, what is stuck first: read from the index, counted, and looked at again where asked."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.record import State
from lambda_once.dynamodb.paging import MOST_KEYS
from lambda_once.operations.entries import Entry, Status, listed, read
from lambda_once.operations.overdue import census as stuck
from lambda_once.operations.overdue import shard_of
from lambda_once.stores.rows import record_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.operations.table import TokenTable

LONG = 600.0
"""Seconds in which a request of a long list is tried again; each by itself for a few seconds only."""

UNFINISHED = frozenset({Status.OVERDUE, Status.HELD, Status.IN_PROGRESS})


class Census(NamedTuple):
    """How many tokens stand where, at one time."""

    in_progress: int
    """With a lease that is alive."""
    overdue: int
    held: int
    oldest: datetime | None
    """The end of the earliest lease that is over."""
    beyond: int
    """Of all of them, those in shards that the configured number does not have."""


def unfinished(table: TokenTable, wanted: frozenset[Status], now: datetime) -> Iterator[Entry]:
    """
    List what the index has: the overdue first, then the held, then the rest, each by its lease.

    Pages are fetched as they are asked for. Raises `StoreUnavailable` and `Misconfigured`.
    """
    deadline = table.deadline(LONG)
    _ask_once(table, deadline)
    alive: Iterator[Entry] = iter(())
    if wanted & {Status.OVERDUE, Status.IN_PROGRESS}:
        before = None if Status.IN_PROGRESS in wanted else now
        seen = table.index.unfinished(State.IN_PROGRESS, deadline, before)
        alive = (listed(entry, now) for entry in seen)
    first: Entry | None = None
    for entry in alive:
        if entry.status is not Status.OVERDUE:
            first = entry
            break
        if Status.OVERDUE in wanted:
            yield entry
    if Status.HELD in wanted:
        yield from (listed(entry, now) for entry in table.index.unfinished(State.HELD, deadline, None))
    if first is not None:
        yield first
        yield from alive


def confirmed(
    table: TokenTable,
    entries: Iterable[Entry],
    now: datetime,
    only: frozenset[Status] = UNFINISHED,
    at_once: int = MOST_KEYS,
) -> Iterator[Entry]:
    """
    Read the rows of the entries in one of the states *only* consistently, *at_once* of them by one request.

    What has moved on since the index was told is left out; entries in other states pass as they are.
    """
    remaining = iter(entries)
    while batch := list(islice(remaining, at_once)):
        rows = table.rows(entry.token for entry in batch if entry.status in only)
        for entry in batch:
            if entry.status not in only:
                yield entry
            elif entry.token in rows:
                row = read(record_of(rows[entry.token]), now, entry.shard)
                if row.status is entry.status:
                    yield row


def census(table: TokenTable, now: datetime) -> Census:
    """Count what is unfinished in the whole table. Raises `StoreUnavailable` and `Misconfigured`."""
    deadline = table.deadline(LONG)
    _ask_once(table, deadline)
    running = table.index.count(State.IN_PROGRESS, deadline)
    found = stuck(table, now, deadline)
    both = [*running.items(), *found.held.items()]
    return Census(
        in_progress=max(sum(running.values()) - found.missing, 0),
        overdue=found.missing,
        held=found.waiting,
        oldest=found.oldest,
        beyond=sum(count for partition, count in both if shard_of(partition) >= table.shards),
    )


def _ask_once(table: TokenTable, deadline: Deadline) -> None:
    """Ask one question before two hundred: a table that is not there, or does not answer, is said at once."""
    table.index.page(State.IN_PROGRESS.value, deadline, limit=1)
