"""
The world outside the shop, as far as it can be counted.

A real shop has a payment provider, a warehouse and a mail service in place of `gateway`, `warehouse`
and `notifications`. Here each of them writes down what it did, so that a reader or a test can see how
often it happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that happened outside and cannot be taken back."""

    kind: str
    """``created``, ``cancelled``, ``charged``, ``shipped``, ``mailed``, ``invoiced`` or ``announced``."""
    subject: str
    """The order, payment or contract it happened to."""


class Effects:
    """The effects of this process, in the order in which they happened; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._happened: list[Effect] = []

    def add(self, kind: str, subject: str) -> None:
        """Write down that *kind* happened to *subject*."""
        with self._lock:
            self._happened.append(Effect(kind, subject))

    def count(self, kind: str, subject: str) -> int:
        """Tell how often *kind* happened to *subject*."""
        with self._lock:
            return self._happened.count(Effect(kind, subject))

    def all(self) -> tuple[Effect, ...]:
        """Return everything that happened so far."""
        with self._lock:
            return tuple(self._happened)

    def clear(self) -> None:
        """Forget everything; the next test starts here."""
        with self._lock:
            self._happened.clear()


EFFECTS = Effects()


def _die() -> None:
    os._exit(137)


class PowerSwitch:
    """
    How the machine dies where an order asks for it.

    Unless ``die`` is replaced, the process ends at once, as at Lambda's time limit: no exception, no
    clean-up, nothing that a decorator could catch.
    """

    def __init__(self) -> None:
        self.die: Callable[[], object] = _die


POWER = PowerSwitch()
