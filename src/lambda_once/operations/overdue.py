"""What is overdue and what is held: counted exactly, and walked through in bounded steps, oldest first."""

from __future__ import annotations

import json
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.clock import stamp
from lambda_once.core.record import State
from lambda_once.stores.rows import Item, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.operations.table import TokenTable
    from lambda_once.stores.contract import Unfinished

PAGE = 100
"""Entries of one query: as many as one BatchGetItem reads (API reference). A partition has one in memory."""

Place = dict[str, tuple[str, str]]
"""How far a walk has come: by partition of the index the lease and the token of the last entry looked at."""


class Census(NamedTuple):
    """What is overdue and held at one time, by partition of the index; empty ones are left out."""

    overdue: Mapping[str, int]
    held: Mapping[str, int]
    oldest: datetime | None
    """The end of the earliest lease that is over."""

    @property
    def missing(self) -> int:
        return sum(self.overdue.values())

    @property
    def waiting(self) -> int:
        return sum(self.held.values())

    def beyond(self, shards: int) -> tuple[int, int]:
        """Return how many of them stand in shards that *shards* does not have, and the highest shard."""
        both = [*self.overdue.items(), *self.held.items()]
        found = [(shard_of(partition), count) for partition, count in both]
        highest = max((shard for shard, _ in found), default=-1)
        return sum(count for shard, count in found if shard >= shards), highest


def shard_of(partition: str) -> int:
    """Return the number of the shard; -1 for the bare status, which every configuration reads."""
    suffix = partition.partition("_")[2]
    return int(suffix) if suffix else -1


def census(table: TokenTable, before: datetime, deadline: Deadline) -> Census:
    """
    Count the leases that ended before *before* and what is held, in every shard that there may be.

    Exact as the index is, which follows the table by less than a second mostly. Raises as
    `TokenTransport.asked`.
    """
    overdue = table.index.count(State.IN_PROGRESS, deadline, before)
    held = table.index.count(State.HELD, deadline)

    def first(partition: str) -> tuple[Unfinished, ...]:
        return table.index.page(partition, deadline, before, limit=1).entries

    pages = table.transport.each(list(overdue), first)
    leases = [entry.expected_completion for page in pages for entry in page]
    return Census(overdue, held, min(leases, default=None))


def walk(
    table: TokenTable, partitions: Iterable[str], place: Place, before: datetime, deadline: Deadline
) -> Iterator[Unfinished]:
    """Yield the overdue entries after *place*, the earliest lease first. Raises as `TokenTransport.asked`."""
    starts = [(partition, _start(partition, place, before)) for partition in partitions]
    pages = [_entries(table, partition, start, before, deadline) for partition, start in starts]
    yield from merge(*pages, key=lambda entry: entry.expected_completion)


def advanced(place: Place, entries: Iterable[Unfinished]) -> Place:
    """Return *place* after *entries*, which were walked in their order."""
    return place | {_partition(entry): (stamp(entry.expected_completion), entry.token) for entry in entries}


def place_text(place: Place) -> str:
    return json.dumps(place, separators=(",", ":"))


def place_from(told: str | None) -> Place:
    """Read what `place_text` wrote; the beginning where that is none: it costs the order, and no more."""
    try:
        read = {
            str(partition): (lease, token) for partition, (lease, token) in json.loads(told or "").items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
    sound = all(isinstance(part, str) and part for place in read.values() for part in place)
    return read if sound else {}


def _entries(
    table: TokenTable, partition: str, start: Item | None, before: datetime, deadline: Deadline
) -> Iterator[Unfinished]:
    while True:
        page = table.index.page(partition, deadline, before, start, PAGE)
        yield from page.entries
        if page.cursor is None:
            return
        start = page.cursor


def _start(partition: str, place: Place, before: datetime) -> Item | None:
    """
    Return the key of the index after which to go on. It need not stand for a row any more.

    DynamoDB refuses a start outside the range that is asked for: a clock that was set back begins anew.
    """
    lease, token = place.get(partition, ("", ""))
    if not "" < lease < stamp(before):
        return None
    return {"status": text(partition), "expectedCompletion": text(lease), "lockToken": text(token)}


def _partition(entry: Unfinished) -> str:
    return entry.state.value if entry.shard is None else f"{entry.state.value}_{entry.shard}"
