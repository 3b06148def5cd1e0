"""
Charges cards: an SQS function where a second charge is the worst that can happen.

* A declined card is an answer. It is stored, and the redelivered message gets it without asking again.
* A timeout is none: whether money moved is unknown. The payment is held for a person, and so is one
  whose function was killed half-way; the message goes to the dead-letter queue.
* Anything else gives the payment back, and SQS delivers it again.
"""

from __future__ import annotations

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Once

from .gateway import GATEWAY, CardDeclined, GatewayTimeout
from .settings import KEEP

logger = Logger()
once = Once(logger=logger)


@once.sqs(key="paymentId", keep=KEEP, on_error={GatewayTimeout: HOLD, CardDeclined: STORE})
def charge(record: SQSRecord) -> dict[str, object]:
    """Charge one payment: ``{"paymentId": ..., "card": ..., "amount": <cents>}``."""
    payment = record.json_body
    receipt = GATEWAY.charge(
        payment["paymentId"],
        payment["card"],
        payment["amount"],
        # The same for every attempt of this payment: should two ever meet, the provider charges one.
        idempotency_key=once.current().downstream_key("charge"),
    )
    logger.info("charged", extra={"payment_id": payment["paymentId"], "charge_id": receipt.charge_id})
    return {"chargeId": receipt.charge_id, "amount": receipt.amount}
