"""A wallet, invoice numbers and quotas by day: the functions of docs/recipes.md, on a bad line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once import Once
from lambda_once.patterns import Ledger
from lambda_once.patterns.ledger import requests
from lambda_once.patterns.results import Conflict
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.applications.rig import Figure, defined_in, delivered, measured
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter

DAY = datetime(2026, 11, 23, 23, 59, tzinfo=UTC)
PAYMENTS = 20
Payment = tuple[str, Decimal]


def wallet(client: Any, table: str, clock: FakeClock) -> Any:
    """Return the functions of the page, with accounts in *table*."""
    accounts = Ledger(table, client, window=timedelta(days=14), clock=clock)
    return defined_in("docs/recipes.md", "open_account", "move", "close_account", accounts=accounts)


def payments(seed: int) -> list[Payment]:
    """Return deposits and withdrawals, of which some cannot be covered."""
    dice = random.Random(seed)
    return [(f"p{n}", Decimal(dice.randint(-2_000, 2_000)) / 100) for n in range(PAYMENTS)]


def run(ground: Ground, seed: int) -> tuple[Any, dict[str, set[str]], Any]:
    """Deliver payments to two consumers; return the balance, what each payment was told, and the wallet."""
    table, clock = ground.table(), FakeClock()
    sound = wallet(ground.client, table, clock)
    sound.open_account("ann")
    told: dict[str, set[str]] = {name: set() for name, _ in payments(seed)}

    def consumer(number: int) -> Callable[[Payment], object]:
        mine = wallet(FaultyClient(ground.client, by_seed(10 * seed + number)), table, clock)

        def consume(payment: Payment) -> None:
            name, amount = payment
            told[name].add(mine.move("ann", amount, name)["status"])

        return consume

    delivered(payments(seed), [consumer(1), consumer(2)], seed)
    return sound.move("ann", 0, "read")["balance"], told, sound


def booked(seed: int, told: dict[str, set[str]]) -> Decimal:
    """Return the sum of the payments that were told that they are booked."""
    return sum((amount for name, amount in payments(seed) if "booked" in told[name]), Decimal(0))


@pytest.mark.parametrize("seed", range(4))
def test_the_balance_is_the_sum_of_what_was_booked(ground: Ground, seed: int) -> None:
    """With redeliveries, two consumers and lost answers no payment counts twice, and none is lost."""
    balance, told, _ = run(ground, seed)
    assert all(told.values())
    assert balance == booked(seed, told) >= 0


def test_without_the_ids_the_balance_is_another(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check notices payments that count twice."""
    monkeypatch.setattr(requests, "id_is_new", lambda *_: "")
    assert any(balance != booked(seed, told) for seed in range(4) for balance, told, _ in [run(ground, seed)])


def test_a_closed_account_takes_nothing(ground: Ground) -> None:
    """It closes when it is empty, and what was booked before is still recognised."""
    _, _, page = run(ground, seed=1)
    balance = page.move("ann", 5, "something")["balance"]
    with pytest.raises(Conflict) as kept:
        page.close_account("ann")
    assert kept.value.values["balance"] == balance > 0
    assert page.move("ann", -balance, "all") == {"status": "booked", "balance": 0}
    page.close_account("ann")
    page.close_account("ann")
    assert page.move("ann", 5, "late") == {"status": "closed"}
    assert page.move("ann", -5, "later")["status"] == "closed"
    assert page.move("ann", -balance, "all") == {"status": "booked", "balance": 0}


def test_an_account_that_was_never_used_is_closed(ground: Ground) -> None:
    """It was opened with a balance of 0, which closing expects."""
    page = wallet(ground.client, ground.table(), FakeClock())
    page.open_account("ann")
    page.close_account("ann")
    page.open_account("ann")  # delivered again
    assert page.move("ann", 5, "late") == page.move("ben", 5, "stray") == {"status": "closed"}


def test_without_the_expectation_it_takes_more(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the condition keeps a deposit out of a closed account."""
    page = wallet(ground.client, ground.table(), FakeClock())
    page.open_account("ann")
    assert page.move("ann", 0, "first")["balance"] == 0
    page.close_account("ann")
    monkeypatch.setattr(requests, "is_as_expected", lambda *_: "")
    assert page.move("ann", 5, "late")["status"] == "booked"


# -- invoice numbers


def numbering(client: Any, table: str, once: Once, clock: FakeClock) -> Any:
    """Return the functions of the page, with counters in *table*."""
    numbers = Ledger(table, client, window=timedelta(days=14), clock=clock)
    return defined_in("docs/recipes.md", "invoice_number", "order_number", numbers=numbers, once=once)


def given(ground: Ground, call: Callable[[Any, str], int], seed: int) -> dict[str, set[int]]:
    """Deliver orders to two consumers; return the numbers that each order was given."""
    table, tokens, clock = ground.table(), ground.tokens(), FakeClock()
    found: dict[str, set[int]] = {f"order_{n}": set() for n in range(8)}

    def consumer(number: int) -> Callable[[str], object]:
        client = FaultyClient(ground.client, by_seed(10 * seed + number, sound=0.8))
        once = Once(table=tokens, client=client, service="shop")
        stack.enter_context(once._using(None, clock))
        page = numbering(client, table, once, clock)
        return lambda order: found[order].add(call(page, order))

    with ExitStack() as stack:
        delivered(found, [consumer(1), consumer(2)], seed)
    return found


def check_once_each(found: dict[str, set[int]]) -> list[int]:
    """Return the numbers, of which each order has one of its own."""
    assert all(len(numbers) == 1 for numbers in found.values()), found
    numbers = sorted(number for (number,) in found.values())
    assert len(set(numbers)) == len(found), found
    return numbers


@pytest.mark.parametrize("seed", range(3))
def test_invoice_numbers_have_no_gap_and_no_twin(ground: Ground, seed: int) -> None:
    """Each order gets one number, the same at each delivery, and the numbers are 1 to 8."""
    found = given(ground, lambda page, order: page.invoice_number(order, "2026"), seed)
    assert check_once_each(found) == list(range(1, 9))


@pytest.mark.parametrize("seed", range(3))
def test_order_numbers_have_no_twin(ground: Ground, seed: int) -> None:
    """Each order gets one number; numbers whose answer was lost are left out."""
    found = given(ground, lambda page, order: page.order_number(order), seed)
    assert check_once_each(found)[-1] >= 8


def test_numbers_by_the_order_have_twins(ground: Ground) -> None:
    """A counter that is asked by the order's id gives a duplicate the number of another: so not by that."""
    numbers = Ledger(ground.table(), ground.client, window=timedelta(days=1), clock=FakeClock())
    counted = [numbers.add("orders", {"last": 1}, id=each).values["last"] for each in ("a", "b", "a")]
    assert counted == [1, 2, 2]


# -- quotas


def test_a_quota_counts_each_request_once(ground: Ground) -> None:
    """Of ten requests, redelivered to two consumers, as many are let through as the quota has."""
    table, let_through = ground.table(), set[str]()

    def consumer(seed: int) -> Callable[[str], object]:
        client = FaultyClient(ground.client, by_seed(seed))
        quotas = Ledger(table, client, window=timedelta(hours=1), clock=FakeClock())
        page = defined_in("docs/recipes.md", "take", quotas=quotas, QUOTA=4)

        def consume(request: str) -> None:
            if page.take("ann", request, DAY) is not None:
                let_through.add(request)

        return consume

    delivered([f"r{n}" for n in range(10)], [consumer(1), consumer(2)], seed=3)
    assert len(let_through) == 4
    (item,) = ground.client.scan(TableName=table)["Items"]
    assert item["pk"] == {"S": "ann@2026-11-23"}
    assert item["used"] == {"N": "-4"}
    assert int(item["ttl"]["N"]) == int(datetime(2026, 11, 26, tzinfo=UTC).timestamp())


# -- what it costs


def figures(ground: Ground) -> Iterable[Figure]:
    """Requests and units of the wallet: as it could be written before, and as the page has it."""
    meter, clock = Meter(ground.client), FakeClock()
    accounts = Ledger(ground.table(), meter, window=timedelta(days=14), clock=clock)
    page = defined_in("docs/recipes.md", "open_account", "move", accounts=accounts)

    def asked_first(account: str, payment: str) -> None:
        """Read whether the account is open, add, and read the balance: three requests, and two races."""
        assert (accounts.get(account) or {})["state"] == "open"
        accounts.add(account, {"balance": -1}, id=payment, floor={"balance": 0})
        assert accounts.get(account) is not None

    def changed(account: str, payment: str) -> None:
        """Without races: read and decide, write on condition, in an item that no other write meets."""
        accounts.change(account, lambda item: {"balance": item["balance"] - 1}, id=payment)

    for name in ("before", "safe", "now"):
        page.open_account(name)
        page.move(name, 100, "deposit")
    yield measured(
        meter,
        "withdrawal from an open account, with its balance",
        lambda: asked_first("before", "p1"),
        lambda: page.move("now", -1, "p1"),
    )
    yield measured(
        meter,
        "the same, safe from races before (change)",
        lambda: changed("safe", "p1"),
        lambda: page.move("now", -1, "p2"),
    )
    yield measured(
        meter,
        "its duplicate, with the balance",
        lambda: asked_first("before", "p1"),
        lambda: page.move("now", -1, "p1"),
    )
    ids = [f"m{n}" for n in range(10)]
    yield measured(
        meter,
        "ten movements of one account",
        lambda: [accounts.add("before", {"balance": 1}, id=each) for each in ids],
        lambda: accounts.add_all("now", {each: {"balance": 1} for each in ids}),
    )
