"""
Sums that are added to once: the update and the id of what caused it, in one conditional write.

    points = Ledger("points", key="customer", window=timedelta(days=14))
    points.add("cust_77", {"balance": 10}, id=message_id)                        # Entry.APPLIED
    points.add("cust_77", {"balance": 10}, id=message_id)                        # Entry.DUPLICATE
    points.add("cust_77", {"balance": -50}, id=other_id, floor={"balance": 0})   # raises BelowFloor
    points.get("cust_77")                                                        # {"balance": 10}
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.dynamodb.retry import back_off
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.items import Item, Values, plain_item
from lambda_once.patterns.ledger import requests, wishes
from lambda_once.patterns.ledger.errors import BelowFloor, Conflict, Full
from lambda_once.patterns.ledger.layout import (
    BUCKET_BYTES,
    ID_BYTES,
    bucket_count,
    id_digest,
    item_overhead,
    layout_for,
    overhang,
)
from lambda_once.patterns.ledger.reads import read, read_all, summed
from lambda_once.patterns.ledger.requests import Refusal, Write
from lambda_once.patterns.ledger.standing import ids_at, layout_of, newest, own_values, version_of
from lambda_once.patterns.ledger.wishes import Key
from lambda_once.patterns.transport import ConditionRefused, PatternTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from lambda_once.core.clock import Clock
    from lambda_once.patterns.ledger.wishes import Amount

__all__ = [
    "BUCKET_BYTES",
    "ID_BYTES",
    "BelowFloor",
    "Changed",
    "Conflict",
    "Entry",
    "Full",
    "Ledger",
    "bucket_count",
    "item_overhead",
    "overhang",
]

FORMS: Final = 10
"""How often one write is sent in another form because the item moved on, before it is given up."""
RACES: Final = 10
"""How often `Ledger.change` reads and decides anew."""

_TOO_LARGE: Final = "Item size"
"""DynamoDB's words for an item beyond 400 KB, in a ValidationException that has no code of its own."""


class Entry(Enum):
    """What became of a write. Both are success: what the id stands for is in the sums, once."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    """Nothing was written: the id is remembered, from an earlier call or from this one's lost answer."""


class Changed(NamedTuple):
    """What `Ledger.change` came to: *values* is the item as it left it, or as it found it changed before."""

    entry: Entry
    values: Values


class Ledger:
    """
    Items of one table whose counters are added to once per id.

    Safe from several threads; connects at first use. *key* names the key attributes, partition key first.
    *window* is how long an id is remembered at least: let it exceed the longest redelivery. *buckets* is by
    how many steps ids are forgotten (`bucket_count`). *shards* spreads each key over as many items, by the
    id: for `add` and `get` alone, for floors, set attributes and expectations hold within one item.

    The number of shards is changed by two deployments: with *shards_next*, the number to come, ids are
    written by *shards* and refused by both; then that is *shards*, and *shards_before* the number that was.
    """

    def __init__(  # noqa: PLR0913  (options of one object, all but two by name)
        self,
        table: str,
        client: Any = None,
        *,
        window: timedelta,
        key: str | tuple[str, ...] = "pk",
        buckets: int | None = None,
        shards: int = 1,
        shards_next: int | None = None,
        shards_before: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        if shards_next is not None and shards_before is not None:
            raise Misconfigured("give shards_next or shards_before: one change of the number at a time")
        self._table = table
        self._names = wishes.key_names(key)
        self._layout = layout_for(window, buckets)
        self._shards = wishes.shard_count(shards)
        other = shards_before if shards_next is None else shards_next
        self._other_shards = self._shards if other is None else wishes.shard_count(other)
        self._most_shards = max(self._shards, self._other_shards)
        self._transport = PatternTransport(client, clock)

    def add(
        self,
        key: Key,
        amounts: Mapping[str, Amount],
        *,
        id: str | bytes,  # noqa: A002  (what sources call it)
        floor: Mapping[str, Amount] | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002  (DynamoDB's word)
    ) -> Entry:
        """
        Add *amounts* to the counters of *key*, once for *id*, and set the attributes of *set* with them.

        A counter that is missing counts as 0; negative amounts take. *floor* is below which a counter that is
        taken from may not fall. One call with one id is one entry: its amounts are not compared.

        Raises `BelowFloor`, never for an id that was applied; `Full`; `StoreUnavailable` when nobody knows:
        add it again with the same id; `Misconfigured` for bad input, before anything is sent.
        """
        digest = id_digest(id)
        added = wishes.checked_amounts(amounts, self._names)
        settings = wishes.checked_values("set", {} if set is None else set, (*self._names, *added))
        if not added and not settings:
            raise Misconfigured("nothing to add: name a counter and an amount, or an attribute to set")
        floors = wishes.checked_floor({} if floor is None else floor, added)
        if floors or settings:
            self._refuse_shards("floor and set")
        where, *others = self._homes(key, digest)
        if others and self._is_remembered(digest, others):
            return Entry.DUPLICATE
        entry, _ = self._sent(self._write(where, digest, amounts=added, floor=floors, sets=settings))
        return entry

    def get(self, key: Key) -> Values | None:
        """
        Return what *key* stands at, without key and ids; None where nothing was ever added.

        Counters of several shards are summed. While others add, the sum lies between that of before and that
        of after. Raises `StoreUnavailable`.
        """
        keys = wishes.all_homes(self._names, key, self._most_shards)
        if self._most_shards == 1:
            item = read(self._transport, self._table, keys[0])
            return None if item is None else own_values(item, self._names)
        items = read_all(self._transport, self._table, keys)
        return summed(own_values(item, self._names) for item in items) if items else None

    def update(
        self,
        key: Key,
        change: Mapping[str, object],
        *,
        expected: Mapping[str, object],
        id: str | bytes | None = None,  # noqa: A002  (as in add)
    ) -> Entry:
        """
        Set the attributes of *change* if those of *expected* stand as it says; None: it is missing.

        The write has an id of its own, by which a lost answer is recognised; with *id* a later call of that
        id is a duplicate too. Raises `Conflict`, with the item as it stands; and what `add` raises.
        """
        self._refuse_shards("update")
        digest = os.urandom(ID_BYTES) if id is None else id_digest(id)
        sets = wishes.checked_values("change", change, self._names)
        wanted = wishes.checked_expected(expected, self._names)
        where = wishes.key_item(self._names, key, None)
        entry, _ = self._sent(self._write(where, digest, sets=sets, expected=wanted))
        return Entry.APPLIED if id is None else entry

    def change(
        self,
        key: Key,
        change: Callable[[Values], Mapping[str, object]],
        *,
        id: str | bytes | None = None,  # noqa: A002  (as in add)
    ) -> Changed:
        """
        Read the item, set what *change* makes of it, and start anew where another write came between.

        *change* gets the item without its key, an empty dict where there is none; it may be called several
        times, so it should do nothing else. With *id* it is not called for an id that is remembered. Raises
        `Conflict` after ten lost races; and what `add` raises.
        """
        self._refuse_shards("change")
        digest = os.urandom(ID_BYTES) if id is None else id_digest(id)
        where = wishes.key_item(self._names, key, None)
        for race in range(1, RACES + 1):
            item = read(self._transport, self._table, where) or {}
            values = own_values(item, where)
            if digest in ids_at(item, self._layout, self._transport.clock.now()):
                return Changed(Entry.DUPLICATE, values)
            sets = wishes.checked_values("change", change(dict(values)), self._names)
            try:
                entry, standing = self._sent(self._write(where, digest, sets=sets, expected=version_of(item)))
            except Conflict:
                if race == RACES:
                    raise
                back_off(self._transport.deadline, race)
                continue
            if entry is Entry.APPLIED or id is None:
                return Changed(Entry.APPLIED, {**values, **sets})
            return Changed(entry, own_values(standing, where))
        raise AssertionError  # pragma: no cover  (the last race returns or raises)

    def relayout(self, key: Key) -> None:
        """
        Let the items of *key* keep ids for this ledger's window, and forget at once what is older.

        A longer window is taken up by the next write; a shorter one only by this. Ids that are kept count as
        added up to one width later. Raises as `add` does.
        """
        for where in wishes.all_homes(self._names, key, self._most_shards):
            write = self._write(where, b"")
            for _ in range(FORMS):
                item = read(self._transport, self._table, where)
                if item is None or layout_of(item, self._layout) in (None, self._layout):
                    break
                number = newest(item, self._layout, self._transport.clock.now())
                with suppress(ConditionRefused):  # written to meanwhile: again
                    self._update(requests.laying_out(write, number, item))
            else:
                raise StoreUnavailable(f"{self._shown(write)} was written to all the time: try it again")

    # -- one item

    def _write(self, where: Item, digest: bytes, **wish: Any) -> Write:
        nothing: dict[str, Any] = {"amounts": {}, "floor": {}, "sets": {}, "expected": {}}
        return Write(table=self._table, key=where, digest=digest, layout=self._layout, **nothing | wish)

    def _sent(self, write: Write) -> tuple[Entry, Item]:
        """Send *write* in the form that the item takes; for a duplicate, return the item as it stands."""
        now = self._transport.clock.now()
        request = requests.adding(write, write.layout.number(now))
        for _ in range(FORMS):
            try:
                self._update(request)
            except ConditionRefused as refused:
                seen = {name: dict(each) for name, each in (refused.item or {}).items()}
            else:
                return Entry.APPLIED, {}
            reason = requests.why(write, now, seen)
            if reason is Refusal.DUPLICATE:
                return Entry.DUPLICATE, seen
            if reason is not Refusal.OTHER_TIME:
                raise self._refused(reason, write, seen)
            request = requests.again(write, now, seen)
        raise StoreUnavailable(f"{self._shown(write)} was written to all the time: try it again")

    def _update(self, request: Mapping[str, Any]) -> None:
        try:
            self._transport.send("update_item", request)
        except Misconfigured as error:
            if _TOO_LARGE not in str(error.__cause__):
                raise
            raise Full(
                f"an item of ledger {self._table!r} is full: the ids of one window and its attributes exceed "
                f"400 KB. Ask `lambda-once plan` how many shards this rate needs, and change their number by "
                f"two deployments (shards_next=, shards_before=), or shorten the window by relayout(). "
                f"Nothing was added; there is room when the oldest ids go"
            ) from error

    def _refused(self, reason: Refusal, write: Write, seen: Item) -> BelowFloor | Conflict:
        values = own_values(seen, write.key)
        if reason is Refusal.BELOW_FLOOR:
            floor = ", ".join(f"{name!r} of {each}" for name, each in write.floor.items())
            message = f"{self._shown(write)} would fall below its floor ({floor}): nothing was added"
            return BelowFloor(message, floor=write.floor, values=values)
        message = f"{self._shown(write)} is not as expected: read it, and decide again. Nothing was written"
        return Conflict(message, values=values)

    def _shown(self, write: Write) -> str:
        return f"item {plain_item(write.key)} of ledger {self._table!r}"

    # -- shards

    def _homes(self, key: Key, digest: bytes) -> list[Item]:
        """Return the items that may remember the id, by both numbers of shards, the written one first."""
        homes = wishes.homes(self._names, key, digest, self._shards)
        others = wishes.homes(self._names, key, digest, self._other_shards)
        return homes + [each for each in others if each not in homes]

    def _is_remembered(self, digest: bytes, homes: list[Item]) -> bool:
        """Tell whether one of the items *homes* remembers the id of *digest*, by consistent reads."""
        now, items = self._transport.clock.now(), read_all(self._transport, self._table, homes)
        return any(digest in ids_at(item, self._layout, now) for item in items)

    def _refuse_shards(self, what: str) -> None:
        if self._most_shards > 1:
            raise Misconfigured(
                f"{what}: a key with {self._most_shards} shards has no one item for it, and each shard knows "
                f"only a part of the sum. Keep such counters in a ledger of one shard"
            )
