"""A payment provider. The card token tells how it behaves, so that an event alone provokes each case."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event, Lock

from .effects import EFFECTS, POWER

SLOW_SECONDS = 10.0
"""How long a slow card takes: a second request arrives meanwhile, or a short time limit passes."""


class CardDeclined(Exception):
    """The provider said no. No money moved, and asking again gives the same answer."""


class GatewayTimeout(Exception):
    """No answer came: whether money moved is unknown."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the provider answers to a charge."""

    charge_id: str
    amount: int
    """In cents."""


class PaymentGateway:
    """
    A provider that, as the real ones do, charges once per idempotency key.

    ``tok_declined`` is refused, ``tok_timeout`` is charged but never answered, ``tok_slow`` is charged
    and answered after ``slow_seconds``, at ``tok_crash`` the machine dies between the charge and its
    answer. Any other card is charged.
    """

    def __init__(self, slow_seconds: float = SLOW_SECONDS) -> None:
        self._slow_seconds = slow_seconds
        self._lock = Lock()
        self._receipts: dict[str, Receipt] = {}

    def charge(self, payment_id: str, card: str, amount: int, *, idempotency_key: str) -> Receipt:
        """
        Charge *amount* cents to *card*.

        Raises `CardDeclined` when nothing was charged, and `GatewayTimeout` when that is unknown.
        """
        if card == "tok_declined":
            message = "the card was declined"
            raise CardDeclined(message)
        receipt = self._charge_once(payment_id, amount, idempotency_key)
        if card == "tok_slow":
            Event().wait(self._slow_seconds)  # nobody sets it
        if card == "tok_crash":
            POWER.die()
        if card == "tok_timeout":
            message = "the payment gateway did not answer in time"
            raise GatewayTimeout(message)
        return receipt

    def _charge_once(self, payment_id: str, amount: int, idempotency_key: str) -> Receipt:
        with self._lock:
            receipt = self._receipts.get(idempotency_key)
            if receipt is None:
                receipt = Receipt(f"ch_{idempotency_key[:16]}", amount)
                self._receipts[idempotency_key] = receipt
                EFFECTS.add("charged", payment_id)
            return receipt


GATEWAY = PaymentGateway()
