"""
Waiting on the event loop, and event loops under handlers that Lambda calls plainly.

For async work each step of `core.clock.Waits` runs in a thread and the pauses pass on the event loop, so that
a waiting call takes no thread from the one it waits for.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lambda_once.core.clock import Clock, Waits, has_running_loop, sleep_on_loop
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from asyncio import Future, Runner
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Executor

    Work = Callable[[], object]

T = TypeVar("T")
THREADS = 32
"""Requests of async work that are sent at once; the others wait for one to be answered."""
_loops = threading.local()
_executors: list[Executor] = []
_kept: list[SimpleQueue[Work]] = []
"""Of each thread that is kept and idle, what it waits at."""
_making = threading.Lock()


class Pause(NamedTuple):
    """The work waits for so many seconds."""

    seconds: float


class WaitResult(NamedTuple):
    """The work is over."""

    value: Any


class Signal:
    """A condition that work on an event loop can wait for, too: its executor may have no thread left."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._listeners: list[Callable[[], object]] = []

    def wake(self) -> None:
        """Wake all that wait."""
        with self.condition:
            self.condition.notify_all()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            with suppress(RuntimeError):  # its loop is closed: nothing waits there any more
                listener()

    def wait(self, seconds: float) -> None:
        """Return when it is woken, or after *seconds*."""
        with self.condition:
            self.condition.wait(seconds)

    async def wait_async(self, seconds: float, unless: Callable[[], bool] = bool) -> None:
        """Do what `wait` does on the event loop; return at once where *unless* holds."""
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
    Do *work* in threads, and wait on the event loop.

    Cancelled meanwhile, *undo* is called, in a thread, with the result that came all the same.
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
    """Run *function* in a thread, to its end however often the caller is cancelled meanwhile."""
    import asyncio

    running = _begun(function, *args)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _to_its_end(running)
        raise


async def uncancelled(work: Awaitable[T]) -> T:
    """Await *work* to its end however often the caller is cancelled meanwhile."""
    import asyncio

    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _to_its_end(running)
        raise


class _ThreadsLoop:
    """The event loop of a thread, closed with the thread: a test's worker thread must leave none open."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._loop = runner.get_loop()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then what closing needs may be gone
            self._loop.close()


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run *coroutine* to its end on this thread's event loop.

    The loop lives as long as the environment, so that clients that belong to a loop can be kept. It
    cannot run inside another loop: raises `Misconfigured` there (in an async test, call the handler by
    ``await asyncio.to_thread(handler, event, context)``).
    """
    import asyncio
    from contextvars import copy_context

    if has_running_loop():
        coroutine.close()
        raise Misconfigured(
            "the handler was called from a running event loop; call it outside one, "
            "in an async test with `await asyncio.to_thread(handler, event, context)`"
        )
    if getattr(_loops, "own", None) is None:
        _loops.own = _ThreadsLoop(asyncio.Runner())
    own: _ThreadsLoop = _loops.own
    return own.runner.run(coroutine, context=copy_context())  # its own is as old as the runner


def in_kept_thread(work: Work) -> None:
    """
    Begin *work* in a thread that is kept for later work. Raises RuntimeError where none can be started.

    To start one costs a batch of ten records several per cent; there are as many as worked at once.
    """
    try:
        begin = _kept.pop()
    except IndexError:
        begin = SimpleQueue()
        threading.Thread(target=_keep, args=(begin, _kept), daemon=True).start()
    begin.put(work)


def _keep(begin: SimpleQueue[Work], kept: list[SimpleQueue[Work]]) -> None:
    while True:
        begin.get()()
        kept.append(begin)


def _step(work: Waits[Any]) -> Pause | WaitResult:
    try:
        return Pause(next(work))
    except StopIteration as over:
        return WaitResult(over.value)


def _begun(function: Callable[..., T], *args: Any) -> Future[T]:
    """
    Begin *function* in a thread; where no thread can be started, do it here and now.

    The thread is one of our own: the work may fill the executor of its loop, and must find it free.
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
    os.register_at_fork(after_in_child=_kept.clear)


class _Once:
    """Calls *function* the first time it is called, and never again."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._free = threading.Lock()

    def __call__(self) -> Any:
        return self._function() if self._free.acquire(blocking=False) else None


async def _to_its_end(running: Future[Any]) -> None:
    """Wait until *running* is over, whatever is cancelled meanwhile."""
    import asyncio

    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            continue
