"""A warehouse. The first item tells how it behaves, so that an event alone provokes each case."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Lock

from .effects import EFFECTS, POWER

SLOW_SECONDS = 10.0
"""How long a heavy item takes to pack: longer than a short time limit."""


class WarehouseBusy(Exception):
    """The order was not taken: nothing was packed, ask again later."""


class Warehouse:
    """
    Takes orders and ships them, as the real ones do once per idempotency key.

    The item ``flaky-lamp`` is refused the first time it is asked for, with any order of its own;
    ``jammed-door`` always. ``heavy-safe`` ships after ``slow_seconds``. At ``power-cut`` the machine dies
    once, after shipping.
    """

    def __init__(self, slow_seconds: float = SLOW_SECONDS) -> None:
        self._slow_seconds = slow_seconds
        self._lock = Lock()
        self._asked: set[str] = set()
        self._shipped: set[str] = set()

    def ship(self, order_id: str, items: Sequence[str], *, idempotency_key: str) -> str:
        """
        Ship *items* and return the tracking number.

        Raises `WarehouseBusy` when nothing was shipped.
        """
        first_time = self._first_time(order_id)
        if "jammed-door" in items or ("flaky-lamp" in items and first_time):
            message = "the warehouse takes no orders right now"
            raise WarehouseBusy(message)
        if "heavy-safe" in items:
            Event().wait(self._slow_seconds)  # nobody sets it
        self._ship_once(order_id, idempotency_key)
        if "power-cut" in items and first_time:
            POWER.die()
        return f"TRK-{order_id}"

    def _ship_once(self, order_id: str, idempotency_key: str) -> None:
        with self._lock:
            if idempotency_key not in self._shipped:
                self._shipped.add(idempotency_key)
                EFFECTS.add("shipped", order_id)

    def _first_time(self, order_id: str) -> bool:
        with self._lock:
            first_time = order_id not in self._asked
            self._asked.add(order_id)
            return first_time


WAREHOUSE = Warehouse()
