"""How often a request is sent, and with which pauses. Does not import botocore."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline

TRIES: Final = 6
"""How often a request is sent at most; its pauses add up to at most three seconds."""
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds."""


def jitter(tries: int) -> float:
    """Return the seconds to wait after *tries* failures: random, up to a limit that doubles (full jitter)."""
    return SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 10)))


def back_off(deadline: Deadline, tries: int) -> None:
    """Pause before the next try, after *tries* failures, at most until the deadline."""
    deadline.pause(jitter(tries))
