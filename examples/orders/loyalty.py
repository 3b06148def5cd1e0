"""
Counts loyalty points: an SQS function that needs no token, because the sum remembers what went into it.

The points of an order and the order's id go into one item in one write, so a message that comes again changes
nothing. Points may be spent down to nothing and no further. A standard queue has no order, so a spending may
overtake its earning: what is refused comes back, and is refused for good at its last delivery.
"""

from __future__ import annotations

import json
import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once import RetryLater
from lambda_once.patterns.fifo import work_in_order
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.results import Applied, Duplicate, Refused

from .settings import KEEP

logger = Logger()
metrics = Metrics()
LAST_DELIVERY = 5  # the queue's maxReceiveCount
POINTS = Ledger(
    os.environ.get("LOYALTY_TABLE", "loyalty"), key="customer", window=KEEP, metrics=metrics, logger=logger
)


def count(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Count a batch of messages; those that fail come back."""
    del context
    return work_in_order(event, _count)


def _count(record: dict[str, Any]) -> None:
    order = json.loads(record["body"])
    known = {"order": order["orderId"], "kind": order["kind"]}
    result = POINTS.add(
        order["customer"],
        {"balance": order["points"], "entries": 1},
        id=f"{order['orderId']}/{order['kind']}",
        floor={"balance": 0},
        set={"lastOrder": order["orderId"]},
    )
    match result:
        case Applied():
            logger.info("loyalty.counted", extra=known)
        case Duplicate():
            logger.info("loyalty.duplicate", extra=known)
        case Refused() if int(record["attributes"]["ApproximateReceiveCount"]) < LAST_DELIVERY:
            raise RetryLater("too few points yet: the earning may still be on its way")
        case Refused():
            logger.warning("loyalty.refused", extra=known)  # for good: it does not become a dead letter
