"""
Keeps the catalogue: an EventBridge function that needs no token, because the newest change stands.

Events come late, twice and in any order; an archive may be replayed. Each says when the catalogue's editor
changed the product, and by that time it is applied: what is older than what stands changes nothing.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Stale

logger = Logger()
metrics = Metrics()
CATALOGUE = Ratchet(
    os.environ.get("CATALOGUE_TABLE", "catalogue"),
    key=("shop", "productId"),
    stamp="changedAt",
    metrics=metrics,
    logger=logger,
)


def change(event: dict[str, Any], context: object) -> dict[str, str]:
    """Apply one change of one product. A time far ahead of this clock fails, and goes where failures go."""
    del context
    product = event["detail"]
    changed_at = datetime.fromisoformat(product["changedAt"])
    if event["detail-type"] == "ProductRemoved":
        key = {name: product[name] for name in ("shop", "productId")}
        outcome = CATALOGUE.delete(key, changed_at)
    else:
        outcome = CATALOGUE.put(product, changed_at)
    event_name = "catalogue.stale" if isinstance(outcome, Stale) else "catalogue.changed"
    logger.info(event_name, extra={"product": product["productId"], "changed_at": product["changedAt"]})
    return {"outcome": type(outcome).__name__}
