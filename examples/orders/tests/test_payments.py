"""Cards: charged once, and where that is in doubt, not again before a person has looked."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once.testing import (
    FakeClock,
    InvocationContext,
    RecordingStore,
    Step,
    assert_completed,
    assert_held,
    assert_lapsed,
    assert_no_token,
    assert_ran_once,
    assert_stored_error,
    crash_at,
    sqs_event,
)

from ..effects import EFFECTS
from ..gateway import CardDeclined, GatewayTimeout
from ..payments import charge

SETTLED: dict[str, object] = {"batchItemFailures": []}


def payment(payment_id: str = "pay_5", card: str = "tok_visa", amount: int = 4200) -> dict[str, object]:
    """The body of a message."""
    return {"paymentId": payment_id, "card": card, "amount": amount}


def charged(payment_id: str = "pay_5") -> int:
    """How often money moved."""
    return EFFECTS.count("charged", payment_id)


def test_a_redelivered_payment_is_charged_once(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """The second delivery is acknowledged, and the provider is not asked again."""
    message = sqs_event(payment())
    assert charge(message, lambda_context()) == SETTLED
    assert charge(message, lambda_context()) == SETTLED
    assert charged() == 1
    assert_ran_once(once_store, "pay_5")
    assert_completed(once_store, "pay_5")


def test_an_amended_payment_is_no_duplicate(lambda_context: InvocationContext) -> None:
    """Another amount under the same id is refused, neither charged nor acknowledged."""
    charge(sqs_event(payment(amount=4200)), lambda_context())
    with pytest.raises(BatchProcessingError):
        charge(sqs_event(payment(amount=9900)), lambda_context())
    assert charged() == 1


def test_a_declined_card_is_an_answer(once_store: RecordingStore, lambda_context: InvocationContext) -> None:
    """It is stored: the redelivery is acknowledged without asking the provider again."""
    message = sqs_event(payment(card="tok_declined"))
    assert charge(message, lambda_context()) == SETTLED
    assert charge(message, lambda_context()) == SETTLED
    assert charged() == 0
    assert_ran_once(once_store, "pay_5")
    assert_stored_error(once_store, "pay_5", error=CardDeclined)


def test_an_unanswered_charge_waits_for_a_person(
    once_store: RecordingStore, fake_clock: FakeClock, lambda_context: InvocationContext
) -> None:
    """Money may have moved: no later delivery charges, however late, and the message goes to the DLQ."""
    message = sqs_event(payment(card="tok_timeout"))
    for _ in range(3):
        with pytest.raises(BatchProcessingError):
            charge(message, lambda_context())
        fake_clock.advance(24 * 3600)
    assert charged() == 1
    assert_ran_once(once_store, "pay_5")
    row = assert_held(once_store, "pay_5", error=GatewayTimeout)
    assert row.ttl is None


@pytest.mark.parametrize(("step", "moved"), [("acquire", 0), ("work", 1)])
def test_a_payment_that_died_half_way_waits_for_a_person(
    step: Step,
    moved: int,
    once_store: RecordingStore,
    fake_clock: FakeClock,
    lambda_context: InvocationContext,
) -> None:
    """Nobody can tell from outside whether the card was charged, so the next delivery does not charge it."""
    message = sqs_event(payment())
    with crash_at(step):
        charge(message, lambda_context())
    fake_clock.advance(60)
    assert_lapsed(once_store, "pay_5", clock=fake_clock)
    with pytest.raises(BatchProcessingError):
        charge(message, lambda_context())
    assert charged() == moved
    assert_ran_once(once_store, "pay_5")


def test_a_payment_whose_outcome_was_written_is_finished(
    once_store: RecordingStore, fake_clock: FakeClock, lambda_context: InvocationContext
) -> None:
    """The function died before it could answer SQS; the redelivery is acknowledged, nothing is charged."""
    message = sqs_event(payment())
    with crash_at("complete"):
        charge(message, lambda_context())
    fake_clock.advance(60)
    assert charge(message, lambda_context()) == SETTLED
    assert charged() == 1
    assert_completed(once_store, "pay_5")


def test_a_crash_holds_no_payment_that_never_began(
    once_store: RecordingStore, fake_clock: FakeClock, lambda_context: InvocationContext
) -> None:
    """Of a batch the first payment is in doubt; the others have no token yet, and are charged later."""
    batch = sqs_event(payment("pay_1"), payment("pay_2"), payment("pay_3"))
    with crash_at("work") as killed:
        charge(batch, lambda_context())
    assert killed.token.endswith("/pay_1")
    assert_no_token(once_store, "pay_2")
    assert_no_token(once_store, "pay_3")
    fake_clock.advance(60)
    failed = [{"itemIdentifier": batch["Records"][0]["messageId"]}]
    assert charge(batch, lambda_context()) == {"batchItemFailures": failed}
    assert [charged(f"pay_{n}") for n in (1, 2, 3)] == [1, 1, 1]
