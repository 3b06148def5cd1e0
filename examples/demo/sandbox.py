"""An invocation that the demo can stop half-way, and let go on or end there: no scene waits by the clock."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long a thread waits for another before the demo gives up; on a sound machine none waits a second."""

_running: ContextVar[Sandbox[Any] | None] = ContextVar("sandbox", default=None)


class Killed(BaseException):
    """Ends the thread of an invocation that was killed; what it would still write is of no more interest."""


class Stuck(Exception):
    """One thread waited for another in vain: the demo itself is wrong."""


class Sandbox(Generic[T]):
    """One invocation in a thread of its own, which stands still when it comes to *place*."""

    def __init__(self, place: str, invoke: Callable[[], T]) -> None:
        self._place = place
        self._invoke = invoke
        self._stands = Event()
        self._may_go_on = Event()
        self._killed = False
        self._answers: list[T] = []
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run, name="sandbox", daemon=True)

    def run_to_the_place(self) -> None:
        """Start the invocation, and return once it stands still, or is over without having come there."""
        self._thread.start()
        if not self._stands.wait(PATIENCE_SECONDS):
            raise Stuck(self._place)

    @property
    def over(self) -> bool:
        """Whether the invocation came to its end."""
        return len(self._answers) + len(self._failures) > 0

    def go_on(self) -> T:
        """Let the invocation go on to its end, and return its answer, or raise what it raised."""
        self._end()
        for failure in self._failures:
            raise failure
        return self._answers[0]

    def kill(self) -> None:
        """End the invocation where it stands."""
        self._killed = True
        self._end()

    def come_to(self, place: str) -> None:
        """Stand still where *place* is the one to stop at; for the invocation's own thread."""
        if place != self._place:
            return
        self._stands.set()
        if not self._may_go_on.wait(PATIENCE_SECONDS) or self._killed:
            raise Killed

    def _end(self) -> None:
        self._may_go_on.set()
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            raise Stuck(self._place)

    def _run(self) -> None:
        _running.set(self)
        try:
            self._answers.append(self._invoke())
        except BaseException as failure:  # noqa: BLE001  (it belongs to whoever waits for the answer)
            self._failures.append(failure)
        finally:
            self._stands.set()


def come_to(place: str) -> None:
    """Say that the invocation running here comes to *place*; one that is in no sandbox passes."""
    sandbox = _running.get()
    if sandbox is not None:
        sandbox.come_to(place)
