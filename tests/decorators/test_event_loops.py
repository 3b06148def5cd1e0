"""
The thread's event loop is the user's: after coroutines of ours it is as it was.

An ASGI adapter such as Mangum asks ``asyncio.get_event_loop()`` in each invocation. What takes that loop away
breaks all later invocations of the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambda_once import NOT_DONE
from lambda_once.core import threads
from lambda_once.patterns.fifo import work_in_order
from lambda_once.testing import api_event, sqs_event
from tests.decorators.rig import Rig

pytestmark = pytest.mark.filterwarnings("error")


async def ask_the_bank(*_: Any) -> Any:
    """A probe: the work is not done."""
    await asyncio.to_thread(int)
    return NOT_DONE


def _by_probe(rig: Rig) -> None:
    @rig.once.function(on_lapse=ask_the_bank)
    def charge(order: int) -> str:
        return f"charged {order}"

    with rig.crash():
        charge(5)
    rig.clock.advance(1000)
    assert charge(5) == "charged 5"


def _by_probe_of_async_work(rig: Rig) -> None:
    @rig.once.event(key="id", on_lapse=ask_the_bank)
    async def charge(event: Any, context: Any) -> str:
        return f"charged {event['id']}"

    with rig.crash():
        charge({"id": 5}, rig.context("r-1"))
    rig.clock.advance(1000)
    assert charge({"id": 5}, rig.context("r-2")) == "charged 5"


def _by_event(rig: Rig) -> None:
    @rig.once.event(key="id")
    async def charge(event: Any, context: Any) -> str:
        await asyncio.to_thread(int)
        return f"charged {event['id']}"

    assert charge({"id": 5}, rig.context()) == "charged 5"


def _by_request(rig: Rig) -> None:
    @rig.once.api_gateway
    async def pay(event: Any, context: Any) -> Any:
        await asyncio.to_thread(int)
        return {"statusCode": 201}

    assert pay(api_event("POST", "/pay", {"cents": 5}), rig.context())["statusCode"] == 201


def _by_records(rig: Rig) -> None:
    @rig.once.sqs(key="id")
    async def charge(record: Any) -> None:
        await asyncio.to_thread(int)

    assert charge(sqs_event({"id": 1}, {"id": 2}), rig.context()) == {"batchItemFailures": []}


def _by_order(rig: Rig) -> None:
    async def charge(record: Any) -> None:
        await asyncio.to_thread(int)

    assert work_in_order(sqs_event({"id": 1}), charge) == {"batchItemFailures": []}
    assert rig.rows() == []


RUNS: dict[str, Callable[[Rig], None]] = {
    "a probe": _by_probe,
    "a probe of async work": _by_probe_of_async_work,
    "an event": _by_event,
    "a request": _by_request,
    "records": _by_records,
    "records in order": _by_order,
}


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that is this thread's, which has run none of ours yet."""
    monkeypatch.setattr(threads._loops, "own", None, raising=False)
    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    yield own
    asyncio.set_event_loop(None)
    own.close()


@pytest.mark.parametrize("run", RUNS)
def test_the_threads_loop_is_as_it_was(
    rig: Rig, loop: asyncio.AbstractEventLoop, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still there and runs; nothing sets another one, or none, for a moment."""
    moved: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events, "set_event_loop", moved.append)
        for _ in range(2):
            RUNS[run](Rig())
    RUNS[run](rig)
    assert moved == []
    assert asyncio.get_event_loop() is loop
    assert loop.run_until_complete(ask_the_bank()) is NOT_DONE


@pytest.mark.parametrize("run", RUNS)
def test_twin_by_a_runner_of_asyncio(
    rig: Rig, loop: asyncio.AbstractEventLoop, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it comes, it takes the thread's loop away."""
    monkeypatch.setattr(threads, "new_runner", asyncio.Runner)
    RUNS[run](rig)
    try:
        found: object = asyncio.get_event_loop()
    except (RuntimeError, DeprecationWarning):  # there is none; Python before 3.14 would make one
        found = None
    assert found is not loop
