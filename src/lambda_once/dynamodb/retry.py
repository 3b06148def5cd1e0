"""When a request is sent again: how often, and after which pause. Nothing here needs botocore."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lambda_once.core.clock import Deadline

TRIES: Final = 6
"""How often one request is sent at most; the pauses between add up to three seconds or less."""
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds."""


def jitter(tries: int) -> float:
    """Return the seconds to wait after *tries* failures: random, up to a limit that doubles (full jitter)."""
    return SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 10)))


def back_off(deadline: Deadline, tries: int) -> None:
    """Wait before the next try, *tries* having failed, until the deadline at most."""
    deadline.pause(jitter(tries))
