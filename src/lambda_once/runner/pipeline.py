"""
Completions of a batch, written together while the next records are at work.

Group commit: whatever ended while the last write was on its way goes out in the next one. A crash can so
leave lapsed tokens of work that is done, but of no more than one round trip: no record starts while a
completion is older than a second, or is being tried again.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING

from lambda_once.core.clock import Clock, Deadline
from lambda_once.stores.contract import Finished, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lambda_once.runner.settlement import Ending, Settlement

    Concluded = Callable[[BaseException | None], object]

MOST = 25
"""Completions of one write: what one BatchExecuteStatement takes."""
LINGER = 0.001
"""Seconds that the first write waits for another one to join it: ten quick records then cost one."""
OLDEST = 1.0
"""Seconds that a completion may wait before no further record is started."""


class Pipeline:
    """
    Writes endings in the background, in their order, *expected* of them at most.

    Whoever submits is told what came of it (`Settlement.conclude`): None, or the exception that its caller
    would get. Everything is written, or given up, when `close` returns.
    """

    def __init__(self, settlement: Settlement, deadline: Deadline, expected: int) -> None:
        self._settlement = settlement
        self._clock = _Watched(settlement.clock)
        self._deadline = Deadline(self._clock, deadline.at)
        self._expected = expected
        self._waiting: deque[tuple[datetime, Ending, Concluded]] = deque()
        self._oldest: datetime | None = None
        """Since when the write that is on its way has been due."""
        self._closing = False
        self._idle = False
        """Whether the writer waits for something to write."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, ending: Ending, concluded: Concluded) -> None:
        """Have *ending* written soon; *concluded* is called from another thread."""
        with self._changed:
            self._expected -= 1
            self._waiting.append((ending.write.now, ending, concluded))
            if self._thread is None:
                # Its own copy of the context: log keys and the like are the invocation's there, too.
                self._thread = threading.Thread(target=copy_context().run, args=(self._write,), daemon=True)
                self._thread.start()
            if self._idle or not self._expected:  # else the writer looks by itself: to wake it costs a switch
                self._changed.notify_all()

    @property
    def is_ready(self) -> bool:
        """Whether another record may start now."""
        with self._changed:
            return self._may_start()

    def wait_until_ready(self) -> None:
        """Return once another record may start: no completion is overdue, none is being tried again."""
        with self._changed:
            self._changed.wait_for(self._may_start)

    def wait_until_written(self) -> None:
        """Return once all that was submitted so far is concluded."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and self._oldest is None)

    def close(self) -> None:
        """Write what is left, and return when all of it is concluded."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _may_start(self) -> bool:
        due = self._oldest or (self._waiting[0][0] if self._waiting else None)
        if due is None:
            return True
        return not self._clock.paused and (self._clock.now() - due).total_seconds() <= OLDEST

    def _write(self) -> None:
        self._linger()
        while batch := self._next():
            for (_, ending, concluded), answer in zip(batch, self._written(batch), strict=True):
                try:
                    self._settlement.conclude(ending, answer)
                except Exception as error:  # noqa: BLE001  (what its caller gets: the others are concluded too)
                    concluded(error)
                else:
                    concluded(None)

    def _linger(self) -> None:
        with self._changed:
            joined = 0
            while self._expected and not self._closing and len(self._waiting) > joined:
                joined = len(self._waiting)
                self._changed.wait(LINGER)

    def _written(self, batch: list[tuple[datetime, Ending, Concluded]]) -> list[Finished]:
        try:
            return self._settlement.store.finish([ending.write for _, ending, _ in batch], self._deadline)
        except Exception as broken:  # noqa: BLE001  (a store that raises has not answered)
            return [Unanswered(type(broken).__name__)] * len(batch)

    def _next(self) -> list[tuple[datetime, Ending, Concluded]]:
        """Return what goes out next; nothing once all is written and no more will come."""
        with self._changed:
            self._oldest, self._clock.paused = None, False
            self._changed.notify_all()
            self._idle = True
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._idle = False
            batch = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            self._oldest = batch[0][0] if batch else None
            return batch


class _Watched:
    """A clock that remembers being slept on: the store sleeps only between two tries of a request."""

    def __init__(self, clock: Clock) -> None:
        self.paused = False
        self.now = clock.now
        self._clock = clock

    def sleep(self, seconds: float) -> None:
        self.paused = True
        self._clock.sleep(seconds)
