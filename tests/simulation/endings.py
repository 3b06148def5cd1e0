"""Whether handlers answer before they are killed, as guarantee 11 promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.scheduler import Sandbox, Scheduler, running
from tests.simulation.story import Story

LAST_WORK, FIRST_ANSWER = 500, 100
"""Milliseconds before the kill: work that returned by the first is answered by the second."""


class Endings:
    """Knows when the work of each sandbox returned, by its own clock."""

    def __init__(self, scheduler: Scheduler, story: Story) -> None:
        self._scheduler = scheduler
        self._story = story
        self._running: Counter[Sandbox] = Counter()
        self._returned: dict[Sandbox, int] = {}
        self._excused: set[Sandbox] = set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Note that work of the running sandbox goes on in the block; a probe is the user's, too."""
        sandbox = running().sandbox
        self._running[sandbox] += 1
        try:
            yield
        finally:
            self._running[sandbox] -= 1
            self._returned[sandbox] = self._now(sandbox)

    def excuse(self, sandbox: Sandbox) -> None:
        """Note that *sandbox* was paused: there is no promise when it answers."""
        self._excused.add(sandbox)

    def over(self, sandbox: Sandbox) -> None:
        """Judge that *sandbox* answers now, or is killed for its time."""
        covered = not self._running[sandbox] and sandbox not in self._excused
        covered = covered and self._returned.get(sandbox, 0) <= sandbox.deadline - LAST_WORK
        if covered and self._now(sandbox) > sandbox.deadline - FIRST_ANSWER:
            self._story.breaks("a handler whose work had returned in time answered too late")

    def _now(self, sandbox: Sandbox) -> int:
        return self._scheduler.now + sandbox.skew
