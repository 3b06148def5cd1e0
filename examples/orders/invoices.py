"""
Writes invoices: an EventBridge function.

EventBridge may deliver an event twice, Lambda retries it twice, and a producer that retries sends it
again under another id. The order is the key, so each of these gets the invoice of the first.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once import Once

from .effects import EFFECTS
from .settings import KEEP

logger = Logger()
once = Once(logger=logger)


# Only the detail tells invoices apart: the same order, paid once, may be announced under another id and time.
@once.event(key="detail.orderId", fingerprint="detail", keep=KEEP)
def issue(event: dict[str, Any], context: LambdaContext) -> dict[str, object]:
    """Write the invoice of one paid order."""
    order = event["detail"]
    EFFECTS.add("invoiced", order["orderId"])
    logger.info("invoiced", extra={"order_id": order["orderId"], "request": context.aws_request_id})
    return {"invoice": f"INV-{order['orderId']}", "amount": order["amount"]}
