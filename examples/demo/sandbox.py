"""An invocation that the demo can pause, and then resume or kill. No scene sleeps."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long one thread waits for another before the demo fails; usually none waits a second."""

_running: ContextVar[Sandbox[Any] | None] = ContextVar("sandbox", default=None)


class Killed(BaseException):
    """Ends the thread of a killed invocation."""


class Stuck(Exception):
    """One thread waited too long for another: a bug of the demo."""


class Sandbox(Generic[T]):
    """One invocation in a thread of its own, which pauses at *place*."""

    def __init__(self, place: str, invoke: Callable[[], T]) -> None:
        self._place = place
        self._invoke = invoke
        self._paused = Event()
        self._may_resume = Event()
        self._killed = False
        self._answers: list[T] = []
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run, name="sandbox", daemon=True)

    def run_until_paused(self) -> None:
        """Start the invocation, and return once it has paused or ended."""
        self._thread.start()
        if not self._paused.wait(PATIENCE_SECONDS):
            raise Stuck(self._place)

    @property
    def over(self) -> bool:
        """Whether the invocation has ended."""
        return len(self._answers) + len(self._failures) > 0

    def resume(self) -> T:
        """Resume the invocation, and return its answer, or raise what it raised."""
        self._end()
        for failure in self._failures:
            raise failure
        return self._answers[0]

    def kill(self) -> None:
        """End the invocation where it paused."""
        self._killed = True
        self._end()

    def pause_at(self, place: str) -> None:
        """Pause if *place* is this sandbox's. Called by the invocation's own thread."""
        if place != self._place:
            return
        self._paused.set()
        if not self._may_resume.wait(PATIENCE_SECONDS) or self._killed:
            raise Killed

    def _end(self) -> None:
        self._may_resume.set()
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            raise Stuck(self._place)

    def _run(self) -> None:
        _running.set(self)
        try:
            self._answers.append(self._invoke())
        except BaseException as failure:  # noqa: BLE001  (resume raises it)
            self._failures.append(failure)
        finally:
            self._paused.set()


def pause_at(place: str) -> None:
    """Pause the invocation of this thread if it has a sandbox that pauses at *place*."""
    sandbox = _running.get()
    if sandbox is not None:
        sandbox.pause_at(place)
