"""`Ledger`: idempotent sums. One conditional write updates the counter and records the id of its cause."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.context import call_stack
from lambda_once.dynamodb import (
    ConditionFailed,
    Item,
    Sender,
    Tries,
    Unprocessed,
    Values,
    batch_get,
    without_item,
)
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.patterns.ledger import requests
from lambda_once.patterns.ledger.layout import ID_BYTES, VERSION, Seen, id_digest, ids_at
from lambda_once.patterns.ledger.requests import DIGITS, Amount, LedgerWrite
from lambda_once.patterns.observing import EVENTS, Observer, observed
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Full, Refused
from lambda_once.patterns.table import KeyValue
from lambda_once.patterns.transactions import TOO_LARGE, TransactItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime, timedelta

    from lambda_once.core.clock import Clock
    from lambda_once.observability.reporter import AnyLogger, Namespaced

Amounts = Mapping[str, Amount]
Key = KeyValue | tuple[KeyValue, ...]
"""The partition key, or partition key and sort key."""

FORMS: Final = 10
"""How often one write is sent in another form because the item changed, before `StoreUnavailable`."""
MERGES: Final = 3
"""How often `Ledger.add_all` retries a merged write because the item changed, before it adds one by one."""
RACES: Final = 10
"""How often `Ledger.change` reads and retries."""
ROUNDS: Final = 10
"""How many requests in a row may return nothing before a read of all shards is given up."""


class Ledger:
    """
    Items of one table whose counters are added to once per id.

    Thread-safe; connects at first use. *key* names the key attributes, partition key first. *window* is the
    minimum time that an id is remembered; it must exceed the longest redelivery. *buckets* is the number of
    steps in which ids expire (`bucket_count`). *shards* spreads each key over several items, by id; floors,
    *set* attributes, expectations, *expires*, `update` and `change` then raise `Misconfigured`, because they
    need one item. A key keeps its number of shards: another number is `Misconfigured`, and requires a new
    key. *metrics*, *logger*: your Powertools objects.
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
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._table = layouts.ledger_table(table, key)
        self._layout = layouts.layout_for(window, buckets)
        self._shards = layouts.shard_count(shards)
        self._sender = Sender(client, clock)
        self._observer = Observer(self, table, metrics, logger)

    @observed
    def add(
        self,
        key: Key,
        amounts: Mapping[str, Amount],
        *,
        id: str | bytes,  # noqa: A002  (what sources call it)
        floor: Mapping[str, Amount] | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002  (DynamoDB's word)
        expected: Mapping[str, object] | None = None,
        expires: datetime | None = None,
    ) -> Applied | Duplicate | Refused:
        """
        Add *amounts* to the counters of *key*, once for *id*, and set the attributes of *set* with them.

        A missing counter counts as 0; negative amounts subtract. *floor* is the minimum of each counter that
        is subtracted from; below it the write is `Refused`, unless the id was applied before. *expected* are
        values that attributes must have, as for `update`; they are compared before the floor. The amounts of
        a duplicate are not compared. *expires*, with a time zone, is when TTL may delete the item. It is at
        least the end of the window, so that no id is forgotten early, and a write without *expires* moves an
        earlier one there.

        A retry after a lost response is `Applied`; a `Duplicate`, if another write to the item came between.

        ``values`` of `Applied` are the counters and attributes that this write changed, with their new
        values; those of the other results, and of `Conflict`, are the current item. With several shards
        ``values`` is empty.

        Raises `Conflict` and `Full`; `StoreUnavailable` if there is no response: add it again with the same
        id; `Misconfigured` before anything is sent.
        """
        return self._shown(self._sent(self._addition(key, id, amounts, floor, set, expected, expires)))

    @observed
    def add_all(
        self,
        key: Key,
        additions: Mapping[str, Amounts] | Mapping[bytes, Amounts] | Mapping[str | bytes, Amounts],
        *,
        floor: Mapping[str, Amount] | None = None,
        expires: datetime | None = None,
    ) -> tuple[Applied | Duplicate | Refused, ...]:
        """
        Add the amounts of each id of *additions*, up to 10,000, in order, as successive calls of `add` would.

        All ids of one item (one shard) take one read and one write. If three such writes in a row lose a
        race, or the item is `Full`, the ids are added one by one. *floor* is for the counters that an id
        subtracts from. Returns the result for each id; its values are those after its own addition.

        Raises as `add` does. Some ids may have been added by then; it is safe to call it again with the same
        ids.
        """
        given = requests.checked_additions(additions, floor)
        writes = [self._addition(key, *each, None, None, expires) for each in given]
        places: dict[tuple[Any, ...], list[int]] = {}
        for position, write in enumerate(writes):
            places.setdefault(write.place, []).append(position)
        items = self._items([writes[first].key for first, *_ in places.values()])
        seen = {layouts.place_of(self._table, item): self._seen(item) for item in items}
        claim = next(
            (each for each in writes if is_new_shard(each, seen.get(each.place, Seen({}, {})))), None
        )
        if claim is not None and claim.first is not None:
            seen[layouts.place_of(self._table, claim.first)] = self._claim(claim)
            writes = [replace(write, first=None) for write in writes]
        results: dict[int, Applied | Duplicate | Refused] = {}
        try:
            for place, positions in places.items():
                together = [writes[position] for position in positions]
                found = self._sent_together(together, seen.get(place, Seen({}, {})))
                results.update(zip(positions, map(self._shown, found), strict=True))
        finally:  # also what was added before an error
            for kind, times in Counter(map(type, results.values())).items():
                self._observer.report(EVENTS[kind], key, times=times)
        return tuple(results[position] for position in range(len(writes)))

    def has(self, key: Key, id: str | bytes) -> bool:  # noqa: A002  (as in add)
        """
        Return whether *id* is remembered for *key*, so that an `add` of it would be a `Duplicate`.

        A consistent read. Also False once the id is forgotten after the window. Raises `StoreUnavailable`.
        """
        digest = id_digest(id)
        seen = self._read(layouts.home(self._table, key, digest, self._shards)).own
        if VERSION not in seen and self._shards > 1:  # if it has other shards, the id may be in another item
            self._read(layouts.key_item(self._table, key, 0))
        return digest in ids_at(seen, self._layout, self._sender.clock.now())

    def transact_item(
        self,
        key: Key,
        amounts: Mapping[str, Amount],
        *,
        id: str | bytes,  # noqa: A002  (as in add)
        floor: Mapping[str, Amount] | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002  (as in add)
        expected: Mapping[str, object] | None = None,
        expires: datetime | None = None,
    ) -> TransactItem:
        """
        Return what `add` writes, as an entry of a TransactWriteItems (`transaction_results`).

        It reads the item's layout. If another write changes the layout before the transaction, that is
        cancelled with `Conflict`: make a new entry. Raises as `add` does.
        """
        write = self._addition(key, id, amounts, floor, set, expected, expires)
        now, seen = self._sender.clock.now(), self._read(write.key)
        if is_new_shard(write, seen):
            self._claim(write)
            write = replace(write, first=None)
        item = seen.own
        if write.ids & ids_at(item, self._layout, now):
            item = {}  # it refuses the usual form, as a duplicate

        def refusal(item: Item) -> Applied | Duplicate | Refused:
            refusing = item or self._sender.existing(self._table.name, write.key)
            found = self._refusal(write, self._seen(refusing), now)
            if found is not None:
                return self._shown(found)
            raise Conflict(f"{write.shown} has another layout now: make a new entry, and retry")

        return TransactItem("Update", requests.request_for(write, item, now), refusal, full=self._full())

    def get(self, key: Key) -> Values | None:
        """
        Return the attributes of *key*, without key and ids; None if nothing was ever added.

        Counters of several shards are summed. Raises `StoreUnavailable`.
        """
        items = self._items(layouts.homes(self._table, key, self._shards))
        values = [self._seen(item).values for item in items]
        if not any(values) and (not values or self._shards > 1):  # of several, the first may be empty yet
            return None
        return values[0] if self._shards == 1 else summed(values)

    @observed
    def update(
        self,
        key: Key,
        change: Mapping[str, object],
        *,
        expected: Mapping[str, object],
        id: str | bytes | None = None,  # noqa: A002  (as in add)
    ) -> Applied | Duplicate:
        """
        Set the attributes of *change* if the attributes of *expected* have these values.

        An expected None requires that the attribute is missing or NULL. With *id*, a later call with that id
        is a `Duplicate`. Without *id*, only retries within this call are recognised: after `StoreUnavailable`
        the write may have taken effect, and then the same call raises `Conflict`. In protected work without
        *id*, ``once.no_id`` is logged once. Raises `Conflict`, with the current item in ``values``, and what
        `add` raises.
        """
        self._refuse_shards("update")
        digest = self._digest("update", key, id)
        sets = requests.checked_values("change", change, self._table.taken)
        wanted = requests.checked_expected(expected, self._table.taken)
        where = layouts.key_item(self._table, key, None)
        write = self._write(where, digest, sets=sets, expected=wanted)
        with self._repeatable(id, write):
            result = self._sent(write)
        return result if isinstance(result, Duplicate) and id is not None else Applied(sets)

    @observed
    def change(
        self,
        key: Key,
        change: Callable[[Values], Mapping[str, object]],
        *,
        id: str | bytes | None = None,  # noqa: A002  (as in add)
    ) -> Applied | Duplicate:
        """
        Read the item and set the attributes that *change* returns; retry if the item is written meanwhile.

        ``values`` of the result is the item. *change* receives the item without its key, empty if there is
        none. It may be called several times, so it must have no side effects; it is not called for an *id*
        that is remembered. Without *id*, only retries within this call are recognised: after
        `StoreUnavailable` the change may have been written, and the same call writes it again. In protected
        work without *id*, ``once.no_id`` is logged once. Raises `Conflict` after ten lost races or near the
        invocation's end, and what `add` raises.
        """
        self._refuse_shards("change")
        digest = self._digest("change", key, id)
        where = layouts.key_item(self._table, key, None)
        races, write, written = Tries(self._sender.deadline, RACES), None, None
        while True:
            began = self._sender.clock.now()
            seen = self._read(where)
            if digest in ids_at(seen.own, self._layout, began):
                ours = id is None or (write is not None and requests.is_last_write(write, seen.own))
                return Applied(written) if ours and written is not None else Duplicate(seen.values)
            sets = requests.checked_values("change", change(dict(seen.values)), self._table.taken)
            write, written = self._write(where, digest, sets=sets), {**seen.values, **sets}
            now = self._sender.clock.now()
            try:
                with self._repeatable(id, write):
                    self._update(write, requests.request_for(write, seen.own, now, unless_written=True))
            except ConditionFailed:
                if not races.again(began):
                    message = f"{write.shown} was written to each time it was read: retry"
                    raise Conflict(message, values=seen.values) from None
            else:
                return Applied(written)

    # -- one item

    def _addition(
        self,
        key: Key,
        name: object,
        amounts: object,
        floor: object,
        sets: object,
        expected: object,
        expires: object,
    ) -> LedgerWrite:
        digest, taken = id_digest(name), self._table.taken
        added = requests.checked_numbers("amounts", amounts, taken)
        settings = requests.checked_values("set", {} if sets is None else sets, taken | added.keys())
        if not added and not settings:
            raise Misconfigured("nothing to add: name a counter and an amount, or an attribute to set")
        floors = requests.checked_floor(floor, added.keys())
        wanted = {} if expected is None else requests.checked_expected(expected, taken)
        if floors or settings or wanted or expires is not None:
            self._refuse_shards("floor, set, expected or expires")
        parts: dict[str, Any] = {"amounts": added, "floor": floors, "sets": settings, "expected": wanted}
        parts["expires"] = requests.checked_expiry(expires)
        where = layouts.home(self._table, key, digest, self._shards)
        if self._shards > 1:
            first = layouts.key_item(self._table, key, 0)
            parts["first"] = None if where == first else first
        return self._write(where, digest, **parts)

    def _digest(self, operation: str, key: Key, name: str | bytes | None) -> bytes:
        """Return the digest of the id *name*, or a random digest without one."""
        if name is not None:
            return id_digest(name)
        if call_stack():
            self._observer.warn_once(
                Event.NO_ID,
                key,
                f"{operation} without id= in protected work: a redelivery after a lost response writes "
                'again. Give id=attempt.downstream_key("visits"); attempt is once.current(), visits a label',
            )
        return os.urandom(ID_BYTES)

    @contextmanager
    def _repeatable(self, name: str | bytes | None, write: LedgerWrite) -> Iterator[None]:
        """Without the id *name*, add to a `StoreUnavailable` that the write may have taken effect."""
        try:
            yield
        except StoreUnavailable as error:
            if name is not None or error.__cause__ is None:  # contended: nothing was written
                raise
            message = (
                f"{error}. The write to {write.shown} may have taken effect, and without id= a repeated "
                "call is another write: read the item first, or give id="
            )
            raise StoreUnavailable(message) from error.__cause__

    def _write(self, where: Item, digest: bytes, **known: Any) -> LedgerWrite:
        known |= {"write_id": os.urandom(ID_BYTES), "shards": self._shards}
        return LedgerWrite(self._table, where, self._layout, frozenset({digest}), **known)

    def _claim(self, write: LedgerWrite) -> Seen:
        """
        Return the first item of the key, made if there is none, before *write* creates another one.

        Raises `Misconfigured` if it was written with another number of shards.
        """
        request = requests.claiming(write, self._sender.clock.now())
        try:
            answer = self._sender.send("update_item", {**request, "ReturnValues": "ALL_NEW"})
        except ConditionFailed as failed:
            if failed.item is None:
                raise without_item(self._table.name) from None
            return self._seen(failed.item)
        return self._seen(answer["Attributes"])

    def _sent(self, write: LedgerWrite) -> Applied | Duplicate | Refused:
        """Send *write*, again in another form if the item has another layout or time. Raises `Conflict`."""
        now, seen = self._sender.clock.now(), Seen({}, {})
        for _ in range(FORMS):
            try:
                return Applied(self._update(write, requests.request_for(write, seen.own, now)))
            except ConditionFailed as failed:
                refusing, before = failed.item, seen
            if refusing is None and requests.needs_item(write):
                refusing = self._sender.existing(self._table.name, write.key)
            seen = self._seen(refusing)
            if is_new_shard(write, seen):
                self._claim(write)
                write = replace(write, first=None)
                continue
            if requests.is_last_write(write, seen.own):
                return Applied(requests.values_of(write, refusing or {}))
            result = self._refusal(write, seen, now)
            if result is not None:
                return result
            if refusing is None and not before.own:  # the condition holds without an item: one refused it
                raise without_item(self._table.name)
        raise StoreUnavailable(f"{write.shown} is contended; retry")

    def _sent_together(
        self, writes: list[LedgerWrite], seen: Seen
    ) -> Iterable[Applied | Duplicate | Refused]:
        """
        Send *writes* to one item, *seen*, as one write; one by one after `MERGES` refusals.

        One by one also if the item, or the sum of the amounts, is too large for DynamoDB. A request without a
        response is sent again, and a copy may arrive late. But each requires ``bv`` as it was read, and
        replaces it, so of all requests based on one ``bv`` at most one takes effect. If another write came
        first, the results are computed again from the current item, where present ids are duplicates.
        """
        for _ in range(MERGES):
            now = self._sender.clock.now()
            results, write = requests.together(writes, seen, now)
            if write is None:
                return results
            try:
                self._update(write, requests.request_for(write, seen.own, now, unless_written=True))
            except ConditionFailed as failed:
                seen = self._read(write.key) if failed.item is None else self._seen(failed.item)
                if requests.is_last_write(write, seen.own):
                    return results
            except (Full, Misconfigured):
                break
            else:
                return results
        return map(self._sent, writes)

    def _refusal(self, write: LedgerWrite, seen: Seen, now: datetime) -> Duplicate | Refused | None:
        """Return why *seen* refused *write*; None if only because of its time or layout."""
        return requests.refused_because(write, ids_at(seen.own, self._layout, now), seen.values)

    def _shown(self, result: Applied | Duplicate | Refused) -> Applied | Duplicate | Refused:
        """Return *result*, without values if the key has several shards."""
        return result if self._shards == 1 else replace(result, values={})

    def _update(self, write: LedgerWrite, request: Mapping[str, Any]) -> Values:
        """Send *request*, and return the caller's changed attributes. Raises `ConditionFailed`, `Full`."""
        try:
            answer = self._sender.send("update_item", {**request, "ReturnValues": "UPDATED_NEW"})
        except Misconfigured as error:
            if TOO_LARGE not in str(error.__cause__):
                raise
            raise self._full() from error
        return requests.values_of(write, answer.get("Attributes", {}))

    def _full(self) -> Full:
        return Full(
            f"an item of ledger {self._table.name!r} is full: the ids of one window and its attributes "
            "exceed 400 KB. Nothing was added; there is room again when the oldest ids are forgotten. For "
            "more shards (lambda_once.patterns.plan computes them) or a shorter window, give the ledger "
            f"a new key, {layouts.CARRY_OVER}"
        )

    def _seen(self, item: Mapping[str, Mapping[str, Any]] | None) -> Seen:
        if not item:
            return Seen({}, {})
        seen = layouts.seen_in(self._table, item)
        layouts.check_shards(self._table, item, self._shards)
        return seen

    def _read(self, key: Item) -> Seen:
        return self._seen(next(iter(self._items([key])), None))

    # -- shards

    def _items(self, keys: list[Item]) -> list[Item]:
        """Return the items at *keys* that exist, by consistent reads."""
        send, deadline = self._sender.send, self._sender.deadline
        if len(keys) == 1:
            request = {"TableName": self._table.name, "Key": keys[0], "ConsistentRead": True}
            answer = send("get_item", request)
            return [answer["Item"]] if "Item" in answer else []
        try:
            return batch_get(send, self._table.name, keys, deadline, ROUNDS, ConsistentRead=True)
        except Unprocessed:
            message = f"ledger {self._table.name!r} did not return all its shards; retry"
            raise StoreUnavailable(message) from None

    def _refuse_shards(self, what: str) -> None:
        if self._shards > 1:
            raise Misconfigured(
                f"{what}: a key with {self._shards} shards has no single item for it. Keep such "
                "counters in a ledger of one shard"
            )


def is_new_shard(write: LedgerWrite, seen: Seen) -> bool:
    """Return whether *write* must not create its item, *seen* so far, before the first item of its key."""
    return write.first is not None and VERSION not in seen.own


def summed(items: Iterable[Values]) -> Values:
    """Return the sum of each counter; attributes that are not numbers, from other writers, are left out."""
    sums: Values = {}
    with localcontext(prec=DIGITS):
        for item in items:
            for name, each in item.items():
                if isinstance(each, int | Decimal) and not isinstance(each, bool):
                    sums[name] = sums.get(name, 0) + each
    return sums
