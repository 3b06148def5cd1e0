"""Payments from a queue, in batches."""

import os
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from examples.migrations.outside import call
from lambda_once import Once

once = Once(table=os.environ["TOKEN_TABLE"], service="shop")


@once.sqs(name="charge", key="paymentId", fingerprint="amount")
def handler(record: SQSRecord) -> dict[str, Any]:
    """Charge one card."""
    payment = record.json_body
    return {"receipt": call(f"charge {payment['amount']} for {payment['paymentId']}")}
