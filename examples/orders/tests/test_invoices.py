"""Invoices: one for each paid order, by whatever event it is told."""

from __future__ import annotations

import pytest

from lambda_once import KeyMissing
from lambda_once.testing import (
    FakeClock,
    InvocationContext,
    RecordingStore,
    Step,
    assert_completed,
    assert_no_token,
    assert_ran_once,
    crash_at,
    eventbridge_event,
)

from ..effects import EFFECTS
from ..invoices import issue

INVOICE = {"invoice": "INV-order_5", "amount": 4200}


def paid(order_id: str = "order_5") -> dict[str, object]:
    """An event of the bus. Each call makes one with an id of its own, as a producer that tries again does."""
    return eventbridge_event({"orderId": order_id, "amount": 4200}, "OrderPaid", "shop.payments")


def test_an_order_gets_one_invoice(once_store: RecordingStore, lambda_context: InvocationContext) -> None:
    """Announced twice under two ids, both announcements get the first one's invoice."""
    assert issue(paid(), lambda_context()) == INVOICE
    assert issue(paid(), lambda_context()) == INVOICE
    assert EFFECTS.count("invoiced", "order_5") == 1
    assert_ran_once(once_store, "order_5")
    assert_completed(once_store, "order_5", result=INVOICE)


def test_an_event_without_an_order_is_refused(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """There is nothing to tell it by, so nothing runs: the event goes to the on-failure destination."""
    with pytest.raises(KeyMissing):
        issue(eventbridge_event({"amount": 4200}, "OrderPaid", "shop.payments"), lambda_context())
    assert EFFECTS.all() == ()
    assert_no_token(once_store)


@pytest.mark.parametrize(("step", "invoices"), [("acquire", 1), ("work", 2), ("complete", 1)])
def test_a_crash_and_what_it_costs(
    step: Step,
    invoices: int,
    once_store: RecordingStore,
    fake_clock: FakeClock,
    lambda_context: InvocationContext,
) -> None:
    """Only between the invoice and its record is there a moment in which a crash writes it twice."""
    event = paid()
    with crash_at(step):
        issue(event, lambda_context())
    fake_clock.advance(60)
    assert issue(event, lambda_context()) == INVOICE
    assert EFFECTS.count("invoiced", "order_5") == invoices
    assert_completed(once_store, "order_5")
