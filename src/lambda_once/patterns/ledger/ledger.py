"""`Ledger`: sums that are added to once, the update and the id of its cause in one conditional write."""

from __future__ import annotations

import os
from contextlib import suppress
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

from lambda_once.dynamodb.retry import Tries, Unprocessed, batch_get
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.patterns.items import Item, Values
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.patterns.ledger import requests
from lambda_once.patterns.ledger.layout import ID_BYTES, Seen, id_digest, ids_at
from lambda_once.patterns.ledger.requests import DIGITS, Amount, LedgerWrite
from lambda_once.patterns.observing import Observer, observed
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Full, Refused
from lambda_once.patterns.table import KeyValue
from lambda_once.patterns.transactions import TOO_LARGE, TransactItem
from lambda_once.patterns.transport import ConditionFailed, PatternTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from lambda_once.core.clock import Clock
    from lambda_once.observability.reporter import AnyLogger, Namespaced

Key = KeyValue | tuple[KeyValue, ...]
"""The partition key, or partition key and sort key."""

FORMS: Final = 10
"""How often one write is sent in another form because the item changed, before it is given up."""
RACES: Final = 10
"""How often `Ledger.change` reads and decides again."""
ROUNDS: Final = 10
"""How many requests in a row may read nothing, before a read of all shards is given up."""


class Ledger:
    """
    Items of one table whose counters are added to once per id.

    Thread-safe; connects at first use. *key* names the key attributes, partition key first. *window* is how
    long an id is remembered at least: more than the longest redelivery. *buckets* is the number of steps in
    which ids expire (`bucket_count`). *shards* spreads each key over several items, by the id: for `add` and
    `get` alone, because floors, set attributes and expectations need one item. *names*: other names for the
    ledger's own attributes ``bt``, ``bw``, ``bl`` and ``bv``; ``b`` is the prefix of the buckets ``b0`` to
    ``b63``. *metrics*, *logger*: your Powertools objects.

    Changing the number of shards takes two deployments: with *shards_next*, the future number, ids are
    written by *shards* and looked up by both; then with *shards*, the new number, and *shards_before*, the
    old one.
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
        names: Mapping[str, str] | None = None,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        if shards_next is not None and shards_before is not None:
            raise Misconfigured("give shards_next or shards_before: one change of the number at a time")
        self._table = layouts.ledger_table(table, key, names)
        self._layout = layouts.layout_for(window, buckets)
        self._shards = layouts.shard_count(shards)
        other = shards_before if shards_next is None else shards_next
        self._other_shards = self._shards if other is None else layouts.shard_count(other)
        self._most_shards = max(self._shards, self._other_shards)
        self._transport = PatternTransport(client, clock)
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
    ) -> Applied | Duplicate | Refused:
        """
        Add *amounts* to the counters of *key*, once for *id*, and set the attributes of *set* with them.

        A missing counter counts as 0; negative amounts subtract. *floor* is the least value of a counter that
        is subtracted from; below it the write is `Refused`, unless the id was applied before. The amounts of
        a duplicate are not compared.

        Raises `Full`; `StoreUnavailable` if there is no response: add it again with the same id;
        `Misconfigured` before anything is sent.
        """
        write, *others = self._additions(key, amounts, id, floor or {}, set or {})
        if others and self._has_id(write.digest, [other.key for other in others]):
            return Duplicate()
        result = self._sent(write)
        return Duplicate() if isinstance(result, Duplicate) else result

    def transact_item(
        self,
        key: Key,
        amounts: Mapping[str, Amount],
        *,
        id: str | bytes,  # noqa: A002  (as in add)
        floor: Mapping[str, Amount] | None = None,
        set: Mapping[str, object] | None = None,  # noqa: A002  (as in add)
    ) -> TransactItem:
        """
        Return what `add` writes as an entry of a TransactWriteItems (`transaction_results`).

        It reads the layout of the item. If another write changes that meanwhile, the transaction is cancelled
        with `Conflict`: make a new entry. Raises as `add` does; `Misconfigured` while the number of shards
        changes, because an id could then be in an item that the transaction does not check.
        """
        if self._other_shards != self._shards:
            raise Misconfigured("transact_item: not while shards_next= or shards_before= is given")
        writes = self._additions(key, amounts, id, floor or {}, set or {})
        now = self._transport.clock.now()
        seen = [self._seen(self._item(write.key)).own for write in writes]
        has_id = [writes[0].digest in ids_at(item, self._layout, now) for item in seen]
        if any(has_id):  # the entry is refused as a duplicate
            write = writes[has_id.index(True)]
            request = requests.adding(write, write.layout.number(now))
        else:
            write = writes[0]
            request = requests.again(write, now, seen[0])

        def refusal(item: Item) -> Duplicate | Refused:
            found = requests.refused_because(write, now, self._seen(item))
            if found is not None:
                return Duplicate() if isinstance(found, Duplicate) else found
            raise Conflict(f"{write.shown} has another layout now: make a new entry, and retry")

        return TransactItem("Update", request, refusal, full=self._full())

    def get(self, key: Key) -> Values | None:
        """
        Return the attributes of *key*, without key and ids; None if nothing was ever added.

        Counters of several shards are summed. Raises `StoreUnavailable`.
        """
        keys = layouts.all_homes(self._table, key, self._most_shards)
        if self._most_shards == 1:
            item = self._item(keys[0])
            return None if item is None else self._seen(item).values
        items = self._items(keys)
        return _summed(self._seen(item).values for item in items) if items else None

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
        Set the attributes of *change* if those of *expected* have these values; None is a missing one.

        With *id*, a later call with that id is a `Duplicate`. Without one only the retries of this call are
        recognised: after `StoreUnavailable` the write may have taken effect, and the same call conflicts
        with it. In protected work without *id* ``once.no_id`` is logged once. Raises `Conflict`, with the
        current item in ``values``; and what `add` raises.
        """
        self._refuse_shards("update")
        digest = self._digest("update", key, id)
        sets = requests.checked_values("change", change, self._table.taken)
        wanted = requests.checked_expected(expected, self._table.taken)
        where = layouts.key_item(self._table, key, None)
        result = self._sent_by(id, self._write(where, digest, sets=sets, expected=wanted))
        return Duplicate() if isinstance(result, Duplicate) and id is not None else Applied()

    @observed
    def change(
        self,
        key: Key,
        change: Callable[[Values], Mapping[str, object]],
        *,
        id: str | bytes | None = None,  # noqa: A002  (as in add)
    ) -> Applied | Duplicate:
        """
        Read the item and set the attributes that *change* returns; start again if it was written meanwhile.

        ``values`` of the result is the item. *change* gets the item without its key, empty if there is none;
        it may be called several times, so it must have no effects. It is not called for an *id* that is
        remembered. Without *id* only the retries of this call are recognised: after `StoreUnavailable` the
        change may have been written, and the same call writes it again. In protected work without *id*
        ``once.no_id`` is logged once. Raises `Conflict` after ten lost races or near the invocation's end,
        and as `add` does.
        """
        self._refuse_shards("change")
        digest = self._digest("change", key, id)
        where = layouts.key_item(self._table, key, None)
        races = Tries(self._transport.deadline, RACES)
        while True:
            began = self._transport.clock.now()
            seen = self._seen(self._item(where))
            values, expected = seen.values, requests.version_of(self._table, seen)
            if digest in ids_at(seen.own, self._layout, self._transport.clock.now()):
                return Duplicate(values)
            sets = requests.checked_values("change", change(dict(values)), self._table.taken)
            try:
                result = self._sent_by(id, self._write(where, digest, sets=sets, expected=expected))
            except Conflict:
                if not races.again(began):
                    raise
                continue
            if isinstance(result, Duplicate) and id is not None:
                return result
            return Applied({**values, **sets})

    @observed
    def relayout(self, key: Key) -> None:
        """
        Narrow the items of *key* to this ledger's window, and forget older ids at once.

        A longer window is applied by the next write anyway. Raises as `add` does.
        """
        for where in layouts.all_homes(self._table, key, self._most_shards):
            write = self._write(where, b"")
            for _ in range(FORMS):
                seen = self._seen(self._item(where)).own
                if layouts.layout_of(seen) in (None, self._layout):
                    break
                number = layouts.newest(seen, self._layout, self._transport.clock.now())
                with suppress(ConditionFailed):  # written to meanwhile: again
                    self._update(requests.rearranging(write, number, seen))
            else:
                raise self._contended(write)

    # -- one item

    def _additions(
        self, key: Key, amounts: object, name: object, floor: object, sets: object
    ) -> list[LedgerWrite]:
        """Return the addition to each item that may have the id, first the one to send."""
        digest = id_digest(name)
        added = requests.checked_amounts(amounts, self._table.taken)
        settings = requests.checked_values("set", sets, self._table.taken | added.keys())
        if not added and not settings:
            raise Misconfigured("nothing to add: name a counter and an amount, or an attribute to set")
        floors = requests.checked_floor(floor, added)
        if floors or settings:
            self._refuse_shards("floor and set")
        parts: dict[str, Any] = {"amounts": added, "floor": floors, "sets": settings}
        return [self._write(home, digest, **parts) for home in self._homes(key, digest)]

    def _digest(self, operation: str, key: Key, name: str | bytes | None) -> bytes:
        """Return the digest of the id *name*; without one a random digest, which no later call has."""
        if name is not None:
            return id_digest(name)
        from lambda_once.engine.attempt import call_stack

        if call_stack():
            self._observer.warn_once(
                Event.NO_ID,
                key,
                f"{operation} without id= in protected work: a redelivery after a lost response writes "
                'again. Give id=attempt.downstream_key("visits"); attempt is once.current(), visits a label',
            )
        return os.urandom(ID_BYTES)

    def _sent_by(self, name: str | bytes | None, write: LedgerWrite) -> Applied | Duplicate | Refused:
        """Do what `_sent` does; without the id *name* an error says that the write may have taken effect."""
        try:
            return self._sent(write)
        except StoreUnavailable as error:
            if name is not None or error.__cause__ is None:  # contended: nothing was written
                raise
            unanswered = str(error).removesuffix("; retry")
            message = (
                f"{unanswered}. The write to {write.shown} may have taken effect, and without id= a repeated "
                "call is another write: read the item first, or give id="
            )
            raise StoreUnavailable(message) from error.__cause__

    def _write(self, where: Item, digest: bytes, **known: Any) -> LedgerWrite:
        parts: dict[str, Any] = {"amounts": {}, "floor": {}, "sets": {}, "expected": {}} | known
        return LedgerWrite(table=self._table, key=where, digest=digest, layout=self._layout, **parts)

    def _sent(self, write: LedgerWrite) -> Applied | Duplicate | Refused:
        """Send *write* in the form that the item takes. Raises `Conflict`."""
        now = self._transport.clock.now()
        request = requests.adding(write, write.layout.number(now))
        for _ in range(FORMS):
            try:
                self._update(request)
            except ConditionFailed as failed:
                seen = self._seen(failed.item)
            else:
                return Applied()
            result = requests.refused_because(write, now, seen)
            if result is not None:
                return result
            request = requests.again(write, now, seen.own)
        raise self._contended(write)

    def _update(self, request: Mapping[str, Any]) -> None:
        try:
            self._transport.send("update_item", request)
        except Misconfigured as error:
            if TOO_LARGE not in str(error.__cause__):
                raise
            raise self._full() from error

    def _full(self) -> Full:
        return Full(
            f"an item of ledger {self._table.name!r} is full: the ids of one window and its attributes "
            "exceed 400 KB. Compute the shards with `lambda-once plan`, and change their number by two "
            "deployments (shards_next=, shards_before=), or shorten the window by relayout(). Nothing was "
            "added; there is room again when the oldest ids are forgotten"
        )

    def _contended(self, write: LedgerWrite) -> StoreUnavailable:
        return StoreUnavailable(f"{write.shown} is contended; retry")

    def _item(self, key: Item) -> Item | None:
        request = {"TableName": self._table.name, "Key": key, "ConsistentRead": True}
        item: Item | None = self._transport.send("get_item", request).get("Item")
        return item

    def _seen(self, item: Mapping[str, Mapping[str, Any]] | None) -> Seen:
        return layouts.seen_in(self._table, item or {})

    # -- shards

    def _items(self, keys: list[Item]) -> list[Item]:
        """Return the items at *keys* that exist, by consistent reads."""
        send, deadline = self._transport.send, self._transport.deadline
        try:
            return batch_get(send, self._table.name, keys, deadline, ROUNDS, ConsistentRead=True)
        except Unprocessed:
            message = f"ledger {self._table.name!r} did not return all its shards; retry"
            raise StoreUnavailable(message) from None

    def _homes(self, key: Key, digest: bytes) -> list[Item]:
        """Return the items that may have the id, by both numbers of shards; first the one to write to."""
        homes = layouts.homes(self._table, key, digest, self._shards)
        others = layouts.homes(self._table, key, digest, self._other_shards)
        return homes + [each for each in others if each not in homes]

    def _has_id(self, digest: bytes, homes: list[Item]) -> bool:
        now, items = self._transport.clock.now(), self._items(homes)
        return any(digest in ids_at(self._seen(item).own, self._layout, now) for item in items)

    def _refuse_shards(self, what: str) -> None:
        if self._most_shards > 1:
            raise Misconfigured(
                f"{what}: a key with {self._most_shards} shards has no single item for it. Keep such "
                "counters in a ledger of one shard"
            )


def _summed(items: Iterable[Values]) -> Values:
    """Return the sum of each counter; what is not a number was written by others, and has no sum."""
    sums: Values = {}
    with localcontext(prec=DIGITS):
        for item in items:
            for name, each in item.items():
                if isinstance(each, int | Decimal) and not isinstance(each, bool):
                    sums[name] = sums.get(name, 0) + each
    return sums
