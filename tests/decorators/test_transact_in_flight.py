"""A finish that meets a transaction of its own attempt waits for what is being sent, and for nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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


class AnsweredLate(GatedStore):
    """A store in which a transaction is written, and its answer takes its time."""

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        answer = FrailStore.transact(self, finish, items, deadline)
        self.gate.sent.set()
        assert self.gate.may_land.wait(SECONDS)
        return answer


class Race:
    """Work that ends while another thread sends a transaction of its attempt."""

    def __init__(self, rig: Rig, threads: ThreadPoolExecutor) -> None:
        self.rig = rig
        self.gate = Gate()
        self.sent: Any = None
        """What becomes of the transaction."""
        self._threads = threads
        self.use_store(GatedStore)

    def use_store(self, kind: type[GatedStore]) -> None:
        """Let transactions be as slow as *kind* says."""
        self.rig.use_store(kind)
        self.rig.store.gate = self.gate  # type: ignore[attr-defined]  # a GatedStore

    def send(self, attempt: Attempt) -> None:
        """Send a transaction from another thread, and return once it is on its way."""
        self.sent = self._threads.submit(attempt.transact, [self.rig.ground.booking], "transacted")
        assert self.gate.sent.wait(SECONDS)

    def work(self, then: Callable[[], object] = lambda: None, **options: Any) -> Callable[[int], str]:
        """Protected work that sends it, does *then*, and returns."""

        @self.rig.once.function(name="work", **options)
        def work(order: int) -> str:
            self.send(self.rig.once.current())
            then()
            return "returned"

        return work


@pytest.fixture
def race(rig: Rig) -> Iterator[Race]:
    """A gate that is shut."""
    with ThreadPoolExecutor() as threads:
        yield Race(rig, threads)


@pytest.fixture
def landing(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the transaction land once a finish waits for it."""
    wait, wait_async = Sending.wait, Sending.wait_async

    def waited(sending: Sending, seconds: float) -> None:
        race.gate.may_land.set()
        wait(sending, seconds)

    async def waited_async(sending: Sending, seconds: float) -> None:
        race.gate.may_land.set()
        await wait_async(sending, seconds)

    monkeypatch.setattr(Sending, "wait", waited)
    monkeypatch.setattr(Sending, "wait_async", waited_async)


lands_when_waited_for = pytest.mark.usefixtures("landing")


@pytest.mark.parametrize("cache", [0, 5])
@pytest.mark.parametrize(
    ("answer", "lost", "outcome", "of_transaction"),
    [
        (None, False, "transacted", None),
        (None, True, "transacted", StoreUnavailable),
        (Unanswered("ReadTimeoutError"), False, "returned", StoreUnavailable),
        (ZeroDivisionError("a condition of the user's own"), False, "returned", ZeroDivisionError),
    ],
    ids=["written", "written, answer lost", "not written", "refused"],
)
@lands_when_waited_for
def test_a_return_waits_for_a_transaction_that_is_being_sent(
    race: Race, answer: Any, lost: bool, outcome: str, of_transaction: Any, cache: int
) -> None:
    """What was written is what the caller and every duplicate get; else the finish goes on (guarantee 4)."""
    race.gate.answer, race.gate.lost = answer, lost
    work = race.work(cache=cache)
    assert [work(5), work(5)] == [outcome, outcome]
    error = race.sent.exception(SECONDS)
    assert type(error) is (of_transaction or type(None))
    assert race.rig.ground.bookings == (1 if outcome == "transacted" else 0)
    assert race.rig.events().count("once.completed") == 1
    assert race.rig.new().run("n", 5, lambda: "another token") == "another token"


@lands_when_waited_for
def test_an_exception_waits_for_it_too(race: Race) -> None:
    """It still reaches the caller; duplicates get what was written."""

    def fails() -> None:
        raise ValueError

    work = race.work(fails)
    with pytest.raises(ValueError, match=r"^$"):
        work(5)
    assert work(5) == "transacted"


@lands_when_waited_for
def test_complete_waits_for_it_too(race: Race) -> None:
    """And answers its result."""
    with race.rig.once.begin("k", name="n") as attempt:
        race.send(attempt)  # type: ignore[arg-type]  # nothing was done before
        assert attempt.complete("completed") == "transacted"
    assert race.rig.ground.bookings == 1


@pytest.mark.parametrize("batch", [1, 2])
@lands_when_waited_for
def test_an_async_return_waits_on_the_loop(race: Race, batch: int) -> None:
    """A time limit of the user's own has ended the waiting for it, not the transaction."""
    rig = race.rig

    @rig.once.sqs
    async def handler(record: Any) -> str:
        attempt = rig.once.current()
        if record.body == "0":
            transacting = asyncio.ensure_future(attempt.atransact([rig.ground.booking], "transacted"))
            assert await asyncio.to_thread(race.gate.sent.wait, SECONDS)
            transacting.add_done_callback(lambda done: done.exception())
        return "returned"

    answer = handler(sqs_event(*map(str, range(batch))), rig.context())
    assert answer == {"batchItemFailures": []}
    assert rig.ground.bookings == 1
    assert rig.states() == [State.COMPLETE] * batch
    assert "transacted" in str(rig.rows()[0].stored)


def test_cancelled_while_it_waits_a_finish_is_written_all_the_same(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the transaction is answered: refused, so the finish goes on."""
    rig, gate = race.rig, race.gate
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


def test_a_work_that_catches_the_lost_answer_does_not_change_the_outcome(race: Race) -> None:
    """Whatever it returns then: the first caller gets what every duplicate gets."""
    rig = race.rig
    race.gate.lost = True
    race.gate.may_land.set()

    @rig.once.function(cache=5)
    def work(order: int) -> Any:
        try:
            return rig.once.current().transact([rig.ground.booking], {"paid": True})
        except StoreUnavailable:
            return {"paid": False}

    assert [work(5), work(5)] == [{"paid": True}, {"paid": True}]
    assert rig.ground.bookings == 1


def test_a_finish_does_not_wait_beyond_the_invocation(race: Race) -> None:
    """It is written all the same, and of the two one lands: the transaction is refused by it."""
    work = race.work(lambda: race.rig.clock.advance(29.5))
    with race.rig.once.invocation(race.rig.context(seconds=30)):
        assert work(5) == "returned"
    race.gate.may_land.set()
    with pytest.raises(Fenced, match="has already finished"):
        race.sent.result(SECONDS)
    assert race.rig.ground.bookings == 0
    assert work(5) == "returned"


def test_a_transaction_that_a_finish_has_found_is_reported_once(race: Race) -> None:
    """The finish found it written, and has reported the completion; its own answer comes after that."""
    race.use_store(AnsweredLate)
    work = race.work(lambda: race.rig.clock.advance(30))
    with race.rig.once.invocation(race.rig.context(seconds=30)):
        assert work(5) == "transacted"

    def reported() -> list[str]:
        return [name for name in race.rig.events() if name in ("once.returned", "once.completed")]

    before = reported()
    race.gate.may_land.set()
    assert race.sent.result(SECONDS) == "transacted"
    assert before.count("once.completed") == 1
    assert reported() == before


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


def test_twin_without_the_order_of_the_two(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finish that does not wait completes the token, and the user's items are lost."""
    monkeypatch.setattr(Ownership, "close", lambda _attempt: None)
    assert race.work()(5) == "returned"
    race.gate.may_land.set()
    with pytest.raises(Fenced):
        race.sent.result(SECONDS)
    assert race.rig.ground.bookings == 0
