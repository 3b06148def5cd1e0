"""An acquisition begins with a small request that any row refuses; a row that may be taken costs another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.clock import Deadline
from lambda_once.core.writes import Acquire
from lambda_once.stores.contract import AcquireAnswer, Refused, Won
from lambda_once.stores.requests import ABSENT
from lambda_once.stores.store import DynamoDBStore
from tests.stores.suite.world import HELD, LEASE, PAID, RELEASED, World


def _sent(world: World, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets, for each request from now on, whether it is the small one."""
    assert isinstance(world.store, DynamoDBStore)
    right, sent = world.store.transport.call, list[bool]()

    def call(method: str, request: dict[str, Any], deadline: Deadline, *others: Any) -> Any:
        sent.append(request.get("ConditionExpression") == ABSENT)
        return right(method, request, deadline, *others)

    monkeypatch.setattr(world.store.transport, "call", call)
    return sent


def _begun(world: World) -> None:
    world.won("a0")


def _ended_by(change: Any) -> Callable[[World], None]:
    def ended(world: World) -> None:
        world.won("a0")
        world.finish(change, "a0")

    return ended


def _lapsed(world: World) -> None:
    world.won("a0")
    world.clock.advance(LEASE.total_seconds() + 1)


def _expired(world: World) -> None:
    _ended_by(PAID)(world)
    world.clock.advance(timedelta(days=400).total_seconds())


SMALL, WHOLE = True, False


@pytest.mark.parametrize(
    ("before", "answer", "requests"),
    [
        pytest.param(lambda _: None, Won, [SMALL], id="no row"),
        pytest.param(_ended_by(PAID), Refused, [SMALL], id="complete"),
        pytest.param(_begun, Refused, [SMALL], id="in progress"),
        pytest.param(_ended_by(HELD), Refused, [SMALL], id="held"),
        pytest.param(_ended_by(RELEASED), Won, [SMALL, WHOLE], id="released"),
        pytest.param(_lapsed, Won, [SMALL, WHOLE], id="lapsed"),
        pytest.param(_expired, Won, [SMALL, WHOLE], id="expired"),
    ],
)
def test_only_a_row_that_may_be_taken_costs_a_second_request(
    strict: World,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[World], None],
    answer: type,
    requests: list[bool],
) -> None:
    """A redelivery, whose row is known of, gets the same answer by one request in any case."""
    before(strict)
    row = strict.item()
    sent = _sent(strict, monkeypatch)
    assert isinstance(strict.acquire(strict.acquisition()), answer)
    assert sent == requests
    if answer is Refused:
        assert strict.item() == row
        assert isinstance(strict.acquire(strict.acquisition("a2")._replace(known=True)), Refused)
        assert sent == [*requests, WHOLE]


def test_a_row_that_is_taken_between_the_two_is_somebody_elses(
    strict: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first request brought is old by then: the second one has the conditions of its own."""
    _ended_by(RELEASED)(strict)
    acquire = DynamoDBStore._acquire

    def late(store: DynamoDBStore, acquisition: Acquire, deadline: Deadline) -> AcquireAnswer:
        if acquisition.known:
            monkeypatch.setattr(DynamoDBStore, "_acquire", acquire)
            strict.won("a1")
        return acquire(store, acquisition, deadline)

    monkeypatch.setattr(DynamoDBStore, "_acquire", late)
    answer = strict.acquire(strict.acquisition("a2"))
    assert isinstance(answer, Refused)
    assert answer.record is not None
    assert answer.record.attempt_id == "a1"
