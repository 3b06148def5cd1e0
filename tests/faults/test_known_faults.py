"""
The known faults of Powertools' idempotency utility, and that they are absent here.

Where it costs little, the fault is shown on the utility itself first: a test that could not see the
fault would prove nothing.
"""

from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)
from botocore.exceptions import ReadTimeoutError

from lambda_once import ResultUnavailable
from lambda_once.testing import lambda_context
from tests.faults.tables import Layers
from tests.kit.strict.mounted import http
from tests.sources.samples import batch, sqs_record

EVENT = {"order": 5}
OVER = lambda_context(remaining_ms=-5_000)
ALIVE = lambda_context()


class Crash(Exception):
    pass


@pytest.mark.parametrize("fails", [False, True], ids=["overwrites", "deletes"])
def test_a_late_finisher_cannot_touch_its_successor(layers: Layers, fails: bool) -> None:
    """
    An attempt that was taken over neither overwrites nor deletes what its successor stored.

    Theirs does: the third caller gets the first attempt's result, or runs again.
    """

    def end(who: str) -> str:
        if fails and who == "first":
            raise Crash
        return who

    theirs: list[str] = []

    def utility(event: Any, context: Any) -> str:
        theirs.append(("first", "second", "third")[len(theirs)])
        if theirs[-1] == "first":
            assert protected(event, ALIVE) == "second"
            return end("first")
        return theirs[-1]

    protected = layers.theirs(utility)
    if fails:
        with pytest.raises(Crash):
            protected(EVENT, OVER)
    else:
        protected(EVENT, OVER)
    assert protected(EVENT, ALIVE) == ("third" if fails else "first")

    ours: list[str] = []

    @layers.once(lease=timedelta(seconds=5)).event
    def handler(event: dict[str, int]) -> str:
        ours.append(("first", "second", "third")[len(ours)])
        if ours[-1] == "first":
            layers.clock.advance(6)
            assert handler(event, layers.context("request-2")) == "second"
            return end("first")
        return ours[-1]

    if fails:
        with pytest.raises(Crash):
            handler(EVENT, layers.context())
    else:
        assert handler(EVENT, layers.context()) == "second"
    assert handler(EVENT, layers.context("request-3")) == "second"
    assert ours == ["first", "second"]


def test_nested_functions_share_a_layer(layers: Layers) -> None:
    """
    An outer function completes its own token after an inner one ran on the same layer.

    Theirs completes the outer work under the inner function's name, so the outer one stays in progress.
    """
    layer, config = layers.layer(), IdempotencyConfig(lambda_context=ALIVE)
    options: Any = {"data_keyword_argument": "order", "persistence_store": layer, "config": config}

    @idempotent_function(**options)  # type: ignore[untyped-decorator]
    def their_inner(order: int) -> str:
        return "inner"

    @idempotent_function(**options)  # type: ignore[untyped-decorator]
    def their_outer(order: int) -> str:
        their_inner(order=order)
        return "outer"

    their_outer(order=5)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        their_outer(order=5)

    once = layers.once()

    @once.function
    def inner(order: int) -> str:
        return "inner"

    @once.function
    def outer(order: int) -> str:
        inner(order)
        return "outer"

    assert [outer(5), outer(5), inner(5)] == ["outer", "outer", "inner"]
    assert layers.statuses() == [None, None]


def test_threaded_functions_share_a_layer(layers: Layers) -> None:
    """
    Two functions that run at one moment in two threads complete each its own token.

    Theirs write both results under one name, so one function stays in progress.
    """
    config = IdempotencyConfig(lambda_context=ALIVE)
    options: Any = {"data_keyword_argument": "order", "persistence_store": layers.layer(), "config": config}
    meeting = Barrier(2, timeout=10)

    def charge(order: int) -> str:
        meeting.wait()
        return "charged"

    def mail(order: int) -> str:
        meeting.wait()
        return "mailed"

    def at_once(functions: list[Any]) -> list[Any]:
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(function, order=5) for function in functions]
            return [each.result() for each in running]

    theirs = [idempotent_function(function, **options) for function in (charge, mail)]
    at_once(theirs)
    stuck = 0
    for function in theirs:
        try:
            function(order=5)
        except IdempotencyAlreadyInProgressError:
            stuck += 1
    assert stuck == 1

    once = layers.once()
    ours = [once.function(function) for function in (charge, mail)]
    assert at_once(ours) == ["charged", "mailed"]
    assert [function(order=5) for function in ours] == ["charged", "mailed"]
    assert layers.statuses() == [None, None]


def test_a_lost_answer_of_the_acquisition(layers: Layers) -> None:
    """
    An acquisition whose answer was lost on the wire is recognised as our own, and the work runs.

    Theirs takes the record of its own PutItem for another attempt's: nothing runs, the event is stuck.
    """
    lost: list[str] = []

    def lose(request: Any, event_name: str, **_: Any) -> None:
        operation = event_name.rpartition(".")[2]
        if operation not in lost:
            lost.append(operation)
            http(request)
            raise ReadTimeoutError(endpoint_url=request.url)

    for operation in ("PutItem", "UpdateItem"):
        layers.client.meta.events.register_first(f"before-send.dynamodb.{operation}", lose)

    ran: list[str] = []

    def utility(event: Any, context: Any) -> None:
        ran.append("theirs")

    with pytest.raises(IdempotencyPersistenceLayerError):
        layers.theirs(utility)(EVENT, ALIVE)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        layers.theirs(utility)(EVENT, ALIVE)

    @layers.once().event
    def handler(event: dict[str, int]) -> None:
        ran.append("ours")

    handler(EVENT, layers.context())
    assert lost == ["PutItem", "UpdateItem"]
    assert ran == ["ours"]
    assert layers.statuses() == [None]


@pytest.mark.parametrize("result", [0, {}, [], "", False, None, 0.0])
def test_falsy_results_are_results(layers: Layers, result: object) -> None:
    """A duplicate gets the falsy result itself; theirs gets None for what is empty."""

    def utility(event: Any, context: Any) -> Any:
        return result

    protected = layers.theirs(utility)
    protected(EVENT, ALIVE)
    assert protected(EVENT, ALIVE) is None

    @layers.once().event(name="n")
    def handler(event: dict[str, int]) -> Any:
        return result

    first = handler(EVENT, layers.context())
    second = handler(EVENT, layers.context("request-2"))
    assert (first, type(first)) == (second, type(second)) == (result, type(result))


def test_async_functions_run_once(layers: Layers) -> None:
    """A coroutine function runs once and its result replays; theirs cannot store what it returns."""
    ran: list[int] = []

    async def work(order: int) -> int:
        ran.append(order)
        return order

    config = IdempotencyConfig(lambda_context=ALIVE)
    theirs: Any = idempotent_function(
        work, data_keyword_argument="order", persistence_store=layers.layer(), config=config
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # its coroutine is never awaited
        with pytest.raises(IdempotencyPersistenceLayerError):
            theirs(order=5)
    assert ran == []

    ours = layers.once().function(work)
    assert [asyncio.run(ours(5)), asyncio.run(ours(5))] == [5, 5]
    assert ran == [5]


def test_an_unserialisable_result_does_not_run_again(layers: Layers) -> None:
    """Work whose result cannot be kept is done; the first caller gets the result, a duplicate an error."""
    ran: list[object] = []
    result = object()

    @layers.once().event(name="n")
    def handler(event: dict[str, int]) -> Any:
        ran.append(event)
        return result

    assert handler(EVENT, layers.context()) is result
    with pytest.raises(ResultUnavailable, match="not repeated"):
        handler(EVENT, layers.context("request-2"))
    assert len(ran) == 1


def test_a_result_that_is_too_large_does_not_run_again(layers: Layers) -> None:
    """A result of over 400 KB replays; theirs fails after the work was done, and leaves it to run again."""
    large = "".join(f"{number:x}" for number in range(150_000))
    ran: list[str] = []

    def utility(event: Any, context: Any) -> str:
        ran.append("theirs")
        return large

    protected = layers.theirs(utility)
    with pytest.raises(IdempotencyPersistenceLayerError):
        protected(EVENT, OVER)
    with pytest.raises(IdempotencyPersistenceLayerError):
        protected(EVENT, OVER)
    assert ran == ["theirs", "theirs"]

    @layers.once().event(name="n")
    def handler(event: dict[str, int]) -> str:
        ran.append("ours")
        return large

    assert handler(EVENT, layers.context()) == handler(EVENT, layers.context("request-2")) == large
    assert ran.count("ours") == 1


def test_system_exit_frees_the_token(layers: Layers) -> None:
    """After SystemExit the next delivery runs; theirs stays in progress until the time is over."""

    def utility(event: Any, context: Any) -> None:
        raise SystemExit(1)

    protected = layers.theirs(utility)
    with pytest.raises(SystemExit):
        protected(EVENT, ALIVE)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        protected(EVENT, ALIVE)

    @layers.once().event
    def handler(event: dict[str, int]) -> None:
        raise SystemExit(1)

    for request_id in ("request-1", "request-2"):
        with pytest.raises(SystemExit):
            handler(EVENT, layers.context(request_id))
    assert layers.statuses() == [None]


def test_a_short_expiry_does_not_open_the_lock(layers: Layers) -> None:
    """
    However short an outcome is kept, running work is not run a second time beside itself.

    Theirs takes a record in progress for expired, and runs it twice at once.
    """
    theirs: list[str] = []

    def utility(event: Any, context: Any) -> None:
        theirs.append("run")
        if len(theirs) == 1:
            protected(event, ALIVE)

    protected = layers.theirs(utility, expires_after_seconds=-1)
    protected(EVENT, ALIVE)
    assert theirs == ["run", "run"]

    ours: list[Any] = []

    @layers.once(keep=timedelta(seconds=1)).sqs
    def handler(record: Any) -> None:
        layers.clock.advance(20)
        ours.append(handler(batch(sqs_record("x", id_="a")), layers.context("request-2", seconds=5)))

    handler(batch(sqs_record("x", id_="a")), layers.context(seconds=30))
    assert ours == [{"batchItemFailures": [{"itemIdentifier": "a"}]}]
