"""
Ships orders: an SQS function whose work may be tried again.

A busy warehouse took nothing, so the order is given back (RELEASE, the default) and the message comes
back after its visibility timeout. Only that message does: the rest of the batch is acknowledged.
"""

from __future__ import annotations

from aws_lambda_powertools import Logger
from pydantic import BaseModel

from lambda_once import Once

from .settings import KEEP
from .warehouse import WAREHOUSE

logger = Logger()
once = Once(logger=logger)


class Order(BaseModel):
    """The body of a message; one that does not fit fails alone."""

    orderId: str  # noqa: N815  (the field's name in the message)
    customer: str
    items: list[str]


# sentAt differs when the sender itself sends an order again; it makes no other order of it.
@once.sqs(model=Order, key="orderId", keep=KEEP, ignore=("sentAt",))
def ship(order: Order) -> dict[str, str]:
    """Ship one order."""
    # The same for every attempt of this order: the one after a crash asks again, and nothing ships twice.
    key = once.current().downstream_key("ship")
    tracking = WAREHOUSE.ship(order.orderId, order.items, idempotency_key=key)
    logger.info("shipped", extra={"order_id": order.orderId, "tracking": tracking})
    return {"tracking": tracking}
