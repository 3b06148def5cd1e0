"""`once.sqs` over a coroutine function: concurrent, and still a plain handler."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Misconfigured
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.sources.samples import batch, sqs_record


def records(*bodies: str) -> dict[str, Any]:
    """A batch of *bodies*, each its own messageId."""
    return batch(*(sqs_record(body, id_=body) for body in bodies))


def test_the_handler_is_plain_and_the_records_run_at_once(rig: Rig) -> None:
    """Three records meet at one barrier, so they run concurrently; the redelivery runs none."""
    barrier = asyncio.Barrier(3)
    seen: list[str] = []

    @rig.once.sqs
    async def handler(record: SQSRecord, context: object) -> None:
        await asyncio.wait_for(barrier.wait(), 5)
        seen.append(record.body)

    assert not inspect.iscoroutinefunction(handler)
    assert handler(records("a", "b", "c"), rig.context()) == ALL_WELL
    assert handler(records("a", "b", "c"), rig.context("request-2")) == ALL_WELL
    assert sorted(seen) == ["a", "b", "c"]


def test_concurrency_is_bounded(rig: Rig) -> None:
    """No more than concurrency= records are in progress at one moment."""
    in_progress: set[str] = set()
    most: list[int] = []

    @rig.once.sqs(concurrency=2)
    async def handler(record: SQSRecord) -> None:
        in_progress.add(record.body)
        for _ in range(5):
            await asyncio.to_thread(int)
        most.append(len(in_progress))
        in_progress.remove(record.body)

    assert handler(records(*"abcdef"), rig.context()) == ALL_WELL
    assert max(most) == 2


def test_one_failure_leaves_the_others(rig: Rig) -> None:
    """A record that raises goes back alone."""

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        if record.body == "b":
            raise ValueError

    assert handler(records("a", "b", "c"), rig.context()) == failed("b")


@on_every_store
def test_each_record_has_its_own_attempt(rig: Rig) -> None:
    """Concurrent records do not see each other's attempt."""
    tokens: dict[str, set[str]] = {}

    @rig.once.sqs(key=lambda record: record.body)
    async def handler(record: SQSRecord) -> None:
        for _ in range(3):
            tokens.setdefault(record.body, set()).add(rig.once.current().token)
            await asyncio.to_thread(int)

    handler(records("a", "b", "c"), rig.context())
    assert {body: {token.rpartition("/")[2] for token in found} for body, found in tokens.items()} == {
        "a": {"a"},
        "b": {"b"},
        "c": {"c"},
    }


@in_memory
def test_a_running_loop_is_refused_clearly(rig: Rig) -> None:
    """From inside an event loop the handler says how to call it there, and nothing runs."""

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        raise AssertionError

    async def wrongly() -> None:
        handler(records("a"), rig.context())

    with pytest.raises(Misconfigured, match=r"asyncio\.to_thread"):
        asyncio.run(wrongly())
    assert rig.rows() == []


def test_the_advice_of_the_error_works(rig: Rig) -> None:
    """An async test calls the handler by asyncio.to_thread."""
    seen: list[str] = []

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        seen.append(record.body)

    async def rightly() -> Any:
        return await asyncio.to_thread(handler, records("a"), rig.context())

    assert asyncio.run(rightly()) == ALL_WELL
    assert seen == ["a"]


def test_the_loop_outlives_the_invocation(rig: Rig) -> None:
    """Clients that belong to a loop can be kept: the next invocation has the same one."""
    loops: list[object] = []

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        loops.append(asyncio.get_running_loop())

    handler(records("a"), rig.context())
    handler(records("b"), rig.context("request-2"))
    assert loops[0] is loops[1]


def test_system_exit_finishes_all_and_leaves_nothing_running(rig: Rig) -> None:
    """SystemExit in one record cancels the others: no token stays in progress, none goes on later."""
    went_on: list[str] = []

    @rig.once.sqs
    async def handler(record: SQSRecord) -> None:
        if record.body == "a":
            raise SystemExit(1)
        if record.body != "d":
            await asyncio.Event().wait()
        went_on.append(record.body)

    with pytest.raises(SystemExit):
        handler(records("a", "b", "c"), rig.context())
    assert rig.states() == [State.RELEASED] * 3
    assert handler(records("d"), rig.context("request-2")) == ALL_WELL
    assert went_on == ["d"]
