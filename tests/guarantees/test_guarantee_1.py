"""Guarantee 1: at most one attempt holds a token at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import NOT_DONE, Fenced, InProgress, MemoryStore, Once
from lambda_once.core import writes
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import Acquire, Holder, Release, Write
from lambda_once.stores import requests
from lambda_once.stores.contract import AcquireAnswer, Store, Won
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, lambda_context, using
from tests.guarantees.machines import Cluster, deliver, tried
from tests.kit import tables

MANY = 16


def _sixteen_at_once(store: Store) -> None:
    """Sixteen threads deliver one order; the one that runs does not end before all others were answered."""
    once = Once(service="shop")
    at_once, refused = threading.Barrier(MANY), threading.Semaphore(0)
    ran: list[int] = []

    @once.event(key="order")
    def handler(event: dict[str, Any]) -> str:
        ran.append(threading.get_ident())
        for _ in range(MANY - 1):
            assert refused.acquire(timeout=0.5)
        return "charged"

    def delivery(_: int) -> str:
        at_once.wait(20)
        try:
            return handler({"order": 5}, lambda_context())
        except InProgress:
            return "in progress"
        except Fenced:
            return "fenced"
        finally:
            refused.release()

    with using(once, store), ThreadPoolExecutor(MANY) as threads:
        answers = list(threads.map(delivery, range(MANY)))
    assert len(ran) == 1
    assert sorted(answers) == ["charged"] + ["in progress"] * (MANY - 1)


def test_at_most_one_attempt_holds_a_token() -> None:
    """Of sixteen that come at once, one runs and fifteen get that it is in progress."""
    _sixteen_at_once(MemoryStore())


def test_twin_without_the_condition_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acquisition that asks nothing lets several run."""
    monkeypatch.setattr(writes, "_may_take", lambda *_: True)
    with pytest.raises(AssertionError):
        _sixteen_at_once(MemoryStore())


@pytest.fixture(params=tables.CLIENTS)
def engine_table(request: pytest.FixtureRequest, senders: Mapping[str, Any]) -> Any:
    """A store on a real engine, whose conditional writes are atomic, by each client."""
    with tables.fresh(senders[tables.BOTO3]) as name:
        yield DynamoDBStore(name, senders[request.param])


@pytest.mark.engine
def test_at_most_one_attempt_holds_a_token_in_dynamodb(engine_table: DynamoDBStore) -> None:
    """The conditional write of a real engine decides between sixteen."""
    _sixteen_at_once(engine_table)


@pytest.mark.engine
@pytest.mark.parametrize("engine_table", [tables.BOTO3], indirect=True)
def test_twin_without_the_condition_all_run_in_dynamodb(
    engine_table: DynamoDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition that every row meets lets several run."""
    monkeypatch.setattr(requests, "ABSENT", "attribute_not_exists(nothing)")
    with pytest.raises(AssertionError):
        _sixteen_at_once(engine_table)


def later(machines: Cluster, handler: Callable[..., Any]) -> None:
    """A second later, deliver to another machine, whatever it answers."""
    machines.clock.advance(1)
    tried(handler)


def test_a_living_attempt_is_not_taken_over(machines: Cluster) -> None:
    """A delivery comes while the first is in progress, within its lease."""
    second = machines.machine("second")
    first = machines.machine("first", lambda: later(machines, second))
    tried(first)
    assert machines.ran == ["first"]


def test_clocks_may_differ_by_a_moment(machines: Cluster) -> None:
    """One works to the last moment of its invocation; another's clock is a second ahead."""
    ahead = FakeClock(machines.clock.now() + timedelta(seconds=1))

    def to_the_last_moment() -> None:
        for clock in (machines.clock, ahead):
            clock.advance(9.9)
        later(machines, other)

    other = machines.machine("other", clock=ahead, lease=None)
    deliver(machines.machine("first", to_the_last_moment, lease=None), remaining_ms=10_000)
    assert machines.ran == ["first"]


def test_concurrent_probes_run_once(machines: Cluster) -> None:
    """While one probe thinks about its answer, another says that nothing was done, and its caller starts."""

    def thinking(*_: Any) -> object:
        machines.crash(on_lapse=lambda *_: NOT_DONE)
        machines.ran.append("second, in progress")
        return NOT_DONE

    machines.crash(on_lapse=lambda *_: NOT_DONE)
    machines.lapse()
    tried(machines.machine("first", on_lapse=thinking))
    assert machines.ran == ["second, in progress"]


def test_a_lease_only_ever_lengthens(machines: Cluster) -> None:
    """A copy of a short renewal arrives after a long one; then somebody else comes."""
    other = machines.machine("other")

    def work() -> None:
        attempt = machines.attempt("first")
        attempt.extend(60)
        delayed = machines.updates[-1]
        attempt.extend(3600)
        machines.again(delayed)
        machines.clock.advance(120)
        later(machines, other)

    tried(machines.machine("first", work))
    assert machines.ran == ["first"]


KEEP_A_MOMENT = timedelta(seconds=1)


def test_a_row_outlives_its_lease(machines: Cluster) -> None:
    """DynamoDB deletes what is past its ttl while the attempt is in progress."""
    other = machines.machine("other", keep=KEEP_A_MOMENT)

    def work() -> None:
        machines.clock.advance(20)
        machines.sweep()
        later(machines, other)

    tried(machines.machine("first", work, keep=KEEP_A_MOMENT))
    assert machines.ran == ["first"]


def test_a_row_outlives_its_renewed_lease(machines: Cluster) -> None:
    """The same, after the lease was renewed for an hour."""
    other = machines.machine("other", keep=KEEP_A_MOMENT)

    def work() -> None:
        machines.attempt("first").extend(3600)
        machines.clock.advance(120)
        machines.sweep()
        later(machines, other)

    tried(machines.machine("first", work, keep=KEEP_A_MOMENT))
    assert machines.ran == ["first"]


class _Delayed(MemoryStore):
    """
    A store whose second row comes of a delayed copy of an acquisition.

    The first acquisition is refused: another attempt is in progress. That one lapses and releases the token;
    then the copy is written, and the second acquisition of the same attempt finds the token its own.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._first: Acquire | None = None

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        (acquisition,) = acquisitions
        if self._first is None:
            now = self._clock.now()
            other = acquisition._replace(attempt_id="other", now=now, lease=now + timedelta(seconds=30))
            super().acquire([other], deadline)
            self._first = acquisition
            answers = super().acquire(acquisitions, deadline)
            self._clock.advance(40)
            return answers
        if (
            acquisition.attempt_id == self._first.attempt_id
            and self.records[acquisition.token].attempt_id == "other"
        ):
            released = Write(
                acquisition.token, Holder("other"), Release(), self._clock.now(), acquisition.ttl, "w"
            )
            super().write([released], deadline)
            super().acquire([self._first], deadline)
        return super().acquire(acquisitions, deadline)


def _work_on_a_delayed_acquisition() -> None:
    """Work starts on the lease of its row, whichever of its acquisitions was written."""
    clock = FakeClock()
    store, once = _Delayed(clock), Once(service="shop")

    @once.event(key="order", lease=timedelta(seconds=30))
    def handler(event: dict[str, Any]) -> None:
        row = store.records[once.current().token]
        assert row.expected_completion > clock.now()

    with using(once, store, clock):
        handler({"order": "5"}, lambda_context(remaining_ms=900_000))


def test_work_starts_on_the_lease_of_its_row() -> None:
    """A delayed copy of an earlier acquisition ends earlier: the lease is renewed before anything starts."""
    _work_on_a_delayed_acquisition()


def test_twin_that_believes_the_lease_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease wished for last is none that anybody else sees: work starts on one that is over."""

    def as_asked(record: Record) -> Won:
        return Won(record.fence, took_over=False)

    monkeypatch.setattr(Won, "before", as_asked)
    with pytest.raises(AssertionError):
        _work_on_a_delayed_acquisition()
