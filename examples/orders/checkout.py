"""
Charges an order and mails its receipt: an SQS function of two effects, each with a token of its own.

If the mail fails, the message comes back, and the charge is replayed. Each effect has the policy that fits
it: a charge in doubt is held for manual review, a mail is sent again. The stack does not deploy it.
"""

from __future__ import annotations

from pydantic import BaseModel

from lambda_once import HOLD, STORE, Once

from .gateway import GATEWAY, CardDeclined, GatewayTimeout
from .mailing import MAIL
from .settings import KEEP

once = Once(keep=KEEP)


class Checkout(BaseModel):
    """The body of a message."""

    orderId: str  # noqa: N815  (the field's name in the message)
    card: str
    amount: int
    address: str


# Its tokens have a name of their own, so that moving the function keeps them.
@once.function(name="charge", key="order_id", on_error={GatewayTimeout: HOLD, CardDeclined: STORE})
def charge(order_id: str, card: str, amount: int) -> str:
    """Charge an order once, whoever asks for it."""
    key = once.current().downstream_key("charge")
    return GATEWAY.charge(order_id, card, amount, idempotency_key=key).charge_id


def mail(address: str, charge_id: str) -> None:
    """Mail a receipt."""
    MAIL.send(address, f"paid: {charge_id}")


# A declined card is final for the message, too. A held charge is not: resolve it, then redrive the message.
@once.sqs(model=Checkout, key="orderId", on_error={CardDeclined: STORE})
def checkout(order: Checkout) -> str:
    """Charge, then mail."""
    charge_id = charge(order.orderId, order.card, order.amount)
    once.run("mail", order.orderId, mail, order.address, charge_id)
    return charge_id
