"""A batch costs the same for each of its records, however many there are: steps are counted, not time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from types import CodeType, FrameType
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once.core.clock import Deadline
from lambda_once.engine import batch as batching
from lambda_once.engine import lanes, pipeline, turns
from lambda_once.engine.lanes import Job
from lambda_once.engine.pipeline import Pipeline
from lambda_once.sources import records as reading
from lambda_once.sources import streams
from lambda_once.testing import kafka_event
from tests.decorators.counted import records
from tests.decorators.rig import Rig
from tests.sources.samples import batch, fifo_record

FEW, MANY = 20, 200
MOST = 1.5
"""How many times as many steps a record of many may cost: quadratic code takes up to ten times as many."""
MODULES = (batching, lanes, pipeline, reading, streams, turns)
COUNTED = frozenset([*(module.__file__ for module in MODULES), __file__])


def _steps(work: Callable[[], object]) -> int:
    """Return how many lines of the modules above *work* executes, in all threads it starts."""
    known: dict[CodeType, bool] = {}
    counts: list[None] = []

    def called(frame: FrameType, _event: str, _arg: object) -> Any:
        is_counted = known.get(frame.f_code)
        if is_counted is None:
            is_counted = known[frame.f_code] = frame.f_code.co_filename in COUNTED
        return step if is_counted else None

    def step(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":  # a loop in one line is one each round
            counts.append(None)
        return step

    before = sys.gettrace()
    threading.settrace(called)
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return len(counts)


@pytest.fixture(autouse=True)
def no_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which completions are written together does not depend on how fast this machine is."""
    monkeypatch.setattr(Pipeline, "_start_writer", lambda _pipeline: None)


def _grows(works: Callable[[int], Callable[[], object]]) -> float:
    """Return how many times as many steps one of `MANY` records costs as one of `FEW`."""
    few, many = (_steps(works(count)) / count for count in (FEW, MANY))
    return many / few


Group = Callable[[int], int]


def _of_groups(group: Group, *, failing: Group = lambda _: 0, is_async: bool = False) -> float:
    """Return the growth of a FIFO batch: *group* of each number, and 1 where it is *failing*."""

    def works(count: int) -> Callable[[], object]:
        rig = Rig()
        broken = {str(n) for n in range(count) if failing(n * FEW // count)}

        @rig.once.sqs(key=lambda record: record.body, raise_on_entire_batch_failure=False)
        def plain(record: SQSRecord) -> None:
            if record.body in broken:
                raise ValueError

        @rig.once.sqs(key=lambda record: record.body, raise_on_entire_batch_failure=False)
        async def awaited(record: SQSRecord) -> None:
            plain.__wrapped__(record)

        records = [fifo_record(str(n), group=str(group(n)), id_=str(n)) for n in range(count)]
        handler: Any = awaited if is_async else plain
        return lambda: handler(batch(*records), rig.context())

    return _grows(works)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("group", "failing"),
    [
        (lambda _: 0, lambda _: 0),
        (lambda n: n, lambda _: 0),
        (lambda n: n // 2, lambda _: 0),
        (lambda _: 0, lambda n: int(n == FEW // 2)),
        (lambda n: n, lambda n: n % 2),
        (lambda n: n // 2, lambda _: 1),
    ],
    ids=["one group", "a group each", "pairs", "a failure in the middle", "every other", "all of pairs"],
)
def test_groups(group: Group, failing: Group, is_async: bool) -> None:
    """Whatever their groups are, and whatever fails."""
    assert _of_groups(group, failing=failing, is_async=is_async) < MOST


@pytest.mark.parametrize("group", [str, lambda _: "one"], ids=["a group each", "one group"])
def test_equal_records(group: Callable[[int], str]) -> None:
    """All of them are one job, whose groups are one lane."""

    def works(count: int) -> Callable[[], object]:
        rig = Rig()
        handler = rig.once.sqs(key=lambda record: record.body, name="work")(lambda _record: None)
        records = [fifo_record("same", group=group(n), id_=str(n)) for n in range(count)]
        return lambda: handler(batch(*records), rig.context())

    assert _grows(works) < MOST


def test_a_standard_queue() -> None:
    """Of independent records, too."""

    def works(count: int) -> Callable[[], object]:
        rig = Rig()
        handler = rig.once.sqs(key=lambda record: record.body, name="work")(lambda _record: None)
        event = records(*map(str, range(count)))
        return lambda: handler(event, rig.context())

    assert _grows(works) < MOST


@pytest.mark.parametrize("fails", [False, True], ids=["sound", "a failure each"])
def test_streams(fails: bool) -> None:
    """One sequence or many, such as the partitions of a topic."""

    def works(count: int) -> Callable[[], object]:
        rig = Rig()

        @rig.once.kafka(name="charge", report_failures=True)
        def handler(_record: object) -> None:
            if fails:
                raise ValueError

        event = kafka_event(*range(count), partitions=range(count))
        return lambda: handler(event, rig.context())

    assert _grows(works) < MOST


def test_what_waits_for_a_slow_table() -> None:
    """A record that asks whether it may start looks at no more of what is unwritten than before."""

    def works(count: int) -> Callable[[], object]:
        rig = Rig()
        finisher = rig.once._runtime.engine.finisher
        line = Pipeline(finisher, Deadline(rig.clock, rig.clock.now() + timedelta(minutes=5)), count)
        finishes = []
        for n in range(count):
            attempt: Any = Context().run(rig.once.begin(str(n), name="charge").__enter__)
            finishes.append(finisher.prepare_return(attempt._ownership, n))

        def work() -> None:
            for finish in finishes:
                assert line.wait()
                line.submit(finish, bool)
            line.close()

        return work

    assert _grows(works) < MOST


def _from_the_front(job: Job) -> bool:
    earlier = (each for failed in job.place.failures.values() for _, each in failed)
    return any(each.has_failed and each.place.sequences & job.place.sequences for each in earlier)


def test_twin_that_looks_at_every_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a group each, and all failing, a record is compared with all before it."""
    monkeypatch.setattr(turns, "skip_behind_failure", _from_the_front)
    assert _of_groups(lambda n: n, failing=lambda _: 1) > MOST
