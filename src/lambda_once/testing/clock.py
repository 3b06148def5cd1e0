"""A clock that a test turns."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lambda_once.core.clock import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)


class FakeClock:
    """
    A clock that stands still until it is turned; whoever sleeps turns it. Safe from several threads.

        clock = FakeClock()
        with using(once, clock=clock):
            handler(event, lambda_context(remaining_ms=3_000))
            clock.advance(5)                            # the lease is over
            handler(event, lambda_context())

    *on_sleep* are called, one a sleep and in their order, with the seconds, after the clock was turned:
    so something can happen while somebody waits. ``slept`` lists the seconds of every sleep.
    """

    def __init__(
        self, start: datetime = START, *, on_sleep: tuple[Callable[[float], object], ...] = ()
    ) -> None:
        if start.tzinfo is None:
            raise ValueError(f"{start!r} has no time zone: give an aware datetime")
        self.slept: list[float] = []
        self._now = start.astimezone(UTC)
        self._meanwhile = list(on_sleep)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return to_milliseconds(self._now)

    def sleep(self, seconds: float) -> None:
        """Turn the clock by *seconds* and return at once."""
        self.advance(seconds)
        with self._lock:
            self.slept.append(seconds)
            meanwhile = self._meanwhile.pop(0) if self._meanwhile else None
        if meanwhile is not None:
            meanwhile(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Do what `sleep` does, and let the event loop go on meanwhile."""
        import asyncio

        self.sleep(seconds)
        turn = asyncio.get_running_loop().create_future()
        turn.get_loop().call_soon(turn.set_result, None)
        await turn

    def advance(self, seconds: float) -> None:
        """Turn the clock by *seconds*. A negative number is a clock that somebody set back."""
        with self._lock:
            self._now += timedelta(seconds=seconds)

    def while_asleep(self, *happenings: Callable[[float], object]) -> None:
        """Let each of *happenings* happen in one of the next sleeps, in their order."""
        with self._lock:
            self._meanwhile.extend(happenings)
