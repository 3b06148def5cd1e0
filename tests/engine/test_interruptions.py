"""What is no Exception reaches the caller, and only after everything is written or released."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Misconfigured, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.record import State
from lambda_once.core.writes import Acquire
from lambda_once.observability.details import Details, Happening
from lambda_once.stores.contract import Acquired
from tests.decorators.counted import records
from tests.decorators.rig import FrailStore, Rig
from tests.decorators.test_sqs import failed

BODIES = tuple("abcdef")


def _exiting_at(rig: Rig, happening: Happening, **options: Any) -> Once:
    """A `Once` with a hook that raises SystemExit, once."""
    left = [1]

    def hook(details: Details) -> None:
        if details.happening is happening and left:
            left.pop()
            raise SystemExit(3)

    once = Once(store=rig.store, service="shop", hooks=[hook], **options)
    once._host.clock = rig.clock
    return once


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("happening", [Happening.COMPLETED, Happening.DONE, Happening.ACQUIRED])
def test_a_batch_whose_hook_exits(happening: Happening, is_async: bool) -> None:
    """It does not hang; whatever was done is complete, and whatever was not started is released."""
    rig, worked = Rig(), list[str]()
    once = _exiting_at(rig, happening)

    @once.sqs(concurrency=1)
    async def in_turn(record: SQSRecord) -> None:
        worked.append(record.body)

    @once.sqs
    def plain(record: SQSRecord) -> None:
        worked.append(record.body)

    with pytest.raises(SystemExit, match="3"):
        (in_turn if is_async else plain)(records(*BODIES), rig.context())
    states = rig.states()
    assert states.count(State.COMPLETE) == len(worked)
    assert states.count(State.RELEASED) == len(BODIES) - len(worked)


@pytest.mark.parametrize("happening", [Happening.COMPLETED, Happening.DONE, Happening.ACQUIRED])
def test_a_call_whose_hook_exits(happening: Happening) -> None:
    """Under hold nobody is called for work that never began, or that is done."""
    rig, worked = Rig(), list[int]()
    once = _exiting_at(rig, happening, on_error=HOLD)

    @once.event
    def work(event: dict[str, int]) -> int:
        worked.append(1)
        return 1

    with pytest.raises(SystemExit, match="3"):
        work({"order": 5}, rig.context())
    assert rig.row().state is (State.COMPLETE if worked else State.RELEASED)
    assert bool(worked) is (happening is not Happening.ACQUIRED)


def test_a_batch_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda allows 1,024: the completions are written by whoever waits for them."""
    rig = Rig()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        rig.clock.advance(0.6)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert handler(records(*BODIES), rig.context()) == failed()
    assert rig.states() == [State.COMPLETE] * len(BODIES)


def test_an_error_whose_str_raises() -> None:
    """It reaches the caller, and its token is settled by policy."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no str")

    rig = Rig()

    @rig.once.event(on_error=STORE)
    def work(event: dict[str, int]) -> None:
        raise Mute

    with pytest.raises(Mute):
        work({"order": 5}, rig.context())
    row = rig.row()
    assert row.state is State.COMPLETE
    assert row.error is not None
    assert row.error.kind == "Mute"


def test_work_that_returns_a_task_is_not_done() -> None:
    """Neither stored nor left to go on: what is released must not."""
    rig = Rig()

    async def later() -> None:
        raise AssertionError

    @rig.once.function
    def work(order: int) -> Any:
        return asyncio.ensure_future(later())

    async def call() -> None:
        with pytest.raises(Misconfigured, match="Task"):
            work(5)

    asyncio.run(call())
    assert rig.row().state is State.RELEASED


# ------------------------------------------------------------------ cancellation


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_leaked_cancellation_fails_one_record(is_async: bool) -> None:
    """Nobody cancelled the batch: the other records are worked."""
    rig = Rig()

    async def leak() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    @rig.once.sqs
    async def in_turn(record: SQSRecord) -> None:
        if record.body == "b":
            await leak()

    @rig.once.sqs
    def plain(record: SQSRecord) -> None:
        if record.body == "b":
            asyncio.run(leak())

    assert (in_turn if is_async else plain)(records("a", "b", "c"), rig.context()) == failed("b")
    assert rig.states() == [State.COMPLETE, State.RELEASED, State.COMPLETE]


class Slow(FrailStore):
    """An acquisition is answered when the test lets it."""

    begun = threading.Event()
    gate = threading.Event()

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired]:
        answers = super().acquire(wishes, deadline)
        self.begun.set()
        assert self.gate.wait(10)
        return answers


def test_cancelled_often_while_it_starts_the_token_is_given_back() -> None:
    """However often: the acquisition is waited for, and undone."""
    rig = Rig()
    rig.stand_on(Slow)

    @rig.once.function(on_lapse="hold")
    async def work(order: int) -> None:
        raise AssertionError

    async def cancelled() -> None:
        task = asyncio.ensure_future(work(5))
        await asyncio.to_thread(Slow.begun.wait, 10)
        for _ in range(3):
            task.cancel()
            for _ in range(3):
                await asyncio.to_thread(int)
        Slow.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert rig.row().state is State.RELEASED
