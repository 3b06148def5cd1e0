"""The shop's payment gateway and warehouse, in which the demo can pause an invocation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from types import ModuleType

from examples.orders.effects import EFFECTS, POWER
from examples.orders.gateway import PaymentGateway, Receipt
from examples.orders.warehouse import Warehouse

from .sandbox import Killed, pause_at

GATEWAY = "inside the payment gateway"
WAREHOUSE = "inside the warehouse"
POWER_CUT = "at the power cut"


class WatchedGateway(PaymentGateway):
    """
    A provider without idempotency keys: it charges at every call.

    Only lambda-once prevents a second charge. An invocation can be paused in it before it charges.
    """

    def charge(self, payment_id: str, card: str, amount: int, *, idempotency_key: str) -> Receipt:  # noqa: ARG002  (ignored)
        """Charge, whatever was charged before."""
        pause_at(GATEWAY)
        return super().charge(payment_id, card, amount, idempotency_key=token_hex(32))


class WatchedWarehouse(Warehouse):
    """The sample's warehouse, which recognises its keys. An invocation can be paused before it ships."""

    def ship(self, order_id: str, items: Sequence[str], *, idempotency_key: str) -> str:
        """Ship as the sample's warehouse does."""
        pause_at(WAREHOUSE)
        return super().ship(order_id, items, idempotency_key=idempotency_key)


def cut_the_power() -> None:
    """Stop the invocation as a killed sandbox does: no later line runs, and nothing is cleaned up."""
    pause_at(POWER_CUT)
    raise Killed


@contextmanager
def new_world(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Give *modules* a new gateway and warehouse in the block, and their own afterwards."""
    fresh = {"GATEWAY": WatchedGateway(), "WAREHOUSE": WatchedWarehouse()}
    found = [(module, name) for module in modules for name in fresh if hasattr(module, name)]
    before = [(module, name, getattr(module, name)) for module, name in found]
    die = POWER.die
    try:
        for module, name in found:
            setattr(module, name, fresh[name])
        POWER.die = cut_the_power
        EFFECTS.clear()
        yield
    finally:
        POWER.die = die
        for module, name, value in before:
            setattr(module, name, value)
        EFFECTS.clear()
