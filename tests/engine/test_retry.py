"""How long the end of an attempt is sent again: a throttled table must not double an effect."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, RELEASE, RetryLater
from lambda_once.core.clock import FINAL, LAST_ANSWER, Deadline, epoch_seconds
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Release, Write
from lambda_once.dynamodb.retry import LONGEST_PAUSE
from lambda_once.engine import finish, pipeline, waiting
from lambda_once.engine.pipeline import STALLED, Pipeline
from lambda_once.engine.turns import Turns
from lambda_once.stores.contract import Store, Unanswered, WriteAnswer
from lambda_once.testing import FakeClock
from tests.decorators.counted import records
from tests.decorators.rig import Rig
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.decorators.test_sqs_fifo import message
from tests.engine.test_waits import LoopClock, in_a_thread
from tests.kit.frail import FrailStore
from tests.sources.samples import batch

PATIENCE = 10
"""Seconds after which somebody who should have come by now is missed."""


class Throttled(FrailStore):
    """Takes no end of an attempt for some seconds, but for those of keys that it has no trouble with."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.until: Any = None
        self.only: str | None = None
        """The end of the tokens that are throttled; None: all."""
        self.sent: list[tuple[Write, Deadline]] = []

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self.sent += [(write, deadline) for write in writes]
        return [self._answer(write, deadline) for write in writes]

    def _answer(self, write: Write, deadline: Deadline) -> WriteAnswer:
        hot = self.only is None or write.token.endswith(self.only)
        if hot and self.until is not None and deadline.clock.now() < self.until:
            return Unanswered("ProvisionedThroughputExceededException")
        (answer,) = self.sound.write([write], deadline)
        return answer


@pytest.fixture
def rig() -> Rig:
    """A rig whose store can be throttled."""
    rig = Rig()
    rig.use_store(Throttled)
    return rig


def throttle(rig: Rig, seconds: float, only: str | None = None) -> Throttled:
    """Let the table take no ends for *seconds* from now."""
    store = rig.store
    assert isinstance(store, Throttled)
    store.until, store.only = rig.clock.now() + timedelta(seconds=seconds), only
    return store


def _charges_once_through_a_throttle(rig: Rig) -> None:
    charged: list[Any] = []

    @rig.once.event
    def charge(event: dict[str, int]) -> int:
        charged.append(event)
        throttle(rig, 12)
        return len(charged)

    assert charge({"order": 5}, rig.context(seconds=60)) == 1
    rig.clock.advance(120)  # past every lease
    assert charge({"order": 5}, rig.context("request-2", seconds=60)) == 1
    assert len(charged) == 1


def test_a_completion_outlasts_a_throttled_table(rig: Rig) -> None:
    """Twelve seconds without an answer, and the duplicate after the lease is still replayed."""
    _charges_once_through_a_throttle(rig)


def test_twin_that_gives_up_after_a_second(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the patience of one request the charge is made twice."""
    monkeypatch.setattr(finish, "_PATIENCE", timedelta(seconds=1))
    with pytest.raises(AssertionError):
        _charges_once_through_a_throttle(rig)


@pytest.mark.parametrize(("remaining", "gives_up"), [(600, 30.0), (None, 30.0), (10, 9.85)])
def test_it_is_given_up_after_half_a_minute_or_with_the_time(
    rig: Rig, remaining: float | None, gives_up: float
) -> None:
    """Thirty seconds, also without a Lambda context; never past the last answer of the invocation."""
    store = throttle(rig, 10_000)

    @rig.once.event
    def charge(event: dict[str, int]) -> int:
        return 1

    context: Any = None if remaining is None else rig.context(seconds=remaining)
    assert charge({"order": 5}, context) == 1
    assert gives_up - LONGEST_PAUSE <= rig.slept <= gives_up
    assert {(deadline.final, deadline.at) for _, deadline in store.sent} == {
        (math.inf, store.sent[0][0].now + timedelta(seconds=gives_up))
    }
    assert rig.row().state is State.IN_PROGRESS
    assert rig.events().count("once.completion_failed") == 1


def test_its_ttl_counts_from_the_try_that_is_sent(rig: Rig) -> None:
    """A completion that lands late is kept for as long as one that lands at once."""
    store = throttle(rig, 20)

    @rig.once.event(keep=timedelta(minutes=1))
    def charge(event: dict[str, int]) -> int:
        return 1

    charge({"order": 5}, rig.context(seconds=60))
    written = rig.row()
    assert written.ttl == epoch_seconds(rig.clock.now() + timedelta(minutes=1))
    assert written.actual_completion == store.sent[0][0].now
    assert {write.id for write, _ in store.sent} == {written.write_id}


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({"on_error": HOLD}, State.HELD),
        ({"on_error": RELEASE, "on_lapse": "hold"}, State.RELEASED),
        ({"on_error": RELEASE}, State.IN_PROGRESS),
    ],
    ids=["hold", "release under hold", "release under take_over"],
)
def test_which_ends_are_worth_it(rig: Rig, options: dict[str, Any], state: State) -> None:
    """A hold, and a release that somebody would have to resolve; a lapsed token is taken over anyway."""
    throttle(rig, 15)

    @rig.once.event(**options)
    def charge(event: dict[str, int]) -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        charge({"order": 5}, rig.context(seconds=60))
    assert rig.row().state is state
    if state is State.IN_PROGRESS:
        assert rig.slept < 5


# ------------------------------------------------------------------ async work


async def _returns(_rig: Rig) -> int:
    return 1


async def _raises(_rig: Rig) -> int:
    raise ValueError


async def _completes(rig: Rig) -> Any:
    return await rig.once.current().acomplete(1)


ENDS: Any = {"returned": _returns, "raised": _raises, "completed": _completes}


def _waits_on_the_loop(end: Any) -> None:
    rig = Rig(clock=LoopClock())
    rig.use_store(Throttled)

    @rig.once.function(on_error=HOLD)
    async def work(order: int) -> Any:
        throttle(rig, 12)
        return await end(rig)

    async def call() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        with suppress(ValueError):
            await work(5)

    with rig.once.invocation(rig.context(seconds=60)):
        asyncio.run(call())
    assert rig.slept >= 12
    assert rig.row().state is (State.HELD if end is _raises else State.COMPLETE)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_between_the_tries_it_waits_on_the_loop(end: Any) -> None:
    """No thread of the executor sleeps for it: others finish meanwhile."""
    _waits_on_the_loop(end)


def test_a_block_waits_on_the_loop() -> None:
    """The end of an `async with` as well."""
    rig = Rig(clock=LoopClock())
    rig.use_store(Throttled)

    async def call() -> None:
        async with rig.once.begin("k", name="charge"):
            throttle(rig, 12)

    with rig.once.invocation(rig.context(seconds=60)):
        asyncio.run(call())
    assert rig.row().state is State.COMPLETE


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_twin_that_waits_in_the_executor(end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps a thread for half a minute."""
    monkeypatch.setattr(waiting, "sleep_on_loop", in_a_thread)
    with pytest.raises(AssertionError, match="in a thread"):
        _waits_on_the_loop(end)


def test_a_cancellation_waits_for_the_last_try() -> None:
    """Cancelled between two tries, the end is written all the same."""
    rig = Rig()
    rig.use_store(Throttled)

    @rig.once.function
    async def work(order: int) -> int:
        throttle(rig, 12)
        return order

    async def cancelled() -> None:
        task = asyncio.ensure_future(work(5))
        rig.clock.while_asleep(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    with rig.once.invocation(rig.context(seconds=60)):
        asyncio.run(cancelled())
    assert rig.row().state is State.COMPLETE


# ------------------------------------------------------------------ a batch


def _handler(rig: Rig, worked: list[str], *, is_async: bool) -> Any:
    def work(record: SQSRecord) -> None:
        worked.append(record.body)

    @rig.once.sqs(key=lambda record: record.body, concurrency=1)
    async def in_turn(record: SQSRecord) -> None:
        work(record)

    return in_turn if is_async else rig.once.sqs(key=lambda record: record.body)(work)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_hot_token_holds_up_no_other_completion(rig: Rig, is_async: bool) -> None:
    """What is throttled joins a later write; everything else is written, once, at the first."""
    store = throttle(rig, 3, only="/a")
    worked: list[str] = []
    handler = _handler(rig, worked, is_async=is_async)
    assert handler(records("a", "b", "c"), rig.context(seconds=60)) == ALL_WELL
    assert rig.states() == [State.COMPLETE] * 3
    assert worked == ["a", "b", "c"]
    sent = [write.token.rpartition("/")[2] for write, _ in store.sent]
    assert (sent.count("b"), sent.count("c")) == (1, 1)


def test_twin_that_gives_up_what_is_throttled(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not join a later write is never written."""
    monkeypatch.setattr(Pipeline, "_later", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_hot_token_holds_up_no_other_completion(rig, is_async=False)


def test_twin_that_throttles_all_with_one(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is sent again as a whole writes the others twice."""
    real = Pipeline._answers

    def all_or_none(pipeline: Pipeline, group: list[Any]) -> Any:
        answers, again = real(pipeline, group)
        late = next((answer for answer in answers if isinstance(answer, Unanswered)), None)
        return ([late] * len(group) if late else answers), again

    monkeypatch.setattr(Pipeline, "_answers", all_or_none)
    monkeypatch.setattr(pipeline, "LINGER", PATIENCE)
    with pytest.raises(AssertionError):
        test_a_hot_token_holds_up_no_other_completion(rig, is_async=False)


class Stalling(FrailStore):
    """
    Takes no completion of the token "…a" until somebody has released what was not started.

    Threads meet here: the work of "b" ends when the completion is tried for the second time, that try fails
    when the next record has asked, and nothing is tried after six seconds before the release.
    """

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.tries = 0
        self.second, self.again = threading.Event(), threading.Event()
        self.asked, self.released = threading.Event(), threading.Event()
        self.released_at: Any = None

    def work(self, body: str) -> None:
        """Work the record *body*: the one after "a" until the completion of "a" is tried again."""
        if body != "a":
            self.second.set()
            assert self.again.wait(PATIENCE)

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if any(isinstance(write.change, Release) for write in writes):
            self.released_at = deadline.clock.now()
            self.released.set()
        return [self._answer(write, deadline) for write in writes]

    def _answer(self, write: Write, deadline: Deadline) -> WriteAnswer:
        if not write.token.endswith("a") or self.released.is_set():
            (answer,) = self.sound.write([write], deadline)
            return answer
        self.tries += 1
        if self.tries == 1:
            assert self.second.wait(PATIENCE), "no second record began"
        if self.tries == 2:
            self.again.set()
            assert self.asked.wait(PATIENCE), "no request was sent"
        if deadline.clock.now() - write.now > timedelta(seconds=STALLED + 1):
            assert self.released.wait(PATIENCE), "nothing was released"
        return Unanswered("ThrottlingException")


@pytest.fixture
def stalling(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Stalling:
    """The rig's store stalls a batch."""
    rig.use_store(Stalling)
    store = rig.store
    assert isinstance(store, Stalling)
    real = Pipeline._may

    def asked(pipeline: Pipeline, *args: Any, **what: Any) -> bool | None:
        if store.again.is_set():
            store.asked.set()
        return real(pipeline, *args, **what)

    monkeypatch.setattr(Pipeline, "_may", asked)
    return store


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_after_five_seconds_the_unstarted_go_back(rig: Rig, stalling: Stalling, is_async: bool) -> None:
    """They are released while the completion is still being tried; what was done is written in the end."""
    worked: list[str] = []

    def work(record: SQSRecord) -> None:
        worked.append(record.body)
        stalling.work(record.body)

    @rig.once.sqs(key=lambda record: record.body, concurrency=1)
    async def in_turn(record: SQSRecord) -> None:
        work(record)

    handler: Any = in_turn if is_async else rig.once.sqs(key=lambda record: record.body)(work)
    began = rig.clock.now()
    assert handler(records("a", "b", "c", "d"), rig.context(seconds=60)) == failed("c", "d")
    assert worked == ["a", "b"]
    assert rig.states() == [State.COMPLETE, State.COMPLETE, State.RELEASED, State.RELEASED]
    assert STALLED <= (stalling.released_at - began).total_seconds() < STALLED + 3


@pytest.mark.parametrize(
    ("guard", "gone"),
    [("_may_start", lambda _pipeline: True), ("wait", lambda _pipeline, **_: True)],
)
def test_twin_that_starts_whatever_is_late(
    rig: Rig, stalling: Stalling, monkeypatch: pytest.MonkeyPatch, guard: str, gone: Any
) -> None:
    """Every record starts, and a crash then leaves as many lapsed tokens of work that is done."""
    monkeypatch.setattr(Pipeline, guard, gone)
    monkeypatch.setattr("tests.engine.test_retry.PATIENCE", 0.1)
    with pytest.raises(AssertionError):
        test_after_five_seconds_the_unstarted_go_back(rig, stalling, is_async=False)


def test_twin_that_releases_nothing(rig: Rig, stalling: Stalling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unstarted are held for as long as the completion is tried."""
    monkeypatch.setattr(Turns, "_withdraw_stalled", lambda _turns: [])
    monkeypatch.setattr("tests.engine.test_retry.PATIENCE", 0.1)
    with pytest.raises(AssertionError):
        test_after_five_seconds_the_unstarted_go_back(rig, stalling, is_async=False)


def test_a_fifo_group_goes_back_as_a_whole(rig: Rig, stalling: Stalling) -> None:
    """The rest of each group fails with its first unstarted message."""
    worked: list[str] = []

    @rig.once.sqs(key=lambda record: record.body)
    def handler(record: SQSRecord) -> None:
        worked.append(record.body)
        stalling.work(record.body)

    event = batch(*(message(id_, group) for id_, group in (("a", "A"), ("a2", "A"), ("a3", "A"), ("b", "B"))))
    assert handler(event, rig.context(seconds=60)) == failed("a3", "b")
    assert worked == ["a", "a2"]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_single_unanswered_record_is_tried_again(is_async: bool) -> None:
    """A batch of one has no pipeline, and the same patience."""
    rig = Rig(clock=LoopClock() if is_async else FakeClock())
    rig.use_store(Throttled)
    throttle(rig, 12)
    assert _handler(rig, [], is_async=is_async)(records("a"), rig.context(seconds=60)) == ALL_WELL
    assert rig.states() == [State.COMPLETE]


def test_too_late_to_begin(rig: Rig) -> None:
    """Nothing starts in the last half second of an invocation, whose end may come before that of the work."""

    @rig.once.event
    def charge(event: dict[str, int]) -> None:
        raise AssertionError

    with pytest.raises(RetryLater, match="too little time"):
        charge({"order": 5}, rig.context(seconds=LAST_ANSWER + FINAL))
    assert rig.row().state is State.RELEASED
