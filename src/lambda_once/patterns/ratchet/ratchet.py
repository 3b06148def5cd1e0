"""
A ratchet: an item advances by its writers' timestamps, and never goes back.

A write takes effect unless the item is newer, so the same writes in any order end in the same item. A delete
leaves a tombstone, so that a late put is recognised as older. There are no partial updates, because their
result would depend on the item that they meet, and no BatchWriteItem, because it takes no conditions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

from lambda_once.core.checks import checked_flag
from lambda_once.core.clock import Clock, epoch_seconds
from lambda_once.core.threads import Exclusive
from lambda_once.dynamodb import (
    TRIES,
    ConditionFailed,
    Item,
    Sender,
    Values,
    batch_get,
    plain_item,
    typed_item,
    without_item,
)
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.ratchet import requests
from lambda_once.patterns.ratchet.requests import ANYTHING, STAMP
from lambda_once.patterns.ratchet.timestamps import Stamp, check_ahead, comparable, milliseconds, stamp_of
from lambda_once.patterns.results import Applied, Conflict, Page, Stale
from lambda_once.patterns.table import checked_key
from lambda_once.patterns.transactions import TransactItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lambda_once.observability.reporter import AnyLogger, Namespaced
    from lambda_once.patterns.ratchet.requests import Expected, RatchetWrite

TOMBSTONE_TTL: Final = timedelta(days=30)
"""14 days in a queue, 14 more after a redrive (Amazon SQS developer guide), and two to spare."""
LONGEST_TTL: Final = timedelta(days=36_500)
AHEAD: Final = timedelta(minutes=5)
PAGE: Final = 100


class Ratchet:
    """
    The items of one table, ordered by their writers' timestamps. Thread-safe; connects at first use.

    *key*: names of the partition key and, if any, the sort key. *stamp*: the attribute of the timestamp.
    *tombstone_ttl*: how long a delete is remembered; it must exceed the longest delivery of a write. *ahead*:
    how far a timestamp may be ahead of this clock; None if timestamps are other tokens that grow, such as
    versions. *names*: other names for the ratchet's own attributes, ``deleted``, ``ttl`` (the table's TTL
    attribute), ``_rank`` and ``_write``. *indexes*: the key attributes of secondary indexes, for `query`.
    *metrics*, *logger*: your Powertools objects.
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
        self._sender = Sender(client, clock)
        self._last_revision = 0
        self._lock = Exclusive("a timestamp is being made")
        self._observer = Observer(self, table, metrics, logger, key=self._table.key_of)

    # -- writing

    @observed
    def put(
        self, item: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> Applied | Stale:
        """
        Write the whole *item* unless the stored item is newer. ``values`` of the result has its timestamp.

        *ts*: the writer's timestamp of the change; a retry must give the same one, and with *expected* the
        same `Revision`. *expected*: the item as `get` returned it (None: no item), which must still be
        stored; without it `Conflict` is never raised. Raises `TooFarAhead`, `Conflict` and `Misconfigured`.
        Raises `StoreUnavailable` if it is unknown whether the item was written; with *expected* also if an
        earlier request got no response and the item is newer.
        """
        revision = self._revision(ts)
        return self._write(requests.put(self._table, item, revision.stamp, expected), revision)

    def transact_item(
        self, item: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> TransactItem:
        """
        Return what `put` writes, as an entry of a TransactWriteItems (`transaction_results`).

        With *expected*, use an entry in one transaction only. If that gets no response, read the item.
        """
        revision = self._revision(ts)
        write = requests.put(self._table, item, revision.stamp, expected)
        self._check_ahead(write.stamp, f"the write of {write.key}")
        request = write.request(revision.id)
        return TransactItem("Put", request, lambda found: self._not_written(write, found, InFlight()))

    @observed
    def delete(
        self, key: Mapping[str, object], ts: datetime | Stamp | Revision, *, expected: Expected = ANYTHING
    ) -> Applied | Stale:
        """Replace the item at *key* with a tombstone unless the item is newer. Otherwise as `put`."""
        ttl = epoch_seconds(self._sender.clock.now() + self._tombstone_ttl)
        revision = self._revision(ts)
        return self._write(requests.tombstone(self._table, key, revision.stamp, expected, ttl), revision)

    def revision(self, ts: datetime | Stamp | None = None, *, after: int | Decimal | None = None) -> Revision:
        """
        Return the timestamp of one change, for all its retries and hedged writes.

        Without *ts* it is the current time in whole milliseconds, but later than all earlier ones without
        *ts*, and later than *after*, the timestamp of the item as read (None: it had none). Raises
        `Misconfigured` without *ts* if timestamps are not times.
        """
        if ts is not None:
            return self._revision(ts)
        if self._ahead is None:
            raise Misconfigured("with ahead=None timestamps are not times: give revision() the token")
        if not isinstance(after, int | Decimal | None):
            raise Misconfigured(f"after is a {type(after).__name__}: give the timestamp of what was read")
        now = milliseconds(self._sender.clock.now())
        with self._lock.alone():
            self._last_revision = max(int(now), self._last_revision + 1, int(after or 0) + 1)
            return Revision(self, self._last_revision)

    def _revision(self, ts: object) -> Revision:
        if not isinstance(ts, Revision):
            return Revision(self, stamp_of(ts, times=self._ahead is not None))
        if ts.ratchet is not self:
            raise Misconfigured("this revision is of another Ratchet: give its stamp, or make one of this")
        return ts

    def _write(self, write: RatchetWrite, revision: Revision) -> Applied | Stale:
        self._check_ahead(write.stamp, f"the write of {write.key}")
        request = write.request(revision.id)
        sent, this = revision.sent(write), object()
        sent.open.add(this)
        try:
            self._sender.send("put_item", request)
        except ConditionFailed as failed:
            if not failed.unanswered:
                sent.open.remove(this)
            return self._not_written(write, failed.item or {}, sent)
        sent.written = True
        return Applied({self._table.own[STAMP]: write.stamp})

    def _check_ahead(self, stamp: Stamp, where: str) -> None:
        check_ahead(stamp, self._sender.clock.now(), self._ahead, where=where)

    def _not_written(
        self, write: RatchetWrite, found: Mapping[str, Mapping[str, Any]], sent: InFlight
    ) -> Applied | Stale:
        name = self._table.own[STAMP]
        stored, as_expected = None, False
        is_proof = write.expected is ANYTHING or write.expected is None  # a missing item refuses neither
        if not found and not is_proof:
            found = self._sender.existing(self._table.name, write.place) or {}
        if name in found:
            if not comparable(write.stamp, found[name]):
                raise Misconfigured(
                    f"{write.key} has the timestamp {found[name]}, which cannot be compared with"
                    f" {write.stamp!r}: use one type per table, and text of one length. Nothing was written"
                )
            stored = plain_item({name: found[name]})[name]
            self._check_ahead(stored, f"the item {write.key}")
            # An older item, which was read, isn't what refused this write.
            as_expected = write.expects(found) and not stored < write.stamp
            # expected=None accepts a tombstone, which may be newer than an earlier request of this write.
            if as_expected and write.expected is not None:
                return Stale({name: stored})
        if sent.was_written(write, stored):
            return Applied({name: write.stamp})
        if as_expected:
            return Stale({name: stored})
        if not found and is_proof:
            raise without_item(self._table.name)
        values = {name: stored} if found else {}
        raise Conflict(f"{write.key} is not as expected: read it, and decide again", values=values)

    # -- reading

    def get(self, key: Mapping[str, object], *, consistent: bool = True) -> Values | None:
        """Return the item with its timestamp; None if there is no item or only a tombstone."""
        request = {"TableName": self._table.name, "Key": self._table.key_item(key)}
        answer = self._sender.send(
            "get_item", {**request, "ConsistentRead": checked_flag("consistent", consistent)}
        )
        return self._live(answer.get("Item"))

    def batch_get(
        self, keys: Iterable[Mapping[str, object]], *, consistent: bool = True
    ) -> list[Values | None]:
        """Return `get` of each of *keys*, any number, in order. Raises `StoreUnavailable`."""
        checked_flag("consistent", consistent)
        wanted = [self._table.just_key(key) for key in keys]
        keys = {tuple(key.values()): typed_item(key) for key in wanted}.values()
        send, deadline = self._sender.send, self._sender.deadline
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
    ) -> Page[Values, Values]:
        """
        Return *limit* items of *partition* after *cursor*, a key; fewer only at the end of the partition.

        *begins_with*, *between*: only items whose sort key begins with the text, or is between the two
        values, inclusive. *index*: query that index, eventually consistent. Every page but the last is full;
        the last may be empty. Each request reads at most *limit* rows, tombstones included.
        """
        checked_flag("descending", descending)
        checked_flag("consistent", consistent)
        key = self._table.key if index is None else self._indexes.get(index, ())
        ranges = [each for each in (begins_with, between) if each is not None]
        if limit < 1 or len(key) < (2 if ranges or index is None else 1) or len(ranges) > 1:
            raise Misconfigured(
                f"limit {limit}, key {key}: query needs a sort key or an index of indexes=, a limit of 1 or"
                " more, and begins_with= or between= but not both"
            )
        checked_key({key[0]: partition})
        request = requests.query(self._table, key, partition, begins_with, between)
        request |= {} if index is None else {"IndexName": index}
        request |= {"ScanIndexForward": not descending, "ConsistentRead": consistent and index is None}
        place = dict.fromkeys((*self._table.key, *key))
        if cursor is not None and cursor.keys() != place.keys():
            raise Misconfigured(f"cursor: {', '.join(cursor)}: not the key, which is {', '.join(place)}")
        start = None if cursor is None else typed_item(cursor)
        items: list[Item] = []
        while len(items) < limit:  # DynamoDB counts rows before it leaves out tombstones
            after = {} if start is None else {"ExclusiveStartKey": start}
            answer = self._sender.send("query", {**request, **after, "Limit": limit})
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


@dataclass(slots=True)
class InFlight:
    """The requests of one revision to one item. Safe from several threads: each change of it is atomic."""

    content: object = None
    open: set[object] = field(default_factory=set)
    """Requests that may have taken effect."""
    written: bool = False
    """Whether one of them succeeded."""

    def was_written(self, write: RatchetWrite, stored: Any) -> bool:
        """
        Return whether another request of *write* took effect before the item got the timestamp *stored*.

        Raises `StoreUnavailable` if that is unknown: a request got no response, and *stored* may have
        replaced its item. Only a write that is not older can replace this one, so if *stored* is older, this
        write never took effect.
        """
        if self.written:
            return True
        if not self.open or (stored is not None and stored < write.stamp):
            return False
        raise StoreUnavailable(
            f"{write.key}: a request got no answer, and the item is newer now, or gone: it may have been "
            "written or not. Read it, and decide again"
        )


class Revision:
    """
    One change with one timestamp, ``stamp``, for any number of writes from any thread within its block.

    `put` and `delete` are those of the `Ratchet`. ``id`` is random; with ``expected=`` a write recognises
    itself by it.
    """

    def __init__(self, ratchet: Ratchet, stamp: Stamp) -> None:
        self.stamp = stamp
        self.id = os.urandom(12).hex()
        self.ratchet = ratchet
        self._sent: dict[str, InFlight] | None = {}

    def put(self, item: Mapping[str, object], *, expected: Expected = ANYTHING) -> Applied | Stale:
        return self.ratchet.put(item, self, expected=expected)

    def delete(self, key: Mapping[str, object], *, expected: Expected = ANYTHING) -> Applied | Stale:
        return self.ratchet.delete(key, self, expected=expected)

    def sent(self, write: RatchetWrite) -> InFlight:
        """
        Return the known requests to the item of *write*. Called by `Ratchet`.

        Raises `Misconfigured` for other content, which would be lost, and after the block.
        """
        known = self._sent
        if known is None:
            raise Misconfigured("this revision has ended: make a new one for a new change")
        content = (write.rank, write.expected is ANYTHING)
        sent = known.setdefault(write.key, InFlight(content))
        if sent.content != content:
            raise Misconfigured(f"{write.key}: this revision has already written other content there")
        return sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sent = None
