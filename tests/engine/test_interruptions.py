"""What is no Exception reaches the caller, and only after everything is written or released."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Misconfigured, Once
from lambda_once.core import threads
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire, Write
from lambda_once.decorators.suspensions import Suspensions
from lambda_once.engine import batch as engine_batch
from lambda_once.engine import pipeline
from lambda_once.engine.pipeline import Pipeline
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.stores.contract import AcquireAnswer, Store, WriteAnswer
from tests.decorators.counted import records
from tests.decorators.rig import Rig
from tests.decorators.test_sqs import failed
from tests.kit.frail import FrailStore

BODIES = tuple("abcdef")


def _exiting_at(rig: Rig, event: Event, **options: Any) -> Once:
    """A `Once` with a hook that raises SystemExit, once."""
    left = [1]

    def hook(details: Details) -> None:
        if details.event is event and left:
            left.pop()
            raise SystemExit(3)

    once = Once(store=rig.store, service="shop", hooks=[hook], **options)
    once._runtime.clock = rig.clock
    return once


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("event", [Event.COMPLETED, Event.RETURNED, Event.ACQUIRED])
def test_a_batch_whose_hook_exits(event: Event, is_async: bool) -> None:
    """It does not hang; whatever was done is complete, and whatever was not started is released."""
    rig, worked = Rig(), list[str]()
    once = _exiting_at(rig, event)

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


@pytest.mark.parametrize("event", [Event.COMPLETED, Event.RETURNED, Event.ACQUIRED])
def test_a_call_whose_hook_exits(event: Event) -> None:
    """Under hold no person reviews work that never began, or that is done."""
    rig, worked = Rig(), list[int]()
    once = _exiting_at(rig, event, on_error=HOLD)

    @once.event
    def work(event: dict[str, int]) -> int:
        worked.append(1)
        return 1

    with pytest.raises(SystemExit, match="3"):
        work({"order": 5}, rig.context())
    assert rig.row().state is (State.COMPLETE if worked else State.RELEASED)
    assert bool(worked) is (event is not Event.ACQUIRED)


def test_a_batch_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda allows 1,024: the completions are written by whoever waits for them."""
    rig = Rig()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        rig.clock.advance(0.6)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threads, "_kept", [])
    assert handler(records(*BODIES), rig.context()) == failed()
    assert rig.states() == [State.COMPLETE] * len(BODIES)


def test_an_error_whose_str_raises() -> None:
    """It reaches the caller, and its token is finished by policy."""

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


# ------------------------------------------------------------------ KeyboardInterrupt amid a request


class Interrupted(FrailStore):
    """Raises KeyboardInterrupt at some of its requests, before or after they are done."""

    acquires = 0
    """How many of the next acquisitions are interrupted, when they are done."""
    before = 0
    """How many of the next ends are interrupted before they are written."""
    after = 0
    """How many are then, when they are."""

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        if self.acquires:
            self.acquires -= 1
            raise KeyboardInterrupt
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if self.before:
            self.before -= 1
            raise KeyboardInterrupt
        answers = super().write(writes, deadline)
        if self.after:
            self.after -= 1
            raise KeyboardInterrupt
        return answers


def _interrupted(rig: Rig, **times: int) -> None:
    rig.use_store(Interrupted)
    vars(rig.store).update(times)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_completion_that_is_interrupted_is_sent_again(when: str) -> None:
    """The interruption reaches the caller, and the work that was done is complete."""
    rig = Rig()
    _interrupted(rig, **{when: 1})
    with pytest.raises(KeyboardInterrupt):
        rig.once.event(name="work")(lambda event: event)({"order": 5}, rig.context())
    assert rig.row().state is State.COMPLETE
    assert Event.COMPLETED.value in rig.events()


def test_who_interrupts_twice_means_it() -> None:
    """Then nothing is tried again."""
    rig = Rig()
    _interrupted(rig, before=2)
    with pytest.raises(KeyboardInterrupt):
        rig.once.event(name="work")(lambda event: event)({"order": 5}, rig.context())
    assert rig.row().state is State.IN_PROGRESS


@pytest.mark.parametrize("many", [1, 3])
def test_an_acquisition_that_is_interrupted_is_given_back(many: int) -> None:
    """Nothing starts, and whatever was acquired is released."""
    rig = Rig()
    _interrupted(rig, acquires=1)

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        handler(records(*BODIES[:many]), rig.context())
    assert rig.states() == [State.RELEASED] * many


def test_a_group_commit_that_is_interrupted_is_sent_again() -> None:
    """All that was done is complete, and what did not start is released."""
    rig, worked = Rig(), list[str]()
    _interrupted(rig, before=1)

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        worked.append(record.body)

    with pytest.raises(KeyboardInterrupt):
        handler(records(*BODIES), rig.context())
    states = rig.states()
    assert states.count(State.COMPLETE) == len(worked) > 0
    assert states.count(State.RELEASED) == len(BODIES) - len(worked)


class Late(FrailStore):
    """The first end is written when somebody waits for it who was interrupted before."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.begun = threading.Event()
        self.gate = threading.Event()

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self.begun.set()
        assert self.gate.wait(10)
        return super().write(writes, deadline)


def test_a_batch_that_is_interrupted_at_its_end_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the writer is interrupted; the writer is waited for all the same."""
    rig, real, interruptions = Rig(), threading.Condition.wait_for, [KeyboardInterrupt]
    rig.use_store(Late)
    late: Any = rig.store
    monkeypatch.setattr(pipeline, "LINGER", 0)

    def wait_for(condition: threading.Condition, *args: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            if interruptions:
                raise interruptions.pop()
            late.gate.set()
        return real(condition, *args)

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        if record.body == "b":
            assert late.begun.wait(10)
            monkeypatch.setattr(threading.Condition, "wait_for", wait_for)

    with pytest.raises(KeyboardInterrupt):
        handler(records(*BODIES), rig.context())
    assert (interruptions, rig.states()) == ([], [State.COMPLETE] * len(BODIES))


def _interrupted_while_it_writes(monkeypatch: pytest.MonkeyPatch, method: str, left: list[int]) -> None:
    """No thread has begun to write: the batch does, and is interrupted between two steps of *method*."""
    rig, real, writers = Rig(), getattr(Pipeline, method), list[threading.Thread]()
    monkeypatch.setattr(pipeline, "LINGER", 100)

    def interrupted(line: Pipeline, *args: Any) -> Any:
        writers.append(threading.current_thread())
        if left and not left.pop():
            raise KeyboardInterrupt
        return real(line, *args)

    monkeypatch.setattr(Pipeline, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        rig.once.sqs(name="work")(lambda _record: None)(records(*BODIES), rig.context())
    assert (left, {*writers}) == ([], {threading.current_thread()})
    assert rig.states() == [State.COMPLETE] * len(BODIES)
    assert rig.events().count(Event.COMPLETED.value) == len(BODIES)


INTERRUPTED = [("_answers", [0]), ("_done", [0]), ("_done", [0, 1, 1]), ("_write_the_rest", [0])]


@pytest.mark.parametrize(("method", "left"), INTERRUPTED)
def test_a_batch_that_is_interrupted_while_it_writes_is_written(
    monkeypatch: pytest.MonkeyPatch, method: str, left: list[int]
) -> None:
    """What has no answer yet is sent again: before the request, before and between the answers."""
    _interrupted_while_it_writes(monkeypatch, method, [*left])


def test_twin_that_forgets_what_it_was_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is done lapses, or is never reported."""
    monkeypatch.setattr(pipeline, "reversed", lambda _left: (), raising=False)
    for method, left in INTERRUPTED[:3]:
        with monkeypatch.context() as patched, pytest.raises(AssertionError):
            _interrupted_while_it_writes(patched, method, [*left])


# ------------------------------------------------------------------ cancellation


def test_twin_that_takes_any_cancellation_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record takes the others of its batch down."""
    monkeypatch.setattr(engine_batch, "_is_cancellation", lambda _error: False)
    for is_async in (False, True):
        with pytest.raises(asyncio.CancelledError):
            test_a_leaked_cancellation_fails_one_record(is_async)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_leaked_cancellation_fails_one_record(is_async: bool) -> None:
    """The batch was not cancelled: the other records run."""
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

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        self.begun.set()
        assert self.gate.wait(10)
        return answers


@pytest.mark.parametrize(
    ("out", "states"), [(False, [State.RELEASED]), (True, [])], ids=["acquired", "out of reach"]
)
def test_cancelled_often_while_it_starts_the_token_is_given_back(out: bool, states: list[State]) -> None:
    """However often: the acquisition is waited for, and undone; it is a cancellation whatever the answer."""
    rig = Rig()
    rig.use_store(Slow)
    rig.store.out = out
    Slow.begun.clear()
    Slow.gate.clear()

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
    assert rig.states() == states


@pytest.mark.parametrize(
    ("on_lapse", "is_done", "state"),
    [
        ("take_over", False, State.RELEASED),
        ("hold", False, State.HELD),
        ("hold", True, State.COMPLETE),  # cancelled while its completion is being written
    ],
)
def test_cancelled_work_is_finished(on_lapse: Any, is_done: bool, state: State) -> None:
    """Before the cancellation is raised."""
    rig = Rig()

    @rig.once.function(on_lapse=on_lapse)
    async def work(order: int) -> None:
        task: Any = asyncio.current_task()
        asyncio.get_running_loop().call_soon(task.cancel)
        if not is_done:
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work(5))
    assert rig.row().state is state


# ------------------------------------------------------------------ a guard that is interrupted


class Deciding(Suspensions):
    """A history that is interrupted while it writes what it has decided; it is its own source."""

    asks = True

    def __init__(self) -> None:
        super().__init__()
        self.forgotten = 0

    def of(self, *_: object, **__: object) -> Deciding:
        """Return itself, for all calls."""
        return self

    def find(self, *_: object, **__: object) -> None:
        """Find nothing."""

    def check(self, *_: object, **__: object) -> None:
        """Accept every function."""

    def before(self, ownership: Any, finisher: Any) -> Any:
        """Stop between two tries."""
        del ownership, finisher
        yield 0.01
        raise SystemExit

    def undone(self, call: Any, now: datetime) -> None:
        """Count."""
        del call, now
        self.forgotten += 1


@pytest.mark.parametrize("bodies", ["a", "ab"], ids=["alone", "in company"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_interrupted_guard_keeps_its_token(is_async: bool, bodies: str) -> None:
    """It may have decided that the work is done, or held: released and forgotten, that would run again."""
    rig, guard = Rig(), Deciding()

    def plain(record: SQSRecord) -> None:
        raise AssertionError(record.body)

    async def awaited(record: SQSRecord) -> None:
        plain(record)

    options: Any = {"key": lambda record: record.body, "history": guard, "on_lapse": "hold"}
    with pytest.raises(SystemExit):
        rig.once.sqs(**options)(awaited if is_async else plain)(records(*bodies), rig.context())
    assert rig.states()[0] is State.IN_PROGRESS
    assert guard.forgotten == 0
