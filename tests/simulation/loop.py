"""An event loop in the schedule's time: it waits as a task, and its executor's threads are tasks."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tests.simulation.scheduler import Killed, Task, running


class Loop(asyncio.BaseEventLoop):
    """The loop of one task. Nothing of the machine's own time, sockets or threads is in it."""

    def __init__(self) -> None:
        super().__init__()
        self._scheduler = running().scheduler
        self._selector = self  # BaseEventLoop waits by its `select`
        self._waiting: Task | None = None
        self._woken = False

    def time(self) -> float:
        """Return the seconds of the schedule."""
        return self._scheduler.now / 1000

    def select(self, timeout: float | None) -> list[Any]:
        """Wait for *timeout*, for ever if it is None, or until a thread has called; there are no events."""
        task = running()
        task.check()
        if not self._woken and timeout != 0:
            if timeout is not None:
                self._scheduler.wake(task, max(1, round(timeout * 1000)))
            self._waiting = task
            task.wait()
            self._waiting = None
        self._woken = False
        return []

    def _write_to_self(self) -> None:
        self._woken = True
        if self._waiting is not None:
            self._scheduler.wake(self._waiting)

    def _process_events(self, event_list: list[Any]) -> None:
        del event_list

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Future[Any]:  # type: ignore[override]
        """Call *func* in a task of the same sandbox."""
        del executor
        future: Future[Any] = self.create_future()

        def settle(method: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                method(value)

        def work() -> None:
            try:
                result = func(*args)
            except Killed:
                raise
            except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
                outcome: tuple[Callable[[Any], None], Any] = future.set_exception, error
            else:
                outcome = future.set_result, result
            if not self.is_closed():  # in a dead sandbox nothing waits for it
                self.call_soon_threadsafe(settle, *outcome)

        self._scheduler.start(running().sandbox, work)
        return future

    def run_forever(self) -> None:
        """Run until stopped; in a dead sandbox unwind at once, not when the coroutines are collected."""
        try:
            super().run_forever()
        except Killed:
            self._unwind()
            raise

    def _unwind(self) -> None:
        """Close the coroutines of all tasks, and of those that begin meanwhile."""
        asyncio._set_running_loop(self)
        closed: set[asyncio.Task[Any]] = set()
        try:
            while pending := asyncio.all_tasks(self) - closed:
                for task in pending:
                    closed.add(task)
                    coroutine = task.get_coro()
                    if isinstance(coroutine, Coroutine):
                        with suppress(BaseException):
                            coroutine.close()
        finally:
            asyncio._set_running_loop(None)

    def __del__(self, _warn: object = None) -> None:
        """Close it: nothing else does in a dead sandbox."""
        with suppress(RuntimeError):
            self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing: what a dead sandbox leaves behind is no mistake."""
