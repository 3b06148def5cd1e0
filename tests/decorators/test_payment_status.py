"""examples/payment_status.py: every state of a charge, for its customer alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from examples import payment_status as shop
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, api_event, crash_at, lambda_context, using
from tests.docs.test_runbook import Night, night

__all__ = ["night"]


def ask(order: str, customer: str) -> dict[str, Any]:
    """Return the response: what the customer sees of the payment, or the error."""
    event = api_event("GET", f"/orders/{order}/payment")
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": customer}}}
    found: dict[str, Any] = json.loads(shop.handler(event, lambda_context())["body"])
    return found


def test_a_customer_sees_what_became_of_the_charge() -> None:
    """Open; pending where the function was killed; paid; declined. Nobody else sees any of it."""
    with using(shop.once, clock=FakeClock()):
        assert ask("o-1", "alice") == {"payment": "open"}
        with crash_at("work"):
            shop.charge("o-1", 5)
        assert ask("o-1", "alice") == {"payment": "pending"}
    with using(shop.once):
        shop.charge("o-1", 5)
        assert ask("o-1", "alice") == {"payment": "paid", "receipt": {"order": "o-1", "total": 5}}
        with pytest.raises(shop.Declined):
            shop.charge("o-2", 7)
        assert ask("o-2", "alice") == {"payment": "declined", "why": "no funds"}
        assert ask("o-1", "bob")["statusCode"] == ask("o-9", "bob")["statusCode"] == 404


@pytest.mark.engine
def test_what_an_operator_decides(night: Night) -> None:
    """Paid without a receipt, where it was erased; declined, without the operator's reason."""
    with using(shop.once, DynamoDBStore(night.table, night.client), night.clock):
        shop.charge("o-1", 5)
        night.types_by_hand("forget shop/charge/o-1 --because 'erasure request' --yes")
        assert ask("o-1", "alice") == {"payment": "paid"}
        decide = "resolve shop/charge/o-1 --because 'fraud suspicion: Bob (4th floor)' --force --yes"
        for decision, shown in (("--failed", "declined"), ("--not-done", "open"), ("--hold", "pending")):
            night.types_by_hand(f"{decide} {decision}")
            assert ask("o-1", "alice") == {"payment": shown}
