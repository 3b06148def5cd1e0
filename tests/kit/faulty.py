"""A client on a bad line: answers and requests are lost, and copies of requests arrive late."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError


class Fate(Enum):
    """What becomes of one request."""

    SOUND = "done, and answered"
    ANSWER_LOST = "done, and the answer lost"
    REQUEST_LOST = "never done"
    LATE_COPY = "done and answered, and a copy of it arrives later"


class FaultyClient:
    """
    Hands every request to *client*, by the fates that *fate* deals; safe from several threads.

    ``delayed`` are copies still on their way: `deliver` lets them arrive, whatever they then meet.
    """

    def __init__(self, client: Any, fate: Callable[[], Fate]) -> None:
        self._client = client
        self._fate = fate
        self._lock = threading.Lock()
        self.delayed: list[Callable[[], Any]] = []

    def __getattr__(self, operation: str) -> Any:
        send = getattr(self._client, operation)

        def request(**arguments: Any) -> Any:
            with self._lock:
                fate = self._fate()
            if fate is Fate.REQUEST_LOST:
                raise ReadTimeoutError(endpoint_url="http://table")
            answer = send(**arguments)
            if fate is Fate.LATE_COPY:
                with self._lock:
                    self.delayed.append(lambda: send(**arguments))
            if fate is Fate.ANSWER_LOST:
                raise ReadTimeoutError(endpoint_url="http://table")
            return answer

        return request

    def deliver(self, copies: int | None = None) -> None:
        """Let the first *copies* of what is delayed arrive, all where left out; their answers go nowhere."""
        with self._lock:
            arriving, self.delayed = self.delayed[:copies], self.delayed[len(self.delayed[:copies]) :]
        for copy in arriving:
            with suppress(ClientError):  # this answer is lost
                copy()


def every_second_answer_lost() -> Callable[[], Fate]:
    """Deal SOUND and ANSWER_LOST in turn."""
    turns = itertools.cycle((Fate.SOUND, Fate.ANSWER_LOST))
    return lambda: next(turns)


def by_seed(seed: int, sound: float = 0.6) -> Callable[[], Fate]:
    """Deal fates at random, a share of *sound* of them SOUND."""
    dice = random.Random(seed)
    bad = [fate for fate in Fate if fate is not Fate.SOUND]
    return lambda: Fate.SOUND if dice.random() < sound else dice.choice(bad)
