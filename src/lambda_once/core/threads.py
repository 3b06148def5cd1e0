"""Threads and event loops that are kept: to start one costs more than to use it again. And a lock."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from lambda_once.core.clock import has_running_loop
from lambda_once.errors import Misconfigured, RetryLater

if TYPE_CHECKING:
    from asyncio import Runner
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    Work = Callable[[], Callable[[], object] | None]

T = TypeVar("T")


class Exclusive:
    """
    A lock for what one thread at a time does, and that thread only once: ``with lock.alone(): …``.

    Other threads wait. A call on the same thread, by a signal handler or a finaliser that interrupts the
    first, would wait for itself: it raises `RetryLater`, and nothing has run.

    Who has it is asked of the lock itself, and the ``with`` is the interpreter's: what a signal handler
    raises in between leaves neither the lock nor a note of its owner behind.
    """

    __slots__ = ("_held", "_lock", "_what")

    def __init__(self, what: str) -> None:
        """Take *what* is being done, for the message, such as "the client is being made"."""
        self._what = what
        self._lock = threading.RLock()
        self._held = threading.Condition(self._lock)

    def alone(self) -> AbstractContextManager[object]:
        """Return what holds the lock in a ``with``. Raises `RetryLater` if this thread has it."""
        self.check()
        return self._lock

    def check(self) -> None:
        """Raise `RetryLater` if this thread has it, for a call that would wait in another thread."""
        try:
            self._held.notify(0)  # nobody waits; a thread without the lock may not notify
        except RuntimeError:
            return
        raise RetryLater(
            f"{self._what} on this thread, in the call that this one interrupts: nothing ran. "
            "In a signal handler or finaliser, only note what is to be done, and call later"
        )


def exiting() -> RetryLater:
    """Return the error where `sys.is_finalizing`: imports fail then, and other threads stand still."""
    return RetryLater("the interpreter is exiting, and no request is sent any more: nothing ran")


_kept: list[SimpleQueue[Work]] = []
"""The queue of each idle thread."""


def in_kept_thread(work: Work) -> None:
    """
    Begin *work* in a thread that is kept for later work. Raises RuntimeError if none can be started.

    A function that *work* returns is called when the thread is idle again, so whoever it wakes can use the
    thread at once. As many are kept as were ever busy at the same time. They are daemons: a request that
    hangs keeps no process from ending.
    """
    try:
        begin = _kept.pop()
    except IndexError:
        begin = SimpleQueue()
        threading.Thread(target=_keep, args=(begin, _kept), daemon=True).start()
    begin.put(work)


def _keep(begin: SimpleQueue[Work], kept: list[SimpleQueue[Work]]) -> None:
    while True:
        publish = begin.get()()
        kept.append(begin)
        if publish is not None:
            publish()
        del publish  # it has a response, which an idle thread would keep


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_kept.clear)


# ---------------------------------------------------------------- event loops

_loops = threading.local()


class _ThreadsLoop:
    """The event loop of a thread; closed when the thread ends."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._loop = runner.get_loop()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then what closing needs may be gone
            self._loop.close()


def new_runner() -> Runner:
    """
    Return a runner with an event loop of its own, which doesn't become the thread's current one.

    ``asyncio.run`` and a runner as it comes leave a thread without any, but a handler may ask for it
    (``asyncio.get_event_loop()``, as Mangum does) in each later invocation.
    """
    import asyncio

    return asyncio.Runner(loop_factory=asyncio.new_event_loop)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run *coroutine* to its end on this thread's event loop.

    The loop lives as long as its thread, so that clients bound to a loop can be reused. It cannot run inside
    another loop: raises `Misconfigured` there (in an async test, call the handler with
    ``await asyncio.to_thread(handler, event, context)``).
    """
    from contextvars import copy_context

    if has_running_loop():
        coroutine.close()
        raise Misconfigured(
            "the handler was called from a running event loop; call it outside one, "
            "in an async test with `await asyncio.to_thread(handler, event, context)`"
        )
    if getattr(_loops, "own", None) is None:
        _loops.own = _ThreadsLoop(new_runner())
    own: _ThreadsLoop = _loops.own
    return own.runner.run(coroutine, context=copy_context())  # its own is as old as the runner


def run_apart(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* on a new event loop, in another thread if this one already runs a loop."""
    from contextvars import copy_context

    def run() -> T:
        with new_runner() as runner:
            return runner.run(coroutine)

    if not has_running_loop():
        return run()
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, run).result()
