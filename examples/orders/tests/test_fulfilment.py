"""Orders: what is not shipped is tried again, and what is shipped is shipped once."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once.testing import (
    FakeClock,
    InvocationContext,
    RecordingStore,
    Step,
    assert_completed,
    assert_in_progress,
    assert_ran_once,
    assert_released,
    crash_at,
    sqs_event,
)

from ..effects import EFFECTS
from ..fulfilment import ship
from ..warehouse import WarehouseBusy

SETTLED: dict[str, object] = {"batchItemFailures": []}


def order(order_id: str = "order_5", item: str = "desk-oak", **more: object) -> dict[str, object]:
    """The body of a message."""
    return {"orderId": order_id, "customer": "cust_77", "items": [item], **more}


def shipped(order_id: str = "order_5") -> int:
    """How many parcels there are."""
    return EFFECTS.count("shipped", order_id)


def test_an_order_is_shipped_once(once_store: RecordingStore, lambda_context: InvocationContext) -> None:
    """A redelivery is acknowledged, and so is the same order, sent again by its sender a minute later."""
    message = sqs_event(order(sentAt="10:12"))
    assert ship(message, lambda_context()) == SETTLED
    assert ship(message, lambda_context()) == SETTLED
    assert ship(sqs_event(order(sentAt="10:13")), lambda_context()) == SETTLED
    assert shipped() == 1
    assert_ran_once(once_store, "order_5")
    assert_completed(once_store, "order_5", result={"tracking": "TRK-order_5"})


def test_a_busy_warehouse_is_asked_again(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """Nothing was packed, so the token is released, and the next delivery ships it."""
    message = sqs_event(order(item="flaky-lamp"))
    with pytest.raises(BatchProcessingError):
        ship(message, lambda_context())
    assert_released(once_store, "order_5", error=WarehouseBusy)
    assert ship(message, lambda_context()) == SETTLED
    assert shipped() == 1


def test_one_bad_order_comes_back_alone(
    once_store: RecordingStore, lambda_context: InvocationContext
) -> None:
    """A body that is no order, and an order that was refused, go back; the rest is acknowledged."""
    batch = sqs_event(order("order_1"), {"orderId": "order_2"}, order("order_3", "jammed-door"))
    bad = [{"itemIdentifier": batch["Records"][position]["messageId"]} for position in (1, 2)]
    assert ship(batch, lambda_context()) == {"batchItemFailures": bad}
    assert_completed(once_store, "order_1")
    assert_released(once_store, "order_3")


@pytest.mark.parametrize("step", ["acquire", "work"])
def test_a_crash_delays_an_order_by_its_lease(
    step: Step, once_store: RecordingStore, fake_clock: FakeClock, lambda_context: InvocationContext
) -> None:
    """
    While the dead function may be believed alive, the order waits; then it is taken over.

    Dead after shipping, the warehouse is asked twice, by one idempotency key: it sends one parcel.
    """
    message = sqs_event(order())
    with crash_at(step):
        ship(message, lambda_context(remaining_ms=30_000))
    waiting = {"batchItemFailures": [{"itemIdentifier": message["Records"][0]["messageId"]}]}
    assert ship(message, lambda_context()) == waiting
    assert_in_progress(once_store, "order_5")
    fake_clock.advance(33)  # the 30 s that were left, and a margin of 2
    assert ship(message, lambda_context()) == SETTLED
    assert shipped() == 1
    assert_completed(once_store, "order_5")
