"""Write units of each mode: in stream mode new work takes half, and every protection holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from benchmarks.meter import Meter
from lambda_once import HOLD, Held, Once
from lambda_once.core.lifecycle import Resolve, State
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Acquire, Complete, Extend, Holder, Unclaimed, Write, new_write_id
from lambda_once.operations.decisions import Author, decided
from lambda_once.operations.table import TokenTable
from lambda_once.stores.contract import Refused, Won, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, lambda_context, sqs_event, using
from tests.kit import tables

LEASE = timedelta(seconds=30)
pytestmark = pytest.mark.engine


class Unsure(Exception):
    """Whether money moved is unknown."""


@dataclass
class Shop:
    """A function on a table of dynoxide, and what its requests are charged for."""

    client: Any
    table: str
    listing: Listing
    clock: FakeClock = field(default_factory=FakeClock)
    once: Once = field(default_factory=lambda: Once(service="shop"))
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._meter = Meter(self.client)

        @self.once.event(key="orderId", on_error={Unsure: HOLD}, on_lapse="hold", name="charge")
        def charge(event: dict[str, Any]) -> str:
            self.ran.append(event["orderId"])
            if event["orderId"].startswith("unsure"):
                raise Unsure
            return f"paid {event['orderId']}"

        @self.once.sqs(key="orderId", name="ship")
        def ship(record: Any) -> None:
            self.ran.append(record.json_body["orderId"])

        self.charge, self.ship = charge, ship

    @property
    def is_listed(self) -> bool:
        """Whether a first acquisition is listed."""
        return self.listing is Listing.AT_ONCE

    @property
    def operators(self) -> TokenTable:
        return TokenTable(self.table, self.client, self.clock)

    def units(self) -> tuple[float, float, float]:
        """Return what was spent since the last time: write units, of them the index, and read units."""
        spent = self._meter.spent()
        return spent.write_units, spent.index_units, spent.read_units


@pytest.fixture(params=Listing, ids=lambda listing: str(listing.value))
def shop(request: pytest.FixtureRequest, engine_endpoint: str, partiql: None) -> Iterator[Shop]:
    """A shop in each mode."""
    client = tables.client(engine_endpoint)
    with tables.fresh(client) as name:
        used = tables.client(engine_endpoint)
        shop = Shop(used, name, request.param)
        with using(shop.once, DynamoDBStore(name, used, request.param), shop.clock):
            yield shop
        used.close()
    client.close()


def test_new_work_takes_two_units_less(shop: Shop) -> None:
    """Four at once, two in stream mode; a duplicate takes one either way, and is answered."""
    assert shop.charge({"orderId": "o-1"}, lambda_context()) == "paid o-1"
    assert shop.units() == ((4, 2, 0) if shop.is_listed else (2, 0, 0))
    assert shop.charge({"orderId": "o-1"}, lambda_context()) == "paid o-1"
    assert shop.units() == (1, 0, 0)
    assert shop.ran == ["o-1"]


def test_held_work_is_held_and_resolved(shop: Shop) -> None:
    """A HOLD lists its token in either mode; nothing runs between it and the decision."""
    with pytest.raises(Unsure):
        shop.charge({"orderId": "unsure-1"}, lambda_context())
    assert shop.units() == ((5, 3, 0) if shop.is_listed else (3, 1, 0))
    with pytest.raises(Held):
        shop.charge({"orderId": "unsure-1"}, lambda_context())
    shop.units()
    held = shop.operators.read("shop/charge/unsure-1")
    assert held is not None
    assert held.state is State.HELD
    shop.units()
    done = decided(held, Resolve.DONE, Author("ann", "the bank has it"), shop.clock.now(), result='"paid"')
    assert shop.operators.write(done) is Written.WRITTEN
    assert shop.units() == (2, 1, 0)
    assert shop.charge({"orderId": "unsure-1"}, lambda_context()) == "paid"
    assert shop.ran == ["unsure-1"]


def test_lapsed_work_is_refused_to_its_duplicate(shop: Shop) -> None:
    """Under on_lapse="hold": status and lease are in the row, listed or not."""
    now = shop.clock.now()
    lost = Acquire(
        "shop/charge/o-2", "a1", "orders/r1", now, now + LEASE, Unclaimed(take_over=False), ttl=None
    )
    (answer,) = shop.operators.store.acquire([lost], shop.operators.deadline())
    assert isinstance(answer, Won)
    shop.clock.advance(3_600)
    with pytest.raises(Held) as refused:
        shop.charge({"orderId": "o-2"}, lambda_context())
    assert refused.value.lapsed is True
    assert shop.ran == []


def test_a_late_attempt_is_fenced(shop: Shop) -> None:
    """The completion of an attempt that was taken over is refused."""
    now, token = shop.clock.now(), "shop/ship/o-3"
    take = Unclaimed(take_over=True)
    for attempt, begins in (("a1", now), ("a2", now + 2 * LEASE)):
        acquired = Acquire(token, attempt, "orders/r1", begins, begins + LEASE, take, ttl=None)
        assert isinstance(shop.operators.store.acquire([acquired], shop.operators.deadline())[0], Won)
    change = Complete(None)
    late = Write(token, Holder("a1"), change, now + 3 * LEASE, None, new_write_id(change))
    assert isinstance(shop.operators.write(late), Refused)


def test_what_moves_an_entry_takes_two_units_of_the_index(shop: Shop) -> None:
    """An extend takes three, one less where it lists; so a take-over of a known row, one more of another."""
    now, token = shop.clock.now(), "shop/ship/o-4"
    store = DynamoDBStore(shop.table, shop.client, shop.listing)
    extend = Extend(now + 2 * LEASE)
    first = Acquire(token, "a1", "orders/r1", now, now + LEASE, Unclaimed(take_over=True), ttl=None)
    second = first._replace(attempt_id="a2", now=now + 3 * LEASE, lease=now + 4 * LEASE, known=True)
    third = first._replace(attempt_id="a3", now=now + 5 * LEASE, lease=now + 6 * LEASE)
    assert isinstance(store.acquire([first], shop.operators.deadline())[0], Won)
    shop.units()
    longer = Write(token, Holder("a1"), extend, now, None, new_write_id(extend))
    assert shop.operators.write(longer) is Written.WRITTEN
    assert shop.units() == ((3, 2, 0) if shop.is_listed else (2, 1, 0))
    for acquired, refused in ((second, 0), (third, 1)):
        assert isinstance(store.acquire([acquired], shop.operators.deadline())[0], Won)
        assert shop.units() == (3 + refused, 2, 0)


def test_a_batch_is_replayed(shop: Shop) -> None:
    """Ten records and their redelivery: four requests, and each runs once."""
    event = sqs_event(*({"orderId": f"b-{number}"} for number in range(10)))
    for _ in range(2):
        assert shop.ship(event, lambda_context()) == {"batchItemFailures": []}
    assert sorted(shop.ran) == sorted(f"b-{number}" for number in range(10))
