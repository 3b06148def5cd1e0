"""
Files receipts: a FIFO queue function that needs no token, because a receipt is put once by its key.

Customer, order and kind are the key, so a receipt that is delivered again, or published again after the five
minutes for which topic and queue know its id, is a duplicate: acknowledged, and changed in nothing. The same
key with another content is no duplicate. It goes to the dead-letter queue, where a person looks.
"""

from __future__ import annotations

import json
import os
import uuid
from decimal import Decimal
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once import KeyReused
from lambda_once.patterns.fifo import work_in_order
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.unique import Unique

logger = Logger()
metrics = Metrics()
RECEIPTS = Unique(
    os.environ.get("RECEIPTS_TABLE", "receipts"),
    key={"pk": "customer", "sk": ["orderId", "kind"]},
    identity="receiptId",
    ignore="sentAt",
    metrics=metrics,
    logger=logger,
)


def file(event: dict[str, Any], context: object) -> dict[str, Any]:
    """File a batch of receipts, those of one customer in their order."""
    del context
    return work_in_order(event, _file)


def _file(record: dict[str, Any]) -> None:
    receipt = json.loads(record["body"], parse_float=Decimal)
    match RECEIPTS.put({**receipt, "receiptId": str(uuid.uuid4())}):
        case Applied(values):
            logger.info("receipt.filed", extra={"receipt": values["receiptId"]})
        case Duplicate(values, same=True):
            logger.info("receipt.duplicate", extra={"receipt": values["receiptId"]})
        case Duplicate(values):
            raise KeyReused(f"receipt {values['receiptId']} was filed with other content")
