"""A call whose response was lost is told what it did itself: `Applied`, and not `Duplicate`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.testing import FakeClock
from tests.kit.faulty import Fate, FaultyClient
from tests.patterns.conftest import Ground

CALLS: dict[str, tuple[Callable[[Ledger], object], object, object]] = {
    "add": (
        lambda points: points.add("c", {"n": 5}, id="m1", set={"last": "m1"}),
        Applied({"n": 5, "last": "m1"}),
        Duplicate({"n": 5, "last": "m1"}),
    ),
    "add with a floor": (
        lambda points: points.add("c", {"n": 5}, id="m1", floor={"n": 0}),
        Applied({"n": 5}),
        Duplicate({"n": 5}),
    ),
    "add_all": (
        lambda points: points.add_all("c", {"m1": {"n": 5}, "m2": {"n": 2}}),
        (Applied({"n": 5}), Applied({"n": 7})),
        (Duplicate({"n": 7}),) * 2,
    ),
    "update": (
        lambda points: points.update("c", {"x": 1}, expected={"x": None}, id="m1"),
        Applied({"x": 1}),
        Duplicate({"x": 1}),
    ),
    "change": (
        lambda points: points.change("c", lambda item: {"x": item.get("x", 0) + 1}, id="m1"),
        Applied({"x": 1}),
        Duplicate({"x": 1}),
    ),
}


def losing(ground: Ground, then: Callable[[], object] = lambda: None) -> Any:
    """Return a client that loses the response to the first write, and calls *then* after it."""
    fates = {"update_item": [Fate.ANSWER_LOST]}

    class Client:
        def __getattr__(self, operation: str) -> Any:
            left = fates.get(operation)
            fate = left.pop() if left else Fate.SOUND
            send = getattr(FaultyClient(ground.client, lambda: fate), operation)

            def request(**arguments: Any) -> Any:
                try:
                    return send(**arguments)
                finally:
                    if fate is not Fate.SOUND:
                        then()

            return request

    return Client()


def ledger(table: str, client: Any, clock: FakeClock, **options: Any) -> Ledger:
    """Return a ledger on *table*, through *client*."""
    return Ledger(table, client, window=timedelta(hours=1), clock=clock, **options)


@pytest.mark.parametrize("call", CALLS)
def test_its_own_lost_write_is_applied(ground: Ground, call: str) -> None:
    """The retry within the call finds its own write; the same call later finds a duplicate."""
    work, first, again = CALLS[call]
    table, clock = ground.table(), FakeClock()
    points = ledger(table, losing(ground), clock)
    assert work(points) == first
    assert work(points) == again


@pytest.mark.parametrize("call", CALLS)
def test_another_calls_write_is_a_duplicate(ground: Ground, call: str) -> None:
    """Also where the first request of this call was lost: what the item has is not its own."""
    work, _, again = CALLS[call]
    table, clock = ground.table(), FakeClock()
    lost = [Fate.REQUEST_LOST]
    client = FaultyClient(ground.client, lambda: lost.pop() if lost else Fate.SOUND)
    work(ledger(table, ground.client, clock))
    assert work(ledger(table, client, clock)) == again
    assert lost == []


def test_a_clock_that_moves_on_does_not_hide_it(ground: Ground) -> None:
    """The retry may be of another form, for another bucket."""
    table, clock = ground.table(), FakeClock()
    points = ledger(table, losing(ground, lambda: clock.advance(600)), clock)
    assert points.add("c", {"n": 5}, id="m1") == Applied({"n": 5})


def test_shards_too(ground: Ground) -> None:
    """Their results have no values."""
    table, clock = ground.table(), FakeClock()
    for n in range(8):
        points = ledger(table, losing(ground), clock, shards=4)
        assert points.add("c", {"n": 5}, id=f"m{n}") == Applied()
        assert points.add("c", {"n": 5}, id=f"m{n}") == Duplicate()


def test_after_another_write_it_is_a_duplicate(ground: Ground) -> None:
    """The item knows its last write alone; nothing counts twice."""
    table, clock = ground.table(), FakeClock()
    other = ledger(table, ground.client, clock)
    points = ledger(table, losing(ground, lambda: other.add("c", {"n": 1}, id="m2")), clock)
    assert points.add("c", {"n": 5}, id="m1") == Duplicate({"n": 6})


@pytest.mark.parametrize("call", CALLS)
def test_without_the_id_of_the_write_it_is_a_duplicate(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Negative twin."""
    monkeypatch.setattr(ledger_requests, "is_last_write", lambda *_: False)
    work, first, _ = CALLS[call]
    assert work(ledger(ground.table(), losing(ground), FakeClock())) != first
