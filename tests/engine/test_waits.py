"""Waiting for another attempt: how long, where, and for whom not at all."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import InProgress, KeyReused
from lambda_once.core.clock import has_running_loop
from lambda_once.core.lifecycle import State
from lambda_once.engine import waiting
from lambda_once.engine.lanes import Job
from lambda_once.testing import FakeClock
from tests.decorators.rig import Rig, elsewhere
from tests.decorators.test_sqs import failed
from tests.sources.samples import batch, fifo_record


def test_waiting_is_bounded() -> None:
    """By thirty seconds, or by those that are given, whatever time remains."""
    rig = Rig()
    first = rig.once.begin("k", name="n", lease=timedelta(hours=1))
    elsewhere(first.__enter__)
    policies: list[tuple[Any, float]] = [("wait", 30.0), (timedelta(seconds=7), 7.0)]
    for policy, bound in policies:
        before = rig.slept
        again = rig.new(on_in_progress=policy).begin("k", name="n")
        with pytest.raises(InProgress):
            elsewhere(again.__enter__)
        assert rig.slept - before == pytest.approx(bound, abs=0.01)


@pytest.mark.parametrize(
    ("policy", "seconds", "least", "most"),
    [("wait", 5, 4.4, 4.5), (timedelta(hours=2), 5400, 5300, 5400)],
    ids=["a short one", "an hour and a half"],
)
def test_waiting_ends_with_the_invocation(policy: Any, seconds: float, least: float, most: float) -> None:
    """It is in progress then, and does not run; the last half second is not for waiting."""
    rig = Rig()
    elsewhere(rig.once.begin("k", name="n", lease=timedelta(hours=3)).__enter__)
    again = rig.new(on_in_progress=policy).begin("k", name="n")
    with rig.once.invocation(rig.context("request-2", seconds)), pytest.raises(InProgress):
        again.__enter__()
    assert least < rig.slept <= most


def _all_of_twelve_are_answered(rig: Rig) -> None:
    rig.once = rig.new(on_in_progress="wait")
    names: set[str] = set()

    @rig.once.function(key="k")
    async def work(k: str) -> int:
        names.update(thread.name for thread in threading.enumerate())
        await asyncio.to_thread(int)
        return 1

    async def gathered() -> list[int]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with asyncio.timeout(20):
            return await asyncio.gather(*[work(k="a") for _ in range(12)])

    assert asyncio.run(gathered()) == [1] * 12


class LoopClock(FakeClock):
    """Sleeps on an event loop only."""

    def sleep(self, seconds: float) -> None:
        assert has_running_loop(), "it sleeps in a thread"
        super().sleep(seconds)


async def in_a_thread(clock: LoopClock, seconds: float) -> None:
    """Sleep in the executor, as a twin does."""
    await asyncio.to_thread(clock.sleep, seconds)


def test_who_waits_takes_no_thread_from_the_holder() -> None:
    """Twelve at once, and one thread: the holder's finish gets it, and all get the one outcome."""
    rig = Rig(clock=LoopClock())
    _all_of_twelve_are_answered(rig)
    assert rig.slept > 0


def test_twin_that_waits_in_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits there has the thread that the holder's finish needs."""
    monkeypatch.setattr(waiting, "sleep_on_loop", in_a_thread)
    with pytest.raises(AssertionError, match="in a thread"):
        _all_of_twelve_are_answered(Rig(clock=LoopClock()))


@pytest.mark.parametrize("policy", ["conflict", "wait", timedelta(seconds=7)], ids=str)
def test_no_call_waits_for_its_own_call_stack(policy: Any) -> None:
    """A nested begin, of another `Once` even, is refused at once."""
    rig = Rig()
    other = rig.new(on_in_progress=policy)
    with rig.once.begin("k", name="n"), pytest.raises(InProgress, match="nested begin"):
        other.begin("k", name="n").__enter__()
    assert rig.slept == 0


def test_nothing_waits_on_the_thread_of_a_running_loop() -> None:
    """A plain call there would stop the loop that it waits for."""
    rig = Rig()
    elsewhere(rig.once.begin("k", name="n").__enter__)

    async def on_the_loop() -> None:
        with pytest.raises(InProgress):
            rig.new(on_in_progress="wait").begin("k", name="n").__enter__()

    asyncio.run(on_the_loop())
    assert rig.slept == 0


def test_a_cached_outcome_lives_five_minutes() -> None:
    """An operator's decision is seen by then, however often the entry was used meanwhile."""
    rig = Rig()
    work = rig.once.function(cache=10, name="work")(lambda order: order)
    asked = [rig.store.acquisitions]
    for seconds in (0, 299, 1, 0):
        rig.clock.advance(seconds)
        work(5)
        asked.append(rig.store.acquisitions)
    assert asked == [0, 1, 1, 2, 2]


def test_the_last_outcomes_that_were_used_are_cached() -> None:
    """A duplicate of one asks the table nothing; another payload is refused all the same."""
    rig = Rig()

    @rig.once.function(cache=2, key="order", name="work")
    def work(order: int, note: str = "") -> int:
        return order

    def asked(order: int) -> int:
        before = rig.store.acquisitions
        assert work(order) == order
        return rig.store.acquisitions - before

    assert [asked(order) for order in (1, 1, 2, 1, 3, 1, 2)] == [1, 0, 1, 0, 1, 0, 1]
    with pytest.raises(KeyReused):
        work(2, note="amended")


@pytest.mark.parametrize(("seconds", "runs"), [(61, 2), (-1, 1)], ids=["expired", "clock set back"])
def test_a_cached_outcome_has_an_age(seconds: int, runs: int) -> None:
    """The table is asked again once it has expired, and where the clock was set back."""
    rig, ran = Rig(), list[int]()
    work: Any = rig.once.function(cache=2, keep=timedelta(minutes=1), name="work")(ran.append)
    work(5)
    rig.clock.advance(seconds)
    work(5)
    assert (len(ran), rig.store.acquisitions) == (runs, 2)


def test_a_folded_twin_ends_its_own_group() -> None:
    """Two groups share the record that failed: what follows in either goes back."""
    rig, worked = Rig(), list[str]()

    @rig.once.sqs(key=lambda record: record.body, ignore=("@attributes.MessageGroupId",))
    def handler(record: SQSRecord) -> None:
        worked.append(record.body)
        if record.body == "X":
            raise ValueError

    event = batch(
        *(
            fifo_record(body, group=group, deduplication=id_, id_=id_)
            for id_, body, group in (("1", "X", "A"), ("2", "X", "B"), ("3", "Y", "B"), ("4", "Z", "C"))
        )
    )
    assert handler(event, rig.context()) == failed("1", "2", "3")
    assert worked == ["X", "Z"]
    assert set(rig.states()) == {State.RELEASED, State.COMPLETE}


def test_twin_that_knows_one_group_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows in the other group overtakes the record that failed."""
    monkeypatch.setattr(Job, "fold", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_folded_twin_ends_its_own_group()


@pytest.mark.parametrize("remaining", [None, 5000, lambda: None, lambda: True])
def test_a_context_that_cannot_say_what_remains(remaining: Any) -> None:
    """It counts as none: nothing fails for it."""

    class Context:
        get_remaining_time_in_millis = staticmethod(remaining) if callable(remaining) else remaining

    rig = Rig()
    handler: Any = rig.once.event(name="work")(lambda event: event)
    assert handler({"order": 5}, Context()) == {"order": 5}
    assert "once.no_lambda_context" in rig.events() or rig.row().state is State.COMPLETE
