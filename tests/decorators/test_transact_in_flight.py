"""A finish that meets a transaction of its own attempt waits for what is being sent, and for nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from lambda_once import Fenced, Misconfigured, StoreUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Write
from lambda_once.engine.attempt import Attempt
from lambda_once.engine.ownership import Ownership, Sending
from lambda_once.stores.contract import Unanswered, WriteAnswer
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig
from tests.kit.frail import FrailStore

SECONDS = 30
"""How long a thread of these tests may take, where something is wrong."""


@dataclass
class Gate:
    """How far a transaction is."""

    sent: threading.Event = field(default_factory=threading.Event)
    may_land: threading.Event = field(default_factory=threading.Event)
    answer: WriteAnswer | Exception | None = None
    """What is answered without anything having been written; None: it is written."""
    lost: bool = False
    """It is written, and its answer is lost."""


class GatedStore(FrailStore):
    """A store in which a transaction takes its time."""

    gate: Gate

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        self.gate.sent.set()
        assert self.gate.may_land.wait(SECONDS)
        if isinstance(self.gate.answer, Exception):
            raise self.gate.answer
        if self.gate.answer is not None:
            return self.gate.answer
        answer = super().transact(finish, items, deadline)
        return Unanswered("ReadTimeoutError") if self.gate.lost else answer


def _gated(rig: Rig) -> Gate:
    rig.use_store(GatedStore)
    assert isinstance(rig.store, GatedStore)
    rig.store.gate = Gate()
    return rig.store.gate


@pytest.fixture
def landing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Gate], None]:
    """Let the transaction of a gate land once a finish waits for it."""

    def lands_when_waited_for(gate: Gate) -> None:
        wait, wait_async = Sending.wait, Sending.wait_async

        def waited(sending: Sending, seconds: float) -> None:
            gate.may_land.set()
            wait(sending, seconds)

        async def waited_async(sending: Sending, seconds: float) -> None:
            gate.may_land.set()
            await wait_async(sending, seconds)

        monkeypatch.setattr(Sending, "wait", waited)
        monkeypatch.setattr(Sending, "wait_async", waited_async)

    return lands_when_waited_for


def _transacting(rig: Rig, threads: ThreadPoolExecutor, attempt: Attempt) -> Any:
    """Send a transaction from another thread, and return once it is on its way."""
    begun = threads.submit(attempt.transact, [rig.ground.booking], "transacted")
    gate = rig.store.gate  # type: ignore[attr-defined]  # `_gated`
    assert gate.sent.wait(SECONDS)
    return begun


def test_a_return_waits_for_a_transaction_that_is_being_sent(
    rig: Rig, landing: Callable[[Gate], None]
) -> None:
    """It was written: its result is what the caller and every duplicate get."""
    landing(_gated(rig))
    with ThreadPoolExecutor() as threads:
        begun: list[Any] = []

        @rig.once.function
        def work(order: int) -> str:
            begun.append(_transacting(rig, threads, rig.once.current()))
            return "returned"

        assert [work(5), work(5)] == ["transacted", "transacted"]
        assert begun[0].result(SECONDS) == "transacted"
    assert rig.ground.bookings == 1
    assert rig.events().count("once.completed") == 1


def test_an_exception_waits_for_it_too(rig: Rig, landing: Callable[[Gate], None]) -> None:
    """It still reaches the caller; duplicates get what was written."""
    landing(_gated(rig))
    with ThreadPoolExecutor() as threads:

        @rig.once.function
        def work(order: int) -> str:
            _transacting(rig, threads, rig.once.current())
            raise ValueError

        with pytest.raises(ValueError, match=r"^$"):
            work(5)
        assert work(5) == "transacted"


def test_complete_waits_for_it_too(rig: Rig, landing: Callable[[Gate], None]) -> None:
    """And answers its result."""
    landing(_gated(rig))
    with ThreadPoolExecutor() as threads, rig.once.begin("k", name="n") as attempt:
        _transacting(rig, threads, attempt)  # type: ignore[arg-type]  # nothing was done before
        assert attempt.complete("completed") == "transacted"
    assert rig.ground.bookings == 1


@pytest.mark.parametrize("batch", [1, 2])
def test_an_async_return_waits_on_the_loop(rig: Rig, landing: Callable[[Gate], None], batch: int) -> None:
    """A time limit of the user's own has ended the waiting for it, not the transaction."""
    landing(_gated(rig))

    @rig.once.sqs
    async def handler(record: Any) -> str:
        attempt = rig.once.current()
        if record.body == "0":
            transacting = asyncio.ensure_future(attempt.atransact([rig.ground.booking], "transacted"))
            gate = rig.store.gate  # type: ignore[attr-defined]  # `_gated`
            assert await asyncio.to_thread(gate.sent.wait, SECONDS)
            transacting.add_done_callback(lambda done: done.exception())
        return "returned"

    answer = handler(sqs_event(*map(str, range(batch))), rig.context())
    assert answer == {"batchItemFailures": []}
    assert rig.ground.bookings == 1
    assert rig.states() == [State.COMPLETE] * batch
    stored = rig.rows()[0].stored
    assert stored is not None
    assert "transacted" in str(stored)


def test_cancelled_while_it_waits_a_finish_is_written_all_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the transaction is answered: refused, so the finish goes on."""
    gate = _gated(rig)
    gate.answer = Unanswered("ThrottlingException")

    @rig.once.function
    async def work(order: int) -> str:
        begun = asyncio.ensure_future(rig.once.current().atransact([rig.ground.booking], "transacted"))
        begun.add_done_callback(lambda done: done.exception())
        assert await asyncio.to_thread(gate.sent.wait, SECONDS)
        return "returned"

    async def cancelled() -> None:
        waits, wait_async = asyncio.Event(), Sending.wait_async

        async def waited(sending: Sending, seconds: float) -> None:
            waits.set()
            await wait_async(sending, seconds)

        monkeypatch.setattr(Sending, "wait_async", waited)
        task = asyncio.ensure_future(work(5))
        await waits.wait()
        task.cancel()
        gate.may_land.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert asyncio.run(work(5)) == "returned"
    assert rig.ground.bookings == 0


@pytest.mark.parametrize(
    "answer", [Unanswered("ReadTimeoutError"), ZeroDivisionError("a condition of the user's own")]
)
def test_a_transaction_that_wrote_nothing_leaves_the_finish_to_go_on(
    rig: Rig, landing: Callable[[Gate], None], answer: Any
) -> None:
    """The caller and every duplicate get what the work returned."""
    gate = _gated(rig)
    gate.answer = answer
    landing(gate)
    with ThreadPoolExecutor() as threads:
        begun: list[Any] = []

        @rig.once.function
        def work(order: int) -> str:
            begun.append(_transacting(rig, threads, rig.once.current()))
            return "returned"

        assert [work(5), work(5)] == ["returned", "returned"]
        assert isinstance(begun[0].exception(SECONDS), StoreUnavailable | ZeroDivisionError)
    assert rig.ground.bookings == 0


def test_a_transaction_that_was_written_without_an_answer_counts(
    rig: Rig, landing: Callable[[Gate], None]
) -> None:
    """The finish is refused by it, and the caller gets what the table has (guarantee 4)."""
    gate = _gated(rig)
    gate.lost = True
    landing(gate)
    with ThreadPoolExecutor() as threads:

        @rig.once.function(cache=5)
        def work(order: int) -> str:
            _transacting(rig, threads, rig.once.current())
            return "returned"

        assert [work(5), work(5), rig.new().run_as("n", 5, lambda: "another token")] == [
            "transacted",
            "transacted",
            "another token",
        ]
    assert rig.ground.bookings == 1


def test_a_work_that_catches_the_lost_answer_does_not_change_the_outcome(rig: Rig) -> None:
    """Whatever it returns then: the first caller gets what every duplicate gets."""
    gate = _gated(rig)
    gate.lost = True
    gate.may_land.set()

    @rig.once.function(cache=5)
    def work(order: int) -> Any:
        try:
            return rig.once.current().transact([rig.ground.booking], {"paid": True})
        except StoreUnavailable:
            return {"paid": False}

    assert [work(5), work(5)] == [{"paid": True}, {"paid": True}]
    assert rig.ground.bookings == 1


def test_a_finish_does_not_wait_beyond_the_invocation(rig: Rig) -> None:
    """It is written all the same, and of the two one lands: the transaction is refused by it."""
    gate = _gated(rig)
    with ThreadPoolExecutor() as threads:
        begun: list[Any] = []

        @rig.once.function
        def work(order: int) -> str:
            begun.append(_transacting(rig, threads, rig.once.current()))
            rig.clock.advance(29.5)
            return "returned"

        with rig.once.invocation(rig.context(seconds=30)):
            assert work(5) == "returned"
        gate.may_land.set()
        with pytest.raises(Fenced, match="has already finished"):
            begun[0].result(SECONDS)
    assert rig.ground.bookings == 0
    assert work(5) == "returned"


class AnsweredLate(GatedStore):
    """A store in which a transaction is written, and its answer takes its time."""

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        answer = FrailStore.transact(self, finish, items, deadline)
        self.gate.sent.set()
        assert self.gate.may_land.wait(SECONDS)
        return answer


def test_a_transaction_that_a_finish_has_found_is_reported_once(rig: Rig) -> None:
    """The finish found it written, and has reported the completion; its own answer comes after that."""
    rig.use_store(AnsweredLate)
    assert isinstance(rig.store, AnsweredLate)
    gate = rig.store.gate = Gate()
    with ThreadPoolExecutor() as threads:
        begun: list[Any] = []

        @rig.once.function
        def work(order: int) -> str:
            begun.append(_transacting(rig, threads, rig.once.current()))
            rig.clock.advance(30)
            return "returned"

        with rig.once.invocation(rig.context(seconds=30)):
            assert work(5) == "transacted"
        reported = [name for name in rig.events() if name in ("once.done", "once.completed")]
        gate.may_land.set()
        assert begun[0].result(SECONDS) == "transacted"
    assert reported.count("once.completed") == 1
    assert [name for name in rig.events() if name in ("once.done", "once.completed")] == reported


def _late(rig: Rig, attempt: Attempt) -> None:
    with pytest.raises(Misconfigured, match=r"after token .* was finished"):
        attempt.transact([rig.ground.booking], "late")
    assert rig.ground.bookings == 0


def test_there_is_no_transaction_after_complete(rig: Rig) -> None:
    """It could only be refused: nothing of the user's would be written."""
    with rig.once.begin("k", name="n") as attempt:
        attempt.complete("completed")
        _late(rig, attempt)  # type: ignore[arg-type]  # nothing was done before


def test_there_is_no_transaction_after_the_work(rig: Rig) -> None:
    """From a thread or task that outlives it, after a return and after an exception."""
    attempts: list[Attempt] = []

    @rig.once.function
    def work(order: int) -> None:
        attempts.append(rig.once.current())
        if order == 6:
            raise ValueError

    work(5)
    with pytest.raises(ValueError, match=r"^$"):
        work(6)
    for attempt in attempts:
        _late(rig, attempt)


def test_a_transaction_that_waits_for_a_thread_is_not_waited_for(rig: Rig) -> None:
    """It is not on its way: the executor may be full of those who would wait for it."""
    attempts: list[Attempt] = []
    queued: list[Any] = []
    free = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(free.wait, SECONDS)

        @rig.once.function
        def work(order: int) -> str:
            attempts.append(rig.once.current())
            queued.append(threads.submit(attempts[0].transact, [rig.ground.booking], "late"))
            return "returned"

        assert work(5) == "returned"
        free.set()
        with pytest.raises(Misconfigured, match="was finished"):
            queued[0].result(SECONDS)
    assert rig.ground.bookings == 0


def test_twin_without_the_order_of_the_two(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finish that does not wait completes the token, and the user's items are lost."""
    monkeypatch.setattr(Ownership, "close", lambda _attempt: None)
    gate = _gated(rig)
    with ThreadPoolExecutor() as threads:
        begun: list[Any] = []

        @rig.once.function
        def work(order: int) -> str:
            begun.append(_transacting(rig, threads, rig.once.current()))
            return "returned"

        assert work(5) == "returned"
        gate.may_land.set()
        with pytest.raises(Fenced):
            begun[0].result(SECONDS)
    assert rig.ground.bookings == 0
