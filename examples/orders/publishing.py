"""
Publishes receipts: a function that is invoked directly, and may be invoked again with the same receipts.

Within five minutes topic and queue drop what was published before; after that the table does.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once import RetryLater
from lambda_once.patterns.fifo import Publisher, Sent

logger = Logger()
metrics = Metrics()


@cache
def receipts() -> Publisher:
    """Return the publisher of the stack's topic."""
    # with_content: a receipt that was amended reaches the table, which tells it from a duplicate.
    return Publisher(
        os.environ["RECEIPTS_TOPIC"],
        name="receipts",
        key="[customer, orderId, kind]",
        group="customer",
        with_content=True,
        ignore="sentAt",
        metrics=metrics,
        logger=logger,
    )


def publish(event: dict[str, Any], context: object) -> dict[str, int]:
    """
    Publish the receipts of *event*, those of one customer in their order.

    Raises `RetryLater` where not all were sent: invoke it again with the same event.
    """
    del context
    results = receipts().publish_all(event["receipts"])
    sent = sum(isinstance(result, Sent) for result in results)
    if sent < len(results):
        first = next(result for result in results if not isinstance(result, Sent))
        raise RetryLater(f"{len(results) - sent} of {len(results)} receipts were not sent: first {first}")
    return {"sent": sent}
