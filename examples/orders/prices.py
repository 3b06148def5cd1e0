"""
Publishes the prices of a shop once a day: a function that EventBridge Scheduler invokes.

Shop and day are the key of a run. A run of the same day, repeated, late or started by hand, publishes nothing
again, and the next day's run publishes anew. The day is part of each message's deduplication id, too: a run
that failed halfway is tried again, and within five minutes the topic drops what it took before.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once import STORE, Once, RetryLater
from lambda_once.patterns.fifo import Failed, Publisher, Sent

from .catalogue import CATALOGUE
from .settings import KEEP

logger = Logger()
metrics = Metrics()
once = Once(logger=logger)


class PricesRefused(Exception):
    """Some prices cannot be published; all others of the run were."""


@cache
def prices() -> Publisher:
    """Return the publisher of the stack's topic."""
    # No content in the id: a price that changes between two tries of a run is not published twice that day.
    return Publisher(
        os.environ["PRICES_TOPIC"],
        name="prices",
        key="[day, shop, productId]",
        group="productId",
        metrics=metrics,
        logger=logger,
    )


def day_of(event: dict[str, Any]) -> str:
    """
    Return the day (UTC) of the scheduled time.

    It is the same however late the run starts and however often it is tried. The execution id is not: each
    try has another.
    """
    return datetime.fromisoformat(event["scheduledTime"]).astimezone(UTC).date().isoformat()


@once.event(key=day_of, scope="shop", fingerprint="shop", keep=KEEP, on_error={PricesRefused: STORE})
def publish(event: dict[str, Any]) -> dict[str, int]:
    """
    Publish the products of a shop as the catalogue has them, each with the day.

    Raises `RetryLater` if a message got no answer: Lambda tries the run again. Raises `PricesRefused` if
    messages were refused for good: the error is stored, and a retry publishes nothing.
    """
    shop, day = event["shop"], day_of(event)
    products = [{**product, "day": day} for product in _products(shop)]
    results = prices().publish_all(products)
    refused: list[str] = []
    unanswered = 0
    for product, result in zip(products, results, strict=True):
        match result:
            case Sent():
                pass
            case Failed(code=code, reason=reason):
                refused.append(product["productId"])
                logger.error("price.refused", extra={"product": refused[-1], "code": code, "reason": reason})
            case _:
                unanswered += 1
    if unanswered:
        raise RetryLater(f"{unanswered} of {len(products)} prices were not published")
    if refused:
        raise PricesRefused(f"{len(refused)} of {len(products)} prices cannot be published: {refused[:5]}")
    logger.info("prices.published", extra={"shop": shop, "day": day, "products": len(products)})
    return {"published": len(products)}


def _products(shop: str) -> list[dict[str, Any]]:
    page = CATALOGUE.query(shop)
    found = page.items
    while page.cursor is not None:
        page = CATALOGUE.query(shop, cursor=page.cursor)
        found = found + page.items
    return found
