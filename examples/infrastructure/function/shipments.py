"""Ships orders that were paid, each once."""

from typing import Any

from lambda_once import Once

once = Once()


def hand_over(order_id: str, idempotency_key: str) -> None:
    """Call your carrier here."""
    print(f"order {order_id}: handed over, idempotency key {idempotency_key}")


@once.event(key="detail.orderId")
def ship(event: dict[str, Any]) -> None:
    """Ship one order: an event of EventBridge, with the detail ``{"orderId": ...}``."""
    hand_over(event["detail"]["orderId"], once.current().downstream_key())
