"""What an exception does to its token, and what there is for a busy token and a table out of reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import (
    HOLD,
    RELEASE,
    STORE,
    Held,
    InProgress,
    KeyReused,
    RetryLater,
    StoredError,
    StoreUnavailable,
)
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire
from lambda_once.policies import OnError
from lambda_once.stores.contract import AcquireAnswer
from tests.decorators.rig import Rig, elsewhere, in_memory, on_every_store
from tests.kit.frail import FrailStore


class Refused(Exception):
    pass


class CardRefused(Refused):
    pass


BY_CLASS: OnError = {Refused: STORE, CardRefused: HOLD, SystemExit: STORE}


def failing(rig: Rig, error: BaseException, **options: Any) -> Callable[[int], None]:
    """Protected work that raises *error* every time."""

    @rig.once.function(**options)
    def work(order: int) -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("on_error", "error", "state"),
    [
        (RELEASE, Refused(), State.RELEASED),
        (STORE, Refused(), State.COMPLETE),
        (HOLD, Refused(), State.HELD),
        (BY_CLASS, Refused(), State.COMPLETE),
        (BY_CLASS, CardRefused(), State.HELD),  # the nearest class of its MRO
        (BY_CLASS, ValueError(), State.RELEASED),  # unmatched
        (lambda error: STORE if error.args else RELEASE, Refused("final"), State.COMPLETE),
        (lambda error: STORE if error.args else RELEASE, Refused(), State.RELEASED),
        (STORE, RetryLater("soon"), State.RELEASED),  # never stored
        (HOLD, InProgress("soon"), State.RELEASED),
    ],
)
@on_every_store
def test_an_exception_by_policy(rig: Rig, on_error: OnError, error: Exception, state: State) -> None:
    """The exception reaches the caller as it is, and its token goes by the policy."""
    with pytest.raises(type(error)) as raised:
        failing(rig, error, on_error=on_error)(5)
    assert raised.value is error
    assert rig.row().state is state


@pytest.mark.parametrize(
    ("on_error", "duplicate"), [(STORE, StoredError), (HOLD, Held), ({Refused: STORE}, StoredError)]
)
def test_what_a_duplicate_of_a_failure_gets(rig: Rig, on_error: Any, duplicate: type[Exception]) -> None:
    """A stored failure is given to duplicates by its name; a held one needs manual review."""
    work = failing(rig, Refused("final"), on_error=on_error)
    with pytest.raises(Refused):
        work(5)
    with pytest.raises(duplicate) as raised:
        work(5)
    assert rig.store.acquisitions == 2
    assert getattr(raised.value, "token", None) == rig.row().token


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({}, State.RELEASED),
        ({"on_error": STORE}, State.RELEASED),
        ({"on_lapse": "hold"}, State.HELD),
        ({"on_lapse": lambda *_: None}, State.HELD),
        ({"on_error": {BaseException: STORE}}, State.COMPLETE),
    ],
    ids=["released", "STORE is for exceptions", "hold", "probe", "mapping"],
)
def test_an_exit_says_nothing_about_the_work(
    rig: Rig, error: BaseException, options: Any, state: State
) -> None:
    """SystemExit and KeyboardInterrupt leave no token in progress: held where lapsed work would be."""
    with pytest.raises(type(error)):
        failing(rig, error, **options)(5)
    assert rig.row().state is state


@pytest.mark.parametrize("answer", [None, "store", ZeroDivisionError("broken")])
def test_a_policy_that_breaks_holds(rig: Rig, answer: Any) -> None:
    """on_error that raises or answers no policy: the caller gets the work's exception, the token is held."""

    def on_error(_: BaseException) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(Refused):
        failing(rig, Refused(), on_error=on_error)(5)
    assert rig.row().state is State.HELD
    assert "once.policy_failed" in rig.events()


def test_a_decorators_mapping_replaces_that_of_once(rig: Rig) -> None:
    """They are not merged."""
    rig.once = rig.new(on_error={Refused: STORE})
    with pytest.raises(Refused):
        failing(rig, Refused(), on_error={KeyError: HOLD})(5)
    assert rig.row().state is State.RELEASED


@in_memory
def test_a_table_out_of_reach_runs_nothing(rig: Rig) -> None:
    """Nothing runs unprotected; the error says that it may be delivered again."""
    rig.store.out = True
    runs: list[int] = []
    with pytest.raises(StoreUnavailable, match="retry later"):
        rig.once.function(runs.append, name="work")(5)  # type: ignore[call-overload]
    assert runs == []


@in_memory
def test_work_can_be_called_without_its_decorator(rig: Rig) -> None:
    """The recipe for work that may run twice but must not be late: each call runs, and nothing is stored."""
    rig.store.out = True

    @rig.once.function(key="order")
    def remind(order: int, channel: str) -> str:
        return f"{order} by {channel}"

    def handler(order: int) -> str:
        try:
            return remind(order, "mail")
        except StoreUnavailable:
            plain: Any = remind
            return str(plain.__wrapped__(order, "mail"))

    assert [handler(5), handler(5)] == ["5 by mail"] * 2
    rig.store.out = False
    assert handler(5) == "5 by mail"
    assert rig.states() == [State.COMPLETE]


def test_an_acquisition_without_an_answer_is_released(rig: Rig) -> None:
    """One that was written although its answer was lost does not block the next delivery."""

    class Deaf(FrailStore):
        def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
            super().acquire(acquisitions, deadline)
            self.out = True
            answers = super().acquire(acquisitions, deadline)
            self.out = False
            return answers

    rig.use_store(Deaf)
    with pytest.raises(StoreUnavailable):
        failing(rig, AssertionError())(5)
    assert rig.row().state is State.RELEASED


@on_every_store
def test_waiting_gets_the_others_outcome(rig: Rig) -> None:
    """Under on_in_progress="wait" a second caller gets the first one's result, and runs nothing."""
    once = rig.new(on_in_progress="wait")
    results: list[Any] = []

    def work(order: int) -> str:
        return f"order {order}"

    second = once.function(work)

    @rig.once.function(name=f"{__name__}.{work.__qualname__}")
    def first(order: int) -> str:
        attempt = rig.once.current()
        rig.clock.while_asleep(lambda _: attempt.complete("of the first"))
        results.append(elsewhere(second, order))
        return "ignored"

    assert first(5) == "of the first"
    assert results == ["of the first"]


@in_memory
@pytest.mark.parametrize(
    ("policy", "seconds", "least", "most"),
    [("wait", 5, 4.4, 4.5), (timedelta(hours=2), 5400, 5300, 5400)],
    ids=["a short one", "an hour and a half"],
)
def test_waiting_ends_with_the_invocation(
    rig: Rig, policy: Any, seconds: float, least: float, most: float
) -> None:
    """A wait that outlasts it is in progress, not a run; its last half second is not for waiting."""
    rig.once = rig.new(on_in_progress=policy)

    def another(order: int) -> None:
        with rig.once.invocation(rig.context("request-2", seconds)), pytest.raises(InProgress):
            work(order)

    @rig.once.function
    def work(order: int) -> None:
        elsewhere(another, order)

    with rig.once.invocation(rig.context(seconds=6000)):
        work(5)
    assert least < rig.slept <= most


def test_a_cached_outcome_costs_nothing(rig: Rig) -> None:
    """With cache= a duplicate asks the table nothing; the last of the used ones are kept."""

    @rig.once.function(cache=2, key="order")
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
def test_a_cached_outcome_has_an_age(rig: Rig, seconds: int, runs: int) -> None:
    """The table is asked again once the outcome has expired, and where a clock was set back."""
    seen: list[int] = []

    @rig.once.function(cache=2, keep=timedelta(minutes=1))
    def work(order: int) -> int:
        seen.append(order)
        return order

    work(5)
    before = rig.store.acquisitions
    rig.clock.advance(seconds)
    assert work(5) == 5
    assert (len(seen), rig.store.acquisitions) == (runs, before + 1)


@pytest.mark.parametrize(
    ("out", "states"), [(False, [State.RELEASED]), (True, [])], ids=["acquired", "out of reach"]
)
def test_a_cancelled_acquisition_is_a_cancellation(rig: Rig, out: bool, states: list[State]) -> None:
    """Cancelled while its token is being acquired, the work does not start, and the token is released."""

    async def scenario() -> None:
        task: asyncio.Task[None]

        class Slow(FrailStore):
            def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
                loop.call_soon_threadsafe(task.cancel)
                asyncio.run_coroutine_threadsafe(asyncio.to_thread(int), loop).result()
                return super().acquire(acquisitions, deadline)

        loop = asyncio.get_running_loop()
        rig.use_store(Slow)
        rig.store.out = out

        @rig.once.function
        async def work(order: int) -> None:
            raise AssertionError

        task = asyncio.ensure_future(work(5))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert rig.states() == states


@pytest.mark.parametrize(("on_lapse", "state"), [("take_over", State.RELEASED), ("hold", State.HELD)])
def test_cancelled_work_is_finished(rig: Rig, on_lapse: Any, state: State) -> None:
    """A cancellation during the work finishes its token before it is raised."""

    @rig.once.function(on_lapse=on_lapse)
    async def work(order: int) -> None:
        started.set()
        await asyncio.Event().wait()

    async def scenario() -> None:
        task = asyncio.ensure_future(work(5))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(scenario())
    assert rig.row().state is state


def test_work_that_is_done_is_completed_though_cancelled(rig: Rig) -> None:
    """A cancellation while the completion is being written does not undo it."""

    @rig.once.function
    async def work(order: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.get_loop().call_soon(task.cancel)
        return order

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(work(5))

    asyncio.run(scenario())
    assert rig.row().state is State.COMPLETE
