"""The HTTP API: a request that is sent again gets the answer of the first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_once.testing import (
    FakeClock,
    InvocationContext,
    RecordingStore,
    Step,
    api_event,
    assert_completed,
    assert_held,
    assert_released,
    crash_at,
)

from ..api import handler
from ..effects import EFFECTS

CONFLICT, GATEWAY_TIMEOUT = 409, 504
REPLAYED = "Idempotent-Replayed"


def order(customer: str = "cust_77", items: tuple[str, ...] = ("desk-oak",), key: str = "k-1") -> Any:
    """A request for a new order."""
    body = {"orderId": "order_5", "customer": customer, "items": list(items)}
    return api_event("POST", "/orders", body, {"Idempotency-Key": key})


def pay(card: str = "tok_visa", headers: dict[str, str] | None = None) -> Any:
    """A request to pay an order."""
    headers = {"Idempotency-Key": "k-2"} if headers is None else headers
    return api_event("POST", "/orders/order_5/pay", {"card": card, "amount": 4200}, headers)


def status(answer: dict[str, Any]) -> int:
    """The status of an answer."""
    code: int = answer["statusCode"]
    return code


def test_a_client_that_asks_again_gets_the_first_answer(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """The order is created once, and the second answer says that it is a replay."""
    first = handler(order(), lambda_context())
    second = handler(order(), lambda_context())
    assert (status(first), status(second)) == (201, 201)
    assert json.loads(first["body"]) == json.loads(second["body"])
    assert REPLAYED not in first["headers"]
    assert second["headers"][REPLAYED] == "true"
    assert EFFECTS.count("created", "order_5") == 1
    assert_completed(once_store, "k-1")


def test_the_same_key_for_another_order_is_refused(lambda_context: InvocationContext) -> None:
    """422: the client reuses its key."""
    handler(order(), lambda_context())
    assert status(handler(order(items=("lamp",)), lambda_context())) == 422


def test_an_order_that_may_be_corrected_is_not_kept(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """Nothing was done, so the token is given back and the corrected order runs under a key of its own."""
    assert status(handler(order(items=()), lambda_context())) == 422
    assert_released(once_store, "k-1")
    assert status(handler(order(key="k-3"), lambda_context())) == 201


def test_a_payment_needs_a_key(lambda_context: InvocationContext) -> None:
    """400, and no money moves."""
    assert status(handler(pay(headers={}), lambda_context())) == 400
    assert EFFECTS.all() == ()


def test_a_payment_in_doubt_is_not_made_again(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """504 at first; asked again, 409: it waits for a person."""
    assert status(handler(pay("tok_timeout"), lambda_context())) == GATEWAY_TIMEOUT
    assert status(handler(pay("tok_timeout"), lambda_context())) == CONFLICT
    assert EFFECTS.count("charged", "order_5") == 1
    assert_held(once_store, "k-2", error="GatewayTimeout")


@pytest.mark.parametrize(("step", "then"), [("acquire", CONFLICT), ("work", CONFLICT), ("complete", 200)])
def test_a_crash_while_paying_never_pays_twice(
    step: Step,
    then: int,
    fake_clock: FakeClock,
    lambda_context: InvocationContext,
) -> None:
    """Whatever was written decides: an outcome is replayed, and what is in doubt waits for a person."""
    with crash_at(step):
        handler(pay(), lambda_context())
    fake_clock.advance(60)
    assert status(handler(pay(), lambda_context())) == then
    assert EFFECTS.count("charged", "order_5") == (0 if step == "acquire" else 1)
