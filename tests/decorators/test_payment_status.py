"""examples/payment_status.py: every state of a charge, for its customer alone."""

from __future__ import annotations

import json

import pytest

from examples import payment_status as shop
from lambda_once.testing import FakeClock, api_event, crash_at, lambda_context, using


def ask(order: str, customer: str) -> tuple[int, str | None]:
    """Return the status and what the page shows of the payment."""
    event = api_event("GET", f"/orders/{order}/payment")
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": customer}}}
    answer = shop.handler(event, lambda_context())
    return answer["statusCode"], json.loads(answer["body"]).get("payment")


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
