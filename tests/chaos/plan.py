"""What happens to which request, decided by a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from threading import Event, Lock
from types import MappingProxyType
from typing import Final


class Fate(Enum):
    """What becomes of one request on its way."""

    ARRIVES = "arrives"
    REQUEST_DROPPED = "request dropped"
    """Nothing is written; the connection is closed."""
    RESPONSE_DROPPED = "response dropped"
    """It is written; the connection is closed."""
    RESET_BEFORE = "reset before"
    """Nothing is written; the connection is reset (RST)."""
    RESET_AFTER = "reset after"
    """It is written; the connection is reset (RST)."""
    REQUEST_LATE = "request late"
    """It arrives, and is written, when its sender has given up on it, perhaps after the lease: a ghost."""
    RESPONSE_LATE = "response late"
    """It is written; the answer comes after the client's read timeout."""
    SERVER_ERROR = "500, nothing written"
    SERVER_ERROR_WRITTEN = "500, written"
    THROTTLED = "throttled"
    THROUGHPUT_EXCEEDED = "throughput exceeded"
    PARTLY_THROTTLED = "partly throttled"
    """Of a batch a part arrives; the others are answered as throttled, or unprocessed."""
    KILLED_BEFORE = "killed before"
    """The worker is killed (SIGKILL), and nothing is written."""
    KILLED_AFTER = "killed after"
    """It is written, and the worker is killed before it hears of it."""
    PAUSED_BEFORE = "paused before"
    """The worker is paused (SIGSTOP) past its lease; what it sent arrives as it wakes up."""
    PAUSED_AFTER = "paused after"
    """It is written, and the worker is paused past its lease before it reads the answer."""


Weights = Mapping[Fate, int]

USUAL: Final[Weights] = MappingProxyType(
    {
        Fate.REQUEST_DROPPED: 20,
        Fate.RESPONSE_DROPPED: 25,
        Fate.RESET_BEFORE: 10,
        Fate.RESET_AFTER: 15,
        Fate.REQUEST_LATE: 15,
        Fate.RESPONSE_LATE: 10,
        Fate.SERVER_ERROR: 10,
        Fate.SERVER_ERROR_WRITTEN: 10,
        Fate.THROTTLED: 15,
        Fate.THROUGHPUT_EXCEEDED: 15,
        Fate.PARTLY_THROTTLED: 90,  # of batches alone, which are few
        Fate.KILLED_BEFORE: 15,
        Fate.KILLED_AFTER: 15,
        Fate.PAUSED_BEFORE: 8,
        Fate.PAUSED_AFTER: 8,
    }
)
"""Of a thousand requests each; the rest arrives."""


class Plan:
    """
    The fates of one worker's requests, in their order: the same for the same *seed* and *worker*.

    *only*: the operation whose requests are meant; all others arrive.

    Which request is the n-th is up to the machine's scheduler, so two runs of one seed still differ.
    """

    def __init__(self, seed: int, worker: int, weights: Weights = USUAL, only: str | None = None) -> None:
        rest = 1000 - sum(weights.values())
        assert rest >= 0, "a request has one fate: the weights add up to a thousand at most"
        self._fates = [Fate.ARRIVES, *weights]
        self._weights = [rest, *weights.values()]
        self._only = only
        self._random = random.Random(f"{seed}/{worker}")
        self._lock = Lock()
        self.calm = Event()
        """Set: from now on every request arrives."""
        self.throttling = Event()
        """Set: from now on the table takes no request."""
        self.count: Counter[Fate] = Counter()

    def fate(self, operation: str, *, batch: bool) -> Fate:
        """Return what happens to the next request. *batch*: a part of it could be refused."""
        with self._lock:
            (fate,) = self._random.choices(self._fates, self._weights)
            meant = self._only in (None, operation) and (batch or fate is not Fate.PARTLY_THROTTLED)
            if self.calm.is_set() or not meant:
                fate = Fate.ARRIVES
            if self.throttling.is_set() and not self.calm.is_set():
                fate = Fate.THROUGHPUT_EXCEEDED
            self.count[fate] += 1
            return fate

    def share(self) -> float:
        """Return a number between 0 and 1: how long a delay is, which part of a batch arrives."""
        with self._lock:
            return self._random.random()
