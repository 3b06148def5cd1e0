"""`once.execution`: one token for a durable execution, by the real SDK and its local runner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aws_durable_execution_sdk_python import (
    DurableContext,
    WithRetryConfig,
    types,
    with_retry,
)

from lambda_once import InProgress
from lambda_once.core.lifecycle import State
from lambda_once.core.tenant import TENANCY
from lambda_once.core.writes import Acquire, Write
from lambda_once.integrations.durable import retry_strategy
from lambda_once.testing import lambda_context
from tests.decorators.durable_shop import HOUR, ORDER, Shop, complete
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.kit.executions import PATIENCE, executions


@on_every_store
def test_the_token_is_kept_while_the_execution_is_suspended(shop: Shop) -> None:
    """A second execution of the key is refused meanwhile, and at once; a third gets the result."""
    first = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    second = shop.of.run("second", ORDER)
    assert (second.value, second.error) == (None, "lambda_once.errors.InProgress")
    shop.of.resume(callback)
    assert shop.of.outcome(first).value == {"charged": 1}
    assert shop.of.run("third", ORDER).value == {"replayed": {"charged": 1}}
    assert shop.charges == [5]


def test_the_row_names_function_and_execution(shop: Shop) -> None:
    """It is locked by function and ARN for lease=; a resumed execution sends no second acquisition."""
    arn = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    row = shop.rig.row()
    assert (row.state, row.locked_by) == (State.IN_PROGRESS, f"test-function/{arn}")
    assert row.expected_completion == row.created + HOUR
    shop.of.resume(callback)
    outcome = shop.of.outcome(arn)
    assert outcome.steps == ["once.attempt", "once.acquire", "charge", "approve", "once.complete"]
    assert (shop.rig.row().state, shop.rig.store.acquisitions, shop.invocations) == (State.COMPLETE, 1, 2)


@in_memory
def test_an_execution_is_the_tenants(shop: Shop) -> None:
    """In the token, whatever thread of the SDK it runs in; a resumed one keeps it."""
    with TENANCY.fresh(), shop.rig.once.invocation(lambda_context(tenant_id="blue")):
        arn = shop.of.start("first", ORDER)
        shop.of.resume(shop.of.suspended())
        assert shop.of.outcome(arn).value == {"charged": 1}
    assert shop.rig.row().token == "shop/pay/blue/5"


def test_a_crash_before_the_checkpoint_of_the_acquisition(shop: Shop) -> None:
    """The step runs again and recognises its own row."""
    shop.suspends = False
    shop.die_after(Acquire)
    assert shop.of.run("first", ORDER).value == {"charged": 1}
    assert (shop.invocations, shop.charges, shop.rig.store.acquisitions) == (2, [5], 2)
    assert shop.rig.row().state is State.COMPLETE


@pytest.mark.parametrize("times", [1, 14])
def test_a_crash_before_the_checkpoint_of_the_completion(shop: Shop, times: int) -> None:
    """The step runs again, however often, finds what it has written, and the execution gets it."""
    shop.suspends = False
    shop.die_after(Write, times)
    assert shop.of.run("first", ORDER).value == {"charged": 1}
    assert shop.of.run("second", ORDER).value == {"replayed": {"charged": 1}}
    assert shop.charges == [5]


# -- one key, several attempts


def test_branches_with_one_key(shop: Shop) -> None:
    """Of two parallel branches of one execution one works, and the other is refused."""
    refused = threading.Event()
    acquired = threading.Barrier(2)

    def branch(context: DurableContext) -> str:
        acquired.wait(PATIENCE)
        try:
            with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR):
                assert refused.wait(PATIENCE)
                return "worked"
        except InProgress:
            refused.set()
            return "refused"

    def handle(event: Any, context: DurableContext) -> list[str]:
        return sorted(context.parallel([branch, branch]).get_results())

    with executions(handle) as of:
        assert of.run("first").value == ["refused", "worked"]
    assert shop.rig.row().state is State.COMPLETE


def test_a_second_block_in_one_execution(shop: Shop) -> None:
    """A block that was released may be entered again by the same execution: each is an attempt of its own."""

    def handle(event: Any, context: DurableContext) -> Any:
        with (
            pytest.raises(ValueError, match="declined"),
            shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as first,
        ):
            raise ValueError("declined")
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as second:
            assert first.id != second.id  # type: ignore[union-attr]
            return second.complete("paid")

    with executions(handle) as of:
        assert of.run("first").value == "paid"


def test_a_nested_block_with_the_same_key(shop: Shop) -> None:
    """It is refused by name: it would wait for itself."""

    def handle(event: Any, context: DurableContext) -> Any:
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR):  # noqa: SIM117
            with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR):
                raise AssertionError

    with executions(handle) as of:
        assert "in this call stack" in (of.run("first").message or "")


def test_an_execution_waits_for_another(shop: Shop) -> None:
    """By the SDK's with_retry it is suspended until the other one has completed, and gets its result."""
    first = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    refused: list[InProgress] = []

    def strategy(error: Exception, attempts: int) -> Any:
        assert isinstance(error, InProgress)
        if not refused:
            shop.of.resume(callback)
            shop.of.outcome(first)
        refused.append(error)
        return retry_strategy(error, attempts)

    def pay(context: types.DurableContext, attempt: int) -> Any:
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as attempted:
            return attempted.result if attempted.replayed else "worked"

    def wait(event: Any, context: DurableContext) -> Any:
        return with_retry(context, pay, WithRetryConfig(retry_strategy=strategy))

    with executions(wait) as of:
        assert of.run("second").value == {"charged": 1}
    first_time, replayed = refused
    assert (str(first_time), vars(first_time)) == (str(replayed), vars(replayed))


def test_a_lapsed_execution_gets_the_outcome_of_its_successor(shop: Shop) -> None:
    """Another execution that took over and completed decides what duplicates get, and what it gets itself."""
    first = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    shop.rig.clock.advance(3_601)
    assert shop.of.run("second", ORDER | {"suspends": False}).value == {"charged": 2}
    shop.of.resume(callback)
    assert shop.of.outcome(first).value == {"charged": 2}
    assert "once.fenced" in shop.rig.events()


def test_a_lapsed_execution_whose_successor_is_in_progress(shop: Shop) -> None:
    """It is `Fenced` at once, and leaves the successor alone."""
    first = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    shop.rig.clock.advance(3_601)
    second = shop.of.start("second", ORDER)
    successor = shop.of.suspended()
    shop.of.resume(callback)
    assert shop.of.outcome(first).error == "lambda_once.errors.Fenced"
    shop.of.resume(successor)
    assert shop.of.outcome(second).value == {"charged": 2}


# -- outages


@contextmanager
def outages(shop: Shop, *invocations: int) -> Iterator[None]:
    """Run executions of *shop*; its table is out of reach in *invocations*, counted from 0."""

    def handle(event: Any, context: DurableContext) -> Any:
        shop.rig.store.out = shop.invocations in invocations
        return shop.handle(event, context)

    with executions(handle) as shop.of:
        yield


def fails(*_: Any) -> None:
    """Fail outside a step."""
    raise ValueError("declined")


@pytest.mark.parametrize(
    ("suspends", "end", "out", "outcome", "state"),
    [
        (False, complete, (0, 1), ({"charged": 1}, None), State.COMPLETE),
        (True, complete, (1, 2), ({"charged": 1}, None), State.COMPLETE),
        (True, fails, (1,), (None, "ValueError"), State.RELEASED),
    ],
    ids=["the acquisition", "the completion", "the release"],
)
def test_the_table_is_out_of_reach(
    shop: Shop, suspends: bool, end: Any, out: tuple[int, ...], outcome: Any, state: State
) -> None:
    """A later invocation writes what this one could not: no token is left behind, the work runs once."""
    shop.end, shop.suspends = end, suspends
    with outages(shop, *out):
        arn = shop.of.start("first", ORDER)
        if suspends:
            shop.of.resume(shop.of.suspended())
        found = shop.of.outcome(arn)
    assert (found.value, found.error) == outcome
    assert (shop.rig.row().state, shop.invocations, shop.charges) == (state, len(out) + 1 + suspends, [5])


def test_too_little_time_remains(shop: Shop) -> None:
    """An invocation that is about to end acquires nothing; the next one does."""
    shop.suspends = False
    left = iter([100, 100])

    def handle(event: Any, context: DurableContext) -> Any:
        context.lambda_context = shop.rig.context(seconds=next(left, 30_000) / 1000)  # type: ignore[assignment]
        return shop.handle(event, context)

    with executions(handle) as of:
        assert of.run("first", ORDER).value == {"charged": 1}
    assert (shop.invocations, shop.charges) == (3, [5])


# -- invocations that were given up


def first_sets(ended: threading.Event, shop: Shop) -> Callable[[Any, DurableContext], Any]:
    """Return the handler of *shop*, whose first invocation sets *ended* when it is over."""

    def handle(event: Any, context: DurableContext) -> Any:
        is_first = shop.invocations == 0
        try:
            return shop.handle(event, context)
        finally:
            if is_first:
                ended.set()

    return handle


def first_waits(acquires: threading.Event, over: threading.Event, rig: Rig) -> None:
    """Let the first acquisition in *rig* set *acquires*, and then reach the table only after *over*."""
    acquire = rig.store.acquire

    def late(acquisitions: Any, deadline: Any) -> Any:
        if not acquires.is_set():
            acquires.set()
            assert over.wait(PATIENCE)
        return acquire(acquisitions, deadline)

    rig.store.acquire = late  # type: ignore[method-assign]


@in_memory
@pytest.mark.parametrize("leaves", ["by an error", "complete", "cleanly"])
def test_a_zombie_does_no_harm(rig: Rig, leaves: str) -> None:
    """An invocation that was given up cannot finish the token, however it leaves the block."""
    shop = Shop(rig)
    over, waits, ended = threading.Event(), threading.Event(), threading.Event()

    def end(context: DurableContext, attempt: Any, charged: int) -> Any:
        if shop.invocations > 1:
            shop.of.suspend(context)
            return attempt.complete({"charged": charged})
        waits.set()
        assert over.wait(PATIENCE)
        if leaves == "by an error":
            raise ValueError("a zombie")
        return attempt.complete("by a zombie") if leaves == "complete" else None

    shop.at_once(end)
    with executions(first_sets(ended, shop)) as shop.of:
        arn = shop.of.start("first", ORDER)
        assert waits.wait(PATIENCE)
        shop.of.give_up(arn)
        callback = shop.of.suspended()  # the second invocation has come so far
        over.set()
        assert ended.wait(PATIENCE)
        assert rig.row().state is State.IN_PROGRESS
        shop.of.resume(callback)
        assert shop.of.outcome(arn).value == {"charged": 1}
    assert (rig.row().state, shop.charges) == (State.COMPLETE, [5])


@in_memory
def test_a_zombie_that_acquires(rig: Rig) -> None:
    """Two invocations of one execution that acquire are one attempt; the zombie gets no further."""
    shop = Shop(rig)
    shop.suspends = False
    acquires, over, ended = threading.Event(), threading.Event(), threading.Event()
    first_waits(acquires, over, rig)
    shop.end = lambda context, attempt, charged: complete(
        context, attempt, charged + len(shop.of.suspend(context))
    )
    with executions(first_sets(ended, shop)) as shop.of:
        arn = shop.of.start("first", ORDER)
        assert acquires.wait(PATIENCE)
        shop.of.give_up(arn)
        callback = shop.of.suspended()
        over.set()
        assert ended.wait(PATIENCE)
        assert rig.row().state is State.IN_PROGRESS
        shop.of.resume(callback)
        assert shop.of.outcome(arn).value == {"charged": 6}
    assert (rig.row().state, shop.charges) == (State.COMPLETE, [5])


@in_memory
@pytest.mark.parametrize("row", ["expired", "released by another"])
def test_a_zombie_that_acquires_after_all(rig: Rig, row: str) -> None:
    """It takes a token that is free by then, and does nothing; the key is free again after that lease."""
    shop = Shop(rig)
    shop.suspends = False
    shop.options = {"keep": 2 * HOUR}
    acquires, over, ended = threading.Event(), threading.Event(), threading.Event()
    first_waits(acquires, over, rig)
    if row != "expired":
        shop.end = fails
    with executions(first_sets(ended, shop)) as shop.of:
        arn = shop.of.start("first", ORDER)
        assert acquires.wait(PATIENCE)
        shop.of.give_up(arn)
        shop.of.outcome(arn)
        if row == "expired":
            rig.clock.advance(2 * 3_600 + 1)
        else:
            assert shop.of.run("another", ORDER).error == "ValueError"
        charged = len(shop.charges)
        over.set()
        assert ended.wait(PATIENCE)
        assert (rig.row().state, len(shop.charges)) == (State.IN_PROGRESS, charged)
        shop.end = complete
        assert shop.of.run("second", ORDER).error == "lambda_once.errors.InProgress"
        rig.clock.advance(3_601)
        assert shop.of.run("third", ORDER).value == {"charged": charged + 1}


@in_memory
def test_disabled(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under LAMBDA_ONCE_DISABLED every execution runs, and nothing is stored."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    shop = Shop(rig)
    with executions(shop.handle) as shop.of:
        arns = [shop.of.start(name, ORDER) for name in ("first", "second")]
        for _ in arns:
            shop.of.resume(shop.of.suspended())
        assert {shop.of.outcome(arn).error for arn in arns} == {None}
    assert (len(shop.charges), rig.rows()) == (2, [])
