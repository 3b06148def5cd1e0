"""
What outlives its work: a task or thread that was started in an attempt, or an invocation, that is over.

A batching client starts its worker within the first order that needs it. The worker inherits the context of
that order, and works for all later ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

import pytest

from lambda_once import Misconfigured, RetryLater
from lambda_once.core import context as contexts
from lambda_once.core.context import call_stack
from lambda_once.core.lifecycle import State
from lambda_once.core.threads import run_coroutine
from lambda_once.dynamodb.sender import retry_deadline
from lambda_once.engine.attempt import Attempt
from lambda_once.observability.reporter import Tally
from lambda_once.testing import lambda_context, sqs_event
from tests.decorators.rig import Rig, on_every_store

Act = Callable[[], Any]


class Task:
    """A background task that serves one order after the other; the first order starts it."""

    def __init__(self, act: Callable[[str], Awaitable[Any]]) -> None:
        self._act = act
        self._orders: asyncio.Queue[tuple[str, asyncio.Future[Any]]] | None = None

    async def serve(self, order: str) -> Any:
        if self._orders is None:
            self._orders = asyncio.Queue()
            self._task = asyncio.create_task(self._run(self._orders))
        answer = asyncio.get_running_loop().create_future()
        await self._orders.put((order, answer))
        return await answer

    async def end(self) -> None:
        self._task.cancel()

    async def _run(self, orders: asyncio.Queue[tuple[str, asyncio.Future[Any]]]) -> None:
        while True:
            order, answer = await orders.get()
            try:
                answer.set_result(await self._act(order))
            except Exception as error:  # noqa: BLE001  (the order's answer)
                answer.set_result(error)


class Thread:
    """A thread that serves one order after the other, in the context of whoever makes it."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[tuple[Act, Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def serve(self, act: Act) -> Any:
        answer: Future[Any] = Future()
        self._orders.put((act, answer))
        return answer.result(10)

    def end(self) -> None:
        self._orders.put(None)
        self._thread.join(10)

    def _run(self) -> None:
        while (taken := self._orders.get()) is not None:
            act, answer = taken
            try:
                answer.set_result(act())
            except Exception as error:  # noqa: BLE001  (raised for the order)
                answer.set_exception(error)


def outlived(rig: Rig, act: Callable[[Attempt], Any] = bool) -> Context:
    """Work for order 5, call *act* within it, and return its context, in which something is still running."""
    kept: list[Context] = []

    @rig.once.function(key="order", name="charge")
    def charge(order: int) -> str:
        act(rig.once.current())
        kept.append(copy_context())
        return "charged"

    charge(5)
    return kept[0]


# ------------------------------------------------------------------ an attempt


async def _later(rig: Rig, act: Callable[[Attempt], Any]) -> Any:
    answer = act(rig.once.current())
    return await answer if asyncio.iscoroutine(answer) else answer


ACTS: dict[str, Callable[[Attempt], Any]] = {
    "current": lambda attempt: attempt.token,
    "downstream_key": lambda attempt: attempt.downstream_key("charge"),
    "complete": lambda attempt: attempt.complete("paid"),
    "acomplete": lambda attempt: attempt.acomplete("paid"),
    "extend": lambda attempt: attempt.extend(900),
    "aextend": lambda attempt: attempt.aextend(900),
    "transact": lambda attempt: attempt.transact([]),
    "atransact": lambda attempt: attempt.atransact([]),
}


def deliver(rig: Rig, task: Task) -> dict[str, Any]:
    """Deliver two orders in an invocation each, and return what *task* answered."""
    answers: dict[str, Any] = {}

    @rig.once.sqs(key="orderId", name="charge")
    async def charge(record: Any) -> None:
        order = record.json_body["orderId"]
        answers[order] = await task.serve(order)
        answers[f"{order}'s own"] = rig.once.current().downstream_key()

    for number in (1, 2):
        event, context = sqs_event({"orderId": f"o-{number}"}), rig.context(f"r-{number}")
        assert charge(event, context) == {"batchItemFailures": []}
    run_coroutine(task.end())
    return answers


@pytest.mark.parametrize("act", ACTS)
def test_a_task_of_an_earlier_order_has_no_attempt(rig: Rig, act: str) -> None:
    """Not that of the order that started it: the second order's charge would be the first one's duplicate."""
    answers = deliver(rig, Task(lambda _: _later(rig, ACTS[act])))
    assert isinstance(answers["o-2"], Misconfigured)
    assert "attempt of token shop/charge/o-1 is over" in str(answers["o-2"])
    assert "in the handler" in str(answers["o-2"])
    assert answers["o-1's own"] != answers["o-2's own"]
    assert rig.states() == [State.COMPLETE, State.COMPLETE]


@pytest.mark.parametrize("act", [each for each in ACTS if "transact" not in each and each != "current"])
def test_an_attempt_that_was_kept_is_over(rig: Rig, act: str) -> None:
    """Held by a variable, it refuses the same, and its row stays as it is."""
    kept: list[Attempt] = []
    outlived(rig, kept.append)
    row = rig.row()

    async def later() -> Any:
        answer = ACTS[act](kept[0])
        return await answer if asyncio.iscoroutine(answer) else answer

    with pytest.raises(Misconfigured, match="shop/charge/5 is over"):
        asyncio.run(later())
    assert rig.row() == row
    assert (kept[0].token, kept[0].id, kept[0].fence) == (row.token, row.attempt_id, row.fence)


def test_twin_of_an_attempt_that_does_not_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both orders get one key, and the provider drops the second charge."""
    monkeypatch.setattr(Attempt, "_check_running", lambda _: None)
    answers = deliver(rig, Task(lambda _: _later(rig, ACTS["downstream_key"])))
    assert answers["o-1"] == answers["o-2"]


def test_a_thread_with_a_copy_of_the_context(rig: Rig) -> None:
    """As the pages tell; and as every thread from Python 3.14 on, with ``thread_inherit_context``."""
    threads: list[Thread] = []
    keys: list[Any] = []

    @rig.once.function(key="order")
    def charge(order: int) -> None:
        if not threads:
            threads.append(Thread())
        keys.append(threads[0].serve(lambda: rig.once.current().downstream_key()))

    charge(1)
    with pytest.raises(Misconfigured, match="is over"):
        charge(2)
    threads[0].end()
    assert len(keys) == 1


def test_what_is_over_is_not_hidden_by_what_is_running(rig: Rig) -> None:
    """A task of inner work has neither that attempt, when it is over, nor by chance the outer one."""
    kept: list[Context] = []

    @rig.once.function
    def inner(order: int) -> None:
        kept.append(copy_context())

    @rig.once.function
    def outer(order: int) -> None:
        inner(order)
        with pytest.raises(Misconfigured, match=r"inner/.* is over"):
            kept[0].run(rig.once.current)
        assert kept[0].run(call_stack) == (rig.once.current().id,)

    outer(5)
    assert kept[0].run(call_stack) == ()


def test_work_of_its_own(rig: Rig) -> None:
    """What outlives an attempt may do protected work, with attempts of its own."""
    late = outlived(rig)

    @rig.once.function(key="order", name="mail")
    def mail(order: int) -> tuple[str, tuple[str, ...]]:
        return rig.once.current().token, call_stack()

    token, stack = late.run(mail, 5)
    assert (token, len(stack)) == ("shop/mail/5", 1)
    with pytest.raises(Misconfigured, match="shop/charge/5 is over"):
        late.run(rig.once.current)


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_block_ends_its_attempt(rig: Rig, form: str) -> None:
    """Before it is finished: what runs meanwhile cannot finish it, too."""

    async def block() -> Any:
        if form == "async":
            async with rig.once.begin(5, name="charge") as attempt:
                return attempt
        with rig.once.begin(5, name="charge") as attempt:
            return attempt

    attempt = asyncio.run(block())
    with pytest.raises(Misconfigured, match="is over"):
        attempt.downstream_key()
    with pytest.raises(Misconfigured, match="inside protected work"):
        rig.once.current()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_blocks_end_in_any_order(rig: Rig, order: tuple[int, int]) -> None:
    """As those of two generators do: the work around them is the current one then."""

    def part(number: int) -> Iterator[None]:
        with rig.once.begin(number, name="part"):
            yield

    @rig.once.function
    def work(number: int) -> None:
        attempt, parts = rig.once.current(), [part(1), part(2)]
        for each in parts:
            next(each)
        for index in order:
            assert next(parts[index], None) is None
        assert rig.once.current() is attempt
        assert call_stack() == (attempt.id,)

    work(5)
    with pytest.raises(Misconfigured, match="inside protected work"):
        rig.once.current()


@pytest.mark.parametrize("door", ["function", "batch", "async batch"])
def test_a_block_that_a_generator_leaves_open_is_left_behind(rig: Rig, door: str) -> None:
    """Its attempt answers neither the next record nor what runs in no work."""
    stacks: list[int] = []
    parts = [_part(rig, number) for number in range(2)]

    def act() -> None:
        next(parts[len(stacks)])
        stacks.append(len(call_stack()))

    @rig.once.function(key="order")
    def charge(order: int) -> None:
        act()

    @rig.once.sqs(key="order")
    def handler(record: Any) -> None:
        act()

    @rig.once.sqs(key="order", name="later")
    async def async_handler(record: Any) -> None:
        act()

    match door:
        case "function":
            charge(1)
            charge(2)
        case "batch":
            handler(sqs_event({"order": 1}, {"order": 2}), lambda_context())
        case _:
            async_handler(sqs_event({"order": 1}, {"order": 2}), lambda_context())
    assert stacks == [2, 2]
    with pytest.raises(Misconfigured, match="inside protected work"):
        rig.once.current()
    for part in parts:
        part.close()
    with pytest.raises(Misconfigured, match="inside protected work"):
        rig.once.current()


def _part(rig: Rig, number: int) -> Generator[None, None, None]:
    with rig.once.begin(number, name="part"):
        yield


@on_every_store
def test_a_completed_attempt_is_not_over(rig: Rig) -> None:
    """After complete() its work goes on: with its key, and the same result again."""
    found: list[Any] = []

    def act(attempt: Attempt) -> None:
        key = attempt.downstream_key()
        found.append(attempt.complete("paid"))
        attempt.extend(900)
        found.append(attempt.complete("again"))
        found.append(rig.once.current().downstream_key() == key)

    outlived(rig, act)
    assert found == ["paid", "paid", True]


def test_a_failed_attempt_is_over(rig: Rig) -> None:
    """Its token is released, and its successor's; a task of its own neither completes nor extends it."""
    kept: list[Attempt] = []

    @rig.once.function(key="order")
    def charge(order: int) -> None:
        kept.append(rig.once.current())
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        charge(5)
    with pytest.raises(Misconfigured, match="is over"):
        kept[0].complete("paid")
    assert rig.states() == [State.RELEASED]


# ------------------------------------------------------------------ nesting


def test_what_outlives_its_work_is_not_nested_in_it(rig: Rig) -> None:
    """Its completion was not written: a task is refused as any duplicate, not as a recursion."""
    kept: list[Context] = []

    @rig.once.function(key="order", name="charge")
    def charge(order: int) -> None:
        kept.append(copy_context())
        with pytest.raises(Exception, match="in this call stack"):
            charge(order)

    with rig.crash():
        charge(5)
    with pytest.raises(Exception, match="in progress") as refused:
        kept[0].run(charge, 5)
    assert "call stack" not in str(refused.value)
    assert kept[0].run(call_stack) == ()


# ------------------------------------------------------------------ an invocation


def late_mail(rig: Rig) -> list[Any]:
    """Let a task do protected work of its own, in an invocation of 2.5 s and in one 2.6 s after it began."""

    @rig.once.function(key="order", name="mail")
    def mail(order: str) -> str:
        return f"mailed {order}"

    async def act(order: str) -> str:
        return mail(order)

    answers: list[Any] = []
    task = Task(act)

    @rig.once.sqs(key="orderId", name="charge")
    async def charge(record: Any) -> None:
        answers.append(await task.serve(record.json_body["orderId"]))

    charge(sqs_event({"orderId": "o-1"}), rig.context("r-1", seconds=2.5))
    rig.clock.advance(2.6)
    charge(sqs_event({"orderId": "o-2"}), rig.context("r-2", seconds=30))
    run_coroutine(task.end())
    return answers


def test_work_in_a_later_invocation(rig: Rig) -> None:
    """It has neither the deadline nor the name of the first one: 900 s are assumed, which is logged."""
    answers = late_mail(rig)
    assert answers == ["mailed o-1", "mailed o-2"]
    rows = {row.token: row for row in rig.rows()}
    assert rows["shop/mail/o-1"].locked_by == "orders/r-1"
    assert rows["shop/mail/o-2"].locked_by.endswith("/-")
    late = rows["shop/mail/o-2"]
    assert (late.expected_completion - late.created).total_seconds() >= 900


def test_twin_of_an_invocation_that_does_not_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """All later work of the task is refused: too little time remains, for good."""
    monkeypatch.setattr(contexts.Span, "over", property(lambda _: False, lambda *_: None))
    answers = late_mail(rig)
    assert isinstance(answers[1], RetryLater)


def test_requests_of_a_pattern_in_a_later_invocation(rig: Rig) -> None:
    """They are retried as outside of an invocation, not until the first one's end."""
    kept: list[Context] = []

    @rig.once.event(key="id")
    def handler(event: Any, context: Any) -> float:
        kept.append(copy_context())
        return retry_deadline(rig.clock).remaining()

    assert handler({"id": 5}, rig.context(seconds=11)) == 10
    assert kept[0].run(retry_deadline, rig.clock) == retry_deadline(rig.clock)


def test_an_invocation_lasts_as_long_as_its_handler(rig: Rig) -> None:
    """What outlives a function, also of another Once, still has the time of the handler that called it."""
    kept: list[Context] = []
    other = rig.new()

    @other.function(key="order", name="mail")
    def mail(order: int) -> None:
        kept.append(copy_context())

    @rig.once.event(key="id")
    def handler(event: Any, context: Any) -> None:
        mail(1)
        kept[0].run(mail, 2)
        assert kept[0].run(retry_deadline, rig.clock).remaining() == 29

    handler({"id": 5}, rig.context("r-1"))
    mails = [row.locked_by for row in rig.rows() if "/mail/" in row.token]
    assert mails == ["orders/r-1", "orders/r-1"]


def test_what_it_reports_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics of late work are flushed at its own end: nothing is counted where nobody looks any more."""
    late = outlived(rig)
    lost: list[str] = []
    count = Tally.count

    def counted(self: Tally, metric: str) -> None:
        if self.over:
            lost.append(metric)
        count(self, metric)

    monkeypatch.setattr(Tally, "count", counted)

    kept: list[Context] = []
    other = rig.new()

    @other.function(key="order", name="mail")
    def mail(order: int) -> None:
        kept.append(copy_context())

    with rig.once.invocation(rig.context()):
        mail(1)
        kept[0].run(mail, 2)
        late.run(mail, 3)
    kept[0].run(mail, 4)
    assert (len(kept), lost) == (4, [])
