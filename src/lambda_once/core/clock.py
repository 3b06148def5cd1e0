"""
The only module that reads the time or sleeps. It also formats times for rows.

Everywhere else time is an argument, so that tests neither sleep nor know the date; the linter holds that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Waits = Generator[float, None, T]
"""
Work that yields the seconds it has to wait, and returns its result.

It serves both kinds of work: `through` sleeps in the thread, `engine.waiting` waits on the event loop.
"""
LAST_ANSWER = 0.15
"""Seconds before the end of an invocation from which no answer of the table is awaited (guarantee 11)."""
FINAL = 0.35
"""Seconds before `LAST_ANSWER` in which nothing starts and each request is sent only once."""


def monotonic() -> float:
    """Return seconds for a limit on a socket: nobody sets this clock back (`Clock.now` may be)."""
    return time.monotonic()


class Clock(Protocol):
    """Returns the time, and sleeps."""

    def now(self) -> datetime:
        """Return the time as an aware datetime in UTC, in whole milliseconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*."""
        ...


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


async def sleep_on_loop(clock: Clock, seconds: float) -> None:
    """Sleep for *seconds* by *clock*, without blocking the event loop."""
    import asyncio

    sleep = getattr(clock, "sleep_async", None)
    await (asyncio.to_thread(clock.sleep, seconds) if sleep is None else sleep(seconds))


def through(work: Waits[T], clock: Clock) -> T:
    """Run *work* on this thread, and sleep for its waits."""
    try:
        while True:
            clock.sleep(next(work))
    except StopIteration as over:
        result: T = over.value
        return result


def has_running_loop() -> bool:
    """Whether this thread has a running event loop, so that it must not sleep."""
    if "asyncio" not in sys.modules:
        return False
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Deadline(NamedTuple):
    """The time by which a response is needed, and its clock."""

    clock: Clock
    at: datetime
    final: float = 0.0
    """
    For this many seconds before *at*, each request is sent only once; the caller retries.

    Unless it is 0, nothing is sent or awaited after *at*. 0: requests are retried until *at*, and each is
    awaited until the client's timeout.
    """

    def remaining(self) -> float:
        """Return the remaining seconds, never below zero."""
        return max(self.remaining_at(self.clock.now()), 0.0)

    def remaining_at(self, now: datetime) -> float:
        """Return the seconds from *now* to the deadline; negative if it has passed."""
        return (self.at - now).total_seconds()

    def is_final(self) -> bool:
        """Whether from now on each request is sent only once, and nothing starts."""
        return self.is_final_at(self.clock.now())

    def is_final_at(self, now: datetime) -> bool:
        return self.final > 0 and self.remaining_at(now) <= self.final

    def before_final(self) -> float:
        """Return the seconds until it is final, never below zero."""
        return max(self.remaining() - self.final, 0.0)

    def passed(self) -> bool:
        return self.clock.now() >= self.at

    def has_time_for_another(self, began: datetime) -> bool:
        """
        Return whether another try, as long as the one since *began*, would end before the deadline.

        If the clock was set back meanwhile, the last try counts as having taken no time.
        """
        now = self.clock.now()
        return self.remaining_at(now) > max((now - began).total_seconds(), 0.0)

    def pause(self, seconds: float) -> None:
        """Sleep for *seconds*, at most until the deadline."""
        self.clock.sleep(min(seconds, self.remaining()))

    def earlier(self, seconds: float) -> Deadline:
        """Return the deadline *seconds* before this one."""
        return self._replace(at=self.at - timedelta(seconds=seconds))

    def within(self, seconds: float) -> Deadline:
        """Return the deadline *seconds* from now, or this one if it is earlier."""
        return self._replace(at=min(self.at, self.clock.now() + timedelta(seconds=seconds)))


def to_milliseconds(at: datetime) -> datetime:
    """Return *at* in whole milliseconds, as a row stores it."""
    return at - timedelta(microseconds=at.microsecond % 1000)


@lru_cache(maxsize=64)  # the records of a batch share most of their times, and each is logged and stored
def stamp(at: datetime) -> str:
    """Return *at* in UTC as ``2026-11-20T10:12:00.000Z``: fixed width, so texts sort by time."""
    in_utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"


def epoch_seconds(at: datetime) -> int:
    """Return the whole seconds since 1970, the unit of DynamoDB's TTL attribute."""
    return int(at.timestamp())


def epoch_milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
