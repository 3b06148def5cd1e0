"""How `once.execution` ends, and what its duplicates get."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from aws_durable_execution_sdk_python import (
    DurableContext,
    ExecutionError,
    InvocationError,
    StepError,
)
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.retries import RetryPresets

from lambda_once import HOLD, RELEASE, STORE, GiveUp, InProgress, Misconfigured, OnceError, RetryLater
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Resolve, State
from lambda_once.core.writes import Write
from lambda_once.operations.decisions import Author, decided
from tests.decorators.counted import Counted
from tests.decorators.durable_shop import HOUR, ORDER, Killed, Shop
from tests.decorators.rig import in_memory
from tests.kit.executions import executions

ONCE = StepConfig(retry_strategy=RetryPresets.none())


# -- failures


class Declined(Exception):
    """The card is declined."""


class Lost(Declined):
    """The card was reported lost."""


def declined(*_: Any) -> None:
    """Fail outside a step."""
    raise ValueError("declined")


def in_a_step(context: DurableContext, *_: Any) -> Any:
    """Fail in a step."""

    def charge(_: Any) -> None:
        raise Lost("lost")

    return context.step(charge, name="decline", config=ONCE)


@pytest.mark.parametrize(
    ("policy", "state", "second"),
    [
        (RELEASE, State.RELEASED, "ValueError"),
        (STORE, State.COMPLETE, "lambda_once.errors.ValueError"),
        (HOLD, State.HELD, "lambda_once.errors.Held"),
    ],
)
def test_a_failure_goes_by_its_policy(shop: Shop, policy: Any, state: State, second: str) -> None:
    """The next execution runs, gets the error, or `Held`."""
    shop.at_once(declined, on_error=policy)
    first = shop.of.run("first", ORDER)
    assert (first.error, first.steps[-1]) == ("ValueError", "once.fail")
    assert shop.rig.row().state is state
    assert shop.of.run("second", ORDER).error == second
    assert len(shop.charges) == (2 if policy is RELEASE else 1)


@in_memory
@pytest.mark.parametrize(
    ("on_error", "state"),
    [
        ({Declined: STORE}, State.COMPLETE),
        ({Declined: STORE, Lost: HOLD}, State.HELD),
        ({ValueError: STORE}, State.RELEASED),
        (lambda error: STORE if error.error_type.endswith(".Lost") else RELEASE, State.COMPLETE),
    ],
)
def test_a_failure_of_a_step(shop: Shop, on_error: Any, state: State) -> None:
    """A mapping sees through the SDK's StepError to the class of what the step has raised."""
    shop.at_once(in_a_step, on_error=on_error)
    assert shop.of.run("first", ORDER).error == f"{StepError.__module__}.StepError"
    assert shop.rig.row().state is state


def test_a_step_that_is_to_be_retried(shop: Shop) -> None:
    """`RetryLater` releases whatever on_error says, in a step as anywhere."""

    def busy(context: DurableContext, *_: Any) -> Any:
        def charge(_: Any) -> None:
            raise InProgress("the other one")

        return context.step(charge, name="busy", config=ONCE)

    shop.at_once(busy, on_error=STORE)
    shop.of.run("first", ORDER)
    assert shop.rig.row().state is State.RELEASED


@in_memory
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, Killed, lambda: InvocationError("again")])
@pytest.mark.parametrize("policy", [RELEASE, STORE, HOLD])
def test_what_ends_the_invocation_does_not_end_the_attempt(shop: Shop, error: Any, policy: Any) -> None:
    """The token stays as it is, and the next invocation goes on with it."""
    seen: list[State] = []

    def end(context: DurableContext, attempt: Any, charged: int) -> Any:
        seen.append(shop.rig.row().state)
        if len(seen) == 1:
            raise error()
        return attempt.complete({"charged": charged})

    shop.at_once(end, on_error=policy)
    assert shop.of.run("first", ORDER).value == {"charged": 1}
    assert seen == [State.IN_PROGRESS, State.IN_PROGRESS]
    assert shop.charges == [5]


def test_what_ends_the_execution_ends_the_attempt(shop: Shop) -> None:
    """The SDK's ExecutionError fails it without a retry: the policy applies."""

    def end(*_: Any) -> Any:
        raise ExecutionError("no use")

    shop.at_once(end)
    assert "ExecutionError" in (shop.of.run("first", ORDER).error or "")
    assert shop.rig.row().state is State.RELEASED


# -- what is completed


def test_leaving_without_complete(shop: Shop) -> None:
    """The token is complete with None."""
    shop.at_once(lambda *_: "ignored")
    assert shop.of.run("first", ORDER).value == "ignored"
    assert shop.of.run("second", ORDER).value == {"replayed": None}


def test_an_error_after_complete(shop: Shop) -> None:
    """What was completed stays, and a second complete changes nothing."""

    def end(context: DurableContext, attempt: Any, charged: int) -> Any:
        assert attempt.complete(1) == 1
        assert attempt.complete(2) == 1
        raise ValueError("too late")

    shop.at_once(end)
    first = shop.of.run("first", ORDER)
    assert (first.error, first.steps[-1]) == ("ValueError", "once.complete")
    assert shop.of.run("second", ORDER).value == {"replayed": 1}


def backwards(data: bytes, _token: str) -> bytes:
    """Seal and open."""
    return data[::-1]


@pytest.mark.parametrize("sealed", [False, True], ids=["large", "sealed"])
def test_a_result_that_no_checkpoint_takes(shop: Shop, sealed: bool) -> None:
    """A large or sealed result is read again by each invocation that replays, retried in an outage."""
    large = "x" * (10 if sealed else 300_000)
    if sealed:
        shop.rig.once = shop.rig.new(seal=(backwards, backwards))
    shop.at_once(lambda _context, attempt, _charged: len(attempt.complete(large)))
    assert shop.of.run("first", ORDER).value == len(large)
    outages = iter([False, True, False])

    def replaying(event: Any, context: DurableContext) -> int:
        shop.rig.store.out = next(outages)
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as attempt:
            shop.of.suspend(context)
            return len(attempt.result)

    with executions(replaying) as of:
        arn = of.start("second", ORDER)
        of.resume(shop.of.suspended())
        assert of.outcome(arn).value == len(large)
    assert next(outages, None) is None


def test_a_result_that_is_gone(shop: Shop) -> None:
    """A large result that another outcome has replaced meanwhile is `ResultUnavailable`, not another one."""
    large = "x" * 300_000
    shop.at_once(lambda _context, attempt, _charged: len(attempt.complete(large)), keep=timedelta(hours=2))
    shop.of.run("first", ORDER)

    def replaying(event: Any, context: DurableContext) -> Any:
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as attempt:
            shop.of.suspend(context)
            return len(attempt.result)

    with executions(replaying) as of:
        arn = of.start("second", ORDER)
        callback = shop.of.suspended()
        shop.rig.clock.advance(3 * 3_600)
        shop.of.run("third", ORDER)
        of.resume(callback)
        assert of.outcome(arn).error == "lambda_once.errors.ResultUnavailable"


def test_a_result_that_cannot_be_stored(shop: Shop) -> None:
    """The execution gets it, even if its completion runs again; duplicates get `ResultUnavailable`."""
    shop.at_once(lambda _context, attempt, _charged: str(attempt.complete(object)))
    shop.die_after(Write)
    assert shop.of.run("first", ORDER).value == str(object)
    assert shop.of.run("second", ORDER).error == "lambda_once.errors.ResultUnavailable"


MONEY = {
    "price": Decimal("19.90"),
    "rate": Decimal("0.1"),
    "count": Decimal("3.00"),
    "huge": Decimal("1E+40"),
    "more": Decimal("1E+400"),
    "long": Decimal("0.12345678901234567890123"),
    "lines": [{"each": Decimal("1.10")}],
}
WRITTEN = {
    "price": 19.9,
    "rate": 0.1,
    "count": 3,
    "huge": 1e40,
    "more": "1E+400",
    "long": "0.12345678901234567890123",
    "lines": [{"each": 1.1}],
}


def _is_equal(found: object) -> bool:
    """Whether *found* is `WRITTEN`, of equal types."""
    return repr(found) == repr(WRITTEN)


def test_decimals_are_completed_as_json_writes_them(shop: Shop) -> None:
    """As a number of the same value, else as text: for the execution, its duplicates, and whoever asks."""
    completed: list[object] = []

    def end(_context: DurableContext, attempt: Any, _charged: int) -> Any:
        completed.append(attempt.complete(MONEY))
        return completed[-1]

    shop.at_once(end)
    first, second = shop.of.run("first", ORDER), shop.of.run("second", ORDER)
    assert (first.error, second.error) == (None, None)
    assert _is_equal(completed[0])
    assert _is_equal(first.value)
    assert _is_equal(second.value["replayed"])
    assert _is_equal(shop.rig.once.outcome(5, name="pay").result)
    shop.of.run("third", {"order": 6})
    assert shop.rig.events().count("once.result_changed") == 1


def test_decimals_that_a_block_has_completed(shop: Shop) -> None:
    """A block of the same name keeps its Decimals; an execution gets them as it can return them."""
    with shop.rig.once.begin(5, name="pay") as attempt:
        attempt.complete(MONEY)
    shop.suspends = False
    assert _is_equal(shop.of.run("first", ORDER).value["replayed"])
    assert shop.rig.once.outcome(5, name="pay").result == MONEY


class Rate(Decimal, Enum):
    LOW = "0.1"


@pytest.mark.parametrize("depth", [0, 900])
def test_what_is_done_is_never_refused(shop: Shop, depth: int) -> None:
    """Neither for its size nor its depth nor what it prints: the execution gets what it can return."""
    result: Any = {"rate": Rate.LOW, "large": "x" * (10 if depth else 11_000_000)}
    for _ in range(depth):
        result = [result]
    kept: list[Any] = []
    shop.at_once(lambda _context, attempt, _charged: kept.append(attempt.complete(result)))
    assert shop.of.run("first", ORDER).error is None
    assert shop.rig.row().state is State.COMPLETE
    found = kept[0]
    for _ in range(depth):
        (found,) = found
    assert repr(found["rate"]) == "0.1"


def test_decimals_of_a_declared_type(shop: Shop) -> None:
    """They stay Decimals: returns= and codec= say what an execution gets."""
    end = lambda _context, attempt, _charged: repr(attempt.complete({"a": Decimal("1.10")}))  # noqa: E731
    shop.at_once(end, returns=dict[str, Decimal])
    assert shop.of.run("first", ORDER).value == "{'a': Decimal('1.10')}"


class KeyLost(GiveUp):
    """The key of a seal is lost; carries what no checkpoint takes."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.provider = object()


class KeyServiceDown(RetryLater):
    """The service that has the key of a seal does not answer."""


def test_an_error_of_the_developers_own(shop: Shop) -> None:
    """A seal's `GiveUp` is replayed as the nearest class of this package, by every invocation."""
    shop.rig.once = shop.rig.new(seal=(backwards, lambda *_: _fail(KeyLost("no such key"))))
    shop.suspends = False
    shop.of.run("first", ORDER)
    seen: list[OnceError] = []

    def handle(event: Any, context: DurableContext) -> None:
        with (
            pytest.raises(GiveUp) as refused,
            shop.rig.once.execution(context, key=5, name="pay", lease=HOUR),
        ):
            raise AssertionError
        seen.append(refused.value)
        shop.of.suspend(context)

    with executions(handle) as of:
        arn = of.start("second", ORDER)
        of.resume(shop.of.suspended())
        assert of.outcome(arn).error is None
    token = shop.rig.row().token
    assert [(type(each), str(each), each.token) for each in seen] == [(GiveUp, "no such key", token)] * 2


def _fail(error: Exception) -> bytes:
    raise error


def test_a_sealed_result_while_the_key_service_is_down(shop: Shop) -> None:
    """Opening it is tried again: in the step that acquires, and by the next invocation outside of it."""
    down = iter([True, False, True, False, False])

    def unseal(data: bytes, token: str) -> bytes:
        if next(down):
            raise KeyServiceDown("later")
        return backwards(data, token)

    shop.rig.once = shop.rig.new(seal=(backwards, lambda data, _: data[::-1]))
    shop.suspends = False
    shop.of.run("first", ORDER)
    shop.rig.once = shop.rig.new(seal=(backwards, unseal))
    assert shop.of.run("second", ORDER).value == {"replayed": {"charged": 1}}
    assert next(down, None) is False


def test_a_required_seal(shop: Shop) -> None:
    """Plain text in the row is refused by a second execution; what a person accepted is replayed."""
    shop.rig.once = shop.rig.new()
    shop.suspends = False
    shop.of.run("first", ORDER)
    shop.rig.once = shop.rig.new(seal=(backwards, backwards), seal_required=True)
    assert shop.of.run("second", ORDER).error == "lambda_once.errors.ResultUnavailable"
    row, now = shop.rig.row(), shop.rig.clock.now()
    accepted = decided(row, Resolve.DONE, Author("ann", "read it"), now)
    shop.rig.store.write([accepted], Deadline(shop.rig.clock, now + HOUR))
    assert shop.of.run("third", ORDER).value == {"replayed": {"charged": 1}}


def test_a_completion_found_while_the_key_service_is_down(shop: Shop) -> None:
    """A completion that runs again finds its own sealed row, and runs again until that can be opened."""
    down = iter([True, False])

    def unseal(data: bytes, token: str) -> bytes:
        if next(down, False):
            raise KeyServiceDown("later")
        return backwards(data, token)

    shop.rig.once = shop.rig.new(seal=(backwards, unseal))
    shop.suspends = False
    shop.die_after(Write)
    assert shop.of.run("first", ORDER).value == {"charged": 1}
    assert next(down, None) is None


def test_a_result_that_is_read_as_another_type(shop: Shop) -> None:
    """What its codec cannot write again is no part of the checkpoint; it is read from the table."""
    shop.options = {"codec": (lambda result: [result["charged"]], sorted)}
    shop.suspends = False
    assert shop.of.run("first", ORDER).value == [1]
    assert shop.of.run("second", ORDER).value == {"replayed": [1]}


def test_an_attempt_ends_with_its_block(shop: Shop) -> None:
    """A key of it that is asked for later would be that of other work."""

    def handle(_event: Any, context: DurableContext) -> Any:
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as attempt:
            attempt.complete("charged")
            kept: Any = attempt
        for act in (kept.downstream_key, kept.complete):
            with pytest.raises(Misconfigured, match="shop/pay/5 is over"):
                act()

    with executions(handle) as of:
        assert of.run("first").error is None


# -- what identifies it


def test_another_payload(shop: Shop) -> None:
    """The same key with another payload is `KeyReused`, and names the field."""
    shop.suspends = False
    shop.options = {"payload": {"amount": 1}}
    shop.of.run("first", ORDER)
    shop.options = {"payload": {"amount": 2}}
    second = shop.of.run("second", ORDER)
    assert second.error == "lambda_once.errors.KeyReused"
    assert "amount" in (second.message or "")


def test_scope_name_and_keep(shop: Shop) -> None:
    """They are as in `begin`."""

    def handle(event: Any, context: DurableContext) -> None:
        with shop.rig.once.execution(
            context, key=5, name="work", scope="acme", lease=HOUR, keep=HOUR
        ) as attempt:
            assert not attempt.replayed
            assert attempt is shop.rig.once.current()
            assert len(attempt.downstream_key()) == 64

    with executions(handle) as of:
        assert of.run("first").error is None
    row = shop.rig.row()
    assert row.token == "shop/work/acme/5"
    assert row.ttl == int((row.created + HOUR).timestamp())


def test_the_token_of_the_first_invocation_counts(shop: Shop) -> None:
    """A deploy that changes what tokens are made of does not change that of a suspended execution."""
    arn = shop.of.start("first", ORDER)
    callback = shop.of.suspended()
    token = shop.rig.row().token
    shop.options = {"name": "renamed"}
    shop.of.resume(callback)
    assert shop.of.outcome(arn).value == {"charged": 1}
    assert (shop.rig.row().token, shop.rig.row().state) == (token, State.COMPLETE)


@in_memory
def test_what_the_attempt_lacks(shop: Shop) -> None:
    """It outlives its invocations, and no step of it is a transaction."""

    async def of_async(attempt: Any) -> None:
        for call in (attempt.aextend(5), attempt.atransact([]), attempt.acomplete()):
            with pytest.raises(Misconfigured, match="the attempt of a durable execution has no"):
                await call

    def end(context: DurableContext, attempt: Any, charged: int) -> Any:
        with pytest.raises(Misconfigured, match="has no extend"):
            attempt.extend(5)
        with pytest.raises(Misconfigured, match="has no transact"):
            attempt.transact([])
        asyncio.run(of_async(attempt))
        return attempt.complete("whole")

    shop.at_once(end)
    assert shop.of.run("first", ORDER).value == "whole"


def test_a_wait_between_acquisition_and_completion(shop: Shop) -> None:
    """A wait suspends as a callback does, in a child context as well."""

    def child(context: DurableContext) -> Any:
        with shop.rig.once.execution(context, key=5, name="pay", lease=HOUR) as attempt:
            context.wait(Duration.from_minutes(5))
            return attempt.complete("waited")

    def handle(event: Any, context: DurableContext) -> Any:
        return context.run_in_child_context(child, name="child")

    with executions(handle) as of:
        assert of.run("first").value == "waited"
    assert shop.rig.row().state is State.COMPLETE


# -- what it costs


def test_costs(counted: Counted) -> None:
    """
    What docs/durable.md says: requests to the table and to Lambda, and durable operations.

    The SDK's thread sends what is queued when it wakes up, on a busy machine in two parts: the fewest
    checkpoints of a few executions count.
    """
    rig = counted.rig
    keys: list[int] = []

    def handle(event: Any, context: DurableContext) -> Any:
        with rig.once.execution(context, key=keys[-1], name="pay", lease=HOUR) as attempt:
            of.suspend(context)
            return attempt.result if attempt.replayed else attempt.complete(1)

    def cost(name: str) -> tuple[list[str], int, list[str | None]]:
        before = of.checkpoints
        arn = of.start(name)
        of.resume(of.suspended())
        steps = [step for step in of.outcome(arn).steps if step != "approve"]
        return counted.calls(), of.checkpoints - before - 1, steps  # less that of the callback

    with executions(handle) as of:
        whole = ["once.attempt", "once.acquire", "once.complete"]
        fewest: list[tuple[int, int]] = []
        for key in range(5):
            keys.append(key)
            calls, new, steps = cost(f"new {key}")
            assert (calls, steps) == (["UpdateItem", "UpdateItem"], whole)
            calls, duplicate, steps = cost(f"duplicate {key}")
            assert (calls, steps) == (["UpdateItem"], whole[:2])
            fewest.append((new, duplicate))
        assert [min(each) for each in zip(*fewest, strict=True)] == [4, 2]
