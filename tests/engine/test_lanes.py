"""Lanes of a batch: how they wait, and how an interruption ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import GiveUp
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Write
from lambda_once.engine.invocation import Call
from lambda_once.engine.lanes import Job
from lambda_once.engine.pipeline import Pipeline, Queued
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.stores.contract import Unanswered, WriteAnswer
from lambda_once.testing import kinesis_event
from tests.decorators.counted import records
from tests.decorators.rig import Rig
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.engine.test_retry import Throttled, throttle
from tests.kit.frail import FrailStore

PATIENCE = 20
"""Seconds after which a batch that should be over hangs."""


def _soon(handler: Callable[..., Any], *args: Any) -> Any:
    """Call *handler* in a thread, and fail if it does not return."""
    return ThreadPoolExecutor(1).submit(handler, *args).result(PATIENCE)


# ------------------------------------------------------------------ without the pipeline's thread


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_batch_ends_without_the_writers_thread(monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    """Lanes that wait write themselves what is ready, and none waits for a submission that never comes."""
    monkeypatch.setattr(Pipeline, "_start_writer", lambda _pipeline: None)  # can't start new thread
    rig = Rig()

    @rig.once.sqs(key=lambda record: record.body, concurrency=2)
    async def charge(record: SQSRecord) -> None:
        await rig.clock.sleep_async(0)
        rig.clock.advance(1.2)
        if record.body in ("e", "f"):
            await rig.once.current().acomplete(record.body)

    @rig.once.sqs(key=lambda record: record.body)
    def plain(record: SQSRecord) -> None:
        rig.clock.advance(1.2)

    event = records("a", "b", "c", "d", "e", "f")
    assert _soon(charge if is_async else plain, event, rig.context(seconds=60)) == ALL_WELL
    assert rig.states() == [State.COMPLETE] * 6


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_without_the_writers_thread_a_throttled_completion_stalls(
    monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """After five seconds what has not started is given back; what was done is written in the end."""
    monkeypatch.setattr(Pipeline, "_start_writer", lambda _pipeline: None)
    rig = Rig()
    rig.use_store(Throttled)
    worked: list[str] = []

    def work(record: SQSRecord) -> None:
        worked.append(record.body)
        if record.body == "a":
            throttle(rig, 8, only="/a")
        rig.clock.advance(1.2)

    @rig.once.sqs(key=lambda record: record.body, concurrency=1)
    async def awaited(record: SQSRecord) -> None:
        work(record)

    plain = rig.once.sqs(key=lambda record: record.body)(work)
    answer = _soon(awaited if is_async else plain, records("a", "b", "c"), rig.context(seconds=60))
    assert answer == failed("c")  # the second had started before anybody waited
    assert worked == ["a", "b"]
    assert rig.states() == [State.COMPLETE, State.COMPLETE, State.RELEASED]


# ------------------------------------------------------------------ the executor of the work's loop


class Counting(ThreadPoolExecutor):
    """Counts what it is given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.given = 0

    def submit(self, *args: Any, **options: Any) -> Future[Any]:
        self.given += 1
        return super().submit(*args, **options)


def _leaves_the_executor_alone() -> None:
    rig, executor = Rig(), Counting()
    rig.use_store(Throttled)

    @rig.once.sqs(key=lambda record: record.body, concurrency=10)
    async def charge(record: SQSRecord) -> None:
        asyncio.get_running_loop().set_default_executor(executor)
        if record.body == "a":
            throttle(rig, 3, only="/a")
            rig.clock.advance(1.2)
        await asyncio.to_thread(int)

    bodies = [chr(ord("a") + n) for n in range(20)]
    # In a thread of its own, whose loop is closed with it: the tests' own keeps its executor.
    assert _soon(charge, records(*bodies), rig.context(seconds=60)) == ALL_WELL
    assert executor.given == len(bodies)


def test_lanes_leave_the_executor_of_the_loop_to_the_work() -> None:
    """Neither waiting for throttled completions nor writing delays an `asyncio.to_thread` of the work."""
    _leaves_the_executor_alone()


def test_twin_with_the_loops_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that waits in it takes a thread from the work."""
    monkeypatch.setattr("lambda_once.engine.waiting._executor", lambda: None)
    with pytest.raises(AssertionError):
        _leaves_the_executor_alone()


# ------------------------------------------------------------------ interruptions


def test_a_cancelled_lane_reports_no_failure_of_its_record() -> None:
    """Cancelled because another record left: its work did not raise, and nothing is logged as raised."""
    rig = Rig()

    @rig.once.sqs(key=lambda record: record.body, concurrency=2)
    async def charge(record: SQSRecord) -> None:
        if record.body == "b":
            raise SystemExit(3)
        await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        charge(records("a", "b", "c"), rig.context())
    assert Event.RAISED.value not in rig.events()
    assert rig.states() == [State.RELEASED] * 3


def test_a_park_that_exits_ends_the_batch_in_order() -> None:
    """It leaves the event loop as an exception of the handler: what has begun beside it is finished."""
    rig = Rig()

    def park(_record: object, _error: GiveUp) -> None:
        raise SystemExit(3)

    @rig.once.kinesis(on_give_up=park, concurrency=2)
    async def charge(_record: KinesisStreamRecord) -> None:
        await asyncio.Event().wait()

    event = kinesis_event("a", "b", partition_keys=["1", "2"])
    event["Records"][0]["kinesis"]["data"] = "%"
    with pytest.raises(SystemExit):
        charge(event, rig.context())
    assert rig.states() == [State.RELEASED]


def _interrupted_before_a_duplicate() -> None:
    rig = Rig()
    armed: list[bool] = []

    def hook(details: Details) -> None:
        if armed and details.event is Event.RETURNED:
            raise SystemExit(3)

    rig.once = rig.new()
    rig.once._runtime.reporter._hooks = (hook,)
    handler = rig.once.sqs(key=lambda record: record.body, name="work")(lambda _record: None)
    handler(records("b"), rig.context())
    armed.append(True)
    context = rig.context("request-2")
    with rig.once.invocation(context), pytest.raises(SystemExit):
        handler(records("a", "b"), context)


def test_no_outcome_is_taken_once_interrupted() -> None:
    """Not even a duplicate's: the interruption reaches the caller of the batch, not one much later."""
    _interrupted_before_a_duplicate()


def test_twin_that_takes_outcomes_when_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch answers as if nothing had happened."""
    real = Job.take_known_outcome

    def taken(job: Job, *, may_wait: bool) -> bool:
        if not isinstance(job.work, Call):
            return real(job, may_wait=may_wait)
        tally = job.work.invocation.tally
        kept = tally.interrupted
        tally.interrupted = None
        try:
            return real(job, may_wait=may_wait)
        finally:
            tally.interrupted = kept

    monkeypatch.setattr(Job, "take_known_outcome", taken)
    with pytest.raises((pytest.fail.Exception, SystemExit)):
        _interrupted_before_a_duplicate()


# ------------------------------------------------------------------ a group of completions


def test_a_group_has_the_limit_of_its_youngest() -> None:
    """One that is being retried shortens no first try of another."""
    rig, limits = Rig(), list[Deadline]()

    class Seen(FrailStore):
        def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
            limits.append(deadline)
            return [Unanswered("ThrottlingException")] * len(writes)

    rig.use_store(Seen)
    finisher = rig.once._runtime.engine.finisher
    with rig.once.invocation(rig.context(seconds=300)):
        pipeline = Pipeline(finisher, Deadline(rig.clock, rig.clock.now() + timedelta(minutes=5)), 2)
        finishes = []
        for key in ("old", "new"):
            attempt: Any = copy_context().run(rig.once.begin(key, name="charge").__enter__)
            finishes.append(finisher.prepare_return(attempt._ownership, key))
            rig.clock.advance(10)
        group = [Queued(finishes[0]._replace(sent=1), print), Queued(finishes[1], print)]
        for order in (group, group[::-1]):
            pipeline._answers(order)
    assert {limit.at - rig.clock.now() for limit in limits} == {timedelta(seconds=30)}
