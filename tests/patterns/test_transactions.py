"""Writes of the patterns in one transaction: all or none, once each, and every refusal is readable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from lambda_once import Misconfigured, Once, OnceError, RetryLater
from lambda_once.dynamodb.items import plain_item
from lambda_once.errors import StoreUnavailable
from lambda_once.patterns import unique as unique_module
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Full, Refused, Stale, TooFarAhead
from lambda_once.patterns.transactions import TransactItem, transaction_results
from lambda_once.patterns.unique import Unique
from lambda_once.testing import Crash, FakeClock
from tests.kit import tables
from tests.kit.faulty import Fate, FaultyClient, by_seed, every_second_answer_lost
from tests.patterns.conftest import Ground

if TYPE_CHECKING:
    from collections.abc import Iterator

WEEK = timedelta(days=7)
TICK = 1_795_169_520_000  # FakeClock's time in milliseconds


@dataclass
class Shop:
    """Tables of one engine and the patterns on them, through *client*."""

    client: Any
    clock: FakeClock
    tokens: str
    orders: str
    table: str
    points: Ledger
    receipts: Unique
    prices: Ratchet

    def of(self, client: Any) -> Shop:
        """Return the same tables through another client."""
        return shop_on(client, self.clock, self.tokens, self.orders, self.table)

    def entries(self, order: int) -> list[dict[str, Any]]:
        """Return the writes of one order: its points, its receipt, and a count that has no protection."""
        return [
            self.points.transact_item("ann", {"balance": 10}, id=f"order_{order}/earned"),
            self.receipts.transact_item({"pk": "ann", "sk": f"receipt_{order}", "total": Decimal("49.90")}),
            {
                "Update": {
                    "TableName": self.orders,
                    "Key": {"pk": {"S": f"order_{order}"}},
                    "UpdateExpression": "ADD placed :one",
                    "ExpressionAttributeValues": {":one": {"N": "1"}},
                }
            },
        ]

    def item(self, pk: str, sk: str = "-") -> dict[str, Any] | None:
        found = self.client.get_item(TableName=self.table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
        return plain_item(found["Item"]) if "Item" in found else None

    def placed(self, order: int) -> int:
        found = self.client.get_item(TableName=self.orders, Key={"pk": {"S": f"order_{order}"}})
        return int(found["Item"]["placed"]["N"]) if "Item" in found else 0


def shop_on(client: Any, clock: FakeClock, tokens: str, orders: str, table: str) -> Shop:
    """Return the patterns on these tables, through *client*."""
    return Shop(
        *(client, clock, tokens, orders, table),
        points=Ledger(orders, client, window=WEEK, clock=clock),
        receipts=Unique(table, client, clock=clock),
        prices=Ratchet(table, client, key=("pk", "sk"), clock=clock),
    )


@pytest.fixture
def shop(ground: Ground) -> Iterator[Shop]:
    """Return new tables."""
    with ExitStack() as stack:
        tokens = stack.enter_context(tables.fresh(ground.client))
        yield shop_on(ground.client, FakeClock(), tokens, ground.table(), ground.table("pk", "sk"))


def send(client: Any, items: list[Any]) -> tuple[Any, ...] | None:
    """Send *items* in one transaction; return why it was cancelled, None where it was not."""
    try:
        client.transact_write_items(TransactItems=items)
    except ClientError as error:
        return transaction_results(error, items)
    return None


# -- in a protected handler


Entries = Callable[[Shop, int], list[dict[str, Any]]]


def the_count(shop: Shop, order: int) -> list[dict[str, Any]]:
    """Return the one write of an order that has no condition of its own."""
    return shop.entries(order)[2:]


def worker(bad: Shop, once: Once, entries: Entries, *, together: bool = True) -> Callable[[int], Any]:
    """Return the work of an order: its entries, *together* with the token's completion or apart from it."""

    def work(order: int) -> Any:
        items = entries(bad, order)
        attempt = once.current()
        assert attempt is not None
        try:
            if together:
                return attempt.transact(items, result=order)
            bad.client.transact_write_items(TransactItems=items)
        except ReadTimeoutError:
            raise RetryLater("no answer") from None
        except ClientError as error:
            for result in transaction_results(error, items):
                if isinstance(result, OnceError):
                    raise result from error
            raise
        return order

    return work


def protected(shop: Shop, client: Any) -> tuple[Shop, Once]:
    """Return the shop and tokens through *client*."""
    once = Once(table=shop.tokens, client=client, service="shop")
    once._runtime.clock = shop.clock
    return shop.of(client), once


def place(
    shop: Shop, orders: int, fate: Any, entries: Entries = Shop.entries, *, together: bool = True
) -> None:
    """Deliver each order until it is answered, and once more; requests get the fates that *fate* deals."""
    line = FaultyClient(shop.client, fate)
    bad, once = protected(shop, line)
    work = worker(bad, once, entries, together=together)
    for order in range(orders):
        for _ in range(2):
            deliver(once, shop.clock, line, order, work)
    line.deliver()


def deliver(once: Once, clock: FakeClock, line: FaultyClient, order: int, work: Any) -> None:
    """Deliver *order* again until there is an answer, as a queue does."""
    for _ in range(50):
        try:
            assert Context().run(once.run, "place", f"order_{order}", work, order) == order
        except RetryLater:
            clock.advance(20)
            line.deliver(1)
        else:
            return
    raise AssertionError("never answered")


def check_exact(shop: Shop, orders: int) -> None:
    """Check that every order is there once."""
    assert shop.points.get("ann") == {"balance": 10 * orders}
    assert [shop.placed(order) for order in range(orders)] == [1] * orders
    assert all(shop.item("ann", f"receipt_{order}") for order in range(orders))


@pytest.mark.parametrize("seed", range(6))
def test_an_order_its_points_and_its_receipt_are_written_once(shop: Shop, seed: int) -> None:
    """Answers and requests are lost, copies arrive late, each order is delivered twice: exact."""
    place(shop, 5, by_seed(seed))
    check_exact(shop, 5)


def test_every_second_answer_may_be_lost(shop: Shop) -> None:
    """Each transaction's first answer included."""
    place(shop, 5, every_second_answer_lost())
    check_exact(shop, 5)


def test_the_token_alone_keeps_a_count_exact(shop: Shop) -> None:
    """No entry has a condition of its own: the token's, in the same transaction, is enough."""
    place(shop, 20, by_seed(0), the_count)
    assert [shop.placed(order) for order in range(20)] == [1] * 20


def test_apart_from_the_token_the_count_doubles(shop: Shop) -> None:
    """Negative twin: written in a transaction of their own, before the token is completed."""
    place(shop, 20, by_seed(0), the_count, together=False)
    assert max(shop.placed(order) for order in range(20)) > 1


def test_sent_again_without_a_token_the_count_doubles(shop: Shop) -> None:
    """Negative twin: what has no condition of its own is written twice."""
    lost = FaultyClient(shop.client, iter([Fate.ANSWER_LOST, Fate.SOUND]).__next__)
    for _ in range(2):
        with suppress(BotoCoreError):
            lost.transact_write_items(TransactItems=shop.entries(1)[2:])
    assert shop.placed(1) == 2


# -- a process that dies


class Dying:
    """A client whose process dies at one request, before or after it took effect: no other is sent."""

    def __init__(self, client: Any, at: int, *, done: bool) -> None:
        self._client = client
        self._left = at
        self._done = done

    @property
    def dead(self) -> bool:
        return self._left < 0

    def __getattr__(self, operation: str) -> Any:
        send = getattr(self._client, operation)

        def request(**arguments: Any) -> Any:
            self._left -= 1
            if self._left == -1 and self._done:
                send(**arguments)
            if self.dead:
                raise Crash
            return send(**arguments)

        return request


def die_everywhere(shop: Shop, entries: Entries, *, together: bool = True) -> int:
    """
    Place orders, each by a process that dies at a later request, and once more after its lease.

    Return how many orders there were.
    """
    order = 0
    for done in (False, True):
        dead, at = True, 0
        while dead:
            dying = Dying(shop.client, at, done=done)
            bad, once = protected(shop, dying)
            with suppress(Crash):
                Context().run(
                    once.run,
                    "place",
                    f"order_{order}",
                    worker(bad, once, entries, together=together),
                    order,
                )
            dead, at = dying.dead, at + 1
            shop.clock.advance(3_600)
            again, once = protected(shop, shop.client)
            work = worker(again, once, entries, together=together)
            assert Context().run(once.run, "place", f"order_{order}", work, order) == order
            order += 1
    return order


def test_a_process_may_die_at_any_request(shop: Shop) -> None:
    """Before it took effect, and after: the order, its points and its receipt are there once."""
    orders = die_everywhere(shop, Shop.entries)
    assert orders > 6
    check_exact(shop, orders)


def test_apart_from_the_token_a_death_doubles_the_count(shop: Shop) -> None:
    """Negative twin: a process dies between the writes and the token's completion."""
    orders = die_everywhere(shop, the_count, together=False)
    assert max(shop.placed(order) for order in range(orders)) == 2


# -- sent again without a token


def test_a_second_transaction_finds_duplicates(shop: Shop) -> None:
    """Each pattern recognises its own; nothing of the second is written."""
    assert send(shop.client, shop.entries(1)) is None
    results = send(shop.client, shop.entries(1))
    assert results == (
        Duplicate({"balance": 10}),
        Duplicate({"pk": "ann", "sk": "receipt_1"}, same=True),
        None,
    )
    assert shop.points.get("ann") == {"balance": 10}
    assert shop.placed(1) == 1


def test_without_the_condition_points_count_twice(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: an entry that does not look for its id."""
    monkeypatch.setattr(ledger_requests, "id_is_new", lambda *_: "")
    monkeypatch.setattr("lambda_once.patterns.ledger.ledger.ids_at", lambda *_: set())
    for _ in range(2):
        assert send(shop.client, shop.entries(1)[:1]) is None
    assert shop.points.get("ann") == {"balance": 20}


def test_without_the_condition_a_receipt_is_replaced(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: an entry that puts whatever is there."""
    monkeypatch.setattr(unique_module, "ABSENT", "attribute_not_exists(#key) OR attribute_exists(#key)")
    for total in (1, 2):
        assert (
            send(shop.client, [shop.receipts.transact_item({"pk": "a", "sk": "r", "total": total})]) is None
        )
    assert (shop.item("a", "r") or {})["total"] == 2


def test_the_same_entries_again_are_recognised(shop: Shop) -> None:
    """A receipt that this very entry has written is `Applied`: the transaction took effect before."""
    items = shop.entries(1)
    assert send(shop.client, items) is None
    counted = Duplicate({"balance": 10})
    assert send(shop.client, items) == (counted, Applied({"pk": "ann", "sk": "receipt_1"}), None)


def test_without_a_mark_the_same_entry_is_a_duplicate(shop: Shop) -> None:
    """Negative twin: `mark=None` adds nothing by which the entry could recognise its item."""
    unmarked = Unique(shop.table, shop.client, mark=None)
    items = [unmarked.transact_item({"pk": "ann", "sk": "r", "total": 1})]
    assert send(shop.client, items) is None
    assert send(shop.client, items) == (Duplicate({"pk": "ann", "sk": "r"}, same=True),)


def test_another_content_is_no_repetition(shop: Shop) -> None:
    """The receipt's key was used for something else."""
    send(shop.client, [shop.receipts.transact_item({"pk": "ann", "sk": "r", "total": 1})])
    other = [shop.receipts.transact_item({"pk": "ann", "sk": "r", "total": 2})]
    assert send(shop.client, other) == (Duplicate({"pk": "ann", "sk": "r"}, same=False),)


# -- the ledger's entry


def test_a_floor_refuses_all(shop: Shop) -> None:
    """Points that are not there, and so no receipt either."""
    items = [
        shop.points.transact_item("ann", {"balance": -10}, id="spent", floor={"balance": 0}),
        *shop.entries(1)[1:],
    ]
    assert send(shop.client, items) == (Refused({}, {"balance": 0}), None, None)
    assert shop.placed(1) == 0
    shop.points.add("ann", {"balance": 10}, id="earned")
    assert send(shop.client, items) is None
    assert shop.points.get("ann") == {"balance": 0}


@pytest.mark.parametrize("days", [0, 1, 20])
def test_an_entry_fits_the_item_as_it_is(shop: Shop, days: int) -> None:
    """In a longer window's layout, and after an idle time: the entry is made for what was read."""
    Ledger(shop.orders, shop.client, window=WEEK * 2, clock=shop.clock).add("ann", {"balance": 1}, id="old")
    shop.clock.advance(days * 86_400)
    assert send(shop.client, shop.entries(1)) is None
    assert send(shop.client, shop.entries(1)) is not None
    assert shop.points.get("ann") == {"balance": 11}


def test_a_layout_that_has_just_moved_is_a_conflict_and_the_retry_fits(shop: Shop) -> None:
    """Another window takes the item up between the entry and the transaction."""
    items = shop.entries(1)
    Ledger(shop.orders, shop.client, window=WEEK * 2, clock=shop.clock).add("ann", {"balance": 1}, id="old")
    (conflict, *others) = send(shop.client, items) or ()
    assert isinstance(conflict, Conflict)
    assert others == [None, None]
    assert shop.placed(1) == 0
    assert send(shop.client, shop.entries(1)) is None
    assert shop.points.get("ann") == {"balance": 11}


def test_made_without_a_look_at_the_item_no_retry_fits(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: an entry in the ledger's own layout is refused for ever."""
    Ledger(shop.orders, shop.client, window=WEEK * 2, clock=shop.clock).add("ann", {"balance": 1}, id="old")
    monkeypatch.setattr(Ledger, "_items", lambda *_: [])
    for _ in range(3):
        assert isinstance((send(shop.client, shop.entries(1)) or [None])[0], Conflict)


def test_a_duplicate_in_another_layout_is_one(shop: Shop) -> None:
    """It was added under a longer window: refused, and not added while the ids are rearranged."""
    longer = Ledger(shop.orders, shop.client, window=WEEK * 2, clock=shop.clock)
    longer.add("ann", {"balance": 10}, id="order_1/earned")
    assert (send(shop.client, shop.entries(1)) or ())[0] == Duplicate({"balance": 10})
    shop.points.add("bob", {"balance": 10}, id="order_1/earned")
    item = [longer.transact_item("bob", {"balance": 10}, id="order_1/earned")]
    assert send(shop.client, item) == (Duplicate({"balance": 10}),)


def test_a_full_item_is_full(shop: Shop) -> None:
    """By the reason that the API reference gives; dynoxide cancels no transaction for it."""
    item = shop.points.transact_item("ann", {"n": 1}, id="x")
    message = "Item size to update has exceeded the maximum allowed size"
    reason = {"Code": "ValidationError", "Message": message}
    (result,) = transaction_results(cancelled(reason), [item])
    assert isinstance(result, Full)


def test_without_the_condition_a_floor_does_not_hold(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin."""
    monkeypatch.setattr(ledger_requests, "floor_holds", lambda *_: "")
    spent = shop.points.transact_item("ann", {"balance": -10}, id="spent", floor={"balance": 0})
    assert send(shop.client, [spent]) is None
    assert shop.points.get("ann") == {"balance": -10}


def test_without_a_look_for_the_id_another_layout_adds_it_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: the ids are rearranged, and none is searched."""
    Ledger(shop.orders, shop.client, window=WEEK * 2, clock=shop.clock).add("ann", {"balance": 10}, id="x")
    monkeypatch.setattr("lambda_once.patterns.ledger.ledger.ids_at", lambda *_: set())
    longest = Ledger(shop.orders, shop.client, window=WEEK * 4, clock=shop.clock)
    assert send(shop.client, [longest.transact_item("ann", {"balance": 10}, id="x")]) is None
    assert shop.points.get("ann") == {"balance": 20}


# -- the ratchet's entry


def price(shop: Shop, amount: int, ts: int, **options: Any) -> TransactItem:
    """Return the entry of a price."""
    return shop.prices.transact_item({"pk": "desk", "sk": "-", "price": amount}, ts, **options)


def test_a_price_in_a_transaction_never_goes_back(shop: Shop) -> None:
    """Newer is written, the same again is a repetition, older is `Stale` and cancels all."""
    now = TICK
    assert send(shop.client, [price(shop, 2, now), *shop.entries(1)]) is None
    assert send(shop.client, [price(shop, 2, now), *shop.entries(2)]) is None
    assert send(shop.client, [price(shop, 1, now - 1), *shop.entries(3)]) == (Stale({"ts": now}), *[None] * 3)
    assert (shop.item("desk") or {})["price"] == 2
    assert shop.placed(3) == 0


def test_without_the_order_a_price_goes_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: equal to any."""
    monkeypatch.setattr(ratchet_requests, "PUT_IS_NEWER", "#ts = :ts OR #ts <> :ts")
    for amount, ts in ((2, TICK), (1, TICK - 1)):
        assert send(shop.client, [price(shop, amount, ts)]) is None
    assert (shop.item("desk") or {})["price"] == 1


def test_two_that_read_the_same_price_do_not_both_write(shop: Shop) -> None:
    """Whichever comes second is a conflict, although the contents are the same."""
    shop.prices.put({"pk": "desk", "sk": "-", "price": 1}, TICK)
    read = shop.prices.get({"pk": "desk", "sk": "-"})
    one, other = (price(shop, 2, TICK + 1, expected=read) for _ in range(2))
    assert send(shop.client, [one]) is None
    (conflict,) = send(shop.client, [other]) or ()
    assert isinstance(conflict, Conflict)
    assert conflict.values == {"ts": TICK + 1}
    assert send(shop.client, [one]) is None  # its own write


def test_without_the_expectation_both_write(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the second replaces what it has not read."""
    monkeypatch.setattr(ratchet_requests, "AS_READ", "(#ts = :read OR #ts <> :read)")
    shop.prices.put({"pk": "desk", "sk": "-", "price": 1}, TICK)
    read = shop.prices.get({"pk": "desk", "sk": "-"})
    for amount in (2, 3):
        assert send(shop.client, [price(shop, amount, TICK + amount, expected=read)]) is None
    assert (shop.item("desk") or {})["price"] == 3


def test_without_its_id_an_own_write_is_a_conflict(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: sent again after a lost answer, the entry does not recognise what it wrote."""
    monkeypatch.setattr(ratchet_requests, "OWN", "(#write = :write AND #write <> :write)")
    shop.prices.put({"pk": "desk", "sk": "-", "price": 1}, TICK)
    entry = price(shop, 2, TICK + 1, expected=shop.prices.get({"pk": "desk", "sk": "-"}))
    assert send(shop.client, [entry]) is None
    (conflict,) = send(shop.client, [entry]) or ()
    assert isinstance(conflict, Conflict)


def test_a_clock_ahead_is_seen_on_both_sides(shop: Shop) -> None:
    """Before sending, and in the item that refuses."""
    with pytest.raises(TooFarAhead):
        price(shop, 1, TICK + 3_600_000)
    Ratchet(shop.table, shop.client, key=("pk", "sk"), ahead=None).put(
        {"pk": "desk", "sk": "-"}, TICK + 3_600_000
    )
    (result,) = send(shop.client, [price(shop, 1, TICK)]) or ()
    assert isinstance(result, TooFarAhead)


# -- reading what cancelled it


def cancelled(*reasons: dict[str, Any]) -> ClientError:
    """Return the error of a transaction that was cancelled for *reasons*."""
    response = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": list(reasons)}
    return ClientError(response, "TransactWriteItems")


def test_an_entry_of_ones_own_is_a_conflict(shop: Shop) -> None:
    """With the item where the entry asks for it."""
    put = {
        "TableName": shop.orders,
        "Item": {"pk": {"S": "order_9"}},
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    assert send(shop.client, [{"Put": put}]) is None
    (result,) = send(shop.client, [{"Put": put}]) or ()
    assert isinstance(result, Conflict)
    assert result.values == {"pk": "order_9"}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ({"Code": "TransactionConflict"}, Conflict),
        ({"Code": "ThrottlingError"}, StoreUnavailable),
        ({"Code": "ProvisionedThroughputExceeded"}, StoreUnavailable),
        ({"Code": "ValidationError", "Message": "x"}, Misconfigured),
        ({"Code": "ValidationError", "Message": "Item size to update has exceeded"}, Misconfigured),
    ],
)
def test_other_reasons(reason: dict[str, Any], kind: type) -> None:
    """What a retry mends is `RetryLater`."""
    first, second = transaction_results(cancelled(reason, {"Code": "None"}), [{"Put": {}}, {"Put": {}}])
    assert type(first) is kind
    assert second is None


def test_another_error_is_raised_as_it_is() -> None:
    """A throttled request cancelled no transaction."""
    error = ClientError({"Error": {"Code": "ThrottlingException"}}, "TransactWriteItems")
    with pytest.raises(ClientError) as raised:
        transaction_results(error, [])
    assert raised.value is error
