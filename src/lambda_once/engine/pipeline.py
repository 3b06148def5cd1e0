"""
Completions of a batch, written together while the next records run.

Group commit: all that finished during one write goes out in the next one. A crash can leave lapsed tokens of
work that is done, but of no more than one round trip: no record starts while a completion is older than a
second, or is being retried. What the table did not take joins a later write, at a time of its own
(`PreparedFinish.pause`): it delays no other completion.

The thread costs a batch of ten quick records a tenth of its time: to start it, and each time that it wakes.
So it is kept for the next batch, and what it has not begun to write when the batch ends, `close` writes.
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
from lambda_once.engine.waiting import Signal, in_kept_thread, off_loop
from lambda_once.stores.contract import Unanswered, WriteAnswer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lambda_once.engine.finish import Finisher, PreparedFinish

    Done = Callable[[BaseException | None], object]

MOST_COMPLETIONS = 25
"""Completions of one write: what one BatchExecuteStatement takes."""
LINGER = 0.005
"""Seconds that the first write waits for another one to join it: ten quick records then cost one."""
OLDEST = 1.0
"""Seconds that a completion may wait before no further record is started."""
STALLED = 5.0
"""Seconds that a record waits to be started: after that no record of the batch is started any more."""
POLL = 0.05
"""Seconds between two looks for what has become ready."""


class Queued(NamedTuple):
    """A finish that is not answered yet."""

    finish: PreparedFinish
    done: Done


class Retried(NamedTuple):
    """Finishes that were unanswered together: they are sent again together."""

    at: datetime
    group: list[Queued]


class Writer(Enum):
    """What the pipeline's own thread does."""

    NONE = auto()
    """There is none, or it ends: those that wait for the pipeline write."""
    LINGERS = auto()
    """It waits for more to write, and has begun nothing: who writes instead makes it end."""
    WRITES = auto()
    """It writes, to the end."""


class Pipeline:
    """
    Writes finishes in the background, in their order, *expected* of them at most.

    Each one's callback gets None, or the exception that its caller would get (`Finisher.after`). Everything
    is written, or given up, when `close` returns: also where a hook raises SystemExit, the store breaks, or
    no thread can be started.
    """

    def __init__(self, finisher: Finisher, deadline: Deadline, expected: int) -> None:
        self._finisher = finisher
        self._clock = finisher.clock
        self._deadline = deadline
        self._expected = expected
        self._waiting: deque[Queued] = deque()
        """What was not sent yet, the oldest first."""
        self._retried: list[Retried] = []
        """What is sent again, the soonest first."""
        self._on_its_way: list[list[Queued]] = []
        """Groups that are being sent, the oldest first."""
        self._closing = False
        self._idle = False
        """Whether the writer waits for something to write."""
        self._stalled = False
        self._changed = Signal()
        self._writer = Writer.NONE

    def submit(self, finish: PreparedFinish, done: Done) -> None:
        """Write *finish* soon; *done* is called from another thread."""
        with self._changed.condition:
            self._expected -= 1
            self._waiting.append(Queued(finish, done))
            self._start_writer()
            # Else the writer looks by itself: to wake it costs a switch.
            if self._idle or len(self._waiting) == MOST_COMPLETIONS:
                self._changed.condition.notify_all()

    def wait(self, *, written: bool = False) -> bool:
        """
        Return True once another record may start: no completion is late or being retried.

        *written*: once all that was submitted is written or given up. False after `STALLED` seconds, and from
        then on: what has not started should not start. So near the end of the invocation.
        """
        if self._may_at_once(written=written):
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
        """Do what `wait` does on the event loop: a lane that waits takes no thread from the work."""
        if self._may_at_once(written=written):
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

    def _may_at_once(self, *, written: bool) -> bool:
        with self._changed.condition:
            return not self._stalled and (self._is_written() if written else self._may_start())

    def _may(self, began: datetime, *, written: bool) -> bool | None:
        """Return whether what has waited since *began* may go on; None: not yet."""
        with self._changed.condition:
            if self._stalled:
                return False
            if self._is_written() if written else self._may_start():
                return True
            self._stalled = (self._clock.now() - began).total_seconds() >= STALLED
            return False if self._stalled or self._deadline.is_final() else None

    def _is_written_elsewhere(self) -> bool:
        """Whether another thread writes: without the pipeline's own those that wait do, one after another."""
        with self._changed.condition:
            self._take_over()
            return self._writer is Writer.WRITES or bool(self._on_its_way)

    def _take_over(self) -> None:
        """Write instead of a thread that lingers: for those that wait, nothing joins any more."""
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
        """Start the thread. Where there can be none, the threads that wait for the pipeline write."""
        if self._writer is not Writer.NONE:
            return
        self._writer = Writer.LINGERS
        try:
            # Its own copy of the context: log keys and the like are the invocation's there, too.
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
        """Return True once the thread is to write; False if another one does."""
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
        """Return what goes out next; nothing once all is written and no more will come."""
        while True:
            with self._changed.condition:
                self._idle = True
                self._changed.condition.wait_for(lambda: self._waiting or self._retried or self._closing)
                self._idle = False
                group = self._taken()
                if group or not self._retried:
                    return group
                soonest = self._retried[0].at
            # In short steps, for another finish may come meanwhile.
            pause = (soonest - self._clock.now()).total_seconds()
            self._clock.sleep(min(max(pause, 0.001), POLL))

    def _taken(self) -> list[Queued]:
        """Take what can be sent now, if there is anything; near the end all of it, in parallel requests."""
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
        """Write *group* together. What was not answered is left for a later write, or is given up."""
        left = deque(group)
        late: list[Queued] = []
        times: list[datetime] = []
        try:
            self._finisher.log_group(queued.finish for queued in group)
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
                    # What was unanswered together is sent again together, in one call.
                    soonest = min(times)
                    place = bisect_right(self._retried, soonest, key=_when)
                    self._retried.insert(place, Retried(soonest, late))
                self._changed.wake()

    def _answers(self, group: list[Queued]) -> tuple[list[WriteAnswer], bool]:
        """Return the table's answers, and whether what is unanswered may be tried again."""
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
        """Return when *finish* is tried again; None where it is given up."""
        now = self._clock.now()
        pause = finish.pause(self._deadline, now)
        return None if pause is None else now + pause

    def _done(self, queued: Queued, answer: WriteAnswer) -> None:
        error: BaseException | None = None
        try:
            self._finisher.after(queued.finish, answer)
        except Exception as found:  # noqa: BLE001  (what its caller gets: the others go on)
            error = found
        except BaseException as interruption:  # noqa: BLE001  (as above)
            self._interrupted(interruption, queued)
        queued.done(error)

    def _interrupted(self, interruption: BaseException, queued: Queued) -> None:
        queued.finish.ownership.call.invocation.tally.interrupt(interruption)


def _when(retried: Retried) -> datetime:
    return retried.at
