"""A clock that only a test advances."""

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
    A clock that moves only by `advance` and by sleeping. Thread-safe.

        clock = FakeClock()
        with using(once, clock=clock):
            handler(event, lambda_context(remaining_ms=3_000))
            clock.advance(5)                            # the lease expires
            handler(event, lambda_context())

    *on_sleep* are called in order, one per sleep, with its seconds, after the clock has advanced, so that a
    test can act while a caller waits. ``slept`` lists the seconds of every sleep.
    """

    def __init__(
        self, start: datetime = START, *, on_sleep: tuple[Callable[[float], object], ...] = ()
    ) -> None:
        if start.tzinfo is None:
            raise ValueError(f"{start!r} has no time zone: pass an aware datetime")
        self.slept: list[float] = []
        self._now = start.astimezone(UTC)
        self._meanwhile = list(on_sleep)
        self._lock = threading.RLock()

    def now(self) -> datetime:
        with self._lock:
            return to_milliseconds(self._now)

    def sleep(self, seconds: float) -> None:
        """Advance the clock by *seconds* and return at once."""
        self.advance(seconds)
        with self._lock:
            self.slept.append(seconds)
            meanwhile = self._meanwhile.pop(0) if self._meanwhile else None
        if meanwhile is not None:
            meanwhile(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Sleep as `sleep` does, after one turn of the event loop."""
        import asyncio

        self.sleep(seconds)
        turn = asyncio.get_running_loop().create_future()
        turn.get_loop().call_soon(turn.set_result, None)
        await turn

    def advance(self, seconds: float) -> None:
        """Advance the clock by *seconds*; a negative number sets it back."""
        with self._lock:
            self._now += timedelta(seconds=seconds)

    def while_asleep(self, *actions: Callable[[float], object]) -> None:
        """Call each of *actions* in one of the next sleeps, in order."""
        with self._lock:
            self._meanwhile.extend(actions)
