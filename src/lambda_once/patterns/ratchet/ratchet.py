"""
A ratchet: an item goes forward by its writers' timestamps, and never back.

A write takes effect unless the item is newer, so every permutation of the same writes ends in the same item.
A delete leaves a tombstone, so that a late put finds what it is older than. There is no partial update, whose
result would depend on the item that it meets, and no BatchWriteItem, which takes no conditions.
"""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from lambda_once.core.clock import Clock, epoch_seconds
from lambda_once.dynamodb.retry import TRIES, batch_get
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.items import Item, Values, plain_item, typed_item
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.ratchet import requests
from lambda_once.patterns.ratchet.requests import ANYTHING, STAMP, Anything, typed_content
from lambda_once.patterns.ratchet.timestamps import (
    Stamp,
    Timestamps,
    check_ahead,
    comparable,
    is_older,
    stamp_of,
)
from lambda_once.patterns.results import Applied, Conflict, Stale
from lambda_once.patterns.transactions import TransactItem
from lambda_once.patterns.transport import ConditionFailed, PatternTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lambda_once.observability.reporter import AnyLogger, Namespaced
    from lambda_once.patterns.ratchet.requests import Expected, RatchetWrite
    from lambda_once.patterns.table import PatternTable

TOMBSTONE_TTL: Final = timedelta(days=30)
"""A message may wait 14 days, and 14 more after a redrive (Amazon SQS developer guide); and two in hand."""
LONGEST_TTL: Final = timedelta(days=36_500)
AHEAD: Final = timedelta(minutes=5)
PAGE: Final = 100


class Page(NamedTuple):
    """Some of the items of a partition, in the order of their sort key."""

    items: list[Values]
    cursor: Values | None
    """The key after which the next page begins; None where there is none."""


class Ratchet:
    """
    The items of one table, ordered by their writers' timestamps. Thread-safe; connects at first use.

    *key*: names of the partition key and, if any, the sort key. *stamp*: the attribute of the timestamp.
    *tombstone_ttl*: how long a delete is remembered; more than the longest delivery of a write. *ahead*: how
    far a timestamp may be ahead of this clock; None: timestamps are other tokens that grow. *names*: other
    names for the ratchet's own attributes, ``deleted``, ``ttl`` (the table's TTL attribute), ``_rank`` and
    ``_write``. *indexes*: the key attributes of secondary indexes, for `query`. *metrics*, *logger*: your
    Powertools objects.
    """

    def __init__(  # noqa: PLR0913  (options of one object, all but two by name)
        self,
        table: str,
        client: Any = None,
        *,
        key: str | tuple[str, ...] = ("pk",),
        stamp: str = "ts",
        tombstone_ttl: timedelta = TOMBSTONE_TTL,
        ahead: timedelta | None = AHEAD,
        names: Mapping[str, str] | None = None,
        indexes: Mapping[str, tuple[str, ...]] | None = None,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not timedelta(0) < tombstone_ttl <= LONGEST_TTL:
            raise Misconfigured(f"tombstone_ttl {tombstone_ttl}: give more than the longest redelivery takes")
        if ahead is not None and ahead < timedelta(0):
            raise Misconfigured(f"ahead {ahead}: give zero or more, or None for tokens that are not times")
        self._table = requests.ratchet_table(table, key, stamp, names)
        self._indexes = indexes or {}
        self._tombstone_ttl = tombstone_ttl
        self._ahead = ahead
        self._transport = PatternTransport(client, clock)
        self._timestamps = Timestamps(self._transport.clock)
        self._observer = Observer(self, table, metrics, logger, key=self._table.key_of)

    # -- writing

    @observed
    def put(
        self, item: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> Applied | Stale:
        """
        Write the whole *item* unless the stored item is newer. ``values`` of the result has its timestamp.

        *ts*: the writer's timestamp of the change; a repetition must have the same, and with *expected* the
        same `Revision`. *expected*: the item as `get` returned it (None: no item), which must still be
        stored; without it `Conflict` is never raised. Raises `TooFarAhead`, `Conflict`, `Misconfigured`;
        `StoreUnavailable` if it is unknown whether it was written: with *expected* also if an earlier request
        got no response and the item is newer.
        """
        revision = self._revision(ts)
        return self._write(requests.put(self._table, item, revision.stamp), item, revision, expected)

    def transact_item(
        self, item: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> TransactItem:
        """
        Return what `put` writes as an entry of a TransactWriteItems (`transaction_results`).

        With *expected* use an entry in one transaction only: if that got no response, read the item.
        """
        revision = self._revision(ts)
        write = requests.put(self._table, item, revision.stamp)
        sent = InFlight(self._in_time(write, item), None, threading.Lock())
        request = write.request(expected, revision.id)
        return TransactItem("Put", request, lambda found: self._not_written(write, found, expected, sent))

    @observed
    def delete(
        self, key: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> Applied | Stale:
        """Leave a tombstone at *key* unless the item is newer. Otherwise as `put`."""
        ttl = epoch_seconds(self._transport.clock.now() + self._tombstone_ttl)
        revision = self._revision(ts)
        write = requests.tombstone(self._table, key, revision.stamp, ttl)
        return self._write(write, key, revision, expected)

    def revision(self, ts: datetime | Stamp | None = None, *, after: Stamp | None = None) -> Revision:
        """
        Fix the timestamp of one change, for all its retries and hedged writes.

        Without *ts* it is the time of the clock, later than that of every earlier revision and than *after*,
        the timestamp of what was read. Raises `Misconfigured` without *ts* if timestamps are not times.
        """
        if ts is not None:
            return self._revision(ts)
        if self._ahead is None or isinstance(after, str):
            raise Misconfigured("with ahead=None timestamps are not times: give revision() the token")
        return Revision(self, self._timestamps.next(None if after is None else int(after)))

    def _revision(self, ts: object) -> Revision:
        return ts if isinstance(ts, Revision) else Revision(self, stamp_of(ts, times=self._ahead is not None))

    def _write(
        self, write: RatchetWrite, key: Mapping[str, object], revision: Revision, expected: Expected
    ) -> Applied | Stale:
        shown = self._in_time(write, key)
        request = write.request(expected, revision.id)
        sent = revision.note(shown, write.rank, expected)
        try:
            self._transport.send("put_item", request)
        except ConditionFailed as failed:
            sent.refused(unanswered=failed.unanswered)
            return self._not_written(write, failed.item or {}, expected, sent)
        sent.written()
        return Applied({self._table.own[STAMP]: write.stamp})

    def _in_time(self, write: RatchetWrite, key: Mapping[str, object]) -> str:
        """Return *key* as text. Raises `TooFarAhead`."""
        shown = f"{self._table.key_of(key)}"
        check_ahead(write.stamp, self._transport.clock.now(), self._ahead, where=f"the write of {shown}")
        return shown

    def _not_written(
        self, write: RatchetWrite, item: Mapping[str, Mapping[str, Any]], expected: Expected, sent: InFlight
    ) -> Applied | Stale:
        name = self._table.own[STAMP]
        found = item.get(name)
        stored: Stamp | None = None
        if found is not None:
            if not comparable(write.stamp, found):
                raise Misconfigured(
                    f"{sent.key} has the timestamp {found}, which cannot be compared with {write.stamp!r}: "
                    "use one type per table, and text of one length. Nothing was written"
                )
            stored = plain_item({name: found})[name]
            check_ahead(stored, self._transport.clock.now(), self._ahead, where=f"the item {sent.key}")
            if isinstance(expected, Anything) or _is(expected, item, self._table):
                return Stale({name: stored})
        if sent.was_written(write.stamp, stored):
            return Applied({name: write.stamp})
        values = {} if stored is None else {name: stored}
        raise Conflict(f"{sent.key} is not as expected: read it, and decide again", values=values)

    # -- reading

    def get(self, key: Mapping[str, object], *, consistent: bool = True) -> Values | None:
        """Return the item with its timestamp; None if there is none, or a tombstone."""
        answer = self._transport.send("get_item", requests.get(self._table, key, consistent=consistent))
        return self._live(answer.get("Item"))

    def batch_get(
        self, keys: Iterable[Mapping[str, object]], *, consistent: bool = True
    ) -> list[Values | None]:
        """Return `get` of each of *keys*, any number, in their order. Raises `StoreUnavailable`."""
        wanted = [self._table.just_key(key) for key in keys]
        keys = {tuple(key.values()): typed_item(key) for key in wanted}.values()
        send, deadline = self._transport.send, self._transport.deadline
        items = batch_get(send, self._table.name, keys, deadline, TRIES, ConsistentRead=consistent)
        keyed = ((self._table.key_of(plain_item(item)), item) for item in items)
        found = {tuple(key.values()): self._live(item) for key, item in keyed}
        return [found.get(tuple(key.values())) for key in wanted]

    def query(
        self,
        partition: object,
        *,
        index: str | None = None,
        begins_with: str | None = None,
        between: tuple[object, object] | None = None,
        limit: int = PAGE,
        cursor: Mapping[str, object] | None = None,
        descending: bool = False,
        consistent: bool = True,
    ) -> Page:
        """
        Return *limit* items of *partition* after *cursor*; fewer only at its end.

        *begins_with*, *between*: only items whose sort key begins with it, or is from one to the other.
        *index*: query that index, eventually consistent. Every page but the last is full; the last may be
        empty. Each request reads at most *limit* rows, tombstones included.
        """
        ranges: list[object] = [each for each in (begins_with, between) if each is not None]
        place = self._place(index, ranges, limit)
        self._table.key_of(dict.fromkeys(self._table.key, "-") | {self._table.key[0]: partition})
        request = requests.query(
            self._table,
            partition,
            index=None if index is None else (index, self._indexes[index]),
            begins_with=begins_with,
            between=between,
            descending=descending,
            consistent=consistent,
        )
        if cursor is not None and cursor.keys() != place.keys():
            raise Misconfigured(f"cursor: {', '.join(cursor)}: not the key, which is {', '.join(place)}")
        start = None if cursor is None else typed_item(cursor)
        items: list[Item] = []
        while len(items) < limit:  # DynamoDB counts rows before it leaves out tombstones
            after = {} if start is None else {"ExclusiveStartKey": start}
            answer = self._transport.send("query", {**request, **after, "Limit": limit})
            items += answer["Items"]
            start = answer.get("LastEvaluatedKey")
            if start is None:
                break
        shown = [each for each in map(self._live, items[:limit]) if each is not None]
        if len(items) > limit:  # the last row that was read is beyond this page
            return Page(shown, {name: shown[-1][name] for name in place})
        return Page(shown, None if start is None else plain_item(start))

    def _live(self, item: Mapping[str, Mapping[str, Any]] | None) -> Values | None:
        return requests.live(self._table, item)

    def _place(self, index: str | None, ranges: list[object], limit: int) -> dict[str, None]:
        """Return the attributes that name the end of a page. Raises `Misconfigured` for a query."""
        keys = self._table.key if index is None else self._indexes.get(index, ())
        if limit < 1 or not keys or len(keys) < (2 if ranges or index is None else 1) or len(ranges) > 1:
            raise Misconfigured(
                f"limit {limit}, key {keys}: query needs a sort key or an index of indexes=, a limit of 1 or"
                " more, and begins_with= or between= but not both"
            )
        return dict.fromkeys((*self._table.key, *keys))


class InFlight:
    """All requests of one write of a revision; ``open``: how many may have taken effect."""

    def __init__(self, key: str, content: tuple[str | None, bool] | None, lock: threading.Lock) -> None:
        self.key = key
        self.content = content
        self.open = 0
        self._written = False
        self._lock = lock

    def written(self) -> None:
        with self._lock:
            self._written = True

    def refused(self, *, unanswered: bool) -> None:
        """Note that one request was refused; *unanswered*: an earlier try of it may have taken effect."""
        with self._lock:
            self.open -= not unanswered

    def was_written(self, stamp: Stamp, stored: Stamp | None) -> bool:
        """
        Return whether another request of this write took effect before the item became *stored*.

        Raises `StoreUnavailable` where one may have: then *stored* may have replaced it. Whatever replaced
        this write is not older; so where *stored* is older, this write never took effect.
        """
        with self._lock:
            if self._written:
                return True
            if self.open == 0 or (stored is not None and is_older(stored, stamp)):
                return False
        raise StoreUnavailable(
            f"{self.key}: a request got no answer, and the item is newer now, or gone: it may have been "
            "written or not. Read it, and decide again"
        )


class Revision:
    """
    One change under one timestamp, ``stamp``: written from any thread, any number of times, within its block.

    `put` and `delete` are those of the `Ratchet`. ``id`` is random; with ``expected=`` a write recognises
    itself by it.
    """

    def __init__(self, ratchet: Ratchet, stamp: Stamp) -> None:
        self.stamp = stamp
        self.id = os.urandom(12).hex()
        self._ratchet = ratchet
        self._lock = threading.Lock()
        self._sent: dict[str, InFlight] | None = {}

    def put(self, item: Mapping[str, object], *, expected: Expected = ANYTHING) -> Applied | Stale:
        return self._ratchet.put(item, self, expected=expected)

    def delete(self, key: Mapping[str, object], *, expected: Expected = ANYTHING) -> Applied | Stale:
        return self._ratchet.delete(key, self, expected=expected)

    def note(self, key: str, rank: str | None, expected: Expected) -> InFlight:
        """
        Note that *key* is written, and return what is known of its requests. Called by `Ratchet`.

        Raises `Misconfigured` for other content, which would be lost, and after the block.
        """
        with self._lock:
            if self._sent is None:
                raise Misconfigured("this revision has ended: make a new one for a new change")
            content = (rank, isinstance(expected, Anything))
            sent = self._sent.setdefault(key, InFlight(key, content, self._lock))
            if sent.content != content:
                raise Misconfigured(f"{key}: this revision has already written other content there")
            sent.open += 1
            return sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._sent = None


def _is(expected: Mapping[str, object] | None, found: Mapping[str, Any], table: PatternTable) -> bool:
    """Return whether *found* is what was expected, so that the timestamp is the only reason for a refusal."""
    item = requests.live(table, found)
    if expected is None or item is None:
        return expected is None and item is None
    same = requests.rank_of(typed_content(table, expected)) == requests.rank_of(typed_content(table, item))
    return same and item[table.own[STAMP]] == expected[table.own[STAMP]]
