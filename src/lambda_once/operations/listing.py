"""
Unfinished tokens by the index: listed, counted, and walked through in bounded steps.

The index is eventually consistent, so what it lists is read again before anything is done about it
(`confirmed`). A walk has a bound and a place to go on from: a run of the watchdog ends before its deadline,
however many tokens there are.
"""

from __future__ import annotations

import json
from datetime import timedelta
from heapq import merge
from itertools import compress, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from lambda_once.core.clock import Deadline, stamp
from lambda_once.core.lifecycle import State
from lambda_once.dynamodb.retry import MOST_KEYS
from lambda_once.errors import Misconfigured
from lambda_once.operations.tokens import UNFINISHED, Status, token_status
from lambda_once.stores.index import partitions
from lambda_once.stores.row import TOKEN, Entry, Item, listed, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.table import TokenTable

LONG = 600.0
"""Seconds for all requests of a long list; each request is retried for at most `PATIENCE`."""
PAGE = 100
"""Entries of one query: as many as one BatchGetItem reads (API reference). Each partition keeps one page."""

MOST_NAMED: Final = 20
"""Most malformed rows that the command line and the watchdog name; they count the others."""

Place = dict[str, tuple[str, str]]
"""How far a walk has come: by partition of the index, lease and token of the last entry checked."""


# -- lists


def unfinished(
    table: TokenTable, wanted: frozenset[Status], now: datetime, malformed: list[Misconfigured]
) -> Iterator[Entry]:
    """
    List the tokens in the index: overdue, held, in progress, released by a decision, each ordered by lease.

    Pages are fetched on demand; *malformed* gets what cannot be read, each with its token and the attribute,
    and the others are listed. Raises `StoreUnavailable` and `Misconfigured`.
    """
    deadline = table.deadline(LONG)
    _fail_early(table, deadline)
    running: Iterator[Entry] = iter(())
    if wanted & {Status.OVERDUE, Status.IN_PROGRESS}:
        before = None if Status.IN_PROGRESS in wanted else now
        running = table.index.unfinished(State.IN_PROGRESS, deadline, before, malformed)
    first: Entry | None = None
    for entry in running:
        if not entry.record.lapsed(now):
            first = entry
            break
        if Status.OVERDUE in wanted:
            yield entry
    if Status.HELD in wanted:
        yield from table.index.unfinished(State.HELD, deadline, None, malformed)
    if first is not None:
        yield first
        yield from running
    if Status.RELEASED in wanted:
        yield from table.index.unfinished(State.RELEASED, deadline, None, malformed)


def confirmed(
    table: TokenTable,
    entries: Iterable[Entry],
    now: datetime,
    malformed: list[Misconfigured],
    only: frozenset[Status] = UNFINISHED,
    page: int = MOST_KEYS,
) -> Iterator[Entry]:
    """
    Replace the entries whose status is in *only* by their rows, read consistently, *page* in one request.

    Entries whose status has changed since are left out, and what has run since it was released, or is past
    its ttl; entries in other states pass unchanged. *malformed* gets rows that cannot be read.
    """
    remaining = iter(entries)
    while batch := list(islice(remaining, page)):
        statuses = [token_status(entry.record, now) for entry in batch]
        wanted = [status in only for status in statuses]
        rows = table.rows(entry.record.token for entry in compress(batch, wanted))
        for entry, status, is_read in zip(batch, statuses, wanted, strict=True):
            item = rows.get(entry.record.token)
            if not is_read:
                yield entry
            elif (
                item is not None
                and (record := readable(item, malformed, table.record)) is not None
                and token_status(record, now) is status
                and not record.expired(now)
                and (status is not Status.RELEASED or record.attempt_id == entry.record.attempt_id)
            ):
                yield entry._replace(record=record)


def readable(
    item: Item, malformed: list[Misconfigured], read: Callable[[Item], Record] = record_of
) -> Record | None:
    """Return the row *item*; if it cannot be read, None, and pass the error to *malformed*."""
    try:
        return read(item)
    except Misconfigured as unreadable:
        malformed.append(unreadable)
        return None


# -- counts


NEWLY: Final = timedelta(minutes=15)
"""
How long an event counts as new.

It is a span of time, not "since the last run": a run that is missed hides no token.
"""
RUNS_AGAIN: Final = timedelta(minutes=5)
"""How long a released token has to run before it counts: a redrive in progress rings no alarm."""
LEFT_OVER: Final = timedelta(hours=1)
"""How long after its release a token is left over: queues and API clients have retried by then."""


MOST_PAGES: Final = 20
"""
Pages in which the watchdog counts what is in progress, over all partitions, but one for each at least.

A page of the index is 1 MB, some 5,000 tokens. More would take its time for what an alarm knows by then.
"""

COUNTED: Final = UNFINISHED | {Status.RELEASED}


class Counts(NamedTuple):
    """How many tokens there are, by partition of the index; without empty ones, and what was not counted."""

    overdue: Mapping[str, int]
    held: Mapping[str, int]
    oldest: datetime | None
    """The end of the earliest lease that has expired."""
    in_progress: Mapping[str, int] = MappingProxyType({})
    """With a lease that has not expired."""
    released: Mapping[str, int] = MappingProxyType({})
    """Released by a decision, and not run since."""
    in_progress_beyond: bool = False
    """Whether more may be in progress than were counted."""

    def of(self, status: Status) -> int:
        by_status = {
            Status.OVERDUE: self.overdue,
            Status.HELD: self.held,
            Status.IN_PROGRESS: self.in_progress,
            Status.RELEASED: self.released,
        }
        return sum(by_status[status].values())


class Recent(NamedTuple):
    """What alarms that rearm count: newly overdue, newly released by a decision, and left over since one."""

    newly_overdue: int
    """Leases that ended within `NEWLY`."""
    newly_released: int
    """Released by a decision in the `NEWLY` that ended `RUNS_AGAIN` ago, and not run since."""
    left_over: int
    """Released by a decision longer ago than `LEFT_OVER`, and not run since."""


def count_stuck(
    table: TokenTable,
    now: datetime,
    before: datetime,
    deadline: Deadline,
    besides: AbstractSet[str] = frozenset(),
) -> Counts:
    """
    Count leases that ended before *before* or are alive, and held tokens, in every partition.

    Of leases that are alive, tokens in *besides* aren't counted.

    Exact as the index is, which usually follows the table in less than a second; of leases that are alive
    `MOST_PAGES` are read. An empty partition takes one query. Raises as `TokenTransport.asked`.
    """
    count = table.index.count_some
    running = list(count(partitions(State.IN_PROGRESS), deadline, most=1, limit=1)[0])
    overdue, oldest = _overdue(table, running, before, deadline)
    held = table.index.count(partitions(State.HELD), deadline)
    most = max(1, MOST_PAGES // max(1, len(running)))
    alive, beyond = count(running, deadline, since=now, most=most, besides=besides)
    return Counts(overdue, held, oldest, alive, in_progress_beyond=beyond)


def count_recent(
    table: TokenTable, stuck: Counts, now: datetime, before: datetime, deadline: Deadline
) -> Recent:
    """
    Count what is new; *stuck* and *before* are those of `count_stuck`. Raises as that.

    One query for each partition of released tokens, and a few more for those that are not empty.
    """
    count, since = table.index.count, now - NEWLY
    overdue = count(list(stuck.overdue), deadline, before, since)
    released = list(count(partitions(State.RELEASED), deadline))
    newly = count(released, deadline, now - RUNS_AGAIN, since - RUNS_AGAIN)
    left = count(released, deadline, now - LEFT_OVER)
    return Recent(sum(overdue.values()), sum(newly.values()), sum(left.values()))


def count_unfinished(table: TokenTable, now: datetime, wanted: frozenset[Status] = COUNTED) -> Counts:
    """
    Count all tokens in the states *wanted*. Raises `StoreUnavailable` and `Misconfigured`.

    One query for each partition of a state, and a few more for those of what is overdue.
    """
    deadline = table.deadline(LONG)
    _fail_early(table, deadline)

    def count(state: State, *statuses: Status) -> Mapping[str, int]:
        return table.index.count(partitions(state), deadline) if wanted & {*statuses} else {}

    running = count(State.IN_PROGRESS, Status.OVERDUE, Status.IN_PROGRESS)
    overdue, oldest = _overdue(table, list(running), now, deadline)
    alive = {partition: number - overdue.get(partition, 0) for partition, number in running.items()}
    return Counts(
        overdue,
        count(State.HELD, Status.HELD),
        oldest,
        {partition: number for partition, number in alive.items() if number > 0},
        released=count(State.RELEASED, Status.RELEASED),
    )


def _overdue(
    table: TokenTable, running: Sequence[str], before: datetime, deadline: Deadline
) -> tuple[Mapping[str, int], datetime | None]:
    """Count the overdue tokens in the partitions *running*; return that and the end of the earliest lease."""
    overdue = table.index.count(running, deadline, before)

    def first(partition: str) -> tuple[Entry, ...]:
        page = table.index.page(partition, deadline, before, limit=1)
        if page.malformed:  # its lease may be anything: the next one that can be read is the oldest
            page = table.index.page(partition, deadline, before, page.cursor, PAGE)
        return page.entries[:1]

    pages = table.transport.each(list(overdue), first)
    leases = [entry.record.expected_completion for page in pages for entry in page]
    return overdue, min(leases, default=None)


def _fail_early(table: TokenTable, deadline: Deadline) -> None:
    """Send one query before many: a table that is missing or does not respond fails at once."""
    table.index.page(partitions(State.IN_PROGRESS)[0], deadline, limit=1)


# -- a walk in steps


def walk(
    table: TokenTable,
    wanted: Iterable[str],
    place: Place,
    before: datetime,
    deadline: Deadline,
    malformed: list[Misconfigured],
) -> Iterator[Entry]:
    """
    Yield the overdue entries of the partitions *wanted* after *place*, the earliest lease first.

    *malformed* gets what cannot be read. No page is fetched once *deadline* has passed. Raises as
    `TokenTransport.asked`.
    """
    starts = [(partition, _start(partition, place, before)) for partition in wanted]
    pages = [_entries(table, partition, start, before, deadline, malformed) for partition, start in starts]
    yield from merge(*pages, key=lambda entry: entry.record.expected_completion)


def advanced(place: Place, entries: Iterable[Entry]) -> Place:
    """Return *place* after *entries*, in the order of the walk."""
    return place | {
        listed(entry.record.state, entry.record.token): (
            stamp(entry.record.expected_completion),
            entry.record.token,
        )
        for entry in entries
    }


def place_text(place: Place) -> str:
    return json.dumps(place, separators=(",", ":"))


def place_from(stored: str | None) -> Place:
    """Parse what `place_text` wrote; the beginning if it is malformed, which costs the order and no more."""
    try:
        read = {
            str(partition): (lease, token) for partition, (lease, token) in json.loads(stored or "").items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
    valid = all(isinstance(part, str) and part for place in read.values() for part in place)
    return read if valid else {}


def _entries(
    table: TokenTable,
    partition: str,
    start: Item | None,
    before: datetime,
    deadline: Deadline,
    malformed: list[Misconfigured],
) -> Iterator[Entry]:
    while True:
        page = table.index.page(partition, deadline, before, start, PAGE)
        malformed += page.malformed
        yield from page.entries
        if page.cursor is None:
            return
        start = page.cursor


def _start(partition: str, place: Place, before: datetime) -> Item | None:
    """
    Return the key of the index after which to continue; its row may be gone.

    DynamoDB refuses a start outside the range of the query: after a clock was set back, start anew.
    """
    lease, token = place.get(partition, ("", ""))
    if not "" < lease < stamp(before):
        return None
    return {"listed": {"S": partition}, "expectedCompletion": {"S": lease}, TOKEN: {"S": token}}
