"""Protected functions in the steps of a durable execution, and `retry_strategy`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from aws_durable_execution_sdk_python import DurableContext
from aws_durable_execution_sdk_python.config import StepConfig
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets

from lambda_once import (
    HOLD,
    STORE,
    Fenced,
    Held,
    InProgress,
    KeyReused,
    Misconfigured,
    RetryLater,
    StoreUnavailable,
)
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire
from lambda_once.errors import stored_error
from lambda_once.integrations.durable import LONGEST_PAUSE, retry_strategy
from tests.decorators.durable_shop import ORDER, Shop
from tests.decorators.rig import Rig, elsewhere, in_memory
from tests.kit.executions import executions

RETRIED = StepConfig(retry_strategy=retry_strategy)


# -- the strategy


@pytest.mark.parametrize("error", [RetryLater("x"), InProgress("x"), Fenced("x"), StoreUnavailable("x")])
@pytest.mark.parametrize("attempts", [1, 6, 60, 6_000])
def test_retry_later_is_retried(error: RetryLater, attempts: int) -> None:
    """However often, after pauses that stay under a minute and are never below the least of the SDK."""
    decision = retry_strategy(error, attempts)
    assert decision.should_retry
    assert 1 <= decision.delay_seconds <= LONGEST_PAUSE + 2


def test_retry_after_is_obeyed() -> None:
    """No step runs again before its error says that it makes sense."""
    delays = [retry_strategy(InProgress("x", retry_after=4.2), 1).delay_seconds for _ in range(50)]
    assert min(delays) >= 5
    assert max(delays) <= 7


@pytest.mark.parametrize(
    "error", [Held("x"), KeyReused("x"), Misconfigured("x"), stored_error("ValueError", "x")]
)
def test_give_up_is_final(error: Exception) -> None:
    """A retry would change nothing."""
    assert not retry_strategy(error, 1).should_retry


@pytest.mark.parametrize("attempts", range(1, 8))
def test_other_errors_are_left_to_the_sdk(attempts: int) -> None:
    """Its default retries five times."""
    expected = RetryPresets.default()(ValueError("x"), attempts).should_retry
    assert retry_strategy(ValueError("x"), attempts).should_retry is expected


# -- in steps


def test_one_effect_for_two_executions(shop: Shop) -> None:
    """The step of the second execution gets the result of the first."""

    def handle(event: Any, context: DurableContext) -> Any:
        charged = context.step(
            lambda _: shop.rig.once.run("charge", event["order"], shop.charge, event["order"]),
            name="charge",
        )
        shop.of.suspend(context)
        return charged

    with executions(handle) as shop.of:
        arns = [shop.of.start(name, ORDER) for name in ("first", "second")]
        for _ in arns:
            shop.of.resume(shop.of.suspended())
        assert [shop.of.outcome(arn).value for arn in arns] == [1, 1]
    assert shop.charges == [5]


def test_a_step_that_crashed_after_its_effect(shop: Shop) -> None:
    """The checkpoint is missing, the token is complete: the step runs again and gets the result."""
    checkpoints = iter([KeyboardInterrupt(), None])
    charge = shop.rig.once.function(name="charge", key="order")(shop.charge)

    def step(_: Any) -> int:
        charged: int = charge(5)
        if (crash := next(checkpoints)) is not None:
            raise crash
        return charged

    with executions(lambda _event, context: context.step(step, name="charge")) as of:
        assert of.run("first").value == 1
    assert shop.charges == [5]


def test_a_step_waits_for_another_attempt(shop: Shop) -> None:
    """It is retried while the other attempt is in progress, and then gets its result."""
    tries: list[int] = []

    def strategy(error: Exception, attempts: int) -> RetryDecision:
        tries.append(attempts)
        if attempts == 2:
            other.close()
        return retry_strategy(error, attempts)

    def handle(event: Any, context: DurableContext) -> Any:
        work = lambda _: shop.rig.once.run("charge", 5, shop.charge, 5)  # noqa: E731
        return context.step(work, name="charge", config=StepConfig(retry_strategy=strategy))

    with ExitStack() as other, executions(handle) as of:
        elsewhere(other.enter_context, shop.rig.once.begin(5, name="charge", payload={"order": 5}))
        arn = of.start("first")
        assert of.outcome(arn).value is None  # what the other one completed with
    assert (tries, shop.charges) == ([1, 2], [])


@pytest.mark.parametrize(("policy", "words"), [(STORE, "declined"), (HOLD, "is held for manual review")])
def test_a_step_that_must_not_run_again(shop: Shop, policy: Any, words: str) -> None:
    """Its first failure is stored or held; the SDK's retry gets that, which is final."""
    runs: list[int] = []

    @shop.rig.once.function(name="charge", key="order", on_error=policy)
    def charge(order: int) -> None:
        runs.append(order)
        raise ValueError("declined")

    with executions(lambda _event, context: context.step(lambda _: charge(5), config=RETRIED)) as of:
        outcome = of.run("first")
    assert words in (outcome.message or "")
    assert runs == [5]
    assert outcome.error == "aws_durable_execution_sdk_python.exceptions.StepError"
    assert shop.rig.row().state is (State.HELD if policy is HOLD else State.COMPLETE)


def test_branches_of_steps_with_one_key(shop: Shop) -> None:
    """One charges, and the others get its result."""

    def branch(context: DurableContext) -> Any:
        work = lambda _: shop.rig.once.run("charge", 5, shop.charge, 5)  # noqa: E731
        return context.step(work, name="charge", config=RETRIED)

    def handle(event: Any, context: DurableContext) -> Any:
        return context.parallel([branch] * 4).get_results()

    with executions(handle) as of:
        assert of.run("first").value == [1, 1, 1, 1]
    assert shop.charges == [5]


def test_a_transaction_in_a_step(shop: Shop) -> None:
    """A function that a step runs has the whole `Attempt`."""

    @shop.rig.once.function(name="book", key="order")
    def book(order: int) -> Any:
        return shop.rig.once.current().transact([shop.rig.ground.booking], "booked")

    with executions(lambda _event, context: context.step(lambda _: book(5), config=RETRIED)) as of:
        assert [of.run(name).value for name in ("first", "second")] == ["booked", "booked"]
    assert shop.rig.ground.bookings == 1


@in_memory
def test_a_step_in_an_execution(rig: Rig) -> None:
    """Both ways together: the token of the execution, and one for the step inside it."""
    shop = Shop(rig)
    shop.suspends = False
    charge = rig.once.function(name="charge", key="order")(shop.charge)
    shop.end = lambda context, attempt, _: attempt.complete(context.step(lambda _: charge(5), name="again"))
    shop.die_after(Acquire)
    with executions(shop.handle) as shop.of:
        assert shop.of.run("first", ORDER).value == 2
    assert [row.state for row in rig.rows()] == [State.COMPLETE, State.COMPLETE]
