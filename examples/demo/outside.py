"""The world outside as the demo needs it: the sample's own, but an invocation can be stopped inside of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from types import ModuleType

from examples.orders.effects import EFFECTS, POWER
from examples.orders.gateway import PaymentGateway, Receipt
from examples.orders.warehouse import Warehouse

from .sandbox import Killed, come_to

GATEWAY = "inside the payment gateway"
WAREHOUSE = "inside the warehouse"
POWER_CUT = "at the power cut"


class WatchedGateway(PaymentGateway):
    """
    The worst provider there is: it knows no idempotency keys, and charges each time it is asked.

    So it is the layer alone that keeps a payment from being charged twice. An invocation can be stopped
    in it before anything is charged.
    """

    def charge(self, payment_id: str, card: str, amount: int, *, idempotency_key: str) -> Receipt:  # noqa: ARG002  (it knows none)
        """Charge as the sample's gateway does, whatever was charged before."""
        come_to(GATEWAY)
        return super().charge(payment_id, card, amount, idempotency_key=token_hex(32))


class WatchedWarehouse(Warehouse):
    """The sample's warehouse, which knows its keys. An invocation can be stopped in it before it ships."""

    def ship(self, order_id: str, items: Sequence[str], *, idempotency_key: str) -> str:
        """Ship as the sample's warehouse does."""
        come_to(WAREHOUSE)
        return super().ship(order_id, items, idempotency_key=idempotency_key)


def cut_the_power() -> None:
    """Stand for the end of the machine: nothing behind this is executed, and nothing is cleaned up."""
    come_to(POWER_CUT)
    raise Killed


@contextmanager
def new_world(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Give *modules* a gateway and a warehouse where nothing has happened yet, and as before afterwards."""
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
