"""
Wait on the event loop, so that async work blocks nothing.

Each step of `core.clock.Waits` runs in a thread and each pause on the event loop, so a waiting call occupies
no thread that other work needs.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lambda_once.core.clock import Clock, Waits, sleep_on_loop

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

T = TypeVar("T")
THREADS = 32
"""Most concurrent requests of async work; further requests wait for a thread."""
_executors: list[Executor] = []
_making = threading.RLock()


class Pause(NamedTuple):
    """The work pauses for so many seconds."""

    seconds: float


class WaitResult(NamedTuple):
    """The work is over."""

    value: Any


class Signal:
    """A condition that can also be awaited on an event loop, without a thread of its executor."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._listeners: list[Callable[[], object]] = []

    def wake(self) -> None:
        """Wake all waiters."""
        with self.condition:
            self.condition.notify_all()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            with suppress(RuntimeError):  # its loop is closed: nothing waits there any more
                listener()

    def wait(self, seconds: float) -> None:
        """Return when woken, or after *seconds*."""
        with self.condition:
            self.condition.wait(seconds)

    async def wait_async(self, seconds: float, unless: Callable[[], bool] = bool) -> None:
        """Do what `wait` does, on the event loop; return at once if *unless* returns True."""
        import asyncio

        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        with self.condition:
            if unless():
                return
            self._listeners.append(lambda: loop.call_soon_threadsafe(woken.set))
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), seconds)


async def through_async(work: Waits[T], clock: Clock, undo: Callable[[T], object] | None = None) -> T:
    """
    Run the steps of *work* in threads, and its pauses on the event loop.

    If it is cancelled and the running step still produces the result, *undo* is called with it in a thread.
    """
    import asyncio

    while True:
        running = _begun(_step, work)
        try:
            step = await asyncio.shield(running)
        except asyncio.CancelledError:
            await _to_its_end(running)
            late = None if running.exception() else running.result()
            if undo is not None and isinstance(late, WaitResult):
                await off_loop(undo, late.value)
            raise
        if isinstance(step, WaitResult):
            value: T = step.value
            return value
        await sleep_on_loop(clock, step.seconds)


async def off_loop(function: Callable[..., T], *args: Any) -> T:
    """Run *function* in a thread, to its end even if the caller is cancelled, however often."""
    import asyncio

    running = _begun(function, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _to_its_end(running)
        raise


async def uncancelled(work: Awaitable[T]) -> T:
    """Await *work* to its end even if the caller is cancelled, however often."""
    import asyncio

    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _to_its_end(running)
        raise


def _step(work: Waits[Any]) -> Pause | WaitResult:
    try:
        return Pause(next(work))
    except StopIteration as over:
        return WaitResult(over.value)


def _begun(function: Callable[..., T], *args: Any) -> Future[T]:
    """
    Begin *function* in a thread; if none can be started, run it here at once.

    The thread belongs to our own executor, as the user's work may need every thread of the loop's default
    executor.
    """
    import asyncio
    from contextvars import copy_context
    from functools import partial

    loop = asyncio.get_running_loop()
    once = _Once(partial(copy_context().run, function, *args))
    try:
        return loop.run_in_executor(_executor(), once)
    except RuntimeError:  # can't start new thread; the executor may keep what it was given
        done: Future[T] = loop.create_future()
        try:
            done.set_result(once())
        except BaseException as error:  # noqa: BLE001  (raised where it is awaited)
            done.set_exception(error)
        return done


def _executor() -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # plain work needs none

    with _making:
        if not _executors:
            _executors.append(ThreadPoolExecutor(THREADS, thread_name_prefix="lambda-once"))
        return _executors[0]


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_executors.clear)


class _Once:
    """Calls *function* on the first call only."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._free = threading.Lock()

    def __call__(self) -> Any:
        return self._function() if self._free.acquire(blocking=False) else None


async def _to_its_end(running: Future[Any]) -> None:
    """Wait until *running* is done, ignoring cancellations."""
    import asyncio

    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue
