"""A batch of messages by itself: each alone, and a FIFO group in its order."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from functools import partial
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.fifo.in_order import Record, work_in_order
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.unique import Unique
from lambda_once.testing import sns_event, sqs_event
from tests.patterns.conftest import Ground


class OutOfOrderError(Exception):
    """What the work raises; its words repeat what it was given."""


def worked(
    groups: str | None, *, bad: set[int], count: int = 6
) -> tuple[list[int], list[int] | OutOfOrderError]:
    """
    Return the numbers of the records that were worked, and of those returned or what was raised.

    *groups* has a letter for each record; None is a standard queue.
    """
    event = sqs_event(
        *({"number": n} for n in range(count)), fifo_groups=None if groups is None else [*groups]
    )
    numbers = {record["messageId"]: n for n, record in enumerate(event["Records"])}
    done: list[int] = []

    def work(record: Record) -> None:
        number = json.loads(record["body"])["number"]
        if number in bad:
            raise OutOfOrderError(f"the secret of {number}")
        done.append(number)

    try:
        answer = work_in_order(event, work)
    except OutOfOrderError as error:
        return done, error
    assert list(answer) == ["batchItemFailures"]
    return done, [numbers[each["itemIdentifier"]] for each in answer["batchItemFailures"]]


def test_what_is_worked_is_acknowledged() -> None:
    """Nothing is returned where nothing failed, of any queue."""
    assert worked("aabbaa", bad=set()) == ([0, 1, 2, 3, 4, 5], [])
    assert worked(None, bad=set()) == ([0, 1, 2, 3, 4, 5], [])


def test_a_failure_returns_the_rest_of_its_group() -> None:
    """Unworked, for nothing may overtake it; the other groups go on."""
    assert worked("aabbab", bad={1}) == ([0, 2, 3, 5], [1, 4])


def test_each_group_fails_by_itself() -> None:
    """Two groups with a failure each return their own rest."""
    assert worked("abcabc", bad={0, 4}) == ([1, 2, 5], [0, 3, 4])


def test_on_a_standard_queue_each_fails_alone() -> None:
    """There is no order to keep."""
    assert worked(None, bad={1}) == ([0, 2, 3, 4, 5], [1])


def test_groups_of_a_standard_queue_are_in_no_order() -> None:
    """They are there for fairness between tenants: the ARN tells the kind of queue, not the group."""
    event = sqs_event({"number": 0}, {"number": 1}, fifo_groups="a")
    for record in event["Records"]:
        record["eventSourceARN"] = record["eventSourceARN"].removesuffix(".fifo")
    done: list[str] = []

    def work(record: Record) -> None:
        if not done:
            done.append("failed")
            raise OutOfOrderError
        done.append(record["messageId"])

    assert len(work_in_order(event, work)["batchItemFailures"]) == 1
    assert len(done) == 2


@pytest.mark.parametrize("groups", ["aaaaaa", None])
def test_where_nothing_succeeds_the_first_error_is_raised(groups: str | None) -> None:
    """The function's errors ring, and a mapping that knows no partial responses deletes nothing."""
    done, raised = worked(groups, bad={0} if groups else {*range(6)})
    assert done == []
    assert isinstance(raised, OutOfOrderError)
    assert str(raised) == "the secret of 0"


def test_an_empty_batch_is_nothing() -> None:
    """No record, no failure."""
    assert work_in_order({"Records": []}, print) == {"batchItemFailures": []}


def test_a_failure_is_logged_without_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    """By message and type of the error: its words may repeat the payload. Lambda prints the text alone."""
    with caplog.at_level(logging.INFO):
        worked("ab", bad={1}, count=2)
    (line,) = caplog.records
    fields = line.__dict__
    assert line.message == f"message.failed {fields['delivery']} OutOfOrderError"
    assert fields["error"] == "OutOfOrderError"
    assert "secret" not in caplog.text


@pytest.mark.parametrize("event", [{}, {"Records": None}, sns_event({"a": 1}), [], None])
def test_an_event_of_another_source_works_nothing(event: Any) -> None:
    """It is refused before anything is worked."""
    with pytest.raises(Misconfigured, match="not of SQS"):
        work_in_order(event, lambda _: pytest.fail("worked"))


# -- async work


class Later:
    """An awaitable that is no coroutine: awaiting it does *work*."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, object]:
        yield  # to the event loop
        return self._work()


def asynchronous(done: list[int], bad: set[int]) -> dict[str, Callable[[Record], object]]:
    """Return the forms of work that is done only when it is awaited; the numbers of *bad* fail."""

    def act(record: Record) -> None:
        number = json.loads(record["body"])["number"]
        if number in bad:
            raise OutOfOrderError
        done.append(number)

    async def coroutine(record: Record) -> None:
        await Later(lambda: act(record))

    async def of_two(label: str, record: Record) -> None:
        assert label == "two"
        await coroutine(record)

    def returns(record: Record) -> Awaitable[None]:
        return coroutine(record)

    async def returns_later(record: Record) -> Awaitable[None]:
        return coroutine(record)

    class Caller:
        async def __call__(self, record: Record) -> None:
            await coroutine(record)

    return {
        "async def": coroutine,
        "partial": partial(of_two, "two"),
        "callable object": Caller(),
        "def that returns a coroutine": returns,
        "async def that returns a coroutine": returns_later,
        "another awaitable": lambda record: Later(lambda: act(record)),
    }


@pytest.mark.parametrize("form", asynchronous([], set()))
def test_async_work_is_awaited(form: str) -> None:
    """In every form: record after record, and a failure returns the rest of its group."""
    done: list[int] = []
    event = sqs_event(*({"number": n} for n in range(6)), fifo_groups=[*"aabbab"])
    answer = work_in_order(event, asynchronous(done, {1})[form])
    failed = [event["Records"][n]["messageId"] for n in (1, 4)]
    assert done == [0, 2, 3, 5]
    assert answer == {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}


def test_async_work_keeps_its_event_loop() -> None:
    """Clients that belong to a loop are kept between batches."""
    loops: list[object] = []

    async def work(_: Record) -> None:
        loops.append(asyncio.get_running_loop())

    for _ in range(2):
        assert work_in_order(sqs_event({"a": 1}, {"a": 2}), work) == {"batchItemFailures": []}
    assert len(loops) == 4
    assert len(set(loops)) == 1


def test_async_work_may_use_a_pattern_in_a_thread(ground: Ground) -> None:
    """A put blocks its thread, so it is awaited as `asyncio.to_thread`: each message once, in order."""
    table = ground.table("pk")
    receipts = Unique(table, ground.client, key={"pk": "number"})
    results: list[object] = []

    async def work(record: Record) -> None:
        results.append(await asyncio.to_thread(receipts.put, json.loads(record["body"])))

    event = sqs_event(*({"number": n} for n in (0, 1, 2, 1)), fifo_groups="a")
    assert work_in_order(event, work) == {"batchItemFailures": []}
    assert results == [*(Applied({"pk": f"={n}"}) for n in range(3)), Duplicate({"pk": "=1"})]


def test_cancelled_work_fails_its_record_alone() -> None:
    """A CancelledError is no Exception, and the other records are worked."""
    done: list[str] = []

    async def work(record: Record) -> None:
        if not done:
            done.append("cancelled")
            raise asyncio.CancelledError
        done.append(record["messageId"])

    event = sqs_event({"a": 1}, {"a": 2})
    first, second = (record["messageId"] for record in event["Records"])
    assert work_in_order(event, work) == {"batchItemFailures": [{"itemIdentifier": first}]}
    assert done == ["cancelled", second]


def test_async_work_in_a_running_loop_is_refused() -> None:
    """Before anything is worked: a handler is called outside of loops, or by asyncio.to_thread."""
    done: list[int] = []
    work = asynchronous(done, set())["async def"]
    event = sqs_event({"number": 0})

    async def within() -> None:
        with pytest.raises(Misconfigured, match=r"running event loop.*to_thread"):
            work_in_order(event, work)
        assert done == []
        assert await asyncio.to_thread(work_in_order, event, work) == {"batchItemFailures": []}

    asyncio.run(within())
    assert done == [0]


def test_an_awaitable_in_a_running_loop_fails_its_record() -> None:
    """A plain def that returns one is known only by its result."""
    done: list[int] = []
    work = asynchronous(done, set())["another awaitable"]

    async def within() -> None:
        with pytest.raises(Misconfigured, match="running event loop"):
            work_in_order(sqs_event({"number": 0}), work)

    asyncio.run(within())
    assert done == []


def _generator(record: Record) -> Iterator[Record]:
    yield record


async def _async_generator(record: Record) -> AsyncIterator[Record]:
    yield record


@pytest.mark.parametrize("work", [_generator, _async_generator, partial(_generator)])
def test_generator_functions_are_refused(work: Callable[[Record], object]) -> None:
    """Calling one works nothing, so every message would be acknowledged unworked."""
    with pytest.raises(Misconfigured, match="generator"):
        work_in_order(sqs_event({"a": 1}), work)


@pytest.mark.parametrize("work", [_generator, _async_generator])
def test_a_generator_that_comes_back_fails_its_record(work: Callable[[Record], object]) -> None:
    """Nothing iterates it, so its work was not done."""
    event = sqs_event({"a": 1})

    def returns(record: Record) -> object:
        return work(record)

    async def returns_later(record: Record) -> object:
        return work(record)

    for form in (returns, returns_later):
        with pytest.raises(Misconfigured, match="returned a generator"):
            work_in_order(event, form)
