"""A charge and a mail: whichever fails, the other is not repeated."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once.testing import (
    InvocationContext,
    RecordingStore,
    assert_completed,
    assert_held,
    assert_ran_once,
    assert_released,
    sqs_event,
)

from .. import checkout as module
from ..checkout import checkout
from ..effects import EFFECTS
from ..gateway import PaymentGateway
from ..mailing import MailService

SETTLED: dict[str, object] = {"batchItemFailures": []}
CHARGE = "service_undefined/charge/o-1"
HANDLER = f"service_undefined/{checkout.__wrapped__.__module__}.checkout/o-1"


@pytest.fixture(autouse=True)
def mail_service(monkeypatch: pytest.MonkeyPatch) -> MailService:
    """A mail service that is up, and a provider that has charged nothing."""
    service = MailService()
    monkeypatch.setattr(module, "MAIL", service)
    monkeypatch.setattr(module, "GATEWAY", PaymentGateway(slow_seconds=0))
    return service


def message(card: str = "tok_visa") -> dict[str, object]:
    """A delivery of the order; handed in again, it is a redelivery."""
    return sqs_event({"orderId": "o-1", "card": card, "amount": 4200, "address": "ann@shop.example"})


def test_a_failed_mail_repeats_no_charge(
    once_store: RecordingStore, lambda_context: InvocationContext, mail_service: MailService
) -> None:
    """The message comes back, the charge is replayed, and the mail is sent."""
    delivery, mail_service.down = message(), True
    with pytest.raises(BatchProcessingError):
        checkout(delivery, lambda_context())
    assert_released(once_store, HANDLER, error="MailServiceDown")
    assert_completed(once_store, CHARGE)

    mail_service.down = False
    assert checkout(delivery, lambda_context()) == SETTLED
    assert_ran_once(once_store, CHARGE)
    assert EFFECTS.count("charged", "o-1") == EFFECTS.count("mailed", "ann@shop.example") == 1


def test_a_charge_in_doubt_is_held_and_its_message_is_not(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """One decision, about the charge, is enough: the message goes on from there."""
    delivery = message("tok_timeout")
    for _ in range(2):
        with pytest.raises(BatchProcessingError):
            checkout(delivery, lambda_context())
    assert_held(once_store, CHARGE, error="GatewayTimeout")
    assert_released(once_store, HANDLER, error="Held")
    assert EFFECTS.count("charged", "o-1") == 1
