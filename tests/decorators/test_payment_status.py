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


def answer(order: str, customer: str) -> dict[str, Any]:
    """Return the response."""
    event = api_event("GET", f"/orders/{order}/payment")
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": customer}}}
    return shop.handler(event, lambda_context())


def ask(order: str, customer: str) -> tuple[int, str | None]:
    """Return the status and what the page shows of the payment."""
    found = answer(order, customer)
    return found["statusCode"], json.loads(found["body"]).get("payment")


def shown(order: str) -> dict[str, Any]:
    """Return what alice sees of her order."""
    found: dict[str, Any] = json.loads(answer(order, "alice")["body"])
    return found


def test_a_customer_sees_what_became_of_the_charge() -> None:
    """Open, paid, declined; and pending where the function was killed."""
    with using(shop.once, clock=FakeClock()):
        assert ask("o-1", "alice") == (200, "open")
        with crash_at("work"):
            shop.charge("o-1", 5)
        assert ask("o-1", "alice") == (200, "pending")
    with using(shop.once):
        assert shop.charge("o-1", 5) == shop.Receipt(order="o-1", total=5)
        with pytest.raises(shop.Declined):
            shop.charge("o-2", 7)
        assert (ask("o-1", "alice"), ask("o-2", "alice")) == ((200, "paid"), (200, "declined"))


def test_nobody_else_does() -> None:
    """Neither of a paid order nor of one that is not there."""
    with using(shop.once):
        shop.charge("o-1", 5)
        assert ask("o-1", "bob") == ask("o-9", "bob") == (404, None)


@pytest.mark.engine
def test_what_an_operator_decides(night: Night) -> None:
    """Paid without a receipt, where there is none or it was erased; and no reason of an operator."""
    with using(shop.once, DynamoDBStore(night.table, night.client), night.clock):
        assert shop.charge("o-1", 5) == shop.Receipt(order="o-1", total=5)
        night.types_by_hand("forget shop/charge/o-1 --because 'erasure request' --yes")
        assert shown("o-1") == {"payment": "paid"}
        with pytest.raises(shop.Declined):
            shop.charge("o-2", 7)
        assert shown("o-2") == {"payment": "declined", "why": "no funds"}
        night.types_by_hand("forget shop/charge/o-2 --because 'erasure request' --yes")
        assert shown("o-2")["payment"] == "declined"
        decide = "resolve shop/charge/o-1 --because 'fraud suspicion: Bob (4th floor)' --force --yes"
        night.types_by_hand(f"{decide} --done")
        assert shown("o-1") == {"payment": "paid"}
        night.types_by_hand(f"{decide} --not-done")
        assert shown("o-1") == {"payment": "open"}
        night.types_by_hand(f"{decide} --done")
        assert shown("o-1") == {"payment": "paid"}
        night.types_by_hand(f"{decide} --failed")
        assert shown("o-1") == {"payment": "declined"}
        night.types_by_hand(f"{decide} --hold")
        assert shown("o-1") == {"payment": "pending"}
