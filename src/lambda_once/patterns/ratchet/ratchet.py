"""
A ratchet: an item goes forward by its writers' timestamps, and never back.

Every put and every delete names when it was meant. It is written unless something newer stands, so late,
repeated and reordered writes change nothing: every permutation of them ends in the same item. A delete leaves
a tombstone, for a late put must find what it is older than.

There is no partial update, whose result would depend on what it met, and no BatchWriteItem, which takes no
conditions.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from lambda_once.core.clock import epoch_seconds
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.items import plain_item
from lambda_once.patterns.ratchet import requests
from lambda_once.patterns.ratchet.reads import Page, found_at, page_of
from lambda_once.patterns.ratchet.requests import ANYTHING, Anything, Shape
from lambda_once.patterns.ratchet.stamps import (
    Growing,
    Stamp,
    TooFarAhead,
    check_ahead,
    comparable,
    is_older,
    stamp_of,
)
from lambda_once.patterns.transport import ConditionRefused, PatternTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from lambda_once.core.clock import Clock
    from lambda_once.patterns.items import Values
    from lambda_once.patterns.ratchet.requests import Expected

__all__ = ["Attempt", "LostRace", "Page", "Ratchet", "Stale", "TooFarAhead", "Written"]

TOMBSTONE_TTL: Final = timedelta(days=30)
"""A message may wait 14 days, and 14 more after a redrive (Amazon SQS developer guide); and two in hand."""
LONGEST_TTL: Final = timedelta(days=36_500)
AHEAD: Final = timedelta(minutes=5)
PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Written:
    """What was to be written stands, or stood: by this request or by an earlier one of the same write."""

    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Stale:
    """Something newer stands: this write is over, and no repetition of it will ever change anything."""

    stamp: Stamp
    stored: Stamp
    """Of what stands. The same as *stamp*: a delete of this timestamp, or a put of greater rank."""


@dataclass(frozen=True, slots=True)
class LostRace:
    """What stands is not what was read (``expected=``): read it again, decide again, write again."""

    stamp: Stamp
    stored: Stamp | None
    """Of what stands; None: nothing, or an item that has no timestamp."""


Outcome = Written | Stale | LostRace


class Ratchet:
    """
    The items of one table, kept by their writers' timestamps. Safe from several threads.

    *key*: names of the partition key and, where there is one, the sort key. *stamp*: name of the attribute
    that keeps the timestamp. *tombstone_ttl*: how long a delete is remembered; longer than the longest a
    write may be on its way. *ahead*: by how much a timestamp may be ahead of this clock; None: timestamps
    are other tokens that grow. The table's TTL attribute must be ``ttl``. Connects at first use.
    """

    def __init__(
        self,
        table: str,
        client: Any = None,
        *,
        key: str | tuple[str, ...] = ("pk",),
        stamp: str = "ts",
        tombstone_ttl: timedelta = TOMBSTONE_TTL,
        ahead: timedelta | None = AHEAD,
        clock: Clock | None = None,
    ) -> None:
        if not timedelta(0) < tombstone_ttl <= LONGEST_TTL:
            raise Misconfigured(f"tombstone_ttl {tombstone_ttl}: give more than the longest redelivery takes")
        if ahead is not None and ahead < timedelta(0):
            raise Misconfigured(f"ahead {ahead}: give zero or more, or None for tokens that are no times")
        self._shape = Shape(table, (key,) if isinstance(key, str) else tuple(key), stamp)
        self._tombstone_ttl = tombstone_ttl
        self._ahead = ahead
        self._transport = PatternTransport(client, clock)
        self._stamps = Growing(self._transport.clock)

    # -- writing

    def put(
        self,
        item: Mapping[str, object],
        ts: datetime | Stamp | Attempt,
        *,
        expected: Expected = ANYTHING,
    ) -> Outcome:
        """
        Write the whole *item* unless something newer stands.

        *ts*: when it was meant, by its writer; a repetition must say the same, and with *expected* belong to
        the same `Attempt`. *expected*: the item as `get` gave it (None: nothing), which must still stand;
        without it `LostRace` is never the answer. Raises `TooFarAhead`, `Misconfigured` and, when it may have
        been written or not, `StoreUnavailable`: with *expected* also where a try got no answer and something
        newer stands, which may have replaced this write or beaten it.
        """
        attempt = self._attempt(ts)
        return self._write(requests.put(self._shape, item, attempt.stamp), item, attempt, expected)

    def delete(
        self,
        key: Mapping[str, object],
        ts: datetime | Stamp | Attempt,
        *,
        expected: Expected = ANYTHING,
    ) -> Outcome:
        """Leave a tombstone at *key* unless something newer stands. Else as `put`."""
        ttl = epoch_seconds(self._transport.clock.now() + self._tombstone_ttl)
        attempt = self._attempt(ts)
        write = requests.tombstone(self._shape, key, attempt.stamp, ttl)
        return self._write(write, key, attempt, expected)

    def attempt(self, ts: datetime | Stamp | None = None, *, after: Stamp | None = None) -> Attempt:
        """
        Fix the timestamp of one change once, for all its retries and hedged writes.

        Without *ts* the time of the clock, later than that of every attempt before and than *after*, the
        timestamp of what was read. Raises `Misconfigured` where timestamps are no times and *ts* is missing.
        """
        if ts is not None:
            return Attempt(self, self._stamp(ts))
        if self._ahead is None or isinstance(after, str):
            raise Misconfigured("with ahead=None timestamps are no times: give attempt() the token")
        return Attempt(self, self._stamps.next(None if after is None else int(after)))

    def _stamp(self, ts: object) -> Stamp:
        return stamp_of(ts, times=self._ahead is not None)

    def _attempt(self, ts: datetime | Stamp | Attempt) -> Attempt:
        return ts if isinstance(ts, Attempt) else Attempt(self, self._stamp(ts))

    def _write(
        self,
        write: requests.Write,
        key: Mapping[str, object],
        attempt: Attempt,
        expected: Expected,
    ) -> Outcome:
        told = f"{self._shape.key_of(key)}"
        check_ahead(write.stamp, self._transport.clock.now(), self._ahead, where=f"the write of {told}")
        request = write.request(expected, attempt.id)
        asked = attempt.note(told, write.rank, expected)
        try:
            self._transport.send("put_item", request)
        except ConditionRefused as refused:
            asked.refused(unanswered=refused.unanswered)
            return self._refused(write, refused.item or {}, expected, asked)
        asked.written()
        return Written(write.stamp)

    def _refused(
        self,
        write: requests.Write,
        standing: Mapping[str, Mapping[str, Any]],
        expected: Expected,
        asked: _Asked,
    ) -> Outcome:
        found = standing.get(self._shape.stamp)
        if found is None:
            return asked.lost(LostRace(write.stamp, None))
        if not comparable(write.stamp, found):
            raise Misconfigured(
                f"{asked.key} has the timestamp {found}, and {write.stamp!r} has no order with it: use one"
                " type a table, and text of one length. Nothing was written"
            )
        stored: Stamp = plain_item({"stamp": found})["stamp"]
        check_ahead(stored, self._transport.clock.now(), self._ahead, where=f"what stands at {asked.key}")
        if isinstance(expected, Anything) or _is(expected, standing, self._shape):
            return Stale(write.stamp, stored)
        return asked.lost(LostRace(write.stamp, stored))

    # -- reading

    def get(self, key: Mapping[str, object], *, consistent: bool = True) -> Values | None:
        """Return the item with its timestamp; None for none and for a deleted one."""
        answer = self._transport.send("get_item", requests.get(self._shape, key, consistent=consistent))
        return requests.live(answer.get("Item"))

    def batch_get(
        self, keys: Iterable[Mapping[str, object]], *, consistent: bool = True
    ) -> list[Values | None]:
        """Return what `get` would for each of *keys*, of which there may be any number, in their order."""
        wanted = [self._shape.just_key(key) for key in keys]
        found = found_at(self._transport, self._shape, wanted, consistent=consistent)
        return [found.get(tuple(key.values())) for key in wanted]

    def query(
        self,
        partition: object,
        *,
        limit: int = PAGE,
        cursor: Mapping[str, object] | None = None,
        begins_with: str | None = None,
        descending: bool = False,
        consistent: bool = True,
    ) -> Page:
        """
        Return *limit* items of *partition*, fewer only at its end, from behind *cursor* on.

        *begins_with*: only those whose sort key does. Every page but the last is full, whatever was deleted
        between; the last one may be empty. Each request reads at most *limit* rows, tombstones included.
        """
        if len(self._shape.key) == 1 or limit < 1:
            raise Misconfigured(
                f"limit {limit}, key {self._shape.key}: query needs a sort key, and 1 or more"
            )
        self._shape.key_of(dict.fromkeys(self._shape.key, "-") | {self._shape.key[0]: partition})
        start = None if cursor is None else self._shape.just_key(cursor)
        request = requests.query(
            self._shape, partition, begins_with=begins_with, descending=descending, consistent=consistent
        )
        return page_of(self._transport, self._shape, request, start, limit)


class Attempt:
    """
    One change under one timestamp, ``stamp``: from any thread, as often as need be, until its block ends.

    ``id`` is random. By it a write that expects what was read knows itself again.

        with ratchet.attempt() as attempt:
            attempt.put(item)                           # or ratchet.put(item, attempt)
    """

    def __init__(self, ratchet: Ratchet, stamp: Stamp) -> None:
        self.stamp = stamp
        self.id = os.urandom(12).hex()
        self._ratchet = ratchet
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] | None = {}

    def put(self, item: Mapping[str, object], *, expected: Expected = ANYTHING) -> Outcome:
        """Do as `Ratchet.put`, under the attempt's timestamp."""
        return self._ratchet.put(item, self, expected=expected)

    def delete(self, key: Mapping[str, object], *, expected: Expected = ANYTHING) -> Outcome:
        """Do as `Ratchet.delete`, under the attempt's timestamp."""
        return self._ratchet.delete(key, self, expected=expected)

    def note(self, key: str, rank: str | None, expected: Expected) -> _Asked:
        """
        Note that the attempt writes *key*, and return what is known of that. Called by `Ratchet`.

        Raises `Misconfigured` for another content under one timestamp, of which only one could stand, for one
        write with and without *expected*, and for an attempt that is over.
        """
        with self._lock:
            if self._asked is None:
                raise Misconfigured("this attempt is over: a new change needs an attempt of its own")
            wish = (rank, isinstance(expected, Anything))
            asked = self._asked.setdefault(key, _Asked(key, wish, self._lock))
            if asked.wish != wish:
                raise Misconfigured(f"{key}: this attempt has written something else there already")
            asked.open += 1
            return asked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._asked = None


class _Asked:
    """
    What is known of one write of an attempt: of all its requests, in flight, answered and not.

    ``open``: requests of which it is not known whether they were done.
    """

    def __init__(self, key: str, wish: tuple[str | None, bool], lock: threading.Lock) -> None:
        self.key = key
        self.wish = wish
        self.open = 0
        self._stood = False
        self._lock = lock

    def written(self) -> None:
        """One request was done."""
        with self._lock:
            self._stood = True

    def refused(self, *, unanswered: bool) -> None:
        """One request was refused; *unanswered*: an earlier try of it may have been done."""
        with self._lock:
            self.open -= not unanswered

    def lost(self, race: LostRace) -> Outcome:
        """
        Return *race*, or `Written` where another request was done before somebody else's write.

        Raises `StoreUnavailable` where one may have been: what stands now may stand on top of it. Whatever
        replaced this write is not older; so where something older stands, this write never stood.
        """
        with self._lock:
            if self._stood:
                return Written(race.stamp)
            if self.open == 0 or (race.stored is not None and is_older(race.stored, race.stamp)):
                return race
        raise StoreUnavailable(
            f"{self.key}: a request got no answer, and now something newer stands, or nothing does: it may"
            " have been written or not. Read it, and decide again"
        )


def _is(expected: Mapping[str, object] | None, standing: Mapping[str, Any], shape: Shape) -> bool:
    """Tell whether *standing* is what was expected, so that only the timestamp can be the reason."""
    item = requests.live(standing)
    if expected is None or item is None:
        return expected is None and item is None
    same = requests.rank_of(shape.content(expected)) == requests.rank_of(shape.content(item))
    return same and item[shape.stamp] == expected[shape.stamp]
