"""
Write the completions of a batch together, while the next records run.

Group commit: all work that finishes during one write is written by the next one. A crash can leave lapsed
tokens of completed work, but only those of about one round trip: no record starts while a completion is older
than a second or is being retried. A completion that was not written joins a later write after its own pause
(`PreparedFinish.pause`) and delays no other one.

Starting and waking the thread costs a tenth of the time of a batch of ten quick records. So the thread is
kept for the next batch, and `close` writes what the thread has not begun to write.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import deque
from contextvars import copy_context
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.clock import Deadline, sleep_on_loop
from lambda_once.core.threads import in_kept_thread
from lambda_once.engine.waiting import Signal, off_loop
from lambda_once.stores.contract import Unanswered, WriteAnswer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lambda_once.engine.finish import Finisher, PreparedFinish

    Done = Callable[[BaseException | None], object]

MOST_COMPLETIONS = 25
"""Most completions in one write: the limit of BatchExecuteStatement."""
LINGER = 0.005
"""Seconds that the first write waits for more completions: ten quick records then need only one write."""
OLDEST = 1.0
"""Age of a completion, in seconds, from which no further record is started."""
STALLED = 5.0
"""Longest wait of a record for its start, in seconds. After that, no record of the batch is started."""
POLL = 0.05
"""Seconds between polls."""


class Queued(NamedTuple):
    """A finish without an answer so far."""

    finish: PreparedFinish
    done: Done


class Retried(NamedTuple):
    """Finishes that were sent together, got no answer, and are sent again together."""

    at: datetime
    group: list[Queued]


class Writer(Enum):
    """State of the pipeline's own thread."""

    NONE = auto()
    """No thread, or it is ending: threads that wait for the pipeline write."""
    LINGERS = auto()
    """It waits for more completions before its first write. Another thread may take over; then it ends."""
    WRITES = auto()
    """It writes until nothing is left."""


class Pipeline:
    """
    Writes finishes in the background, in order; at most *expected* of them.

    The callback of a finish gets None, or the exception that its caller would get (`Finisher.conclude`). When
    `close` returns, everything is written or given up, even if a hook raises SystemExit, the store raises, or
    no thread can be started.
    """

    def __init__(self, finisher: Finisher, deadline: Deadline, expected: int) -> None:
        self._finisher = finisher
        self._clock = finisher.clock
        self._deadline = deadline
        self._expected = expected
        self._waiting: deque[Queued] = deque()
        """Finishes not yet sent, oldest first."""
        self._retried: list[Retried] = []
        """Groups to send again, soonest first."""
        self._on_its_way: list[list[Queued]] = []
        """Groups that are being sent, oldest first."""
        self._closing = False
        self._idle = False
        """Whether the writer is idle."""
        self._stalled = False
        self._changed = Signal()
        self._writer = Writer.NONE

    def submit(self, finish: PreparedFinish, done: Done) -> None:
        """Queue *finish* for writing; *done* may be called from any thread."""
        with self._changed.condition:
            self._expected -= 1
            self._waiting.append(Queued(finish, done))
            self._start_writer()
            # Otherwise the writer polls: waking it costs a thread switch.
            if self._idle or len(self._waiting) == MOST_COMPLETIONS:
                self._changed.condition.notify_all()

    def may_start_at_once(self, *, written: bool = False) -> bool:
        """Whether another record may start at once; see `wait`."""
        with self._changed.condition:
            return not self._stalled and (self._is_written() if written else self._may_start())

    def wait(self, *, written: bool = False) -> bool:
        """
        Return True once another record may start: no completion is late or being retried.

        With *written*, wait until everything submitted is written or given up. Returns False, from then on,
        after `STALLED` seconds, and False near the end of the invocation: no further record should start.
        """
        if self.may_start_at_once(written=written):
            return True
        began = self._clock.now()
        while (may := self._may(began, written=written)) is None:
            if self._is_written_elsewhere():
                self._changed.wait(POLL)
            elif group := self._taken():
                self._send(group)
            else:
                self._clock.sleep(POLL)
        return may

    async def wait_async(self, *, written: bool = False) -> bool:
        """Do what `wait` does, on the event loop: a waiting lane occupies no thread."""
        if self.may_start_at_once(written=written):
            return True
        began = self._clock.now()
        while (may := self._may(began, written=written)) is None:
            if self._is_written_elsewhere():
                await self._changed.wait_async(POLL)
            elif group := self._taken():
                await off_loop(self._send, group)
            else:
                await sleep_on_loop(self._clock, POLL)
        return may

    def close(self) -> None:
        """Write what is left, and return when all of it is written or given up."""
        with self._changed.condition:
            self._closing = True
            if self._writer is Writer.WRITES:
                self._changed.condition.notify_all()
        try:
            self._write_the_rest()
        finally:  # a KeyboardInterrupt comes here, too: it reaches the caller when all is written
            self._write_the_rest()

    def _write_the_rest(self) -> None:
        with self._changed.condition:
            self._take_over()
            self._changed.condition.wait_for(lambda: self._writer is Writer.NONE)
        self._write()

    def _may(self, began: datetime, *, written: bool) -> bool | None:
        """Return whether a record that has waited since *began* may start; None: not yet."""
        with self._changed.condition:
            if self._stalled:
                return False
            if self._is_written() if written else self._may_start():
                return True
            self._stalled = (self._clock.now() - began).total_seconds() >= STALLED
            return False if self._stalled or self._deadline.is_final() else None

    def _is_written_elsewhere(self) -> bool:
        """Whether another thread writes. Without a writer thread, waiting threads write, one at a time."""
        with self._changed.condition:
            self._take_over()
            return self._writer is Writer.WRITES or bool(self._on_its_way)

    def _take_over(self) -> None:
        """Stop a writer thread that lingers, so that the calling thread writes."""
        if self._writer is Writer.LINGERS:
            self._writer = Writer.NONE

    def _is_written(self) -> bool:
        return not self._waiting and not self._retried and not self._on_its_way

    def _may_start(self) -> bool:
        if self._retried or any(group[-1].finish.sent for group in self._on_its_way):
            return False
        oldest = [group[0] for group in (*self._on_its_way[:1], self._waiting) if group]
        if not oldest:
            return True
        now = self._clock.now()
        return all((now - queued.finish.write.now).total_seconds() <= OLDEST for queued in oldest)

    # ---------------------------------------------------------------- the writer

    def _start_writer(self) -> None:
        """Start the thread. If that fails, the threads that wait for the pipeline write."""
        if self._writer is not Writer.NONE:
            return
        self._writer = Writer.LINGERS
        try:
            # A copy of the context, so that log keys and the like are those of the invocation.
            in_kept_thread(partial(copy_context().run, self._write_in_thread))
        except RuntimeError:  # can't start new thread: Lambda allows 1,024 (quotas)
            self._writer = Writer.NONE

    def _write_in_thread(self) -> None:
        if not self._linger():
            return
        try:
            self._write()
        finally:
            with self._changed.condition:
                self._writer = Writer.NONE
                self._changed.condition.notify_all()

    def _linger(self) -> bool:
        """Return True once this thread should write; False if another thread writes."""
        with self._changed.condition:
            joined = 0
            while (
                self._writer is Writer.LINGERS
                and self._expected
                and joined < len(self._waiting) < MOST_COMPLETIONS
            ):
                joined = len(self._waiting)
                self._changed.condition.wait(LINGER)
            if self._writer is not Writer.LINGERS:
                return False
            self._writer = Writer.WRITES
            return True

    def _write(self) -> None:
        while group := self._next():
            self._send(group)

    def _next(self) -> list[Queued]:
        """Return the next group to send; empty once all is written and the pipeline is closing."""
        while True:
            with self._changed.condition:
                self._idle = True
                self._changed.condition.wait_for(lambda: self._waiting or self._retried or self._closing)
                self._idle = False
                group = self._taken()
                if group or not self._retried:
                    return group
                soonest = self._retried[0].at
            # In short steps, as another finish may be submitted meanwhile.
            pause = (soonest - self._clock.now()).total_seconds()
            self._clock.sleep(min(max(pause, 0.001), POLL))

    def _taken(self) -> list[Queued]:
        """Take the finishes that can be sent now. Near the end take all; requests are then parallel."""
        with self._changed.condition:
            now = self._clock.now()
            most = sys.maxsize if self._deadline.is_final_at(now) else MOST_COMPLETIONS
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), most))]
            while self._retried and self._retried[0].at <= now and len(group) < most:
                at, late = self._retried.pop(0)
                room = most - len(group)
                group += late[:room]
                if late[room:]:
                    self._retried.insert(0, Retried(at, late[room:]))
            if group:
                self._on_its_way.append(group)
            return group

    def _send(self, group: list[Queued]) -> None:
        """Write *group* together. A finish without an answer is left for a later write, or given up."""
        left = deque(group)
        late: list[Queued] = []
        times: list[datetime] = []
        try:
            answers, again = self._answers(group)
            for queued, answer in zip(group, answers, strict=True):
                finish = queued.finish.after(answer) if again and isinstance(answer, Unanswered) else None
                at = None if finish is None else self._later(finish)
                if finish is None or at is None:
                    self._done(queued, answer)
                else:
                    late.append(queued._replace(finish=finish))
                    times.append(at)
                left.popleft()
        finally:
            with self._changed.condition:
                self._on_its_way = [each for each in self._on_its_way if each is not group]
                self._waiting.extendleft(reversed(left))  # interrupted in between
                if late:
                    # All of them are sent again together, in one call.
                    soonest = min(times)
                    place = bisect_right(self._retried, soonest, key=_when)
                    self._retried.insert(place, Retried(soonest, late))
                self._changed.wake()

    def _answers(self, group: list[Queued]) -> tuple[list[WriteAnswer], bool]:
        """Return the table's answers, and whether finishes without an answer may be sent again."""
        now = self._clock.now()
        writes = [queued.finish.write_at(now) for queued in group]
        limit = max(
            (queued.finish.limit(self._deadline, now) for queued in group), key=lambda limit: limit.at
        )
        try:
            return self._finisher.store.write(writes, limit), True
        except Exception as broken:  # noqa: BLE001  (a store that raises has not answered)
            return [Unanswered(type(broken).__name__)] * len(group), False
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            self._interrupted(interruption, group[0])
            first = not any(queued.finish.sent for queued in group)
            return [Unanswered(type(interruption).__name__)] * len(group), first

    def _later(self, finish: PreparedFinish) -> datetime | None:
        """Return when to send *finish* again; None: give up."""
        now = self._clock.now()
        pause = finish.pause(self._deadline, now)
        return None if pause is None else now + pause

    def _done(self, queued: Queued, answer: WriteAnswer) -> None:
        error: BaseException | None = None
        try:
            self._finisher.conclude(queued.finish, answer)
        except Exception as found:  # noqa: BLE001  (what its caller gets: the others go on)
            error = found
        except BaseException as interruption:  # noqa: BLE001  (as above)
            self._interrupted(interruption, queued)
        queued.done(error)

    def _interrupted(self, interruption: BaseException, queued: Queued) -> None:
        queued.finish.ownership.call.invocation.tally.interrupt(interruption)


def _when(retried: Retried) -> datetime:
    return retried.at
